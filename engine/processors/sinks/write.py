"""Writing the rows of a statement: all of them become visible at the end, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, make_batch
from runnel.connector import Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.dag import DAG, ProcessorMetaSupplier, ProcessorSupplier
from runnel.errors import Error
from runnel.processor import Guarantee, JobContext, Processor
from runnel.processors.sinks.durable_write import DurableWrite, tokens_in
from runnel.processors.sinks.keyed_changes import KeyedChanges
from runnel.processors.sinks.stream_write import COMMIT_INTERVAL, StreamWrite
from runnel.processors.stateful.buffered import EmittingProcessor

_COUNT = pa.schema([pa.field("count", pa.int64())])


class WriteProcessor(EmittingProcessor):
    """Writes its input to a sink, and commits when the input ends. Runs at parallelism 1.

    It then emits the number of rows. If it is closed before the commit, the sink aborts all rows.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.cooperative = sink.cooperative
        self._sink = sink
        self._written = 0
        self._token: Token | None = None
        self._is_committed = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._sink.write(batch)
            self._written += batch.num_rows

    def complete(self) -> bool:
        if not self._is_committed:
            self._token = self._sink.stage(0)
            self._sink.commit(self._token)
            self._is_committed = True
            count = from_numbers(np.array([self._written], np.int64), pa.int64())
            self.emit(make_batch([count], _COUNT, 1))
        return self.drain()

    def close(self) -> None:
        super().close()
        try:
            if not self._is_committed:
                self._sink.abort(self._token)
        finally:
            self._sink.close()


MakeWrite = Callable[[Sink, JobContext], Processor]


class WriteSupplier(ProcessorSupplier):
    """Creates the only processor that writes to a sink."""

    def __init__(self, make: Callable[[], Processor]) -> None:
        self._make = make

    def get(self, count: int) -> Sequence[Processor]:
        assert count == 1, "rows are written by one processor"
        return [self._make()]


class WriteMetaSupplier(ProcessorMetaSupplier):
    """Creates the sink of each execution.

    table: the table.
    request: the request for a sink.
    sink_id: identifies the sink among the sinks of a durable job.
    make: creates the processor.
    """

    def __init__(
        self, table: WritableTable, request: SinkRequest, sink_id: str, make: MakeWrite
    ) -> None:
        self.table = table
        self._request = request
        self._sink_id = sink_id
        self._make = make

    def preferred_parallelism(self, context: JobContext) -> int | None:
        return 1

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        return [WriteSupplier(lambda: self._make(self.sink(context), context))] * members

    def sink(self, context: JobContext) -> Sink:
        """Create a sink for an execution."""
        request = self._request
        if context.guarantee is not Guarantee.NONE:
            request = replace(request, owner=f"{context.owner}/{self._sink_id}")
        sink = self.table.sink(request)
        key = self.table.change_key if request.mode is WriteMode.CHANGES else None
        if key is None:
            return sink
        return KeyedChanges(sink, [request.columns.index(column) for column in key])


def rows_write(sink: Sink, context: JobContext) -> Processor:
    """Return the processor that writes the rows of a statement or a job to a sink."""
    if context.guarantee is not Guarantee.NONE:
        return DurableWrite(sink, counts=True)
    if context.owner and context.is_unbounded:
        return StreamWrite(sink, COMMIT_INTERVAL)
    return WriteProcessor(sink)


def _late_write(sink: Sink, context: JobContext) -> Processor:
    if context.guarantee is not Guarantee.NONE:
        return DurableWrite(sink, counts=False)
    return StreamWrite(sink)


def write(table: WritableTable, request: SinkRequest) -> WriteMetaSupplier:
    """Return a supplier of processors that write to a table.

    They emit one row: the number of written rows, a BIGINT. In a durable job rows are committed
    with each snapshot, in a stream without snapshots soon after their arrival.
    """
    return WriteMetaSupplier(table, request, f"write {table.name}", rows_write)


def late_write(table: WritableTable, request: SinkRequest, sink_id: str) -> WriteMetaSupplier:
    """Return a supplier of processors that write late rows to a table while the query runs.

    The rows become visible soon, or, in a durable job, with the next snapshot.
    """
    return WriteMetaSupplier(table, request, sink_id, _late_write)


def settle_staged(
    dag: DAG,
    context: JobContext,
    state: Callable[[str], Sequence[pa.RecordBatch]],
    *,
    may_give_up: bool,
) -> None:
    """Commit the rows that the sinks of a durable job staged for its last snapshot.

    Other staged rows are aborted. It is used for a job that is dropped, has failed permanently, or
    shall write to another table.

    dag: the DAG of the job.
    state: returns the state of a vertex in the last snapshot.
    may_give_up: whether rows that can't be committed are aborted; if not, the error is raised.
    """
    if context.guarantee is Guarantee.NONE:
        return
    from runnel.processors.sources.malformed_records import MalformedRecordSource
    from runnel.processors.sources.scan import ScanMetaSupplier
    from runnel.processors.sources.scan_state import decode

    for vertex in dag.vertices.values():
        supplier = vertex.supplier
        if isinstance(supplier, WriteMetaSupplier):
            try:
                _recover(supplier.sink(context), tokens_in(state(vertex.name)))
            except Error:
                if not may_give_up:
                    raise
                _recover(supplier.sink(context), ())
        elif isinstance(supplier, ScanMetaSupplier) and isinstance(
            supplier.source, MalformedRecordSource
        ):
            saved = {
                item.partition: item.token for batch in state(vertex.name) for item in decode(batch)
            }
            supplier.source.settle(context, saved, may_give_up=may_give_up)


def _recover(sink: Sink, tokens: Sequence[Token]) -> None:
    try:
        sink.recover(tokens)
    finally:
        sink.close()
