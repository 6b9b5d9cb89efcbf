"""The operator contract: what a processor receives, and when each of its methods is called.

A processor is the code of one vertex; `parallelism` instances of it run in each job. One thread
at a time calls it, but not always the same one. It takes items from an inbox and offers items to
an outbox, and it never waits: a full outbox answers False, and the processor returns; the runtime
calls it again when there is room. The model is Hazelcast Jet's Core API.

A cooperative processor shares a worker thread with many others: a call should end within about a
millisecond (a call over 100 ms is logged with the vertex and the duration). A processor that must
block (files, other engines) sets `cooperative` to False and runs on a thread of its own; even there
a call should end within about a second, because no snapshot can start during a call.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.expressions.context import EvaluationContext

if TYPE_CHECKING:
    from runnel.duckdb.kernel import DuckDBKernel
    from runnel.storage.memory_budget import Memory


@frozen
class Watermark:
    """An assertion that no later item has an event time before `time`.

    time: event time, in the unit of the time column.
    column: number of the time column, for a stream with several of them (a join of streams).
    """

    time: int
    column: int = 0


@frozen
class Barrier:
    """Separates the items before a snapshot from the items after it (Chandy and Lamport).

    snapshot_id: number of the snapshot.
    is_terminal: no item follows this barrier.
    """

    snapshot_id: int
    is_terminal: bool = False


@frozen
class Epoch:
    """Ends an epoch of a query whose results change: the items before it and after it belong to
    different epochs. It is aligned like a barrier.

    number: number of the epoch that ends here, from 1.
    rows: number of rows of the epoch that follow this item, on the last edge of a query: the reader
        of its rows is to know which is the last one when it receives it.
    """

    number: int
    rows: int = 0


@frozen
class LatencyMarker:
    """Travels among the rows to measure their latency. Processors never see one.

    created: when a source sent it, in monotonic nanoseconds.
    """

    created: int


class IdleOrigin:
    """A source that may be idle. All processors of the job refer to the same object.

    resumptions: the number of times that the source has become active again. It is set before the
        source emits anything, and any thread may read it: a watermark that another source emits
        later doesn't overtake the rows of this one, on whichever path they travel.
    """

    __slots__ = ("resumptions",)

    def __init__(self) -> None:
        self.resumptions = 0


class Idle:
    """States that an input expects no items for now, so that it does not hold back the watermark.

    origins: the idle sources, each with the number of times it had become active again by then.

    All instances are equal. IDLE has no origins.
    """

    __slots__ = ("origins",)

    def __init__(self, origins: Mapping[IdleOrigin, int] | None = None) -> None:
        self.origins = origins or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Idle)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "IDLE"


class Done:
    """The end of a queue. One instance: DONE."""

    def __repr__(self) -> str:
        return "DONE"


class Active:
    """Cancels an Idle: items are coming again, although they may be buffered on the way for long.

    origin: the source that became active; an Idle of that source with a smaller count is void,
        on whichever path it arrives. None in ACTIVE, which concerns only the path it travels on.
    count: the number of times that the source has become active.

    All instances are equal. Processors never see one.
    """

    __slots__ = ("count", "origin")

    def __init__(self, origin: IdleOrigin | None = None, count: int = 0) -> None:
        self.origin = origin
        self.count = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Active)

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "ACTIVE"


IDLE = Idle()
DONE = Done()
ACTIVE = Active()

Item: TypeAlias = (
    "pa.RecordBatch | Watermark | Barrier | Epoch | LatencyMarker | Idle | Active | Done"
)
"""An item that travels on an edge."""


class Inbox(Protocol):
    """Batches of one input, queued for the processor. Batches that a call leaves are offered again
    in the next call."""

    def peek(self) -> pa.RecordBatch | None:
        """The next batch, which stays in the inbox; None if there is none."""

    def poll(self) -> pa.RecordBatch | None:
        """Removes and returns the next batch; None if there is none."""

    def __len__(self) -> int:
        """Number of batches in the inbox."""


class Outbox(Protocol):
    """The outputs of a processor. After a refused `offer`, the same item must be offered again
    before any other."""

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        """Sends an item to output `ordinal`, or to all outputs (-1). False: there was no room, and
        (for -1) perhaps only some outputs received it; offer the *same* item again in a later
        call. An empty batch is accepted and discarded."""

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        """Adds rows of state to the snapshot; only in `save_snapshot`. False as with `offer`."""


class ResultTarget(Protocol):
    """The writing end of a job's result queue, to which the root of a query offers its rows."""

    def offer(self, batch: pa.RecordBatch) -> bool:
        """Adds rows. False: the queue is full; the processor is woken when there is room."""

    def end_epoch(self, epoch: Epoch) -> None:
        """States that all rows of an epoch, and of all epochs before it, were added, apart from the
        next `epoch.rows` rows."""


