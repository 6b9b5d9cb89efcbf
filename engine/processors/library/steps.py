"""Ready-made processors for hand-built DAGs: sources, steps and sinks over record batches.

    dag = DAG()
    lines = dag.vertex("lines", source_of(batches))
    words = dag.vertex("words", flat_map(split_into_words))
    count = dag.vertex("count", accumulate_by_key("word", count=counting()))
    total = dag.vertex("total", combine_by_key("word", count=counting()))
    sink = dag.vertex("sink", sink_to_list(result), parallelism=1)
    dag.edge(between(lines, words)).edge(between(words, count).isolated())
    dag.edge(between(count, total).partitioned("word")).edge(between(total, sink))

The functions that are passed to them process whole batches. Several threads call them at the same
time, each for another processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from runnel.columns.batches import slices
from runnel.dag import ProcessorFactory, ProcessorSupplier, Supplier, storable
from runnel.errors import ProgrammingError
from runnel.processor import (
    Inbox,
    Outbox,
    Processor,
    ProcessorContext,
    Stateful,
    StatelessProcessor,
    Watermark,
)
from runnel.processors.library.aggregate_operation import LIBRARY
from runnel.processors.stateful.buffered import BATCHES_PER_CALL, EmittingProcessor

Batches = Iterable[pa.RecordBatch]


class Map(StatelessProcessor):
    """Applies a function to each batch."""

    def __init__(self, function: Callable[[pa.RecordBatch], pa.RecordBatch | None]) -> None:
        self._function = function

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        return self._function(batch)


class FlatMap(EmittingProcessor):
    """Applies a function that returns any number of batches."""

    def __init__(self, function: Callable[[pa.RecordBatch], Batches]) -> None:
        super().__init__()
        self._function = function

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(iter(self._function(batch)))


class IterableSource(EmittingProcessor):
    """Emits the batches of an iterator, on a thread of its own.

    An iterator has no position, so snapshots begin when it has ended.
    """

    cooperative = False
    holds_snapshots = True

    def __init__(self, open_batches: Callable[[], Batches]) -> None:
        super().__init__()
        self._open = open_batches

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self.emit_all(iter(self._open()))


class BatchListSource(EmittingProcessor):
    """Emits some of a list of batches. Its state is the numbers of the emitted ones.

    batches: all batches of the vertex.
    numbers: the numbers of the batches that this processor emits.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], numbers: range) -> None:
        super().__init__()
        self._batches = batches
        self._left = deque(numbers)
        self._emitted: list[int] = []

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        emitted = set(batch.column("emitted").to_pylist())
        self._emitted += [number for number in self._left if number in emitted]
        self._left = deque(number for number in self._left if number not in emitted)

    def complete(self) -> bool:
        for _ in range(BATCHES_PER_CALL):
            if not self.drain():
                return False
            if not self._left:
                return True
            number = self._left.popleft()
            self._emitted.append(number)
            self.emit(self._batches[number])
        return False

    def state(self) -> Iterable[pa.RecordBatch]:
        return [pa.record_batch([pa.array(self._emitted, pa.int64())], names=["emitted"])]


class IdleSource(Processor, Stateful):
    """A source without rows."""


class BatchesSupplier(ProcessorSupplier):
    """Distributes existing batches among the processors, round-robin."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches

    def get(self, count: int) -> Sequence[Processor]:
        return [
            BatchListSource(self._batches, range(i, len(self._batches), count))
            for i in range(count)
        ]


class IteratorSupplier(ProcessorSupplier):
    """Creates a processor that reads an iterator, and idle processors."""

    def __init__(self, open_batches: Callable[[], Batches]) -> None:
        self._open = open_batches

    def get(self, count: int) -> Sequence[Processor]:
        return [IterableSource(self._open), *(IdleSource() for _ in range(count - 1))]


class ConsumerProcessor(Processor):
    """Calls a function with each batch."""

    cooperative = False

    def __init__(self, function: Callable[[pa.RecordBatch], Any]) -> None:
        self._function = function

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self._function(batch)

    def process_watermark(self, watermark: Watermark) -> bool:
        return True


@storable(LIBRARY)
def source_of(
    data: pa.Table | pa.RecordBatch | Sequence[pa.RecordBatch] | Callable[[], Batches],
) -> Supplier:
    """Return the supplier of a source.

    data: a table or batches, which are distributed among the processors round-robin; or a function,
        which is called once per execution and returns an iterable of batches. The iterable may
        block: one processor reads it on a thread of its own.
    """
    if callable(data):
        return IteratorSupplier(data)
    if isinstance(data, pa.Table):
        return BatchesSupplier(data.to_batches(max_chunksize=1 << 16))
    if isinstance(data, pa.RecordBatch):
        return BatchesSupplier(list(slices(data)))
    batches = list(data)
    if not all(isinstance(item, pa.RecordBatch) for item in batches):
        raise ProgrammingError(
            "a source is made of a table, of record batches, or of a function that returns them"
        )
    return BatchesSupplier(batches)


@storable(LIBRARY)
def map_batches(function: Callable[[pa.RecordBatch], pa.RecordBatch | None]) -> ProcessorFactory:
    """A step that replaces each batch by the result of `function`; None drops the batch."""
    return lambda: Map(function)


@storable(LIBRARY)
def filter_rows(predicate: Callable[[pa.RecordBatch], pa.BooleanArray]) -> ProcessorFactory:
    """A step that emits the rows for which `predicate` is true; NULL counts as false."""
    return lambda: Map(lambda batch: batch.filter(predicate(batch)))


@storable(LIBRARY)
def flat_map(function: Callable[[pa.RecordBatch], Batches]) -> ProcessorFactory:
    """A step that replaces each batch by any number of batches; `function` may be a generator."""
    return lambda: FlatMap(function)


@storable(LIBRARY)
def sink_to(function: Callable[[pa.RecordBatch], Any]) -> ProcessorFactory:
    """A sink that calls `function`, which may block, with each batch."""
    return lambda: ConsumerProcessor(function)


def sink_to_list(target: list[pa.RecordBatch]) -> ProcessorFactory:
    """A sink that appends each batch to a list."""
    return lambda: ConsumerProcessor(target.append)
