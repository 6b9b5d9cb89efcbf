"""The keys of a small side, gathered as its rows come."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from runnel.processors.joins import key_filter as wanted_keys
from runnel.processors.joins.key_filter import KeyFilter
from runnel.sqltypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR, SqlType, decimal, to_arrow


def gathered(types: list[SqlType], *batches: list[tuple[Any, ...]]) -> KeyFilter:
    keys = KeyFilter(types)
    for rows in batches:
        columns = [
            pa.array([row[i] for row in rows], to_arrow(kind)) for i, kind in enumerate(types)
        ]
        keys.add(pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(types))]))
    return keys


def rows_of(keys: KeyFilter) -> set[tuple[Any, ...]] | None:
    return None if keys.values is None else {tuple(row.values()) for row in keys.values.to_pylist()}


def bounds_of(keys: KeyFilter, place: int) -> tuple[Any, Any] | None:
    found = keys.bounds(place)
    return None if found is None else (found[0].as_py(), found[1].as_py())


def test_each_key_once_and_none_with_a_null() -> None:
    keys = gathered(
        [BIGINT, VARCHAR], [(1, "a"), (None, "b"), (2, None)], [(1, "a"), (-5, ""), (None, None)]
    )
    assert rows_of(keys) == {(1, "a"), (-5, "")}
    assert bounds_of(keys, 0) == (-5, 1)
    assert bounds_of(keys, 1) == ("", "a")
    assert not keys.is_empty


@pytest.mark.parametrize("batches", [[], [[]], [[(None,)], [(None,), (None,)]]])
def test_nothing_is_wanted(batches: list[list[tuple[Any, ...]]]) -> None:
    assert gathered([BIGINT], *batches).is_empty


def test_of_too_many_the_bounds_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted_keys, "MOST_KEYS", 3)
    monkeypatch.setattr(wanted_keys, "GATHERED_ROWS", 2)
    few = gathered([BIGINT], [(1,), (2,), (1,)], [(3,), (3,), (2,)])
    assert rows_of(few) == {(1,), (2,), (3,)}
    many = gathered([BIGINT], [(1,), (2,), (1,)], [(3,), (9,), (2,)], [(-7,)], [(4,)])
    assert many.values is None
    assert bounds_of(many, 0) == (-7, 9)


def test_bounds_are_of_types_that_all_order_alike() -> None:
    keys = gathered(
        [DOUBLE, BOOLEAN, decimal(10, 2)],
        [(float("nan"), True, Decimal("1.50")), (-0.0, False, Decimal("-3.25"))],
    )
    assert bounds_of(keys, 0) is None
    assert bounds_of(keys, 1) is None
    assert bounds_of(keys, 2) == (Decimal("-3.25"), Decimal("1.50"))
