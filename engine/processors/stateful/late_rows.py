"""Counts and logs late rows: rows that arrive after the result that they belong to was emitted.

The log has at most one line per LOG_INTERVAL.
"""

from __future__ import annotations

from runnel.processor import ProcessorContext

LOG_INTERVAL = 1_000_000_000
"""Minimum time between two lines of the log, in nanoseconds."""


class LateRowCounter:
    """The late rows of one processor.

    unit: the unit of event times, for the log: "µs", or "" for integers.
    count: the total number of late rows.
    """

    def __init__(self, context: ProcessorContext, unit: str) -> None:
        self.count = 0
        self._context = context
        self._unit = unit
        self._unlogged = 0
        self._latest = 0
        self._watermark = 0
        self._log_at = 0

    def add(self, count: int, least: int, watermark: int) -> None:
        """Count late rows.

        count: the number of rows.
        least: the least time at which one of the rows was due.
        watermark: the time of the watermark that the rows missed.
        """
        self.count += count
        self._unlogged += count
        self._latest = max(self._latest, watermark - least)
        self._watermark = watermark
        now = self._context.job.clock()
        if now >= self._log_at:
            self._log_at = now + LOG_INTERVAL
            self.log()

    def log(self) -> None:
        """Log the late rows that weren't logged yet."""
        if not self._unlogged:
            return
        self._context.logger.warning(
            'late event: %d rows arrived after their result was emitted (vertex "%s"), '
            "late by up to %s; watermark %d; %d in all",
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
