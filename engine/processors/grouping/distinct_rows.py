"""A growing set of rows that reports which rows of a batch are new."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Mask, indexes, join_batches
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.joins.index import JoinIndex, make_index

GROWTH = 6
"""Minimum ratio of the sizes of an index and the next smaller one."""


class DistinctRows:
    """A growing set of rows.

    The rows are in a few indexes, each several times as large as the next. So a lookup searches few
    indexes, and each row is indexed again only a few times.

    count: the number of rows.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[pa.RecordBatch, JoinIndex]] = []
        self.count = 0

    def new_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add a batch, and return its distinct rows that weren't in the set before."""
        if not batch.num_rows or not batch.num_columns:
            return batch.slice(0, 0 if self.count else 1)
        _, first = factorise(batch.columns)
        rows = batch.take(indexes(np.sort(first)))
        for _, index in self._parts:
            known = _known(index, rows)
            if known.any():
                rows = rows.take(indexes(np.flatnonzero(~known)))
        if rows.num_rows:
            self._add(rows)
        return rows

    def _add(self, rows: pa.RecordBatch) -> None:
        self.count += rows.num_rows
        while self._parts and self._parts[-1][0].num_rows <= GROWTH * rows.num_rows:
            rows = join_batches([self._parts.pop()[0], rows])
        columns = rows.columns
        self._parts.append(
            (rows, make_index(columns, rows.num_rows, frozenset(range(len(columns)))))
        )


def _known(index: JoinIndex, rows: pa.RecordBatch) -> Mask:
    """Return a mask of the rows that are in the index."""
    # Example: three rows, of which the index has candidates for the first (1) and the third (2):
    # starts = [0, 0, 1] and counts = [1, 0, 2] are ranges of index.rows = [4, 0, 2]. Then
    # probe = [0, 2, 2], within = [0, 0, 1] and build = [4, 0, 2] are the pairs to compare.
    columns, count = rows.columns, rows.num_rows
    starts, counts = index.find(columns, count)
    probe = np.repeat(np.arange(count), counts)
    within = np.arange(len(probe)) - np.repeat(np.cumsum(counts) - counts, counts)
    build = index.rows[np.repeat(starts, counts) + within]
    confirmed = index.confirm(columns, probe, build)
    result = np.zeros(count, np.bool_)
    result[probe if confirmed is None else probe[confirmed]] = True
    return result
