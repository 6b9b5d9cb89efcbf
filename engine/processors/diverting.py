"""What operators share whose late rows go on by an output of their own."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.processors.emitting import EmittingProcessor

RESULTS, LATE = 0, 1


class DivertingProcessor(EmittingProcessor):
    """Gives results; with `diverts` late rows as well, by output 1 (or further ones, as `divert` says). Without it there is one
    output, or several alike."""

    def __init__(self, diverts: bool) -> None:
        super().__init__()
        self._diverts = diverts
        self._late: deque[tuple[pa.RecordBatch, int]] = deque()

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