class Guarantee(Enum):
    """How often each row of a job's input takes effect after a failure: exactly once, or at least
    once; NONE makes no guarantee, as no snapshots are taken. The values are spelled as in the
    option 'processingGuarantee'."""

    NONE = "none"
    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"

    def __str__(self) -> str:
        return self.value


class ExpiredPosition(Enum):
    """The reaction of a job when a source no longer has the rows after the position in a snapshot.

    FAIL: the job stops with an error. EARLIEST: it continues with the first row that the source
    still has. LATEST: it continues with rows that arrive from now on. The values are spelled as in
    the option 'expiredPosition'.
    """

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"

    def __str__(self) -> str:
        return self.value


@frozen
class JobContext:
    """Values and services that all processors of one execution share.

    job_id: number of the job.
    evaluation: context in which expressions are evaluated.
    clock: returns the monotonic time in nanoseconds.
    results: receives the rows of a query; None: the job returns no rows.
    accumulation_limit: maximum number of rows that one processor may accumulate; 0: no limit.
    state_limit: maximum number of bytes of the state of all processors; 0: no limit.
    state_bytes: the bytes that each processor reports, by vertex and index, if there is a limit.
    name: name of a named job, for messages; "" for a light job.
    is_unbounded: the job reads a source without an end.
    kernel: returns the connection's DuckDB, for work that does not fit in memory.
    memory: memory budget of the connection; None: no limit, and nothing is spilled.
    linger: maximum time, in ns, that rows of a stream may wait in a source to form larger batches.
    owner: name of a named job, the same in all its executions; its sinks store staged rows under
        it. "" for a light job.
    guarantee: with AT_LEAST_ONCE or EXACTLY_ONCE snapshots are taken.
    request_snapshot: requests a snapshot soon, or, during a snapshot, another one after it; may be
        called from any thread.
    expired_position: what a source does when its position has expired.
    tell: reports a message to the job's owner, such as the rows that were skipped for an expired
        position; may be called from any thread.
    session_rows: returns the rows that the caller of the statement may see of a table of
        information_schema, by its name: jobs, job_metrics, plans, settings; None: this is no
        statement of a caller.
    logged_at: the time from which the next message about late rows may be logged, by vertex.
    cuts: the rows of tables that change while they are read, as the execution reads them, by table.
    late_candidates: rows that the first of two stages accumulated after their window, for the log
        of the second stage; see `processors.stateful.late_candidates`.
    """

    job_id: int
    evaluation: EvaluationContext
    clock: Callable[[], int]
    results: ResultTarget | None = None
    accumulation_limit: int = 0
    state_limit: int = 0
    state_bytes: dict[tuple[str, int], int] = field(default_factory=dict, compare=False, repr=False)
    name: str = ""
    is_unbounded: bool = False
    kernel: Callable[[], DuckDBKernel] | None = None
    memory: Memory | None = None
    linger: int = 0
    owner: str = ""
    guarantee: Guarantee = Guarantee.NONE
    request_snapshot: Callable[[], object] | None = None
    expired_position: ExpiredPosition = ExpiredPosition.FAIL
    tell: Callable[[str], object] | None = None
    session_rows: Callable[[str], Sequence[tuple[Any, ...]]] | None = None
    logged_at: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    cuts: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    late_candidates: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)


@frozen
class ProcessorContext:
    """The identity of one processor in its job, and how it is woken.

    job: what all processors of the execution share.
    vertex: name of the vertex.
    index: number of the processor among the processors of its vertex, from 0.
    parallelism: number of processors of the vertex in this job.
    wake: has the processor called soon; may be called from any thread.
    wake_at: has the processor called at a time (monotonic ns); may be called from any thread.
    logger: logger whose messages name the vertex and the index.

    A processor with nothing to do is not called until an input, its outbox, `wake` or `wake_at`
    wakes it.
    """

    job: JobContext
    vertex: str
    index: int
    parallelism: int
    wake: Callable[[], None]
    wake_at: Callable[[int], None]
    logger: logging.Logger


