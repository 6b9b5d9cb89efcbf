"""Frames as arrays give what frames as groups give: random groups, shapes, orders of arrival; keys
that come and go."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

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
from runnel.processors.grouping.group_state import GroupLayout, GroupState, Partial
from runnel.processors.panes.dense_states import dense_state
from runnel.processors.time_windows import dense_frames
from runnel.processors.time_windows.dense_frames import DenseFrames
from runnel.processors.time_windows.frames import FrameTimes, WindowFrames
from runnel.relation.streams import WindowKind, WindowShape
from tests.effort import some

STATES: tuple[AggregateState, ...] = (
    Count(of_rows=True),
    Count(),
    SumInteger(),
    SumDecimal(10, 2),
    SumDouble(),
    Extreme("min", pa.int32()),
    Extreme("max", pa.int64()),
    Extreme("min", pa.float64()),
    Extreme("max", pa.float64()),
    Extreme("max", pa.timestamp("us")),
    Extreme("min", pa.date32()),
    Extreme("min", pa.decimal128(18, 3)),
)
SHAPES = [
    (WindowKind.HOP, 10, 1),
    (WindowKind.HOP, 10, 3),
    (WindowKind.HOP, 4, 4),
    (WindowKind.CUMULATE, 12, 3),
]
KEYS = ((pa.int64(),), (pa.string(), pa.int64()), (pa.list_(pa.int64()),), ())


def _layout(
    keys: tuple[pa.DataType, ...], states: tuple[AggregateState, ...] = STATES
) -> GroupLayout:
    return GroupLayout(keys, (), states, ((),) * len(states))


def _frames(shape: WindowShape, layout: GroupLayout) -> tuple[DenseFrames, WindowFrames]:
    times = FrameTimes(shape)
    states = [dense_state(state) for state in layout.states]
    found = [state for state in states if state is not None]
    assert len(found) == len(states)
    return DenseFrames(times, layout, found), WindowFrames(
        times, GroupState(layout, lambda _: None).combine
    )


def _key(kind: pa.DataType, number: int) -> object:
    if number % 13 == 12:
        return None
    if pa.types.is_string(kind):
        return f"key {number // 2}"
    return [number, None] if pa.types.is_list(kind) else number


def _value(state: AggregateState, kind: pa.DataType, chance: random.Random) -> object:
    if chance.random() < 0.2 and not isinstance(state, Count):
        return None
    if pa.types.is_floating(kind):
        return chance.choice([math.nan, -math.inf, -0.0, 0.0, 1.5, -2.25, 2.0**40])
    if pa.types.is_decimal(kind):
        return (
            pa.scalar(chance.randrange(-(10**9), 10**9), pa.int64())
            .cast(pa.decimal128(38, 0))
            .as_py()
            .scaleb(-kind.scale)
        )
    number = chance.randrange(-(2**31), 2**31)
    if pa.types.is_date(kind):
        return number % 100_000
    return abs(number) if isinstance(state, Count) else number


def _groups(layout: GroupLayout, numbers: list[int], chance: random.Random) -> Partial:
    keys = [pa.array([_key(kind, number) for number in numbers], kind) for kind in layout.key_types]
    columns = []
    for state in layout.states:
        kind = state.types[0]
        columns.append([pa.array([_value(state, kind, chance) for _ in numbers], kind)])
    return Partial(keys, columns, len(numbers))


def _rows(partial: Partial | None) -> list[str]:
    """The rows in an order of their own; sums of DOUBLE as they are, for these are exact or
    infinite here."""
    if partial is None:
        return []
    columns = [*partial.keys, *(column for columns in partial.columns for column in columns)]
    kinds = [
        pa.decimal128(38, 0) if pa.types.is_integer(column.type) else column.type
        for column in columns
    ]
    values = [column.cast(kind).to_pylist() for column, kind in zip(columns, kinds, strict=True)]
    clean = [
        [0.0 if value == 0 and isinstance(value, float) else value for value in items]
        for items in values
    ]
    return sorted(map(repr, zip(*clean, strict=True))) if clean else ["()"] * partial.num_rows


def _arrivals(
    shape: WindowShape, layout: GroupLayout, chance: random.Random
) -> Iterator[tuple[list[int], list[int], Partial]]:
    """Groups of some frames at a time, mostly in order; the keys wander."""
    length = FrameTimes(shape).length
    at = 0
    for step in range(12):
        at = max(0, at + chance.choice([-3, 0, 1, 2, 9])) if layout.key_types else at + 4
        ends, bounds, numbers = [], [0], []
        for frame in range(at, at + chance.randrange(1, 4)):
            pool = range(6 * step, 6 * step + 12)
            chosen = chance.sample(pool, chance.randrange(1, 8)) if layout.key_types else [0]
            if layout.key_types and pa.types.is_string(layout.key_types[0]):
                chosen = sorted({2 * number for number in chosen})
            distinct = {
                repr([_key(kind, number) for kind in layout.key_types]): number for number in chosen
            }
            numbers += distinct.values()
            ends.append((frame + 1) * length)
            bounds.append(len(numbers))
        yield ends, bounds, _groups(layout, numbers, chance)


@pytest.mark.parametrize("seed", some(range(12), 5))
@pytest.mark.parametrize(
    "keys", KEYS, ids=lambda keys: f"{len(keys)} keys of {keys[0] if keys else ''}"
)
def test_windows_are_those_of_frames_as_groups(
    keys: tuple[pa.DataType, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(dense_frames, "SPARSE_KEYS", 8)
    monkeypatch.setattr(dense_frames, "FEW_ROWS", chance.choice([1, 1 << 20]))
    kind, size, step = SHAPES[seed % len(SHAPES)]
    shape = WindowShape(kind, size, step, 1)
    layout = _layout(keys)
    dense, sparse = _frames(shape, layout)
    until = -100
    for ends, bounds, groups in _arrivals(shape, layout, chance):
        assert dense.add_groups(ends, bounds, groups)
        assert sparse.add_groups(ends, bounds, groups)
        moment = ends[0] + chance.randrange(3)
        while (end := sparse.next_end(until)) is not None and end <= moment:
            assert dense.next_end(until) == end
            assert _rows(dense.window(end)) == _rows(sparse.window(end))
            until = end
        until = max(until, moment)
        dense.forget(until)
        sparse.forget(until)
        assert dense.is_empty == sparse.is_empty
        assert dense.size[0] >= sparse.size[0] - dense.size[0]
        assert [(end, _rows(part)) for end, part in dense.frames()] == [
            (end, _rows(part)) for end, part in sparse.frames()
        ]
    while (end := sparse.next_end(until)) is not None:
        assert _rows(dense.window(end)) == _rows(sparse.window(end))
        until = end
    assert dense.next_end(until) is None


def _one(values: list[int | float], arrow: pa.DataType) -> Partial:
    return Partial(
        [pa.array(range(len(values)), pa.int64())], [[pa.array(values, arrow)]], len(values)
    )


def test_sums_that_may_outgrow_64_bits_are_not_taken() -> None:
    dense, _ = _frames(
        WindowShape(WindowKind.HOP, 3, 1, 0), _layout((pa.int64(),), (SumInteger(),))
    )
    assert dense.add_groups([1], [0, 2], _one([2**62, 1], pa.int64()))
    assert not dense.add_groups([2], [0, 1], _one([2**62], pa.int64()))
    assert not dense.add_groups([2], [0, 1], _one([-(2**63)], pa.int64()))
    assert dense.add_groups([2], [0, 1], _one([2**62 - 1], pa.int64()))
    assert _rows(dense.window(2)) == _rows(_one([2**63 - 1, 1], pa.int64()))
    # The first frame goes, and there is room again.
    assert dense.window(4) is not None
    assert dense.add_groups([5], [0, 1], _one([-(2**62)], pa.int64()))
    assert _rows(dense.window(5)) == _rows(_one([-(2**62)], pa.int64()))


def test_wide_decimals_are_taken_where_they_fit_64_bits() -> None:
    dense, _ = _frames(
        WindowShape(WindowKind.HOP, 3, 1, 0), _layout((pa.int64(),), (SumDecimal(38, 0),))
    )
    wide = pa.decimal256(76, 0)
    assert dense.add_groups([1], [0, 2], _one([-5, 2**62], wide))
    assert not dense.add_groups([2], [0, 1], _one([2**63], wide))
    assert not dense.add_groups([2], [0, 1], _one([2**64], wide))
    found = dense.window(1)
    assert found is not None
    assert found.columns[0][0].type == wide
    assert found.columns[0][0].to_pylist() == [-5, 2**62]


def test_doubles_that_outgrow_themselves_are_an_error() -> None:
    for values, fails in (([1e308, 1e308], True), ([math.inf, 1e308], False)):
        dense, _ = _frames(
            WindowShape(WindowKind.HOP, 2, 1, 0), _layout((pa.int64(),), (SumDouble(),))
        )
        for end, value in enumerate(values, 1):
            assert dense.add_groups([end], [0, 1], _one([value], pa.float64()))
        assert dense.window(1) is not None
        if fails:
            with pytest.raises(DataError, match="DOUBLE overflow in SUM"):
                dense.window(2)
        else:
            assert _rows(dense.window(2)) == _rows(_one([math.inf], pa.float64()))


def test_keys_that_are_gone_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_frames, "SPARSE_KEYS", 100)
    dense, _ = _frames(WindowShape(WindowKind.HOP, 2, 1, 0), _layout((pa.int64(),), (Count(),)))
    for end in range(1, 200):
        keys = pa.array(range(100 * end, 100 * end + 50), pa.int64())
        assert dense.add_groups(
            [end], [0, 50], Partial([keys], [[pa.array([end] * 50, pa.int64())]], 50)
        )
        window = dense.window(end)
        assert window is not None
        assert window.num_rows == min(100, 50 * end)
        dense.forget(end)
        assert dense._keys.count <= 1000
    dense.forget(1000)
    assert dense.is_empty
    assert dense._keys.count == 0


def test_states_that_are_no_numbers() -> None:
    assert dense_state(Items(pa.int64(), keeps_nulls=False)) is None
    assert dense_state(Extreme("min", pa.string())) is None
    assert dense_state(Extreme("max", pa.bool_())) is None
