"""Groups that were given away and may still change, where lateness is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from runnel.batches import Mask, indexes
from runnel.processors.group_state import Layout, Partial
from runnel.processors.timed_groups import TimedGroups, with_keys
from runnel.processors.timed_runs import DueTimes


class GivenGroups:
    """The states of groups until they can't change any more: plain ones, then the rows of each set of distinct arguments. The
    first `keys` columns are the keys of the group."""

    def __init__(
        self, layouts: Sequence[Layout], due: DueTimes, lateness: int, keys: int, check: Callable[[int], None]
    ) -> None:
        self.groups = [TimedGroups(layout, due, check) for layout in layouts]
        self._due = due
        self._lateness = lateness
        self._keys = keys

    def add(self, parts: Sequence[Partial | None], before: Sequence[int]) -> list[Partial | None]:
        """Takes what came of some groups since, and gives all that there is of them. Groups that were due before the watermarks
        stood at `before` may have been given already; others are new."""
        plain = parts[0]
        assert plain is not None
        again: Mask = np.zeros(plain.num_rows, np.bool_)
        for due, time in zip(self._due.of(plain.keys), before, strict=True):
            again |= due < time
        changed = [column.take(indexes(np.flatnonzero(again))) for column in plain.keys]
        found = []
        for groups, part in zip(self.groups, parts, strict=True):
            known = [with_keys(item, changed) for item in groups.partials()] if again.any() else []
            if part is not None:
                groups.add_partial(part)
                known.append(part)
            found.append(groups.together([item for item in known if item.num_rows]))
        return found

    def forget(self, times: Sequence[int]) -> None:
        """Lets go of the groups that can't change any more."""
        for groups in self.groups:
            groups.forget_due([time - self._lateness for time in times])

    def close(self) -> None:
        for groups in self.groups:
            groups.close()
