"""Partial states of aggregates, vectorised over groups.

A state is some columns with one row per group. It is created from argument rows (`accumulate`) or
from partial states (`combine`). Both return requests to one group-by; `collect` then converts the
results, one value per group, to the state's columns. A NULL in a state means "no rows yet", and has
no effect when it is combined.

Within one operator the columns have the types that `collect` made, wider or narrower than `types`:
a sum of integers is BIGINT, or DECIMAL(38, 0) if it does not fit. `export` converts them to `types`
before they are sent on an edge.

States are here, in `mapped.py` (a state over values computed from the arguments), `moments.py`
(statistics, folds of bits), `hyperloglog.py` (sketches) and `rows.py` (whole rows). For frames of
OVER and for windows that overlap, operators have a rule per class; without one they regroup rows.
`Mapped` needs no rule of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import from_numbers, indexes, join_arrays, numbers, validity
from runnel.errors import DataError, OutOfRangeException, Position
from runnel.expressions.kernels.buffers import unscaled

Column = Any
"""A pyarrow Array or ChunkedArray."""

LARGEST = 2**63 - 1
WHOLE = pa.decimal128(38, 0)
"""The type of a sum of integers."""
_WIDE_DIGITS = 76
_LARGEST_128 = 10**38


class GroupByRequest(NamedTuple):
    """One aggregation by the group-by.

    column: the values to aggregate; None for "count_all".
    function: Arrow's name of the aggregation, without "hash_".
    options: Arrow's options of the aggregation.
    """

    column: Column | None
    function: str
    options: Any = None


Collect = Callable[[list[pa.Array]], list[pa.Array]]
"""Converts the results of the requests to the columns of a state."""
Work = tuple[list[GroupByRequest], Collect]
"""The requests to the group-by, and the conversion of their results."""


def _as_they_are(results: list[pa.Array]) -> list[pa.Array]:
    return results


class Merge(Enum):
    """How two values of a state's only column become one; NULL has no effect.

    ADD: their sum. Sums of integers and DECIMALs are exact, so that subtracting a state undoes its
      addition; sums of DOUBLEs are rounded, so that it doesn't. Windows that overlap subtract only
      while the sums of all their panes fit in 64 bits; otherwise they combine states.
    MIN, MAX: the smaller or the larger one; NaN is the largest number.
    """

    ADD = "add"
    MIN = "min"
    MAX = "max"


@frozen
class AggregateState(ABC):
    """The base of all states."""

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """The Arrow types of the columns as they are sent on edges."""

    @property
    def combined(self) -> AggregateState:
        """The state that combines the columns: the state itself, unless it delegates."""
        return self

    @property
    def merge(self) -> Merge | None:
        """The operation that combines two values of the only column; None if `combine` does more.

        By this operation, OVER all earlier rows of a stream is computed from row to row.
        """
        return None

    @property
    def grows(self) -> bool:
        """Whether the state of a group grows with the number of its rows."""
        return any(map(pa.types.is_list, self.types))

    @abstractmethod
    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        """Aggregates argument rows.

        May raise DataError for an invalid argument: each row that isn't NULL counts in some group.
        Over frames of OVER, a rule raises it only if a frame contains the row (`Mapped.invalid`).
        If the value of a group is out of range, `finish` raises the error, as a sum of some of the
        rows may be larger than the sum of all rows.
        """

    @abstractmethod
    def combine(self, columns: Sequence[pa.Array]) -> Work:
        """Aggregates states."""

    def export(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns in the types that are sent on edges."""
        return [
            c if c.type == t else pc.cast(c, t) for c, t in zip(columns, self.types, strict=True)
        ]

    def placed(self, position: Position | None) -> AggregateState:
        """The state of a call at that position, for errors of the state itself."""
        return self


@frozen
class Count(AggregateState):
    """The number of rows, or of arguments that aren't NULL.

    of_rows: whether all rows count.
    """

    of_rows: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    @property
    def merge(self) -> Merge:
        return Merge.ADD

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        if self.of_rows:
            return [GroupByRequest(None, "count_all")], _as_they_are
        return [GroupByRequest(arguments[0], "count")], _as_they_are

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return [GroupByRequest(columns[0], "sum")], _as_they_are


