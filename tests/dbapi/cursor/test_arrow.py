"""Rows as Arrow, pandas and Polars; a stream of batches; the mix with tuples."""

from __future__ import annotations

import sys

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import runnel
from runnel import Cursor

SERIES = "SELECT v AS id, v * 2 AS twice FROM TABLE(GENERATE_SERIES(1, ?)) ORDER BY v"


def test_table(cursor: Cursor) -> None:
    table = cursor.execute(
        "SELECT 1 AS i, 'x' AS t, 1.5 AS d, CAST(NULL AS BOOLEAN) AS b"
    ).fetch_arrow_table()
    assert table.schema == pa.schema(
        [("i", pa.int8()), ("t", pa.string()), ("d", pa.decimal128(2, 1)), ("b", pa.bool_())]
    )
    assert table.num_rows == 1
    assert cursor.rowcount == 1


def test_an_empty_result_has_its_schema(cursor: Cursor) -> None:
    table = cursor.execute(SERIES, (0,)).fetch_arrow_table()
    assert table.num_rows == 0 and table.schema.names == ["id", "twice"]


def test_repeated_names_stay(cursor: Cursor) -> None:
    table = cursor.execute("SELECT 1 AS a, 2 AS a").fetch_arrow_table()
    assert table.schema.names == ["a", "a"]
    assert [column.to_pylist() for column in table.columns] == [[1], [2]]


def test_arrow_takes_what_tuples_left(cursor: Cursor) -> None:
    cursor.execute(SERIES, (10_000,))
    assert cursor.fetchone() == (1, 2)
    assert len(cursor.fetchmany(4_999)) == 4_999
    table = cursor.fetch_arrow_table()
    assert table.column(0).to_pylist() == list(range(5_001, 10_001))
    assert cursor.fetchall() == [] and cursor.fetch_arrow_table().num_rows == 0


def test_rows_that_were_there_at_once_as_arrow(cursor: Cursor) -> None:
    table = cursor.execute("SHOW SETTINGS").fetch_arrow_table()
    assert table.schema.names[:2] == ["name", "value"] and table.num_rows > 3


def test_record_batches_come_one_by_one(cursor: Cursor) -> None:
    reader = cursor.execute(SERIES, (200_000,)).fetch_record_batch()
    assert isinstance(reader, pa.RecordBatchReader)
    sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 200_000 and len(sizes) > 1


def test_a_reader_outlives_the_cursor(connection: runnel.Connection) -> None:
    reader = connection.cursor().execute(SERIES, (100_000,)).fetch_record_batch()
    assert reader.read_all().num_rows == 100_000


@pytest.mark.parametrize("sql", [SERIES, "SELECT this FROM m WHERE __key = ?"])
@pytest.mark.parametrize("end", ["close", "execute"])
def test_a_reader_cut_short_says_so(connection: runnel.Connection, sql: str, end: str) -> None:
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
    )
    connection.execute("SINK INTO m VALUES (2000000, 'x')")
    cursor = connection.execute(sql, (2_000_000,))
    reader = cursor.fetch_record_batch()
    if end == "close":
        cursor.close()
    else:
        cursor.execute("SELECT 1")
    with pytest.raises(runnel.InterfaceError, match="before all rows were read"):
        reader.read_all()
    assert end == "close" or cursor.fetchall() == [(1,)]


def test_a_reader_at_its_end_has_ended_whatever_the_cursor_does(cursor: Cursor) -> None:
    reader = cursor.execute(SERIES, (3,)).fetch_record_batch()
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(StopIteration):
        reader.read_next_batch()
    cursor.execute("SELECT 1")
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_an_error_passes_through_the_reader(cursor: Cursor) -> None:
    sql = "SELECT 1 / (v - 150000) FROM TABLE(GENERATE_SERIES(1, 200000))"
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.execute(sql).fetch_record_batch().read_all()
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.execute(sql).fetch_arrow_table()


def test_the_c_stream_interface(cursor: Cursor) -> None:
    assert pa.table(cursor.execute(SERIES, (3,))).to_pydict() == {
        "id": [1, 2, 3],
        "twice": [2, 4, 6],
    }
    assert polars.DataFrame(cursor.execute(SERIES, (3,))).shape == (3, 2)
    reader = cursor.execute(SERIES, (3,)).fetch_record_batch()
    with duckdb.connect() as other:
        other.register("rows", reader)
        assert other.execute("SELECT SUM(twice) FROM rows").fetchone() == (12,)


def test_pandas_and_polars(cursor: Cursor) -> None:
    frame = cursor.execute(SERIES, (3,)).fetch_df()
    assert isinstance(frame, pandas.DataFrame) and frame["twice"].tolist() == [2, 4, 6]
    other = cursor.execute(SERIES, (3,)).fetch_polars()
    assert isinstance(other, polars.DataFrame) and other["twice"].to_list() == [2, 4, 6]


@pytest.mark.parametrize(("package", "fetch"), [("pandas", "fetch_df"), ("polars", "fetch_polars")])
def test_a_missing_package_is_named(
    cursor: Cursor, monkeypatch: pytest.MonkeyPatch, package: str, fetch: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    cursor.execute("SELECT 1")
    with pytest.raises(runnel.InterfaceError) as caught:
        getattr(cursor, fetch)()
    assert caught.value.message == f'the package "{package}" is not installed'
    assert caught.value.hint == f"install it with: pip install runnel[{package}]"
    assert cursor.fetchall() == [(1,)]


def test_frames_in_and_out(connection: runnel.Connection) -> None:
    cursor = connection.cursor()
    connection.register("p", pandas.DataFrame({"k": [1, 2], "t": ["a", None]}))
    connection.register("q", polars.DataFrame({"k": [2, 3], "x": [0.5, 1.5]}))
    joined = "SELECT p.k, t, x FROM p FULL JOIN q ON p.k = q.k ORDER BY COALESCE(p.k, q.k)"
    assert cursor.execute(joined).fetchall() == [(1, "a", None), (2, None, 0.5), (None, None, 1.5)]
