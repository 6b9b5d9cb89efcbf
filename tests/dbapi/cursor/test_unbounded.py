"""Queries without an end, through the same cursor."""

from __future__ import annotations

import pyarrow as pa
import pytest

import runnel
from runnel import Connection

STREAM = "SELECT v FROM TABLE(GENERATE_STREAM(100000))"


def test_rows_come_as_they_are_made(connection: Connection) -> None:
    cursor = connection.execute(STREAM)
    assert cursor.is_unbounded and cursor.rowcount == -1
    assert cursor.fetchone() == (0,)
    rows = cursor.fetchmany(500)
    assert 1 <= len(rows) <= 500
    assert rows[0] == (1,)
    assert rows == [(i,) for i in range(1, len(rows) + 1)]
    assert next(cursor) == (len(rows) + 1,)


def test_a_bounded_query_is_not_unbounded(connection: Connection) -> None:
    assert not connection.execute("SELECT 1").is_unbounded
    assert not connection.cursor().is_unbounded


@pytest.mark.parametrize("fetch", ["fetchall", "fetch_arrow_table", "fetch_df", "fetch_polars"])
def test_waiting_for_the_end_is_refused_where_there_is_none(
    connection: Connection, fetch: str
) -> None:
    cursor = connection.execute(STREAM)
    with pytest.raises(runnel.NotSupportedError, match="of a query that never ends") as caught:
        getattr(cursor, fetch)()
    assert (
        caught.value.hint is not None
        and "fetchmany" in caught.value.hint
        and "LIMIT" in caught.value.hint
    )
    assert caught.value.sql == STREAM
    assert cursor.fetchone() == (0,)


def test_with_a_limit_it_ends(connection: Connection) -> None:
    cursor = connection.execute(STREAM + " LIMIT 10")
    assert cursor.fetchall() == [(i,) for i in range(10)]
    assert cursor.rowcount == 10
    assert connection.jobs() == []


def test_batches_of_a_stream(connection: Connection) -> None:
    reader = connection.execute(STREAM).fetch_record_batch()
    first = reader.read_next_batch()
    assert first.num_rows > 0 and first.column(0)[0].as_py() == 0
    assert reader.read_next_batch().num_rows > 0


def test_a_pushed_stream(connection: Connection) -> None:
    writer = connection.register_stream(
        "prices", pa.schema([("ticker", pa.string()), ("price", pa.int64())])
    )
    cursor = connection.execute("SELECT ticker, price * 2 FROM prices WHERE price > 1")
    assert cursor.is_unbounded
    writer.write(
        pa.table([pa.array(["a", "b", "c"]), pa.array([1, 2, 3])], names=["ticker", "price"])
    )
    assert cursor.fetchmany(10) == [("b", 4), ("c", 6)]
    writer.write(pa.table([pa.array(["d"]), pa.array([4])], names=["ticker", "price"]))
    assert cursor.fetchone() == ("d", 8)
    writer.close()
    assert cursor.fetchone() is None and cursor.fetchmany(5) == [] and cursor.fetchall() == []
    assert cursor.rowcount == 3


def test_the_end_of_a_pushed_stream_is_waited_for(connection: Connection) -> None:
    writer = connection.register_stream("s", pa.schema([("x", pa.int64())]))
    cursor = connection.execute("SELECT x FROM s")
    for number in range(3):
        writer.write(pa.table([pa.array([number])], names=["x"]))
    writer.close()
    assert cursor.fetch_arrow_table().column(0).to_pylist() == [0, 1, 2]
