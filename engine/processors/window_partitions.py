"""Rows by partition and order: where each partition begins and ends, and each group of peers (rows that are equal in order)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Indexes, Mask, Numbers, flags, from_numbers, indexes, numbers, validity
from runnel.expressions.nodes import SortKey
from runnel.expressions.sorting import sortable, sorted_rows
from runnel.processors.row_identity import factorise, is_plain


class Partitions:
    """The rows of a window in order. All positions below are places in that order.

    For the row at place i its partition is `start[i]` … `end[i] - 1`, its peers are `peer_start[i]` … `peer_end[i] - 1`, and
    `group[i]` numbers the groups of peers through all partitions. `order[i]` is the input row at place i.
    """

    def __init__(self, partition: Sequence[pa.Array], keys: Sequence[pa.Array], order: Sequence[SortKey], rows: int) -> None:
        self.rows = rows
        columns = [_identity(item) for item in partition]
        ordered = [sortable(item) for item in keys]
        directions = [(False, True)] * len(columns) + [(key.descending, key.nulls_first) for key in order]
        if columns or ordered:
            self.order = numbers(sorted_rows([*columns, *ordered], directions), np.uint64).astype(np.int64)
        else:
            self.order = np.arange(rows)
        self._place = indexes(self.order)
        begins = _begins([item.take(self._place) for item in columns], rows)
        self.first_rows = np.flatnonzero(begins)
        self.start, self.end, self.partition = _ranges(begins)
        group_begins = begins | _begins([item.take(self._place) for item in ordered], rows) if ordered else begins
        self.group_starts = np.flatnonzero(group_begins)
        self.group_ends = np.append(self.group_starts[1:], rows)
        self.peer_start, self.peer_end, self.group = _ranges(group_begins)

    def sort(self, column: pa.Array) -> pa.Array:
        """A column of the input in this order."""
        return column.take(self._place)

    def unsort(self, column: pa.Array) -> pa.Array:
        """A column in this order in the order of the input."""
        place = np.empty(self.rows, np.int64)
        place[self.order] = np.arange(self.rows)
        return column.take(indexes(place))


def _identity(column: pa.Array) -> pa.Array:
    """A column that sorts rows of a partition together: nested values by number."""
    if is_plain(column.type):
        return sortable(column)
    codes, _ = factorise([column])
    return from_numbers(codes, pa.int64())


def _begins(columns: Sequence[pa.Array], rows: int) -> Mask:
    """Where a sorted row differs from the one before."""
    begins = np.zeros(rows, np.bool_)
    begins[:1] = True
    if rows > 1:
        for column in columns:
            begins[1:] |= _differs(column)
    return begins


def _differs(column: pa.Array) -> Mask:
    before, after = column.slice(0, len(column) - 1), column.slice(1)
    if pa.types.is_integer(column.type) and column.type.bit_width == 64:
        values: Numbers = numbers(column, np.int64)
        differs: Mask = values[1:] != values[:-1]
    else:
        differs = flags(pc.not_equal(before, after))
    valid = validity(column)
    if valid is None:
        return differs
    both, either = valid[1:] & valid[:-1], valid[1:] | valid[:-1]
    return (differs & both) | (either & ~both)


def _ranges(begins: Mask) -> tuple[Indexes, Indexes, Indexes]:
    """For each row the first row of its range, the one after its last, and the range's number."""
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(begins))
    number = np.cumsum(begins) - 1
    return starts[number], ends[number], number
