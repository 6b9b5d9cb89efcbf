"""Operators of SQL in hand-built DAGs: compiled when the first batch shows its columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pyarrow as pa

from runnel.errors import ProgrammingError
from runnel.processor import Inbox, Item, Outbox, Processor, ProcessorContext, Stateful, Watermark
from runnel.processors.library.typed_rows import canonical_batch
from runnel.processors.stateful.buffered import EmittingProcessor

Compile = Callable[[pa.Schema], EmittingProcessor]
"""Returns the operator for batches with these columns. ProgrammingError if a column is missing."""

SCHEMA, WATERMARK = "$input schema", "$input watermark"
"""The first columns of the two batches of state that a processor adds to the state of its
operator."""


class _NoOutbox:
    """Accepts and drops everything."""

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        return True


class OperatorProcessor(Processor, Stateful):
    """Runs an operator that is compiled for the columns of the first batch.

    Snapshots contain the columns, so that a restored operator is compiled at once.

    compile_for: makes the operator.
    key_names: columns by which the state is keyed.
    is_alone: whether the vertex must have one processor, which receives all rows.
    is_state: whether batches contain accumulated states, whose types are not converted.
    """

    def __init__(
        self,
        compile_for: Compile,
        key_names: tuple[str, ...] = (),
        *,
        is_state: bool = False,
        is_alone: bool = False,
    ) -> None:
        self.key_names = key_names
        self._compile_for = compile_for
        self._is_state = is_state
        self._is_alone = is_alone
        self._schema: pa.Schema | None = None
        self._inner: EmittingProcessor | None = None
        self._watermarks: dict[int, Watermark] = {}
        self._restored: list[pa.RecordBatch] = []
        self._saving: Iterator[pa.RecordBatch] | None = None
        self._refused: pa.RecordBatch | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if self._is_alone and context.parallelism > 1:
            raise ProgrammingError(
                f"windows without keys are computed by one processor, not by {context.parallelism}",
                hint="set the parallelism of the vertex to 1",
            )

    @property
    def alarm(self) -> int:  # type: ignore[override]
        return 0 if self._inner is None else self._inner.alarm

    @property
    def idle_inputs(self) -> Collection[int]:
        return frozenset() if self._inner is None else self._inner.idle_inputs

    @idle_inputs.setter
    def idle_inputs(self, inputs: Collection[int]) -> None:
        if self._inner is not None:
            self._inner.idle_inputs = inputs

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if self._inner is not None and not self._inner.drain():
            return
        batch = inbox.poll()
        if batch is not None:
            inner = self._operator(batch.schema)
            inner.take(ordinal, batch if self._is_state else canonical_batch(batch))
            inner.drain()

    def _operator(self, schema: pa.Schema) -> EmittingProcessor:
        if self._inner is None:
            self._schema = schema
            self._inner = inner = self._compile_for(schema)
            inner.init(_NoOutbox(), self.context)
            for watermark in self._watermarks.values():
                inner.process_watermark(watermark)
            inner.outbox = self.outbox
        return self._inner

    def process_watermark(self, watermark: Watermark) -> bool:
        if self._inner is not None:
            return self._inner.process_watermark(watermark)
        self._watermarks[watermark.column] = watermark
        return self.outbox.offer(watermark)

    def flush(self) -> bool:
        return self._inner is None or self._inner.flush()

    def on_idle(self) -> bool:
        return self._inner is None or self._inner.on_idle()

    def on_alarm(self) -> bool:
        return self._inner is None or self._inner.on_alarm()

    def complete_edge(self, ordinal: int) -> bool:
        return self._inner is None or self._inner.complete_edge(ordinal)

    def complete(self) -> bool:
        return self._inner is None or self._inner.complete()

    def save_snapshot(self) -> bool:
        if self._saving is None:
            if self._inner is not None and not self._inner.drain():
                return False
            self._saving = self._own_state()
        while (part := self._refused or next(self._saving, None)) is not None:
            self._refused = None if self.outbox.offer_snapshot(part) else part
            if self._refused is not None:
                return False
        if self._inner is not None and not self._inner.save_snapshot():
            return False
        self._saving = None
        return True

    def _own_state(self) -> Iterator[pa.RecordBatch]:
        if self._schema is not None:
            schema = self._schema.serialize().to_pybytes()
            yield pa.record_batch([pa.array([schema], pa.binary())], names=[SCHEMA])
        elif self._watermarks:
            times = [item.time for item in self._watermarks.values()]
            columns = [pa.array(list(self._watermarks), pa.int64()), pa.array(times, pa.int64())]
            yield pa.record_batch(columns, names=[WATERMARK, "time"])

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        first = batch.schema.names[0]
        if first == SCHEMA:
            self._schema = pa.ipc.read_schema(pa.py_buffer(batch.column(0)[0].as_py()))
        elif first == WATERMARK:
            for column, time in zip(*(item.to_pylist() for item in batch.columns), strict=True):
                known = self._watermarks.get(column)
                least = time if known is None else min(time, known.time)
                self._watermarks[column] = Watermark(least, column)
        else:
            self._restored.append(batch)

    def finish_restore(self) -> bool:
        if self._schema is None:
            return True
        if self._inner is None:
            inner = self._operator(self._schema)
            for batch in self._restored:
                inner.restore_snapshot(batch)
            self._restored = []
        return self._inner is None or self._inner.finish_restore()

    def state_size(self) -> tuple[int, int]:
        return (0, 0) if self._inner is None else self._inner.state_size()

    def spilled_size(self) -> tuple[int, int]:
        return (0, 0) if self._inner is None else self._inner.spilled_size()

    @property
    def late_rows(self) -> int:
        return 0 if self._inner is None else self._inner.late_rows

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
