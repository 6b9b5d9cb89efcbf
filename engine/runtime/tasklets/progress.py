"""The result of a call of a tasklet."""

from __future__ import annotations

from enum import Enum


class Progress(Enum):
    """The reason why a call of a tasklet ended.

    MADE_PROGRESS: its time slice ended; call it again.
    NO_PROGRESS: it cannot proceed until something changes, so it is not to be called before it is
        woken (the call may have done work before it came to this point).
    DONE: the tasklet has ended; never call it again.
    """

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"


# An attribute of an Enum class costs more than a global, and this is asked for at every call.
MADE_PROGRESS = Progress.MADE_PROGRESS
NO_PROGRESS = Progress.NO_PROGRESS
DONE = Progress.DONE
