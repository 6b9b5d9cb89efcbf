"""The changes of a result for a sink: each epoch as rows that are inserted, updated and deleted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, indexes, join_batches, make_batch, slices
from runnel.columns.write_modes import RowKind
from runnel.dag import ProcessorFactory
from runnel.processor import Epoch
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.live.consolidation import net_changes, weights_of
from runnel.processors.stateful.buffered import EmittingProcessor


class ChangelogProcessor(EmittingProcessor):
    """Emits the net changes of each epoch, with their `RowKind` in the place of the weight. Runs at
    parallelism 1.

    The rows of a key are adjacent, and the one that disappears comes first.

    key: the columns by which the rows of the result differ; None: unknown, and no row is an update
        of another one.
    names: the names of the emitted columns.
    """

    def __init__(self, key: Sequence[int] | None, names: Sequence[str]) -> None:
        super().__init__()
        self._key = key
        self._names = names
        self._changes: list[pa.RecordBatch] = []
        self._rows = 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._changes.append(batch)
        self._rows += batch.num_rows
        self.check_accumulated(self._rows)

    def _emit_changes(self) -> bool:
        if self._changes:
            batch = join_batches(self._changes)
            self._changes, self._rows = [], 0
            self.emit_all(slices(self._changelog(batch)))
        return self.drain()

    def _changelog(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = batch.columns[:-1]
        rows, weights = net_changes(columns, weights_of(batch))
        order, kinds = changelog_order(
            weights, self._codes([column.take(indexes(rows)) for column in columns])
        )
        taken = indexes(rows[order])
        kind = from_numbers(kinds, pa.int8())
        found = [column.take(taken) for column in columns]
        fields = [*batch.schema][:-1]
        schema = pa.schema(
            [
                pa.field(name, item.type)
                for name, item in zip(self._names, [*fields, kind], strict=True)
            ]
        )
        return make_batch([*found, kind], schema, len(order))

    def _codes(self, columns: Sequence[pa.Array]) -> Indexes | None:
        """The number of the key of each row; None if the key is unknown."""
        if self._key is None or not columns:
            return None
        if not self._key:
            return np.zeros(len(columns[0]), np.int64)
        codes, _ = factorise([columns[i] for i in self._key])
        return codes

    def process_epoch(self, epoch: Epoch) -> bool:
        return self._emit_changes() and self.outbox.offer(epoch)

    def complete(self) -> bool:
        return self._emit_changes()

    def state(self) -> list[pa.RecordBatch]:
        """The changes of the current epoch, which rows that only appear may be among."""
        return list(self._changes)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._changes.append(batch)
        self._rows += batch.num_rows

    def close(self) -> None:
        super().close()
        self._changes = []


def changelog_order(weights: Indexes, codes: Indexes | None) -> tuple[Indexes, Indexes]:
    """The order of the changes of an epoch, each row as often as its weight says, and their kinds.

    codes: the number of the key of each row; None: unknown.
    """
    # Example: codes [0, 1, 0] with the weights [1, -1, -1]. By the first row of each key, and the
    # row that disappears first, the order is [2, 0, 1]: -U and +U of key 0, -D of key 1.
    count = len(weights)
    if codes is None:
        order = np.argsort(weights > 0, kind="stable")
        order = np.repeat(order, np.abs(weights[order]))
        return order, np.where(weights[order] > 0, RowKind.INSERT, RowKind.DELETE).astype(np.int8)
    size = int(codes.max(initial=-1)) + 1
    first = np.full(size, count, np.int64)
    np.minimum.at(first, codes, np.arange(count))
    order = np.lexsort((weights > 0, first[codes]))
    order = np.repeat(order, np.abs(weights[order]))
    appears, disappears = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    appears[codes[weights > 0]] = True
    disappears[codes[weights < 0]] = True
    is_update = (appears & disappears)[codes[order]]
    added = np.where(is_update, RowKind.UPDATE_AFTER, RowKind.INSERT)
    removed = np.where(is_update, RowKind.UPDATE_BEFORE, RowKind.DELETE)
    return order, np.where(weights[order] > 0, added, removed).astype(np.int8)


def changelog(key: Sequence[int] | None, names: Sequence[str]) -> ProcessorFactory:
    """Return a supplier of processors that emit the changes of a result."""
    return lambda: ChangelogProcessor(key, names)
