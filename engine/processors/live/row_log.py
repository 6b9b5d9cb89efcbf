"""Rows by position: a log to which batches of rows are appended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes
from runnel.processors.grouping.group_state import join_states
from runnel.storage.memory_budget import size_of


class RowLog:
    """The rows that were appended, numbered from 0.

    They are stored in chunks of geometric sizes: a chunk that is not smaller than the chunk before
    it is joined with it. So a row is copied a logarithmic number of times, and there are few
    chunks.
    """

    def __init__(self) -> None:
        self._chunks: list[Sequence[pa.Array]] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return sum(size_of(column) for chunk in self._chunks for column in chunk)

    def frozen(self) -> RowLog:
        """The rows as they are now, which later changes of this object leave as they are."""
        found = RowLog()
        found._chunks, found._ends = list(self._chunks), list(self._ends)
        return found

    def append(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Appends rows."""
        if not num_rows:
            return
        columns = list(columns)
        while self._chunks and num_rows >= self._length(-1):
            num_rows += self._length(-1)
            before = self._chunks.pop()
            self._ends.pop()
            columns = [join_states(both) for both in zip(before, columns, strict=True)]
        self._ends.append(len(self) + num_rows)
        self._chunks.append(columns)

    def _length(self, chunk: int) -> int:
        start = self._ends[chunk - 1] if len(self._ends) > 1 else 0
        return self._ends[chunk] - start

    def row(self, position: int) -> list[pa.Array]:
        """The row at a position, as arrays of one value."""
        chunk = bisect_right(self._ends, position)
        start = self._ends[chunk - 1] if chunk else 0
        return [column.slice(position - start, 1) for column in self._chunks[chunk]]

    def take(self, rows: Indexes, columns: Sequence[int] | None = None) -> list[pa.Array]:
        """The rows at these positions, of a log that is not empty.

        columns: the indexes of the columns; None: all.
        """
        chunks = self._chunks
        if columns is not None:
            chunks = [[chunk[i] for i in columns] for chunk in chunks]
        # Example: chunks of 4 and 2 rows, and the positions [5, 0]. ends = [4, 6],
        # chunk = [1, 0], order = [1, 0]; row 0 of chunk 0 and row 1 of chunk 1 are taken and
        # joined, and `back` = [1, 0] restores the requested order.
        if len(chunks) == 1:
            taken = indexes(rows)
            return [column.take(taken) for column in chunks[0]]
        ends = np.array(self._ends)
        chunk = np.searchsorted(ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        bounds = np.searchsorted(chunk[order], np.arange(len(ends) + 1))
        taken_columns: list[list[pa.Array]] = [[] for _ in chunks[0]]
        for i, chunk_columns in enumerate(chunks):
            own = rows[order[bounds[i] : bounds[i + 1]]]
            if not len(own):
                continue
            local = indexes(own - (self._ends[i - 1] if i else 0))
            for target, column in zip(taken_columns, chunk_columns, strict=True):
                target.append(column.take(local))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        positions = indexes(back)
        return [join_states(parts).take(positions) for parts in taken_columns]
