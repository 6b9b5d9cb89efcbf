"""The tasklet that calls one processor: a state machine over the contract of `runnel.processor`.

A call makes steps until one cannot proceed, or the time slice ends. A step calls one method of the
processor, or polls the inputs. It returns True if the next step may follow at once, False if the
tasklet has to wait; then it is parked, and woken by

- a full queue that has room again, if an item was refused;
- new items, if the inputs were empty;
- the processor itself (`context.wake`, `wake_at`), if it returned False for a reason unknown to
  the runtime. A processor that never used these functions is polled, at intervals that grow to a
  millisecond.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from runnel.processor import (
    ACTIVE,
    IDLE,
    Active,
    Barrier,
    Epoch,
    Idle,
    Item,
    JobContext,
    LatencyMarker,
    Processor,
    SourceCounters,
    SourceWatermark,
    Stateful,
    Transactional,
    Watermark,
    WatermarkSource,
)
from runnel.runtime.edges.inputs import InputEdge, Inputs
from runnel.runtime.edges.outbox import BaseOutbox
from runnel.runtime.latency import MARK_INTERVAL, LatencyHistogram
from runnel.runtime.tasklets import snapshot_steps
from runnel.runtime.tasklets.failures import is_interrupt
from runnel.runtime.tasklets.state import (
    ALARM,
    COMPLETE,
    COMPLETE_EDGE,
    END,
    EPOCH,
    FLUSH,
    FORWARD,
    INIT,
    NEXT,
    PROCESS,
    RESTORE,
    SAVE,
    SAVE_LAST,
    WATERMARK,
    TaskletState,
)
from runnel.runtime.tasklets.tasklet import (
    DONE,
    MADE_PROGRESS,
    NO_PROGRESS,
    Progress,
    Tasklet,
    TaskletContext,
)
from runnel.runtime.threads.idle import Backoff

if TYPE_CHECKING:
    from runnel.processors.sinks.result_queue import ResultQueue
    from runnel.runtime.epochs import EpochTicker
    from runnel.runtime.snapshots import SnapshotCoordinator

logger = logging.getLogger("runnel.runtime")

TIME_SLICE = 500_000
"""Nanoseconds after which a call ends, at the next step."""
LONG_CALL = 100_000_000
"""Nanoseconds beyond which a call of a cooperative processor is logged."""


class Counts(NamedTuple):
    """The counters of a processor since its start.

    late_rows: as `Stateful.late_rows`.
    malformed_records: as `SourceCounters.malformed_records`.
    skipped_rows: as `SourceCounters.skipped_rows`.
    reads: as `SourceCounters.reads`.
    """

    late_rows: int = 0
    malformed_records: int = 0
    skipped_rows: int = 0
    reads: int = 0


NO_COUNTS = Counts()


class TaskletRun(Protocol):
    """The run of a DAG as its tasklets know it; see `Execution`."""

    job: JobContext
    clock: Callable[[], int]
    results: ResultQueue | None
    snapshots: SnapshotCoordinator | None
    has_marks: bool
    is_cancelled: bool
    is_hand_built: bool

    def fail(self, error: BaseException, vertex: str) -> None: ...
    def tasklet_ended(self, tasklet: ProcessorTasklet) -> None: ...


class ProcessorTasklet(Tasklet):
    """Calls processor `index` of a vertex. Created by the execution, which also connects the
    queues."""

    __slots__ = (
        "barrier",
        "busy",
        "calls",
        "context",
        "control",
        "counters",
        "ended_edge",
        "epoch",
        "epochs",
        "execution",
        "following",
        "index",
        "inputs",
        "is_alarmed",
        "is_closed",
        "is_unwanted",
        "last_counts",
        "last_state",
        "latency",
        "mark",
        "name",
        "next_mark",
        "outbox",
        "poll",
        "processor",
        "reported_idle",
        "resume",
        "snapshots",
        "state",
        "state_rows",
        "stateful",
        "transactional",
        "unflushed",
        "vertex",
        "watermark",
        "watermarks",
        "woken_at",
    )

    def __init__(
        self,
        execution: TaskletRun,
        processor: Processor,
        identity: tuple[str, int, int],
        inputs: Inputs,
        outbox: BaseOutbox,
    ) -> None:
        super().__init__(processor.cooperative)
        self.vertex, self.index, parallelism = identity
        self.name = f"{self.vertex}#{self.index}" if parallelism > 1 else self.vertex
        self.execution = execution
        self.processor = processor
        self.stateful: Stateful | None = processor if isinstance(processor, Stateful) else None
        self.transactional: Transactional | None = (
            processor if isinstance(processor, Transactional) else None
        )
        self.counters: SourceCounters | None = (
            processor if isinstance(processor, SourceCounters) else None
        )
        self.watermarks: WatermarkSource | None = (
            processor if isinstance(processor, WatermarkSource) else None
        )
        self.inputs = inputs
        processor.idle_inputs = inputs.idle
        self.outbox = outbox
        self.context = TaskletContext(self, identity, execution.job)
        self.snapshots = execution.snapshots
        self.state_rows: Iterator[pa.RecordBatch] | None = None
        self.state = INIT
        self.resume = NEXT
        self.barrier: Barrier | None = None
        self.epochs: EpochTicker | None = None
        """Set in a tasklet that cuts epochs, and in one that epochs are complete at."""
        self.epoch: Epoch | None = None
        self.watermark: Watermark | None = None
        self.control: Item = IDLE
        self.following = NEXT
        self.reported_idle = False
        self.latency: LatencyHistogram | None = None
        self.last_counts: Counts | None = None
        self.last_state = (0, 0, 0)
        self.mark: LatencyMarker | None = None
        self.next_mark = 0
        self.poll: Backoff | None = None
        self.unflushed = False
        self.is_unwanted = False
        self.is_closed = False
        self.is_alarmed = False
        self.woken_at = 0
        self.ended_edge: InputEdge | None = None
        self.calls = 0
        self.busy = 0

    def call(self) -> Progress:
        """Makes steps until one cannot proceed or the time slice ends. A failure ends the job and
        this tasklet."""
        run = self.execution
        now = run.clock
        started = before = now()
        self.calls += 1
        outbox, processor = self.outbox, self.processor
        try:
            while not (
                self.state is END
                or run.is_cancelled
                or (self.is_unwanted and snapshot_steps.may_end(self))
            ):
                outbox.offered = outbox.refused = False
                may_proceed = STEPS[self.state](self)
                time = now()
                if time - before > LONG_CALL and self.is_cooperative:
                    _log_long_call(
                        self.vertex,
                        time - before,
                        run.job.job_id,
                        is_hand_built=run.is_hand_built,
                    )
                before = time
                if processor.is_satisfied and not self.inputs.are_done:
                    self._end_inputs()
                    may_proceed = True
                if outbox.offered:
                    self.poll = None
                if not may_proceed:
                    self.busy += time - started
                    return NO_PROGRESS
                if time - started > TIME_SLICE:
                    self.busy += time - started
                    return MADE_PROGRESS
        except BaseException as error:
            if is_interrupt(error):
                raise
            self.execution.fail(error, self.vertex)
        self.busy += before - started
        if not self.is_closed:
            self._close()
        return DONE

    def ended(self) -> None:
        self.execution.tasklet_ended(self)

    def abandon_if_unwanted(self) -> None:
        if all(queue.is_abandoned for queue in self.outbox.queues):
            self.is_unwanted = True
            self.wake()

    def counts(self) -> Counts:
        """The counters of the processor. From any thread, also before its `init` and after its
        end."""
        stateful, counters = self.stateful, self.counters
        # Read after the roles: `_close` sets it before it removes them.
        if self.last_counts is not None:
            return self.last_counts
        # A processor may create a counter in `init`, which may not have been called yet.
        late = 0 if stateful is None else getattr(stateful, "late_rows", 0)
        if counters is None:
            return Counts(late) if late else NO_COUNTS
        return Counts(
            late,
            getattr(counters, "malformed_records", 0),
            getattr(counters, "skipped_rows", 0),
            getattr(counters, "reads", 0),
        )

    def tasks(self) -> tuple[int, int]:
        """Completed and total tasks of another engine from which the processor reads; none after it
        has ended. From any thread."""
        counters = self.counters
        return (0, 0) if counters is None else counters.tasks()

    def state_size(self) -> tuple[int, int, int]:
        """Rows and bytes of the processor's state, and how many of the bytes are in files; in a job
        with snapshots the values at its end remain. From any thread."""
        stateful = self.stateful
        if stateful is None or self.state is INIT:
            return self.last_state
        return *stateful.state_size(), stateful.spilled_size()[1]

    def source_watermark(self) -> SourceWatermark | None:
        """The watermark that the processor generates, and what holds it back; None if it generates
        none, or not yet, or has ended. From any thread."""
        watermarks = self.watermarks
        return None if watermarks is None or self.state is INIT else watermarks.source_watermark()

    def _end_inputs(self) -> None:
        """The processor needs no more input. An outstanding commit is done first nevertheless."""
        self.inputs.abandon()
        if self.state in (PROCESS, WATERMARK, FLUSH, COMPLETE_EDGE, NEXT, FORWARD):
            self.state = NEXT

    def _close(self) -> None:
        """Closes the processor, once; discards further input, and ends the outputs."""
        self.is_closed = True
        was_begun = self.state is not INIT
        self.state = END
        try:
            if self.snapshots is not None and was_begun:
                self.last_state = self.state_size()
            self.processor.close()
        except BaseException as error:
            if is_interrupt(error):
                raise
            self.execution.fail(error, self.vertex)
        self.last_counts = self.counts()
        # Its resources are released now, not when the garbage collector breaks the cycle.
        self.processor = _CLOSED
        self.stateful = self.transactional = self.counters = self.watermarks = None
        if not self.inputs.are_done:
            self.inputs.abandon()
        self.outbox.finish()

    def again(self) -> bool:
        """A method returned False: returns whether to call it again at once. If the processor waits
        for nothing that the runtime knows, and never used `wake` or `wake_at`, it is polled."""
        outbox = self.outbox
        if outbox.refused:
            return False
        if outbox.offered:
            return True
        results = self.execution.results
        if not self.context.wakes_itself and not (results is not None and results.is_wanted):
            if self.poll is None:
                self.poll = Backoff()
            delay = self.poll.next_delay()
            # On a grid, so that a worker wakes once for many polled processors.
            self.owner.wake_at(self, (self.execution.clock() // delay + 1) * delay)
        return False

    def _init(self) -> bool:
        self.processor.init(self.outbox, self.context)
        if self.outbox.offered or self.outbox.refused:
            raise RuntimeError("init may not offer anything")
        self.state = NEXT if self.state_rows is None else RESTORE
        return True

    def _next(self) -> bool:
        if self.snapshots is not None and snapshot_steps.turn_to_snapshot(self):
            return True
        inputs = self.inputs
        alarm = self.processor.alarm
        if (
            alarm
            and not self.is_alarmed
            and alarm <= self.execution.clock()
            and not inputs.are_done
        ):
            self.is_alarmed = True
            self.state = ALARM
            return True
        self.is_alarmed = False
        event = inputs.next_event()
        if inputs.inbox:
            self.state = PROCESS
            self.unflushed = True
        elif event is not None:
            self._turn_to(event)
        elif inputs.are_done:
            self.state = COMPLETE
        elif self.unflushed or inputs.fell_idle:
            inputs.fell_idle = False
            self.state = FLUSH
        else:
            if alarm:
                self.wake_for(alarm)
            return False
        if self.reported_idle and (self.state is PROCESS or self.state is WATERMARK):
            self._forward_active(self.state)
        return True

    def _turn_to(self, event: Item | InputEdge) -> None:
        """Sets the state that handles an event of the inputs."""
        if event.__class__ is Watermark:
            self.watermark = event
            self.state = WATERMARK
            self.unflushed = True
        elif event.__class__ is InputEdge:
            self.ended_edge = event
            self.state = COMPLETE_EDGE
        elif event.__class__ is Idle or event.__class__ is LatencyMarker:
            self.control = event
            self.state = FORWARD
        elif event.__class__ is Active:
            if event.origin is not None or self.reported_idle:
                self._forward_active(NEXT, event)
        elif event.__class__ is Epoch:
            self.epoch = event
            self.state = EPOCH
            self.resume = NEXT
        else:
            assert event.__class__ is Barrier, event
            self.barrier = event
            self.state = SAVE
            self.resume = NEXT

    def _forward_active(self, following: TaskletState, item: Active = ACTIVE) -> None:
        """Items follow that may be buffered here, so the consumers are informed first."""
        self.control = item
        self.following = following
        self.state = FORWARD

    def wake_for(self, alarm: int) -> None:
        """Wakes the tasklet at that time, or earlier, when it asks for the time again. A processor
        may change its alarm with each batch."""
        if not self.execution.clock() < self.woken_at <= alarm:
            self.woken_at = alarm
            self.owner.wake_at(self, alarm)

    def _process(self) -> bool:
        inbox = self.inputs.inbox
        before = len(inbox)
        self.processor.process(self.inputs.ordinal, inbox)
        if not inbox:
            self.state = NEXT
            return True
        if len(inbox) < before and not self.outbox.refused:
            return True
        return self.again()

    def _watermark(self) -> bool:
        assert self.watermark is not None
        if self.processor.process_watermark(self.watermark):
            self.state = NEXT
            return True
        return self.again()

    def _flush(self) -> bool:
        if self.processor.flush():
            self.unflushed = False
            self.state = NEXT
            return True
        return self.again()

    def _forward(self) -> bool:
        is_active = isinstance(self.control, Active)
        if self.unflushed and not (is_active and self.following is not NEXT):
            if not self.processor.flush():
                return self.again()
            self.unflushed = False
            self.outbox.forget_owed()
        if is_active:
            if not self.outbox.offer(self.control):
                return False
            self.reported_idle = False
            self.state = self.following
            return True
        is_idle = isinstance(self.control, Idle)
        if is_idle and not self.processor.on_idle():
            return self.again()
        if not self._is_last() or is_idle:
            if not self.outbox.offer(self.control):
                return False
            self.reported_idle |= is_idle
        elif isinstance(self.control, LatencyMarker):
            self._arrived(self.control)
        self.state = NEXT
        return True

    def _is_last(self) -> bool:
        """Whether no vertex follows: it writes to the results, or it is a sink."""
        return not self.outbox.queues

    def _arrived(self, marker: LatencyMarker) -> None:
        if self.latency is None:
            self.latency = LatencyHistogram()
        self.latency.add(self.execution.clock() - marker.created)

    def _mark(self) -> bool:
        """In a source, sends a marker after its rows when one is due. False: there is no room for
        it."""
        if self.mark is None:
            now = self.execution.clock()
            if now < self.next_mark or self.outbox.owed is not None:
                return True
            self.mark = LatencyMarker(now)
            self.next_mark = now + MARK_INTERVAL
        if self._is_last():
            self._arrived(self.mark)
        elif not self.outbox.offer(self.mark):
            return False
        self.mark = None
        return True

    def _alarm(self) -> bool:
        if self.processor.on_alarm():
            self.state = NEXT
            return True
        return self.again()

    def _complete_edge(self) -> bool:
        assert self.ended_edge is not None
        if self.processor.complete_edge(self.ended_edge.ordinal):
            self.ended_edge = None
            self.state = NEXT
            return True
        return self.again()

    def _epoch(self) -> bool:
        from runnel.runtime.tasklets.epoch_steps import end_epoch

        return end_epoch(self)

    def _complete(self) -> bool:
        if self.snapshots is not None and snapshot_steps.turn_to_snapshot(self):
            return True
        if self.epochs is not None:
            # Loaded on first use: few queries have epochs.
            from runnel.runtime.tasklets.epoch_steps import turn_to_epoch

            if turn_to_epoch(self):
                return True
        if self.execution.has_marks and not self.inputs.edges and not self._mark():
            return False
        batches = self.outbox.batches
        if self.processor.complete():
            self.state = END if self.snapshots is None else SAVE_LAST
            return True
        if self.epochs is not None and self.outbox.batches != batches:
            self.epochs.has_rows()
        return self.again() or (self.outbox.only_owed and not self.outbox.is_partial)

    def __repr__(self) -> str:
        kind = "tasklet" if self.is_cooperative else "blocking tasklet"
        how = "" if self.state is END else " parked" if self.is_parked else " ready"
        return f"<{kind} {self.name} {self.state.name}{how}>"


_CLOSED = Processor()


def _log_long_call(vertex: str, nanoseconds: int, job_id: int, *, is_hand_built: bool) -> None:
    """Logs a long call: as a warning if the processor may be the user's, otherwise as information,
    since a user cannot change the processors of a SQL plan."""
    logger.log(
        logging.WARNING if is_hand_built else logging.INFO,
        'a call of vertex "%s" took %d ms (job %d): '
        "a cooperative processor should return within a millisecond",
        vertex,
        nanoseconds // 1_000_000,
        job_id,
    )


STEPS: tuple[Callable[[ProcessorTasklet], bool], ...] = (
    ProcessorTasklet._init,
    snapshot_steps.restore,
    snapshot_steps.finish_restore,
    ProcessorTasklet._next,
    ProcessorTasklet._process,
    ProcessorTasklet._watermark,
    ProcessorTasklet._flush,
    ProcessorTasklet._forward,
    ProcessorTasklet._complete_edge,
    ProcessorTasklet._complete,
    snapshot_steps.save,
    snapshot_steps.prepare,
    snapshot_steps.emit_barrier,
    snapshot_steps.commit,
    snapshot_steps.await_commit,
    snapshot_steps.save_last,
    ProcessorTasklet._alarm,
    ProcessorTasklet._epoch,
)
