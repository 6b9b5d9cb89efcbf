"""Snapshots of a running job: barriers divide the stream, tasklets save their state at them, and sinks commit in two phases.

The coordinator begins a snapshot by asking the sources for it. Each tasklet, at the barrier, saves its state, prepares its
commit, and passes the barrier on. When all have, the store makes the snapshot durable, and every tasklet is told to
commit. The algorithm is that of Chandy and Lamport, as Flink and Jet use it: aligned (exactly-once), or not (at-least-once).

State is rows by vertex. Rows whose schema names key columns (`keyed_state`) are divided by the hash of the key when
restored, so the number of processors may change; other rows are given to every processor of the vertex.

A tasklet that ends saves its state once more; that goes into every later snapshot, so that what was read to the end stays so.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.errors import OperationalError
from runnel.key_hash import KEY_METADATA, partition
from runnel.processor import Barrier

if TYPE_CHECKING:
    from runnel.runtime.execution import Execution
    from runnel.runtime.processor_tasklet import ProcessorTasklet

logger = logging.getLogger("runnel.runtime")


def share_of(batch: pa.RecordBatch, index: int, parallelism: int) -> pa.RecordBatch:
    """The rows of state that processor `index` is to have."""
    keys = (batch.schema.metadata or {}).get(KEY_METADATA)
    if keys is None or parallelism == 1:
        return batch
    columns = [batch.schema.get_field_index(name) for name in keys.decode().split("\n")]
    return partition(batch, columns, parallelism)[index]


class SnapshotStore(ABC):
    """Where snapshots are kept. Safe for threads; only the methods that may block say so."""

    @abstractmethod
    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        """Takes rows of state. False: not now, offer them again."""

    @abstractmethod
    def complete(self, snapshot_id: int) -> None:
        """Makes the snapshot the one to restore from; older ones may go. May block. A failure gives the snapshot up."""

    @abstractmethod
    def give_up(self, snapshot_id: int) -> None:
        """Forgets a snapshot that wasn't completed."""

    @abstractmethod
    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """The rows of one vertex in a completed snapshot."""


class MemorySnapshotStore(SnapshotStore):
    """Keeps the last completed snapshot in memory."""

    def __init__(self) -> None:
        self.completed: int | None = None
        self._lock = Lock()
        self._rows: dict[int, dict[str, list[pa.RecordBatch]]] = {}

    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        with self._lock:
            self._rows.setdefault(snapshot_id, {}).setdefault(vertex, []).append(batch)
        return True

    def complete(self, snapshot_id: int) -> None:
        with self._lock:
            self._rows = {snapshot_id: self._rows.get(snapshot_id, {})}
            self.completed = snapshot_id

    def give_up(self, snapshot_id: int) -> None:
        with self._lock:
            self._rows.pop(snapshot_id, None)

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        with self._lock:
            if snapshot_id != self.completed:
                raise OperationalError(f"there is no snapshot {snapshot_id}", hint="restore from the last completed one")
            return tuple(self._rows[snapshot_id].get(vertex, ()))