class Processor:
    """Base class of all processors. The order of calls:

    1. `init`, once, before anything else.
    2. The methods of `Stateful` that restore state; only when the job starts from a snapshot.
    3. While there are inputs: `process` with a non-empty inbox; `process_watermark` with each
       coalesced watermark until it returns True; `process_epoch` with each epoch that has ended in
       all inputs until True; `flush` when the inputs have nothing for now; `complete_edge` for each
       input that ended, until True; `on_alarm` when the time in `alarm` has come, until True.
    4. `complete` until it returns True, when all inputs ended (at once in a source).
    5. At a barrier, between any of the calls of 3 and 4: `Stateful.save_snapshot` until True, or
       `flush` if the processor has no state; then the methods of `Transactional`.
    6. `close`, once, in any case, also after a failure or a cancellation, and not while another
       call runs.

    An exception from any of them ends the job, naming the vertex.

    The other classes that a processor may have as bases are its roles: `Stateful` (it has state),
    `Transactional` (it commits with snapshots), `SourceCounters` (it counts what it reads) and
    `WatermarkSource` (it generates watermarks). The runtime looks for them once, when it receives
    the processor. A class that defines or inherits a method of a role has the role, also if it does
    not name it as a base.
    """

    cooperative = True

    is_satisfied = False
    """Set to True by a processor, in `init` or later, that needs no more input (a LIMIT that was
    reached). The tasklet then ends its inputs as if they were done: queued items are dropped, the
    queues accept and discard whatever producers offer, and `complete` is called next. A producer
    all of whose consumers ended their inputs this way ends early too: it is closed without
    `complete`. A producer with another consumer that is not satisfied continues."""

    alarm = 0
    """Set by a processor with inputs: the time (monotonic ns) at which `on_alarm` is to be called;
    0 for never."""

    idle_inputs: Collection[int] = frozenset()
    """Set by the runtime for a processor of several inputs: the ordinals of the inputs that are
    idle. The set changes only between two calls."""

    holds_snapshots = False
    """Whether no snapshot may begin before this processor has ended, because it cannot resume in
    the middle. A vertex that had ended at a snapshot ends at once when the job is restored."""

    is_between_epochs = True
    """Of a source: whether an epoch may end after the rows that it has emitted."""

    outbox: Outbox
    context: ProcessorContext

    def __init_subclass__(cls) -> None:
        """Adds the roles of which a class or one of its bases defines methods, but which none of
        them names as a base. Methods added to a class later do not count."""
        super().__init_subclass__()
        contracts = (Processor, *ROLES)
        own = {name for base in cls.__mro__ if base not in contracts for name in vars(base)}
        missing = [
            role
            for role in ROLES
            if not issubclass(cls, role) and not own.isdisjoint(_MEMBERS[role])
        ]
        if missing:
            cls.__bases__ = (*cls.__bases__, *missing)

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        """Stores the outbox and the context. May not offer anything yet. An override calls this
        implementation first."""
        self.outbox = outbox
        self.context = context

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Takes batches of input `ordinal` and offers results. It may leave batches in the inbox
        (the outbox is full, or one batch was enough for a short call); then it is called with them
        again before any other method is."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def process_watermark(self, watermark: Watermark) -> bool:
        """Handles a watermark and passes it on. False: not done yet, call again."""
        return self.outbox.offer(watermark)

    def process_epoch(self, epoch: Epoch) -> bool:
        """Emits the results of the epoch that ends, then passes its end on; in a source between two
        calls of `complete`. Called only in queries whose results change. False: not done yet, call
        again."""
        return self.flush() and self.outbox.offer(epoch)

    def flush(self) -> bool:
        """The inputs have nothing for now: emits rows that were retained to fill a batch. Also
        called when one of several inputs becomes idle, and at a barrier if the processor has no
        state. False: not all emitted, call again."""
        return True

    def on_idle(self) -> bool:
        """All inputs are idle, and the consumers are about to be informed. They then stop waiting
        for this processor, so it now emits the buffered rows that their results need. False: not
        all emitted, call again. May be called again after it returned True."""
        return True

    def on_alarm(self) -> bool:
        """The time in `alarm` has come, between two calls for the inputs. Sets a new `alarm`.
        False: not done yet, call again. The inputs are polled before the next alarm, however early
        it is due."""
        return True

    def complete_edge(self, ordinal: int) -> bool:
        """Input `ordinal` ended. False: not done yet, call again before any other method."""
        return True

    def complete(self) -> bool:
        """All inputs ended; a source produces its data here. False: call again (after a full
        outbox, when there is room; otherwise at once if something was offered, else when woken)."""
        return True

    def close(self) -> None:
        """Releases all resources. Must not fail if `init` was never called."""


