"""Which sessions rows came to, for results that are given more than once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, numbers
from runnel.processors.sessions.session_merge import OpenSessions


class ChangedSessions:
    """Which sessions rows came to, by their numbers. `has_untimed`: also rows came that are in no
    session."""

    def __init__(self) -> None:
        self.has_untimed = False
        self._is_changed: Mask = np.zeros(0, np.bool_)
        self._any = False

    @property
    def any(self) -> bool:
        return self.has_untimed or self._any

    def add(self, found: pa.Array, count: int) -> None:
        """Takes the numbers of rows' sessions, NULL for none; numbers are below `count`."""
        self.has_untimed |= found.null_count > 0
        chosen = numbers(found.drop_null(), np.int64)
        self._make_room(count)
        self.mark(chosen)

    def mark(self, chosen: Indexes) -> None:
        """Takes the numbers of sessions."""
        self._make_room(int(chosen.max(initial=-1)) + 1)
        self._is_changed[chosen] = True
        self._any |= len(chosen) > 0

    def _make_room(self, count: int) -> None:
        if count > len(self._is_changed):
            self._is_changed = np.concatenate(
                (self._is_changed, np.zeros(2 * count - len(self._is_changed), np.bool_))
            )

    def of(self, sessions: OpenSessions) -> Mask:
        """For each number, as it is now, whether its session is one of them."""
        found = np.zeros(len(sessions.root), np.bool_)
        found[self.now(sessions)] = True
        return found

    def drop(self, gone: Mask, sessions: OpenSessions) -> None:
        """Lets go of some sessions, by the numbers that they have now."""
        left = self.now(sessions)
        left = left[~gone[left]]
        self._is_changed = np.zeros(len(self._is_changed), np.bool_)
        self._is_changed[left] = True
        self._any = len(left) > 0

    def now(self, sessions: OpenSessions) -> Indexes:
        """The numbers that these sessions have now."""
        return sessions.now(np.flatnonzero(self._is_changed))

    def renew(self, found: Indexes) -> None:
        """Gives them other numbers; those that are less than 0 are over."""
        self._is_changed = np.zeros(int(found.max(initial=-1)) + 1, np.bool_)
        self._is_changed[found[found >= 0]] = True
