"""Scans: reads a source.

The partitions of the source are distributed among processors. Filter and projection are applied to
the batches while reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from runnel.columns.batches import join_batches
from runnel.connector import End, Pause, Source, SourcePartition, Token
from runnel.dag import DAG, ProcessorMetaSupplier, ProcessorSupplier
from runnel.errors import OperationalError
from runnel.expressions.kernels.result_size import TooManyRows
from runnel.expressions.nodes import Expression
from runnel.processor import (
    JobContext,
    Outbox,
    Processor,
    ProcessorContext,
    SourceCounters,
    SourceWatermark,
    Transactional,
    WatermarkSource,
)
from runnel.processors.calc import (
    SLOW_ROWS,
    Transform,
    chunked,
    compile_transform,
    divided,
    works_slowly,
)
from runnel.processors.sources.open_partition import FAR_FUTURE, OpenPartition
from runnel.processors.sources.scan_state import (
    SavedPartition,
    ScanShare,
    decode,
    encode,
    named,
    position_text,
)
from runnel.processors.sources.traits import check_traits
from runnel.processors.stateful.buffered import MAKING_TIME, EmittingProcessor
from runnel.watermarks import LeastWatermark

if TYPE_CHECKING:
    from runnel.expressions.context import EvaluationContext
    from runnel.processors.sources.scan_watermarks import ScanWatermarks

READS_PER_CALL = 16
"""Maximum number of batches that one cooperative call reads, in addition to the limit in time."""

FEW_ROWS = 512
"""After a batch of fewer rows, a partition rests if the job allows lingering."""


class DeferredPartitions(Protocol):
    """The partitions of a scan, if they depend on the rows of its inputs."""

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Add rows of input `ordinal`."""

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the partitions. Called once, after the inputs have ended."""


class ScanProcessor(EmittingProcessor, Transactional, SourceCounters, WatermarkSource):
    """Reads its partitions in turn, and emits their transformed batches.

    A partition that pauses isn't read before it is due.

    share: the partitions of this processor.
    transform: computes the rows to emit.
    slow: whether the transformation of a batch may take long.
    watermarks: generates watermarks from the rows; None: none are emitted.
    deferred: determines the partitions instead of `share`; None: `share` has them.
    """

    def __init__(
        self,
        share: ScanShare,
        transform: Transform,
        slow: bool,
        watermarks: ScanWatermarks | None = None,
        deferred: DeferredPartitions | None = None,
    ) -> None:
        super().__init__()
        self._watermarks = watermarks
        self._deferred = deferred
        self._is_slow = slow
        self.cooperative = share.is_cooperative
        self.holds_snapshots = not share.is_lasting
        self._share = share
        self._partitions = share.partitions
        self._names = share.names
        self._begun = [False] * len(share.partitions)
        self._saved: list[SavedPartition] = []
        self._ended: list[SavedPartition] = []
        self._transform = transform
        self._open: list[OpenPartition] | None = None
        self._next = 0

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if self._watermarks is not None:
            count = len(self._partitions)
            self._watermarks.init(outbox, context, count, self._own_watermark)

    @property
    def malformed_records(self) -> int:
        count = 0
        for partition in self._partitions:
            count += partition.malformed
        return count

    @property
    def skipped_rows(self) -> int:
        return self._share.skipped

    def tasks(self) -> tuple[int, int]:
        tasks = [partition.tasks() for partition in self._partitions]
        return sum(done for done, _ in tasks), sum(known for _, known in tasks)

    def progress(self) -> dict[int, tuple[int, int]]:
        found = ((i, item.progress()) for i, item in enumerate(self._partitions))
        return {i: item for i, item in found if item is not None}

    @property
    def is_between_epochs(self) -> bool:  # type: ignore[override]
        return all(item.is_between_epochs for item in self._partitions)

    def source_watermark(self) -> SourceWatermark | None:
        if self._watermarks is None:
            return None
        return self._watermarks.common_watermark() or self._own_watermark()

    def _own_watermark(self) -> SourceWatermark:
        assert self._watermarks is not None
        names = self._names if self._share.has_siblings else [""] * len(self._names)
        data = [partition.data_name for partition in self._partitions]
        if any(data):
            names = [item or name for item, name in zip(data, names, strict=False)]
        return self._watermarks.source_watermark(names, self._begun)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        assert self._deferred is not None
        self._deferred.add(ordinal, batch)

    def drain(self) -> bool:
        """Offer the results that wait, then the watermarks that follow them."""
        return super().drain() and (self._watermarks is None or self._watermarks.offer())

    def complete(self) -> bool:
        if self._open is None:
            if self._deferred is not None:
                self._partitions = list(self._deferred.partitions())
                self._begun = [False] * len(self._partitions)
            self._open = [
                OpenPartition(number, item, self.context.wake)
                for number, item in enumerate(self._partitions)
            ]
        if not self.drain():
            return False
        until = self.context.job.clock() + MAKING_TIME
        for _ in range(READS_PER_CALL if self.cooperative else 1):
            partition = self._due_partition()
            if partition is None:
                return self._wait()
            if not self._read(partition):
                return False
            if self.context.job.clock() > until:
                break
        self.context.wake()
        return False

    def _due_partition(self) -> OpenPartition | None:
        """Return the next partition, in turn, that is due; None if there is none."""
        assert self._open is not None
        now = None
        for _ in range(len(self._open)):
            self._next = (self._next + 1) % len(self._open)
            partition = self._open[self._next]
            if partition.due:
                now = self.context.job.clock() if now is None else now
                if partition.due > now:
                    continue
            return partition
        return None

    def _read(self, partition: OpenPartition) -> bool:
        """Read once and offer the result; returns false if the outbox is full."""
        assert self._open is not None
        try:
            item = partition.read()
        except OperationalError as error:
            self._share.skip(error, partition.partition)
            partition.due = 0
            return True
        linger = self.context.job.linger
        if linger and isinstance(item, pa.RecordBatch):
            partition.rest(self.context.job.clock() + linger if item.num_rows < FEW_ROWS else 0)
        if not isinstance(item, Pause):
            self._begun[partition.number] = True
            self.reads += 1
        if self._watermarks is not None:
            resumption = self._watermarks.observe(partition, item, self._open)
            if resumption is not None:
                self.emit_item(resumption)
        if isinstance(item, End):
            self._open.remove(partition)
            if self._watermarks is None:
                return True  # nothing was emitted since the results were drained
        elif isinstance(item, pa.RecordBatch):
            if self._is_slow and item.num_rows > SLOW_ROWS:
                self.emit_all(chunked(item, self._transform, self.context.job.evaluation))
            else:
                self._emit_transformed(item)
        return self.drain()

    def _emit_transformed(self, batch: pa.RecordBatch) -> None:
        evaluation = self.context.job.evaluation
        try:
            self.emit(self._transform(batch, evaluation))
        except TooManyRows as error:
            self.emit_all(divided(batch, self._transform, evaluation, error.fitting))

    def _wait(self) -> bool:
        """Wait for a partition; returns true if all partitions have ended."""
        assert self._open is not None
        if not self._open:
            return True  # all of their rows were offered: `_due_partition` is asked only then
        if self._watermarks is not None:
            self._watermarks.nothing_due(self._open)
            if not self.drain():
                return False
            self._watermarks.wait()
        earliest = min(item.due for item in self._open)
        if earliest < FAR_FUTURE:
            self.context.wake_at(earliest)
        return False

    def state(self) -> Iterable[pa.RecordBatch]:
        """Return a batch with a row for each partition."""
        is_open = (
            {item.number for item in self._open}
            if self._open is not None
            else range(len(self._partitions))
        )
        rows = [
            self._state_of(number, number in is_open) for number in range(len(self._partitions))
        ]
        return [encode([*self._ended, *rows])]

    def _state_of(self, number: int, is_open: bool) -> SavedPartition:
        """Return the state of a partition."""
        name = self._names[number]
        if not is_open:
            return SavedPartition(name, is_begun=True, is_ended=True)
        item = SavedPartition(name, position_text(self._partitions[number]), self._begun[number])
        return item if self._watermarks is None else self._watermarks.saved(number, item)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._saved.extend(decode(batch))

    def finish_restore(self) -> bool:
        known, self._saved = self._saved, []
        restored = self._share.restored(known, self.context.index, self.context.parallelism)
        self._names = [name for name, _, _ in restored]
        self._partitions = [partition for _, partition, _ in restored]
        self._begun = [item is not None and item.is_begun for _, _, item in restored]
        if not self.context.index:
            self._ended = [item for item in known if item.is_ended]
        if self._watermarks is not None:
            self._watermarks.restored([item for _, _, item in restored])
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        for partition in self._partitions:
            partition.committed(success)
        return True

    def close(self) -> None:
        super().close()
        for partition in self._partitions:
            partition.close()


def beginnings_of(dag: DAG) -> dict[str, dict[str, Token]]:
    """Return the first positions of the sources of the last execution, by vertex and partition.

    Only of sources that can begin at any position.
    """
    scans = {
        item.name: item.supplier
        for item in dag.vertices.values()
        if isinstance(item.supplier, ScanMetaSupplier)
    }
    return {name: supplier.beginnings for name, supplier in scans.items() if supplier.beginnings}


MakeScan = Callable[[ScanShare], Processor]


class ScanSupplier(ProcessorSupplier):
    """Creates the scans of one member.

    shares: the partitions of each processor.
    make: creates a scan.
    """

    def __init__(self, shares: Sequence[ScanShare], make: MakeScan) -> None:
        self._shares = shares
        self._make = make

    def get(self, count: int) -> Sequence[Processor]:
        assert count == len(self._shares)
        return list(map(self._make, self._shares))


class ScanMetaSupplier(ProcessorMetaSupplier):
    """Splits the source once per execution, and distributes its partitions round-robin.

    It is part of a plan that several executions may use at the same time. Therefore the partitions
    that `preferred_parallelism` has split are stored by execution until `get` uses them.
    """

    def __init__(self, source: Source, make: MakeScan, transform: Transform | None = None) -> None:
        """`transform`: all that the scans do with the rows; None: they do more."""
        check_traits(source)
        self.source = source
        self._make = make
        self._transform = transform
        self._split: dict[int, tuple[JobContext, Sequence[SourcePartition]]] = {}
        self.beginnings: dict[str, Token] = {}
        """The first position of each partition in the last execution of a named job, if the source
        can begin at any position."""

    def preferred_parallelism(self, context: JobContext) -> int | None:
        partitions = self.source.split(context)
        self._split[id(context)] = (context, partitions)
        return max(1, len(partitions))

    def stored_rows(self, evaluation: EvaluationContext) -> pa.RecordBatch | None:
        """Return the rows that the scans emit, as one batch, of a source of few rows in memory;
        None for other sources."""
        stored = self.source.stored()
        if stored is None or self._transform is None:
            return None
        batches = list(stored)
        return self._transform(join_batches(batches), evaluation) if batches else None

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        known = self._split.pop(id(context), None)
        partitions = self.source.split(context) if known is None else known[1]
        total = members * parallelism
        by_name = named(partitions)
        if context.owner and self.source.traits.begins_anywhere:
            positions = {name: partition.position() for name, partition in by_name.items()}
            self.beginnings = {
                name: position for name, position in positions.items() if position is not None
            }
        everything = frozenset(by_name)
        items = list(by_name.items())
        least = LeastWatermark(total) if self.source.traits.moves_data else None
        shares = [
            ScanShare(self.source, context, dict(items[i::total]), everything, least)
            for i in range(total)
        ]
        return [ScanSupplier(shares[member::members], self._make) for member in range(members)]


def scan(
    source: Source,
    condition: Expression | None,
    projections: tuple[Expression, ...] | None,
    names: tuple[str, ...],
) -> ScanMetaSupplier:
    """Return a supplier of processors that read a source.

    The expressions are over the columns that were requested from the source.

    source: the source.
    condition: only rows for which it is true are emitted; None: all rows.
    projections: the columns to emit; None: all columns.
    names: the names of the emitted columns.
    """
    transform = compile_transform(condition, projections, names)
    is_slow = works_slowly(condition, projections)
    return ScanMetaSupplier(
        source, lambda share: ScanProcessor(share, transform, is_slow), transform
    )
