"""Secondary indexes of a map: for every segment, the order of its rows by the index's columns.

Segments are immutable, so an order is made once, when the segment is first looked up, and a scan
that holds a snapshot of the segments has a snapshot of the index with it. Rows that died stay in
the order; the snapshot's mask leaves them out. Both kinds of index are kept in this way: a hash
index answers equality, a sorted one ranges and ORDER BY as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import Index, TableColumn
from runnel.connectors.imap.layout import Layout, select_fields
from runnel.connectors.imap.storage.segment import Segment
from runnel.connectors.imap.values import fixed_width_values, key_decoder
from runnel.errors import ErrorCode, ProgrammingError, suggest
from runnel.expressions.kernels.buffers import validity
from runnel.expressions.kernels.values import canonical
from runnel.sqltypes import DOUBLE, Kind, SqlType

Positions = np.ndarray[Any, np.dtype[np.uint32]]
Range = tuple[int, int]


class SortedOrder:
    """The rows of a segment by the columns of an index: first those with NULL in the first column,
    then by value, NaN last.

    `positions` are the rows in that order, `keys` the columns in a form that Arrow sorts as SQL
    does.
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
        """The places of rows whose first column equals one of some key forms, in order."""
        ranges = {
            (self._place(form, bisect_left), self._place(form, bisect_right)) for form in forms
        }
        return sorted(item for item in ranges if item[0] < item[1])

    def between(
        self, lower: Any, upper: Any, lower_inclusive: bool, upper_inclusive: bool
    ) -> list[Range]:
        """The places of rows whose first column lies between two key forms; None is no bound. NULL
        is never between."""
        low, high = self._nulls, len(self)
        if lower is not None:
            low = self._place(lower, bisect_left if lower_inclusive else bisect_right)
        if upper is not None:
            high = self._place(upper, bisect_right if upper_inclusive else bisect_left)
        return [(low, high)] if low < high else []

    def _place(self, form: Any, bisect: Any) -> int:
        """Where `form` would go: before (bisect_left) or behind (bisect_right) the rows that equal
        it."""
        numbers_end = len(self) - self._nans
        if form != form:
            return numbers_end if bisect is bisect_left else len(self)
        value, positions = self._first_value, self.positions
        place: int = bisect(
            range(len(self)), form, self._nulls, numbers_end, key=lambda i: value(int(positions[i]))
        )
        return place


def order_of(segment: Segment, layout: Layout, columns: tuple[int, ...]) -> SortedOrder:
    """The order of a segment's rows by columns of a layout, made when first asked for."""
    known = segment.orders.get((layout, columns))
    if known is None:
        arrays = select_fields(segment.batch, segment.layout, layout, columns)
        known = SortedOrder(arrays, [layout.types[i] for i in columns])
        segment.orders[layout, columns] = known
    return known


def sortable(array: pa.Array, sql_type: SqlType) -> pa.Array:
    """A column in a form whose Arrow order is SQL's: floats become integers, since Arrow puts NaN
    beside NULL."""
    if not sql_type.is_approximate:
        return array
    if sql_type.kind is Kind.REAL:
        array = pc.cast(array, pa.float64())
    # Adding 0.0 makes 0.0 of -0.0.
    numbers = np.where(
        _is_nan(array), np.float64("nan"), fixed_width_values(array, Kind.DOUBLE) + 0.0
    )
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
    """ProgrammingError where a map can't have such an index."""
    names = {column.name.lower(): column for column in columns}
    seen: set[str] = set()
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
        if name.lower() in seen:
            raise ProgrammingError(
                f'column "{column.name}" comes twice in index "{index.name}"',
                code=ErrorCode.INDEX_INVALID,
            )
        seen.add(name.lower())
