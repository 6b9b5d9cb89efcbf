"""Runs of groups in the order of their due times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes, join_arrays, slices
from runnel.processors.grouping.group_state import GroupLayout, Partial, exported
from runnel.processors.grouping.row_identity import factorise


@dataclass(slots=True)
class TimedRun:
    """Groups in the order of their due times by the first watermark; those before `start` were
    taken."""

    partial: Partial
    due: list[Indexes]
    start: int = 0
    saved: tuple[int, list[pa.RecordBatch]] | None = None
    """What it was saved as, and where it began then."""
    batch: pa.RecordBatch | None = None
    """The exported groups, where they are in a file, which takes `file_bytes`."""
    file_bytes: int = 0

    @property
    def left(self) -> int:
        return self.partial.num_rows - self.start

    def rest(self) -> Partial:
        return self.partial.slice(self.start, self.left) if self.start else self.partial

    def keep(self, rows: Indexes) -> None:
        """Leaves only some rows, in memory."""
        self.partial = self.partial.take(indexes(rows))
        self.due = [due[rows] for due in self.due]
        self.start = 0
        self.saved = self.batch = None

    def least(self) -> list[int]:
        """For each watermark the smallest due time of what is left."""
        more = [int(due[self.start :].min()) for due in self.due[1:]]
        return [int(self.due[0][self.start]), *more]

    def take_due(self, times: Sequence[int]) -> list[Partial]:
        """What is complete by the times of the watermarks, which it then doesn't have any more."""
        parts = []
        end = int(np.searchsorted(self.due[0], times[0]))
        if end > self.start:
            parts.append(self.partial.slice(self.start, end - self.start))
            self.start = end
        if len(times) > 1 and self.left:
            complete: Mask = np.zeros(self.left, np.bool_)
            for due, time in zip(self.due[1:], times[1:], strict=True):
                complete |= due[self.start :] < time
            if complete.any():
                parts.append(self.partial.take(indexes(self.start + np.flatnonzero(complete))))
                self.keep(self.start + np.flatnonzero(~complete))
        return parts

    def save(
        self, layout: GroupLayout, make: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> list[pa.RecordBatch]:
        """What is left as `make` puts it into state: the very same batches while it is the same."""
        if self.saved is None or self.saved[0] != self.start:
            batch = (
                exported(self.rest(), layout)
                if self.batch is None
                else self.batch.slice(self.start)
            )
            self.saved = self.start, list(slices(make(batch)))
        return self.saved[1]


def sorted_run(partial: Partial, due: list[Indexes]) -> TimedRun:
    """Groups with their due times, in any order, as a run."""
    first = due[0]
    if len(first) > 1 and (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        return TimedRun(partial.take(indexes(order)), [item[order] for item in due])
    return TimedRun(partial, due)


def with_keys(partial: Partial, keys: Sequence[pa.Array]) -> Partial:
    """The states whose first keys are among these."""
    both = [join_arrays([mine, other]) for mine, other in zip(partial.keys, keys, strict=False)]
    codes, _ = factorise(both)
    wanted = np.isin(codes[: partial.num_rows], codes[partial.num_rows :])
    return partial.take(indexes(np.flatnonzero(wanted)))
