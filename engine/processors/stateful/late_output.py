"""What operators on streams share: late rows are counted and logged, and may go on by an output of
their own; and what is kept goes to files where memory has no room for it, as far as the operator
can let go of it.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processor import Inbox, Outbox, ProcessorContext
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_rows import LateRows
from runnel.storage.memory_budget import LEAST_SHARE, Reservation, state_too_large

RESULTS, LATE = 0, 1

ACCOUNTED_ROWS = 4_096
"""What is kept is looked at after so many rows, at least: it takes a time that grows with its
parts."""

LARGE_BATCH = 256
"""It is looked at after each batch that takes more than one in so many parts of the limit."""


class DivertingProcessor(EmittingProcessor):
    """Gives results; with `diverts` late rows as well, by output 1 (or further ones, as `divert`
    says). Without it there is one output, or several alike. `unit` is that of event times, as in
    LateRows. What `state_size` tells, but for what is in files already (`spilled_size`), is held
    against the memory of the connection: the operator is asked to `spill`, and where there still is
    no room, that is an OperationalError."""

    holds = "the rows that it keeps"
    """What is kept, for errors."""

    def __init__(self, diverts: bool, unit: str) -> None:
        super().__init__()
        self._diverts = diverts
        self._reservation = Reservation(None)
        self._unaccounted = 0
        self._is_overdue = False
        self._accounted_at = ACCOUNTED_ROWS
        self._unit = unit
        self._late_rows: LateRows | None = None
        self._late: deque[tuple[pa.RecordBatch, int]] = deque()

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._late_rows = LateRows(context, self._unit)
        self._reservation = Reservation(context.job.memory, self.weight)

    @property
    def weight(self) -> int:
        """How many times what it keeps it needs while it works on that, where it can spill."""
        return 1

    def spill(self) -> None:
        """There is no room for what is kept: puts what it can into files."""

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
        """To be called when rows were taken in, also those of a snapshot."""
        self._unaccounted += batch.num_rows
        if self._unaccounted >= self._accounted_at or self._is_large(batch):
            self._account()

    def _is_large(self, batch: pa.RecordBatch) -> bool:
        if not self._reservation.is_limited:
            return False
        taken: int = batch.get_total_buffer_size()
        return taken * LARGE_BATCH > self._reservation.memory.limit

    def _account(self) -> None:
        """Tells how much is kept. Where that, and what all others hold, is more than there is room
        for, some of it goes to files. OperationalError where that isn't enough."""
        self._unaccounted = 0
        if not self._reservation.is_limited:
            return
        # What is being made may refer to what would be put into files.
        self._is_overdue = self._making is not None
        if self._is_overdue:
            return
        rows, size = self._tell()
        if self._reservation.must_spill:
            self.spill()
            rows, size = self._tell()
        self._accounted_at = max(ACCOUNTED_ROWS, rows // 8)
        memory = self._reservation.memory
        used = memory.used - size * (self.weight - 1)
        if used > memory.limit and size * LEAST_SHARE >= memory.limit:
            raise state_too_large(
                self.holds, self.context.vertex, (rows, size), (used, memory.limit)
            )

    def _tell(self) -> tuple[int, int]:
        """The rows and bytes that are in memory, of which the connection is told."""
        rows, size = self.state_size()
        spilled_rows, spilled_size = self.spilled_size()
        self._reservation.set(size - spilled_size)
        return rows - spilled_rows, size - spilled_size

    @property
    def late_rows(self) -> int:
        return 0 if self._late_rows is None else self._late_rows.count

    def note_late(self, count: int, least: int, watermark: int) -> None:
        """As `LateRows.add`."""
        assert self._late_rows is not None
        self._late_rows.add(count, least, watermark)

    def divert(self, rows: pa.RecordBatch, ordinal: int = LATE) -> None:
        """Late rows, which are left out where nobody wants them."""
        if self._diverts:
            self._late.append((rows, ordinal))

    def _offer_waiting(self) -> bool:
        while self._late:
            if not self.outbox.offer(*self._late[0]):
                return False
            self._late.popleft()
        ordinal = RESULTS if self._diverts else -1
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
            self._late_rows.tell()
