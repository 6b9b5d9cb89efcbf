"""Late rows: rows that arrive after the result that they belong to was emitted.

They are counted and logged, and may be emitted on an output of their own. The log has at most one
line per LOG_INTERVAL. A LateRows is a part that a processor owns and passes to EmittingProcessor.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from runnel.processor import ProcessorContext

RESULTS, LATE = 0, 1
"""The outputs of results and of late rows, if late rows are emitted."""

LOG_INTERVAL = 1_000_000_000
"""Minimum time between two lines of the log, in nanoseconds."""


class Emitter(Protocol):
    """The processor that emits late rows."""

    context: ProcessorContext

    def emit_aside(self, batch: pa.RecordBatch, ordinal: int) -> None:
        """Add a batch for a side output."""


class LateRows:
    """The late rows of one processor.

    processor: the processor.
    unit: the unit of event times, for the log: "µs", or "" for integers.
    are_emitted: whether late rows are emitted on output 1, or another output that `emit` specifies.
        If not, there is one output, or several with the same rows.
    count: the total number of late rows.
    """

    __slots__ = (
        "_latest",
        "_log_at",
        "_processor",
        "_unit",
        "_unlogged",
        "_watermark",
        "are_emitted",
        "count",
    )

    def __init__(self, processor: Emitter, unit: str, are_emitted: bool) -> None:
        self.count = 0
        self.are_emitted = are_emitted
        self._processor = processor
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
        now = self._processor.context.job.clock()
        if now >= self._log_at:
            self._log_at = now + LOG_INTERVAL
            self.log()

    def emit(self, rows: pa.RecordBatch, ordinal: int = LATE) -> None:
        """Emit late rows on an output, or drop them if they aren't requested."""
        if self.are_emitted:
            self._processor.emit_aside(rows, ordinal)

    def log(self) -> None:
        """Log the late rows that weren't logged yet."""
        if not self._unlogged:
            return
        context = self._processor.context
        context.logger.warning(
            'late event: %d rows arrived after their result was emitted (vertex "%s"), '
            "late by up to %s; watermark %d; %d in all",
            self._unlogged,
            context.vertex,
            self._how_late(),
            self._watermark,
            self.count,
        )
        self._unlogged = self._latest = 0

    def _how_late(self) -> str:
        if self._unit != "µs":
            return str(self._latest)
        return f"{self._latest / 1000:g} ms"
