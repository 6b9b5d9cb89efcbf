"""States of aggregates over ranges of rows, for all ranges at once.

Counts, and sums of integers and DECIMALs, are differences of running totals, which are exact. The
other states are computed by a segment tree: differences of floats lose the small values next to
large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import (
    Indexes,
    Mask,
    Numbers,
    flags,
    from_flags,
    from_numbers,
    indexes,
    numbers,
    validity,
)
from runnel.expressions.aggregates.mapped import Mapped
from runnel.expressions.aggregates.states import (
    AggregateState,
    Count,
    Extreme,
    First,
    SumDecimal,
    SumDouble,
    SumInteger,
    VarianceState,
    fits_in_64_bits,
    sum_overflow,
)
from runnel.expressions.kernels.order_keys import ordered_integers
from runnel.processors.over.frames import Ranges
from runnel.processors.over.row_order import digits_of
from runnel.processors.over.segment_tree import Combine, RangeTree, Values
from runnel.processors.over.values import Known, nth_row

_WORD = np.int64(0xFFFF_FFFF)
_MOST = np.iinfo(np.int64).max
_LEAST = np.iinfo(np.int64).min
_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _totals(values: Numbers, ranges: Ranges) -> Indexes:
    """The sums of integers over ranges; the caller ensures that no sum overflows."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    total: Indexes = np.add.reduce([running[end] - running[start] for start, end in ranges])
    return total


def _lengths(ranges: Ranges) -> Indexes:
    length: Indexes = np.add.reduce([end - start for start, end in ranges])
    return length


def _counts(column: pa.Array, ranges: Ranges) -> Indexes:
    """The number of values that are not NULL in each range."""
    valid = validity(column)
    return _lengths(ranges) if valid is None else _totals(valid, ranges)


def _some(column: pa.Array, ranges: Ranges) -> Mask | None:
    """Flags the ranges that have a value; None if all have one."""
    some: Mask = _counts(column, ranges) > 0
    return None if some.all() else some


def _filled(column: pa.Array, values: Numbers, neutral: Any) -> Numbers:
    valid = validity(column)
    return values if valid is None else np.where(valid, values, neutral)


def _count(state: Count, arguments: Sequence[pa.Array], ranges: Ranges) -> list[pa.Array]:
    found = _lengths(ranges) if state.of_rows else _counts(arguments[0], ranges)
    return [from_numbers(found, pa.int64())]


def _sum_integer(
    state: SumInteger, arguments: Sequence[pa.Array], ranges: Ranges
) -> list[pa.Array]:
    column = arguments[0]
    values = _filled(column, numbers(column, _WIDTHS[column.type.bit_width]), 0).astype(
        np.int64, copy=False
    )
    some = _some(column, ranges)
    if fits_in_64_bits(column):
        return [from_numbers(_totals(values, ranges), pa.int64(), some)]
    low, high = _totals(values & _WORD, ranges), _totals(values >> 32, ranges)
    high += low >> 32
    return [_wide([high << 32 | low & _WORD, high >> 32], pa.decimal128(38, 0), some)]


def _wide(words: Sequence[Indexes], arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    """A DECIMAL column from its 64-bit words, the least significant first."""
    rows = np.column_stack(words)
    bitmap = None if valid is None else from_flags(valid).buffers()[1]
    return pa.Array.from_buffers(
        arrow, len(rows), [bitmap, pa.py_buffer(np.ascontiguousarray(rows))]
    )


def _sum_decimal(
    state: SumDecimal, arguments: Sequence[pa.Array], ranges: Ranges
) -> list[pa.Array]:
    column = arguments[0]
    words = (
        np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset)
        if len(column)
        else np.zeros(0)
    )
    low, high = words[0::2].astype(np.int64, copy=False), words[1::2].astype(np.int64, copy=False)
    low, high = _filled(column, low, 0), _filled(column, high, 0)
    some = _some(column, ranges)
    if ((low >> 63) == high).all() and fits_in_64_bits(from_numbers(low, pa.int64())):
        total = _totals(low, ranges)
        return [_wide([total, total >> 63], pa.decimal128(38, state.scale), some)]
    # The sums of 32-bit words cannot overflow 64 bits; then carries go to the next word.
    halves = [low & _WORD, low >> 32 & _WORD, high & _WORD, high >> 32]
    first, second, third, fourth = (_totals(word, ranges) for word in halves)
    second += first >> 32
    third += second >> 32
    fourth += third >> 32
    sign = fourth >> 63
    exact = [second << 32 | first & _WORD, fourth << 32 | third & _WORD, fourth >> 32, sign]
    return [_wide(exact, pa.decimal256(76, state.scale), some)]


def _over(tree: RangeTree, ranges: Ranges, combine: Combine) -> Values:
    found = tree.over(*ranges[0])
    for item in ranges[1:]:
        found = combine(found, tree.over(*item))
    return found


def _plus(left: Values, right: Values) -> Values:
    return (left[0] + right[0],)


