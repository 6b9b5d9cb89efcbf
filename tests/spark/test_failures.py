"""Failures in Spark, and ending what runs there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.connectors.spark.errors import spark_error
from runnel.connectors.spark.session.fetch import Fetch
from tests.waiting import eventually

Query = Callable[[str], list[tuple[Any, ...]]]

PAUSE = 0.02
"""Between two looks at what Spark does, which is work for it."""

ENDLESS = "SELECT MAX(a.id * b.id % 7) AS m FROM RANGE(10000000) a, RANGE(10000000) b"


def active_jobs(session: Any) -> list[int]:
    return list(session.sparkContext.statusTracker().getActiveJobsIds())


def active_stages(session: Any) -> list[int]:
    return list(session.sparkContext.statusTracker().getActiveStageIds())


@pytest.fixture
def endless(session: Any, connection: runnel.Connection) -> None:
    connection.register("endless", session.sql(ENDLESS))


def test_closing_the_cursor_cancels_the_job(
    session: Any, endless: None, cursor: runnel.Cursor
) -> None:
    cursor.execute("SELECT m FROM endless")
    assert eventually(lambda: bool(active_stages(session)), longest=PAUSE)
    cursor.close()
    assert eventually(
        lambda: not active_jobs(session) and not active_stages(session), longest=PAUSE
    )


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_cancelled_shuffle_can_run_again(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def held(batches: Any) -> Any:
        import time as inner_time

        until = inner_time.monotonic() + 60
        while not gate.exists() and inner_time.monotonic() < until:
            inner_time.sleep(0.01)
        yield from batches

    frame = (
        session.range(0, 100, 1, 2)
        .mapInArrow(held, "id BIGINT")
        .selectExpr("id % 3 AS k")
        .groupBy("k")
        .count()
    )
    connection.register("grouped", frame)
    cursor.execute("SELECT * FROM grouped")
    assert eventually(lambda: bool(active_jobs(session)), longest=PAUSE)
    cursor.close()
    assert eventually(lambda: not active_jobs(session), longest=PAUSE)
    gate.touch()
    assert sorted(connection.execute("SELECT * FROM grouped").fetchall()) == [
        (0, 34),
        (1, 33),
        (2, 33),
    ]


def test_cancel_from_another_thread(session: Any, endless: None, cursor: runnel.Cursor) -> None:
    cursor.execute("SELECT m FROM endless")
    assert eventually(lambda: bool(active_jobs(session)), longest=PAUSE)
    canceller = threading.Thread(target=cursor.cancel)
    canceller.start()
    with pytest.raises(runnel.OperationalError) as failure:
        cursor.fetchall()
    canceller.join()
    assert failure.value.code == runnel.ErrorCode.CANCELLED
    assert eventually(lambda: not active_jobs(session), longest=PAUSE)


def test_time_out(session: Any, endless: None, cursor: runnel.Cursor) -> None:
    with pytest.raises(runnel.OperationalError, match="longer than its time-out") as failure:
        cursor.execute("SELECT m FROM endless", timeout=1).fetchall()
    assert failure.value.code == runnel.ErrorCode.TIMEOUT
    assert eventually(lambda: not active_jobs(session), longest=PAUSE)


def test_closing_the_connection_ends_its_jobs_only(session: Any) -> None:
    with runnel.connect(spark=session) as connection:
        connection.register("endless", session.sql(ENDLESS))
        cursor = connection.execute("SELECT m FROM endless")
        assert eventually(lambda: bool(active_jobs(session)), longest=PAUSE)
    assert eventually(lambda: not active_jobs(session), longest=PAUSE)
    with pytest.raises(runnel.InterfaceError):
        cursor.fetchall()
    assert session.range(4).count() == 4


def test_a_job_that_the_program_cancels(session: Any, endless: None, cursor: runnel.Cursor) -> None:
    cursor.execute("SELECT m FROM endless")
    assert eventually(lambda: bool(active_jobs(session)), longest=PAUSE)
    session.sparkContext.cancelAllJobs()
    with pytest.raises(runnel.OperationalError, match="the Spark job was cancelled") as failure:
        cursor.fetchall()
    assert failure.value.code == runnel.ErrorCode.CANCELLED


def test_a_limit_ends_the_scan(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    # A trillion rows: it must be told to Spark how few of them are wanted.
    connection.register("t", session.range(0, 10**12, 1, 40))
    assert len(cursor.execute("SELECT id FROM t LIMIT 3 OFFSET 2").fetchall()) == 3
    assert len(cursor.execute("SELECT id FROM t LIMIT 5").fetchall()) == 5
    assert eventually(lambda: not active_jobs(session), longest=PAUSE)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("SELECT 1 / CAST(id AS INT) FROM RANGE(3)", runnel.DataError, "division by zero"),
        ("SELECT id + 9223372036854775807 FROM RANGE(3)", runnel.DataError, "overflow in Spark"),
        (
            "SELECT CAST(CONCAT('a', id) AS INT) FROM RANGE(1)",
            runnel.DataError,
            "the value 'a0' of the type \"STRING\" cannot be cast",
        ),
        ("SELECT RAISE_ERROR('gone wrong') AS x", runnel.OperationalError, "gone wrong"),
        (
            "SELECT nope FROM RANGE(3)",
            runnel.ProgrammingError,
            "with name `nope` cannot be resolved",
        ),
        ("SELECT * FROM nope", runnel.ProgrammingError, "the table or view `nope` cannot be found"),
        ("SELEC", runnel.ProgrammingError, "syntax error at or near 'SELEC'"),
        (
            "DROP VIEW kept",
            runnel.ProgrammingError,
            "is not a query: syntax error at or near 'DROP'",
        ),
    ],
)
def test_errors(
    session: Any, query: Query, text: str, kind: type[runnel.Error], message: str, capfd: Any
) -> None:
    session.range(1).createOrReplaceTempView("kept")
    session.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(kind) as failure:
            query(text)
    finally:
        session.conf.set("spark.sql.ansi.enabled", "false")
    assert session.catalog.dropTempView("kept"), "no command was run"
    assert message in failure.value.message
    assert "\n" not in failure.value.message
    assert "\tat " not in str(failure.value)
    assert capfd.readouterr().err == ""


def test_paths_and_tables_that_are_not_there(cursor: runnel.Cursor, tmp_path: Path) -> None:
    with pytest.raises(runnel.ProgrammingError, match="path does not exist") as failure:
        cursor.execute(
            "CREATE MAPPING t TYPE Spark OPTIONS ('format' = 'parquet', "
            f"'path' = '{tmp_path}/none')"
        )
    assert "declare the columns" in (failure.value.hint or "")
    with pytest.raises(runnel.ProgrammingError, match="`nope` cannot be found") as failure:
        cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'nope')")
    assert failure.value.code == runnel.ErrorCode.OBJECT_NOT_FOUND


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("parqet", 'did you mean "parquet"?'),
        ("Jsonn", 'did you mean "json"?'),
        ("Delta", "spark.jars.packages=io.delta:delta-spark_2.13:VERSION"),
        (
            "iceberg",
            "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION",
        ),
        (
            "com.example.zzz",
            (
                "Spark has parquet, orc, csv, json, "
                "text and what its setting spark.jars.packages names"
            ),
        ),
    ],
)
def test_a_format_that_spark_does_not_know(
    cursor: runnel.Cursor, tmp_path: Path, source: str, hint: str
) -> None:
    options = f"OPTIONS ('format' = '{source}', 'path' = '{tmp_path}')"
    with pytest.raises(runnel.ProgrammingError) as failure:
        cursor.execute(f"CREATE MAPPING t TYPE Spark {options}")
    assert failure.value.message == f"failed to find the data source: {source}"
    assert hint in (failure.value.hint or "")
    assert failure.value.detail is not None
    for noise in (
        "An error occurred while calling",
        "java.",
        "org.apache.spark",
        "Caused by",
        "DefaultSource",
    ):
        assert noise not in failure.value.detail
    # With its columns declared a mapping asks Spark for nothing until it is used.
    cursor.execute(f"CREATE MAPPING t (id BIGINT) TYPE Spark {options}")
    for statement in ("SELECT id FROM t", "INSERT INTO t VALUES (1)"):
        with pytest.raises(
            runnel.ProgrammingError, match=f"failed to find the data source: {source}"
        ) as failure:
            cursor.execute(statement).fetchall()
        assert hint in (failure.value.hint or "")


def test_what_java_adds_to_its_messages_is_left_out() -> None:
    said = RuntimeError(
        "An error occurred while calling o54.load.\n"
        ": org.apache.spark.SparkException: Job aborted.\n"
        "\tat org.apache.spark.sql.Dataset.load(Dataset.scala:1)\n"
        "Caused by: java.io.IOException: disk full\n"
        "\t... 11 more\n"
        "Caused by: java.io.IOException: disk full"
    )
    found = spark_error(said)
    assert isinstance(found, runnel.OperationalError)
    assert found.message == "Spark failed: Job aborted"
    assert found.detail == "Job aborted.\nCaused by: disk full"


def test_a_file_that_is_damaged(cursor: runnel.Cursor, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 this is none PAR1")
    cursor.execute(
        f"CREATE MAPPING t (id BIGINT) TYPE Spark OPTIONS ('path' = '{tmp_path}/a.parquet')"
    )
    with pytest.raises(runnel.OperationalError):
        cursor.execute("SELECT * FROM t").fetchall()


class HangingSpark:
    """A Spark whose Java process answers nothing until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = threading.Event()
        self.cancelled = threading.Event()
        self.ending: list[Any] = []

    def name(self, kind: str) -> str:
        return f"hanging {kind}"

    def began(self, running: Any) -> None:
        pass

    def ended(self, running: Any) -> None:
        self.ending.append(running)

    @contextmanager
    def group(self, name: str, description: str) -> Iterator[None]:
        self.asked.set()
        self.go.wait()
        yield

    def cancel(self, group: str) -> None:
        self.go.wait()
        self.cancelled.set()


def test_closing_does_not_wait_for_a_spark_that_hangs() -> None:
    spark: Any = HangingSpark()
    fetch = Fetch(spark, None, is_ordered=False, description="")
    fetch.add_reader()
    fetch.open(lambda: None)
    assert spark.asked.wait(30)
    fetch.close_reader()
    assert not spark.cancelled.is_set()
    assert not spark.ending
    spark.go.set()
    fetch.join(30)
    assert spark.cancelled.is_set()
    assert spark.ending == [fetch]


def test_what_is_no_error_of_spark_stays() -> None:
    own = runnel.DataError("x")
    assert spark_error(own) is own
    interrupt = KeyboardInterrupt()
    assert spark_error(interrupt) is interrupt
    found = spark_error(ConnectionRefusedError(111, "Connection refused"))
    assert isinstance(found, runnel.OperationalError)
    assert found.code == runnel.ErrorCode.CONNECTION_PROBLEM
    assert isinstance(spark_error(RuntimeError("What. Now")), runnel.OperationalError)
