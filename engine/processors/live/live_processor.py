"""The processor of an operator that maintains a result: it collects the rows of an epoch, and emits
the changes of its result at the end of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from runnel.columns.batches import make_batch, slices
from runnel.dag import ProcessorFactory
from runnel.processor import Epoch, Outbox, ProcessorContext
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.consolidation import weight_column
from runnel.processors.recursion import CollectingOutbox, FilledInbox
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.state_account import StateAccount
from runnel.relation.live import WEIGHT


class LiveResult(Protocol):
    """A result that is maintained; see `AccumulatedGroups` and `RecomputedPartitions`."""

    @property
    def size(self) -> tuple[int, int]: ...
    def add(self, ordinal: int, batch: pa.RecordBatch) -> None: ...
    def changes(self) -> Iterator[Changes]: ...
    def state(self) -> Iterator[pa.RecordBatch]: ...
    def restore(self, batch: pa.RecordBatch) -> None: ...


class LiveProcessor(EmittingProcessor):
    """Emits the columns of the result and the weight.

    make: creates the result, when the processor is initialised.
    schema: the columns of the result, without the weight.
    is_changing: whether rows disappear; otherwise the weight, which is always 1, is left out.
    """

    def __init__(
        self,
        make: Callable[[LiveProcessor], LiveResult],
        schema: pa.Schema,
        *,
        is_changing: bool = True,
    ) -> None:
        self._state_account = StateAccount(self, "the rows and results of a live query")
        super().__init__(account=self._state_account)
        self._make = make
        self._is_changing = is_changing
        self._schema = schema.append(pa.field(WEIGHT, pa.int64())) if is_changing else schema
        self._result: LiveResult | None = None
        self._is_ended = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._result = self._make(self)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        assert self._result is not None
        self._result.add(ordinal, batch)
        self.check_accumulated(self._result.size[0])

    def _emit_changes(self) -> bool:
        """Emits the changes of the epoch that ends. False: not all are emitted."""
        if not self._is_ended:
            self._is_ended = True
            self.emit_all(self._changes())
        return self.drain()

    def _changes(self) -> Iterator[pa.RecordBatch]:
        assert self._result is not None
        for columns, weights in self._result.changes():
            last = [weight_column(weights)] if self._is_changing else []
            batch = make_batch([*columns, *last], self._schema, len(weights))
            yield from slices(batch)

    def process_epoch(self, epoch: Epoch) -> bool:
        if not self._emit_changes() or not self.outbox.offer(epoch):
            return False
        self._is_ended = False
        self._state_account.check()
        return True

    def complete(self) -> bool:
        if not self._emit_changes():
            return False
        self._state_account.check()
        return True

    def state(self) -> Iterator[pa.RecordBatch]:
        assert self._result is not None
        yield from self._result.state()

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        assert self._result is not None
        self._result.restore(batch)

    def state_size(self) -> tuple[int, int]:
        result = self._result
        return (0, 0) if result is None else result.size

    def spill(self) -> None:
        """The state stays in memory."""

    def close(self) -> None:
        super().close()
        self._result = None


def through(
    factory: ProcessorFactory, context: ProcessorContext, rows: pa.RecordBatch
) -> list[pa.RecordBatch]:
    """The rows that a processor of bounded queries emits for all rows of its input."""
    outbox, inbox = CollectingOutbox(), FilledInbox()
    processor = factory()
    processor.init(outbox, context)
    try:
        for batch in slices(rows):
            inbox.put(batch)
            while len(inbox):
                processor.process(0, inbox)
        while not processor.complete():
            pass
    finally:
        processor.close()
    return outbox.taken()
