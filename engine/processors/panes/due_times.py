"""When groups are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, indexes, numbers, validity
from runnel.processors.grouping.group_state import Partial
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
