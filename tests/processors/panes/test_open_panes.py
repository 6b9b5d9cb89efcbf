"""Panes hold the groups that a group-by over the same rows returns."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from runnel.errors import DataError
from runnel.expressions.aggregates.states import (
    AggregateState,
    Count,
    Extreme,
    Items,
    SumDecimal,
    SumDouble,
    SumInteger,
)
from runnel.processors.grouping.group_state import GroupLayout, GroupState, Partial, appended
from runnel.processors.panes import open_panes as panes_module
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.panes.open_panes import OpenPanes, open_panes
from runnel.relation.streams import TimeBound
from tests.effort import some

STATES: dict[AggregateState, pa.DataType] = {
    Count(): pa.string(),
    SumInteger(): pa.int32(),
    SumDecimal(10, 2): pa.decimal128(10, 2),
    SumDouble(): pa.float32(),
    Extreme("min", pa.int16()): pa.int16(),
    Extreme("max", pa.int64()): pa.int64(),
    Extreme("min", pa.float64()): pa.float64(),
    Extreme("max", pa.float64()): pa.float64(),
    Extreme("max", pa.timestamp("us")): pa.timestamp("us"),
}
LAYOUT = GroupLayout(
    (pa.timestamp("us"), pa.int64(), pa.string()),
    tuple(STATES.values()),
    (*STATES, Count(of_rows=True)),
    (*((i,) for i in range(len(STATES))), ()),
)
NARROW = GroupLayout((pa.int64(), pa.int64()), (pa.int64(),), (SumInteger(),), ((0,),))


def _panes(layout: GroupLayout) -> OpenPanes:
    found = open_panes(layout, DueTimes([(0, TimeBound(0))]))
    assert found is not None
    return found


def _value(kind: pa.DataType, chance: random.Random) -> object:
    if pa.types.is_string(kind):
        return chance.choice(["x", "y"])
    if pa.types.is_floating(kind):
        return chance.choice([1.5, -0.25, -4.0] if kind == pa.float32() else [math.nan, 2.0, -1.0])
    if pa.types.is_decimal(kind):
        return Decimal(chance.randrange(-99, 99)) / 4
    return chance.randrange(-100, 100)


def _rows(layout: GroupLayout, ends: list[int], nulls: float, seed: int) -> list[pa.Array]:
    chance = random.Random(seed)
    columns = [pa.array(ends, pa.int64()).view(layout.key_types[0])]
    for kind in (*layout.key_types[1:], *layout.argument_types):
        share = nulls if kind != pa.int64() or len(columns) > 1 else 0.0
        values = [
            None if chance.random() < share else _value(kind, chance) for _ in range(len(ends))
        ]
        columns.append(pa.array(values, kind))
    return columns


def _shown(partial: Partial) -> list[str]:
    columns = [*partial.keys, *(column for columns in partial.columns for column in columns)]
    wide = [
        column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
        for column in columns
    ]
    return sorted(map(repr, zip(*(column.to_pylist() for column in wide), strict=True)))


@pytest.mark.parametrize("order", ["in order", "scattered"])
@pytest.mark.parametrize("nulls", [0.0, 0.3])
@pytest.mark.parametrize("seed", some(range(6), 2))
def test_groups_are_those_of_a_group_by(order: str, nulls: float, seed: int) -> None:
    chance = random.Random(seed)
    panes, whole = _panes(LAYOUT), GroupState(LAYOUT, lambda _: None)
    for number in range(4):
        ends = [10 * chance.randrange(number, number + 3) for _ in range(50)]
        columns = _rows(LAYOUT, sorted(ends) if order == "in order" else ends, nulls, number)
        assert panes.add(columns, len(ends))
        whole.add(columns, len(ends))
    assert panes.rows == 200
    expected = whole.combined()
    assert panes.size[0] == expected.num_rows
    due = panes.take_due([21])
    assert [part.num_rows for part in due if part.num_rows]
    assert all(time < 21 for part in due for time in part.keys[0].view(pa.int64()).to_pylist())
    assert min(min(times) for times in panes.least()) >= 21
    assert _shown(appended([*due, *panes.take_all()])) == _shown(expected)
    assert panes.is_empty


@pytest.mark.parametrize("nulls", [0.0, 0.3])
@pytest.mark.parametrize("seed", some(range(6), 2))
def test_groups_are_combined(nulls: float, seed: int) -> None:
    chance = random.Random(seed)
    panes, whole = _panes(LAYOUT), GroupState(LAYOUT, lambda _: None)
    for number in range(5):
        ends = [10 * chance.randrange(3) for _ in range(60)]
        some_rows = GroupState(LAYOUT, lambda _: None)
        some_rows.add(_rows(LAYOUT, ends, nulls if number else 0.0, number), len(ends))
        groups = some_rows.combined()
        assert panes.add_groups(groups)
        whole.add_partial(groups)
    assert _shown(appended(panes.take_all())) == _shown(whole.combined())


def test_sums_of_groups_stay_in_64_bits() -> None:
    panes = _panes(NARROW)
    sums = pa.array([2**62]).cast(pa.decimal128(38, 0))
    groups = Partial([pa.array([10]), pa.array([1])], [[sums]], 1)
    assert panes.add_groups(groups)
    assert not panes.add_groups(groups)
    wide = pa.array([Decimal(2**70)], pa.decimal128(38, 0))
    too_wide = Partial([pa.array([20]), pa.array([1])], [[wide]], 1)
    assert not panes.add_groups(too_wide)
    (part,) = panes.take_all()
    assert part.columns[0][0].to_pylist() == [2**62]


def test_rows_that_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    panes = _panes(NARROW)
    many = [10 * number for number in range(panes_module.MOST_PARTS + 1)]
    assert not panes.add(_rows(NARROW, many, 0.0, 1), len(many)), "too many panes"
    null = [pa.array([None], pa.int64()), pa.array([1]), pa.array([1])]
    assert not panes.add(null, 1), "no time"
    assert panes.is_empty
    monkeypatch.setattr(panes_module, "ROOM", 100)
    assert panes.add([pa.array([10]), pa.array([99]), pa.array([1])], 1)
    assert not panes.add([pa.array([20]), pa.array([99]), pa.array([1])], 1), "mostly unused"
    (part,) = panes.take_all()
    assert _shown(part) == ["(Decimal('10'), Decimal('99'), Decimal('1'))"]
    assert panes.add([pa.array([20]), pa.array([99]), pa.array([1])], 1)


def test_sums_stay_in_64_bits() -> None:
    panes = _panes(NARROW)
    large = [pa.array([10]), pa.array([1]), pa.array([2**62])]
    assert panes.add(large, 1)
    assert not panes.add(large, 1)
    assert not panes.add([pa.array([20] * 2), pa.array([1] * 2), pa.array([2**62] * 2)], 2)
    (part,) = panes.take_all()
    assert part.columns[0][0].to_pylist() == [2**62]


def test_doubles_whose_sum_is_infinite() -> None:
    layout = GroupLayout((pa.int64(),), (pa.float64(),), (SumDouble(),), ((0,),))
    panes = _panes(layout)
    assert panes.add([pa.array([10]), pa.array([1e308])], 1)
    with pytest.raises(DataError, match="DOUBLE overflow in SUM"):
        panes.add([pa.array([10]), pa.array([1e308])], 1)
    panes = _panes(layout)
    for value in (math.inf, 1e308, -math.inf):
        assert panes.add([pa.array([10]), pa.array([value])], 1)
    (part,) = panes.take_all()
    assert math.isnan(part.columns[0][0][0].as_py())


def test_states_that_are_not_all_numbers() -> None:
    items = Items(pa.int64(), keeps_nulls=False)
    layout = GroupLayout((pa.int64(),), (pa.int64(),), (Count(), items), ((0,), (0,)))
    assert open_panes(layout, DueTimes([(0, TimeBound(0))])) is None
