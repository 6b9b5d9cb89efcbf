"""Spark DataFrames and mappings as tables: what comes out, in which types, when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from tests.waiting import eventually

Query = Callable[[str], list[tuple[Any, ...]]]


def test_a_registered_frame_is_a_table(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    frame = session.createDataFrame([(1, "a"), (2, None), (3, "c")], "id INT, name STRING")
    connection.register("people", frame)
    assert sorted(cursor.execute("SELECT * FROM people").fetchall()) == [
        (1, "a"),
        (2, None),
        (3, "c"),
    ]
    assert cursor.execute("SELECT name FROM people WHERE id = ?", (3,)).fetchall() == [("c",)]
    assert cursor.execute("SELECT COUNT(*) FROM people").fetchall() == [(3,)]
    described = [(item[0], str(item[1])) for item in cursor.description or []]
    assert described == [("COUNT(*)", "BIGINT")]


@pytest.mark.usefixtures("making_code")
def test_a_million_rows(session: Any, connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    connection.register(
        "numbers",
        session.range(0, 1_000_000, 1, 7).selectExpr(
            "id", "id % 10 AS k", "CAST(id AS STRING) AS s"
        ),
    )
    table = cursor.execute("SELECT * FROM numbers").fetch_arrow_table()
    assert table.num_rows == 1_000_000
    assert table.schema == pa.schema([("id", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
    assert sum(table.column("id").to_pylist()) == 499_999_500_000
    assert all(chunk.nbytes < 4 << 20 for chunk in table.column("id").chunks)


@pytest.mark.usefixtures("making_code")
def test_progress_tells_the_tasks_of_spark(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("many", session.range(0, 4_000_000, 1, 40))
    cursor.execute("SELECT id FROM many")
    cursor.fetchone()
    told = cursor.progress()
    assert told is not None
    assert told.share is not None
    assert told.steps[0].tasks == 40
    assert 0 < told.steps[0].tasks_done < 40
    assert "of 40 tasks" in str(told)
    # Of a query with a shuffle: one task per partition of its input, and those that give rows,
    # however often they are listed.
    grouped = session.range(0, 40, 1, 40).selectExpr("id * 2 AS k").groupBy("k").count()
    connection.register("long", grouped.selectExpr("explode(sequence(1, 100000)) AS n"))
    cursor.execute("SELECT n FROM long")
    assert cursor.fetchone() is not None

    def counted() -> tuple[int, int]:
        told = cursor.progress()
        assert told is not None
        return told.steps[0].tasks_done, told.steps[0].tasks

    # Spark's own count of what is done comes some time after it.
    assert eventually(lambda: counted() in ((41, 41), (42, 42)))


def test_no_rows(session: Any, connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    connection.register("none", session.range(0).selectExpr("id", "'x' AS s"))
    table = cursor.execute("SELECT * FROM none").fetch_arrow_table()
    assert table.num_rows == 0
    assert table.schema == pa.schema([("id", pa.int64()), ("s", pa.string())])
    assert cursor.execute("SELECT COUNT(*), MAX(id) FROM none").fetchall() == [(0, None)]
    connection.register(
        "nothing", session.sql("SELECT x FROM VALUES (1) AS t(x) WHERE false")
    )  # without any partition
    assert cursor.execute("SELECT * FROM nothing").fetchall() == []


def test_many_small_partitions(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("many", session.range(0, 3000, 1, 300))
    assert sorted(cursor.execute("SELECT id FROM many").fetchall()) == [(i,) for i in range(3000)]


def test_names_that_repeat_or_are_odd(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    frame = session.sql("SELECT 1 AS a, 2 AS A, 3 AS `b.c`, 4 AS `ti``ck`")
    connection.register("odd", frame)
    assert cursor.execute("SELECT * FROM odd").fetchall() == [(1, 2, 3, 4)]
    assert [item[0] for item in cursor.description or []] == ["a", "A_1", "b.c", "ti`ck"]
    assert cursor.execute('SELECT "b.c" + a_1 FROM odd WHERE "ti`ck" = 4').fetchall() == [(5,)]


TYPES = [
    ("CAST(NULL AS INT)", "INTEGER", None),
    ("TRUE", "BOOLEAN", True),
    ("CAST(-128 AS TINYINT)", "TINYINT", -128),
    ("CAST(-32768 AS SMALLINT)", "SMALLINT", -32768),
    ("2147483647", "INTEGER", 2147483647),
    ("-9223372036854775808L", "BIGINT", -(2**63)),
    ("CAST(1.5 AS FLOAT)", "REAL", 1.5),
    ("CAST(0.1 AS DOUBLE)", "DOUBLE", 0.1),
    (
        "CAST(12345678901234567890123456789012345678 AS DECIMAL(38, 0))",
        "DECIMAL(38, 0)",
        Decimal("12345678901234567890123456789012345678"),
    ),
    ("CAST(-1.50 AS DECIMAL(10, 2))", "DECIMAL(10, 2)", Decimal("-1.50")),
    ("'Grüße 🦀'", "VARCHAR", "Grüße 🦀"),
    ("CAST('x' AS VARCHAR(5))", "VARCHAR", "x"),
    ("'Ab' COLLATE UTF8_LCASE", "VARCHAR", "Ab"),
    ("X'00FF'", "VARBINARY", b"\x00\xff"),
    ("DATE '0001-01-01'", "DATE", date(1, 1, 1)),
    ("TIME '23:59:59.999999'", "TIME", time(23, 59, 59, 999999)),
    (
        "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'",
        "TIMESTAMP",
        datetime(1969, 12, 31, 23, 59, 59, 999999),
    ),
    (
        "TIMESTAMP '2024-02-29 12:00:00+00:00'",
        "TIMESTAMP WITH TIME ZONE",
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ),
    (
        "TIMESTAMP '2024-02-29 12:00:00'",
        "TIMESTAMP WITH TIME ZONE",
        datetime(2024, 2, 29, 3, tzinfo=UTC),
    ),
    (
        "INTERVAL '-1 02:03:04.000005' DAY TO SECOND",
        "INTERVAL DAY TO SECOND",
        -timedelta(1, 7384, 5),
    ),
    ("INTERVAL '3' HOUR", "INTERVAL DAY TO SECOND", timedelta(hours=3)),
    ("INTERVAL '-2-3' YEAR TO MONTH", "INTERVAL YEAR TO MONTH", runnel.Interval(-27)),
    ("ARRAY(1L, NULL, 3L)", "BIGINT[]", [1, None, 3]),
    ("ARRAY(ARRAY('a'), NULL)", "VARCHAR[][]", [["a"], None]),
    ("NAMED_STRUCT('x', 1, 'y', ARRAY('b'))", "ROW(x INTEGER, y VARCHAR[])", {"x": 1, "y": ["b"]}),
    ("MAP('k', 1.5D)", "MAP(VARCHAR, DOUBLE)", {"k": 1.5}),
    ("PARSE_JSON('{\"a\": [1, null]}')", "JSON", '{"a":[1,null]}'),
    ("ARRAY(TIMESTAMP_NTZ '2024-02-29 00:00:00')", "TIMESTAMP[]", [datetime(2024, 2, 29)]),
]


def test_types(session: Any, connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    columns = ", ".join(f"{text} AS c{i}" for i, (text, _, _) in enumerate(TYPES))
    connection.register("t", session.sql(f"SELECT {columns}"))
    row = cursor.execute("SELECT * FROM t").fetchone()
    assert row is not None
    found = [
        (str(item[1]), value) for item, value in zip(cursor.description or [], row, strict=True)
    ]
    assert found == [(name, value) for _, name, value in TYPES]


def test_special_numbers(query: Query) -> None:
    rows = query("SELECT CAST('NaN' AS DOUBLE), CAST('Infinity' AS FLOAT), -0.0D")
    assert repr(rows) == "[(nan, inf, -0.0)]"


def test_a_column_without_a_type_of_ours_spoils_no_other(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register(
        "t", session.sql("SELECT 1 AS a, MAKE_INTERVAL(1, 2) AS b, ARRAY(INTERVAL '1' DAY) AS c")
    )
    assert cursor.execute("SELECT a FROM t").fetchall() == [(1,)]
    for column, reason in (
        ("b", "Spark type interval is not supported"),
        ("c", "inside of another"),
    ):
        with pytest.raises(
            runnel.NotSupportedError, match=f'column "{column}" of "t" can\'t be read'
        ) as failure:
            cursor.execute(f"SELECT {column} FROM t").fetchall()
        assert reason in str(failure.value)


def test_sessions_settings_do_not_matter(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    # The session is lenient and in Tokyo: its own DataFrames are so, but nothing that Runnel
    # computes over them.
    connection.register(
        "t",
        session.sql(
            "SELECT 0 AS zero, CAST('x' AS INT) AS lenient, TIMESTAMP '2024-01-01 00:00:00' AS ts"
        ),
    )
    assert cursor.execute("SELECT lenient, ts FROM t").fetchall() == [
        (None, datetime(2023, 12, 31, 15, tzinfo=UTC))
    ]
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.execute("SELECT 1 / zero FROM t").fetchall()
    assert session.conf.get("spark.sql.ansi.enabled") == "false"
    assert session.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_rows_come_before_the_last_partition_ran(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    gate, seen = tmp_path / "gate", tmp_path / "seen"
    seen.mkdir()

    def held(batches: Any) -> Any:
        import time as inner_time

        import pyspark

        number = pyspark.TaskContext.get().partitionId()
        (seen / str(number)).touch()
        until = inner_time.monotonic() + 200
        while number >= 60 and not gate.exists() and inner_time.monotonic() < until:
            inner_time.sleep(0.01)
        yield from batches

    def is_running() -> bool:
        return bool(session.sparkContext.statusTracker().getActiveJobsIds())

    connection.register("slow", session.range(0, 6000, 1, 100).mapInArrow(held, "id BIGINT"))
    cursor.execute("SELECT id FROM slow")
    first = cursor.fetchmany(50)
    assert len(first) == 50
    # Those behind the gate keep Spark's cores busy, so the last one hasn't even begun.
    assert not (seen / "99").exists()
    gate.touch()
    assert sorted(first + cursor.fetchall()) == [(number,) for number in range(6000)]
    assert len(list(seen.iterdir())) == 100

    gate.unlink()
    (seen / "99").unlink()
    cursor.execute("SELECT id + 1 FROM slow")
    assert cursor.fetchone() is not None
    assert is_running()
    cursor.close()
    assert eventually(lambda: not is_running()), "nobody opens the gate: Spark was told to stop"
    assert not (seen / "99").exists()


def peak_memory() -> int:
    return next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if "VmHWM" in line
    )


@pytest.mark.usefixtures("making_code")
def test_memory_is_bounded_whatever_comes(session: Any) -> None:
    """300 MB of rows of 5 KB through a cursor of a connection with 32 MB: what waits for the reader
    is counted in bytes."""
    with runnel.connect(spark=session, memory_limit="32MB") as connection:
        connection.register(
            "wide",
            session.range(0, 60_000, 1, 20).selectExpr(
                "id", "repeat(CHAR(65 + id % 26), 5000) AS s"
            ),
        )
        cursor = connection.cursor()
        cursor.execute("SELECT id, s FROM wide WHERE id >= 0")
        rows = total = 0
        Path("/proc/self/clear_refs").write_text("5")  # the peak is measured anew
        before = peak_memory()
        for batch in cursor.fetch_record_batch():
            rows, total = rows + batch.num_rows, total + batch.nbytes
        grown = peak_memory() - before
    assert rows == 60_000
    assert total > 300_000_000
    assert grown < 150_000_000


def test_two_connections_and_many_threads(session: Any) -> None:
    failures: list[BaseException] = []
    with runnel.connect(spark=session) as one, runnel.connect() as other:
        one.register("t", session.range(100))
        other.register("t", session.range(100))

        def work(connection: runnel.Connection) -> None:
            try:
                for _ in range(3):
                    assert len(connection.execute("SELECT id FROM t").fetchall()) == 100
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(item,)) for item in (one, other, one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not failures
    assert session.range(3).count() == 3, "a session that was given goes on"


def test_join_with_a_map(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register(
        "orders",
        session.range(0, 1000).selectExpr(
            "id", "CAST(id % 3 AS STRING) AS customer", "id * 2.5D AS total"
        ),
    )
    cursor.execute(
        "CREATE MAPPING customers (__key VARCHAR, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'json-flat')"
    )
    cursor.executemany("SINK INTO customers VALUES (?, ?)", [("0", "Ada"), ("1", "Bo")])
    found = cursor.execute(
        "SELECT name, COUNT(*), SUM(total) FROM orders JOIN customers ON customer = __key "
        "GROUP BY name ORDER BY name"
    ).fetchall()
    assert found == [("Ada", 334, 417082.5), ("Bo", 333, 415417.5)]
