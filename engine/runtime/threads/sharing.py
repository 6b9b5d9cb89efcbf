"""Whether several workers call the tasklets of streams."""

from __future__ import annotations

FULL_LOAD = 0.95
"""The share of busy time from which a worker counts as fully busy."""

PARALLEL = 1.3
"""The number of processors that several workers must keep busy together. With less, they mostly
wait for each other's calls: for the interpreter's lock, or for a processor."""

FIRST_PAUSE = 1_000_000_000
"""Nanoseconds after which sharing is retried."""

LONGEST_PAUSE = 16_000_000_000
"""The pause is doubled after each attempt in vain, up to this many nanoseconds."""


class Sharing:
    """Decides whether several workers call the tasklets of streams, by the work of the workers.

    Whether two threads are faster than one depends on the tasklets. Those that mostly run Python
    take turns at the interpreter's lock, and passing it costs more than a short call; those whose
    native code runs for milliseconds without the lock profit. So sharing begins when one worker is
    not enough, and it ends for a while if the workers were busy but used hardly more processor
    time than one thread could.

    is_shared: other workers may take over tasklets.
    is_gathered: sharing was in vain, so that all tasklets return to one worker.
    """

    __slots__ = ("_again", "_pause", "is_gathered", "is_shared")

    def __init__(self) -> None:
        self.is_shared = False
        self.is_gathered = False
        self._again = 0
        self._pause = FIRST_PAUSE

    def begin(self, now: int) -> None:
        """There are new tasklets at the monotonic time `now`. They may be much work, so they are
        shared until the load is measured again."""
        self.is_shared = now >= self._again
        self.is_gathered = not self.is_shared

    def measured(self, now: int, elapsed: int, busy: int, used: int | None) -> None:
        """Decide by the work of the workers up to `now`.

        elapsed: the nanoseconds of the period.
        busy: the nanoseconds in which they did not rest, of all workers together.
        used: their processor time together in nanoseconds; None if the system does not tell it.
        """
        if busy < FULL_LOAD * elapsed:
            self.is_shared = False
        elif not self.is_shared:
            self.is_shared = now >= self._again
        elif used is not None and busy >= PARALLEL * elapsed:
            self._judge(now, is_useful=used >= PARALLEL * elapsed)
        self.is_gathered = now < self._again

    def _judge(self, now: int, *, is_useful: bool) -> None:
        if is_useful:
            self._pause = FIRST_PAUSE
            return
        self.is_shared = False
        self._again = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
