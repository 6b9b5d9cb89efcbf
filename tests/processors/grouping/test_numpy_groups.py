"""The group-by of few rows gives what Acero gives."""

from __future__ import annotations

import random
from datetime import datetime

import pyarrow as pa
import pytest

from runnel.expressions.aggregates.states import GroupByRequest
from runnel.processors.grouping import grouping
from runnel.processors.grouping import numpy_groups as few_rows
from tests.effort import some

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us")]
FUNCTIONS = ["count_all", "count", "sum", "min", "max"]


def _column(source: random.Random, kind: pa.DataType, rows: int, nulls: bool) -> pa.Array:
    def value() -> object:
        if nulls and source.random() < 0.4:
            return None
        if kind == pa.float64():
            return source.uniform(-5, 5)
        number = source.randint(-100, 100)
        return (
            datetime(2020, 1, 1).replace(year=2000 + number % 50)
            if pa.types.is_timestamp(kind)
            else number
        )

    return pa.array([value() for _ in range(rows)], kind)


def _keys(source: random.Random, rows: int) -> list[pa.Array]:
    names = [source.choice(["a", "b", None, ""]) for _ in range(rows)]
    days = [source.choice([None, 1, 2, 3]) for _ in range(rows)]
    return [pa.array(names, pa.string()), pa.array(days, pa.int32())][: source.randint(1, 2)]


def _rounded(value: object) -> object:
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.parametrize("seed", some(range(60), 3))
def test_same_as_acero(seed: int) -> None:
    source = random.Random(seed)
    rows = source.choice([1, 2, 30, 200])
    keys = _keys(source, rows)
    requests = []
    for function in FUNCTIONS:
        kind = source.choice(TYPES)
        if (function == "sum" and pa.types.is_timestamp(kind)) or (
            function in ("min", "max") and kind == pa.float64()
        ):
            kind = pa.int64()
        column = _column(source, kind, rows, source.random() < 0.5)
        column = pa.concat_arrays([column.slice(0, 1), column]).slice(1)
        requests.append(GroupByRequest(None if function == "count_all" else column, function))
    ours = few_rows.group_few(keys, requests, rows)
    assert ours is not None
    theirs = grouping._by_acero(keys, requests, False)
    assert [a.type for a in (*ours[0], *ours[1])] == [a.type for a in (*theirs[0], *theirs[1])]
    assert _table(*ours) == _table(*theirs)


def _table(keys: list[pa.Array], values: list[pa.Array]) -> list[tuple[object, ...]]:
    rows = zip(*(array.to_pylist() for array in (*keys, *values)), strict=True)
    return sorted((tuple(map(_rounded, row)) for row in rows), key=repr)


def test_what_it_leaves_to_acero() -> None:
    keys = [pa.array([1, 2])]
    assert few_rows.group_few(keys, [GroupByRequest(pa.array([1.0, 2.0]), "min")], 2) is None
    assert few_rows.group_few(keys, [GroupByRequest(pa.array(["a", "b"]), "max")], 2) is None
    assert few_rows.group_few(keys, [GroupByRequest(None, "list")], 2) is None
    many = few_rows.MOST_ROWS + 1
    assert (
        few_rows.group_few([pa.array([1] * many)], [GroupByRequest(None, "count_all")], many)
        is None
    )
