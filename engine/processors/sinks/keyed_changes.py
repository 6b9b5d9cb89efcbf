"""The changes of a result as the last change of each key, for sinks that replace rows by key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes, join_batches, numbers
from runnel.columns.write_modes import RowKind
from runnel.connector import Sink, Token
from runnel.processors.grouping.row_identity import factorise

CONDENSED_ROWS = 1 << 16
"""Number of gathered rows from which they are reduced to one per key before the next `stage`."""


class KeyedChanges(Sink):
    """Passes on one row for each key that changed since the last `stage`.

    sink: receives the rows.
    keys: the positions of the key in the batches.
    """

    def __init__(self, sink: Sink, keys: Sequence[int]) -> None:
        self.cooperative = sink.cooperative
        self._sink = sink
        self._keys = keys
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._condensed = 0

    def recover(self, tokens: Sequence[Token]) -> None:
        self._sink.recover(tokens)

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= max(CONDENSED_ROWS, 2 * self._condensed):
            condensed = last_changes(self._batches, self._keys)
            self._batches = [condensed]
            self._rows = self._condensed = condensed.num_rows

    def stage(self, epoch: int) -> Token:
        if self._batches:
            condensed = last_changes(self._batches, self._keys)
            if condensed.num_rows:
                self._sink.write(condensed)
        self._forget()
        return self._sink.stage(epoch)

    def _forget(self) -> None:
        self._batches = []
        self._rows = self._condensed = 0

    def commit(self, token: Token) -> None:
        self._sink.commit(token)

    def abort(self, token: Token | None) -> None:
        if token is None:
            self._forget()
        self._sink.abort(token)

    def close(self) -> None:
        self._forget()
        self._sink.close()


def last_changes(batches: Sequence[pa.RecordBatch], keys: Sequence[int]) -> pa.RecordBatch:
    """The last change of each key. A row before an update is none: the row after it follows."""
    # Example: kinds [+I, -U, +U, +I, -D] of the keys [a, a, a, b, b]. Without -U they are
    # [+I a, +U a, +I b, -D b]; codes = [0, 0, 1, 1], last = [1, 3]; the result is [+U a, -D b].
    batch = join_batches(batches)
    kinds = numbers(batch.column(batch.num_columns - 1), np.int8)
    counted = np.flatnonzero(kinds != RowKind.UPDATE_BEFORE)
    batch = batch.take(indexes(counted))
    if not keys:
        return batch.slice(batch.num_rows - 1)
    codes, first = factorise([batch.column(key) for key in keys])
    last = np.zeros(len(first), np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    return batch.take(indexes(np.sort(last)))
