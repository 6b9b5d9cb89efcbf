"""Which Spark session a connection has, when it is started, and what is wrong with another one. One
that is ours starts in tests/test_examples.py, in the process of the examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import runnel
from tests.spark_process import missing


def run(script: str, **environment: str) -> str:
    """What a program prints on both of its outputs, warnings being errors."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYSPARK_PYTHON", "JAVA_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.stdout + done.stderr


def test_other_work_starts_nothing() -> None:
    script = """
import sys, runnel

with runnel.connect(spark="local[1]") as connection:
    connection.execute(
        "CREATE MAPPING t (id BIGINT) TYPE Spark OPTIONS ('format' = 'parquet', "
        "'path' = '/nowhere')"
    )
    print(connection.execute("SELECT 1").fetchall(), connection.execute("SHOW MAPPINGS").fetchone())
print("pyspark" in sys.modules, "py4j" in sys.modules)
"""
    assert run(script) == "[(1,)] ('t', 'Spark', None, 'id BIGINT')\nFalse False\n"


FAILING = """
import runnel
try:
    runnel.connect().execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 't')")
except runnel.Error as error:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    print(*(kinds & {"OperationalError", "InterfaceError"}), error)
"""


def test_without_java() -> None:
    assert (
        "Spark needs Java 17 or later, and there is none on the PATH\nHINT: install one"
    ) in run(FAILING, PATH="")
    found = run(FAILING, JAVA_HOME="/no/where")
    assert (
        'Spark needs Java, and JAVA_HOME is "/no/where", where there is none\nHINT: set JAVA_HOME'
    ) in found


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(
        "#!/bin/sh\necho 'java.lang.UnsupportedClassVersionError: class file version 61.0' >&2\n"
        "exit 1\n"
    )
    java.chmod(0o755)
    found = run(FAILING, JAVA_HOME=str(tmp_path))
    assert f"Spark needs Java 17 or later, and {java} is of an older version\n" in found
    assert "HINT: put a newer one first on the PATH, or set JAVA_HOME to its folder" in found


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_master_that_is_not_there() -> None:
    found = run(FAILING.replace("connect()", "connect(spark='spark://127.0.0.1:1,127.0.0.1:2')"))
    assert (
        'OperationalError no Spark master answers at "spark://127.0.0.1:1,127.0.0.1:2"\n' in found
    )
    assert "HINT: check the address, and that the master runs" in found


def test_without_pyspark() -> None:
    found = run("import sys\nsys.modules['pyspark'] = None\n" + FAILING)
    assert 'InterfaceError the package "pyspark" is not installed' in found
    assert "HINT: install it with: pip install 'runnel[spark]'" in found


def test_a_second_session_is_refused(session: Any, connection: runnel.Connection) -> None:
    other = session.newSession()
    with pytest.raises(
        runnel.ProgrammingError, match="belongs to another Spark session"
    ) as failure:
        connection.register("t", other.range(1))
    assert "open a second connection" in str(failure.value)
    connection.register("t", session.range(1))
    with runnel.connect() as second:
        second.register("t", other.range(2))
        assert second.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)


def test_a_frame_of_another_master(session: Any) -> None:
    with (
        runnel.connect(spark="local[7]") as connection,
        pytest.raises(runnel.ProgrammingError) as failure,
    ):
        connection.register("t", session.range(1))
    master = session.sparkContext.master
    assert (
        f'on "{master}", but this connection was opened with spark="local[7]"'
        in failure.value.message
    )


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (
            5,
            runnel.InterfaceError,
            "accepts a SparkSession or a master URL, not a value of class int",
        ),
        ("lokal[2]", runnel.ProgrammingError, '"lokal[2]" is not the master URL of a Spark'),
        ("", runnel.ProgrammingError, '"" is not the master URL of a Spark'),
        (
            {"driver.memory": "1g"},
            runnel.ProgrammingError,
            '"driver.memory" is not a setting of Spark',
        ),
        (
            {"spark.master": "lokal"},
            runnel.ProgrammingError,
            '"lokal" is not the master URL of a Spark',
        ),
    ],
)
def test_what_is_no_session(given: object, kind: type[runnel.Error], text: str) -> None:
    with pytest.raises(kind) as failure:
        runnel.connect(spark=given)
    assert text in failure.value.message


@pytest.mark.usefixtures("making_code")
def test_a_frame_and_the_session_outlive_the_connection(session: Any) -> None:
    frame = session.range(5)
    with runnel.connect() as connection:
        connection.register("t", frame)
        cursor = connection.execute("SELECT id FROM t")
    with pytest.raises(runnel.InterfaceError):
        cursor.fetchall()
    assert frame.count() == 5
    assert not [
        item.name for item in session.catalog.listTables() if item.name.startswith("runnel")
    ]


def test_registering_again_and_taking_back(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("t", session.range(5))
    cursor.execute("SELECT COUNT(*) FROM t")
    connection.register("t", session.sql("SELECT 'x' AS s"))
    assert cursor.execute("SELECT * FROM t").fetchall() == [("x",)]
    connection.unregister("t")
    with pytest.raises(runnel.ProgrammingError, match='"t" not found'):
        cursor.execute("SELECT * FROM t")
