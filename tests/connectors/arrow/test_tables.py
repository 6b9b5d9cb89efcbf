"""What `register` takes, and what queries see of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from runnel.catalog import Table
from runnel.connector import BATCH_ROWS, ReadableTable, ScanRequest
from runnel.connectors.arrow.tables import registered_table, unique_names
from runnel.errors import DataError, NotSupportedError, OperationalError, ProgrammingError
from runnel.sqltypes import BIGINT, NULL, VARCHAR
from tests.connectors.conformance import (
    at_least,
    job_context,
    read_batches,
    read_partition,
    read_rows,
)
from tests.connectors.imap.maps import allocated


def register(obj: object) -> ReadableTable:
    table: Table = registered_table("t", obj)
    assert isinstance(table, ReadableTable)
    return table


def shape(table: Table) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in table.columns]


ARROW_VALUES: list[tuple[pa.DataType, list[Any], str, list[Any]]] = [
    (pa.uint8(), [255, None], "SMALLINT", [255, None]),
    (pa.uint64(), [2**64 - 1], "DECIMAL(20, 0)", [2**64 - 1]),
    (pa.float16(), [1.5], "REAL", [1.5]),
    (pa.large_string(), ["a", None], "VARCHAR", ["a", None]),
    (
        pa.string_view(),
        ["a", None, "a long text that isn't inlined"],
        "VARCHAR",
        ["a", None, "a long text that isn't inlined"],
    ),
    (
        pa.dictionary(pa.int8(), pa.string()),
        ["a", "b", "a", None],
        "VARCHAR",
        ["a", "b", "a", None],
    ),
    (pa.large_binary(), [b"\0"], "VARBINARY", [b"\0"]),
    (pa.binary(2), [b"ab"], "VARBINARY", [b"ab"]),
    (pa.timestamp("s"), [datetime(2024, 2, 29)], "TIMESTAMP", [datetime(2024, 2, 29)]),
    (
        pa.timestamp("ns"),
        [datetime(2024, 2, 29, 0, 0, 0, 1)],
        "TIMESTAMP",
        [datetime(2024, 2, 29, 0, 0, 0, 1)],
    ),
    (
        pa.timestamp("ms", "Europe/Berlin"),
        [datetime(2024, 2, 29, tzinfo=UTC)],
        "TIMESTAMP WITH TIME ZONE",
        [datetime(2024, 2, 29, tzinfo=UTC)],
    ),
    (pa.large_list(pa.int32()), [[1, None], None], "INTEGER[]", [[1, None], None]),
    (pa.list_(pa.large_string(), 2), [["a", "b"]], "VARCHAR[]", [["a", "b"]]),
    (pa.struct([("x", pa.uint8())]), [{"x": 1}, None], "ROW(x SMALLINT)", [{"x": 1}, None]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1)]], "MAP(VARCHAR, BIGINT)", [{"k": 1}]),
    (pa.null(), [None], "NULL", [None]),
]


@pytest.mark.parametrize(
    ("arrow", "values", "name", "expected"), ARROW_VALUES, ids=lambda item: str(item)[:30]
)
def test_arrow_types(arrow: pa.DataType, values: list[Any], name: str, expected: list[Any]) -> None:
    table = register(pa.table({"v": pa.array(values, arrow)}))
    assert shape(table) == [("v", name)]
    assert [value for (value,) in read_rows(table)] == expected


def test_digits_below_a_microsecond_are_refused_when_read() -> None:
    table = register(pa.table({"a": pa.array([1]), "v": pa.array([1], pa.timestamp("ns"))}))
    assert read_rows(table, (0,)) == [(1,)]
    with pytest.raises(DataError):
        read_rows(table)


def test_batches_in_canonical_types_are_not_copied() -> None:
    data = pa.table({"a": np.arange(BATCH_ROWS * 2), "b": np.arange(BATCH_ROWS * 2) / 2})
    table = register(data)
    stored = data.to_batches(max_chunksize=BATCH_ROWS)
    for batch, original in zip(read_batches(table), stored, strict=True):
        for i in range(2):
            assert batch.column(i).buffers()[1].address == original.column(i).buffers()[1].address
            assert batch.column(i).offset == original.column(i).offset
    before = allocated()
    kept = [read_batches(table), read_batches(table, (1,))]
    assert allocated() == before
    del kept


def test_only_columns_asked_for_are_converted() -> None:
    data = pa.table(
        {
            "a": pa.array(["x" * 100] * 10_000, pa.large_string()),
            "b": pa.array(range(10_000), pa.uint32()),
        }
    )
    table = register(data)
    before = allocated()
    kept = read_batches(table, (1,))
    assert allocated() - before < 200_000
    del kept


def test_a_column_of_no_sql_type_is_refused_only_when_used() -> None:
    strange = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    table = register(pa.table({"a": pa.array([1, 2]), "u": strange}))
    assert [column.type for column in table.columns] == [BIGINT, NULL]
    assert read_rows(table, (0,)) == [(1,), (2,)]
    assert sum(batch.num_rows for batch in read_batches(table, ())) == 2
    with pytest.raises(NotSupportedError, match='column "u" of "t" can\'t be read') as caught:
        table.scan(ScanRequest((0, 1)))
    assert "union" in (caught.value.detail or "")
    assert "convert this one" in (caught.value.hint or "")


def test_a_pandas_column_of_mixed_objects_is_refused_only_when_used() -> None:
    table = register(pd.DataFrame({"a": [1, 2], "o": [object(), "x"]}))
    assert read_rows(table, (0,)) == [(1,), (2,)]
    with pytest.raises(NotSupportedError, match='column "o"'):
        table.scan(ScanRequest((1,)))


def test_polars_columns_that_arrow_cannot_take_are_refused_only_when_used() -> None:
    frame = pl.DataFrame(
        {
            "a": [1],
            "i": pl.Series([1], dtype=pl.Int128),
            "o": pl.Series([object()], dtype=pl.Object),
        }
    )
    table = register(frame)
    assert shape(table) == [("a", "BIGINT"), ("i", "NULL"), ("o", "NULL")]
    assert read_rows(table, (0,)) == [(1,)]
    for i, name in ((1, "i"), (2, "o")):
        with pytest.raises(NotSupportedError, match=f'column "{name}" of "t" can\'t be read'):
            table.scan(ScanRequest((0, i)))


def test_a_duckdb_relation_leaves_its_connection_free() -> None:
    import duckdb

    with duckdb.connect() as con:
        table = register(con.sql("SELECT range AS a, 'x' AS b FROM range(10)"))
        assert con.execute("SELECT 1").fetchall() == [(1,)]
        assert read_rows(table, (1, 0)) == [("x", i) for i in range(10)]
        assert len(read_rows(table)) == 10
        assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_a_column_asked_for_twice() -> None:
    for obj in (
        pa.table({"a": [1], "b": pa.array(["x"], pa.large_string())}),
        pd.DataFrame({"a": [1], "b": ["x"]}),
    ):
        assert read_rows(register(obj), (1, 0, 1)) == [("x", 1, "x")]


def test_column_names_are_never_empty_and_never_repeated() -> None:
    assert unique_names(["a", "", "A", "a_1", "column_2", "a", ""]) == [
        "a",
        "column_2_1",
        "A_2",
        "a_1",
        "column_2",
        "a_3",
        "column_7",
    ]
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["x", "x", ""])
    table = register(data)
    assert shape(table) == [("x", "BIGINT"), ("x_1", "BIGINT"), ("column_3", "BIGINT")]
    assert read_rows(table) == [(1, 2, 3)]
    assert read_batches(table)[0].schema.names == ["x", "x_1", "column_3"]


def test_pandas_labels_become_names() -> None:
    frame = pd.DataFrame(np.arange(6).reshape(2, 3), columns=["x", 0, "x"])
    table = register(frame)
    assert shape(table) == [("x", "BIGINT"), ("0", "BIGINT"), ("x_1", "BIGINT")]
    assert read_rows(table) == [(0, 1, 2), (3, 4, 5)]


def test_pandas_types() -> None:
    frame = pd.DataFrame(
        {
            "f": [1.5, np.nan],
            "s": ["a", None],
            "b": [True, False],
            "t": pd.to_datetime(["2024-02-29", None]),
            "z": pd.to_datetime(["2024-02-29", None]).tz_localize("UTC"),
            "c": pd.Categorical(["x", "y"]),
            "i": pd.array([1, None], dtype="Int64"),
            "l": [[1], [2, 3]],
        },
        index=pd.Index(["p", "q"], name="label"),
    )
    table = register(frame)
    assert [kind for _, kind in shape(table)] == [
        "DOUBLE",
        "VARCHAR",
        "BOOLEAN",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "VARCHAR",
        "BIGINT",
        "BIGINT[]",
    ]
    first, second = read_rows(table)
    assert first == (
        1.5,
        "a",
        True,
        datetime(2024, 2, 29),
        datetime(2024, 2, 29, tzinfo=UTC),
        "x",
        1,
        [1],
    )
    assert second == (None, None, False, None, None, "y", None, [2, 3])


def test_pandas_numbers_are_not_copied() -> None:
    numbers = np.arange(1000)
    table = register(pd.DataFrame({"a": numbers}, copy=False))
    address = read_batches(table)[0].column(0).buffers()[1].address
    assert address == numbers.__array_interface__["data"][0]


def test_series_and_arrays_are_one_column() -> None:
    assert shape(register(pd.Series([1, 2], name="n"))) == [("n", "BIGINT")]
    assert shape(register(pd.Series([1.5]))) == [("value", "DOUBLE")]
    assert shape(register(pl.Series("n", ["a"]))) == [("n", "VARCHAR")]
    assert read_rows(register(pa.array([1, None]))) == [(1,), (None,)]
    assert shape(register(pa.chunked_array([pa.array([1]), pa.array([2])]))) == [
        ("value", "BIGINT")
    ]


def test_an_array_of_structs_is_a_table() -> None:
    structs = pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    for obj in (structs, pa.chunked_array([structs.slice(0, 1), structs.slice(1)])):
        table = register(obj)
        assert shape(table) == [("a", "BIGINT"), ("b", "VARCHAR")]
        assert read_rows(table) == [(1, "x"), (2, None)]


def test_a_list_of_batches() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    assert read_rows(register([batch, batch])) == [(1,), (2,), (1,), (2,)]
    with pytest.raises(ProgrammingError, match="one schema"):
        register([batch, pa.record_batch({"b": [1]})])
    with pytest.raises(ProgrammingError, match="can't be registered"):
        register([])


def test_an_object_of_another_kind_is_refused() -> None:
    for obj in (None, 1, "text", {"a": [1]}, [1, 2], object()):
        with pytest.raises(ProgrammingError, match='can\'t be registered as "t"') as caught:
            register(obj)
        assert "register a pyarrow Table" in (caught.value.hint or "")


def test_an_object_whose_own_code_fails() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise KeyError("oops")

    with pytest.raises(ProgrammingError, match="a Broken, can't be read as Arrow data") as caught:
        register(Broken())
    assert "KeyError" in (caught.value.detail or "")


def test_a_reader_is_read_once() -> None:
    table = register(pa.table({"a": [1, 2, 3]}).to_reader())
    assert read_rows(table) == [(1,), (2,), (3,)]
    with pytest.raises(
        OperationalError, match='the registered reader "t" can be read only once'
    ) as caught:
        read_rows(table)
    assert caught.value.hint is not None and "t = t.read_all() of a reader" in caught.value.hint


def test_a_second_reference_to_a_reader_is_refused_before_anything_is_read() -> None:
    table = register(pa.table({"a": [1, 2, 3]}).to_reader())
    source = table.scan(ScanRequest((0,)))
    first = source.split(job_context())
    with pytest.raises(OperationalError, match="only once"):
        table.scan(ScanRequest((0,))).split(job_context())
    for part in first:
        part.close()
    # Nothing was read, so the next statement may.
    assert read_rows(table) == [(1,), (2,), (3,)]


def test_a_reader_is_read_as_the_query_goes() -> None:
    taken = []

    def endless() -> Iterator[pa.RecordBatch]:
        number = 0
        while True:
            taken.append(number)
            yield pa.record_batch({"a": [number]})
            number += 1

    table = register(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), endless()))
    (part,) = table.scan(ScanRequest((0,), limit=3)).split(job_context())
    assert taken == []
    assert [batch.column(0)[0].as_py() for batch in read_partition(part)] == [0, 1, 2]
    assert len(taken) == 3


def test_a_stream_that_breaks_off_is_our_own_error() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("the line is dead")

    table = register(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), broken()))
    with pytest.raises(
        OperationalError, match='reading the registered object "t" failed'
    ) as caught:
        read_rows(table)
    assert "the line is dead" in (caught.value.detail or "")


def test_a_stream_object_is_opened_by_every_scan() -> None:
    class Counting:
        opened = 0

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            self.opened += 1
            return pa.table({"a": [self.opened]}).__arrow_c_stream__()

    stream = Counting()
    table = register(stream)
    assert [read_rows(table), read_rows(table), read_rows(table)] == [[(1,)], [(2,)], [(3,)]]


def test_a_lazy_frame_is_run_by_every_scan_for_the_columns_asked_for() -> None:
    frame = pl.LazyFrame({"a": [1, 2], "b": ["x", "y"]}).with_columns(
        c=pl.col("b").str.to_integer(strict=False)
    )
    table = register(frame)
    assert shape(table) == [("a", "BIGINT"), ("b", "VARCHAR"), ("c", "BIGINT")]
    assert read_rows(table, (1, 0)) == [("x", 1), ("y", 2)]
    failing = register(
        pl.LazyFrame({"a": [1], "b": ["x"]}).with_columns(c=pl.col("b").str.to_integer())
    )
    assert read_rows(failing, (0,)) == [(1,)]
    with pytest.raises(OperationalError, match="reading the registered object"):
        read_rows(failing)


def test_a_folder_of_a_dataset(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for part in ("x", "y"):
        (tmp_path / f"p={part}").mkdir()
        pq.write_table(pa.table({"a": range(3)}), tmp_path / f"p={part}" / "f.parquet")
    table = register(pyarrow.dataset.dataset(tmp_path, partitioning="hive"))
    assert shape(table) == [("a", "BIGINT"), ("p", "VARCHAR")]
    assert sorted(read_rows(table, (1, 0))) == [(part, i) for part in ("x", "y") for i in range(3)]
    assert not table.scan(ScanRequest((0,))).cooperative


def test_partitions_share_a_large_table() -> None:
    table = register(pa.table({"a": np.arange(10 * BATCH_ROWS)}))
    partitions = table.scan(ScanRequest((0,))).split(job_context())
    assert len(partitions) > 1
    counts = [sum(batch.num_rows for batch in read_partition(part)) for part in partitions]
    assert min(counts) >= BATCH_ROWS
    assert sum(counts) == 10 * BATCH_ROWS


def test_a_small_table_is_one_partition() -> None:
    assert len(register(pa.table({"a": [1, 2]})).scan(ScanRequest((0,))).split(job_context())) == 1


def test_small_batches_are_put_together() -> None:
    pieces = [pa.record_batch({"a": [i, i]}) for i in range(1000)]
    batches = read_batches(register(pieces))
    assert len(batches) < 50
    assert sorted(value for batch in batches for value in batch.column(0).to_pylist()) == sorted(
        [*range(1000)] * 2
    )


def test_a_limit_reads_less_unless_rows_are_left_out() -> None:
    table = register(pa.table({"a": np.arange(5 * BATCH_ROWS)}))
    assert sum(batch.num_rows for batch in read_batches(table, limit=3)) == 3
    assert (
        sum(batch.num_rows for batch in read_batches(table, limit=3, predicate=at_least(10)))
        == 5 * BATCH_ROWS
    )


def test_metadata_and_nullability_make_no_difference() -> None:
    schema = pa.schema(
        [pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"})], metadata={"m": "n"}
    )
    batch = read_batches(register(pa.table([pa.array([1])], schema=schema)))[0]
    assert batch.schema.equals(pa.schema([("a", pa.int64())]), check_metadata=True)


def test_arrows_uuid_is_ours() -> None:
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    table = register(pa.table({"u": uuid}))
    assert shape(table) == [("u", "UUID")]
    assert read_rows(table) == [(UUID(bytes=b"0123456789abcdef"),)]
    assert table.columns[0].type != VARCHAR


def test_extension_types_are_their_storage() -> None:
    opaque = pa.opaque(pa.int64(), "thing", "somebody")
    table = register(
        pa.table({"o": pa.ExtensionArray.from_storage(opaque, pa.array([7], pa.int64()))})
    )
    assert shape(table) == [("o", "BIGINT")]
    assert read_rows(table) == [(7,)]
