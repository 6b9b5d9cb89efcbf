"""Light jobs: one start, then join or cancel; nothing remains when they have ended.

`Jobs` belongs to a connection: it starts jobs, lists running ones, and ends all. A `Job` is the
handle. A bounded query begins on the thread that fetches (`run_here`, or any read of its results)
and moves to the workers when it takes long; unbounded and hand-built jobs start there. A job has no
reference to its starter, so that a garbage-collected cursor can cancel its job.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import count
from threading import Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any

from runnel.base.clock import SYSTEM_CLOCK, Clock, steady_wall, weakly
from runnel.base.forks import closed_error, here
from runnel.base.frozen import frozen
from runnel.dag import DAG
from runnel.deadline import end_of_wait
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.sinks.result_queue import ResultQueue, acquire
from runnel.runtime.execution import Execution, ExecutionOptions
from runnel.runtime.latency import quantiles
from runnel.runtime.metrics import VertexMetrics, vertex_metrics
from runnel.runtime.tasklets.failures import cancelled, timed_out
from runnel.runtime.tasklets.tasklet import MADE_PROGRESS, take_turn
from runnel.runtime.template import Template
from runnel.runtime.threads.caller import CallingThread, interrupts_deferred
from runnel.runtime.threads.dedicated import DedicatedThread
from runnel.runtime.threads.workers import Workers

logger = logging.getLogger("runnel.job")

if TYPE_CHECKING:
    from asyncio import Future

    from runnel.duckdb.kernel import DuckDBKernel
    from runnel.named_jobs.durability import Durability
    from runnel.sqltypes import SqlType
    from runnel.storage.memory_budget import Memory

BUDGET = 2_000_000
"""Nanoseconds that the fetching thread spends on a job, in total, before the workers continue
it."""


class JobStatus(Enum):
    """The status of a job.

    A light job is RUNNING until every processor is closed; then COMPLETED, or FAILED: with an
    error, cancelled, or timed out. The other values are for named jobs
    (`runnel.named_jobs.record.states`).
    """

    __module__ = "runnel"

    NOT_RUNNING = "NOT_RUNNING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUSPENDED_EXPORTING_SNAPSHOT = "SUSPENDED_EXPORTING_SNAPSHOT"
    COMPLETING = "COMPLETING"
    FAILED = "FAILED"
    COMPLETED = "COMPLETED"

    def __str__(self) -> str:
        return self.value


@frozen
class JobOptions:
    """How a job is run.

    name: name that is shown.
    kind: "light" or "job".
    has_results: it has a result queue.
    is_hand_built: the user built the DAG, so its failures are the user's, and it runs on the
        workers from the start.
    timeout: nanoseconds after which it is cancelled with OperationalError (TIMEOUT).
    accumulation_limit: maximum number of rows that one processor may accumulate; 0: no limit.
    state_limit: maximum number of bytes of the state of all processors; 0: no limit.
    stated_timeout: the timeout of the whole statement in nanoseconds, for the error, if `timeout`
        is only the rest of it.
    is_measured: the metrics include bytes.
    event_time: type of the watermarks' times; None: there are none.
    linger: maximum time, in ns, that rows of a stream may wait in a source for larger batches.
    durability: for an execution of a named job.
    is_confined: its caller has bounds.
    session_rows: as in `JobContext`.
    """

    name: str = ""
    kind: str = "light"
    has_results: bool = True
    is_hand_built: bool = False
    timeout: int | None = None
    accumulation_limit: int = 0
    state_limit: int = 0
    stated_timeout: int | None = None
    is_measured: bool = False
    event_time: SqlType | None = None
    linger: int = 0
    durability: Durability | None = None
    is_confined: bool = False
    session_rows: Callable[[str], Sequence[tuple[Any, ...]]] | None = None


_DEFAULT = JobOptions()
CLOSING = 10.0
"""Seconds that cancelled jobs have to end when the connection is closed. A call of a processor ends
within about one second."""


def _ignore(job: Job) -> None:
    """The default of `on_start`."""


class Jobs:
    """The jobs of one connection and the threads that run them. Thread-safe."""

    def __init__(
        self,
        workers: int | None = None,
        clock: Clock | None = None,
        kernel: Callable[[], DuckDBKernel] | None = None,
        memory: Memory | None = None,
        *,
        deadline_clock: Clock | None = None,
    ) -> None:
        """`deadline_clock`: the clock of the timeouts of jobs; None: `clock`."""
        self.clock: Clock = clock or SYSTEM_CLOCK
        self.deadline_clock = deadline_clock or self.clock
        self.kernel = kernel
        self.memory = memory
        self.workers = workers or os.cpu_count() or 1
        self.pool = Workers(self.workers, self.clock)
        self._ids = count(1)
        self._running: dict[int, Job] = {}
        self.ending: set[Job] = set()
        """The jobs whose end is being reported."""
        self._is_closed = False
        self.origin = here()
        self._options = {
            hand_built: ExecutionOptions(self.workers, hand_built) for hand_built in (False, True)
        }
        self.clock.subscribe(weakly(self._time_moved))

    def start(
        self,
        dag: DAG,
        *,
        evaluation: EvaluationContext,
        query: str = "",
        is_unbounded: bool = False,
        options: JobOptions = _DEFAULT,
        on_start: Callable[[Job], object] = _ignore,
    ) -> Job:
        """Starts a job. `on_start` receives it before it runs, so that it can be cancelled. Raises
        the errors of suppliers (a source that cannot be split), with the name of the vertex."""
        self.check_open()
        job = Job(self, next(self._ids), query, options)
        context = JobContext(
            job_id=job.id,
            evaluation=replace(evaluation, check=job.check, current=steady_wall(self.clock)),
            clock=self.clock.monotonic,
            results=job.results if options.has_results else None,
            accumulation_limit=options.accumulation_limit,
            state_limit=options.state_limit,
            name=options.name,
            is_unbounded=is_unbounded,
            kernel=self.kernel,
            memory=self.memory,
            linger=options.linger if is_unbounded else 0,
            session_rows=options.session_rows,
        )
        snapshots = None
        if options.durability is not None:
            context = options.durability.context_of(context)
            snapshots = options.durability.snapshots
        execution = Execution(
            Template.of(dag),
            context,
            self._options[options.is_hand_built],
            job.execution_ended,
            snapshots,
        )
        if options.is_measured:
            for tasklet in execution.tasklets:
                tasklet.outbox.is_measured = True
        job.begin(execution, on_start)
        # Checked again after `begin` added the job, so that `close` or this thread cancels it.
        if self._is_closed:
            job.cancel()
            job.wait()
            self.check_open()
        if is_unbounded or options.is_hand_built:
            job.hand_over()
        return job

    def check_open(self) -> None:
        """InterfaceError if the connection is closed."""
        if self._is_closed or self.origin.is_left:
            raise closed_error(self.origin)

    def running(self) -> list[Job]:
        """The jobs that have not ended, oldest first."""
        return [self._running[key] for key in sorted(self._running.copy()) if key in self._running]

    def get(self, job_id: int) -> Job:
        """The running job with that id; ProgrammingError if there is none."""
        job = self._running.get(job_id)
        if job is None:
            raise self.unknown(job_id)
        return job

    def unknown(self, job_id: int) -> ProgrammingError:
        """The error for an id that no light job has."""
        known = ", ".join(str(item.id) for item in self.running() if item.kind == "light")
        return ProgrammingError(
            f"job {job_id} not found",
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=f"the running light jobs are {known}"
            if known
            else "no light job is running; one disappears when it ends",
        )

    def close(self) -> bool:
        """Cancels all jobs, waits until their processors are closed, and ends all threads. Closing
        twice is no error. False: some jobs did not end in time because a call does not return; they
        are abandoned, and logged."""
        self._is_closed = True
        until = monotonic() + CLOSING
        while self._running:
            jobs = self.running()
            for job in jobs:
                job.cancel()
            left = [job for job in jobs if not job.wait(max(0.0, until - monotonic()))]
            for job in left:
                vertices = ", ".join(
                    item.vertex for item in job.execution.tasklets if not item.is_closed
                )
                logger.error(
                    "%s did not stop: vertex %s is blocked in a call; abandoning it",
                    job.name,
                    vertices,
                )
            if left:
                return False
        self.pool.stop()
        return True

    def add(self, job: Job) -> None:
        self._running[job.id] = job

    def remove(self, job: Job) -> None:
        self._running.pop(job.id, None)

    def _time_moved(self) -> None:
        for job in self.running():
            job.execution.wake_all()

    def __repr__(self) -> str:
        return f"<jobs: {len(self._running)} running, {self.pool!r}>"


class Job:
    """The handle of a light job.

    id: number in the connection.
    query: SQL text.
    options: how it is run.
    started: wall time in µs since the epoch (UTC).
    results: its result queue.
    error: why it failed; None: it has not.
    is_done: whether it has ended.
    """

    __module__ = "runnel"

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_caller",
        "_deadline",
        "_ended_at",
        "_gate",
        "_jobs",
        "_lock",
        "_started_at",
        "_threads",
        "_timer",
        "error",
        "execution",
        "id",
        "is_done",
        "options",
        "query",
        "results",
        "started",
    )

    execution: Execution

    def __init__(self, jobs: Jobs, job_id: int, query: str, options: JobOptions) -> None:
        self.id = job_id
        self.query = query
        self.options = options
        self.started = jobs.clock.wall()
        self.results = ResultQueue()
        self.error: Error | None = None
        self.is_done = False
        self._jobs = jobs
        self._started_at = jobs.clock.monotonic()
        self._ended_at = 0
        self._deadline = (
            None if options.timeout is None else jobs.deadline_clock.monotonic() + options.timeout
        )
        self._timer: Timer | None = None
        self._callbacks: list[Callable[[], object]] = []
        self._lock = Lock()
        # Locked until the job has ended; waiting threads pass through it one after another.
        self._gate = Lock()
        self._gate.acquire()
        self._threads: list[DedicatedThread] = []
        self._caller: CallingThread | None = None

    def begin(self, execution: Execution, on_start: Callable[[Job], object]) -> None:
        """Connects the execution, and starts threads for blocking processors. Called once, by
        `Jobs.start`."""
        try:
            self._begin(execution, on_start)
        except BaseException:
            self._end_half_begun(execution)
            raise

    def _begin(self, execution: Execution, on_start: Callable[[Job], object]) -> None:
        self.execution = execution
        jobs = self._jobs
        jobs.add(self)
        results = self.results
        results.on_room = execution.wake_sinks
        results.on_end_seen = self._join_threads
        results.on_interrupt = self._interrupted
        results.drive = self._drive
        self._caller = CallingThread(execution, jobs.pool, jobs.clock, self._caller_gone)
        for tasklet in execution.tasklets:
            if not tasklet.is_cooperative:
                self._threads.append(DedicatedThread(tasklet, tasklet.name, jobs.clock, execution))
        on_start(self)
        if self._threads:
            with interrupts_deferred():
                for thread in self._threads:
                    thread.start()
        if self._deadline is not None and self._threads:
            self._await_deadline(self._deadline)

    def _end_half_begun(self, execution: Execution) -> None:
        """Starting the job failed (Ctrl-C, no more threads available): processors that have a
        thread are closed by it, the rest here."""
        execution.cancel()
        elsewhere = {thread.tasklet for thread in self._threads if thread.thread.ident is not None}
        for tasklet in execution.left:
            if tasklet not in elsewhere:
                while take_turn(tasklet) is MADE_PROGRESS:
                    continue

    @property
    def name(self) -> str:
        return self.options.name or f"job {self.id}"

    @property
    def kind(self) -> str:
        return self.options.kind

    @property
    def status(self) -> JobStatus:
        if not self.is_done:
            return JobStatus.RUNNING
        return JobStatus.COMPLETED if self.error is None else JobStatus.FAILED

    @property
    def uptime(self) -> float:
        """Seconds from the start to now, or to the end."""
        return (
            (self._ended_at if self.is_done else self._jobs.clock.monotonic()) - self._started_at
        ) / 1e9

    @property
    def rows_in(self) -> int:
        """Number of rows that the sources have emitted."""
        return sum(
            tasklet.outbox.rows for tasklet in self.execution.tasklets if not tasklet.inputs.edges
        )

    @property
    def rows_out(self) -> int:
        """Number of rows that the last vertices have added to the results, or else received."""
        last = [tasklet for tasklet in self.execution.tasklets if not tasklet.outbox.queues]
        return sum(
            item.outbox.rows or sum(edge.rows for edge in item.inputs.edges) for item in last
        )

    @property
    def rows_per_second(self) -> float:
        """Rows in, divided by the time since the start."""
        return self.rows_in / max(self.uptime, 1e-9)

    @property
    def late_rows(self) -> int:
        """Number of rows that arrived after their result was emitted."""
        return sum(tasklet.counts().late_rows for tasklet in self.execution.tasklets)

    @property
    def malformed_records(self) -> int:
        """Number of records that sources skipped because they could not be parsed."""
        return sum(tasklet.counts().malformed_records for tasklet in self.execution.tasklets)

    def watermark(self) -> tuple[int | None, str | None]:
        """The smallest watermark of a vertex, in units of event time, and the source that holds it
        back, such as `scan orders, partition 3 (no rows yet)`; None: there is none."""
        # Loaded on first use: few queries are asked for it.
        from runnel.runtime.watermark_holder import job_watermark

        return job_watermark(self.execution.tasklets)

    def latency(self, *shares: float) -> list[int | None]:
        """Quantiles of the time that rows take from the sources to the end, in nanoseconds; None if
        nothing was measured yet."""
        return quantiles(
            [item.latency for item in self.execution.tasklets if item.latency is not None], shares
        )

    def metrics(self) -> dict[str, VertexMetrics]:
        """The metrics of each vertex so far, by name, sources first."""
        self._jobs.origin.check()
        return vertex_metrics(self.execution.tasklets)

    def run_here(self, budget: int = BUDGET) -> None:
        """Drives the job on this thread until it has ended, its results wait for a reader, or this
        thread has spent `budget` nanoseconds on it in total; then the workers continue it. Raises
        the job's error if it failed. On Ctrl-C the job is cancelled and closed, and
        KeyboardInterrupt is raised again."""
        self._drive(budget)
        if self.error is not None:
            self._join_threads()
            raise self.error

    def hand_over(self) -> None:
        """Passes the job to the workers."""
        if self._caller is not None:
            self._caller.hand_over()

    def cancel(self) -> None:
        """Ends the job soon, from any thread; does not wait. Does nothing if it has ended."""
        self._jobs.origin.check()
        self._cancel(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended, successfully or not, and its threads are gone; False if it
        has not within `timeout` seconds. A job whose results are full waits for its reader."""
        self._jobs.origin.check()
        if not self.is_done:
            self._drive(BUDGET)
        if not self.is_done:
            self.hand_over()
            if not acquire(self._gate, end_of_wait(timeout)):
                return False
            self._gate.release()
        self._join_threads()
        return True

    def join(self, timeout: float | None = None) -> None:
        """Waits as `wait` does, and raises the job's error if it failed; OperationalError (TIMEOUT)
        if it still runs."""
        if not self.wait(timeout):
            raise OperationalError(
                f"job {self.id} is still running after {timeout:g} s", code=ErrorCode.TIMEOUT
            )
        if self.error is not None:
            raise self.error

    def check(self) -> None:
        """Raises if the job is cancelled or has timed out. Called during long calls."""
        if self._is_overdue:
            self.execution.cancel(self._out_of_time())
        if self.execution.is_cancelled:
            raise cancelled()

    def on_end(self, callback: Callable[[], object]) -> None:
        """`callback` is called once when the job has ended (at once if it has), on the thread that
        ends it."""
        self._jobs.origin.check()
        with self._lock:
            if not self.is_done:
                self._callbacks.append(callback)
                return
        callback()

    def __await__(self) -> Generator[Any, None, None]:
        """`await job` waits as `join` does, without blocking the event loop."""
        # Imported here: it takes 20 ms, and a program that awaits has imported it anyway.
        from asyncio import get_running_loop

        loop = get_running_loop()
        ended = loop.create_future()
        self.on_end(lambda: loop.call_soon_threadsafe(_resolve, ended))
        self.hand_over()
        yield from ended
        self.join()

    def execution_ended(self, error: Error | None) -> None:
        """Every processor is closed. Called once, by the execution."""
        self.error = error
        self._ended_at = self._jobs.clock.monotonic()
        self._jobs.ending.add(self)
        self._jobs.remove(self)
        pool = self._jobs.pool
        if len(pool.timers):  # most jobs end without one
            pool.forget(self.execution.tasklets, self._expire)
        with self._lock:
            self.is_done = True
            if self._timer is not None:
                self._timer.cancel()
            callbacks, self._callbacks = self._callbacks, []
        self.results.end(error)
        self._gate.release()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("a callback at the end of job %d failed", self.id)
        self._jobs.ending.discard(self)

    def _drive(self, budget: int = BUDGET) -> None:
        if (caller := self._caller) is not None:
            if self._is_overdue:
                self._expire()
            caller.drive(budget)

    @property
    def _is_overdue(self) -> bool:
        deadline = self._deadline
        return deadline is not None and self._jobs.deadline_clock.monotonic() >= deadline

    def _caller_gone(self) -> None:
        """The workers continue the job: from now on reading waits."""
        self._caller = None
        self.results.drive = None
        if self._deadline is not None:
            self._await_deadline(self._deadline)

    def _await_deadline(self, deadline: int) -> None:
        """Cancels the job at its deadline."""
        jobs = self._jobs
        if jobs.deadline_clock is jobs.clock:
            jobs.pool.call_at(deadline, self._expire)
        elif self._timer is None:
            self._timer = Timer(jobs.deadline_clock.timeout(deadline) or 0, self._expire)
            self._timer.daemon = True
            self._timer.start()
            if self.is_done:
                self._timer.cancel()

    def _expire(self) -> None:
        self._cancel(self._out_of_time())

    def _out_of_time(self) -> Error:
        stated = self.options.stated_timeout or self.options.timeout
        assert stated is not None
        return timed_out(stated)

    def _cancel(self, error: Error | None) -> None:
        self.execution.cancel(error)
        if (caller := self._caller) is not None:
            caller.sweep()

    def _interrupted(self) -> None:
        """Ctrl-C during a fetch: closes everything before the exception propagates."""
        self.cancel()
        self.wait()

    def _join_threads(self) -> None:
        for thread in self._threads:
            thread.join()

    def __repr__(self) -> str:
        return f"<job {self.id} {self.status}{' ' + repr(self.query) if self.query else ''}>"


def _resolve(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)
