"""A thread for one tasklet whose processor blocks."""

from __future__ import annotations

from heapq import heappop, heappush
from threading import Thread, current_thread
from typing import TYPE_CHECKING

from runnel.base.clock import Clock
from runnel.deadline import Deadline
from runnel.runtime.tasklets.tasklet import DONE, NO_PROGRESS, Tasklet, take_turn
from runnel.runtime.threads.idle import Parker

if TYPE_CHECKING:
    from runnel.runtime.execution import Execution


class DedicatedThread:
    """Owns one tasklet and calls it until it ends. The thread has the tasklet's name."""

    __slots__ = ("_alarms", "_clock", "_deadline", "_parker", "tasklet", "thread")

    def __init__(
        self, tasklet: Tasklet, name: str, clock: Clock, execution: Execution | None = None
    ) -> None:
        """`execution` is the tasklet's, if it has one: cancelling it also cancels the waits in the
        processor's calls."""
        self.tasklet = tasklet
        self._deadline = Deadline(None)
        if execution is not None:
            execution.when_cancelled(self._deadline.cancel)
        self._clock = clock
        self._parker = Parker()
        self._alarms: list[int] = []
        """A heap of the times at which to call the tasklet; used only by its own thread."""
        tasklet.owner = self
        self.thread = Thread(target=self._run, name=f"runnel {name}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def join(self) -> None:
        """Waits until the thread is gone, unless it is the current one."""
        if self.thread is not current_thread() and self.thread.ident is not None:
            self.thread.join()

    def ready(self, tasklet: Tasklet) -> None:
        self._parker.unpark()

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        if time not in self._alarms:
            heappush(self._alarms, time)

    def _run(self) -> None:
        tasklet = self.tasklet
        with self._deadline:
            while (progress := take_turn(tasklet)) is not DONE:
                if progress is NO_PROGRESS:
                    self._wait_while_parked()

    def _wait_while_parked(self) -> None:
        tasklet = self.tasklet
        while tasklet.parking:
            now = self._clock.monotonic()
            is_due = False
            while self._alarms and self._alarms[0] <= now:
                heappop(self._alarms)
                is_due = True
            if is_due:
                tasklet.wake()
                return
            self._parker.park(self._clock.timeout(self._alarms[0]) if self._alarms else None)
