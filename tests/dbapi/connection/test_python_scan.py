"""`FROM df`: data frames by the names of the caller's variables."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import runnel
from runnel import Connection

frame_of_module = pd.DataFrame({"a": [1, 2, 3]})
hidden_by_a_local = pd.DataFrame({"a": [0]})


def total(connection: Connection, name: str) -> Any:
    """Reads a global variable of this module, and no variable of the caller."""
    return connection.execute(f"SELECT SUM(a) FROM {name}").fetchall()[0][0]


def test_each_kind_of_frame(connection: Connection) -> None:
    pandas_frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    polars_frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    lazy_frame = polars_frame.lazy()
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    batch = table.to_batches()[0]
    reader = pa.RecordBatchReader.from_batches(table.schema, [batch])
    dataset = pyarrow.dataset.dataset(table)
    kinds = {
        "pandas_frame": pandas_frame,
        "polars_frame": polars_frame,
        "lazy_frame": lazy_frame,
        "table": table,
        "batch": batch,
        "reader": reader,
        "dataset": dataset,
    }
    for name in kinds:
        rows = connection.sql(f'SELECT * FROM "{name}" ORDER BY a').fetchall()
        assert rows == [(1, "x"), (2, None)], name


def test_a_reader_is_read_once(connection: Connection) -> None:
    table = pa.table({"a": [1, 2]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with pytest.raises(runnel.OperationalError, match="only once"):
        connection.execute("SELECT * FROM reader x JOIN reader y ON x.a = y.a").fetchall()
    other = reader
    assert other is reader
    assert connection.sql("SELECT SUM(a) FROM reader").fetchall() == [(3,)]
    with pytest.raises(runnel.OperationalError, match="only once"):
        connection.sql("SELECT SUM(a) FROM other").fetchall()


def test_only_the_frame_of_the_caller(connection: Connection) -> None:
    local_frame = pd.DataFrame({"a": [9]})
    assert len(local_frame) == 1
    with pytest.raises(runnel.ProgrammingError, match='"local_frame" not found'):
        total(connection, "local_frame")
    assert total(connection, "frame_of_module") == 6
    hidden_by_a_local = pd.DataFrame({"a": [7]})
    assert len(hidden_by_a_local) == 1
    assert connection.sql("SELECT a FROM hidden_by_a_local").fetchall() == [(7,)]
    found = [connection.sql("SELECT a FROM local_frame").fetchall() for _ in range(2)]
    assert found == [[(9,)], [(9,)]]
    assert runnel.sql("SELECT a FROM local_frame").fetchall() == [(9,)]


def test_the_catalog_and_common_tables_come_first(connection: Connection) -> None:
    df = pd.DataFrame({"a": [1]})
    assert connection.sql("FROM df").fetchall() == [(1,)]
    assert connection.sql("WITH df AS (SELECT 2 AS a) FROM df").fetchall() == [(2,)]
    connection.register("df", pd.DataFrame({"a": [3]}))
    assert connection.sql("FROM df").fetchall() == [(3,)]
    connection.unregister("df")
    assert connection.sql("FROM df").fetchall() == [(1,)]
    assert len(df) == 1


def test_each_execution_reads_the_variable(connection: Connection) -> None:
    df: Any = pd.DataFrame({"a": [1]})
    statements = (
        "SELECT a FROM df",
        "SELECT a FROM (SELECT 5 AS a) AS t UNION ALL SELECT a FROM df WHERE FALSE",
    )
    for sql in statements:
        df = pd.DataFrame({"a": [1]})
        first = connection.execute(sql).fetchall()
        df = pl.DataFrame({"a": ["x"]})
        if "UNION" not in sql:
            assert first == [(1,)]
            assert connection.execute(sql).fetchall() == [("x",)]
        else:
            with pytest.raises(runnel.ProgrammingError):  # a number and a text have no common type
                connection.execute(sql)
        del df
        with pytest.raises(runnel.ProgrammingError, match='"df" not found'):
            connection.execute(sql)
    assert len(connection._database.plans) == 0


def test_nothing_keeps_the_frame_alive(connection: Connection) -> None:
    connection.execute("SET fragment_rows = 0")

    def read() -> weakref.ref[pd.DataFrame]:
        df = pd.DataFrame({"a": list(range(1000))})
        for sql in (
            "SELECT SUM(a) FROM df",
            "EXPLAIN SELECT SUM(a) FROM df",
            "SELECT a % 7, COUNT(*) FROM df GROUP BY a % 7",
            "SELECT 1 FROM df LIMIT 0",
        ):
            connection.execute(sql).fetchall()
        return weakref.ref(df)

    alive = read()
    gc.collect()
    assert alive() is None


def test_statements_that_outlive_the_variable(connection: Connection) -> None:
    df = pd.DataFrame({"a": [1, 2]})
    connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
    assert connection.execute("INSERT INTO t SELECT a FROM df WHERE a > ?", (1,)).rowcount == 1
    with pytest.raises(runnel.ProgrammingError, match="a view cannot read the variable"):
        connection.execute("CREATE VIEW v AS SELECT a FROM df")
    with pytest.raises(runnel.ProgrammingError, match="a job cannot read the variable"):
        connection.execute("CREATE JOB j AS INSERT INTO t SELECT a FROM df")
    connection.register("df", df)
    connection.execute("CREATE VIEW v AS SELECT a FROM df")
    connection.unregister("df")
    with pytest.raises(runnel.ProgrammingError, match="a view cannot read the variable"):
        connection.execute("SELECT * FROM v")


def test_hints(connection: Connection) -> None:
    frame = pd.DataFrame({"a": [1]})
    numbers = [1, 2]
    assert len(frame) < len(numbers)
    with pytest.raises(runnel.ProgrammingError, match='did you mean "frame"'):
        connection.execute("SELECT * FROM fraem")
    with pytest.raises(runnel.ProgrammingError, match='the variable "numbers" is a list'):
        connection.execute("SELECT * FROM numbers")
    with pytest.raises(runnel.NotSupportedError, match='table "frame"'):
        connection.execute("INSERT INTO frame VALUES (1)")


def test_it_can_be_turned_off(connection: Connection, tmp_path: Path) -> None:
    df = pd.DataFrame({"a": [1]})
    connection.execute("SET python_scan = off")
    with pytest.raises(runnel.ProgrammingError, match='"df" not found'):
        connection.execute("FROM df")
    connection.execute("SET python_scan = on")
    assert connection.execute("FROM df").fetchall() == [(1,)]
    with (
        runnel.connect(python_scan=False) as off,
        pytest.raises(runnel.ProgrammingError, match='"df" not found'),
    ):
        off.execute("FROM df")
    with (
        runnel.connect(allowed_paths=[tmp_path]) as confined,
        pytest.raises(runnel.ProgrammingError, match='"df" not found'),
    ):
        confined.execute("FROM df")
    assert len(df) == 1


def test_a_client_of_a_server_reads_no_variable(connection: Connection) -> None:
    from runnel.serving.server import Server
    from runnel.session.session import Caller, Session

    assert Server is not None
    database = connection._database
    session = Session(database, Caller(), database.owner_settings)
    df = frame_of_module
    assert len(df) == 3
    with pytest.raises(runnel.ProgrammingError, match='"df" not found'):
        session.prepare("SELECT * FROM df", ())


def test_coroutines_and_threads(connection: Connection) -> None:
    async def read() -> list[Any]:
        df = pd.DataFrame({"a": [4]})
        assert len(df) == 1
        cursor = await connection.cursor().execute_async("SELECT a FROM df")
        return await cursor.fetchall_async()

    assert asyncio.run(read()) == [(4,)]
    found: list[Any] = []

    def work() -> None:
        df = pd.DataFrame({"a": [5]})
        assert len(df) == 1
        found.extend(connection.execute("SELECT a FROM df").fetchall())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(5,)]
