"""ORDER BY and top-N, compared with DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runnel.errors import DataError, OperationalError
from runnel.expressions.nodes import Expression, Literal, SortKey
from runnel.processors.sorting import sort as sort_module
from runnel.processors.sorting.sort import sort
from runnel.processors.stateful import buffered as emitting
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.processors.places import place
from tests.processors.random_tables import columns_of, duckdb_rows, random_table


def number(value: int | None) -> Expression:
    return Literal(value=value, type=BIGINT)


def sql_key(letter: str, descending: bool, nulls_first: bool) -> str:
    return f"{letter} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


BOUNDS = [(None, None), (7, None), (5, 4), (None, 30), (1000, 0)]
DIRECTIONS = [(False, True), (False, False), (True, True), (True, False)]


@pytest.mark.parametrize(("descending", "nulls_first"), DIRECTIONS)
@pytest.mark.parametrize("keys", ["i", "f", "r", "s", "b", "d", "sfb"])
def test_agrees_with_duckdb(
    keys: str,
    descending: bool,
    nulls_first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sort_module, "LEAST_BUFFER", 10)
    table = random_table(11, 50, "ifrsbdn")
    columns = columns_of(table)
    sort_keys = [SortKey(columns[key], descending, nulls_first) for key in keys]
    sort_keys.append(SortKey(columns["n"], not descending))  # no two rows are equal
    order = ", ".join([sql_key(key, descending, nulls_first) for key in keys])
    order += f", n {'ASC' if descending else 'DESC'}"
    rows = rows_of(duckdb_rows(f"SELECT * FROM t ORDER BY {order}", t=table))
    for count, offset in BOUNDS:
        limits = [None if bound is None else number(bound) for bound in (count, offset)]
        start = offset or 0
        wanted = rows[start : None if count is None else start + count]
        verify_processor(
            sort(tuple(sort_keys), *limits),
            [table.to_batches(max_chunksize=9)],
            wanted,
            row_by_row=False,
        )


def test_of_many_rows_only_the_first_are_held() -> None:
    (n,) = columns_of(random_table(0, 0, "n")).values()
    processor = sort((SortKey(n, descending=True),), number(3), None)()
    outbox, context = place()
    processor.init(outbox, context)
    held = []
    for start in range(0, 200_000, 10_000):
        batch = pa.RecordBatch.from_arrays([pa.arange(start, start + 10_000)], names=["n"])
        processor.take(0, batch)
        held.append(processor._buffered_rows)
    assert max(held) <= 10_000 + sort_module.LEAST_BUFFER
    assert processor.complete()
    assert outbox.values == [199_999, 199_998, 199_997]


def test_a_large_result_comes_in_pieces() -> None:
    (n,) = columns_of(random_table(0, 0, "n")).values()
    batch = pa.RecordBatch.from_arrays([pa.arange(0, 150_000)], names=["n"])

    def check(items: list[Any]) -> None:
        assert [item.num_rows for item in items] == [65_536, 65_536, 18_928]
        assert [item.column(0)[0].as_py() for item in items] == [149_999, 84_463, 18_927]

    supplier = sort((SortKey(n, descending=True, nulls_first=False),), None, None)
    verify_processor(supplier, [[batch]], check, row_by_row=False, snapshots=False)
    assert emitting.BATCHES_PER_CALL > 1


@pytest.mark.parametrize(
    ("count", "offset", "message"),
    [
        (-1, None, "LIMIT value cannot be negative"),
        (None, -1, "OFFSET value cannot be negative"),
        (1, None, "LIMIT value cannot be null"),
    ],
)
def test_bad_bounds(count: int | None, offset: int | None, message: str) -> None:
    (n,) = columns_of(random_table(0, 0, "n")).values()
    bound = number(None) if "null" in message else None if count is None else number(count)
    processor = sort((SortKey(n),), bound, None if offset is None else number(offset))()
    with pytest.raises(DataError, match=message):
        processor.init(*place())


def test_too_many_rows() -> None:
    table = random_table(0, 20, "n")
    (n,) = columns_of(table).values()
    with pytest.raises(OperationalError, match="would hold more than 10 rows"):
        verify_processor(
            sort((SortKey(n),), None, None), [table.to_batches()], [], accumulation_limit=10
        )


def test_no_input() -> None:
    (n,) = columns_of(random_table(0, 0, "n")).values()
    verify_processor(sort((SortKey(n),), None, None), [[]], [])
