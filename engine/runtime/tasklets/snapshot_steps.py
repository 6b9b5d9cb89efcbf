"""The steps of a tasklet for snapshots: restoring state, saving it at a barrier, and both phases of
the commit.

Each is called by `ProcessorTasklet.call` in the state with its name; see there, and `state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from runnel.runtime.tasklets.state import (
    AWAIT_COMMIT,
    COMMIT,
    EMIT_BARRIER,
    END,
    FINISH_RESTORE,
    NEXT,
    PREPARE,
    SAVE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from runnel.processor import Barrier, Processor, Stateful, Transactional
    from runnel.runtime.edges.inputs import Inputs
    from runnel.runtime.edges.outbox import BaseOutbox
    from runnel.runtime.snapshots import SnapshotCoordinator
    from runnel.runtime.tasklets.state import TaskletState


class SteppedTasklet(Protocol):
    """A tasklet as these steps know it; see `ProcessorTasklet`."""

    vertex: str
    index: int
    processor: Processor
    stateful: Stateful | None
    transactional: Transactional | None
    inputs: Inputs
    outbox: BaseOutbox
    snapshots: SnapshotCoordinator | None
    state: TaskletState
    resume: TaskletState
    barrier: Barrier | None
    is_unwanted: bool
    state_rows: Iterator[pa.RecordBatch] | None

    def again(self) -> bool: ...


def restore(tasklet: SteppedTasklet) -> bool:
    assert tasklet.state_rows is not None and tasklet.stateful is not None
    batch = next(tasklet.state_rows, None)
    if batch is None:
        tasklet.state = FINISH_RESTORE
    else:
        tasklet.stateful.restore_snapshot(batch)
    return True


def finish_restore(tasklet: SteppedTasklet) -> bool:
    assert tasklet.stateful is not None
    if tasklet.stateful.finish_restore():
        tasklet.state = NEXT
        return True
    return tasklet.again()


def turn_to_snapshot(tasklet: SteppedTasklet) -> bool:
    """Sets the state for a commit that is due, or, if no input brings barriers (or no longer), for
    a snapshot that is due. Called between two calls of the processor."""
    assert tasklet.snapshots is not None
    if tasklet.snapshots.commit_due(tasklet):
        tasklet.state = COMMIT
        return True
    if tasklet.inputs.are_done:
        barrier = tasklet.snapshots.barrier_due(tasklet)
        if barrier is not None:
            # An item that only some outputs have accepted must be complete before the barrier.
            tasklet.outbox.only_owed = tasklet.outbox.is_partial
            if tasklet.outbox.only_owed:
                return False
            tasklet.barrier = barrier
            tasklet.state = SAVE
            return True
    return False


def save(tasklet: SteppedTasklet) -> bool:
    assert tasklet.snapshots is not None and tasklet.barrier is not None
    if tasklet.stateful is None:
        # Rows that the processor retains to fill a batch belong before the barrier.
        saved = tasklet.processor.flush()
    else:
        tasklet.outbox.snapshot_target = tasklet.snapshots.target(tasklet)
        saved = tasklet.stateful.save_snapshot()
        tasklet.outbox.snapshot_target = None
    if saved:
        tasklet.outbox.forget_owed()
        tasklet.state = EMIT_BARRIER if tasklet.transactional is None else PREPARE
        return True
    return tasklet.again()


def prepare(tasklet: SteppedTasklet) -> bool:
    assert tasklet.barrier is not None and tasklet.transactional is not None
    if tasklet.transactional.prepare_commit(tasklet.barrier.snapshot_id):
        tasklet.state = EMIT_BARRIER
        return True
    return tasklet.again()


def emit_barrier(tasklet: SteppedTasklet) -> bool:
    assert tasklet.snapshots is not None and tasklet.barrier is not None
    if not tasklet.outbox.offer(tasklet.barrier):
        return False
    tasklet.state = AWAIT_COMMIT if tasklet.barrier.is_terminal else NEXT
    tasklet.snapshots.saved(tasklet)
    return True


def await_commit(tasklet: SteppedTasklet) -> bool:
    assert tasklet.snapshots is not None
    if not tasklet.snapshots.commit_due(tasklet):
        return False
    tasklet.resume = END
    tasklet.state = COMMIT
    return True


def save_last(tasklet: SteppedTasklet) -> bool:
    assert tasklet.snapshots is not None
    saved = True
    if tasklet.stateful is not None:
        tasklet.outbox.snapshot_target = tasklet.snapshots.last_target(tasklet)
        saved = tasklet.stateful.save_snapshot()
        tasklet.outbox.snapshot_target = None
    if saved:
        tasklet.state = AWAIT_COMMIT if tasklet.snapshots.awaits_commit(tasklet) else END
        return True
    return tasklet.again()


def commit(tasklet: SteppedTasklet) -> bool:
    assert tasklet.snapshots is not None
    transactional = tasklet.transactional
    if transactional is not None and not transactional.commit(*tasklet.snapshots.outcome):
        return tasklet.again()
    tasklet.state = tasklet.resume
    tasklet.snapshots.committed(tasklet)
    return True


def may_end(tasklet: SteppedTasklet) -> bool:
    """Whether it can end at once, as no consumer needs its output. An outstanding commit is done
    first: after a terminal barrier the consumers may have ended before it."""
    if tasklet.snapshots is None or not tasklet.snapshots.awaits_commit(tasklet):
        return True
    if tasklet.state is not COMMIT:
        tasklet.state = AWAIT_COMMIT
    tasklet.resume = END
    return False
