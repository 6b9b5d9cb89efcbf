"""The steps of a tasklet for epochs, in queries whose results change.

Each is called by `ProcessorTasklet.call` in the state with its name; see there, and `state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from runnel.runtime.tasklets.state import COMPLETE, EPOCH

if TYPE_CHECKING:
    from runnel.processor import Epoch, Processor
    from runnel.runtime.edges.inputs import Inputs
    from runnel.runtime.edges.outbox import BaseOutbox
    from runnel.runtime.epochs import EpochTicker
    from runnel.runtime.tasklets.state import TaskletState


class EpochSteppedTasklet(Protocol):
    """A tasklet as these steps know it; see `ProcessorTasklet`."""

    vertex: str
    processor: Processor
    inputs: Inputs
    outbox: BaseOutbox
    state: TaskletState
    resume: TaskletState
    epoch: Epoch | None
    epochs: EpochTicker | None

    def again(self) -> bool: ...
    def wake(self) -> None: ...
    def wake_for(self, alarm: int) -> None: ...


def turn_to_epoch(source: EpochSteppedTasklet) -> bool:
    """Sets the state that ends an epoch, if a source has to. Called between two calls of the
    processor."""
    assert source.epochs is not None
    if source.inputs.edges or not source.processor.is_between_epochs:
        return False
    epoch = source.epochs.due(source)
    if epoch is None:
        return False
    # An item that only some outputs have accepted must be complete before the epoch ends.
    source.outbox.only_owed = source.outbox.is_partial
    if source.outbox.only_owed:
        return False
    source.outbox.forget_owed()
    source.epoch = epoch
    source.resume = COMPLETE
    source.state = EPOCH
    return True


def end_epoch(tasklet: EpochSteppedTasklet) -> bool:
    assert tasklet.epoch is not None
    if not tasklet.processor.process_epoch(tasklet.epoch):
        return tasklet.again()
    tasklet.epoch = None
    tasklet.state = tasklet.resume
    if tasklet.epochs is not None:
        if tasklet.inputs.edges:
            tasklet.epochs.reached(tasklet)
        else:
            tasklet.epochs.sent(tasklet)
    return True
