"""The operator after the scan of a view's changes: after a restart it emits the difference between
the view as it is now and the rows that it had emitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes, join_arrays, make_batch, slices
from runnel.dag import ProcessorFactory
from runnel.processor import Epoch
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import (
    EpochRows,
    net_changes,
    weight_column,
    weights_of,
)
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.state_account import StateAccount

STATE = "seen"
"""The name of its state; it never changes."""


class ViewInputProcessor(EmittingProcessor):
    """Passes changes on. In a job with snapshots it retains the rows that it has emitted, since
    after a restart the scan begins with the content again: the view may then be older, newer, or
    have been computed again.

    schema: the columns of the rows, the weight last.
    """

    def __init__(self, schema: pa.Schema) -> None:
        account = StateAccount(self, "the rows of a materialized view that is read")
        super().__init__(account=account)
        self._schema = schema
        self._types = [field.type for field in schema][:-1]
        self._seen = Arrangement(0, counts=True)
        self._again: EpochRows | None = None
        self._epoch: Epoch | None = None

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._again is not None:
            self._again.add(batch)
            return
        if self.context.job.owner:
            self._seen.add(batch.columns[:-1], weights_of(batch))
            self.check_accumulated(self._seen.rows)
        self.emit(batch)

    def process_epoch(self, epoch: Epoch) -> bool:
        if self._again is not None:
            self.emit_all(self._difference(self._again))
            self._again = None
        return self.drain() and self.outbox.offer(epoch)

    def _difference(self, again: EpochRows) -> Iterator[pa.RecordBatch]:
        columns, weights = again.taken()
        before = self._seen.rows_with(np.zeros(1, np.uint64))
        if before is not None:
            columns = [join_arrays(both) for both in zip(columns, before[0], strict=True)]
            weights = np.concatenate((weights, -before[1]))
        rows, net = net_changes(columns, weights)
        taken = indexes(rows)
        changed: Sequence[pa.Array] = [column.take(taken) for column in columns]
        self._seen.add(changed, net)
        yield from slices(make_batch([*changed, weight_column(net)], self._schema, len(net)))

    def state(self) -> Iterator[pa.RecordBatch]:
        yield from self._seen.state(STATE, 0)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._seen.restore(batch)

    def finish_restore(self) -> bool:
        self._again = EpochRows(self._types, is_changing=True)
        return True

    def spill(self) -> None:
        """The rows stay in memory."""

    def state_size(self) -> tuple[int, int]:
        return self._seen.rows, self._seen.size


def view_input(schema: pa.Schema) -> ProcessorFactory:
    """Return a supplier of processors for the changes of a view; `schema`: the weight is last."""
    return lambda: ViewInputProcessor(schema)
