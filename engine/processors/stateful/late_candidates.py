"""Rows that may be late, remembered before an aggregation by windows finds out that they are.

The aggregation finds out that a group is late, or a row without its time. To log the row, the first
of two stages, or the step that assigns windows, stores a row that arrived after its own watermark
had passed the end of the window. All processors of an execution share these rows
(`JobContext.late_candidates`). Of each window the last one is stored: rows of a window that arrive
after a late one are late, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes
from runnel.processor import JobContext
from runnel.processors.stateful.late_event import LateEvent

MOST = 64
"""Maximum number of stored rows."""


class LateCandidates:
    """The rows of one aggregation by windows.

    job: the execution.
    identity: identifies the windows, equal in both stages.
    """

    def __init__(self, job: JobContext, identity: Hashable) -> None:
        self._found = job.late_candidates
        self._identity = identity

    def add(self, panes: Indexes, times: Indexes, row: Callable[[int], pa.RecordBatch]) -> None:
        """Store the earliest one of these rows of each pane.

        panes: the end of each row's pane, or of its window.
        times: the event time of each row.
        row: returns the row with a number in `times`, as a batch that is not changed.
        """
        order = np.lexsort((times, panes))
        first = order[np.append(True, panes[order][1:] != panes[order][:-1])][:MOST]
        for number in first.tolist():
            key = (self._identity, int(panes[number]))
            self._found[key] = LateEvent(row(number), int(times[number]))
        for key in list(self._found)[: max(0, len(self._found) - MOST)]:
            self._found.pop(key, None)

    def get(self, pane: int) -> LateEvent | None:
        """Return a row of a late group by the end of its pane."""
        event: LateEvent | None = self._found.get((self._identity, pane))
        return event


def of_windows(job: JobContext) -> LateCandidates:
    """Return the rows that the steps that assign windows store, by the last time of the window."""
    return LateCandidates(job, "windows")


def late_events(
    windows: LateCandidates | None,
    due: Indexes,
    watermark: int,
    row: Callable[[int], pa.RecordBatch],
) -> tuple[Indexes, int, Callable[[int], LateEvent]]:
    """Return the lateness of rows or groups, the watermark, and the events for the log, as
    `LateRows.add` has them.

    windows: rows of the windows; None: `due` are the event times of the rows.
    due: the time by which each row or group was due.
    watermark: the watermark that they missed.
    row: returns the row or group with a number in `due`.
    """
    ends, end_of = np.unique(due, return_inverse=True)
    known = [None if windows is None else windows.get(end) for end in ends.tolist()]
    own = [end if item is None else item.time for item, end in zip(known, ends, strict=True)]
    times = np.array(own, np.int64)[end_of]
    label = "eventTime" if windows is None else "due"

    def event(number: int) -> LateEvent:
        return known[end_of[number]] or LateEvent(row(number), int(times[number]), label)

    return watermark - times, watermark, event


def copied_row(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Return one row, without a reference to the batch."""
    return batch.take(indexes(np.array([number])))
