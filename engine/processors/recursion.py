"""WITH RECURSIVE: the rows of the anchor, then in each round the rows that the step computes from
the rows of the round before.

The step is a chain of stages, each an ordinary processor that this module feeds. A stage that
processes row by row exists for all rounds: a join builds the index over its other side, which
arrives through an edge, once. A stage that needs all rows of a round (DISTINCT, a sort) gets a new
processor in each round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import make_batch
from runnel.dag import ProcessorFactory
from runnel.processor import Item, Outbox, Processor, ProcessorContext
from runnel.processors.grouping.distinct_rows import DistinctRows
from runnel.processors.stateful.buffered import EmittingProcessor


@frozen
class StageDefinition:
    """The definition of a stage of the step.

    factory: creates the processor of the stage.
    ordinal: the input of the processor for the rows of the round.
    side: the input of the recursion for the other side of the stage; None if it has none.
    needs_all: whether the stage emits rows only after all rows of a round have arrived.
    """

    factory: ProcessorFactory
    ordinal: int = 0
    side: int | None = None
    needs_all: bool = False


class FilledInbox:
    """An inbox that is filled by `put`."""

    def __init__(self) -> None:
        self._batches: deque[pa.RecordBatch] = deque()

    def put(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def peek(self) -> pa.RecordBatch | None:
        return self._batches[0] if self._batches else None

    def poll(self) -> pa.RecordBatch | None:
        return self._batches.popleft() if self._batches else None

    def __len__(self) -> int:
        return len(self._batches)


class CollectingOutbox:
    """An outbox that accepts everything and collects the batches."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if isinstance(item, pa.RecordBatch) and item.num_rows:
            self._batches.append(item)
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        return True

    def taken(self) -> list[pa.RecordBatch]:
        batches, self._batches = self._batches, []
        return batches


class _Stage:
    """A stage of the step, with its processor.

    `push` and `end_round` yield the batches that the processor emits. They also yield None at
    points where the cooperative call may end.
    """

    def __init__(self, definition: StageDefinition, context: ProcessorContext) -> None:
        self.definition = definition
        self._context = context
        self._collector = CollectingOutbox()
        self._feed = FilledInbox()
        self._processor: Processor | None = None

    def _made(self) -> Processor:
        if self._processor is None:
            self._processor = self.definition.factory()
            self._processor.init(self._collector, self._context)
        return self._processor

    def take_side(self, batch: pa.RecordBatch) -> None:
        self._feed.put(batch)
        while len(self._feed):
            self._made().process(0, self._feed)

    def end_side(self) -> bool:
        return self._made().complete_edge(0)

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | None]:
        processor = self._made()
        if processor.is_satisfied:
            return
        self._feed.put(batch)
        while len(self._feed) or not processor.flush():
            processor.process(self.definition.ordinal, self._feed)
            yield from self._collector.taken()
            yield None
        yield from self._collector.taken()

    def end_round(self) -> Iterator[pa.RecordBatch | None]:
        if not self.definition.needs_all:
            return
        processor = self._made()
        has_ended = False
        while not has_ended:
            has_ended = processor.complete()
            yield from self._collector.taken()
            yield None
        processor.close()
        self._processor = None

    def close(self) -> None:
        if self._processor is not None:
            self._processor.close()


class RecursionProcessor(EmittingProcessor):
    """Runs a recursion.

    The last input has the rows of the anchor. The inputs before it have the other sides of the
    stages.
    """

    holds_snapshots = True

    def __init__(
        self, definitions: Sequence[StageDefinition], schema: pa.Schema, distinct: bool
    ) -> None:
        super().__init__()
        self._definitions = definitions
        self._schema = schema
        self._sides = sum(item.side is not None for item in definitions)
        self._distinct = DistinctRows() if distinct else None
        self._stages: list[_Stage] = []
        self._next: list[pa.RecordBatch] = []
        self._has_begun = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._stages = [_Stage(item, context) for item in self._definitions]

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if ordinal < self._sides:
            self._stage_of(ordinal).take_side(batch)
            return
        rows = self._new_rows(batch)
        if rows is not None:
            self.emit(rows)

    def _stage_of(self, side: int) -> _Stage:
        return next(item for item in self._stages if item.definition.side == side)

    def complete_edge(self, ordinal: int) -> bool:
        if ordinal < self._sides:
            return self._stage_of(ordinal).end_side()
        return self.drain()

    def _new_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows that belong to the result, and add them to the next round's input.

        None if there is no such row.
        """
        rows = make_batch(batch.columns, self._schema, batch.num_rows)
        if self._distinct is not None:
            rows = self._distinct.new_rows(rows)
        if not rows.num_rows:
            return None
        self._next.append(rows)
        self.check_accumulated(
            sum(item.num_rows for item in self._next)
            + (0 if self._distinct is None else self._distinct.count)
        )
        return rows

    def complete(self) -> bool:
        if not self._has_begun:
            self._has_begun = True
            self.emit_all(self._rounds())
        return self.drain()

    def _rounds(self) -> Iterator[pa.RecordBatch]:
        pause = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in self._schema], schema=self._schema
        )
        while self._next:
            working, self._next = self._next, []
            for made in self._round(working):
                rows = None if made is None else self._new_rows(made)
                yield pause if rows is None else rows

    def _round(self, working: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:
        for batch in working:
            yield from self._through(batch, 0)
        for number, stage in enumerate(self._stages):
            for made in stage.end_round():
                yield from self._onward(made, number + 1)

    def _through(self, batch: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch | None]:
        """Pass a batch through the stages from number `first` on."""
        if first == len(self._stages):
            yield batch
            return
        for made in self._stages[first].push(batch):
            yield from self._onward(made, first + 1)

    def _onward(self, made: pa.RecordBatch | None, first: int) -> Iterator[pa.RecordBatch | None]:
        if made is None:
            yield None
        else:
            yield from self._through(made, first)

    def close(self) -> None:
        super().close()
        for stage in self._stages:
            stage.close()
        self._stages = []
        self._next = []
        self._distinct = None


def recursion(
    definitions: Sequence[StageDefinition], schema: pa.Schema, distinct: bool
) -> ProcessorFactory:
    """Return a supplier of the only processor of a recursion.

    Its inputs are the other sides of the stages, numbered by `side`, and after them the anchor,
    which must have a later priority.

    definitions: the stages of the step, in order.
    schema: the columns of the result.
    distinct: whether rows that were emitted before are dropped.
    """
    return lambda: RecursionProcessor(definitions, schema, distinct)
