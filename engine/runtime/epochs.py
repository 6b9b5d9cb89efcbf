"""The epochs of one execution: when each begins and ends, and which tasklets have ended it.

One epoch at a time is being ended. Each source without an end sends the end of the epoch after its
rows; operators align it like a barrier and emit the changes of the epoch. When it has arrived at
the last vertices, the next epoch may end: at once if rows have arrived meanwhile and the previous
one ended long enough ago, or when its time comes. While no rows arrive, no epoch ends. Sources that
have an end do not send it: an operator that also reads such a source aligns the first epoch when
that source has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from runnel.dag import Epochs
from runnel.processor import Epoch, Processor
from runnel.runtime.edges.inputs import Inputs
from runnel.runtime.edges.outbox import BaseOutbox


class EpochTasklet(Protocol):
    """A tasklet as the ticker knows it; see `ProcessorTasklet`."""

    vertex: str
    processor: Processor
    inputs: Inputs
    outbox: BaseOutbox
    epochs: EpochTicker | None

    def wake(self) -> None: ...
    def wake_for(self, alarm: int) -> None: ...


Ends = Mapping[EpochTasklet, Mapping[int, int]]
"""Numbers of rows, by the number of the partition in its source: the rows that this process had
written for it at some time."""


class EpochTicker:
    """Decides when epochs end. Tasklets call it between calls of their processors, on any thread.

    epochs: the sources, and the minimum distance.
    clock: returns the monotonic time in ns.
    tasklets: all tasklets of the execution.
    """

    def __init__(
        self, epochs: Epochs, clock: Callable[[], int], tasklets: Iterable[EpochTasklet]
    ) -> None:
        self._distance = epochs.distance
        self._clock = clock
        self._lock = Lock()
        self._sources: set[EpochTasklet] = set()
        self._ends: set[EpochTasklet] = set()
        for tasklet in tasklets:
            if tasklet.vertex in epochs.sources:
                self._sources.add(tasklet)
                tasklet.epochs = self
            elif not tasklet.outbox.queues:
                self._ends.add(tasklet)
                tasklet.epochs = self
        self._epoch: Epoch | None = None
        self._to_send: set[EpochTasklet] = set()
        self._to_reach: set[EpochTasklet] = set()
        self._number = 0
        # The first epoch ends at once, so that the result over no rows is emitted; the first rows
        # do not wait for it.
        self._is_wanted = True
        self._earliest = 0
        self._is_held = False
        self._on_hold: Callable[[], None] | None = None
        self._sent: dict[EpochTasklet, dict[int, int]] = {}
        self._complete: dict[EpochTasklet, dict[int, int]] = {}
        self._completed = 0
        self._left: dict[EpochTasklet, int] = {}
        self._listeners: list[Callable[[], object]] = []
        self._to_read: set[EpochTasklet] = set()

    def ends(self) -> Ends:
        """How many rows this process has written for each source so far."""
        with self._lock:
            sources = tuple(self._sources)
        return {source: _progress(source, 0) for source in sources}

    def has_passed(self, ends: Ends) -> bool:
        """Whether an epoch is complete with all of these rows."""
        with self._lock:
            return all(map(self._has_read, ends, ends.values()))

    def _has_read(self, source: EpochTasklet, ends: Mapping[int, int]) -> bool:
        if source in self._left:
            return self._left[source] < self._completed
        read = self._complete.get(source, {})
        return all(read.get(number, 0) >= end for number, end in ends.items())

    def hasten(self) -> None:
        """Has the next epoch end as soon as the current one is complete."""
        with self._lock:
            self._is_wanted = True
            self._earliest = 0
            sources = tuple(self._sources)
            # Each source reads once before the epoch ends, so that rows of now are in it.
            self._to_read = set(sources)
        for source in sources:
            source.wake()

    @contextmanager
    def listening(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` whenever an epoch is complete."""
        with self._lock:
            self._listeners.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(wake)

    def hold(self, on_hold: Callable[[], None]) -> bool:
        """Lets no epoch begin until `release`, as a snapshot begins. False: an epoch is on its way;
        `on_hold` is called when it has ended, and the next one does not begin."""
        with self._lock:
            self._is_held = self._is_held or self._epoch is None
            if not self._is_held:
                self._on_hold = on_hold
            return self._is_held

    def release(self) -> None:
        """All tasklets have passed the barrier of the snapshot."""
        with self._lock:
            self._is_held = False
            sources = tuple(self._sources) if self._is_wanted else ()
        for source in sources:
            source.wake()

    def has_rows(self) -> None:
        """A source has emitted rows, which belong to an epoch that has not ended."""
        self._is_wanted = True

    def due(self, source: EpochTasklet) -> Epoch | None:
        """The epoch whose end a source has to send now; None if there is none. If an epoch is to
        end later, the source is woken then."""
        if self._epoch is None and self._is_wanted and not self._is_held:
            if source in self._to_read:
                self._to_read.discard(source)
                source.wake()
                return None
            now = self._clock()
            if now < self._earliest:
                source.wake_for(self._earliest)
                return None
            self._begin(now)
        return self._epoch if source in self._to_send else None

    def _begin(self, now: int) -> None:
        """Begins to end the next epoch, unless another source did so meanwhile."""
        with self._lock:
            if self._epoch is not None or not self._is_wanted or self._is_held:
                return
            self._is_wanted = False
            self._number += 1
            if self._number > 1:
                self._earliest = now + self._distance
            self._to_send = set(self._sources)
            self._to_reach = set(self._ends)
            self._epoch = Epoch(self._number)
            sources = tuple(self._to_send)
        for source in sources:
            source.wake()

    def sent(self, source: EpochTasklet) -> None:
        """A source has sent the end of the current epoch."""
        read = _progress(source, 1)
        with self._lock:
            self._sent[source] = read
            self._to_send.discard(source)

    def reached(self, last: EpochTasklet) -> None:
        """The end of the current epoch has arrived at a tasklet without outputs."""
        with self._lock:
            self._to_reach.discard(last)
            sources = self._finished()
        self._continue(sources)

    def left(self, tasklet: EpochTasklet) -> None:
        """A tasklet has ended. The last rows of a source belong to an epoch that has not ended."""
        with self._lock:
            if tasklet in self._sources:
                self._is_wanted = True
                self._left[tasklet] = self._number
            for tasklets in (self._sources, self._ends, self._to_send, self._to_reach):
                tasklets.discard(tasklet)
            sources = self._finished()
            if self._epoch is None and self._is_wanted:
                sources = tuple(self._sources)
        self._continue(sources)

    def _continue(self, sources: Iterable[EpochTasklet]) -> None:
        """After an epoch that may have ended: begins a snapshot that waits for it, or wakes the
        sources for the next one."""
        on_hold = None
        with self._lock:
            listeners = tuple(self._listeners) if self._epoch is None else ()
            if self._epoch is None and self._on_hold is not None:
                on_hold, self._on_hold = self._on_hold, None
                self._is_held = True
        if on_hold is not None:
            on_hold()
        for source in sources:
            source.wake()
        for wake in listeners:
            wake()

    def _finished(self) -> tuple[EpochTasklet, ...]:
        """If the end of the epoch has arrived everywhere, the sources to be woken for the next
        one."""
        if self._epoch is None or self._to_reach or self._to_send:
            return ()
        self._epoch = None
        self._completed = self._number
        self._complete.update(self._sent)
        return tuple(self._sources) if self._is_wanted else ()


def _progress(source: EpochTasklet, which: int) -> dict[int, int]:
    """The numbers of rows that were written for the partitions of a source (0), or read (1)."""
    progress = getattr(source.processor, "progress", None)  # a role of sources
    return {} if progress is None else {i: item[which] for i, item in progress().items()}
