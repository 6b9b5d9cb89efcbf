"""Rows that come after the result that they belong to was given: counted, and logged, not too
often."""

from __future__ import annotations

from runnel.processor import ProcessorContext

LOG_INTERVAL = 1_000_000_000
"""Nanoseconds between two lines of the log."""


class LateRows:
    """The late rows of one processor; `count` of them in all."""

    def __init__(self, context: ProcessorContext, unit: str) -> None:
        """`unit`: what an event time counts, for the log: "µs", or "" for plain numbers."""
        self.count = 0
        self._context = context
        self._unit = unit
        self._unlogged = 0
        self._latest = 0
        self._watermark = 0
        self._log_at = 0

    def add(self, count: int, least: int, watermark: int) -> None:
        """So many rows are late; the latest was due at `least`, before the watermark."""
        self.count += count
        self._unlogged += count
        self._latest = max(self._latest, watermark - least)
        self._watermark = watermark
        now = self._context.job.clock()
        if now >= self._log_at:
            self._log_at = now + LOG_INTERVAL
            self.tell()

    def tell(self) -> None:
        """Logs those that the log doesn't know of yet."""
        if not self._unlogged:
            return
        self._context.logger.warning(
            'late event: %d rows came after their result was given (vertex "%s"), late by up to '
            "%s; watermark %d; %d in all",
            self._unlogged,
            self._context.vertex,
            self._how_late(),
            self._watermark,
            self.count,
        )
        self._unlogged = self._latest = 0

    def _how_late(self) -> str:
        if self._unit != "µs":
            return str(self._latest)
        return f"{self._latest / 1000:g} ms"
