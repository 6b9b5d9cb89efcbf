"""The base of most operators: results wait for room in the outbox."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, slices
from runnel.errors import OperationalError
from runnel.processor import (
    Inbox,
    Item,
    Outbox,
    Processor,
    ProcessorContext,
    Stateful,
    Watermark,
)

if TYPE_CHECKING:
    from runnel.processors.stateful.late_rows import LateRows
    from runnel.processors.stateful.state_account import StateAccount

BATCHES_PER_CALL = 16
"""Maximum number of batches that one call produces.

A queue that was closed by its consumer accepts everything, so its capacity is not a bound.
"""

MAKING_TIME = 500_000
"""Nanoseconds after which a call produces no further batch."""


class EmittingProcessor(Processor, Stateful):
    """Emits batches of at most MAX_ROWS rows.

    The results come from `emit` (a few existing batches) or from `emit_all` (many batches, produced
    one at a time when the outbox has room). As long as results wait, no new input is accepted.

    late: the processor's late rows; None: it has none. If they are emitted, results go to output
        0 only, otherwise to all outputs.
    account: limits the memory of the processor's state; None: no limit.
    """

    def __init__(self, late: LateRows | None = None, account: StateAccount | None = None) -> None:
        self._late = late
        self._account = account
        self._output = 0 if late is not None and late.are_emitted else -1
        self._waiting: deque[Item] = deque()
        self._side: deque[tuple[pa.RecordBatch, int]] = deque()
        self._making: Iterator[pa.RecordBatch] | None = None
        self._saving: Iterator[pa.RecordBatch] | None = None
        self._refused: pa.RecordBatch | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if self._account is not None:
            self._account.init(context)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Process one batch of input, and pass the results to `emit` or `emit_all`."""
        raise NotImplementedError(f"{type(self).__name__}.take")

    def emit(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the results that wait."""
        rows = batch.num_rows
        if rows > MAX_ROWS:
            self._waiting.extend(slices(batch))
        elif rows:
            self._waiting.append(batch)

    def emit_item(self, item: Item) -> None:
        """Add an item that is no batch to the results that wait."""
        self._waiting.append(item)

    def emit_aside(self, batch: pa.RecordBatch, ordinal: int) -> None:
        """Add a batch for a side output. It is offered before the results that wait."""
        self._side.append((batch, ordinal))

    def emit_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Emit the batches of an iterator, which is advanced one batch at a time.

        So the batches need not be in memory at the same time.
        """
        assert self._making is None
        self._making = batches

    @property
    def is_producing(self) -> bool:
        """Whether batches of `emit_all` are still to be produced."""
        return self._making is not None

    def drain(self) -> bool:
        """Offer the results that wait to the outbox.

        Returns false if some still wait, because the outbox is full or the cooperative call should
        end.
        """
        if (self._waiting or self._side) and not self._offer_waiting():
            return False
        if self._making is None:
            return True
        until = self.context.job.clock() + MAKING_TIME
        for _ in range(BATCHES_PER_CALL):
            made = next(self._making, None)
            if made is None:
                self._making = None
                return True
            self.emit(made)
            if not self._offer_waiting():
                return False
            if self.context.job.clock() > until:
                break
        self.context.wake()
        return False

    def _offer_waiting(self) -> bool:
        while self._side:
            if not self.outbox.offer(*self._side[0]):
                return False
            self._side.popleft()
        while self._waiting:
            if not self.outbox.offer(self._waiting[0], self._output):
                return False
            self._waiting.popleft()
        return True

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Process one batch. The caller measures the time, and calls again if there is time."""
        if self.drain():
            account = self._account
            if account is not None:
                account.settle()
            batch = inbox.poll()
            if batch is not None:
                self.take(ordinal, batch)
                self.drain()
                if account is not None:
                    account.add(batch)

    def flush(self) -> bool:
        return self.drain()

    def process_watermark(self, watermark: Watermark) -> bool:
        return self.drain() and self.outbox.offer(watermark)

    def complete_edge(self, ordinal: int) -> bool:
        return self.drain()

    def complete(self) -> bool:
        return self.drain()

    def state(self) -> Iterable[pa.RecordBatch]:
        """Yield the state from which `restore_snapshot` can resume, when no results wait.

        The iterator is advanced step by step, and no other method is called before its end. The
        batches must not change afterwards.
        """
        return ()

    def save_snapshot(self) -> bool:
        if self._saving is None:
            if not self.drain():
                return False
            self._saving = (part for batch in self.state() for part in _limited(batch))
        until = self.context.job.clock() + MAKING_TIME
        while True:
            part = next(self._saving, None) if self._refused is None else self._refused
            if part is None:
                self._saving = None
                return True
            self._refused = None if self.outbox.offer_snapshot(part) else part
            if self._refused is not None:
                return False
            if self.context.job.clock() > until:
                self.context.wake()
                return False

    @property
    def late_rows(self) -> int:
        return 0 if self._late is None else self._late.count

    def check_accumulated(self, rows: int) -> None:
        """Raise OperationalError if `rows`, the buffered rows, exceed the limit of the job."""
        limit = self.context.job.accumulation_limit
        if 0 < limit < rows:
            raise accumulated_too_much(self.context.vertex, limit)

    def close(self) -> None:
        self._waiting.clear()
        self._side.clear()
        self._making = self._saving = self._refused = None
        if self._account is not None:
            self._account.close()
        if self._late is not None:
            self._late.log()


def _limited(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """Divide a batch into batches of at most MAX_ROWS rows.

    A batch that is short enough remains the same object: a snapshot recognises by identity the
    batches that it has already stored.
    """
    return (batch,) if 0 < batch.num_rows <= MAX_ROWS else slices(batch)


def accumulated_too_much(vertex: str, limit: int) -> OperationalError:
    """Return the error of a vertex whose processor would buffer more than `limit` rows."""
    return OperationalError(
        f'vertex "{vertex}" would hold more than {limit} rows at once',
        hint=(
            "raise the setting max_processor_accumulated_records or the job option "
            "maxProcessorAccumulatedRecords, or reduce the rows of the query (filter earlier, "
            "use fewer groups)"
        ),
    )
