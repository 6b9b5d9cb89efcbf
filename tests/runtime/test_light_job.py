"""Jobs on real threads. No test waits for time to pass: an event that doesn't come fails the test
after PATIENCE seconds."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from runnel.dag import DAG, ProcessorMetaSupplier, ProcessorSupplier, between
from runnel.deadline import Deadline, current
from runnel.errors import (
    DataError,
    Error,
    ErrorCode,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from runnel.expressions.context import EvaluationContext
from runnel.processor import Inbox, Processor
from runnel.processors.sinks.result_queue import result_sink
from runnel.processors.sources.scan import scan
from runnel.runtime.light_job import Job, JobOptions, Jobs, JobStatus
from runnel.testing import PAUSE, ManualClock, ScriptedSource
from tests.runtime.sample_processors import (
    Collect,
    ItemSource,
    Pass,
    Recording,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)

PATIENCE = 20
EVALUATION = EvaluationContext()
HAND_BUILT = JobOptions(is_hand_built=True)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    before = threading.active_count()
    made = Jobs(2)
    yield made
    made.close()
    assert threading.active_count() <= before, "a thread was left running"


@pytest.fixture
def still() -> Iterator[Jobs]:
    """Jobs for which no time passes, so that a bounded one is never too slow for the thread that
    reads."""
    made = Jobs(2, ManualClock())
    yield made
    made.close()


def start(jobs: Jobs, dag: DAG, **options: Any) -> Job:
    return jobs.start(dag, evaluation=EVALUATION, **options)


def read(job: Job) -> list[int]:
    batches = []
    while (batch := job.results.next_batch(PATIENCE)) is not None:
        batches.append(batch)
    return values_of(batches)


class Endless(ItemSource):
    """Offers one batch again and again."""

    def complete(self) -> bool:
        while self.outbox.offer(self.items[0]):
            pass
        return False


def endless() -> Endless:
    return Endless([numbers(1)])


class Gate(Pass):
    """Passes batches on once `gate` is set; tells by `entered` that it waits."""

    def __init__(
        self, entered: threading.Event, gate: threading.Event, cooperative: bool = True
    ) -> None:
        self.entered = entered
        self.gate = gate
        self.cooperative = cooperative

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.entered.set()
        assert self.gate.wait(PATIENCE)
        return batch


def test_short_job_runs_on_the_reading_thread(still: Jobs) -> None:
    threads: set[int] = set()

    class Here(Pass):
        def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            threads.add(threading.get_ident())
            return batch

    before = threading.active_count()
    job = start(
        still, chain(source(numbers(1, 2), numbers(3)), Here, result_sink()), query="SELECT x"
    )
    assert still.running() == [job]
    assert still.get(job.id) is job
    assert read(job) == [1, 2, 3]
    assert threads == {threading.get_ident()}
    assert threading.active_count() == before
    assert job.status is JobStatus.COMPLETED
    assert still.running() == []
    assert repr(job) == f"<job {job.id} COMPLETED 'SELECT x'>"


def test_long_job_goes_to_the_workers() -> None:
    clock = ManualClock()
    jobs = Jobs(2, clock)
    threads: set[str] = set()

    class Slow(Pass):
        def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            threads.add(threading.current_thread().name)
            clock.advance(600_000)
            return batch

    job = start(jobs, chain(source(*(numbers(i) for i in range(50))), Slow, result_sink()))
    assert read(job) == list(range(50))
    assert threads & {"runnel worker 0", "runnel worker 1"}
    jobs.close()


def test_blocking_processor_has_a_thread_of_its_own(jobs: Jobs) -> None:
    names: list[str] = []

    class Blocking(Pass):
        cooperative = False

        def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            names.append(threading.current_thread().name)
            return batch

    before = threading.active_count()
    job = start(jobs, chain(source(numbers(1), numbers(2)), Blocking, result_sink()))
    assert read(job) == [1, 2]
    assert set(names) == {"runnel v1"}
    assert not any(thread.name == "runnel v1" for thread in threading.enumerate()), (
        "joined when the end was seen"
    )
    assert threading.active_count() <= before + 2


@pytest.mark.parametrize("cooperative", [True, False])
def test_rows_are_not_lost_between_threads(jobs: Jobs, cooperative: bool) -> None:
    class Either(Pass):
        pass

    Either.cooperative = cooperative
    batches = [numbers(i) for i in range(60)]
    dag = DAG()
    start_ = dag.vertex("start", source(*batches), 2)
    middle = dag.vertex("middle", Either, 2)
    end = dag.vertex("end", result_sink(), 1)
    dag.edge(between(start_, middle).with_queue_size(1)).edge(
        between(middle, end).with_queue_size(1)
    )
    for _ in range(15):
        job = start(jobs, dag)
        job.hand_over()
        assert sorted(read(job)) == sorted(list(range(60)) * 2)


def test_jobs_of_many_threads_at_once(jobs: Jobs) -> None:
    class Blocking(Pass):
        cooperative = False

    dags = [chain(source(numbers(1), numbers(2)), kind, result_sink()) for kind in (Pass, Blocking)]
    failures: list[object] = []

    def run(number: int) -> None:
        for turn in range(25):
            job = start(jobs, dags[turn % 8 == 0])
            if turn % 3 == number % 3:
                job.hand_over()
            if turn % 5 == 4:
                job.cancel()
                job.wait(PATIENCE)
            elif read(job) != [1, 2]:
                failures.append(job)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert jobs.running() == []


def test_full_results_hold_the_job_back(jobs: Jobs) -> None:
    job = start(jobs, chain(endless, result_sink()), is_unbounded=True)
    assert job.results.next_batch(PATIENCE) is not None
    for _ in range(100):
        assert job.results.next_batch(PATIENCE) is not None
    assert len(job.results) <= job.results.capacity
    job.cancel()
    assert job.wait(PATIENCE)


def test_bounded_job_waits_for_its_reader_without_threads(still: Jobs) -> None:
    before = threading.active_count()
    job = start(still, chain(endless, result_sink()))
    job.run_here(10**12)
    assert len(job.results) == job.results.capacity
    assert threading.active_count() == before
    assert job.status is JobStatus.RUNNING
    job.cancel()
    assert job.is_done, "nobody drives it, so the canceller closes it"


def test_take_over_from_a_worker_that_is_held_up(jobs: Jobs) -> None:
    """Three jobs of one tasklet each go to two workers. The first waits for the third, which is in
    its worker's list."""
    entered, gate = threading.Event(), threading.Event()

    class Waits(Processor):
        def complete(self) -> bool:
            entered.set()
            return gate.wait(PATIENCE)

    class Opens(Processor):
        def complete(self) -> bool:
            assert entered.wait(PATIENCE)
            gate.set()
            return True

    made = [start(jobs, chain(kind), options=HAND_BUILT) for kind in (Waits, Processor, Opens)]
    for job in made:
        job.join(PATIENCE)
    assert gate.is_set()


