"""Groups that were given away and may still change, where lateness is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Mask, indexes
from runnel.processors.grouping.group_state import WEIGHT, GroupLayout, Partial
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.time_windows.timed_groups import TimedGroups
from runnel.processors.time_windows.timed_runs import with_keys
from runnel.storage.memory_budget import Memory


class GivenGroups:
    """The states of groups until they can't change any more: plain ones, then the rows of each set
    of distinct arguments. The first `keys` columns are the keys of the group."""

    def __init__(
        self,
        layouts: Sequence[GroupLayout],
        due: DueTimes,
        lateness: int,
        keys: int,
        check: Callable[[int], None],
    ) -> None:
        self.groups = [TimedGroups(layout, due, check) for layout in layouts]
        self._due = due
        self._lateness = lateness
        self._keys = keys

    def add(self, parts: Sequence[Partial | None], before: Sequence[int]) -> list[Partial | None]:
        """Takes what came of some groups since, and gives all that there is of them. Groups that
        were due before the watermarks stood at `before` may have been given already; others are
        new."""
        plain = parts[0]
        assert plain is not None
        changed = self._given(plain, before)
        found = []
        for groups, part in zip(self.groups, parts, strict=True):
            known = (
                [with_keys(item, changed) for item in groups.partials()] if len(changed[0]) else []
            )
            if part is not None:
                groups.add_partial(part)
                known.append(part)
            found.append(groups.together([item for item in known if item.num_rows]))
        return found

    @property
    def is_spilled(self) -> bool:
        """Whether some groups are in files."""
        return any(groups.is_spilled for groups in self.groups)

    def add_part(self, part: Partial, before: Sequence[int], memory: Memory) -> Partial:
        """As `add`, of some groups, where there are no distinct arguments and memory has no room
        for all."""
        (groups,) = self.groups
        changed = self._given(part, before)
        known = list(groups.of(changed)) if len(changed[0]) else []
        groups.add_partial(part)
        if (groups.size[1] - groups.spilled_size[1]) * WEIGHT > memory.allowed:
            groups.spill(memory)
        found = groups.together([*known, part])
        assert found is not None
        return found

    def _given(self, plain: Partial, before: Sequence[int]) -> list[pa.Array]:
        """The keys of those groups that may have been given already."""
        again: Mask = np.zeros(plain.num_rows, np.bool_)
        for due, time in zip(self._due.of(plain.keys), before, strict=True):
            again |= due < time
        return [column.take(indexes(np.flatnonzero(again))) for column in plain.keys]

    def forget(self, times: Sequence[int]) -> None:
        """Lets go of the groups that can't change any more."""
        for groups in self.groups:
            groups.forget_due([time - self._lateness for time in times])

    def close(self) -> None:
        for groups in self.groups:
            groups.close()
