"""The context of a processor, provided by the tasklet that calls it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.processor import JobContext, ProcessorContext

if TYPE_CHECKING:
    from runnel.runtime.tasklets.tasklet import Tasklet

_logger = logging.getLogger("runnel.job")
_set = object.__setattr__


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