@pytest.mark.parametrize(
    ("raised", "is_hand_built", "expected", "message"),
    [
        (DataError("division by zero", hint="mind"), True, DataError, "division by zero"),
        (DataError("division by zero", hint="mind"), False, DataError, "division by zero"),
        (ValueError("boom"), True, OperationalError, 'vertex "v1" failed: ValueError: boom'),
        (ValueError("boom"), False, InternalError, "internal error: ValueError: boom"),
        (
            OSError(28, "no space left"),
            False,
            OperationalError,
            "input or output failed: OSError: [Errno 28] no space left",
        ),
        (MemoryError(), False, OperationalError, "out of memory"),
        (SystemExit(3), True, OperationalError, 'vertex "v1" failed: SystemExit: 3'),
    ],
)
@pytest.mark.parametrize("on_workers", [False, True])
def test_failure_names_the_vertex(
    jobs: Jobs,
    raised: BaseException,
    is_hand_built: bool,
    expected: type[Error],
    message: str,
    on_workers: bool,
) -> None:
    log: list[str] = []
    raised = (
        type(raised)(*raised.args)
        if not isinstance(raised, Error)
        else DataError(raised.message, hint=raised.hint)
    )
    dag = chain(
        source(numbers(1)), lambda: Recording(log, "process", raised), lambda: Recording(log)
    )
    job = start(jobs, dag, options=JobOptions(is_hand_built=is_hand_built))
    if on_workers:
        job.hand_over()
    with pytest.raises(expected) as caught:
        job.join(PATIENCE)
    assert caught.value.message == message
    assert caught.value.detail is not None
    assert 'in vertex "v1"' in caught.value.detail
    assert type(caught.value) is expected
    assert caught.value is raised or caught.value.__cause__ is raised
    if isinstance(raised, DataError):
        assert caught.value.hint == "mind"
    assert log.count("close") == 2
    assert job.status is JobStatus.FAILED
    assert job.error is caught.value


