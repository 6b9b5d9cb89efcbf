"""The rows of one statement, on their way to Python: batches in, tuples or Arrow out.

A `Result` reads a job's result queue, or has all rows from the start (a key look-up, SHOW,
EXPLAIN). It decodes a slice of a batch at a time, so that a first row doesn't wait for sixty
thousand others. It belongs to one thread at a time; only `cancel` may be called from another.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from runnel.base.forks import finalizer, here
from runnel.deadline import WaitLimit
from runnel.errors import (
    Error,
    FetchTimeoutError,
    InterfaceError,
    OperationalError,
    may_succeed_here,
)
from runnel.expressions.kernels.python_values import UTC_NAME, fetched_values
from runnel.expressions.kernels.values import array_of
from runnel.processors.sinks.result_queue import DEFAULT_CAPACITY, ResultQueue
from runnel.relation.nodes import Field
from runnel.runtime.light_job import Job
from runnel.runtime.tasklets.failures import cancelled
from runnel.sqltypes import Kind, SqlType, to_arrow

Row = tuple[Any, ...]


class RowSource(Protocol):
    """The producer of rows that arrive over time: a job of this process or of a server."""

    results: ResultQueue
    is_done: bool

    def cancel(self) -> None:
        """Ends it soon, from any thread."""


Start = Callable[[Callable[[Job], object]], Job]
"""Starts a job, which is passed to the function before any of its tasklets runs."""

CACHED_ROWS = 8192
"""Number of rows of a large batch that are decoded together: their values are still in the
processor's cache when they are put in tuples."""
DECODE_ROWS = 4096
"""Number of rows that `one` and `some` decode at a time."""


SHOWN_ROWS = 20
"""Number of rows that a prompt, `show()` and a notebook show by default."""
FAILED = -2
"""The number of rows of a statement that failed."""


class ColumnDescription(NamedTuple):
    """One column in `Cursor.description` (PEP 249).

    name: name of the column.
    type_code: SQL type; it equals the type object of its family, such as NUMBER.
    precision, scale: of a DECIMAL, otherwise None.
    display_size, internal_size, null_ok: None.
    """

    name: str
    type_code: SqlType
    display_size: int | None = None
    internal_size: int | None = None
    precision: int | None = None
    scale: int | None = None
    null_ok: bool | None = None


def describe(name: str, sql_type: SqlType) -> ColumnDescription:
    """The description of a column of that type."""
    if sql_type.kind is Kind.DECIMAL:
        return ColumnDescription(name, sql_type, precision=sql_type.precision, scale=sql_type.scale)
    return ColumnDescription(name, sql_type)


def in_use_error() -> InterfaceError:
    """The error of a call on a cursor that another call uses."""
    return InterfaceError(
        "the cursor is in use by another thread or coroutine",
        hint="use one cursor for each; they may share the connection",
    )


