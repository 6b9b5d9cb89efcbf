"""What a call of a tasklet came to."""

from __future__ import annotations

from enum import Enum


class Progress(Enum):
    """A call goes on until nothing more can be done or its time slice is over; this says which of
    the two it was.

    MADE_PROGRESS: the slice is over, call again. NO_PROGRESS: it can't go on until something
    changes, so don't call before it is woken (whatever the call did before it came to this point).
    DONE: the tasklet has ended, never call again.
    """

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"


# An attribute of an Enum class costs more than a global, and this is asked for at every call.
MADE_PROGRESS = Progress.MADE_PROGRESS
NO_PROGRESS = Progress.NO_PROGRESS
DONE = Progress.DONE