def test_failure_is_raised_where_the_rows_are_read(jobs: Jobs) -> None:
    class Late(Pass):
        def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            if values_of([batch]) == [3]:
                raise DataError("overflow")
            return batch

    job = start(jobs, chain(source(numbers(1), numbers(3)), Late, result_sink()))
    with pytest.raises(DataError, match="overflow"):
        read(job)
    with pytest.raises(DataError, match="overflow"):
        job.results.next_batch()


def test_run_here_raises_at_once(still: Jobs) -> None:
    job = start(still, chain(lambda: Recording([], "complete", DataError("bad")), result_sink()))
    with pytest.raises(DataError, match="bad"):
        job.run_here()


class FailingSupplier(ProcessorMetaSupplier):
    def get(self, context: Any, members: int, parallelism: int) -> list[ProcessorSupplier]:
        raise FileNotFoundError("no such file")


class CountingSupplier(ProcessorSupplier):
    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []

    def get(self, count: int) -> list[Processor]:
        return [ItemSource([numbers(7)]) for _ in range(count)]

    def close(self, error: BaseException | None) -> None:
        self.errors.append(error)


def test_supplier_that_fails_is_raised_at_the_start(jobs: Jobs) -> None:
    dag = DAG()
    counting = CountingSupplier()
    log: list[str] = []
    dag.vertex("a", counting)
    dag.vertex("made", lambda: Recording(log), 1)
    dag.vertex("b", FailingSupplier())
    with pytest.raises(OperationalError, match="no such file") as caught:
        start(jobs, dag)
    assert caught.value.detail == 'in vertex "b"'
    assert log == ["close"], "also that of a processor which was never called"
    assert len(counting.errors) == 1
    assert isinstance(counting.errors[0], OperationalError)
    assert jobs.running() == []


def test_supplier_is_closed_once_with_the_error(jobs: Jobs) -> None:
    counting = CountingSupplier()
    dag = DAG()
    first = dag.vertex("a", counting, 2)
    last = dag.vertex("b", result_sink(), 1)
    dag.edge(between(first, last))
    for runs in (1, 2):
        assert read(start(jobs, dag)) == [7, 7]
        assert counting.errors == [None] * runs
    job = start(jobs, dag)
    job.cancel()
    assert counting.errors[2] is job.error


def test_dag_may_change_between_submissions(jobs: Jobs) -> None:
    dag = chain(source(numbers(1)), result_sink())
    assert read(start(jobs, dag)) == [1]
    prepared = dag.prepared
    assert read(start(jobs, dag)) == [1]
    assert dag.prepared is prepared
    more = dag.vertex("more", source(numbers(2)), 1)
    dag.edge(between(more, dag.vertices["v1"]).to_input(1))
    assert sorted(read(start(jobs, dag))) == [1, 2]
    assert dag.prepared is not prepared


def test_wrong_dag_is_refused(jobs: Jobs) -> None:
    dag = DAG()
    vertex = dag.vertex("a", Pass)
    dag.edge(between(vertex, vertex))
    with pytest.raises(ProgrammingError, match="cycle"):
        start(jobs, dag)


def test_cancel_from_another_thread_wakes_the_reader(jobs: Jobs) -> None:
    quiet = ScriptedSource([PAUSE])
    job = start(jobs, chain_of(quiet), is_unbounded=True)
    threading.Thread(target=job.cancel).start()
    with pytest.raises(OperationalError) as caught:
        read(job)
    assert caught.value.code is ErrorCode.CANCELLED
    assert (quiet.opened, quiet.closed) in ((0, 1), (1, 1))
    job.cancel()
    assert job.status is JobStatus.FAILED


def chain_of(scanned: ScriptedSource) -> DAG:
    dag = DAG()
    first = dag.vertex("scan", scan(scanned, None, None, ("x",)), 1)
    last = dag.vertex("sink", result_sink(), 1)
    return dag.edge(between(first, last))


