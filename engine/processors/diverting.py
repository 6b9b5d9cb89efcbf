"""What operators share that know late rows: they are counted and logged, and may go on by an output of their own."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processor import Outbox, ProcessorContext
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.late_rows import LateRows

RESULTS, LATE = 0, 1


class DivertingProcessor(EmittingProcessor):
    """Gives results; with `diverts` late rows as well, by output 1 (or further ones, as `divert` says). Without it there is one
    output, or several alike. `unit` is that of event times, as in LateRows."""

    def __init__(self, diverts: bool, unit: str) -> None:
        super().__init__()
        self._diverts = diverts
        self._unit = unit
        self._late_rows: LateRows | None = None
        self._late: deque[tuple[pa.RecordBatch, int]] = deque()

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._late_rows = LateRows(context, self._unit)

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
        if self._late_rows is not None:
            self._late_rows.tell()