def _sum_double(state: SumDouble, arguments: Sequence[pa.Array], ranges: Ranges) -> list[pa.Array]:
    column = (
        arguments[0] if arguments[0].type == pa.float64() else pc.cast(arguments[0], pa.float64())
    )
    values = _filled(column, numbers(column, np.float64), 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        (total,) = _over(RangeTree([values], [0.0], _plus), ranges, _plus)
    if np.isinf(total).any() and not np.isinf(values).any():
        raise sum_overflow(state.position)
    return [from_numbers(total, pa.float64(), _some(column, ranges))]


def _least(left: Values, right: Values) -> Values:
    return (np.minimum(left[0], right[0]),)


def _greatest(left: Values, right: Values) -> Values:
    return (np.maximum(left[0], right[0]),)


def _extreme(state: Extreme, arguments: Sequence[pa.Array], ranges: Ranges) -> list[pa.Array]:
    column = arguments[0]
    codes, decode = _codes(column)
    is_max = state.function == "max"
    combine, neutral = (_greatest, _LEAST) if is_max else (_least, _MOST)
    (best,) = _over(
        RangeTree([_filled(column, codes, neutral)], [neutral], combine), ranges, combine
    )
    return [decode(best, _some(column, ranges))]


_Decode = Callable[[Indexes, "Mask | None"], pa.Array]


def _codes(column: pa.Array) -> tuple[Numbers, _Decode]:
    """The values as integers of the same order, and a function that decodes them."""
    kind = column.type
    if pa.types.is_floating(kind):
        return numbers(ordered_integers(column), np.int64), lambda codes, valid: _from_ordered(
            codes, kind, valid
        )
    if pa.types.is_boolean(kind):
        return flags(column).astype(np.int64), lambda codes, valid: from_flags(codes > 0, valid)
    if pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        dtype = _WIDTHS[kind.bit_width]
        values = numbers(column, dtype).astype(np.int64, copy=False)
        return values, lambda codes, valid: from_numbers(codes.astype(dtype), kind, valid)
    digits = digits_of(column, (False, True))
    rows = np.zeros(digits.span, np.int64)
    rows[digits.values] = np.arange(len(column))

    def ranked(codes: Indexes, valid: Mask | None) -> pa.Array:
        return column.take(
            indexes(rows[codes if valid is None else np.where(valid, codes, 0)], valid)
        )

    return digits.values, ranked


def _from_ordered(codes: Indexes, kind: pa.DataType, valid: Mask | None) -> pa.Array:
    """The inverse of `ordered_integers`."""
    bits = codes ^ ((codes >> 63) & np.int64(_MOST))
    doubles = bits.view(np.float64)
    return from_numbers(
        doubles.astype(np.float32) if pa.types.is_float32(kind) else doubles, kind, valid
    )


def _first(state: First, arguments: Sequence[pa.Array], ranges: Ranges) -> list[pa.Array]:
    column = arguments[0]
    valid = validity(column)
    known = Known(np.ones(len(column), np.bool_) if valid is None else valid)
    index, found = nth_row(known.ranges(ranges), np.zeros(len(ranges[0].start), np.int64))
    rows = known.rows[np.where(found, index, 0)] if len(known.rows) else index
    return [column.take(indexes(rows, found))]


def _merged(left: Values, right: Values) -> Values:
    """Combine counts, means and sums of squared deviations of two sets of values (Chan, Golub and
    LeVeque, 1979)."""
    count = left[0] + right[0]
    share = right[0] / np.maximum(count, 1)
    difference = right[1] - left[1]
    mean = np.where(
        right[0] == 0, left[1], np.where(left[0] == 0, right[1], left[1] + difference * share)
    )
    is_one_empty = (left[0] == 0) | (right[0] == 0)
    between = np.where(is_one_empty, 0.0, difference * difference * left[0] * share)
    return count, mean, left[2] + right[2] + between


def _variance(
    state: VarianceState, arguments: Sequence[pa.Array], ranges: Ranges
) -> list[pa.Array]:
    column = arguments[0]
    values = _filled(column, numbers(column, np.float64), 0.0)
    valid = validity(column)
    ones = np.ones(len(values), np.int64) if valid is None else valid.astype(np.int64)
    # The deviation is 0 for a finite value; infinity - infinity is NaN, as is the variance then.
    with np.errstate(invalid="ignore", over="ignore"):
        tree = RangeTree([ones, values, values - values], [0, 0.0, 0.0], _merged)
        count, mean, squares = _over(tree, ranges, _merged)
    some = count > 0
    return [
        from_numbers(count, pa.int64()),
        from_numbers(mean, pa.float64(), some),
        from_numbers(squares, pa.float64(), some),
    ]


_RULES: dict[type[AggregateState], Callable[[Any, Sequence[pa.Array], Ranges], list[pa.Array]]] = {
    Count: _count,
    SumInteger: _sum_integer,
    SumDecimal: _sum_decimal,
    SumDouble: _sum_double,
    Extreme: _extreme,
    First: _first,
    VarianceState: _variance,
}
"""For each class of state that can be computed over ranges, a function that returns its columns,
one row per range."""


def has_rule(state: AggregateState) -> bool:
    """Whether a state can be computed over ranges. Otherwise frames are expanded to their rows and
    grouped, which is quadratic in the length of a frame.
    """
    return type(state.combined) in _RULES


def over_ranges(
    state: AggregateState, arguments: Sequence[pa.Array], ranges: Ranges
) -> list[pa.Array]:
    """The columns of a state that has a rule, one row per range."""
    if not isinstance(state, Mapped):
        return _RULES[type(state)](state, arguments, ranges)
    if state.invalid is not None and _totals(state.invalid(arguments), ranges).any():
        raise state.error()
    return over_ranges(state.state, [state.values(arguments)], ranges)
