"""Rows that are kept by key, to be found again when rows of the same key come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes, join_batches
from runnel.storage.memory_budget import size_of

BUCKETS = 1 << 18
"""Rows are found by so many buckets of their keys' hashes; those of other keys in the bucket come
along."""

Buckets = Indexes
"""The bucket of each row."""


@dataclass(slots=True)
class _Run:
    """Rows that are kept: those at `rows` of a batch, and the bucket of each."""

    batch: pa.RecordBatch
    rows: Indexes
    buckets: Buckets

    def at(self, mask: Mask) -> _Run:
        return _Run(self.batch, self.rows[mask], self.buckets[mask])

    @property
    def taken(self) -> pa.RecordBatch:
        return (
            self.batch
            if len(self.rows) == self.batch.num_rows
            else self.batch.take(indexes(self.rows))
        )


class KeptRows:
    """The rows of one processor. `buckets_of` gives the bucket of each row of a batch."""

    def __init__(self, buckets_of: Callable[[pa.RecordBatch], Buckets]) -> None:
        self._buckets_of = buckets_of
        self._runs: list[_Run] = []
        self.count = 0

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        return sum(size_of(run.batch) + 16 * len(run.rows) for run in tuple(self._runs))

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        run = _Run(batch, np.arange(batch.num_rows), self._buckets_of(batch))
        self.count += batch.num_rows
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) < MAX_ROWS:
            last = self._runs.pop()
            both = join_batches([last.taken, run.taken])
            run = _Run(both, np.arange(both.num_rows), np.concatenate((last.buckets, run.buckets)))
        self._runs.append(run)

    def take(self, buckets: Buckets) -> list[pa.RecordBatch]:
        """The rows in some buckets; they are kept no more."""
        wanted = np.zeros(BUCKETS, np.bool_)
        wanted[buckets] = True
        found = []
        for run in self._runs:
            mask = wanted[run.buckets]
            if mask.all():
                found.append(run.taken)
                self._replace(run, None)
            elif mask.any():
                found.append(run.at(mask).taken)
                self._replace(run, run.at(~mask))
        self._tidy()
        return found

    def only(self, wanted: Callable[[pa.RecordBatch], Mask]) -> None:
        """Forgets all rows but some."""
        for run in self._runs:
            taken = run.taken
            mask = wanted(taken)
            left = np.flatnonzero(mask)
            kept = taken if len(left) == len(mask) else taken.take(indexes(left))
            self._replace(run, _Run(kept, np.arange(len(left)), run.buckets[mask]))
        self._tidy()

    def _replace(self, run: _Run, other: _Run | None) -> None:
        left = 0 if other is None else len(other.rows)
        self.count -= len(run.rows) - left
        if other is None:
            run.rows = run.rows[:0]
            return
        if 2 * left < other.batch.num_rows:
            other = _Run(other.taken, np.arange(left), other.buckets)
        run.batch, run.rows, run.buckets = other.batch, other.rows, other.buckets

    def _tidy(self) -> None:
        self._runs = [run for run in self._runs if len(run.rows)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        for run in self._runs:
            yield run.taken

    def clear(self) -> None:
        self._runs = []
        self.count = 0