def test_cancel_does_not_close_during_a_call(jobs: Jobs) -> None:
    entered, gate = threading.Event(), threading.Event()
    closed_while_inside: list[bool] = []

    class Watched(Gate):
        def close(self) -> None:
            closed_while_inside.append(not self.gate.is_set())

    job = start(
        jobs,
        chain(source(numbers(1)), lambda: Watched(entered, gate), ToResults),
        options=HAND_BUILT,
    )
    assert entered.wait(PATIENCE)
    job.cancel()
    assert not job.is_done
    gate.set()
    assert job.wait(PATIENCE)
    assert closed_while_inside == [False]


def test_source_wakes_a_parked_job_from_another_thread(jobs: Jobs) -> None:
    for cooperative in (True, False):
        scripted = ScriptedSource(
            [numbers(1), PAUSE, numbers(2), PAUSE, numbers(3)], cooperative=cooperative
        )
        job = start(jobs, chain_of(scripted), is_unbounded=True)
        got = values_of([job.results.next_batch(PATIENCE)])
        for _ in range(2):
            scripted.resume()
            got += values_of([job.results.next_batch(PATIENCE)])
        assert got == [1, 2, 3]
        assert job.results.next_batch(PATIENCE) is None
        assert (scripted.opened, scripted.closed) == (1, 1)


def test_next_batch_gives_up_after_its_timeout(jobs: Jobs) -> None:
    scripted = ScriptedSource([PAUSE, numbers(1)])
    job = start(jobs, chain_of(scripted), is_unbounded=True)
    with pytest.raises(OperationalError) as caught:
        job.results.next_batch(0)
    assert caught.value.code is ErrorCode.TIMEOUT
    with pytest.raises(OperationalError, match="still running"):
        job.join(0)
    scripted.resume()
    assert read(job) == [1], "the job goes on"


@pytest.mark.parametrize("is_unbounded", [True, False])
def test_job_out_of_time(is_unbounded: bool) -> None:
    clock = ManualClock()
    jobs = Jobs(2, clock)
    job = jobs.start(
        chain(endless, result_sink()),
        evaluation=EVALUATION,
        is_unbounded=is_unbounded,
        options=JobOptions(timeout=2_500_000_000),
    )
    job.results.next_batch(PATIENCE)
    clock.advance(2_600_000_000)
    with pytest.raises(OperationalError) as caught:
        while job.results.next_batch(PATIENCE) is not None:
            pass
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.message == "the statement took longer than its time-out of 2.5 s"
    jobs.close()


def test_interrupt_in_a_processor_on_the_reading_thread(still: Jobs) -> None:
    log: list[str] = []
    dag = chain(
        source(numbers(1)),
        lambda: Recording(log, "process", KeyboardInterrupt()),
        lambda: Recording(log),
        ToResults,
    )
    job = start(still, dag)
    with pytest.raises(KeyboardInterrupt):
        read(job)
    assert log.count("close") == 2
    assert job.is_done
    assert still.running() == []
    assert read(start(still, chain(source(numbers(1)), result_sink()))) == [1], (
        "the connection is usable"
    )


def test_interrupt_while_waiting(jobs: Jobs) -> None:
    main = threading.main_thread().ident
    assert main is not None

    class Interrupts(ItemSource):
        def complete(self) -> bool:
            if not self.place:
                self.place = 1
                signal.pthread_kill(main, signal.SIGINT)
                self.context.wake_at(1 << 61)
            return False

    job = None
    with pytest.raises(KeyboardInterrupt):
        job = start(jobs, chain(lambda: Interrupts([]), result_sink()), is_unbounded=True)
        read(job)
    for running in jobs.running():
        running.cancel()
    assert job is None or job.wait(PATIENCE)


def test_await(jobs: Jobs) -> None:
    async def both() -> tuple[Job, BaseException | None]:
        good = start(jobs, chain(source(numbers(1)), lambda: Collect([])), options=HAND_BUILT)
        await good
        bad = start(jobs, chain(lambda: Recording([], "complete")), options=HAND_BUILT)
        try:
            await bad
        except OperationalError as error:
            return good, error
        return good, None

    good, error = asyncio.run(both())
    assert good.status is JobStatus.COMPLETED
    assert isinstance(error, OperationalError)


