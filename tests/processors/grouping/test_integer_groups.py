"""The group-by of dense integer keys gives what Acero gives."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from runnel.columns.batches import from_numbers
from runnel.expressions.aggregates.states import Column, GroupByRequest
from runnel.processors.grouping import grouping
from runnel.processors.grouping import integer_groups as dense_groups
from tests.effort import some

KEY_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.timestamp("us"), pa.date32()]
WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
REQUESTS = [("count", pa.int64()), ("sum", pa.int32()), ("sum", pa.int64()), ("sum", pa.float64())]
REQUESTS += [("min", pa.int64()), ("max", pa.timestamp("us")), ("max", pa.int8())]


def _key(source: random.Random, rows: int) -> pa.Array:
    kind = source.choice(KEY_TYPES)
    width = WIDTHS[kind.bit_width]
    limits = np.iinfo(width)
    low = source.choice([limits.min, limits.max - 9, -5, 0])
    values = [low + source.randrange(source.choice([1, 10])) for _ in range(rows)]
    if kind.bit_width == 64 and source.random() < 0.5:
        # Far apart, but in runs; the second run comes again.
        bounds = [limits.min, 0, limits.max, 0]
        values = [bounds[4 * i // rows] for i in range(rows)]
    return from_numbers(np.array(values, width), kind)


def _argument(source: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    share = source.choice([0, 0.3, 1])
    numbers = [None if source.random() < share else source.randint(-100, 100) for _ in range(rows)]
    array = pa.array(numbers, pa.int64())
    return array.cast(kind)


def _chunked(source: random.Random, array: pa.Array) -> Column:
    if source.random() < 0.5:
        return array
    return pa.chunked_array([array.slice(0, 50), array.slice(50)])


@pytest.mark.parametrize("seed", some(range(60), 3))
def test_same_as_acero(seed: int) -> None:
    source = random.Random(seed)
    rows = source.choice([2 * dense_groups.LEAST_ROWS, 1000])
    keys = [_chunked(source, _key(source, rows)) for _ in range(source.randint(1, 2))]
    requests = [GroupByRequest(None, "count_all")]
    requests += [
        GroupByRequest(_chunked(source, _argument(source, kind, rows)), function)
        for function, kind in REQUESTS
    ]
    ours = dense_groups.group_dense(keys, requests, rows)
    assert ours is not None
    theirs = grouping._by_acero(keys, requests, False)
    assert [a.type for a in (*ours[0], *ours[1])] == [a.type for a in (*theirs[0], *theirs[1])]
    assert _rows(*ours) == _rows(*theirs)


def _rows(keys: list[pa.Array], values: list[pa.Array]) -> list[tuple[object, ...]]:
    columns = [
        a.view(f"int{a.type.bit_width}") if pa.types.is_temporal(a.type) else a
        for a in (*keys, *values)
    ]
    return sorted(zip(*(array.to_pylist() for array in columns), strict=True), key=repr)


def test_groups_ascend_and_places_without_rows_are_none() -> None:
    numbers = pa.array([7 if i % 2 else -3 for i in range(200)])
    (keys,), (counts, sums) = _grouped(
        [numbers], [GroupByRequest(None, "count_all"), GroupByRequest(numbers, "sum")], 200
    )
    assert keys.to_pylist() == [-3, 7]
    assert counts.to_pylist() == [100, 100]
    assert sums.to_pylist() == [-300, 700]


def _grouped(
    keys: list[Column], requests: list[GroupByRequest], rows: int
) -> tuple[list[pa.Array], list[pa.Array]]:
    found = dense_groups.group_dense(keys, requests, rows)
    assert found is not None
    return found


def test_what_it_leaves_to_others() -> None:
    rows = 1000
    count = [GroupByRequest(None, "count_all")]
    sparse = pa.array([i * 1_000_003 for i in range(rows)])
    assert dense_groups.group_dense([sparse], count, rows) is None
    wide = pa.array([i % 100 for i in range(rows)])
    assert dense_groups.group_dense([wide, wide], count, rows) is None
    assert dense_groups.group_dense([pa.array([None, *range(rows - 1)])], count, rows) is None
    assert dense_groups.group_dense([pa.array(["a"] * rows)], count, rows) is None
    assert (
        dense_groups.group_dense([wide], [GroupByRequest(pa.array([0.5] * rows), "min")], rows)
        is None
    )
    assert dense_groups.group_dense([wide.slice(0, 10)], count, 10) is None
