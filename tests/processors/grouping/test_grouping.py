"""The group-by under the aggregates: the keys come back as they went in."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from runnel.expressions.aggregates.states import GroupByRequest
from runnel.processors.grouping import grouping
from runnel.processors.grouping.grouping import group
from runnel.processors.grouping.numpy_groups import MOST_ROWS

VALUES = [0.0, -0.0, 1.0, -1.0, 2.5, 2.0**52, 1e300, 5e-324, math.inf, -math.inf, math.nan, None]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_doubles_as_keys_come_back_as_they_were(is_chunked: bool) -> None:
    rows = VALUES * (MOST_ROWS // len(VALUES) + 1)
    column = pa.array([1.0, *rows], pa.float64()).slice(1)
    second = pa.array([i % 2 for i in range(len(rows))])
    if is_chunked:
        column = pa.chunked_array([column.slice(0, 1000), column.slice(1000)])
    (first_key, second_key), (counts,) = group(
        [column, second], [GroupByRequest(None, "count_all")], len(rows)
    )
    assert first_key.type == pa.float64()
    found = zip(map(_plain, first_key.to_pylist()), second_key.to_pylist(), strict=True)
    expected = Counter(zip(map(_plain, rows), second.to_pylist(), strict=True))
    assert dict(zip(found, counts.to_pylist(), strict=True)) == expected


def _plain(value: float | None) -> Any:
    return "nan" if value is not None and math.isnan(value) else value


def test_whole_doubles_differ_in_their_low_bits_for_the_hash_table() -> None:
    column = pa.array([float(i) for i in range(1000)])
    swapped = grouping._halves_swapped(column, pa.int64())
    assert len({value % 2**32 for value in swapped.to_pylist()}) == 1000
    assert grouping._halves_swapped(swapped, pa.float64()).equals(column)


@pytest.mark.parametrize("function", ["min", "max"])
def test_texts_by_many_groups(function: str) -> None:
    rows = 3 * MOST_ROWS
    keys = [i % (rows // 2) for i in range(rows)]
    texts = [None if i % 5 == 0 else f"{i * 7919 % 1000}é" for i in range(rows)]
    (found,), (values,) = group([pa.array(keys)], [GroupByRequest(pa.array(texts), function)], rows)
    expected: dict[int, str | None] = dict.fromkeys(keys)
    pick = min if function == "min" else max
    for key, text in zip(keys, texts, strict=True):
        if text is not None:
            before = expected[key]
            expected[key] = text if before is None else pick(before, text)
    assert dict(zip(found.to_pylist(), values.to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")])
def test_whole_numbers_with_idle_low_halves_come_back_as_they_were(kind: pa.DataType) -> None:
    numbers = [
        None if i % 7 == 0 else (i % 500 - 250) << 40 for i in range(2 * grouping.LOOKED_AT_ROWS)
    ]
    column = pa.array(numbers, pa.int64()).cast(kind)
    assert grouping._has_idle_half(column)
    assert not grouping._has_idle_half(pa.array(range(grouping.LOOKED_AT_ROWS)))
    (keys,), (counts,) = group([column], [GroupByRequest(None, "count_all")], len(column))
    assert keys.type == kind
    assert dict(zip(keys.cast(pa.int64()).to_pylist(), counts.to_pylist(), strict=True)) == Counter(
        numbers
    )
