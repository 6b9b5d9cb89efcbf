"""Frames: for each row the rows that a window call sees, as ranges of places in the window's
order."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, Numbers, numbers, validity
from runnel.errors import DataError
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext
from runnel.expressions.context import EvaluationInput as Rows
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.sorting import ordered_integers
from runnel.expressions.nodes import Column, Expression, Literal, SortKey
from runnel.processors.constants import constant
from runnel.processors.over.partitions import WindowPartitions
from runnel.relation.over import BoundKind, Exclusion, FrameBound, FrameUnit, WindowFrame
from runnel.sqltypes import Kind, SqlType

_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_LARGEST = np.iinfo(np.int64).max
_SMALLEST = np.iinfo(np.int64).min
_WIDE = 60


class Range(NamedTuple):
    """For row i the places start[i] … end[i] - 1; none where end[i] = start[i]."""

    start: Indexes
    end: Indexes


Ranges = list[Range]
"""The rows of a frame: ranges that follow each other and don't touch the same row."""


@frozen
class RangeKey:
    """The one ORDER BY key of a RANGE frame with an offset: its values in the window's order, and
    how they are sorted."""

    values: pa.Array
    key: SortKey


def frame_ranges(
    frame: WindowFrame, rows: WindowPartitions, order: RangeKey | None, context: EvaluationContext
) -> Ranges:
    """The frame of each row."""
    bounds = _FrameBounds(frame.unit, rows, order, context)
    start, end = bounds.start(frame.start), bounds.end(frame.end)
    return _without(Range(start, np.maximum(start, end)), frame.exclusion, rows)


def _without(found: Range, exclusion: Exclusion, rows: WindowPartitions) -> Ranges:
    if exclusion is Exclusion.NO_OTHERS:
        return [found]
    place = np.arange(rows.rows)
    if exclusion is Exclusion.CURRENT_ROW:
        return [_cut(found, found.start, place), _cut(found, place + 1, found.end)]
    before, after = _cut(found, found.start, rows.peer_start), _cut(found, rows.peer_end, found.end)
    return (
        [before, after]
        if exclusion is Exclusion.GROUP
        else [before, _cut(found, place, place + 1), after]
    )


def _cut(found: Range, start: Indexes, end: Indexes) -> Range:
    """What of a range lies between `start` and `end`."""
    first = np.maximum(found.start, start)
    return Range(first, np.maximum(first, np.minimum(found.end, end)))


def check_offset(bound: FrameBound, context: EvaluationContext) -> Any:
    """The offset of a bound; DataError where it is NULL or negative."""
    assert bound.offset is not None
    value = constant(bound.offset, context)
    is_nan = isinstance(value, float) and value != value
    if value is None or is_nan or value < type(value)(0):
        shown = "NULL" if value is None else "NaN" if is_nan else "negative"
        raise DataError(f"the offset of a frame can't be {shown}", position=bound.offset.position)
    return value


class _FrameBounds:
    """Works out where frames begin and end."""

    def __init__(
        self,
        unit: FrameUnit,
        rows: WindowPartitions,
        order: RangeKey | None,
        context: EvaluationContext,
    ) -> None:
        self._unit = unit
        self._rows = rows
        self._order = order
        self._context = context

    def start(self, bound: FrameBound) -> Indexes:
        """The first place of each frame."""
        rows = self._rows
        if bound.kind is BoundKind.UNBOUNDED_PRECEDING:
            return rows.start
        if bound.kind is BoundKind.CURRENT_ROW:
            return np.arange(rows.rows) if self._unit is FrameUnit.ROWS else rows.peer_start
        if self._unit is FrameUnit.RANGE:
            return self._in_range(bound, is_end=False)
        step = self._step(bound)
        if self._unit is FrameUnit.ROWS:
            return np.clip(np.arange(rows.rows) + step, rows.start, rows.end)
        return self._group_place(rows.group + step, rows.group_starts)

    def end(self, bound: FrameBound) -> Indexes:
        """The place behind the last one of each frame."""
        rows = self._rows
        if bound.kind is BoundKind.UNBOUNDED_FOLLOWING:
            return rows.end
        if bound.kind is BoundKind.CURRENT_ROW:
            return np.arange(1, rows.rows + 1) if self._unit is FrameUnit.ROWS else rows.peer_end
        if self._unit is FrameUnit.RANGE:
            return self._in_range(bound, is_end=True)
        step = self._step(bound)
        if self._unit is FrameUnit.ROWS:
            return np.clip(np.arange(1, rows.rows + 1) + step, rows.start, rows.end)
        return self._group_place(rows.group + step, rows.group_ends)

    def _step(self, bound: FrameBound) -> int:
        """How far to go; no further than there are rows, so that nothing overflows."""
        offset = min(int(check_offset(bound, self._context)), self._rows.rows + 1)
        return -offset if bound.kind is BoundKind.PRECEDING else offset

    def _group_place(self, group: Indexes, places: Indexes) -> Indexes:
        rows = self._rows
        found = places[np.clip(group, 0, max(len(places) - 1, 0))] if len(places) else group
        found = np.where(group < 0, 0, np.where(group >= len(places), rows.rows, found))
        return np.clip(found, rows.start, rows.end)

    def _in_range(self, bound: FrameBound, is_end: bool) -> Indexes:
        """By value: NULLs are in range of NULLs only, and of nothing else."""
        rows, order = self._rows, self._order
        assert order is not None and bound.offset is not None
        offset = check_offset(bound, self._context)
        is_added = (bound.kind is BoundKind.FOLLOWING) is not order.key.descending
        kinds = (order.key.expression.type, bound.offset.type)
        keys, wanted = _compared(order.values, kinds, offset, is_added, self._context)
        if order.key.descending:
            keys, wanted = ~keys, ~wanted
        valid = validity(order.values)
        if valid is None:
            return _searched(keys, wanted, rows.start, rows.end, is_end)
        first, last = _known(valid, rows, order.key.nulls_first)
        found = _searched(keys, wanted, first, last, is_end)
        return np.where(valid, found, rows.peer_end if is_end else rows.peer_start)


