"""Secondary indexes of a map: for every segment, the order of its rows by the index's columns.

Segments are immutable, so an order is computed once, when the segment is first searched. A scan
that has a snapshot of the segments thereby has a snapshot of the index. Dead rows stay in the
order; the snapshot's mask excludes them. Both kinds of index are stored like this: a hash index
serves equality, a sorted index also ranges and ORDER BY.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import Index, TableColumn
from runnel.connectors.imap.layout import MapLayout, select_fields
from runnel.connectors.imap.storage.segment import Segment
from runnel.connectors.imap.values import fixed_width_values, key_decoder
from runnel.errors import ErrorCode, ProgrammingError, suggest
from runnel.expressions.kernels.buffers import validity
from runnel.expressions.kernels.values import canonical
from runnel.sqltypes import DOUBLE, Kind, SqlType

Positions = np.ndarray[Any, np.dtype[np.uint32]]
Range = tuple[int, int]


class SortedOrder:
    """The rows of a segment sorted by the columns of an index.

    Rows with NULL in the first column come first, then rows by value, NaN last.

    positions: the rows, by their index in the segment, in this order.
    keys: the columns in a form that Arrow sorts as SQL does, in the order of the segment.
    """

    __slots__ = ("_first_value", "_nans", "_nulls", "keys", "positions")

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[SqlType]) -> None:
        self.keys = [sortable(array, item) for array, item in zip(columns, types, strict=True)]
        self.positions: Positions = sorted_positions(self.keys)
        self._nulls = columns[0].null_count
        self._nans = _count_nans(columns[0], types[0])
        self._first_value = key_decoder(columns[0], types[0])

    def __len__(self) -> int:
        return len(self.positions)

    def everything(self) -> list[Range]:
        return [(0, len(self))]

    def points(self, forms: Sequence[Any]) -> list[Range]:
        """The ranges of rows whose first column equals one of some key forms, in order."""
        ranges = {
            (self._position(form, bisect_left), self._position(form, bisect_right))
            for form in forms
        }
        return sorted(item for item in ranges if item[0] < item[1])

    def between(
        self, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool
    ) -> list[Range]:
        """The range of rows whose first column is between two key forms; None is no bound.

        NULL is never between.
        """
        low, high = self._nulls, len(self)
        if lower is not None:
            low = self._position(lower, bisect_left if lower_inclusive else bisect_right)
        if upper is not None:
            high = self._position(upper, bisect_right if upper_inclusive else bisect_left)
        return [(low, high)] if low < high else []

    def _position(self, form: Any, bisect: Any) -> int:
        """The position at which `form` sorts: before (bisect_left) or after (bisect_right) the
        rows equal to it."""
        # The order has three sections: NULLs, numbers, NaNs. Example: the values [NULL, 1, 3, 3,
        # NaN], in order, have nulls = 1, nans = 1, numbers_end = 4. For 3, bisect_left returns 2
        # and bisect_right 4; for NaN the result is 4 or 5.
        numbers_end = len(self) - self._nans
        if form != form:
            return numbers_end if bisect is bisect_left else len(self)
        value, positions = self._first_value, self.positions
        position: int = bisect(
            range(len(self)), form, self._nulls, numbers_end, key=lambda i: value(int(positions[i]))
        )
        return position


def order_of(segment: Segment, layout: MapLayout, columns: tuple[int, ...]) -> SortedOrder:
    """The order of a segment's rows by columns of a layout, computed on first use."""
    known = segment.orders.get((layout, columns))
    if known is None:
        arrays = select_fields(segment.batch, segment.layout, layout, columns)
        known = SortedOrder(arrays, [layout.types[i] for i in columns])
        segment.orders[layout, columns] = known
    return known


def sortable(array: pa.Array, sql_type: SqlType) -> pa.Array:
    """A column in a form that Arrow sorts as SQL does.

    Floats become integers, since Arrow sorts NaN next to NULL.
    """
    if not sql_type.is_approximate:
        return array
    if sql_type.kind is Kind.REAL:
        array = pc.cast(array, pa.float64())
    # Adding 0.0 turns -0.0 into 0.0.
    numbers = np.where(
        _is_nan(array), np.float64("nan"), fixed_width_values(array, Kind.DOUBLE) + 0.0
    )
    # As an integer, the bits of a positive float increase with its value; the bits of a negative
    # float decrease. Flipping all bits but the sign reverses negative floats. Example: -2.0, -1.0,
    # 1.0 have the bits 0xC000…, 0xBFF0…, 0x3FF0…; the total order is 0xBFFF…, 0xC00F…, 0x3FF0…,
    # which as signed integers increases. A positive NaN is above all numbers.
    bits = numbers.view(np.int64)
    total = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    buffers = [validity(array), pa.py_buffer(np.ascontiguousarray(total))]
    return pa.Array.from_buffers(pa.int64(), len(array), buffers, null_count=array.null_count)


def _is_nan(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    numbers = fixed_width_values(array, Kind.DOUBLE)
    result: np.ndarray[Any, np.dtype[np.bool_]] = numbers != numbers
    return result


def sorted_positions(keys: Sequence[pa.Array]) -> Positions:
    """The stable ascending order of rows by sortable columns, NULL first."""
    names = [str(i) for i in range(len(keys))]
    batch = pa.RecordBatch.from_arrays(list(keys), names=names)
    order = pc.sort_indices(batch, sort_keys=[(name, "ascending", "at_start") for name in names])
    return np.frombuffer(order.buffers()[1], dtype=np.uint64, count=len(order)).astype(np.uint32)


def _count_nans(array: pa.Array, sql_type: SqlType) -> int:
    if not sql_type.is_approximate:
        return 0
    nans = pc.sum(pc.is_nan(canonical(pc.cast(array, pa.float64()), DOUBLE)))
    return int(nans.as_py() or 0)


def check_index(index: Index, columns: Sequence[TableColumn]) -> None:
    """ProgrammingError if a map cannot have this index."""
    names = {column.name.lower(): column for column in columns}
    names_so_far: set[str] = set()
    for name in index.columns:
        column = names.get(name.lower())
        if column is None:
            raise ProgrammingError(
                f'column "{name}" of index "{index.name}" not found in "{index.table_name}"',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(name, [item.name for item in columns]),
            )
        if column.type.is_nested or column.type.kind is Kind.JSON:
            raise ProgrammingError(
                f'column "{column.name}" is {column.type} and can\'t be in index "{index.name}"',
                code=ErrorCode.INDEX_INVALID,
                hint="index columns of simple types",
            )
        if name.lower() in names_so_far:
            raise ProgrammingError(
                f'column "{column.name}" comes twice in index "{index.name}"',
                code=ErrorCode.INDEX_INVALID,
            )
        names_so_far.add(name.lower())
