"""The rows of a Spark DataFrame as Arrow, partition by partition, while later partitions still run.

Spark's executors write Arrow batches themselves, so no row passes through Python. A few threads run
Spark jobs for one or more partitions each, and receive the batches over an authenticated loopback
socket that Spark opens for each job. The number of waiting batches is bounded: a thread that is
ahead of the reader stops, and starts no further partition. Closing cancels the job group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from struct import unpack
from threading import Condition, Event, Thread, current_thread
from time import monotonic
from typing import Any, Protocol

import pyarrow as pa

from runnel.connectors.spark.errors import spark_errors
from runnel.errors import Error, OperationalError

MOST_THREADS = 16
"""The maximum number of concurrent Spark jobs of one scan."""
WAITING_BATCHES = 16
"""The number of batches that wait for the reader before the threads stop."""
WAITING_BYTES = 64 << 20
"""The number of waiting bytes before the threads stop, since rows may be wide."""
HANDFUL_BATCHES = 8
HANDFUL_BYTES = 2 << 20
"""The batches and bytes that are passed on together: the reader is not woken for less."""
SMALL_BYTES = 8 << 20
QUICK_SECONDS = 0.5
LARGEST_SHARE = 256
"""The maximum number of partitions per job. Small and quick partitions are combined, since a job
has a fixed cost."""
FEW_PARTITIONS = 16
FIRST_ROUNDS = 2
SURELY_SMALL_BYTES = 4 << 20
"""If there are few partitions, and Spark estimates that each has at most SURELY_SMALL_BYTES
bytes (an estimate that texts may exceed), a job gets at first FIRST_ROUNDS times as many
partitions as Spark has cores."""


class FetchingSpark(Protocol):
    """The Spark session of a fetch; see `Spark`."""

    @property
    def context(self) -> Any: ...
    def name(self, kind: str) -> str: ...
    def began(self, running: Fetch) -> None: ...
    def ended(self, running: Fetch) -> None: ...
    def group(self, name: str, description: str) -> AbstractContextManager[None]: ...
    def statistics(self, frame: Any) -> tuple[int | None, int | None]: ...
    def computed(self, batches: Any, partitions: Sequence[int]) -> Any: ...
    def cancel(self, group: str) -> None: ...


class FetchTask:
    """Some partitions that one job computes, with the batches that were not read yet."""

    def __init__(self) -> None:
        self.batches: deque[pa.RecordBatch] = deque()
        self.is_done = False


class Fetch:
    """One run of one DataFrame, or of a function that returns it and is called by a thread of the
    run.

    `is_ordered`: the batches come in the order of the partitions. Any number of threads may read;
        the functions in `wakes` are called when there are new batches.
    """

    def __init__(
        self, spark: FetchingSpark, frame: Any, is_ordered: bool, description: str
    ) -> None:
        self._spark = spark
        self._frame = frame
        self.is_ordered = is_ordered
        self._description = description
        self._group = spark.name("scan")
        self._changed = Condition()
        self._shares: deque[FetchTask] = deque()
        self._threads: list[Thread] = []
        self._canceller: Thread | None = None
        self._wakes: list[Callable[[], None]] = []
        self._next = 0
        self._share_size = 1
        self._least_size = 1
        self._partitions = 0
        self._computed = 0
        self._waiting = 0
        self._waiting_bytes = 0
        self._readers = 0
        self._working = 0
        self._error: Error | None = None
        self._is_closed = False

    @property
    def group(self) -> str:
        """The name of its job group in Spark."""
        return self._group

    def add_reader(self) -> bool:
        """Adds a reader, which must call `close_reader` at the end. True: it is the first."""
        self._readers += 1
        return self._readers == 1

    def tasks(self) -> tuple[int, int]:
        """Tasks of Spark, finished and known: the partitions, and the tasks of preceding stages
        that have begun."""
        # Spark's tracker learns of a job some time after it was submitted, and lists stages again
        # that a later job skips.
        known, done, rows_done = self._partitions, 0, 0
        with suppress(Exception):  # the session may be gone; reading the rows reports that
            tracker = self._spark.context.statusTracker()._jtracker
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self._group)]
            stages = {number for job in jobs if job is not None for number in job.stageIds()}
            for stage in map(tracker.getStageInfo, stages):
                if stage is None or not stage.submissionTime():
                    continue
                if stage.name() == self._group:
                    rows_done += stage.numCompletedTasks()
                else:
                    done, known = done + stage.numCompletedTasks(), known + stage.numTasks()
        return done + min(max(rows_done, self._computed), self._partitions), known

    def open(self, wake: Callable[[], None]) -> None:
        """Adds a reader's wake function; the first caller starts the run."""
        with self._changed:
            self._wakes.append(wake)
            if self._threads or self._is_closed:
                return
            self._spark.began(self)
            self._start(self._begin)

    def take(self) -> pa.RecordBatch | bool | None:
        """The next batch; None if there is none now; False if there are no further ones. Raises
        an error of the run."""
        with self._changed:
            if self._error is not None:
                raise self._error
            for share in self._candidates():
                if share.batches:
                    batch = share.batches.popleft()
                    self._waiting -= 1
                    self._waiting_bytes -= batch.nbytes
                    self._changed.notify_all()
                    return batch
            return None if self._working else False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches, with waiting: for a single reader that has a thread of its own.

        Ends early if the run is closed.
        """
        news = Event()
        self.add_reader()
        try:
            self.open(news.set)
            while True:
                news.clear()
                taken = self.take()
                if isinstance(taken, pa.RecordBatch):
                    yield taken
                elif taken is False or self._is_closed:  # Spark may take long to end
                    return
                else:
                    news.wait()
        finally:
            self.close_reader()

    def close_reader(self) -> None:
        """Removes a reader; the last one ends the run."""
        with self._changed:
            self._readers -= 1
            if self._readers > 0:
                return
        self.close()

    def close(self) -> None:
        """Cancels the run without waiting, since Spark may take long."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            for share in self._shares:
                share.batches.clear()
            self._changed.notify_all()
            if self._working:
                self._canceller = Thread(
                    target=self._cancel, name=f"{self._group} cancel", daemon=True
                )
                self._canceller.start()
        self._wake()

    def join(self, seconds: float) -> None:
        """After `close`: waits up to `seconds` until the threads of the run have ended."""
        until = monotonic() + seconds
        threads = self._threads if self._canceller is None else [*self._threads, self._canceller]
        for thread in threads:
            if thread is not current_thread():
                thread.join(max(0.0, until - monotonic()))

    def _candidates(self) -> Iterator[FetchTask]:
        """The shares from which a batch may be read now; finished ones are dropped."""
        while self._shares and self._shares[0].is_done and not self._shares[0].batches:
            self._shares.popleft()
            self._changed.notify_all()
        if self.is_ordered:
            yield from [self._shares[0]] if self._shares else []
        else:
            yield from self._shares

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = Thread(target=self._guarded, args=(run, *args), name=self._group, daemon=True)
        self._threads.append(thread)
        self._working += 1
        thread.start()

    def _guarded(self, run: Callable[..., None], *args: Any) -> None:
        """Runs in a thread of its own, in the job group; the first failure becomes the error of
        the scan."""
        try:
            with spark_errors(), self._spark.group(self._group, self._description):
                run(*args)
        except Error as error:
            with self._changed:
                is_first = self._error is None and not self._is_closed
                if is_first:
                    self._error = error
            if is_first:
                self._cancel()
        finally:
            with self._changed:
                self._working -= 1
                if not self._working:
                    self._spark.ended(self)
                self._changed.notify_all()
            self._wake()

    def _begin(self) -> None:
        if callable(self._frame):
            self._frame = self._frame()
        self._lead()

    def _lead(self) -> None:
        """Plans the query and runs its shuffles; then works like the threads that it starts."""
        java = self._frame._jdf
        batches = java.toArrowBatchRdd(java.queryExecution().executedPlan()).toJavaRDD()
        self._partitions = batches.getNumPartitions()
        schema = arrow_schema(self._frame)
        cores = max(1, self._spark.context.defaultParallelism)
        least = first = max(1, cores // MOST_THREADS)
        if cores < self._partitions <= FEW_PARTITIONS and self._is_small():
            first = FIRST_ROUNDS * cores
        # One more than Spark has cores, so that no core waits for the next job.
        threads = max(1, min(MOST_THREADS, -(-self._partitions // first), cores + 1))
        with self._changed:
            self._least_size, self._share_size = least, first
            for _ in range(threads - 1):
                self._start(self._work, batches, schema)
        self._work(batches, schema)

    def _is_small(self) -> bool:
        _, size = self._spark.statistics(self._frame)
        return size is not None and size <= SURELY_SMALL_BYTES * self._partitions

    def _work(self, batches: Any, schema: pa.Schema) -> None:
        # The name of the stage that returns rows.
        self._spark.context.setLocalProperty("callSite.short", self._group)
        while (numbers := self._claim()) is not None:
            share, partitions = numbers
            began = monotonic()
            size = 0
            for taken in _handfuls(self._compute(batches, schema, partitions)):
                size += sum(batch.nbytes for batch in taken)
                if not self._put(share, taken):
                    return
            with self._changed:
                share.is_done = True
                self._share_size = max(
                    self._least_size, _next_size(self._share_size, size, monotonic() - began)
                )
            self._wake()

    def _claim(self) -> tuple[FetchTask, Sequence[int]] | None:
        with self._changed:
            if self._is_closed or self._error is not None or self._next >= self._partitions:
                return None
            first = self._next
            self._next = min(self._partitions, first + self._share_size)
            share = FetchTask()
            self._shares.append(share)
            return share, range(first, self._next)

    def _compute(
        self, batches: Any, schema: pa.Schema, partitions: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """Runs one job, which has ended when the first batch comes."""
        served = self._spark.computed(batches, partitions)
        with self._changed:
            self._computed += len(partitions)
        for message in _messages(served):
            yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)

    def _put(self, share: FetchTask, batches: Sequence[pa.RecordBatch]) -> bool:
        """Adds batches, after waiting for room. False: the run was closed or failed."""
        with self._changed:
            while self._is_full(share) and not self._is_closed and self._error is None:
                self._changed.wait()
            if self._is_closed or self._error is not None:
                return False
            share.batches.extend(batches)
            self._waiting += len(batches)
            self._waiting_bytes += sum(batch.nbytes for batch in batches)
        self._wake()
        return True

    def _is_full(self, share: FetchTask) -> bool:
        """Whether the reader has enough batches; the share whose turn it is, in order, is never
        full while empty."""
        is_awaited = (
            self.is_ordered and not share.batches and share is next(self._candidates(), None)
        )
        is_enough = self._waiting >= WAITING_BATCHES or self._waiting_bytes >= WAITING_BYTES
        return is_enough and not is_awaited

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    def _cancel(self) -> None:
        with suppress(Exception):  # the session may be gone, and its jobs with it
            self._spark.cancel(self._group)


def _next_size(current: int, size: int, seconds: float) -> int:
    if size < SMALL_BYTES and seconds < QUICK_SECONDS:
        return min(current * 4, LARGEST_SHARE)
    return max(1, current // 2)


def _handfuls(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches that have rows, some at a time."""
    taken: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            taken.append(batch)
            size += batch.nbytes
        if len(taken) >= HANDFUL_BATCHES or size >= HANDFUL_BYTES:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken


def _messages(served: Any) -> Iterator[bytes]:
    """The messages that Spark sends on a socket. OperationalError if the stream is truncated."""
    from pyspark.util import local_connect_and_auth

    stream, socket = local_connect_and_auth(served[0], served[1])
    try:
        socket.settimeout(None)
        while len(header := stream.read(4)) == 4:
            length = unpack("!i", header)[0]
            if length < 0:
                break
            message = stream.read(length)
            if len(message) < length:
                raise OperationalError(
                    "the rows of a Spark job were cut short", hint="look into Spark's log"
                )
            yield message
        served[2].getResult()  # raises an error of the sender
    finally:
        with suppress(OSError):
            stream.close()
        socket.close()


def arrow_schema(frame: Any) -> pa.Schema:
    """The schema of the batches that Spark writes for a DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")