def test_metrics(jobs: Jobs) -> None:
    dag = DAG()
    first = dag.vertex("scan", source(numbers(1, 2, 3), numbers(4)), 1)
    double = dag.vertex("double", Pass, 2)
    last = dag.vertex("sink", result_sink(), 1)
    dag.edge(between(first, double).broadcast()).edge(between(double, last).with_queue_size(7))
    job = start(jobs, dag, options=HAND_BUILT)
    assert sorted(read(job)) == [1, 1, 2, 2, 3, 3, 4, 4]
    metrics = job.metrics()
    assert list(metrics) == ["scan", "double", "sink"]
    assert (metrics["scan"].rows_in, metrics["scan"].rows_out, metrics["scan"].batches_out) == (
        0,
        4,
        2,
    )
    assert (
        metrics["double"].rows_in,
        metrics["double"].rows_out,
        metrics["double"].batches_in,
    ) == (8, 8, 4)
    assert [item.rows_in for item in metrics["double"].processors] == [4, 4]
    assert metrics["sink"].rows_in == 8
    assert metrics["sink"].queue_capacity == 14
    assert metrics["sink"].queued == 0
    assert metrics["sink"].calls >= 1
    assert metrics["sink"].busy > 0
    assert (job.rows_in, job.rows_out) == (4, 8)
    assert job.rows_per_second > 0
    assert job.uptime > 0
    assert job.kind == "light"
    assert job.name == f"job {job.id}"


def test_a_planned_result_sink_needs_no_tasklet(jobs: Jobs) -> None:
    dag = chain(source(*(numbers(i) for i in range(40))), Pass, result_sink())
    job = start(jobs, dag)
    assert sorted(read(job)) == list(range(40))
    assert len(job.execution.tasklets) == len(dag.vertices) - 1
    assert (job.rows_in, job.rows_out) == (40, 40)


def test_long_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    jobs = Jobs(1, clock)

    class Slow(Pass):
        def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            clock.advance(250_000_000 if values_of([batch]) == [2] else 1_000_000)
            return batch

    class Blocking(Slow):
        cooperative = False

    with caplog.at_level(logging.INFO, "runnel"):
        job = start(jobs, chain(source(numbers(1), numbers(2)), Slow, result_sink()))
        assert read(job) == [1, 2]
        assert read(start(jobs, chain(source(numbers(2)), Blocking, result_sink()))) == [2]
    assert [record.getMessage() for record in caplog.records] == [
        (
            f'a call of vertex "v1" took 250 ms (job {job.id}): a cooperative processor should '
            "return within a millisecond"
        )
    ]
    assert [record.levelno for record in caplog.records] == [logging.INFO], (
        "not hand-built: no business of the user's"
    )
    jobs.close()


def test_nothing_keeps_the_reader_alive(jobs: Jobs) -> None:
    class Cursor:
        def __init__(self, job: Job) -> None:
            self.job = job

    job = start(jobs, chain(endless, result_sink()), is_unbounded=True)
    cursor = Cursor(job)
    weakref.finalize(cursor, job.cancel)
    job.results.next_batch(PATIENCE)
    del cursor
    gc.collect()
    assert job.wait(PATIENCE)
    assert jobs.running() == []


def test_closed_processor_gives_its_memory_back(still: Jobs) -> None:
    made: list[weakref.ref[Processor]] = []

    def keep(processor: Processor) -> Processor:
        made.append(weakref.ref(processor))
        return processor

    gc.disable()
    try:
        job = start(
            still,
            chain(lambda: keep(ItemSource([numbers(1)])), lambda: keep(Pass()), result_sink()),
        )
        assert read(job) == [1]
        assert [reference() for reference in made] == [None, None]
    finally:
        gc.enable()


def test_close_ends_everything() -> None:
    before = threading.active_count()
    jobs = Jobs(2)
    entered, gate = threading.Event(), threading.Event()
    unread = start(jobs, chain(endless, result_sink()))
    streaming = start(jobs, chain(endless, result_sink()), is_unbounded=True)
    blocking = start(
        jobs,
        chain(source(numbers(1)), lambda: Gate(entered, gate, False), ToResults),
        options=HAND_BUILT,
    )
    assert entered.wait(PATIENCE)
    gate.set()
    jobs.close()
    jobs.close()
    assert threading.active_count() == before
    assert unread.is_done
    assert streaming.is_done
    assert blocking.is_done
    assert jobs.running() == []
    with pytest.raises(InterfaceError, match="closed"):
        start(jobs, chain(endless))


