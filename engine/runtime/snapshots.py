"""Snapshots of a running job: barriers divide the stream, tasklets save their state at them, and
sinks commit in two phases.

The coordinator begins a snapshot at the sources. Each tasklet, at the barrier, saves its state,
prepares its commit, and passes the barrier on. When all have, the store makes the snapshot durable,
on a thread of its own if that takes time, and every tasklet commits. The algorithm is Chandy and
Lamport's, as Flink and Jet use it: aligned (exactly-once), or unaligned (at-least-once).

State is rows by vertex. Rows whose schema names key columns (`keyed_state`) are divided by the hash
of the key when restored, so the number of processors may change; other rows are passed to every
processor of the vertex.

A tasklet that ends saves its state for the last time, and this state is part of every later
snapshot while other processors of the vertex run. A vertex that has ended as a whole is named in
the snapshot, and ends at once when the job is restored.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.expressions.kernels.buffers import pack
from runnel.processor import Barrier
from runnel.snapshots.division import StateDivision
from runnel.snapshots.store import (
    ENDED,
    Outcome,
    SnapshotSize,
    SnapshotStore,
    StateReader,
    VertexState,
)
from runnel.sqltypes import VARCHAR

if TYPE_CHECKING:
    from runnel.errors import Error
    from runnel.processor import JobContext, Processor, Stateful
    from runnel.runtime.edges.inputs import Inputs
    from runnel.runtime.epochs import EpochTicker
    from runnel.runtime.template import Template

logger = logging.getLogger("runnel.runtime")

OnDone = Callable[[bool], None]
"""Called when a snapshot is complete, with whether it is durable, after all have committed or
discarded it; from any thread."""


@frozen
class SnapshotReport:
    """The outcome of a snapshot.

    snapshot_id: number of the snapshot.
    is_terminal: whether the job ended with it.
    started: when it began, in monotonic ns.
    duration: nanoseconds until it was durable or discarded.
    size: its size; None: it was discarded.
    error: why it was discarded.
    """

    snapshot_id: int
    is_terminal: bool
    started: int
    duration: int
    size: SnapshotSize | None
    error: Exception | None = None

    @property
    def is_safe(self) -> bool:
        return self.size is not None


class _Asked:
    """A requested snapshot that has not begun."""

    __slots__ = ("barrier", "on_done", "started")

    def __init__(self, barrier: Barrier, on_done: OnDone | None, started: int) -> None:
        self.barrier = barrier
        self.on_done = on_done
        self.started = started


class SavedTasklet(Protocol):
    """A tasklet as the coordinator knows it; see `ProcessorTasklet`."""

    vertex: str
    index: int
    processor: Processor
    stateful: Stateful | None
    inputs: Inputs
    is_unwanted: bool
    state_rows: Iterator[pa.RecordBatch] | None


class SavedRun(Protocol):
    """The run of a DAG as the coordinator knows it; see `Execution`."""

    job: JobContext
    clock: Callable[[], int]
    template: Template
    is_cancelled: bool
    error: Error | None
    epochs: EpochTicker | None

    @property
    def tasklets(self) -> Sequence[SavedTasklet]: ...
    @property
    def left(self) -> Collection[object]: ...
    @property
    def is_over(self) -> bool: ...
    def wake_all(self) -> None: ...


class SnapshotCoordinator:
    """The snapshots of one execution, one at a time.

    store: receives the snapshots.
    is_aligned: barriers are aligned (exactly-once).
    restore_from: number of the snapshot to start from; None: the job starts without state.
    initial: reader of that snapshot, if not `store`.
    more: state that is added to each snapshot.

    Tasklets call it between calls of their processors; any thread may request a snapshot. `last` is
    the report of the last snapshot that was durable or discarded, and `on_report`, if set, is
    called with each report.
    """

    def __init__(
        self,
        store: SnapshotStore,
        *,
        is_aligned: bool = True,
        restore_from: int | None = None,
        initial: StateReader | None = None,
        more: Sequence[VertexState] = (),
    ) -> None:
        self._store = store
        self._initial = initial or store
        self._of_plan = more
        self._is_aligned = is_aligned
        self._restore_from = restore_from
        self._lock = Lock()
        self._execution: SavedRun | None = None
        self._ids = count(max(store.last_id, restore_from or 0) + 1)
        self._waiting: deque[_Asked] = deque()
        self._asked: _Asked | None = None
        self._active: Barrier | None = None
        self._to_save: set[SavedTasklet] = set()
        self._to_commit: set[SavedTasklet] = set()
        self._is_deciding = False
        self._is_decided = False
        self._is_safe = False
        self._is_ending = False
        self._last_states: list[VertexState] = []
        self._more: list[VertexState] = []
        self._savers: set[str] = set()
        self.last: SnapshotReport | None = None
        self.on_report: Callable[[SnapshotReport], None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether a snapshot is in progress or requested."""
        return self._active is not None or bool(self._waiting)

    @property
    def is_in_progress(self) -> bool:
        """Whether a snapshot is in progress, or about to begin."""
        return self._active is not None or (bool(self._waiting) and not self.is_blocked)

    @property
    def is_blocked(self) -> bool:
        """Whether no snapshot can begin now, because a vertex that cannot resume in the middle must
        end first."""
        execution = self._begun()
        left: set[object] = set(execution.left)
        return self._active is None and any(
            self._must_end_first(item) for item in execution.tasklets if item in left
        )

    def read_through(self, reader: StateReader) -> None:
        """Has the initial state read from `reader` instead of the store. To be called before it is
        read."""
        self._initial = reader

    def begin_with(self, execution: SavedRun) -> None:
        """Called by the execution before any tasklet is called."""
        self._execution = execution
        self._store.on_room = execution.wake_all
        parallelism: dict[str, int] = {}
        for tasklet in execution.tasklets:
            parallelism[tasklet.vertex] = parallelism.get(tasklet.vertex, 0) + 1
            tasklet.inputs.aligned = self._is_aligned
        if self._restore_from is None:
            return
        saved = {
            vertex: self._initial.read(self._restore_from, vertex)
            for vertex in (ENDED, *parallelism)
        }
        ended = {vertex for batch in saved[ENDED] for vertex in batch.column(0).to_pylist()}
        for tasklet in execution.tasklets:
            tasklet.is_unwanted = tasklet.vertex in ended
            if tasklet.stateful is not None:
                division = StateDivision(
                    tasklet.vertex,
                    execution.template.partitionings(tasklet.vertex),
                    tasklet.stateful.key_names,
                )
                processors = (tasklet.index, parallelism[tasklet.vertex])
                tasklet.state_rows = _shares(
                    saved[tasklet.vertex], tasklet.stateful, division, processors
                )

    def begin(self, *, is_terminal: bool = False, on_done: OnDone | None = None) -> int | None:
        """Requests a snapshot, which begins when the inputs that must be read first have ended.
        Returns its id, or None if one is in progress or requested already, or the job has
        ended."""
        return self._ask(is_terminal, on_done, only_first=True)

    def request(self, *, is_terminal: bool = False, on_done: OnDone | None = None) -> int | None:
        """Requests a snapshot, which begins when none is in progress. Returns its id, or None if
        the job has ended or is about to stop at a terminal one. `on_done` is called with False if
        the job ends before the snapshot begins. A request without `on_done` shares a snapshot that
        is already requested."""
        return self._ask(is_terminal, on_done, only_first=False)

    def _ask(self, is_terminal: bool, on_done: OnDone | None, only_first: bool) -> int | None:
        execution = self._begun()
        with self._lock:
            # At a terminal barrier all vertices end, so a later snapshot would not be of a
            # running job.
            if execution.is_over or self._is_ending or (only_first and self.is_active):
                return None
            if self._waiting and on_done is None and not is_terminal:
                return self._waiting[-1].barrier.snapshot_id
            self._is_ending = is_terminal
            barrier = Barrier(next(self._ids), is_terminal)
            self._waiting.append(_Asked(barrier, on_done, execution.clock()))
        self._start_if_possible()
        return barrier.snapshot_id

    def _begun(self) -> SavedRun:
        assert self._execution is not None
        return self._execution

    def _start_if_possible(self) -> None:
        execution = self._begun()
        left: set[object] = set(execution.left)
        unstarted: list[_Asked] = []
        with self._lock:
            if self._active is not None or not self._waiting:
                return
            if not left:
                unstarted = list(self._waiting)
                self._waiting.clear()
            elif any(self._must_end_first(item) for item in execution.tasklets if item in left):
                return
            elif execution.epochs is not None and not execution.epochs.hold(
                self._start_if_possible
            ):
                return  # barriers and ends of epochs would meet in another order at each source
            else:
                self._start(execution, left)
        for asked in unstarted:
            _notify(asked.on_done, False)
        execution.wake_all()
        self._decide_if_saved()

    def _must_end_first(self, tasklet: SavedTasklet) -> bool:
        return (
            tasklet.processor.holds_snapshots
            or tasklet.vertex in self._begun().template.before_snapshots
        )

    def _start(self, execution: SavedRun, left: Collection[object]) -> None:
        self._asked = self._waiting.popleft()
        self._active = self._asked.barrier
        self._to_save = {tasklet for tasklet in execution.tasklets if tasklet in left}
        self._to_commit = set()
        self._is_deciding = self._is_decided = self._is_safe = False
        self._more = list(self._last_states)
        self._savers = set()

    def barrier_due(self, tasklet: SavedTasklet) -> Barrier | None:
        """The barrier for a tasklet whose inputs bring none (a source, or all inputs ended), if one
        is due."""
        return self._active if tasklet in self._to_save else None

    def target(self, tasklet: SavedTasklet) -> Callable[[pa.RecordBatch], bool]:
        """The function that adds a tasklet's state to the current snapshot."""
        barrier = self._active
        assert barrier is not None
        return lambda batch: self._store.write(barrier.snapshot_id, tasklet.vertex, batch)

    def last_target(self, tasklet: SavedTasklet) -> Callable[[pa.RecordBatch], bool]:
        """The function that stores the state of a tasklet that is about to end."""

        def keep(batch: pa.RecordBatch) -> bool:
            with self._lock:
                self._last_states.append((tasklet.vertex, batch))
                if tasklet in self._to_save:
                    self._more.append((tasklet.vertex, batch))
            return True

        return keep

    def saved(self, tasklet: SavedTasklet) -> None:
        """The tasklet's state is in the snapshot and its commit is prepared."""
        with self._lock:
            self._to_save.discard(tasklet)
            self._to_commit.add(tasklet)
            self._savers.add(tasklet.vertex)
        self._decide_if_saved()

    def left(self, tasklet: SavedTasklet) -> None:
        """The tasklet has ended."""
        with self._lock:
            self._to_save.discard(tasklet)
            self._to_commit.discard(tasklet)
        self._decide_if_saved()
        self._end_if_committed()
        if self._waiting:
            self._start_if_possible()

    def awaits_commit(self, tasklet: SavedTasklet) -> bool:
        """Whether the tasklet has prepared a commit that is not done."""
        return tasklet in self._to_commit

    def commit_due(self, tasklet: SavedTasklet) -> bool:
        """Whether the outcome of the snapshot is known, and the tasklet has not handled it."""
        return self._is_decided and tasklet in self._to_commit

    @property
    def outcome(self) -> tuple[int, bool]:
        """The id of the snapshot and whether it is durable: the arguments of `commit`."""
        assert self._active is not None
        return self._active.snapshot_id, self._is_safe

    def committed(self, tasklet: SavedTasklet) -> None:
        with self._lock:
            self._to_commit.discard(tasklet)
        self._end_if_committed()

    def _decide_if_saved(self) -> None:
        """When all have saved: has the store make the snapshot durable, then commits it."""
        execution = self._begun()
        with self._lock:
            if self._active is None or self._to_save or self._is_deciding:
                return
            self._is_deciding = True
            ended = {tasklet.vertex for tasklet in execution.tasklets} - self._savers
            snapshot_id, more = (
                self._active.snapshot_id,
                [*self._more, *self._of_plan, *_ended_state(ended)],
            )
            self._more = []
            is_terminal = self._active.is_terminal
        if execution.epochs is not None and not is_terminal:
            execution.epochs.release()
        if execution.is_cancelled:
            self._store.give_up(snapshot_id)
            self._decided(execution.error or RuntimeError("the job was cancelled"))
        else:
            self._store.complete(snapshot_id, more, self._decided)

    def _decided(self, outcome: Outcome) -> None:
        """The outcome of the snapshot is known. Called by the store's thread."""
        execution = self._begun()
        asked = self._asked
        assert asked is not None
        barrier, duration = asked.barrier, execution.clock() - asked.started
        self._is_safe = isinstance(outcome, SnapshotSize)
        size, error = (outcome, None) if isinstance(outcome, SnapshotSize) else (None, outcome)
        report = SnapshotReport(
            barrier.snapshot_id, barrier.is_terminal, asked.started, duration, size, error
        )
        if error is not None and not execution.is_cancelled:
            logger.warning(
                "snapshot %d of job %s failed; the job continues, and the next snapshot is taken "
                "as planned: %s",
                barrier.snapshot_id,
                f'"{execution.job.owner}"' if execution.job.owner else execution.job.job_id,
                error,
            )
        self.last = report
        if self.on_report is not None:
            self.on_report(report)
        self._is_decided = True  # set last: a thread that reads it must read the outcome too
        execution.wake_all()
        self._end_if_committed()

    def _end_if_committed(self) -> None:
        with self._lock:
            if self._active is None or not self._is_decided or self._to_commit:
                return
            asked, self._active, self._asked = self._asked, None, None
        assert asked is not None
        _notify(asked.on_done, self._is_safe)
        if self._waiting:
            self._start_if_possible()


def _shares(
    rows: Sequence[pa.RecordBatch],
    stateful: Stateful,
    division: StateDivision,
    processors: tuple[int, int],
) -> Iterator[pa.RecordBatch]:
    """The rows of state that belong to a processor.

    division: how the state of the vertex is divided.
    processors: the index of the processor, and the number of processors of the vertex.
    """
    for batch in rows:
        share = division.share_of(stateful.divided_as_now(batch), *processors)
        if share.num_rows:
            yield share


def _ended_state(vertices: Collection[str]) -> list[VertexState]:
    return (
        [(ENDED, pa.record_batch([pack(sorted(vertices), VARCHAR)], names=["vertex"]))]
        if vertices
        else []
    )


def _notify(on_done: OnDone | None, is_safe: bool) -> None:
    if on_done is not None:
        on_done(is_safe)
