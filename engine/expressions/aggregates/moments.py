"""States of statistical aggregates, and folds of bits: vectorised over groups, and exact under
combination up to rounding.

Partial states are combined by the update formulas of Chan, Golub and LeVeque (1979) and Pébay
(2008). The sums of powers of differences from each mean are shifted to the common mean, which loses
no precision if the mean is large compared with the spread. Infinite arguments make them NaN, which
is no reason for a warning of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, from_numbers, indexes, numbers, validity
from runnel.errors import OutOfRangeException, Position
from runnel.expressions.aggregates.states import (
    AggregateState,
    Column,
    GroupByRequest,
    Work,
    contiguous,
    filled,
)


# For the row numbers [[0, 2], [1]] of two groups:
#     rows    [0, 2, 1]
#     groups  [0, 0, 1]  the group of each row
# `np.bincount(groups, x[rows], 2)` then adds up x per group.
def grouped_rows(lists: pa.Array) -> tuple[Indexes, Indexes, int]:
    """Row numbers that the group-by collected per group, without NULLs, as (row numbers, the group
    of each, number of groups).
    """
    items = lists.flatten()
    lengths = _lengths(lists)
    groups = np.repeat(np.arange(len(lists)), lengths)
    valid = validity(items)
    rows = numbers(items, np.int64)
    return (rows, groups, len(lists)) if valid is None else (rows[valid], groups[valid], len(lists))


def _lengths(lists: pa.Array) -> Any:
    if not len(lists):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(lists.buffers()[1], np.int32, len(lists) + 1, 4 * lists.offset)
    valid = validity(lists)
    lengths = np.diff(offsets)
    return lengths if valid is None else lengths * valid


@frozen
class Comoments(AggregateState):
    """For pairs of DOUBLEs without a NULL: count, both means, and the sums of squares and of
    products of the differences from the means.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), *[pa.float64()] * 5)

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        first, second = (contiguous(item) for item in arguments[:2])
        valid = [item for item in (validity(first), validity(second)) if item is not None]
        positions = indexes(np.arange(num_rows), np.logical_and.reduce(valid) if valid else None)

        @np.errstate(over="ignore", invalid="ignore")
        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            x, y = numbers(first, np.float64)[rows], numbers(second, np.float64)[rows]
            counts = np.bincount(groups, minlength=number)
            divisor = np.maximum(counts, 1)
            mean_x, mean_y = (np.bincount(groups, item, number) / divisor for item in (x, y))
            dx, dy = x - mean_x[groups], y - mean_y[groups]
            sums = [np.bincount(groups, item, number) for item in (dx * dx, dy * dy, dx * dy)]
            return _exported(counts, [mean_x, mean_y, *sums])

        return [GroupByRequest(positions, "list")], collect

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        positions = indexes(np.arange(len(columns[0])))

        @np.errstate(over="ignore", invalid="ignore")
        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            n, mx, my, sxx, syy, sxy = _values(columns, rows)
            counts = np.bincount(groups, n, number)
            divisor = np.maximum(counts, 1)
            mean_x, mean_y = (np.bincount(groups, n * item, number) / divisor for item in (mx, my))
            dx, dy = mx - mean_x[groups], my - mean_y[groups]
            moved = (sxx + n * dx * dx, syy + n * dy * dy, sxy + n * dx * dy)
            sums = [np.bincount(groups, item, number) for item in moved]
            return _exported(counts, [mean_x, mean_y, *sums])

        return [GroupByRequest(positions, "list")], collect


@frozen
class HigherMoments(AggregateState):
    """For DOUBLEs: count, mean, and the sums of the second, third and fourth powers of the
    differences from the mean.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), *[pa.float64()] * 4)

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        column = contiguous(arguments[0])
        positions = indexes(np.arange(num_rows), validity(column))

        @np.errstate(over="ignore", invalid="ignore")
        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            x = numbers(column, np.float64)[rows]
            counts = np.bincount(groups, minlength=number)
            mean = np.bincount(groups, x, number) / np.maximum(counts, 1)
            d = x - mean[groups]
            return _exported(
                counts, [mean, *(np.bincount(groups, d**power, number) for power in (2, 3, 4))]
            )

        return [GroupByRequest(positions, "list")], collect

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        positions = indexes(np.arange(len(columns[0])))

        @np.errstate(over="ignore", invalid="ignore")
        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            n, means, m2, m3, m4 = _values(columns, rows)
            counts = np.bincount(groups, n, number)
            mean = np.bincount(groups, n * means, number) / np.maximum(counts, 1)
            d = means - mean[groups]
            moved = (
                m2 + n * d**2,
                m3 + 3 * d * m2 + n * d**3,
                m4 + 4 * d * m3 + 6 * d**2 * m2 + n * d**4,
            )
            return _exported(counts, [mean, *(np.bincount(groups, item, number) for item in moved)])

        return [GroupByRequest(positions, "list")], collect


def _values(columns: Sequence[pa.Array], rows: Indexes) -> list[Any]:
    counts, *others = columns
    return [filled(counts, np.int64)[rows], *(filled(item, np.float64)[rows] for item in others)]


def _exported(counts: Any, values: Sequence[Any]) -> list[pa.Array]:
    some = counts > 0
    return [
        from_numbers(counts.astype(np.int64), pa.int64()),
        *(from_numbers(item, pa.float64(), some) for item in values),
    ]


_FOLDS: dict[str, Any] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "product": np.multiply,
}
_DTYPES = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}


@frozen
class Folded(AggregateState):
    """All arguments that aren't NULL, folded by an operation.

    A product of finite numbers that isn't finite is a DataError.

    operation: "and", "or", "xor" of bits, or "product".
    type: the type of the arguments.
    position: the position of the call, for the error.
    """

    operation: str
    type: pa.DataType
    position: Position | None = field(default=None, compare=False, repr=False)

    def placed(self, position: Position | None) -> AggregateState:
        return replace(self, position=position)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        return self._fold(contiguous(arguments[0]))

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._fold(columns[0])

    def _check_overflow(self, products: Any, are_finite: Any) -> None:
        """Raises DataError if a product of finite numbers isn't finite; `are_finite` flags the
        groups whose numbers are all finite.
        """
        if (are_finite & ~np.isfinite(products)).any():
            raise OutOfRangeException("DOUBLE overflow in PRODUCT", position=self.position)

    # For the values [6, 3, 5] of the groups [0, 0, 1] and "and", in `collect`:
    #     starts  [0, 2]  the index of the first value of each group
    #     folded  [2, 5]  6 & 3, and 5
    def _fold(self, column: pa.Array) -> Work:
        positions = indexes(np.arange(len(column)), validity(column))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            values = numbers(column, _DTYPES[self.type])[rows]
            folded = np.zeros(number, values.dtype)
            some = np.zeros(number, np.bool_)
            if len(rows):
                starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
                with np.errstate(over="ignore", invalid="ignore"):
                    folded[groups[starts]] = _FOLDS[self.operation].reduceat(values, starts)
                if self.operation == "product" and not np.isfinite(folded).all():
                    self._check_overflow(
                        folded[groups[starts]], np.logical_and.reduceat(np.isfinite(values), starts)
                    )
                some[groups[starts]] = True
            return [from_numbers(folded, self.type, some)]

        return [GroupByRequest(positions, "list")], collect
