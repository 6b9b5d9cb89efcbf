"""Joins of a stream with a table that is re-read periodically.

A version of the table is read between batches of the stream. It replaces the version before it when
it has been completely read and indexed, so that each batch is joined with one version. All
processors of an execution share the versions: one of them reads, and when its input ends another
one does. There is no state in snapshots, as the table is read again after a restore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import join_batches, no_rows
from runnel.connector import End, Source, SourcePartition
from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier
from runnel.errors import Error, ErrorCode
from runnel.expressions.kernels.result_size import TooManyRows
from runnel.expressions.nodes import Expression
from runnel.processor import Inbox, JobContext, Outbox, Processor, ProcessorContext
from runnel.processors.calc import (
    SLOW_ROWS,
    Transform,
    chunked,
    compile_transform,
    divided,
    works_slowly,
)
from runnel.processors.joins.build_side import JoinPlan, JoinShape, JoinTable
from runnel.processors.sources.open_partition import FAR_FUTURE, OpenPartition
from runnel.processors.stateful.buffered import EmittingProcessor, accumulated_too_much
from runnel.relation.nodes import Field
from runnel.storage.memory_budget import Reservation, size_of, too_large

WEIGHT = 2
"""Bytes of memory that a version needs per byte: its rows in one batch, and the index."""

AT_ONCE = -1
"""The time of an alarm that is due immediately."""

_ENDS_THE_JOB = (ErrorCode.CANCELLED, ErrorCode.TIMEOUT)


@frozen
class Calculation:
    """A filter and a projection.

    condition: only rows for which it is true remain; None: all rows.
    projections: the columns of the result; None: all columns.
    names: the names of the result's columns.
    """

    condition: Expression | None
    projections: tuple[Expression, ...] | None
    names: tuple[str, ...]


@frozen
class RefreshedTable:
    """A table that is read periodically.

    source: the source of the rows.
    calculations: are applied to the rows one after another.
    interval: the time between the starts of two reads, in nanoseconds.
    """

    source: Source
    calculations: tuple[Calculation, ...]
    interval: int


class RefreshedJoinPlan:
    """A compiled join, shared by executions."""

    def __init__(self, table: RefreshedTable, rows: JoinPlan) -> None:
        self.table = table
        self.rows = rows
        self.transforms = [
            (
                compile_transform(item.condition, item.projections, item.names),
                works_slowly(item.condition, item.projections),
            )
            for item in table.calculations
        ]


@frozen
class Version:
    """A version of the table.

    table: the indexed rows. Only `maker` uses this index; other processors index the same rows
        again.
    maker: the processor that read the version.
    """

    table: JoinTable
    maker: RefreshedJoin


class Versions:
    """The versions of a table in one execution.

    current: the newest complete version; None before the first one.
    """

    def __init__(self, plan: RefreshedJoinPlan, context: JobContext) -> None:
        self._plan = plan
        self.rows = plan.rows
        self._job = context
        self._first: Sequence[SourcePartition] | None = plan.table.source.split(context)
        self._lock = Lock()
        self._readers: list[RefreshedJoin] = []
        self._reader: RefreshedJoin | None = None
        self._reservation = Reservation(context.memory, WEIGHT)
        self._open: list[tuple[OpenPartition, SourcePartition]] | None = None
        self._next_batches: list[pa.RecordBatch] = []
        self._next_rows = 0
        self._next_bytes = 0
        self._current_bytes = 0
        self._started = 0
        self._due = 0
        self.current: Version | None = None

    def join(self, reader: RefreshedJoin) -> None:
        """Register a processor. The first one that calls `step` reads, until it leaves."""
        with self._lock:
            self._readers.append(reader)

    def leave(self, reader: RefreshedJoin) -> None:
        """Deregister a processor. If it was the reader, another processor starts a new read."""
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)
            if self._reader is not reader:
                return
            self._abandon()
            self._reader = None
            others = tuple(self._readers)
        for other in others:
            other.nudge()

    def size_for(self, reader: RefreshedJoin) -> tuple[int, int]:
        """Return the rows and bytes of the current version, or 0 and 0 if `reader` doesn't read."""
        version = self.current
        if version is None or self._reader is not reader:
            return 0, 0
        return version.table.build.num_rows, self._current_bytes

    def step(self, reader: RefreshedJoin) -> int:
        """Do at most one read, if `reader` is the processor that reads and a read is due.

        Returns the time at which to call again. Before the first version, errors are raised; later
        they are logged, and the current version remains.
        """
        with self._lock:
            if self._reader is None:
                self._reader = reader
            elif self._reader is not reader:
                return FAR_FUTURE
        try:
            return self._step(reader)
        except Error as error:
            if self.current is None or error.code in _ENDS_THE_JOB:
                raise
            reader.context.logger.warning(
                'vertex "%s": the table could not be read again; its last version stays in use: %s',
                reader.context.vertex,
                error,
            )
            self._abandon()
            self._due = self._job.clock() + self._plan.table.interval
            return self._due

    def _step(self, reader: RefreshedJoin) -> int:
        now = self._job.clock()
        if self._open is None:
            if now < self._due:
                return self._due
            self._begin(reader, now)
        assert self._open is not None
        for index, (reading, partition) in enumerate(self._open):
            if reading.due > now:
                continue
            item = reading.read()
            if isinstance(item, End):
                del self._open[index]
                partition.close()
            elif isinstance(item, pa.RecordBatch):
                self._buffer(reader, item)
            break
        if not self._open:
            self._finish(reader)
            return self._due
        return min(reading.due for reading, _ in self._open)

    def _begin(self, reader: RefreshedJoin, now: int) -> None:
        self._started = now
        partitions, self._first = self._first, None
        if partitions is None:
            partitions = self._plan.table.source.split(self._job)
        opened: list[tuple[OpenPartition, SourcePartition]] = []
        try:
            for number, partition in enumerate(partitions):
                opened.append((OpenPartition(number, partition, reader.nudge), partition))
        except BaseException:
            for partition in partitions:
                partition.close()
            raise
        self._open = opened

    def _buffer(self, reader: RefreshedJoin, batch: pa.RecordBatch) -> None:
        for rows in self._calculated(batch):
            if not rows.num_rows:
                continue
            self._next_batches.append(rows)
            self._next_rows += rows.num_rows
            self._next_bytes += size_of(rows)
        limit, memory = self._job.accumulation_limit, self._job.memory
        if 0 < limit < self._next_rows:
            raise accumulated_too_much(reader.context.vertex, limit)
        # Until it is replaced, the version before is in memory too.
        total = self._next_bytes + self._current_bytes
        if not self._reservation.is_trifle(total):
            self._reservation.set(total)
        if memory is not None and 0 < memory.limit < total:
            raise too_large("the rows that a stream is joined with", memory)

    def _calculated(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = iter((batch,))
        for transform, is_slow in self._plan.transforms:
            rows = self._applied(rows, transform, is_slow)
        return rows

    def _applied(
        self, batches: Iterator[pa.RecordBatch], transform: Transform, is_slow: bool
    ) -> Iterator[pa.RecordBatch]:
        evaluation = self._job.evaluation
        for batch in batches:
            if is_slow and batch.num_rows > SLOW_ROWS:
                yield from chunked(batch, transform, evaluation)
                continue
            try:
                yield transform(batch, evaluation)
            except TooManyRows as error:
                yield from divided(batch, transform, evaluation, error.fitting)

    def _finish(self, reader: RefreshedJoin) -> None:
        """Make the version that was completely read the current one."""
        build = (
            join_batches(self._next_batches)
            if self._next_batches
            else no_rows(self.rows.right_schema)
        )
        is_first = self.current is None
        self.current = Version(JoinTable(self.rows, build, self._job.evaluation), reader)
        self._current_bytes = self._next_bytes
        self._abandon()
        self._due = max(self._started + self._plan.table.interval, self._job.clock())
        if is_first:
            with self._lock:
                waiting = [item for item in self._readers if item is not reader]
            for other in waiting:
                other.nudge()

    def _abandon(self) -> None:
        """Discard the version that is being read."""
        unread, self._open = self._open or (), None
        self._next_batches, self._next_rows, self._next_bytes = [], 0, 0
        if not self._reservation.is_trifle(self._current_bytes):
            self._reservation.set(self._current_bytes)
        for _, partition in unread:
            partition.close()

    def close(self) -> None:
        """Release all resources at the end of the execution."""
        self._abandon()
        unread, self._first = self._first or (), None
        for partition in unread:
            partition.close()
        self.current = None
        self._reservation.release()


class RefreshedJoin(EmittingProcessor):
    """Joins its input with the current version of the table."""

    cooperative = False

    def __init__(self, versions: Versions) -> None:
        super().__init__()
        self._versions = versions
        self._version: Version | None = None
        self._table: JoinTable | None = None
        self._was_nudged = False
        self._has_left = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        # Requested here, so that the processor isn't polled while another one reads the first
        # version.
        self._wake = context.wake
        self._versions.join(self)
        self.alarm = AT_ONCE

    def nudge(self) -> None:
        """Request a step, from any thread."""
        self._was_nudged = True
        self.alarm = AT_ONCE
        self._wake()

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if self._versions.current is None:
            # Rows wait for the first version, and there are no alarms while they wait.
            self._step()
            if self._versions.current is None:
                self._call_again()
                return
        super().process(ordinal, inbox)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        version = self._versions.current
        assert version is not None
        if self._table is None or version is not self._version:
            table, self._version = version.table, version
            is_own = version.maker is self
            self._table = (
                table
                if is_own
                else JoinTable(self._versions.rows, table.build, self.context.job.evaluation)
            )
        self.emit_all(self._table.probe(batch))

    def on_alarm(self) -> bool:
        self._step()
        return True

    def _step(self) -> None:
        self._was_nudged = False
        due = self._versions.step(self)
        self.alarm = 0 if due >= FAR_FUTURE else due or AT_ONCE
        # A nudge during the step must not be lost; a later nudge sets the alarm itself.
        if self._was_nudged:
            self.alarm = AT_ONCE

    def _call_again(self) -> None:
        if self.alarm:
            self.context.wake_at(self.alarm)

    def complete(self) -> bool:
        if not self.drain():
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._versions.leave(self)

    def state_size(self) -> tuple[int, int]:
        return self._versions.size_for(self)

    def close(self) -> None:
        super().close()
        self._version = self._table = None
        self._leave()


class _RefreshedJoinSupplier(ProcessorSupplier):
    def __init__(self, versions: Versions) -> None:
        self._versions = versions

    def get(self, count: int) -> Sequence[Processor]:
        return [RefreshedJoin(self._versions) for _ in range(count)]

    def close(self, error: BaseException | None) -> None:
        self._versions.close()


class RefreshedJoinSupplier(ProcessorMetaSupplier):
    """Splits the source when the execution starts, so that a missing table fails the statement."""

    def __init__(self, plan: RefreshedJoinPlan) -> None:
        self._plan = plan

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        return [_RefreshedJoinSupplier(Versions(self._plan, context)) for _ in range(members)]


def refreshed_join(
    table: RefreshedTable,
    shape: JoinShape,
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> RefreshedJoinSupplier:
    """Return a supplier of processors that join a stream with a table that is re-read periodically.

    The stream is the left side, the table the right side. The parameters are as in `join.join`; the
    kind must not emit right rows without a match.
    """
    return RefreshedJoinSupplier(RefreshedJoinPlan(table, JoinPlan(shape, keys, fields, names)))
