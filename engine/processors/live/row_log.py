"""Rows by position: a log to which batches of rows are appended."""

from __future__ import annotations

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

    def take(self, rows: Indexes) -> list[pa.Array]:
        """The rows at these positions, of a log that is not empty."""
        # Example: chunks of 4 and 2 rows, and the positions [5, 0]. ends = [4, 6],
        # chunk = [1, 0], order = [1, 0]; row 0 of chunk 0 and row 1 of chunk 1 are taken and
        # joined, and `back` = [1, 0] restores the requested order.
        if len(self._chunks) == 1:
            taken = indexes(rows)
            return [column.take(taken) for column in self._chunks[0]]
        ends = np.array(self._ends)
        chunk = np.searchsorted(ends, rows, side="right")
        order = np.argsort(chunk, kind="stable")
        bounds = np.searchsorted(chunk[order], np.arange(len(ends) + 1))
        taken_columns: list[list[pa.Array]] = [[] for _ in self._chunks[0]]
        for i, columns in enumerate(self._chunks):
            own = rows[order[bounds[i] : bounds[i + 1]]]
            if not len(own):
                continue
            local = indexes(own - (self._ends[i - 1] if i else 0))
            for target, column in zip(taken_columns, columns, strict=True):
                target.append(column.take(local))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        positions = indexes(back)
        return [join_states(columns).take(positions) for columns in taken_columns]
