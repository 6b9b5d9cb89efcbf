"""The last operator of EMIT CHANGES: the net changes of each epoch, with its number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, indexes, join_batches, make_batch
from runnel.dag import ProcessorFactory
from runnel.processor import Epoch
from runnel.processors.live.consolidation import net_changes, weight_column, weights_of
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Field
from runnel.sqltypes import to_arrow


class ChangeStreamProcessor(EmittingProcessor):
    """Emits the number of the epoch, the weight and the row. Runs at parallelism 1.

    Rows that only appear are emitted as they arrive, with the weight 1. Rows that change wait for
    the end of the epoch; then those that disappear are emitted before those that appear. If the
    input ends, its last rows are an epoch of their own.

    schema: the columns of the result.
    is_changing: whether the last column of the input is the weight.
    """

    def __init__(self, schema: pa.Schema, is_changing: bool) -> None:
        super().__init__()
        self._schema = schema
        self._is_changing = is_changing
        self._epoch = 1
        self._changes: list[pa.RecordBatch] = []
        self._has_rows = False
        self._end: Epoch | None = None
        self._net_changes: pa.RecordBatch | None = None
        self._is_announced = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._has_rows = True
        if self._is_changing:
            self._changes.append(batch)
        else:
            self.emit(self._numbered(batch.columns, np.ones(batch.num_rows, np.int64)))

    def _numbered(self, columns: list[pa.Array], weights: Indexes) -> pa.RecordBatch:
        count = len(weights)
        epochs = from_numbers(np.full(count, self._epoch, np.int64), pa.int64())
        return make_batch([epochs, weight_column(weights), *columns], self._schema, count)

    def _end_epoch(self) -> bool:
        """Emits the end of the epoch and the changes that waited for it. False: not all are
        emitted."""
        if self._end is None:
            changes = self._net()
            self._end = Epoch(self._epoch, 0 if changes is None else changes.num_rows)
            self._net_changes = changes
        if self._net_changes is None:
            return self.drain() and (self._is_announced or self._announce())
        if not self._is_announced:
            if not self._announce():
                return False
            self.emit(self._net_changes)
        return self.drain()

    def _announce(self) -> bool:
        assert self._end is not None
        self._is_announced = self.outbox.offer(self._end)
        return self._is_announced

    def _net(self) -> pa.RecordBatch | None:
        """The net changes of the epoch."""
        if not self._changes:
            return None
        batch = join_batches(self._changes)
        self._changes = []
        columns = batch.columns[:-1]
        rows, weights = net_changes(columns, weights_of(batch))
        order = np.argsort(weights > 0, kind="stable")
        taken = indexes(rows[order])
        return self._numbered([column.take(taken) for column in columns], weights[order])

    def process_epoch(self, epoch: Epoch) -> bool:
        self._epoch = epoch.number
        if not self._end_epoch():
            return False
        self._epoch += 1
        self._end = self._net_changes = None
        self._is_announced = self._has_rows = False
        return True

    def complete(self) -> bool:
        is_empty = not self._has_rows and self._epoch > 1
        return self.drain() if is_empty else self._end_epoch()

    def close(self) -> None:
        super().close()
        self._changes = []


def change_stream(fields: tuple[Field, ...], *, is_changing: bool) -> ProcessorFactory:
    """Return a supplier of processors that emit changes.

    fields: the columns of the result: epoch, weight, and the columns of the query.
    is_changing: whether the weight is the last column of the input.
    """
    schema = pa.schema([pa.field(f"c{i}", to_arrow(item.type)) for i, item in enumerate(fields)])
    return lambda: ChangeStreamProcessor(schema, is_changing)