class SnapshotCoordinator:
    """The snapshots of one execution, one at a time. `restore_from` is the snapshot to start from.

    Tasklets call it between the calls of their processors; it may be asked to begin from any thread.
    """

    def __init__(self, store: SnapshotStore, *, is_aligned: bool = True, restore_from: int | None = None) -> None:
        self._store = store
        self._is_aligned = is_aligned
        self._restore_from = restore_from
        self._lock = Lock()
        self._execution: Execution | None = None
        self._ids = count(1 if restore_from is None else restore_from + 1)
        self._asked: tuple[Barrier, Callable[[bool], None]] | None = None
        self._active: Barrier | None = None
        self._on_done: Callable[[bool], None] = _ignore
        self._to_save: set[ProcessorTasklet] = set()
        self._to_commit: set[ProcessorTasklet] = set()
        self._is_deciding = False
        self._is_decided = False
        self._is_safe = False
        self._last_states: list[tuple[str, pa.RecordBatch]] = []

    def begin_with(self, execution: Execution) -> None:
        """Called by the execution before any tasklet is."""
        self._execution = execution
        parallelism: dict[str, int] = {}
        for tasklet in execution.tasklets:
            parallelism[tasklet.vertex] = parallelism.get(tasklet.vertex, 0) + 1
        for tasklet in execution.tasklets:
            tasklet.inputs.aligned = self._is_aligned
            if self._restore_from is not None:
                rows = self._store.read(self._restore_from, tasklet.vertex)
                tasklet.state_rows = _shares(rows, tasklet.index, parallelism[tasklet.vertex])

    def begin(self, *, is_terminal: bool = False, on_done: Callable[[bool], None] | None = None) -> int | None:
        """Begins a snapshot, as soon as the inputs that others wait for have ended; its id, or None if one is under way
        already or the job is over. `on_done` hears whether it is safe, when all have committed (or given up)."""
        assert self._execution is not None
        with self._lock:
            if self._active is not None or self._asked is not None or self._execution.is_over:
                return None
            barrier = Barrier(next(self._ids), is_terminal)
            self._asked = (barrier, on_done or _ignore)
        self._start_if_possible()
        return barrier.snapshot_id

    def _start_if_possible(self) -> None:
        execution = self._execution
        assert execution is not None
        alive = set(execution.left)
        left = [tasklet for tasklet in execution.tasklets if tasklet in alive]
        with self._lock:
            if self._asked is None or any(tasklet.vertex in execution.template.before_snapshots for tasklet in left):
                return
            (self._active, self._on_done), self._asked = self._asked, None
            self._to_save = set(left)
            self._to_commit = set()
            self._is_deciding = self._is_decided = self._is_safe = False
            last_states = list(self._last_states)
        for vertex, batch in last_states:
            self._store.write(self._active.snapshot_id, vertex, batch)
        execution.wake_all()
        self._decide_if_saved()

    def barrier_due(self, tasklet: ProcessorTasklet) -> Barrier | None:
        """The barrier that a tasklet without inputs (any more) is to begin with, if there is one."""
        return self._active if tasklet in self._to_save else None

    def target(self, tasklet: ProcessorTasklet) -> Callable[[pa.RecordBatch], bool]:
        """Where the tasklet's state goes at the current barrier."""
        barrier = self._active
        assert barrier is not None
        return lambda batch: self._store.write(barrier.snapshot_id, tasklet.vertex, batch)

    def last_target(self, tasklet: ProcessorTasklet) -> Callable[[pa.RecordBatch], bool]:
        """Where the state goes of a tasklet that is about to end."""

        def keep(batch: pa.RecordBatch) -> bool:
            with self._lock:
                self._last_states.append((tasklet.vertex, batch))
                barrier = self._active if tasklet in self._to_save else None
            return barrier is None or self._store.write(barrier.snapshot_id, tasklet.vertex, batch)

        return keep

    def saved(self, tasklet: ProcessorTasklet) -> None:
        """The tasklet's state is in the snapshot and its commit is prepared."""
        with self._lock:
            self._to_save.discard(tasklet)
            self._to_commit.add(tasklet)
        self._decide_if_saved()

    def left(self, tasklet: ProcessorTasklet) -> None:
        """The tasklet has ended."""
        with self._lock:
            self._to_save.discard(tasklet)
            self._to_commit.discard(tasklet)
        self._decide_if_saved()
        self._end_if_committed()
        if self._asked is not None:
            self._start_if_possible()

    def awaits_commit(self, tasklet: ProcessorTasklet) -> bool:
        """Whether a commit that the tasklet prepared is outstanding."""
        return tasklet in self._to_commit

    def commit_due(self, tasklet: ProcessorTasklet) -> bool:
        """Whether it is known what becomes of the snapshot, and the tasklet hasn't heard of it."""
        return self._is_decided and tasklet in self._to_commit

    @property
    def outcome(self) -> tuple[int, bool]:
        """The snapshot and whether it is safe: the arguments of `commit`."""
        assert self._active is not None
        return self._active.snapshot_id, self._is_safe

    def committed(self, tasklet: ProcessorTasklet) -> None:
        with self._lock:
            self._to_commit.discard(tasklet)
        self._end_if_committed()

    def _decide_if_saved(self) -> None:
        """When all have saved: makes the snapshot safe, and has it committed."""
        assert self._execution is not None
        with self._lock:
            if self._active is None or self._to_save or self._is_deciding:
                return
            self._is_deciding = True
            snapshot_id = self._active.snapshot_id
        if self._execution.is_cancelled:
            self._store.give_up(snapshot_id)
        else:
            try:
                self._store.complete(snapshot_id)
                self._is_safe = True
            except Exception as error:
                logger.warning("snapshot %d of job %d failed: %s", snapshot_id, self._execution.job.job_id, error)
                self._store.give_up(snapshot_id)
        self._is_decided = True  # only now, so that whoever sees it sees the outcome too
        self._execution.wake_all()
        self._end_if_committed()

    def _end_if_committed(self) -> None:
        with self._lock:
            if self._active is None or not self._is_decided or self._to_commit:
                return
            self._active = None
            on_done = self._on_done
        on_done(self._is_safe)


def _shares(rows: Sequence[pa.RecordBatch], index: int, parallelism: int) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        share = share_of(batch, index, parallelism)
        if share.num_rows:
            yield share


def _ignore(is_safe: bool) -> None:
    pass