def _known(valid: Mask, rows: WindowPartitions, nulls_first: bool) -> tuple[Indexes, Indexes]:
    """Where in each row's partition the keys that aren't NULL are."""
    counts = np.concatenate(([0], np.cumsum(~valid)))
    nulls = counts[rows.end] - counts[rows.start]
    return (rows.start + nulls, rows.end) if nulls_first else (rows.start, rows.end - nulls)


def _searched(
    keys: Numbers, wanted: Numbers, start: Indexes, end: Indexes, is_end: bool
) -> Indexes:
    """For each row the first place from `start` to `end` whose key isn't before `wanted`; for an
    end, is after it."""
    if len(keys) and start[0] == 0 and end[0] == len(keys):
        return np.searchsorted(keys, wanted, "right" if is_end else "left").astype(np.int64)
    low, high = start.copy(), end.copy()
    searching = np.flatnonzero(low < high)
    while len(searching):
        middle = (low[searching] + high[searching]) >> 1
        probed, target = keys[middle], wanted[searching]
        goes_on = probed <= target if is_end else probed < target
        low[searching] = np.where(goes_on, middle + 1, low[searching])
        high[searching] = np.where(goes_on, high[searching], middle)
        searching = searching[low[searching] < high[searching]]
    return low


def _compared(
    values: pa.Array,
    kinds: tuple[SqlType, SqlType],
    offset: Any,
    is_added: bool,
    context: EvaluationContext,
) -> tuple[Numbers, Numbers]:
    """The keys, and the keys with the offset added or subtracted, as integers of the same order."""
    kind, given = kinds
    if kind.is_approximate or given.is_approximate:
        doubles = pc.cast(values, pa.float64(), safe=False)
        moved = pc.add(doubles, _double(offset if is_added else -offset))
        return numbers(ordered_integers(doubles), np.int64), numbers(
            ordered_integers(moved), np.int64
        )
    if given.kind is Kind.DECIMAL or kind.kind is Kind.DECIMAL:
        return _decimals(values, kinds, offset, is_added)
    if given.kind is Kind.INTERVAL_MONTH and kind.kind is not Kind.INTERVAL_MONTH:
        return _months(values, kinds, offset, is_added, context)
    keys = _integers(values, kind, given)
    distance = int(offset // _MICROSECOND) if isinstance(offset, timedelta) else int(offset)
    with np.errstate(over="ignore"):
        if is_added:
            moved = np.where(keys > _LARGEST - distance, _LARGEST, keys + distance)
        else:
            moved = np.where(keys < _SMALLEST + distance, _SMALLEST, keys - distance)
    return keys, moved


def _double(value: Any) -> pa.Scalar:
    return pack_scalar(float(value), SqlType(Kind.DOUBLE))


def _integers(values: pa.Array, kind: SqlType, given: SqlType) -> Numbers:
    width = values.type.bit_width
    keys = numbers(values, {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[width]).astype(
        np.int64
    )
    return keys * _DAY if kind.kind is Kind.DATE and given.kind is Kind.INTERVAL else keys


def _decimals(
    values: pa.Array, kinds: tuple[SqlType, SqlType], offset: Any, is_added: bool
) -> tuple[Numbers, Numbers]:
    """By rank among both, for Arrow compares 256 bits and numpy can't."""
    scale = max(kinds[0].scale, kinds[1].scale)
    wide = pa.decimal256(_WIDE, scale)
    exact = values if pa.types.is_decimal(values.type) else pc.cast(values, pa.decimal128(38, 0))
    keys = pc.cast(exact, wide)
    distance = pc.cast(
        pack_scalar(Decimal(offset), kinds[1] if kinds[1].kind is Kind.DECIMAL else _WHOLE), wide
    )
    moved = pc.cast((pc.add if is_added else pc.subtract)(keys, distance), wide)
    both = pa.concat_arrays([keys, moved])
    order = numbers(pc.sort_indices(both), np.uint64).astype(np.int64)
    ordered = both.take(pc.sort_indices(both))
    rank = np.zeros(len(both), np.int64)
    if len(both) > 1:
        differs = pc.fill_null(
            pc.not_equal(ordered.slice(1), ordered.slice(0, len(both) - 1)), _FALSE
        )
        rank[order[1:]] = np.cumsum(numbers(pc.cast(differs, pa.int8()), np.int8), dtype=np.int64)
    return rank[: len(keys)], rank[len(keys) :]


_WHOLE = SqlType(Kind.DECIMAL, 38, 0)
_FALSE = pack_scalar(False, SqlType(Kind.BOOLEAN))


def _months(
    values: pa.Array,
    kinds: tuple[SqlType, SqlType],
    offset: int,
    is_added: bool,
    context: EvaluationContext,
) -> tuple[Numbers, Numbers]:
    """By the calendar: the engine's own addition of months."""
    key: Expression = Column(index=0, name="key", type=kinds[0])
    moved = build.call(
        "add" if is_added else "subtract", [key, Literal(value=offset, type=kinds[1])]
    )
    rows = Rows([values], len(values), context)
    target = evaluate(compile_expression(moved), rows)
    plain = evaluate(compile_expression(build.cast(key, moved.type, implicit=True)), rows)
    none = SqlType(Kind.NULL)
    return _integers(plain, moved.type, none), _integers(target, moved.type, none)
