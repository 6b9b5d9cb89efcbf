"""The last operator of a materialized view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes
from runnel.dag import ProcessorFactory
from runnel.processor import Epoch, Outbox, ProcessorContext
from runnel.processors.live.consolidation import EpochRows, net_changes, state_batch, state_name
from runnel.processors.live.views.store import ViewStore, joined
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.state_account import StateAccount

CONTENT, PENDING, COMPLETE = "content", "pending", "complete"
"""The names of its state: the rows of the view, the rows since the last epoch, and whether the
first epoch was published. They never change."""


class ViewProcessor(EmittingProcessor):
    """Publishes the net changes of each epoch in the store of the view. Runs at parallelism 1.

    When its input has ended it stays, so that the content is in all later snapshots.

    store: the content of the view, which is this processor's state.
    is_changing: whether the last column of the input is the weight.
    """

    def __init__(self, store: ViewStore, is_changing: bool) -> None:
        self._state_account = StateAccount(self, "the rows of a materialized view")
        super().__init__(account=self._state_account)
        self._store = store
        self._pending = EpochRows(store.types, is_changing=is_changing)
        self._restored: list[tuple[Sequence[pa.Array], Indexes]] = []
        self._is_restored = False
        self._is_first = True

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._store.is_final = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._pending.add(batch)
        self.check_accumulated(self._pending.size[0])

    def _publish(self) -> None:
        columns, weights = self._pending.taken()
        rows, net = net_changes(columns, weights)
        taken = indexes(rows)
        changed = [column.take(taken) for column in columns]
        # The first epoch of an execution without state has the whole content: what an earlier
        # execution has published is not known to the operators.
        if not self._is_first:
            self._store.publish(changed, net)
            return
        self._is_first = False
        self._store.replace(changed, net)
        if self.context.job.request_snapshot is not None:
            # Inputs that end are not read again by an execution that has the content.
            self.context.job.request_snapshot()

    def process_epoch(self, epoch: Epoch) -> bool:
        self._publish()
        self._state_account.check()
        return self.outbox.offer(epoch)

    def spill(self) -> None:
        """The rows stay in memory."""

    def complete(self) -> bool:
        if not self._store.is_final:
            self._publish()
            self._state_account.check()
            self._store.finish()
            self.context.wake()  # from now on it is called when something wakes it
        return False

    def state(self) -> Iterator[pa.RecordBatch]:
        if not self._is_first:
            columns = range(len(self._store.types))
            for rows, count in self._store.frozen().batches(columns):
                yield state_batch(CONTENT, rows, np.ones(count, np.int64), 0)
            yield state_batch(COMPLETE, [], np.ones(1, np.int64), 0)
        yield from self._pending.state(PENDING, 0)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        match state_name(batch):
            case "content":
                *columns, weights = batch.columns
                self._restored.append((columns, weights.to_numpy()))
            case "pending":
                self._pending.restore(batch)
            case _:
                self._is_restored = True

    def finish_restore(self) -> bool:
        if self._is_restored:
            nothing = ([pa.nulls(0, item) for item in self._store.types], np.zeros(0, np.int64))
            self._store.replace(*joined([nothing, *self._restored]))
            self._restored = []
            self._is_first = False
        return True

    def state_size(self) -> tuple[int, int]:
        rows, size = self._pending.size
        return self._store.count + rows, self._store.size + size


def publish(store: ViewStore, *, is_changing: bool) -> ProcessorFactory:
    """Return a supplier of processors that publish the rows of a view.

    store: the content of the view.
    is_changing: whether the last column of the input is the weight.
    """
    return lambda: ViewProcessor(store, is_changing)
