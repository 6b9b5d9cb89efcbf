"""Recognizes errors that Spark reports in internal terms, and says what is wrong and what to do."""

from __future__ import annotations

import re

from runnel.connectors.spark.conversion import changed
from runnel.errors import DataError, Error, ErrorCode, OperationalError

_MISSING_CLASS = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError)\)?:?\s+(?:Class )?([\w$]+(?:[./][\w$]+)+)"
)
_SCHEME = re.compile(r'No FileSystem for scheme:?\s*"?([\w+.-]+)"?')
_OTHER_TYPE = re.compile(
    r"reading file (.+?)\.\s+Data type mismatche?s? when reading Parquet column (.+?)\.\s+"
    r"Expected Spark type (.+?), actual Parquet type (\w+)",
    re.DOTALL,
)
_OTHER_HEADER = re.compile(
    r"CSV header (?:does not conform to the schema|is not equal).*?"
    r"(?:Expected: (?P<expected>[^\n]*?) but found: (?P<found>[^\n]*)\s+)?CSV file: (?P<file>[^\n"
    r"]+)",
    re.DOTALL,
)
_MALFORMED = re.compile(
    r"reading file (.+?)\.\s.*?\[MALFORMED_RECORD_IN_PARSING\S*\] "
    r"Malformed records are detected in record parsing: (.*?)\.\s",
    re.DOTALL,
)
_HOST = re.compile(r"UnknownHostException\)?:?\s+(\S+)")

_DRIVERS = {
    "org.postgresql.Driver": "org.postgresql:postgresql:VERSION",
    "com.mysql.jdbc.Driver": "com.mysql:mysql-connector-j:VERSION",
    "com.mysql.cj.jdbc.Driver": "com.mysql:mysql-connector-j:VERSION",
    "org.mariadb.jdbc.Driver": "org.mariadb.jdbc:mariadb-java-client:VERSION",
    "com.microsoft.sqlserver.jdbc.SQLServerDriver": (
        "com.microsoft.sqlserver:mssql-jdbc:VERSION.jre11"
    ),
    "oracle.jdbc.OracleDriver": "com.oracle.database.jdbc:ojdbc11:VERSION",
    "oracle.jdbc.driver.OracleDriver": "com.oracle.database.jdbc:ojdbc11:VERSION",
    "org.sqlite.JDBC": "org.xerial:sqlite-jdbc:VERSION",
    "org.h2.Driver": "com.h2database:h2:VERSION",
    "org.duckdb.DuckDBDriver": "org.duckdb:duckdb_jdbc:VERSION",
}
"""The packages of JDBC drivers, by their classes."""
_STORES = (
    ("s3a://", ".fs.s3a.", "org.apache.hadoop:hadoop-aws:VERSION"),
    ("abfs:// and abfss://", ".fs.azurebfs.", "org.apache.hadoop:hadoop-azure:VERSION"),
    ("wasb:// and wasbs://", ".fs.azure.", "org.apache.hadoop:hadoop-azure:VERSION"),
    ("gs://", ".fs.gcs.", "com.google.cloud.bigdataoss:gcs-connector:VERSION"),
    ("gs://", ".fs.gs.", "org.apache.hadoop:hadoop-gcp:VERSION"),
)
"""For each store: the prefix of its URLs, a part of its class names, and its package."""
_SCHEMES = {
    "s3": "write s3a://…",
    "s3n": "write s3a://…",
    "gs": "start Spark with spark.jars.packages=" + _STORES[3][2],
}
_HADOOP = (
    ", where VERSION is the version of Spark's own Hadoop (the file "
    "hadoop-client-api-VERSION.jar among Spark's)"
)


def fault_of(raw: str, text: str) -> Error | None:
    """The error for Spark's message, if it is one of these; else None.

    `raw` has all lines, `text` the lines for readers.
    """
    return _of_file(text) or _of_address(raw, text)


def _of_file(text: str) -> Error | None:
    """The error for a file without the columns of the mapping."""
    found = _OTHER_TYPE.search(text)
    if found is not None:
        file, column, expected, actual = found.groups()
        return changed(
            f"column {column.strip('[]<>')} of file {file} is {actual}, "
            f"and not {expected} as in the mapping",
            text,
        )
    found = _OTHER_HEADER.search(text)
    if found is not None:
        return _of_header(found, text)
    found = _MALFORMED.search(text)
    if found is None:
        return None
    return DataError(
        f"malformed record in file {found.group(1)}: {found.group(2)}",
        detail=text,
        hint=(
            "correct the file, or the columns and options of the mapping, such as 'header' and "
            "'sep' of CSV files"
        ),
    )


def _of_address(raw: str, text: str) -> Error | None:
    """The error for an address that Spark cannot reach, because a package is missing or in
    general."""
    found = _HOST.search(raw)
    if found is not None:
        return _missing(f'Spark finds no computer "{found.group(1)}"', text, "correct the address")
    if "No suitable driver" in text:
        return _missing(
            'Spark has no JDBC driver for the address in the option "url"',
            text,
            "start Spark with the driver's package "
            f"(spark.jars.packages={_DRIVERS['org.postgresql.Driver']} for one), "
            "and name its class in the option 'driver'",
        )
    found = _SCHEME.search(text)
    if found is not None:
        scheme = found.group(1)
        otherwise = (
            "correct the address, or start Spark with the package that knows it: its setting "
            "spark.jars.packages names it"
        )
        return _missing(
            f'Spark knows no addresses that begin with "{scheme}://"',
            text,
            _SCHEMES.get(scheme, otherwise),
        )
    for found in _MISSING_CLASS.finditer(raw):
        if not found.group(1).endswith("DefaultSource"):  # `_hint` in errors.py is clearer
            return _of_class(found.group(1).replace("/", "."), text)
    return None


def _of_header(found: re.Match[str], text: str) -> Error:
    expected = found.group("expected")
    other = (
        ""
        if expected is None
        else f': it has "{found.group("found")}" where the mapping has "{expected}"'
    )
    error = changed(
        f"the header of file {found.group('file')} has other columns than the mapping{other}", text
    )
    error.hint = (
        f"{error.hint}; 'enforceSchema' = 'true' matches columns by position and ignores the header"
    )
    return error


def _of_class(name: str, text: str) -> Error:
    for scheme, part, package in _STORES:
        if part in name:
            return _missing(
                f"Spark can't reach addresses that begin with {scheme}: it has no class {name}",
                text,
                f"start Spark with spark.jars.packages={package}"
                + (_HADOOP if "org.apache.hadoop:" in package else ""),
            )
    driver = _DRIVERS.get(name)
    what = "JDBC driver" if driver is not None or name.endswith(("Driver", "JDBC")) else "class"
    where = f"={driver}" if driver is not None else ", which names the package that has it"
    return _missing(
        f"Spark has no {what} {name}",
        text,
        f"correct the name, or start Spark with spark.jars.packages{where}",
    )


def _missing(message: str, text: str, hint: str) -> Error:
    return OperationalError(message, code=ErrorCode.GENERIC, detail=text, hint=hint)
