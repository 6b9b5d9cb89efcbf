"""Rows by partition and order: where each partition begins and ends, and each group of peers (rows
that are equal in order)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes
from runnel.expressions.nodes import SortKey
from runnel.processors.over.row_order import Digits, digits_of, joined, order_of


class WindowPartitions:
    """The rows of a window in order. All positions below are places in that order.

    For the row at place i its partition is `start[i]` … `end[i] - 1`, its peers are `peer_start[i]`
    … `peer_end[i] - 1`, and `group[i]` numbers the groups of peers through all partitions.
    `order[i]` is the input row at place i.
    """

    def __init__(
        self,
        partition: Sequence[pa.Array],
        keys: Sequence[pa.Array],
        order: Sequence[SortKey],
        rows: int,
    ) -> None:
        self.rows = rows
        parts = joined([digits_of(item, None) for item in partition], rows)
        wanted = [(key.descending, key.nulls_first) for key in order]
        ordered = [digits_of(item, direction) for item, direction in zip(keys, wanted, strict=True)]
        whole = joined([parts, *ordered], rows) if ordered else parts
        self._is_in_order = whole.span == 1
        self.order = np.arange(rows) if self._is_in_order else order_of(whole)
        self._place = indexes(self.order)
        begins = self._begins(parts)
        self.start, self.end, self.partition = _ranges(begins)
        group_begins = self._begins(whole) if ordered else begins
        self.group_starts = np.flatnonzero(group_begins)
        self.group_ends = np.append(self.group_starts[1:], rows)
        self.peer_start, self.peer_end, self.group = (
            _ranges(group_begins) if ordered else (self.start, self.end, self.partition)
        )

    def sort(self, column: pa.Array) -> pa.Array:
        """A column of the input in this order."""
        return column if self._is_in_order else column.take(self._place)

    def unsort(self, column: pa.Array) -> pa.Array:
        """A column in this order in the order of the input."""
        if self._is_in_order:
            return column
        place = np.empty(self.rows, np.int64)
        place[self.order] = np.arange(self.rows)
        return column.take(indexes(place))

    def _begins(self, digits: Digits) -> Mask:
        """Where a row in order differs from the one before."""
        begins = np.zeros(self.rows, np.bool_)
        begins[:1] = True
        if digits.span > 1:
            values = digits.values[self.order]
            begins[1:] = values[1:] != values[:-1]
        return begins


def _ranges(begins: Mask) -> tuple[Indexes, Indexes, Indexes]:
    """For each row the first row of its range, the one after its last, and the range's number."""
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(begins)))
    return (
        np.repeat(starts, lengths),
        np.repeat(starts + lengths, lengths),
        np.repeat(np.arange(len(starts)), lengths),
    )