class Stateful:
    """The role of a processor with state: the state is a part of snapshots, and is measured.

    When the job starts from a snapshot, after `init`: `restore_snapshot` with state, any number of
    times, then `finish_restore` until it returns True.
    """

    key_names: tuple[str, ...] = ()
    """The columns of the input by which the state is keyed, in the order of the key columns of the
    state; set by processors of hand-built DAGs, whose edges may divide the rows by some of them."""

    def save_snapshot(self) -> bool:
        """Offers the state to the snapshot. False: not all offered, call again. By default there is
        no state, and `flush` is called, so that each row is emitted before the barrier."""
        return cast("Processor", self).flush()

    def divided_as_now(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of state with the keys by which the plan now partitions them over processors,
        whatever keys they were saved with."""
        return batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        """Adds rows of state: if the state is keyed, only rows of this processor's keys."""

    def finish_restore(self) -> bool:
        """All state was passed to `restore_snapshot`. False: call again."""
        return True

    def state_size(self) -> tuple[int, int]:
        """Approximate rows and bytes of its state. Called by other threads at any time, so it must
        only read."""
        return 0, 0

    def spilled_size(self) -> tuple[int, int]:
        """How many of those rows and bytes were spilled to files. Called like `state_size`."""
        return 0, 0

    @property
    def late_rows(self) -> int:
        """Number of rows that arrived after their result had been emitted. Read by other
        threads."""
        return 0


class Transactional:
    """The role of a processor that commits in two phases, such as a sink.

    At a barrier, after its state was saved: `prepare_commit` until it returns True; then, when the
    whole snapshot is durable or was discarded, `commit` until True.
    """

    def prepare_commit(self, snapshot_id: int) -> bool:
        """First phase: after it returns True, the rows before the barrier can be committed even
        after a failure."""
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        """Second phase: commits what `prepare_commit` prepared, or discards it if `success` is
        False."""
        return True


class SourceCounters:
    """The role of a processor that reads external data. Other threads read the counters."""

    reads = 0
    """Number of reads that returned an item, even if no row of it is emitted."""

    @property
    def malformed_records(self) -> int:
        """Number of records that were skipped because they could not be read."""
        return 0

    @property
    def skipped_rows(self) -> int:
        """Number of rows that were skipped because the position had expired, as far as the number
        is known."""
        return 0

    def tasks(self) -> tuple[int, int]:
        """Completed and total number of the tasks of the engine that is read. May take
        milliseconds."""
        return 0, 0

    def progress(self) -> dict[int, tuple[int, int]]:
        """`SourcePartition.progress` of the partitions that have one, by number."""
        return {}


@frozen
class SourceWatermark:
    """The watermark of a processor that generates watermarks, and what holds it back.

    time: the last watermark that it emitted; None: none yet.
    is_waiting: whether a partition holds it back: not if all partitions are idle or have ended.
    partition: the name of the partition that holds it back; "" if there is only one partition.
    note: why the partition has no watermark yet, such as "no rows yet"; "" if it has one.
    """

    time: int | None
    is_waiting: bool
    partition: str = ""
    note: str = ""

    def holder(self, vertex: str) -> str | None:
        """The partition in words, such as `scan orders, partition 3 (no rows yet)`; None if nothing
        holds the watermark back."""
        if not self.is_waiting:
            return None
        name = f"{vertex}, partition {self.partition}" if self.partition else vertex
        return f"{name} ({self.note})" if self.note else name


class WatermarkSource:
    """The role of a processor that generates watermarks, besides or instead of the watermarks
    of its inputs."""

    def source_watermark(self) -> SourceWatermark | None:
        """Its watermark and the partition that holds it back; None if this processor generates no
        watermarks after all. Called by other threads at any time, so it must only read."""
        return None


ROLES: tuple[type, ...] = (Stateful, Transactional, SourceCounters, WatermarkSource)
_MEMBERS = {role: {name for name in vars(role) if not name.startswith("_")} for role in ROLES}


class StatelessProcessor(Processor, ABC):
    """A processor that turns each batch into at most one batch, and retains no rows."""

    _pending: pa.RecordBatch | None = None

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The result for one batch; None or an empty batch for nothing."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Processes one batch: the caller measures the time, and calls again if there is some
        left."""
        if not self._drain():
            return
        batch = inbox.poll()
        if batch is not None:
            result = self.apply(batch)
            if result is not None and result.num_rows:
                self._pending = result
                self._drain()

    def complete_edge(self, ordinal: int) -> bool:
        return self._drain()

    def flush(self) -> bool:
        return self._drain()

    def process_watermark(self, watermark: Watermark) -> bool:
        return self._drain() and self.outbox.offer(watermark)

    def _drain(self) -> bool:
        if self._pending is not None and self.outbox.offer(self._pending):
            self._pending = None
        return self._pending is None
