"""The tasklet: what a thread calls, and the protocol by which it is parked and woken without a
lock.

At any moment a tasklet is in exactly one place: being called by one thread, in the list of one
owner (ready to be called), or parked. It changes place only by these moves, each an atomic
operation of a list or deque:

- *ready → called*: its owner, or a thief, pops it from the owner's list. One pop succeeds.
- *called → ready*: the thread that called it appends it to an owner's list.
- *called → parked*: that thread puts a token in `parking`.
- *parked → ready*: whoever pops the token hands the tasklet to its owner.

No wake-up is lost. Who has news for a tasklet (items in its queue, room in its output, a request)
first makes the news visible, then sets `signalled`, then looks for the token. The caller clears
`signalled` before the call, and after a call that led to nothing puts the token down, then looks at
`signalled`. Whatever the order in which these steps of the two threads happen, either the caller
sees the signal, or the waker sees the token, or both do; then the pop decides. If the signal was
set before the caller cleared it, the news was visible before the call began, and the call dealt
with it. The argument needs memory that is sequentially consistent for these fields, which the
interpreter lock gives (and the per-object locks of a free-threaded build).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from runnel.runtime.tasklets.progress import DONE, MADE_PROGRESS, NO_PROGRESS, Progress


class Owner(Protocol):
    """The one that calls a tasklet when it is ready."""

    def ready(self, tasklet: Tasklet) -> None:
        """Takes a tasklet that is to be called. From any thread; the tasklet is neither parked nor
        being called."""

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        """Will wake the tasklet at `time` (monotonic ns). From the thread that calls the
        tasklet."""


class Tasklet(ABC):
    """Something to be called again and again until it is done."""

    __slots__ = ("__weakref__", "is_cooperative", "is_patient", "owner", "parking", "signalled")

    owner: Owner
    is_patient: bool
    """It stays with its worker as long as one could do the work of all."""

    def __init__(self, is_cooperative: bool = True) -> None:
        self.is_cooperative = is_cooperative
        self.signalled = False
        self.is_patient = False
        self.parking: list[None] = []

    @abstractmethod
    def call(self) -> Progress:
        """Does some work. Never raises an Exception: a failure is told to the execution."""

    @abstractmethod
    def ended(self) -> None:
        """Called once by the thread whose `call` gave DONE."""

    def abandon_if_unwanted(self) -> None:
        """A consumer wants nothing more; from any thread."""

    @property
    def is_parked(self) -> bool:
        return bool(self.parking)

    def wake(self) -> None:
        """Has the tasklet called soon, from any thread. Costs next to nothing if it isn't
        parked."""
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
        """Gives the tasklet up until it is woken. False: there was a signal meanwhile and it is
        still the caller's, to be called again. After True the caller must not touch it any more."""
        self.parking.append(None)
        if self.signalled:
            try:
                self.parking.pop()
            except IndexError:
                return True  # the waker was faster and made it ready
            return False
        return True


def take_turn(tasklet: Tasklet) -> Progress:
    """Calls a tasklet once, on behalf of its owner. MADE_PROGRESS: the owner has it back and is to
    call it again.
    NO_PROGRESS: it is parked, so it is nobody's. DONE: it has ended."""
    tasklet.signalled = False
    progress = tasklet.call()
    if progress is NO_PROGRESS and not tasklet.park():
        return MADE_PROGRESS
    if progress is DONE:
        tasklet.ended()
    return progress