@frozen
class SumInteger(AggregateState):
    """An exact sum of integers: in 64 bits if the number of rows times the largest argument proves
    that it fits, else in 128.

    It is sent as a DECIMAL, so that partial sums out of the range of BIGINT are no overflow if the
    total is in range.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (WHOLE,)

    @property
    def merge(self) -> Merge:
        return Merge.ADD

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        return self._sum(arguments[0])

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._sum(_narrowed(columns[0]))

    def _sum(self, column: Column) -> Work:
        if not pa.types.is_decimal(column.type) and not fits_in_64_bits(column):
            column = pc.cast(column, WHOLE)
        return [GroupByRequest(column, "sum")], _as_they_are


def _narrowed(column: pa.Array) -> pa.Array:
    """Integers of 128 bits in 64 bits if all of them fit, as these are added in a fraction of the
    time.
    """
    if not pa.types.is_decimal(column.type):
        return column
    words = numbers(column, np.dtype((np.int64, 2)))
    low, valid = words[:, 0], validity(column)
    fits = words[:, 1] == low >> 63
    if not (fits if valid is None else fits[valid]).all():
        return column
    return from_numbers(low, pa.int64(), valid)


def fits_in_64_bits(column: Column) -> bool:
    """Whether every sum of values of an integer column is in the range of BIGINT."""
    rows = len(column)
    if column.type.bit_width < 64:
        return bool(rows << (column.type.bit_width - 1) <= LARGEST)
    if isinstance(column, pa.Array) and rows and not column.null_count:
        values = numbers(column, np.int64)
        low, high = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    else:
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return bool(low is None or rows * max(-low, high) <= LARGEST)


@frozen
class SumDecimal(AggregateState):
    """A sum of DECIMAL(precision, scale), in 256 bits unless 128 are proved to be enough.

    precision, scale: of the arguments.
    """

    precision: int
    scale: int

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        if self.precision <= 19:
            return (pa.decimal128(38, self.scale),)
        return (pa.decimal256(_WIDE_DIGITS, self.scale),)

    @property
    def merge(self) -> Merge:
        return Merge.ADD

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        column = arguments[0]
        if num_rows * 10**self.precision > _LARGEST_128 and not self._fits(column):
            column = pc.cast(column, pa.decimal256(_WIDE_DIGITS, self.scale))
        return [GroupByRequest(column, "sum")], _as_they_are

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return [GroupByRequest(pc.cast(columns[0], self.types[0]), "sum")], _as_they_are

    def _fits(self, column: Column) -> bool:
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is None:
            return True
        largest = max(abs(unscaled(low, self.scale)), abs(unscaled(high, self.scale)))
        return len(column) * largest < _LARGEST_128


def sum_overflow(position: Position | None) -> DataError:
    """The error for finite DOUBLEs whose sum isn't finite."""
    return OutOfRangeException(
        "DOUBLE overflow in SUM", hint="cast the argument to DECIMAL", position=position
    )


@frozen
class SumDouble(AggregateState):
    """A sum of REAL or DOUBLE.

    A sum of finite values that isn't finite is a DataError.

    position: the position of the call, for the error.
    """

    position: Position | None = field(default=None, compare=False, repr=False)

    def placed(self, position: Position | None) -> AggregateState:
        return replace(self, position=position)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.float64(),)

    @property
    def merge(self) -> Merge:
        return Merge.ADD

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        return self._sum(arguments[0])

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._sum(columns[0])

    def _sum(self, column: Column) -> Work:
        def collect(results: list[pa.Array]) -> list[pa.Array]:
            if (
                np.isinf(filled(results[0], np.float64)).any()
                and not pc.any(pc.is_inf(column)).as_py()
            ):
                raise sum_overflow(self.position)
            return results

        return [GroupByRequest(column, "sum")], collect


@frozen
class Extreme(AggregateState):
    """The smallest or largest argument; NaN is the largest number.

    function: "min" or "max".
    type: the type of the arguments.
    """

    function: str
    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    @property
    def merge(self) -> Merge:
        return Merge(self.function)

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        return self._extreme(arguments[0])

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._extreme(columns[0])

    def _extreme(self, column: Column) -> Work:
        if pa.types.is_duration(self.type):
            plain = GroupByRequest(pc.cast(column, pa.int64()), self.function)
            return [plain], lambda results: [results[0].cast(self.type)]
        # Arrow's kernels skip NaN. NaN is the largest number, so only "max" needs more.
        if self.function == "max" and pa.types.is_floating(self.type):
            is_nan = pc.is_nan(column)
            if pc.any(is_nan).as_py():
                return [
                    GroupByRequest(column, "max"),
                    GroupByRequest(is_nan, "max"),
                ], self._with_nan
        return [GroupByRequest(column, self.function)], _as_they_are

    def _with_nan(self, results: list[pa.Array]) -> list[pa.Array]:
        nan = from_numbers(np.array([np.nan]), pa.float64())[0].cast(self.type)
        return [pc.if_else(results[1], nan, results[0])]


@frozen
class First(AggregateState):
    """The argument that arrived first and isn't NULL; for every type."""

    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    @property
    def grows(self) -> bool:
        return False

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        return self._first(arguments[0])

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._first(columns[0])

    def _first(self, column: Column) -> Work:
        array = contiguous(column)
        positions = indexes(np.arange(len(array)), validity(array))
        return [GroupByRequest(positions, "min")], lambda results: [array.take(results[0])]


