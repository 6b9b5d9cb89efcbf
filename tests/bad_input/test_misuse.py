"""The interface misused: fetches without rows, closed things, objects and names that can't be
registered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import runnel
from runnel import Connection, Cursor
from tests.bad_input.pinned import refused

SERIES = "SELECT v FROM TABLE(GENERATE_SERIES(1, 3))"
STREAM = "SELECT v FROM TABLE(GENERATE_STREAM(10))"
CURSOR_USES: dict[str, Callable[[Cursor], object]] = {
    "execute": lambda cursor: cursor.execute("SELECT 1"),
    "executemany": lambda cursor: cursor.executemany("INSERT INTO m VALUES (?)", [(1,)]),
    "fetchone": Cursor.fetchone,
    "fetchmany": Cursor.fetchmany,
    "fetchall": Cursor.fetchall,
    "fetch_arrow_table": Cursor.fetch_arrow_table,
    "fetch_record_batch": Cursor.fetch_record_batch,
    "fetch_df": Cursor.fetch_df,
    "fetch_polars": Cursor.fetch_polars,
    "next": next,
    "with": Cursor.__enter__,
}
CONNECTION_USES: dict[str, Callable[[Connection], object]] = {
    "cursor": Connection.cursor,
    "commit": Connection.commit,
    "rollback": Connection.rollback,
    "jobs": Connection.jobs,
    "job": lambda connection: connection.job(1),
    "register": lambda connection: connection.register("a", pa.table({"a": [1]})),
    "register_stream": lambda connection: connection.register_stream("a", {"a": "INT"}),
    "unregister": lambda connection: connection.unregister("a"),
    "submit": lambda connection: connection.submit(runnel.DAG()),
    "with": Connection.__enter__,
}


@pytest.mark.parametrize("use", CURSOR_USES)
def test_closed_cursor(cursor: Cursor, use: str) -> None:
    cursor.execute(SERIES)
    cursor.close()
    error = refused("misuse", "closed cursor", lambda: CURSOR_USES[use](cursor))
    assert isinstance(error, runnel.InterfaceError)


@pytest.mark.parametrize("use", CURSOR_USES)
def test_cursor_of_a_closed_connection(use: str) -> None:
    connection = runnel.connect()
    cursor = connection.cursor().execute(SERIES)
    connection.close()
    error = refused("misuse", "closed connection", lambda: CURSOR_USES[use](cursor))
    assert isinstance(error, runnel.InterfaceError)


@pytest.mark.parametrize("use", CONNECTION_USES)
def test_closed_connection(use: str) -> None:
    connection = runnel.connect()
    connection.close()
    connection.close()
    error = refused("misuse", "closed connection", lambda: CONNECTION_USES[use](connection))
    assert isinstance(error, runnel.InterfaceError)


@pytest.mark.parametrize("use", [use for use in CURSOR_USES if use.startswith("fetch")])
def test_fetch_without_rows(cursor: Cursor, use: str) -> None:
    refused("misuse", "nothing to fetch", lambda: CURSOR_USES[use](cursor))
    cursor.execute("SET plan_cache_size = 10")
    refused("misuse", "nothing to fetch", lambda: CURSOR_USES[use](cursor))
    with pytest.raises(runnel.ProgrammingError):
        cursor.execute("SELECT nosuch")
    refused("misuse", "nothing to fetch", lambda: CURSOR_USES[use](cursor))


@pytest.mark.parametrize("use", ["fetchall", "fetch_arrow_table", "fetch_df", "fetch_polars"])
def test_all_of_what_never_ends(cursor: Cursor, use: str) -> None:
    cursor.execute(STREAM)
    refused("misuse", f"{use} of a stream", lambda: CURSOR_USES[use](cursor))
    assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("size", ["x", 1.5, -1])
def test_size_of_a_fetch(cursor: Cursor, size: Any) -> None:
    cursor.execute(SERIES)
    refused("misuse", f"fetchmany({size!r})", lambda: cursor.fetchmany(size))
    assert cursor.fetchmany(10**30) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("timeout", ["x", -1, 0, math.nan, True])
def test_timeout(cursor: Cursor, timeout: Any) -> None:
    refused("misuse", f"timeout={timeout!r}", lambda: cursor.execute(SERIES, timeout=timeout))
    assert cursor.execute(SERIES).fetchone() == (1,)


@pytest.mark.parametrize("timeout", [math.inf, 10**400, 1e300])
def test_endless_timeout(cursor: Cursor, timeout: float) -> None:
    assert cursor.execute("SELECT 1", timeout=timeout).fetchall() == [(1,)]


@pytest.mark.parametrize("data", [1, "x", None, [1], {"a": [1]}, object, [{"a": 1}]], ids=repr)
def test_registering_what_has_no_columns(connection: Connection, data: Any) -> None:
    refused("misuse", f"register a {type(data).__name__}", lambda: connection.register("r", data))
    with pytest.raises(runnel.ProgrammingError, match='"r" not found'):
        connection.cursor().execute("SELECT * FROM r")


@pytest.mark.parametrize("name", [None, 5, "", "x\0", "\ud800", "trades"], ids=ascii)
def test_registering_under_a_name_that_cannot_be(connection: Connection, name: Any) -> None:
    connection.cursor().execute(
        "CREATE MAPPING trades (__key INT) TYPE IMap OPTIONS ('keyFormat'='int')"
    )
    refused(
        "misuse", f"register as {name!a}", lambda: connection.register(name, pa.table({"a": [1]}))
    )
    with pytest.raises(runnel.Error):
        connection.register_stream(name, {"a": "INT"})
    with pytest.raises(runnel.Error):
        connection.unregister(name)


COLUMNS: dict[str, Callable[[], Any]] = {
    "decimal256": lambda: pa.table({"a": pa.array([1], pa.decimal256(60, 0))}),
    "month_day_nano": lambda: pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}),
    "ns timestamp with ns": lambda: pa.table({"a": pa.array([1], pa.timestamp("ns"))}),
    "timestamp beyond microseconds": lambda: pa.table({"a": pa.array([2**60], pa.timestamp("s"))}),
    "mixed objects": lambda: pd.DataFrame({"a": [1, "x", None]}, dtype=object),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_cannot_be_read_are_refused_when_read(
    connection: Connection, name: str
) -> None:
    data = COLUMNS[name]()
    connection.register("r", data)
    cursor = connection.cursor()
    refused("misuse", f"column: {name}", lambda: cursor.execute("SELECT a FROM r").fetchall())
    assert cursor.execute("SELECT COUNT(*) FROM r").fetchone() == (len(data),)


def test_text_that_is_not_unicode(cursor: Cursor, connection: Connection) -> None:
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    connection.register(
        "r",
        pa.table(
            {"a": pa.Array.from_buffers(pa.utf8(), 1, [None, offsets, pa.py_buffer(b"\xff")])}
        ),
    )
    refused(
        "misuse", "text that is not Unicode", lambda: cursor.execute("SELECT a FROM r").fetchall()
    )
    assert cursor.execute("SELECT COUNT(*) FROM r").fetchone() == (1,)


def test_a_reader_is_read_once(cursor: Cursor, connection: Connection) -> None:
    table = pa.table({"a": [1]})
    connection.register("r", table.to_reader())
    assert cursor.execute("SELECT a FROM r").fetchall() == [(1,)]
    refused("misuse", "a reader read twice", lambda: cursor.execute("SELECT a FROM r").fetchall())


def test_a_reader_that_fails(cursor: Cursor, connection: Connection) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("no more")

    connection.register(
        "r", pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    )
    refused(
        "misuse", "a reader that fails", lambda: cursor.execute("SELECT SUM(a) FROM r").fetchall()
    )
    assert cursor.execute("SELECT 1").fetchone() == (1,)


STREAM_ROWS: dict[str, Any] = {
    "too few values": [(1,)],
    "too many values": [(1, "a", 2)],
    "a text for a number": [("x", "y")],
    "a number too large": [(3 * 10**9, "y")],
    "a lone surrogate": [(1, "\ud800")],
    "a number for rows": 5,
    "a text for rows": "ab",
    "numbers for rows": [5],
    "an unknown column": [{"a": 1, "nosuch": 2}],
}


@pytest.mark.parametrize("name", STREAM_ROWS)
def test_rows_for_a_stream(connection: Connection, name: str) -> None:
    writer = connection.register_stream("events", {"a": "INT", "b": "VARCHAR"})
    cursor = connection.cursor().execute("SELECT a FROM events")
    refused("misuse", f"stream: {name}", lambda: writer.write(STREAM_ROWS[name], timeout=5))
    writer.write([(7, "b")], timeout=5)
    writer.close()
    refused("misuse", "stream: closed", lambda: writer.write([(1, "a")]))
    assert cursor.fetchall() == [(7,)]


def test_jobs_that_are_not_there(connection: Connection) -> None:
    refused("misuse", "an unknown job", lambda: connection.job(12345))
    refused("misuse", "submit a number", lambda: connection.submit(5))  # type: ignore[arg-type]
    assert connection.jobs() == []
