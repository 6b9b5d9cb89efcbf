"""The base of operators on streams: late rows, and the memory of their state.

Late rows are counted and logged, and may be emitted on an output of their own. State that exceeds
the memory limit is spilled to files, if the operator supports that.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processor import Inbox, Outbox, ProcessorContext
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_rows import LateRowCounter
from runnel.storage.memory_budget import LEAST_SHARE, Reservation, state_too_large

RESULTS, LATE = 0, 1
"""The outputs of results and of late rows."""

ACCOUNTED_ROWS = 4_096
"""Minimum number of rows between two computations of the state's size.

The cost of the computation grows with the number of batches in the state.
"""

LARGE_BATCH = 256
"""The state's size is also computed after each batch of more than 1/LARGE_BATCH of the limit."""


class LateOutputProcessor(EmittingProcessor):
    """Emits results and, if requested, late rows, and limits the memory of its state.

    The result of `state_size`, without the state in files (`spilled_size`), is compared with the
    memory limit of the connection. If it is too large, `spill` is called; if it then still exceeds
    the limit, that is an OperationalError.

    emits_late: whether late rows are emitted on output 1, or another output that `emit_late`
        specifies. If not, there is one output, or several with the same rows.
    unit: the unit of event times, as in LateRows.
    """

    holds = "the rows that it keeps"
    """The name of the state in errors, in the plural."""

    def __init__(self, emits_late: bool, unit: str) -> None:
        super().__init__()
        self._emits_late = emits_late
        self._reservation = Reservation(None)
        self._unaccounted = 0
        self._is_overdue = False
        self._accounted_at = ACCOUNTED_ROWS
        self._unit = unit
        self._late_rows: LateRowCounter | None = None
        self._late: deque[tuple[pa.RecordBatch, int]] = deque()

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._late_rows = LateRowCounter(context, self._unit)
        self._reservation = Reservation(context.job.memory, self.weight)

    @property
    def weight(self) -> int:
        """Factor by which the size of the state is multiplied for the working memory.

        Only an operator that can spill needs a factor greater than 1.
        """
        return 1

    def spill(self) -> None:
        """Spill state to files, as much as possible, because it exceeds the memory limit."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if self.drain():
            if self._is_overdue:
                self._account()
            batch = inbox.poll()
            if batch is not None:
                self.take(ordinal, batch)
                self.drain()
                self.account_for(batch)

    def account_for(self, batch: pa.RecordBatch) -> None:
        """Must be called when rows were added to the state, also when a snapshot is restored."""
        self._unaccounted += batch.num_rows
        if self._unaccounted >= self._accounted_at or self._is_large(batch):
            self._account()

    def _is_large(self, batch: pa.RecordBatch) -> bool:
        if not self._reservation.is_limited:
            return False
        taken: int = batch.get_total_buffer_size()
        return taken * LARGE_BATCH > self._reservation.memory.limit

    def _account(self) -> None:
        """Report the size of the state, and spill if all operators together exceed the limit.

        Raises OperationalError if spilling isn't enough.
        """
        self._unaccounted = 0
        if not self._reservation.is_limited:
            return
        # Results that are being produced may refer to state that would be spilled.
        self._is_overdue = self._making is not None
        if self._is_overdue:
            return
        rows, size = self._report()
        if self._reservation.must_spill:
            self.spill()
            rows, size = self._report()
        self._accounted_at = max(ACCOUNTED_ROWS, rows // 8)
        memory = self._reservation.memory
        used = memory.used - size * (self.weight - 1)
        if used > memory.limit and size * LEAST_SHARE >= memory.limit:
            raise state_too_large(
                self.holds, self.context.vertex, (rows, size), (used, memory.limit)
            )

    def _report(self) -> tuple[int, int]:
        """Report the size of the state in memory, and return its rows and bytes."""
        rows, size = self.state_size()
        spilled_rows, spilled_size = self.spilled_size()
        self._reservation.set(size - spilled_size)
        return rows - spilled_rows, size - spilled_size

    @property
    def late_rows(self) -> int:
        return 0 if self._late_rows is None else self._late_rows.count

    def note_late(self, count: int, least: int, watermark: int) -> None:
        """Like `LateRowCounter.add`."""
        assert self._late_rows is not None
        self._late_rows.add(count, least, watermark)

    def emit_late(self, rows: pa.RecordBatch, ordinal: int = LATE) -> None:
        """Emit late rows on an output, or drop them if they aren't requested."""
        if self._emits_late:
            self._late.append((rows, ordinal))

    def _offer_waiting(self) -> bool:
        while self._late:
            if not self.outbox.offer(*self._late[0]):
                return False
            self._late.popleft()
        ordinal = RESULTS if self._emits_late else -1
        while self._waiting:
            if not self.outbox.offer(self._waiting[0], ordinal):
                return False
            self._waiting.popleft()
        return True

    def close(self) -> None:
        super().close()
        self._late.clear()
        self._reservation.release()
        if self._late_rows is not None:
            self._late_rows.log()
