"""The operator contract: what a processor is given, when each of its methods is called, and what it
may do there.

A processor is the code of one vertex; `parallelism` instances of it run on each member. It is
called by one thread at a time, but not always by the same one. It takes items from an inbox and
offers items to an outbox, and it never waits: an outbox that is full answers False, and the
processor returns, to be called again when there is room. The model is Hazelcast Jet's Core API.

A cooperative processor shares a worker thread with many others: a call should end within about a
millisecond (a call over 100 ms is logged with the vertex and the duration). A processor that must
block (files, foreign engines) sets `cooperative` to False and gets a thread of its own; even there
a call should end within about a second, or no snapshot could start.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.expressions.context import EvaluationContext

if TYPE_CHECKING:
    from runnel.duckdb.kernel import DuckDBKernel
    from runnel.storage.memory_budget import Memory


@frozen
class Watermark:
    """A promise: no later item has an event time before `time` (in the time column's own unit).
    `column` tells apart the time columns of a stream that has several (a join of streams)."""

    time: int
    column: int = 0


@frozen
class Barrier:
    """Divides the items before a snapshot from those after it (Chandy and Lamport). After a
    terminal one comes nothing."""

    snapshot_id: int
    is_terminal: bool = False


@frozen
class LatencyMarker:
    """Travels among the rows to tell how long they take: `created` is the monotonic time in ns at
    which a source sent it. Processors never see one."""

    created: int


class Idle:
    """Says that an input expects no items for now, so that it doesn't hold back the watermark.
    `origins`: the sources whose idleness it is, each with how often it had become active again by
    then. One equals another; IDLE has no origins."""

    __slots__ = ("origins",)

    def __init__(self, origins: Mapping[str, int] | None = None) -> None:
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
    """Takes an Idle back: there are items again, though they may be held on the way and nothing of
    them come for long. `origin` has become active for the `count`-th time: what it said of its
    idleness before is void, on whichever way that comes. ACTIVE has no origin and speaks of its way
    alone. Processors never see one."""

    __slots__ = ("count", "origin")

    def __init__(self, origin: str = "", count: int = 0) -> None:
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

Item: TypeAlias = "pa.RecordBatch | Watermark | Barrier | LatencyMarker | Idle | Active | Done"
"""What travels on an edge."""


class Inbox(Protocol):
    """Batches of one input, waiting for the processor; those it leaves it is given again."""

    def peek(self) -> pa.RecordBatch | None:
        """The next batch, which stays; None if there is none."""

    def poll(self) -> pa.RecordBatch | None:
        """Takes the next batch; None if there is none."""

    def __len__(self) -> int:
        """How many batches are there."""


class Outbox(Protocol):
    """The outputs of a processor. After an `offer` that was refused, the same item must be offered
    again first."""

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        """Hands on an item to output `ordinal`, or to all (-1). False: there was no room, and (for
        -1) perhaps only some outputs have it; offer the *same* item again in a later call. An empty
        batch is accepted and goes nowhere."""

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        """Hands rows of state to the snapshot; only in `save_snapshot`. False as with `offer`."""


class ResultTarget(Protocol):
    """Where the root of a query puts its rows: the writing end of the job's result queue."""

    def offer(self, batch: pa.RecordBatch) -> bool:
        """Hands on rows. False: the reader is behind; the processor is woken when there is room."""


class Guarantee(Enum):
    """What is promised of each row of a job's input after a failure: its effect is there exactly
    once, or once or more; or nothing, as no snapshots are taken. The values are those of the option
    'processingGuarantee'."""

    NONE = "none"
    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"

    def __str__(self) -> str:
        return self.value


class ExpiredPosition(Enum):
    """What a job does where a source no longer has what comes after the position that a snapshot
    kept: it stops with an error, or goes on with the earliest or the latest that there is. The
    values are those of the option 'expiredPosition'."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"

    def __str__(self) -> str:
        return self.value


@frozen
class JobContext:
    """What all processors of one execution share.

    `clock` gives monotonic nanoseconds; `results` takes the rows of a query; `accumulation_limit`
    is the most rows that one processor may hold (0: no limit); `kernel` gives the connection's
    DuckDB, which works where memory may not do; `memory` is the connection's budget (None: no
    limit, and nothing is spilled). `linger`: how long, in ns, rows of a stream may wait in a source
    so that more of them go together.

    A named job has an `owner`, which is the same in all its executions: what its sinks stage is
    kept under that name. With a `guarantee` snapshots are taken; `request_snapshot` asks for one
    soon, or, if one is under way, for another after it (from any thread). `expired_position` says
    what a source does whose position is gone, and `tell` is given what the job's owner should know,
    such as what was left out so (from any thread).
    """

    job_id: int
    evaluation: EvaluationContext
    clock: Callable[[], int]
    results: ResultTarget | None = None
    accumulation_limit: int = 0
    is_unbounded: bool = False
    kernel: Callable[[], DuckDBKernel] | None = None
    memory: Memory | None = None
    linger: int = 0
    owner: str = ""
    guarantee: Guarantee = Guarantee.NONE
    request_snapshot: Callable[[], object] | None = None
    expired_position: ExpiredPosition = ExpiredPosition.FAIL
    tell: Callable[[str], object] | None = None


@frozen
class ProcessorContext:
    """What one processor is told about its place.

    `index` is its number among the `parallelism` processors of its vertex. `wake()` may be called
    from any thread to have the processor called soon; `wake_at(time)` (monotonic ns) does so at a
    time. A processor with nothing to do is not called until an input, its outbox or one of these
    two wakes it.
    """

    job: JobContext
    vertex: str
    index: int
    parallelism: int
    wake: Callable[[], None]
    wake_at: Callable[[int], None]
    logger: logging.Logger


class Processor:
    """The base of all processors. The order of calls:

    1. `init`, once, before anything else.
    2. `restore_snapshot` with state, any number of times, then `finish_restore` until it returns
       True; only when the job starts from a snapshot.
    3. While there are inputs: `process` with a non-empty inbox; `process_watermark` with each
       coalesced watermark until it returns True; `flush` when the inputs have nothing for now;
       `complete_edge` for each input that ended, until True; `on_alarm` when the time in `alarm`
       has come, until True.
    4. `complete` until it returns True, when all inputs ended (at once in a source).
    5. At a barrier, between any of the calls of 3 and 4: `save_snapshot` until True,
       `prepare_commit` until True; then, when the whole snapshot is safe, `commit` until True.
    6. `close`, once, in any case, also after a failure or a cancellation, and not while another
       call runs.

    An exception from any of them ends the job, naming the vertex.
    """

    cooperative = True

    is_satisfied = False
    """Set by a processor, in `init` or later, that needs no more input (a LIMIT that was reached).
    The tasklet then ends its inputs as if they were done: queued items are dropped, producers see
    queues that take everything and keep nothing, and go on with `complete`. A producer all of whose
    consumers ended their inputs this way ends early in turn: it is closed without `complete`. Where
    it still has a consumer that is not satisfied, it goes on."""

    alarm = 0
    """Set by a processor with inputs: the time (monotonic ns) at which `on_alarm` is to be called;
    0 for never."""

    idle_inputs: Collection[int] = frozenset()
    """Set by the runtime for a processor of several inputs: those that expect nothing for now. It
    changes between two calls."""

    holds_snapshots = False
    """Whether no snapshot may begin before it has ended, since it couldn't go on from the middle. A
    vertex that has ended at a snapshot ends at once when the job is restored."""

    outbox: Outbox
    context: ProcessorContext

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        """Gets to know its place. May not offer anything yet. An override calls this first."""
        self.outbox = outbox
        self.context = context

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Takes batches of input `ordinal` and offers results. It may leave batches in the inbox
        (the outbox is full, or one was enough for a short call); then it is called again with them
        before anything else."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def process_watermark(self, watermark: Watermark) -> bool:
        """Deals with a watermark and passes it on. False: not yet, call again."""
        return self.outbox.offer(watermark)

    def flush(self) -> bool:
        """The inputs have nothing for now: emits what was held back to fill a batch. Also called
        when one of several inputs falls idle. False: not all yet, call again."""
        return True

    def on_idle(self) -> bool:
        """All inputs are idle, and those behind are told so next: they then don't wait for this
        processor, so it gives now what their results need of what it holds. False: not all yet,
        call again. May be called once more when all is given."""
        return True

    def on_alarm(self) -> bool:
        """The time in `alarm` has come, between two calls for the inputs. Sets `alarm` anew. False:
        not done yet, call again. The inputs are looked at before the next alarm, however early that
        is due."""
        return True

    def complete_edge(self, ordinal: int) -> bool:
        """Input `ordinal` ended. False: there is more to do for it, call again before anything
        else."""
        return True

    def complete(self) -> bool:
        """All inputs ended; a source produces its data here. False: call again (after a full
        outbox, when there is room; else at once if something was offered; else when woken)."""
        return True

    @property
    def late_rows(self) -> int:
        """How many rows came too late for what was given away already. Read by other threads."""
        return 0

    @property
    def malformed_records(self) -> int:
        """How many records a source left out as they couldn't be read. Read by other threads."""
        return 0

    @property
    def skipped_rows(self) -> int:
        """How many rows a source has left out since its position had expired, as far as that is
        known. Read by other threads."""
        return 0

    def state_size(self) -> tuple[int, int]:
        """The rows and bytes that it keeps, about. Called by other threads at any time, so it only
        reads."""
        return 0, 0

    def spilled_size(self) -> tuple[int, int]:
        """How much of that is in files, for want of memory. As `state_size`."""
        return 0, 0

    def save_snapshot(self) -> bool:
        """Offers the state to the snapshot. False: not all yet, call again."""
        return True

    def divided_as_now(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of state, marked with the keys that divide them over processors today, whatever did
        when they were saved."""
        return batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        """Takes in rows of state, of this processor's keys only where the state is keyed."""

    def finish_restore(self) -> bool:
        """All state was given. False: call again."""
        return True

    def prepare_commit(self, snapshot_id: int) -> bool:
        """First phase for sinks: from here on the rows before the barrier can be committed whatever
        happens."""
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        """Second phase: commits what `prepare_commit` prepared, or gives it up."""
        return True

    def close(self) -> None:
        """Gives back what the processor holds. May not fail for want of an `init`."""


class StatelessProcessor(Processor, ABC):
    """A processor that turns each batch into at most one batch, and keeps nothing."""

    _pending: pa.RecordBatch | None = None

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The result for one batch; None or an empty batch for nothing."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Takes one batch: whoever calls sees how long that took, and goes on if there is time."""
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

    def save_snapshot(self) -> bool:
        return self._drain()

    def _drain(self) -> bool:
        if self._pending is not None and self.outbox.offer(self._pending):
            self._pending = None
        return self._pending is None
