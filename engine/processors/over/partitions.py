"""Rows sorted by partition and order: the bounds of each partition, and of each group of peers
(rows of a partition that are equal in the order)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes
from runnel.expressions.nodes import SortKey
from runnel.processors.over.row_order import Digits, digits_of, joined, order_of


class WindowPartitions:
    """The rows of a window, sorted. All arrays are indexed by the row's index in window order.

    rows: the number of rows.
    order: `order[i]` is the input row at index i.
    start, end: the partition of row i is `start[i]` … `end[i] - 1`.
    partition: the number of the partition, from 0.
    peer_start, peer_end: the peers of row i are `peer_start[i]` … `peer_end[i] - 1`.
    group: the number of the group of peers, from 0 through all partitions.
    group_starts, group_ends: the bounds of each group of peers, indexed by its number.
    """

    def __init__(
        self,
        partition: Sequence[pa.Array],
        keys: Sequence[pa.Array],
        order: Sequence[SortKey],
        rows: int,
    ) -> None:
        self.rows = rows
        by_partition = joined([digits_of(item, None) for item in partition], rows)
        directions = [(key.descending, key.nulls_first) for key in order]
        ordered = [digits_of(item, how) for item, how in zip(keys, directions, strict=True)]
        whole = joined([by_partition, *ordered], rows) if ordered else by_partition
        self._is_in_order = whole.span == 1
        self.order = np.arange(rows) if self._is_in_order else order_of(whole)
        self._take_indexes = indexes(self.order)
        begins = self._begins(by_partition)
        self.start, self.end, self.partition = _ranges(begins)
        group_begins = self._begins(whole) if ordered else begins
        self.group_starts = np.flatnonzero(group_begins)
        self.group_ends = np.append(self.group_starts[1:], rows)
        self.peer_start, self.peer_end, self.group = (
            _ranges(group_begins) if ordered else (self.start, self.end, self.partition)
        )

    def sort(self, column: pa.Array) -> pa.Array:
        """A column in input order, sorted into window order."""
        return column if self._is_in_order else column.take(self._take_indexes)

    def unsort(self, column: pa.Array) -> pa.Array:
        """A column in window order, back in input order."""
        if self._is_in_order:
            return column
        inverse = np.empty(self.rows, np.int64)
        inverse[self.order] = np.arange(self.rows)
        return column.take(indexes(inverse))

    def _begins(self, digits: Digits) -> Mask:
        """Flags the rows, in window order, that differ from the preceding row."""
        begins = np.zeros(self.rows, np.bool_)
        begins[:1] = True
        if digits.span > 1:
            values = digits.values[self.order]
            begins[1:] = values[1:] != values[:-1]
        return begins


def _ranges(begins: Mask) -> tuple[Indexes, Indexes, Indexes]:
    """For each row the first row of its range, the row after its last one, and the range's
    number."""
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(begins)))
    return (
        np.repeat(starts, lengths),
        np.repeat(starts + lengths, lengths),
        np.repeat(np.arange(len(starts)), lengths),
    )