class Result:
    """The rows of one statement.

    total: their number once it is known, else −1.
    is_unbounded: it is not known in advance whether the rows end.
    can_end: they may end all the same (a pushed stream).
    otherwise: starts a job that returns the same rows by Runnel's own operators; None: there is
        none.
    zone: the time zone of instants.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_decoded",
        "_epoch",
        "_finalizer",
        "_is_discarded",
        "_job",
        "_loaded",
        "_next",
        "_origin",
        "_queue",
        "_received",
        "_rows",
        "_stored",
        "can_end",
        "fields",
        "is_unbounded",
        "otherwise",
        "total",
        "zone",
    )

    def __init__(self, fields: tuple[Field, ...], rows: list[Row]) -> None:
        self.fields = fields
        self.is_unbounded = False
        self.can_end = True
        self.zone = UTC_NAME
        self.total = len(rows)
        # The rows decoded last, and how many of them were returned. They are the rows of `_batch`
        # that end at `_decoded`.
        self._rows = rows
        self._next = 0
        self._batch: pa.RecordBatch | None = None
        self._decoded = 0
        # Batches that `receive` took from the queue, before any that are still in it.
        self._received: deque[pa.RecordBatch] | None = None
        self._loaded = 0
        self._is_discarded = False
        self._stored: Iterator[pa.RecordBatch] | None = None
        self._origin = here()
        self.otherwise: Start | None = None
        self._job: RowSource | None = None
        self._queue: ResultQueue | None = None
        self._epoch: int | None = None
        self._finalizer: weakref.finalize[..., Result] | None = None

    @classmethod
    def of_job(
        cls, fields: tuple[Field, ...], job: RowSource, *, is_unbounded: bool, can_end: bool
    ) -> Result:
        """The rows that a job puts in its result queue. When the result is forgotten before the job
        has ended, the job is cancelled."""
        result = cls(fields, [])
        result.is_unbounded = is_unbounded
        result.can_end = can_end
        result.total = -1
        result._job = job
        result._queue = job.results
        if not job.is_done:
            result._finalizer = finalizer(result, job.cancel)
        return result

    @classmethod
    def of_stored(cls, fields: tuple[Field, ...], batches: Iterator[pa.RecordBatch]) -> Result:
        """Rows in memory, in batches that have columns like `fields`; taking one never waits."""
        result = cls(fields, [])
        result.total = -1
        result._stored = batches
        return result

    @property
    def is_stored(self) -> bool:
        """Whether the rows that are left are taken from memory, not from a job."""
        return self._stored is not None

    @property
    def job(self) -> RowSource | None:
        """The job that produces the rows; None if all rows are present."""
        return self._job

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([pa.field(item.name, _public_type(item.type)) for item in self.fields])

    def one(self, limit: WaitLimit | None = None) -> Row | None:
        """The next row, waited for; None after the last. FetchTimeoutError after the limit."""
        rows = self._rows
        position = self._next
        if position >= len(rows):
            if not self._decode(DECODE_ROWS, wait=True, limit=limit):
                return None
            rows = self._rows
            position = 0
        self._next = position + 1
        return rows[position]

    async def news(self, limit: WaitLimit | None = None) -> None:
        """Waits until the next row, or the end, has arrived, so that `one` doesn't wait; other
        coroutines run meanwhile. FetchTimeoutError after the limit."""
        while self._next >= len(self._rows) and not self._decode(DECODE_ROWS, wait=False):
            job = self._job
            if job is None or (job.results.is_ended and not len(job.results)):
                return
            await _news_of(job, limit)

    @property
    def has_ready(self) -> bool:
        """Whether there are rows that need not be waited for."""
        return self._next < len(self._rows) or self._decode(DECODE_ROWS, wait=False)

    def ready(self, count: int) -> list[Row]:
        """At most `count` of the rows that `news` has found."""
        last = min(self._next + count, len(self._rows))
        rows = self._rows[self._next : last]
        self._next = last
        return rows

    def some(self, count: int, limit: WaitLimit | None = None) -> list[Row]:
        """At most `count` rows, [] after the last. Of an unbounded result: the rows that have
        arrived, at least one; else exactly `count` unless the end comes first, or the limit: then
        the rows that have arrived, FetchTimeoutError if none has."""
        rows: list[Row] = []
        while len(rows) < count:
            if self._next >= len(self._rows):
                wait = not (self.is_unbounded and rows)
                try:
                    if not self._decode(
                        max(DECODE_ROWS, count - len(rows)), wait=wait, limit=limit
                    ):
                        break
                except FetchTimeoutError:
                    if not rows:
                        raise
                    break
            last = min(self._next + count - len(rows), len(self._rows))
            rows += self._rows[self._next : last]
            self._next = last
        return rows

    def gather(self, count: int) -> None:
        """Waits until `count` rows, or all that are left, have arrived; they stay. Of an unbounded
        result it waits for none."""
        if self.is_unbounded:
            return
        missing = count - sum(batch.num_rows for batch in self._here())
        while missing > 0 and (batch := self._from_queue(wait=True, limit=None)) is not None:
            self.add_received(batch)
            missing -= batch.num_rows

    def peek(self, count: int) -> tuple[list[Row], int | None]:
        """At most `count` of the next rows that have arrived, which stay, and the number of rows
        that are left, None while it is unknown. It waits for nothing, starts nothing, and does not
        fail."""
        job = self._job
        if self._stored is not None:
            self._take_stored()
        is_complete = self._stored is None and (
            job is None or (job.results.is_ended and job.results.failure is None)
        )
        batches = [*self._here(), *([] if job is None else job.results.waiting())]
        rows = self._rows[self._next : self._next + count]
        left = len(self._rows) - self._next + sum(batch.num_rows for batch in batches)
        for batch in batches:
            if len(rows) >= count:
                break
            rows += self._tuples(batch.slice(0, count - len(rows)))
        return rows, left if is_complete else None

    @property
    def fetched(self) -> int:
        """The number of rows that were returned so far."""
        left: int = len(self._rows) - self._next + sum(item.num_rows for item in self._here())
        return max(self._loaded, self.total) - left

    @property
    def epoch(self) -> int | None:
        """Of EMIT CHANGES: the last epoch all of whose rows were returned; None: there is none."""
        # Also after the end of the job, its queue has the epochs of the rows.
        if self._queue is not None:
            self._epoch = self._queue.epoch_of(self.fetched, self._epoch)
        return self._epoch

    @property
    def has_failed(self) -> bool:
        """Whether a fetch will raise an error after the rows that have arrived."""
        job = self._job
        return job is not None and job.results.failure is not None and self.otherwise is None

    def _here(self) -> list[pa.RecordBatch]:
        """The rows after the decoded ones that were taken from the queue."""
        rest = [] if self._batch is None else [self._batch.slice(self._decoded)]
        received = self._received
        return rest if received is None else [*rest, *received.copy()]

    def receive(self, limit: WaitLimit) -> None:
        """Waits until all rows have arrived, so that reading them does not wait. FetchTimeoutError
        after the limit: the rows that have arrived stay to be read."""
        while (batch := self._from_queue(wait=True, limit=limit)) is not None:
            self.add_received(batch)

    async def receive_async(self, limit: WaitLimit) -> None:
        """As `receive`; other coroutines run meanwhile."""
        while (job := self._job) is not None:
            await _news_of(job, limit)
            # Another job may begin instead of one that failed: then this waits for its news.
            with suppress(FetchTimeoutError):
                batch = self._from_queue(wait=True, limit=WaitLimit(0))
                if batch is not None:
                    self.add_received(batch)

    def _take_stored(self) -> None:
        """Takes stored rows, as many batches as a job would have waiting, to be looked at."""
        with suppress(OperationalError):  # they were cancelled
            while len(self._received or ()) < DEFAULT_CAPACITY:
                batch = self._from_memory()
                if batch is None:
                    break
                self.add_received(batch)

    def add_received(self, *batches: pa.RecordBatch) -> None:
        """Adds rows after those that were received before."""
        self._received = self._received or deque()
        self._received.extend(batches)

    def rest(self) -> list[Row]:
        """All rows that are left, waited for."""
        rows = self._rows[self._next :]
        # A million new tuples, none of them garbage, would be looked through again and again: a
        # third of the time of a fetch.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            if self._batch is not None:
                rows += self._tuples(self._batch.slice(self._decoded))
            self._forget()
            while (batch := self._load(wait=True)) is not None:
                if batch.num_rows <= CACHED_ROWS:
                    rows += self._tuples(batch)
                    continue
                for start in range(0, batch.num_rows, CACHED_ROWS):
                    rows += self._tuples(batch.slice(start, CACHED_ROWS))
        finally:
            if was_enabled:
                gc.enable()
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left, as batches of `schema`, each waited for."""
        schema = self.schema
        while (batch := self.next_batch(schema)) is not None:
            yield batch

    def table(self) -> pa.Table:
        """The rows that are left, waited for, as a table of `schema`."""
        if self._stored is None or self._loaded:
            return pa.Table.from_batches(self.batches(), schema=self.schema)
        # No row was taken yet: the batches are passed on without a look at each.
        schema, batches = self.schema, list(self._stored)
        self._stored = None
        if batches and not batches[0].schema.equals(schema):
            batches = [_conform(batch, schema) for batch in batches]
        table = pa.Table.from_batches(batches, schema=schema)
        self.total = self._loaded = table.num_rows
        return table

    def next_batch(
        self, schema: pa.Schema, limit: WaitLimit | None = None
    ) -> pa.RecordBatch | None:
        """The next rows that are left, waited for, as a batch of `schema`; None after the last.
        FetchTimeoutError after the limit."""
        if self._batch is not None:
            left = self._batch.slice(self._decoded - len(self._rows) + self._next)
            self._forget()
            if left.num_rows:
                return _conform(left, schema)
        elif self._next < len(self._rows):
            rows = self._rows[self._next :]
            self._forget()
            return _conform(rows_as_batch(rows, self.fields), schema)
        batch = self._load(wait=True, limit=limit)
        return None if batch is None else _conform(batch, schema)

    def cancel(self) -> None:
        """Ends the job: a thread that waits for its rows, or takes stored ones, gets an
        OperationalError."""
        job = self._job
        if job is not None:
            job.cancel()
        elif self._stored is not None:
            self._stored = _cancelled()

    def discard(self) -> None:
        """Cancels the job and releases the rows. A later read raises InterfaceError if rows were
        left, so that this end is not mistaken for the end of the rows."""
        if self._origin.is_left:
            self._forget()  # the job is the parent's
            return
        job = self._job
        if (
            job is not None
            or self._next < len(self._rows)
            or (self._batch is not None and self._decoded < len(self._batch))
            or self._received
            or self._stored is not None
        ):
            self._is_discarded = True
        self._stored = None
        if job is not None:
            job.cancel()
            job.results.close()
            self._ended()
        self._received = None
        self._forget()

    def _decode(self, count: int, *, wait: bool, limit: WaitLimit | None = None) -> bool:
        """Replaces the decoded rows by the next ones, about `count` of them. False: there are none
        (without `wait`: yet)."""
        batch = self._batch
        if batch is None or self._decoded >= batch.num_rows:
            self._forget()
            batch = self._load(wait=wait, limit=limit)
            if batch is None:
                return False
            self._batch = batch
        start = self._decoded
        self._decoded = min(start + count, batch.num_rows)
        self._rows = list(self._tuples(batch.slice(start, self._decoded - start)))
        self._next = 0
        return True

    def _load(self, *, wait: bool, limit: WaitLimit | None = None) -> pa.RecordBatch | None:
        """The next batch with rows. None: there is none (without `wait`: yet)."""
        if self._received:
            self._origin.check()
            return self._received.popleft()
        return self._from_queue(wait=wait, limit=limit)

    def _from_queue(self, *, wait: bool, limit: WaitLimit | None) -> pa.RecordBatch | None:
        """The next batch with rows from the queue. None: there is none (without `wait`: yet).
        FetchTimeoutError after the limit: the job continues."""
        if self._origin.is_left:
            self._origin.check()
        job = self._job
        if self._is_discarded:
            raise InterfaceError(
                "the cursor was closed, or ran another statement, before all rows were read",
                hint="read all rows first, or run the other statement on a cursor of its own",
            )
        if job is None:
            return None if self._stored is None else self._from_memory()
        while True:
            if limit is not None and isinstance(job, Job):
                job.hand_over()  # this thread could not leave an operator's call in time
            try:
                batch = job.results.next_within(limit) if wait else job.results.poll()
            except FetchTimeoutError:
                raise
            except Exception as error:
                if self._begins_anew(error):
                    job = self._job
                    assert job is not None
                    continue
                # The error leads back here by its traceback, and the job to the error: a finalizer
                # would keep them all.
                job.cancel()
                self._keep_no_finalizer()
                self._received = None
                raise
            if batch is None:
                if wait:
                    self.total = self._loaded
                    self._ended()
                return None
            if batch.num_rows:
                if job.results.has_epochs:
                    self._epoch = self.epoch  # and the queue forgets the ones before it
                self._loaded += batch.num_rows
                return batch

    def _from_memory(self) -> pa.RecordBatch | None:
        """The next batch of stored rows; None after the last."""
        assert self._stored is not None
        for batch in self._stored:
            if batch.num_rows:
                self._loaded += batch.num_rows
                return batch
        self.total = self._loaded
        self._stored = None
        return None

    def _begins_anew(self, error: Exception) -> bool:
        """Whether another job was started in the place of the one that failed with this error."""
        otherwise, self.otherwise = self.otherwise, None
        if (
            otherwise is None
            or self._loaded
            or not isinstance(error, Error)
            or not may_succeed_here(error)
        ):
            return False
        self._keep_no_finalizer()
        # It becomes the job of this result before the cursor is notified: a thread that cancels
        # meanwhile is noticed there, or finds the new job here.
        job = otherwise(self._take_over)
        self._finalizer = finalizer(self, job.cancel)
        return True

    def _take_over(self, job: RowSource) -> None:
        self._job = job
        self._queue = job.results

    def _ended(self) -> None:
        if self._finalizer is not None:
            self._keep_no_finalizer()
        self._job = self.otherwise = None  # they refer to the data that the statement reads

    def _keep_no_finalizer(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None

    def _forget(self) -> None:
        self._rows = []
        self._next = 0
        self._batch = None
        self._decoded = 0

    def _tuples(self, batch: pa.RecordBatch) -> Iterator[Row]:
        columns = [
            fetched_values(column, item.type, self.zone)
            for column, item in zip(batch.columns, self.fields, strict=True)
        ]
        return zip(*columns, strict=True)


def _cancelled() -> Iterator[pa.RecordBatch]:
    raise cancelled()
    yield


async def _news_of(job: RowSource, limit: WaitLimit | None) -> None:
    """Waits until the job has a batch in its queue, or has ended; FetchTimeoutError after the
    limit."""
    from runnel.base.awaiting import Wake, until

    if isinstance(job, Job):
        job.hand_over()
    queue = job.results

    def subscribe(wake: Wake) -> Callable[[], None]:
        queue.tell_news(wake)
        return queue.forget_news

    end = None if limit is None else limit.end
    if not await until(lambda: queue.has_news, subscribe, end):
        assert limit is not None
        raise limit.error()


def rows_as_batch(rows: list[Row], fields: tuple[Field, ...]) -> pa.RecordBatch:
    """Python rows as one batch; DataError naming the value that doesn't fit its column."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [
        array_of(list(values), item.type) for values, item in zip(columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[item.name for item in fields])


def _public_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type in which values are returned: Arrow's own type for a UUID, which is text
    internally."""
    return pa.uuid() if sql_type.kind is Kind.UUID else to_arrow(sql_type)


def _public(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    if not isinstance(arrow, pa.UuidType):
        return column
    from runnel.expressions.text import uuids

    return uuids.to_storage(column)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under the result's own column names."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        _public(column, item.type) for column, item in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
