"""Joins of a stream with a table that is read again and again: the build side of a join, replaced
as a whole.

A version of the table is read between batches of the stream, and takes the place of the one before
it when all of it is there and indexed, so that each batch meets one version. All processors of an
execution share the versions: one of them reads, and when its input ends another one does. Nothing
goes into a snapshot, for the table is read anew afterwards.
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
    compile_transform,
    divided,
    pieces,
    works_slowly,
)
from runnel.processors.joins.build_side import JoinPlan, JoinShape, JoinTable
from runnel.processors.sources.scan import FAR_FUTURE, OpenPartition
from runnel.processors.stateful.buffered import EmittingProcessor, accumulated_too_much
from runnel.relation.nodes import Field
from runnel.storage.memory_budget import Reservation, size_of, too_large

WEIGHT = 2
"""How much memory a version needs for each byte: its rows in one piece, and the index."""

AT_ONCE = -1
"""An alarm that is due."""

_ENDS_THE_JOB = (ErrorCode.CANCELLED, ErrorCode.TIMEOUT)


@frozen
class Calculation:
    """A condition (None: all rows) and projections (None: all columns), which are called by
    `names`."""

    condition: Expression | None
    projections: tuple[Expression, ...] | None
    names: tuple[str, ...]


@frozen
class RefreshedTable:
    """What is read: `source`, then `calculations` over its rows, one after the other; again every
    `interval` nanoseconds."""

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
    """The table at one time. `maker`'s alone is the index in `table`; others make their own of the
    same rows."""

    table: JoinTable
    maker: RefreshedJoin


class Versions:
    """The versions of a table in one execution. `current` is the newest whole one, None before the
    first."""

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
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._current_bytes = 0
        self._started = 0
        self._due = 0
        self.current: Version | None = None

    def join(self, reader: RefreshedJoin) -> None:
        """A processor takes part. The first that asks for a step reads, until it leaves."""
        with self._lock:
            self._readers.append(reader)

    def leave(self, reader: RefreshedJoin) -> None:
        """A processor needs no more versions. If it was the one that reads, another one begins
        anew."""
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
        """The rows and bytes of the current version, told by the processor that reads."""
        version = self.current
        if version is None or self._reader is not reader:
            return 0, 0
        return version.table.build.num_rows, self._current_bytes

    def step(self, reader: RefreshedJoin) -> int:
        """Does a piece of the work that is due, if this processor is to do it: at most one read.
        Gives the time at which to be called again. Fails only before the first version."""
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
                'vertex "%s": the table could not be read again, its last version stays: %s',
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
        for place, (reading, partition) in enumerate(self._open):
            if reading.due > now:
                continue
            item = reading.read()
            if isinstance(item, End):
                del self._open[place]
                partition.close()
            elif isinstance(item, pa.RecordBatch):
                self._hold(reader, item)
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

    def _hold(self, reader: RefreshedJoin, batch: pa.RecordBatch) -> None:
        for rows in self._calculated(batch):
            if not rows.num_rows:
                continue
            self._held.append(rows)
            self._held_rows += rows.num_rows
            self._held_bytes += size_of(rows)
        limit, memory = self._job.accumulation_limit, self._job.memory
        if 0 < limit < self._held_rows:
            raise accumulated_too_much(reader.context.vertex, limit)
        # Until it is replaced, the version before is there too.
        total = self._held_bytes + self._current_bytes
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
                yield from pieces(batch, transform, evaluation)
                continue
            try:
                yield transform(batch, evaluation)
            except TooManyRows as error:
                yield from divided(batch, transform, evaluation, error.fitting)

    def _finish(self, reader: RefreshedJoin) -> None:
        """All of a version is there: it takes the place of the one before."""
        build = join_batches(self._held) if self._held else no_rows(self.rows.right_schema)
        is_first = self.current is None
        self.current = Version(JoinTable(self.rows, build, self._job.evaluation), reader)
        self._current_bytes = self._held_bytes
        self._abandon()
        self._due = max(self._started + self._plan.table.interval, self._job.clock())
        if is_first:
            with self._lock:
                waiting = [item for item in self._readers if item is not reader]
            for other in waiting:
                other.nudge()

    def _abandon(self) -> None:
        """Lets go of a version that isn't whole."""
        unread, self._open = self._open or (), None
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        if not self._reservation.is_trifle(self._current_bytes):
            self._reservation.set(self._current_bytes)
        for _, partition in unread:
            partition.close()

    def close(self) -> None:
        """The execution ended."""
        self._abandon()
        unread, self._first = self._first or (), None
        for partition in unread:
            partition.close()
        self.current = None
        self._reservation.release()


class RefreshedJoin(EmittingProcessor):
    """Gives each row of its input with what the current version of the table has for it."""

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
        # Asked for here, so that it isn't polled while another processor reads the first version.
        self._wake = context.wake
        self._versions.join(self)
        self.alarm = AT_ONCE

    def nudge(self) -> None:
        """There may be something to do; from any thread."""
        self._was_nudged = True
        self.alarm = AT_ONCE
        self._wake()

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if self._versions.current is None:
            # Rows wait for the first version, and as long as they do there are no alarms.
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
        # A nudge that came meanwhile must not be lost; a later one sets the alarm after this.
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


class _Supplier(ProcessorSupplier):
    def __init__(self, versions: Versions) -> None:
        self._versions = versions

    def get(self, count: int) -> Sequence[Processor]:
        return [RefreshedJoin(self._versions) for _ in range(count)]

    def close(self, error: BaseException | None) -> None:
        self._versions.close()


class RefreshedJoinSupplier(ProcessorMetaSupplier):
    """Asks for the first version when the execution starts: a table that isn't there fails the
    statement."""

    def __init__(self, plan: RefreshedJoinPlan) -> None:
        self._plan = plan

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        return [_Supplier(Versions(self._plan, context)) for _ in range(members)]


def refreshed_join(
    table: RefreshedTable,
    shape: JoinShape,
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> RefreshedJoinSupplier:
    """A supplier of processors that join their input, the left side, with a table, the right one,
    as it was when it was last read; as `processors.join.join`, for kinds that keep no rows of the
    right side."""
    return RefreshedJoinSupplier(RefreshedJoinPlan(table, JoinPlan(shape, keys, fields, names)))