def test_supplier_that_fails_to_close_fails_the_job(jobs: Jobs) -> None:
    class Bad(CountingSupplier):
        def close(self, error: BaseException | None) -> None:
            raise OSError("gone")

    dag = DAG()
    first, last = dag.vertex("a", Bad(), 1), dag.vertex("b", result_sink(), 1)
    dag.edge(between(first, last))
    with pytest.raises(OperationalError, match="gone") as caught:
        read(start(jobs, dag))
    assert caught.value.detail == 'in vertex "a"'


def test_callback_that_fails_is_logged(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    job = start(jobs, chain(source(numbers(1)), result_sink()))
    job.on_end(lambda: 1 // 0)
    assert read(job) == [1]
    assert f"a callback at the end of job {job.id} failed" in "\n".join(caplog.messages)


def test_cancelled_reader_does_not_spin_while_a_blocking_call_ends(jobs: Jobs) -> None:
    entered, gate = threading.Event(), threading.Event()
    job = start(jobs, chain(source(numbers(1)), lambda: Gate(entered, gate, False), result_sink()))
    drives: list[int] = []
    drive = job.results.drive
    assert drive is not None

    def counted() -> None:
        drives.append(1)
        drive()

    job.results.drive = counted
    job.run_here(10**6)
    assert entered.wait(PATIENCE)
    job.cancel()
    threading.Timer(0.0, gate.set).start()
    with pytest.raises(OperationalError, match="cancelled"):
        read(job)
    assert len(drives) <= 2


def test_unknown_job(jobs: Jobs) -> None:
    with pytest.raises(ProgrammingError, match="job 99 not found") as caught:
        jobs.get(99)
    assert caught.value.hint == "no light job is running; one disappears when it ends"
    running = start(jobs, chain(endless, result_sink()))
    with pytest.raises(ProgrammingError) as caught:
        jobs.get(99)
    assert caught.value.hint == f"the running light jobs are {running.id}"


def test_what_a_blocking_processor_waits_with_is_woken_when_its_job_is_cancelled(
    jobs: Jobs,
) -> None:
    entered, outer, inner = (threading.Event() for _ in range(3))
    woken: list[bool] = []

    class Blocked(Processor):
        cooperative = False

        def complete(self) -> bool:
            with (
                current().on_cancel(outer.set),
                Deadline(None) as nested,
                nested.on_cancel(inner.set),
            ):
                entered.set()
                woken.extend(event.wait(3) for event in (outer, inner))
            return True

    job = start(jobs, chain(Blocked), options=HAND_BUILT)
    assert entered.wait(PATIENCE)
    job.cancel()
    with pytest.raises(OperationalError, match="cancelled"):
        job.join(PATIENCE)
    assert woken == [True, True]


def test_offers_out_of_order_are_an_error(jobs: Jobs) -> None:
    class Careless(Processor):
        def process(self, ordinal: int, inbox: Inbox) -> None:
            while (batch := inbox.poll()) is not None:
                self.outbox.offer(batch)

    dag = chain(source(*(numbers(i) for i in range(400))), Careless, result_sink())
    with pytest.raises(OperationalError, match="another item was offered") as caught:
        job = start(jobs, dag, options=HAND_BUILT)
        job.join(PATIENCE)
    assert caught.value.detail == 'in vertex "v1"'


def test_callbacks_at_the_end(still: Jobs) -> None:
    told: list[str] = []
    job = start(still, chain(source(numbers(1)), result_sink()))
    job.on_end(lambda: told.append("first"))
    assert told == []
    job.run_here()
    job.on_end(lambda: told.append("later"))
    assert told == ["first", "later"]


def test_wake_comes_from_any_thread_at_any_moment(jobs: Jobs) -> None:
    """Many threads wake a source that gives one batch per wake-up; each token that they put down
    must be seen."""
    tokens: list[int] = []
    wakes: list[Callable[[], None]] = []
    ready = threading.Event()

    class Woken(ItemSource):
        def complete(self) -> bool:
            if not wakes:
                wakes.append(self.context.wake)
                ready.set()
            while self.place < len(tokens):
                if not self.outbox.offer(numbers(self.place)):
                    return False
                self.place += 1
            return self.place == 200

    job = start(jobs, chain(lambda: Woken([]), result_sink()), is_unbounded=True)
    assert ready.wait(PATIENCE)

    def put() -> None:
        for _ in range(50):
            tokens.append(0)
            wakes[0]()

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert read(job) == list(range(200))
    for thread in threads:
        thread.join()
