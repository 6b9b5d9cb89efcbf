"""Late rows: rows that arrive after the result that they belong to was emitted.

They are counted and logged, and may be emitted on an output of their own. The log has at most one
line per vertex and LOG_INTERVAL of the job's clock. A LateRows is a part that a processor owns and
passes to EmittingProcessor.

For example, of 40 rows that are late within a second the first is logged, at once:

    late event dropped in vertex "sort", late by 123ms: watermark=2026-01-01 14:23:10.256,
    eventTime=2026-01-01 14:23:10.123, event=(k=7, page='start'); 1 in all

The next line follows with the first late row after that second, and counts the 39 others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from runnel.columns.batches import Indexes
from runnel.processor import ProcessorContext
from runnel.processors.stateful.late_event import (
    LateEvent,
    duration_text,
    event_text,
    time_text,
)

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
    unit: the unit of event times, for the log; see `time_unit`.
    are_emitted: whether late rows are emitted on output 1, or another output that `emit` specifies.
        If not, there is one output, or several with the same rows.
    count: the total number of late rows.
    """

    __slots__ = (
        "_event",
        "_greatest",
        "_lateness",
        "_processor",
        "_unlogged",
        "_watermark",
        "are_emitted",
        "count",
        "unit",
    )

    def __init__(self, processor: Emitter, unit: str, are_emitted: bool) -> None:
        self.count = 0
        self.are_emitted = are_emitted
        self._processor = processor
        self.unit = unit
        self._unlogged = 0
        self._event: LateEvent | None = None
        self._lateness = 0
        self._greatest = 0
        self._watermark = 0

    def add(
        self,
        count: int,
        lateness: Indexes,
        watermark: int,
        event: Callable[[int], LateEvent],
    ) -> None:
        """Count late rows.

        count: the number of rows.
        lateness: by how much each row, or each group of rows, is late, in event time.
        watermark: the watermark that they missed.
        event: returns the row, or the group, with a number in `lateness`. It is called for the
            latest one, and at most twice per LOG_INTERVAL.
        """
        self.count += count
        self._unlogged += count
        latest = int(lateness.argmax())
        self._greatest = max(self._greatest, int(lateness[latest]))
        context = self._processor.context
        now, logged_at = context.job.clock(), context.job.logged_at
        is_due = now >= logged_at.get(context.vertex, now)
        if is_due or self._event is None:
            self._event = event(latest)
            self._lateness, self._watermark = int(lateness[latest]), watermark
        if is_due:
            logged_at[context.vertex] = now + LOG_INTERVAL
            self.log()

    def emit(self, rows: pa.RecordBatch, ordinal: int = LATE) -> None:
        """Emit late rows on an output, or drop them if they aren't requested."""
        if self.are_emitted:
            self._processor.emit_aside(rows, ordinal)

    def log(self) -> None:
        """Log the late rows that weren't logged yet: one of them, and how many there are."""
        event = self._event
        if not self._unlogged or event is None:
            return
        context = self._processor.context
        zone = context.job.evaluation.zone
        others = ""
        if self._unlogged > 1:
            others = (
                f"; {self._unlogged - 1} more since the last message, late by up to "
                f"{duration_text(self._greatest, self.unit)}"
            )
        context.logger.getChild("late").warning(
            'late event %s in vertex "%s", late by %s: watermark=%s, %s=%s, event=%s%s; %d in all',
            "written to LATE DATA INTO" if self.are_emitted else "dropped",
            context.vertex,
            duration_text(self._lateness, self.unit),
            time_text(self._watermark, self.unit, zone),
            event.label,
            time_text(event.time, self.unit, zone),
            event_text(event.row, zone),
            others,
            self.count,
        )
        self._event = None
        self._unlogged = self._greatest = 0
