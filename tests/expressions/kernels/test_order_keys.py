"""Keys of arrays and rows: the same order as in DuckDB, which sorts and compares them itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from runnel.expressions.kernels.order_keys import nested_keys

LEAVES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "tinyint": (pa.int8(), lambda dice: dice.choice([-128, -1, 0, 1, 127])),
    "bigint": (pa.int64(), lambda dice: dice.choice([-(2**63), -256, -1, 0, 255, 2**63 - 1])),
    "double": (
        pa.float64(),
        lambda dice: dice.choice([float("-inf"), -2.5, -0.0, 0.0, 1e-300, float("nan")]),
    ),
    "decimal": (
        pa.decimal128(20, 2),
        lambda dice: Decimal(dice.choice(["-100000000000000000.01", "-0.01", "0", "2.56"])),
    ),
    "boolean": (pa.bool_(), lambda dice: dice.random() < 0.5),
    "varchar": (pa.string(), lambda dice: dice.choice(["", "a", "a\0", "a\0b", "ab", "é", "a\1"])),
    "varbinary": (pa.binary(), lambda dice: dice.choice([b"", b"\0", b"\xff", b"\0\xff", b"\1"])),
    "date": (pa.date32(), lambda dice: date(1970, 1, 1) + timedelta(dice.randrange(-3, 3))),
}


def random_value(arrow: pa.DataType, leaf: Callable[[random.Random], Any], dice: Any) -> Any:
    """A value of the type, with few items, so that many values share a prefix."""
    if dice.random() < 0.15:
        return None
    if pa.types.is_list(arrow):
        return [random_value(arrow.value_type, leaf, dice) for _ in range(dice.randrange(4))]
    if pa.types.is_struct(arrow):
        return {field.name: random_value(field.type, leaf, dice) for field in arrow}
    return leaf(dice)


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("shape", ["array", "arrays", "row", "array of rows", "row of arrays"])
def test_order_is_that_of_duckdb(name: str, shape: str) -> None:
    dice = random.Random(f"{name} {shape}")
    leaf, make = LEAVES[name]
    row = pa.struct([("a", leaf), ("b", leaf)])
    arrow = {
        "array": pa.list_(leaf),
        "arrays": pa.list_(pa.list_(leaf)),
        "row": row,
        "array of rows": pa.list_(row),
        "row of arrays": pa.struct([("a", pa.list_(leaf)), ("b", leaf)]),
    }[shape]
    array = pa.array([random_value(arrow, make, dice) for _ in range(203)], arrow).slice(3)
    keys = nested_keys(array)
    assert keys.is_null().equals(array.is_null())
    values = pa.table({"v": array, "k": keys})
    pairs = "values AS x, values AS y"
    wrong = duckdb.sql(
        f"SELECT x.v, y.v FROM {pairs} WHERE (x.v < y.v) IS DISTINCT FROM (x.k < y.k) "
        "OR (x.v = y.v) IS DISTINCT FROM (x.k = y.k) LIMIT 5"
    )
    assert wrong.fetchall() == []
    assert len(values) == 200


def test_no_rows_and_elements_of_no_type() -> None:
    assert nested_keys(pa.array([], pa.list_(pa.int64()))).to_pylist() == []
    empty, one = nested_keys(pa.array([[], [None]], pa.list_(pa.null()))).to_pylist()
    assert empty < one
