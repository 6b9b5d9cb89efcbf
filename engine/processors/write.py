"""Writing the rows of a statement: all of them become visible at the end, or none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.batches import from_numbers, make_batch
from runnel.connector import Sink, SinkRequest, Token, WritableTable
from runnel.dag import ProcessorFactory
from runnel.processors.emitting import EmittingProcessor

_COUNT = pa.schema([pa.field("count", pa.int64())])


class Write(EmittingProcessor):
    """Writes its input to a sink, stages and commits it when the input ends, and emits the number of rows. If it is closed
    before that, the sink gives everything up. Runs at parallelism 1."""

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


def write(table: WritableTable, request: SinkRequest) -> ProcessorFactory:
    """A supplier of processors that write to `table` and emit one row: the number of rows written, BIGINT."""
    return lambda: Write(table.sink(request))
