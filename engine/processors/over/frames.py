"""Frames: for each row the rows that a window call reads, as ranges of row indexes in window
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
from runnel.expressions.kernels.order_keys import ordered_integers
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
    """A range of rows for each row, in window order.

    start: for row i the index of its first row.
    end: for row i the index after its last row; equal to start[i] if the range is empty.
    """

    start: Indexes
    end: Indexes


Ranges = list[Range]
"""The rows of each frame: disjoint ranges, in ascending order."""


@frozen
class RangeKey:
    """The only ORDER BY key of a RANGE frame with an offset.

    values: the key of each row, in window order.
    key: the expression and its direction.
    """

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
    current = np.arange(rows.rows)
    if exclusion is Exclusion.CURRENT_ROW:
        return [_cut(found, found.start, current), _cut(found, current + 1, found.end)]
    before, after = _cut(found, found.start, rows.peer_start), _cut(found, rows.peer_end, found.end)
    return (
        [before, after]
        if exclusion is Exclusion.GROUP
        else [before, _cut(found, current, current + 1), after]
    )


def _cut(found: Range, start: Indexes, end: Indexes) -> Range:
    """The intersection of each range with [start, end)."""
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
    """Computes the first row and the end of each frame."""

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
        """The index of the first row of each frame."""
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
        return self._group_bound(rows.group + step, rows.group_starts)

    def end(self, bound: FrameBound) -> Indexes:
        """The index after the last row of each frame."""
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
        return self._group_bound(rows.group + step, rows.group_ends)

    def _step(self, bound: FrameBound) -> int:
        """The offset in rows or groups, negative for PRECEDING; at most the number of rows + 1, so
        that no addition overflows."""
        offset = min(int(check_offset(bound, self._context)), self._rows.rows + 1)
        return -offset if bound.kind is BoundKind.PRECEDING else offset

    def _group_bound(self, group: Indexes, bounds: Indexes) -> Indexes:
        """The bound of each given group of peers, limited to the partition of the row."""
        rows = self._rows
        found = bounds[np.clip(group, 0, max(len(bounds) - 1, 0))] if len(bounds) else group
        found = np.where(group < 0, 0, np.where(group >= len(bounds), rows.rows, found))
        return np.clip(found, rows.start, rows.end)

    def _in_range(self, bound: FrameBound, is_end: bool) -> Indexes:
        """The bound by distance of keys. The frame of a NULL key is the NULL keys."""
        rows, order = self._rows, self._order
        assert order is not None and bound.offset is not None
        offset = check_offset(bound, self._context)
        is_added = (bound.kind is BoundKind.FOLLOWING) is not order.key.descending
        kinds = (order.key.expression.type, bound.offset.type)
        keys, targets = _keys_and_targets(order.values, kinds, offset, is_added, self._context)
        if order.key.descending:
            keys, targets = ~keys, ~targets
        valid = validity(order.values)
        if valid is None:
            return _first_at(keys, targets, rows.start, rows.end, is_end)
        first, last = _non_null_rows(valid, rows, order.key.nulls_first)
        found = _first_at(keys, targets, first, last, is_end)
        return np.where(valid, found, rows.peer_end if is_end else rows.peer_start)


def _non_null_rows(
    valid: Mask, rows: WindowPartitions, nulls_first: bool
) -> tuple[Indexes, Indexes]:
    """The range of rows in each row's partition whose key is not NULL."""
    counts = np.concatenate(([0], np.cumsum(~valid)))
    nulls = counts[rows.end] - counts[rows.start]
    return (rows.start + nulls, rows.end) if nulls_first else (rows.start, rows.end - nulls)


def _first_at(
    keys: Numbers, targets: Numbers, start: Indexes, end: Indexes, is_end: bool
) -> Indexes:
    """For each row the first index in [start, end) whose key is at least the target; with `is_end`,
    greater than the target. The index is `end` if there is none.

    Keys 1 3 3 5, all in one partition, target 3: index 1, with `is_end` 3. A binary search runs
    for all rows at once: each step halves the range of the rows that are still searching.
    """
    if len(keys) and start[0] == 0 and end[0] == len(keys):
        return np.searchsorted(keys, targets, "right" if is_end else "left").astype(np.int64)
    low, high = start.copy(), end.copy()
    searching = np.flatnonzero(low < high)
    while len(searching):
        middle = (low[searching] + high[searching]) >> 1
        probed, target = keys[middle], targets[searching]
        is_before = probed <= target if is_end else probed < target
        low[searching] = np.where(is_before, middle + 1, low[searching])
        high[searching] = np.where(is_before, high[searching], middle)
        searching = searching[low[searching] < high[searching]]
    return low


def _keys_and_targets(
    values: pa.Array,
    kinds: tuple[SqlType, SqlType],
    offset: Any,
    is_added: bool,
    context: EvaluationContext,
) -> tuple[Numbers, Numbers]:
    """The keys, and the keys with the offset added or subtracted, as integers of the same order.

    `kinds` are the types of the key and of the offset.
    """
    kind, offset_kind = kinds
    if kind.is_approximate or offset_kind.is_approximate:
        doubles = pc.cast(values, pa.float64(), safe=False)
        moved = pc.add(doubles, _double(offset if is_added else -offset))
        return numbers(ordered_integers(doubles), np.int64), numbers(
            ordered_integers(moved), np.int64
        )
    if offset_kind.kind is Kind.DECIMAL or kind.kind is Kind.DECIMAL:
        return _decimals(values, kinds, offset, is_added)
    if offset_kind.kind is Kind.INTERVAL_MONTH and kind.kind is not Kind.INTERVAL_MONTH:
        return _months(values, kinds, offset, is_added, context)
    keys = _integers(values, kind, offset_kind)
    distance = int(offset // _MICROSECOND) if isinstance(offset, timedelta) else int(offset)
    with np.errstate(over="ignore"):
        if is_added:
            moved = np.where(keys > _LARGEST - distance, _LARGEST, keys + distance)
        else:
            moved = np.where(keys < _SMALLEST + distance, _SMALLEST, keys - distance)
    return keys, moved


def _double(value: Any) -> pa.Scalar:
    return pack_scalar(float(value), SqlType(Kind.DOUBLE))


def _integers(values: pa.Array, kind: SqlType, offset_kind: SqlType) -> Numbers:
    """The keys in the unit of the offset: a DATE with an INTERVAL offset in microseconds."""
    width = values.type.bit_width
    keys = numbers(values, {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[width]).astype(
        np.int64
    )
    return keys * _DAY if kind.kind is Kind.DATE and offset_kind.kind is Kind.INTERVAL else keys


def _decimals(
    values: pa.Array, kinds: tuple[SqlType, SqlType], offset: Any, is_added: bool
) -> tuple[Numbers, Numbers]:
    """The ranks of keys and targets among both: numpy has no 256-bit integers, Arrow sorts them."""
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
    """Keys and targets by the calendar, with the addition of months that SQL has."""
    key: Expression = Column(index=0, name="key", type=kinds[0])
    moved = build.call(
        "add" if is_added else "subtract", [key, Literal(value=offset, type=kinds[1])]
    )
    rows = Rows([values], len(values), context)
    target = evaluate(compile_expression(moved), rows)
    plain = evaluate(compile_expression(build.cast(key, moved.type, implicit=True)), rows)
    none = SqlType(Kind.NULL)
    return _integers(plain, moved.type, none), _integers(target, moved.type, none)