@frozen
class VarianceState(AggregateState):
    """Count, mean and the sum of squared differences from the mean (M2) of DOUBLE arguments.

    States are combined by the method of Chan, Golub and LeVeque (1979), which loses no precision if
    the mean is large compared with the spread.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), pa.float64(), pa.float64())

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        column = arguments[0]
        requests = [
            GroupByRequest(column, "count"),
            GroupByRequest(column, "mean"),
            GroupByRequest(column, "variance", pc.VarianceOptions(ddof=0)),
        ]

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            counts, means, variances = results
            squares = pc.multiply(pc.cast(counts, pa.float64()), variances)
            return [pc.cast(counts, pa.int64()), means, squares]

        return requests, collect

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        positions = indexes(np.arange(len(columns[0])))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = members(results[0])
            counts = filled(columns[0], np.int64)[rows]
            means = filled(columns[1], np.float64)[rows]
            squares = filled(columns[2], np.float64)[rows]
            totals = np.bincount(groups, counts, number)
            divisor = np.maximum(totals, 1)
            mean = np.bincount(groups, counts * means, number) / divisor
            with np.errstate(over="ignore", invalid="ignore"):  # infinity less infinity is NaN
                spread = counts * np.square(means - mean[groups])
            square = np.bincount(groups, squares + spread, number)
            some = totals > 0
            return [
                from_numbers(totals.astype(np.int64), pa.int64()),
                from_numbers(mean, pa.float64(), some),
                from_numbers(square, pa.float64(), some),
            ]

        return [GroupByRequest(positions, "list")], collect


@frozen
class Items(AggregateState):
    """All arguments in a list, in the order of arrival; NULL without any.

    With a second argument, this is a flag that says which rows count, and NULLs count too.

    type: the type of the arguments.
    keeps_nulls: whether NULLs count, if there is no flag.
    """

    type: pa.DataType
    keeps_nulls: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.type),)

    # For the arguments [a, NULL, b] of the groups [0, 0, 1], without NULLs, in `collect`:
    #     lists  [[0, NULL], [2]]  the row numbers that the group-by collected
    #     ends   [0, 2, 3]         offsets; with the NULLs dropped [0, 1, 2]
    #     rows   [0, 2]
    #     result [[a], [b]]
    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        array = contiguous(arguments[0])
        positions = np.arange(len(array))
        if len(arguments) > 1:
            mask = contiguous(arguments[1])
            positions_column = indexes(positions, filled(mask.cast(pa.int8()), np.int8) != 0)
        else:
            positions_column = indexes(positions, None if self.keeps_nulls else validity(array))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            lists = results[0]
            rows = lists.flatten()
            ends = numbers(lists_offsets(lists), np.int32)
            if rows.null_count:
                valid = validity(rows)
                assert valid is not None
                ends = np.concatenate(([0], np.cumsum(valid)))[ends]
                rows = rows.drop_null()
            return [_lists(array.take(rows), ends, self.types[0])]

        return [GroupByRequest(positions_column, "list")], collect

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        lists = columns[0]
        positions = indexes(np.arange(len(lists)))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = members(results[0])
            ordered = lists.take(indexes(rows))
            lengths = filled(pc.list_value_length(ordered), np.int32)
            ends = np.concatenate(([0], np.cumsum(np.bincount(groups, lengths, number)))).astype(
                np.int32
            )
            return [_lists(ordered.flatten(), ends, self.types[0])]

        return [GroupByRequest(positions, "list")], collect


def _lists(items: pa.Array, ends: Any, arrow: pa.DataType) -> pa.Array:
    """Lists over `items`; an empty list is NULL."""
    offsets = from_numbers(np.asarray(ends, np.int32), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, items, type=arrow)
    return pc.if_else(pc.greater(pc.list_value_length(lists), _ZERO), lists, pa.nulls(1, arrow)[0])


_ZERO = from_numbers(np.zeros(1, np.int32), pa.int32())[0]


def lists_offsets(lists: pa.Array) -> pa.Array:
    """The offsets of lists without NULLs, from 0."""
    lengths = filled(pc.list_value_length(lists), np.int32)
    return from_numbers(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32), pa.int32())


def members(lists: pa.Array) -> tuple[Any, Any, int]:
    """Row numbers that the group-by collected per group, as (row numbers, the group of each, number
    of groups).
    """
    rows = numbers(lists.flatten(), np.int64)
    lengths = filled(pc.list_value_length(lists), np.int32)
    return rows, np.repeat(np.arange(len(lists)), lengths), len(lists)


def filled(array: pa.Array, dtype: Any) -> Any:
    """Numbers with 0 for NULL."""
    valid = validity(array)
    values = numbers(array, dtype)
    return values if valid is None else np.where(valid, values, dtype(0))


def contiguous(column: Column) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return join_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return column
