"""A buffer of rows by key, from which they are removed when rows of the same key arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes, join_batches
from runnel.storage.memory_budget import size_of

BUCKETS = 1 << 18
"""Number of buckets of the keys' hashes.

Rows are taken by bucket, so that rows of other keys in the same bucket are taken too.
"""

Buckets = Indexes
"""The bucket of each row."""


@dataclass(slots=True)
class _BucketRun:
    """Some rows of a batch.

    batch: the batch.
    rows: the numbers of the rows.
    buckets: the bucket of each row.
    """

    batch: pa.RecordBatch
    rows: Indexes
    buckets: Buckets

    def at(self, mask: Mask) -> _BucketRun:
        return _BucketRun(self.batch, self.rows[mask], self.buckets[mask])

    @property
    def taken(self) -> pa.RecordBatch:
        return (
            self.batch
            if len(self.rows) == self.batch.num_rows
            else self.batch.take(indexes(self.rows))
        )


class RetainedRows:
    """The buffered rows of one processor.

    buckets_of: returns the bucket of each row of a batch.
    count: the number of rows.
    """

    def __init__(self, buckets_of: Callable[[pa.RecordBatch], Buckets]) -> None:
        self._buckets_of = buckets_of
        self._runs: list[_BucketRun] = []
        self.count = 0

    @property
    def size(self) -> int:
        """The approximate size of the rows in bytes."""
        return sum(size_of(run.batch) + 16 * len(run.rows) for run in tuple(self._runs))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, merged with preceding runs that aren't larger."""
        if not batch.num_rows:
            return
        run = _BucketRun(batch, np.arange(batch.num_rows), self._buckets_of(batch))
        self.count += batch.num_rows
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) < MAX_ROWS:
            last = self._runs.pop()
            both = join_batches([last.taken, run.taken])
            run = _BucketRun(
                both, np.arange(both.num_rows), np.concatenate((last.buckets, run.buckets))
            )
        self._runs.append(run)

    def take(self, buckets: Buckets) -> list[pa.RecordBatch]:
        """Remove and return the rows in some buckets."""
        is_requested = np.zeros(BUCKETS, np.bool_)
        is_requested[buckets] = True
        found = []
        for run in self._runs:
            mask = is_requested[run.buckets]
            if mask.all():
                found.append(run.taken)
                self._replace(run, None)
            elif mask.any():
                found.append(run.at(mask).taken)
                self._replace(run, run.at(~mask))
        self._tidy()
        return found

    def only(self, is_retained: Callable[[pa.RecordBatch], Mask]) -> None:
        """Remove all rows except those for which the predicate returns true."""
        for run in self._runs:
            taken = run.taken
            mask = is_retained(taken)
            left = np.flatnonzero(mask)
            retained = taken if len(left) == len(mask) else taken.take(indexes(left))
            self._replace(run, _BucketRun(retained, np.arange(len(left)), run.buckets[mask]))
        self._tidy()

    def _replace(self, run: _BucketRun, other: _BucketRun | None) -> None:
        left = 0 if other is None else len(other.rows)
        self.count -= len(run.rows) - left
        if other is None:
            run.rows = run.rows[:0]
            return
        if 2 * left < other.batch.num_rows:
            other = _BucketRun(other.taken, np.arange(left), other.buckets)
        run.batch, run.rows, run.buckets = other.batch, other.rows, other.buckets

    def _tidy(self) -> None:
        self._runs = [run for run in self._runs if len(run.rows)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        for run in self._runs:
            yield run.taken

    def clear(self) -> None:
        self._runs = []
        self.count = 0
