"""When groups are due, and runs of groups in that order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, Mask, indexes, join_arrays, numbers, slices, validity
from runnel.processors.grouping.group_state import GroupLayout, Partial, exported
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.sources.partition_watermarks import event_times, less
from runnel.relation.streams import TimeBound

NEVER = 2**63 - 1
"""When groups are due whose bounded keys are NULL: at the end of the input."""


class DueTimes:
    """When groups are due, by their keys: for each watermark the smallest of value − offset over
    the keys that it bounds. A group is complete when one of its due times is below the watermark's
    time."""

    def __init__(self, bounds: Sequence[tuple[int, TimeBound]]) -> None:
        self.watermarks = tuple(sorted({bound.watermark for _, bound in bounds}))
        self._keys = [
            [(key, bound.offset) for key, bound in bounds if bound.watermark == w]
            for w in self.watermarks
        ]
        self.bounded_keys = frozenset(key for key, _ in bounds)

    def least(self, keys: Sequence[pa.Array]) -> list[int]:
        """For each watermark the smallest due time among rows."""
        return [
            min(_least(keys[key]) - offset for key, offset in bounded) for bounded in self._keys
        ]

    def of_values(self, times: Mapping[int, int]) -> list[int]:
        """For each watermark the due time of a group, by the times of its bounded keys."""
        return [min(times[key] - offset for key, offset in bounded) for bounded in self._keys]

    def of(self, keys: Sequence[pa.Array]) -> list[Indexes]:
        """For each watermark the due times of rows."""
        found = []
        for bounded in self._keys:
            due = None
            for key, offset in bounded:
                one = _times(keys[key], offset)
                due = one if due is None else np.minimum(due, one)
            assert due is not None
            found.append(due)
        return found

    def are_times(self, number: int) -> bool:
        """Whether the due times by a watermark, by its position, are values of the keys."""
        return all(not offset for _, offset in self._keys[number])

    def ordered(self, groups: Partial) -> Partial:
        """The groups in the order of their due times by the first watermark."""
        due = self.of(groups.keys)[0]
        if (due[1:] >= due[:-1]).all():
            return groups
        return groups.take(indexes(np.argsort(due, kind="stable")))

    def lasting(self, keys: Sequence[int]) -> Sequence[int]:
        """Those of the keys, by number, that no watermark bounds; all, if each is bounded."""
        return [key for key in keys if key not in self.bounded_keys] or keys


def _least(column: pa.Array) -> int:
    times = event_times(column)
    if not len(times) or times.null_count == len(times):
        return NEVER
    if times.null_count:
        return int(pc.min(times).as_py())
    return int(numbers(times, np.int64).min())


def _times(column: pa.Array, offset: int) -> Indexes:
    times = event_times(column)
    due = less(numbers(times, np.int64), offset)
    valid = validity(times)
    return due if valid is None else np.where(valid, due, NEVER)


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
