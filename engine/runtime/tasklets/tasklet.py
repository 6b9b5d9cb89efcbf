"""The tasklet: the unit that a thread calls, and the protocol by which it is parked and woken
without a lock.

At any time a tasklet is in exactly one of three conditions: being called by one thread, in the list
of one owner (ready to be called), or parked. It changes only by these moves, each an atomic
operation of a list or deque:

- *ready → called*: its owner, or a worker that steals it, pops it from the owner's list. One pop
  succeeds.
- *called → ready*: the thread that called it appends it to an owner's list.
- *called → parked*: that thread puts a token in `parking`.
- *parked → ready*: the thread that pops the token passes the tasklet to its owner.

No wake-up is lost. A thread with news for a tasklet (items in its queue, room in its output, a
request) first makes the news visible, then sets `signalled`, then checks for the token. The caller
clears `signalled` before the call; after a call without progress it adds the token, then checks
`signalled`. In whatever order these steps of the two threads happen, either the caller finds the
signal, or the waker finds the token, or both do; then the pop decides. If the signal was set before
the caller cleared it, the news was visible before the call began, and the call handled it. The
argument needs memory that is sequentially consistent for these fields, which the interpreter lock
guarantees (and the per-object locks of a free-threaded build).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from runnel.processor import JobContext, ProcessorContext

_logger = logging.getLogger("runnel.job")
_set = object.__setattr__


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


class Owner(Protocol):
    """The object that calls a tasklet when it is ready."""

    def ready(self, tasklet: Tasklet) -> None:
        """Adds a tasklet that is to be called. From any thread; the tasklet is neither parked nor
        being called."""

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        """Will wake the tasklet at `time` (monotonic ns). Called by the thread that calls the
        tasklet."""


class Tasklet(ABC):
    """A unit of work that is called repeatedly until it is done.

    owner: calls it when it is ready.
    parking: contains a token while it is parked, a new one each time.
    signalled: there is news for it since its last call began.
    """

    __slots__ = ("__weakref__", "is_background", "is_cooperative", "owner", "parking", "signalled")

    owner: Owner
    is_background: bool
    """It stays with its worker while one worker could do the work of all."""

    def __init__(self, is_cooperative: bool = True) -> None:
        self.is_cooperative = is_cooperative
        self.signalled = False
        self.is_background = False
        self.parking: list[object] = []

    @abstractmethod
    def call(self) -> Progress:
        """Does some work. Never raises an Exception: it reports a failure to the execution."""

    @abstractmethod
    def ended(self) -> None:
        """Called once by the thread whose `call` returned DONE."""

    def abandon_if_unwanted(self) -> None:
        """A consumer needs no more items. From any thread."""

    @property
    def is_parked(self) -> bool:
        return bool(self.parking)

    def wake(self) -> None:
        """Has the tasklet called soon, from any thread. Cheap if it is not parked."""
        self.signalled = True
        if self.parking:
            self.unpark()

    def unpark(self) -> None:
        """Makes the tasklet ready if it is parked; only the second half of `wake`."""
        try:
            self.parking.pop()
        except IndexError:
            return
        self.owner.ready(self)

    def park(self) -> bool:
        """Parks the tasklet until it is woken. False: a signal arrived meanwhile, and the caller is
        to call it again. After True the caller must not use the tasklet."""
        self.parking.append(object())
        if self.signalled:
            try:
                self.parking.pop()
            except IndexError:
                return True  # the waker popped the token first, and made it ready
            return False
        return True


def take_turn(tasklet: Tasklet) -> Progress:
    """Calls a tasklet once for its owner.

    MADE_PROGRESS: the owner is to call it again. NO_PROGRESS: it is parked. DONE: it has ended.
    """
    tasklet.signalled = False
    progress = tasklet.call()
    if progress is NO_PROGRESS and not tasklet.park():
        return MADE_PROGRESS
    if progress is DONE:
        tasklet.ended()
    return progress


class TaskletContext(ProcessorContext):
    """A ProcessorContext that records whether its processor used `wake` or `wake_at`.

    A processor that did is trusted to wake itself; one that did not is polled. Both functions are
    created on demand: most processors need neither.
    """

    __slots__ = ("tasklet", "wakes_itself")

    tasklet: Tasklet
    wakes_itself: bool

    def __init__(self, tasklet: Tasklet, processor: tuple[str, int, int], job: JobContext) -> None:
        """`processor`: the vertex, the processor's index, and the number of processors."""
        vertex, index, parallelism = processor
        _set(self, "tasklet", tasklet)
        _set(self, "wakes_itself", False)
        _set(self, "job", job)
        _set(self, "vertex", vertex)
        _set(self, "index", index)
        _set(self, "parallelism", parallelism)
        _set(self, "logger", _logger)

    @property
    def wake(self) -> Callable[[], None]:
        _set(self, "wakes_itself", True)
        return self.tasklet.wake

    @property
    def wake_at(self) -> Callable[[int], None]:
        _set(self, "wakes_itself", True)
        return self._wake_at

    def _wake_at(self, time: int) -> None:
        self.tasklet.owner.wake_at(self.tasklet, time)
