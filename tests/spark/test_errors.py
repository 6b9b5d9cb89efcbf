"""What Spark's machinery says, as an error that names what is missing or doesn't fit, and the
remedy. Without a session."""

from __future__ import annotations

import pytest

import runnel
from runnel.connectors.spark.errors import spark_error

CALL = "An error occurred while calling o54.load.\n: "
STACK = "\n\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)\n\t... 11 more"


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: "
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            (
                "Spark can't reach addresses that begin with s3a://: it has no class "
                "org.apache.hadoop.fs.s3a.S3AFileSystem"
            ),
            (
                "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, where VERSION is the "
                "version of Spark's own Hadoop"
            ),
        ),
        (
            (
                "java.lang.NoClassDefFoundError: "
                "org/apache/hadoop/fs/azurebfs/SecureAzureBlobFileSystem"
            ),
            "Spark can't reach addresses that begin with abfs:// and abfss://",
            "spark.jars.packages=org.apache.hadoop:hadoop-azure:VERSION",
        ),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"',
            'Spark knows no addresses that begin with "gs://"',
            "spark.jars.packages=com.google.cloud.bigdataoss:gcs-connector:VERSION",
        ),
        (
            'No FileSystem for scheme "s3"',
            'Spark knows no addresses that begin with "s3://"',
            "write s3a://",
        ),
        (
            "java.lang.ClassNotFoundException: org.postgresql.Driver",
            "Spark has no JDBC driver org.postgresql.Driver",
            "spark.jars.packages=org.postgresql:postgresql:VERSION",
        ),
        (
            "(java.lang.ClassNotFoundException) com.example.OwnDriver",  # as Spark Connect says it
            "Spark has no JDBC driver com.example.OwnDriver",
            "spark.jars.packages, which names the package that has it",
        ),
        (
            "java.sql.SQLException: No suitable driver",
            'Spark has no JDBC driver for the address in the option "url"',
            "name its class in the option 'driver'",
        ),
        (
            "java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException",
            "Spark has no class software.amazon.awssdk.core.exception.SdkException",
            "start Spark with spark.jars.packages, which names the package that has it",
        ),
        (
            "[INVALID_DELIMITER_VALUE.EMPTY_STRING] Invalid value for delimiter. "
            "Delimiter cannot be empty string. SQLSTATE: 42602",
            "invalid value for delimiter: delimiter cannot be empty string",
            "correct the option 'sep'",
        ),
        (
            (
                "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while "
                "reading file file:///a/b.parquet. "
                "Data type mismatches when reading Parquet column [id]. "
                "Expected Spark type bigint, actual Parquet type BINARY. SQLSTATE: KD001"
            ),
            "column id of file file:///a/b.parquet is BINARY, and not bigint as in the mapping",
            "CREATE OR REPLACE MAPPING adopts the current columns",
        ),
        (
            "java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n"
            " Header: id, other\n Schema: id, name\n"
            "Expected: name but found: other\nCSV file: file:///a.csv",
            (
                "the header of file file:///a.csv has other columns than the mapping: it has "
                '"other" '
                'where the mapping has "name"'
            ),
            "'enforceSchema' = 'true' matches columns by position",
        ),
        (
            "java.lang.IllegalArgumentException: Number of column in CSV header "
            "is not equal to number of fields in the schema:\n"
            " Header length: 3, schema size: 2\nCSV file: file:///a.csv",
            "the header of file file:///a.csv has other columns than the mapping",
            "CREATE OR REPLACE MAPPING",
        ),
        (
            (
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a.csv.  "
                "SQLSTATE: KD001\n"
                "Caused by: org.apache.spark.SparkException: "
                "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected "
                "in record parsing: [null,name].\nParse Mode: FAILFAST."
            ),
            "malformed record in file file:///a.csv: [null,name]",
            "such as 'header' and 'sep' of CSV files",
        ),
        (
            "java.lang.IllegalArgumentException: java.net.UnknownHostException: nowhere",
            'Spark finds no computer "nowhere"',
            "correct the address",
        ),
    ],
)
def test_what_is_missing_or_does_not_fit(said: str, message: str, hint: str) -> None:
    for text in (CALL + said + STACK, "Job aborted.\nCaused by: " + said + STACK):
        found = spark_error(RuntimeError(text))
        assert isinstance(found, runnel.DatabaseError)
        assert message in found.message
        assert hint in (found.hint or "")
        assert "\n" not in found.message
        assert "\tat " not in str(found)


def test_passwords_are_not_told() -> None:
    url = "jdbc:postgresql://me:mine@db/x?user=me&password=mine"
    said = f"[FAILED_JDBC.CONNECTION] Failed JDBC {url} on the operation: no. SQLSTATE: HV000"
    found = str(spark_error(RuntimeError(said)))
    assert "jdbc:postgresql://me:****@db/x" in found
    assert "mine" not in found
