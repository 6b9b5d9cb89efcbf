"""Writing late rows to a mapping while the query goes on: they are visible soon, not only at the end."""

from __future__ import annotations

import pyarrow as pa

from runnel.connector import Sink, SinkRequest, WritableTable
from runnel.dag import ProcessorFactory
from runnel.processor import Inbox, Processor, Watermark


class LateWrite(Processor):
    """Writes its input to a sink; what was written is committed whenever nothing more comes for now. Runs at parallelism 1."""

    def __init__(self, sink: Sink) -> None:
        self.cooperative = sink.cooperative
        self._sink = sink
        self._epoch = 0
        self._uncommitted = False

    def process(self, ordinal: int, inbox: Inbox) -> None:
        batch: pa.RecordBatch | None = inbox.poll()
        if batch is not None and batch.num_rows:
            self._sink.write(batch)
            self._uncommitted = True

    def process_watermark(self, watermark: Watermark) -> bool:
        return True

    def flush(self) -> bool:
        if self._uncommitted:
            self._sink.commit(self._sink.stage(self._epoch))
            self._epoch += 1
            self._uncommitted = False
        return True

    def complete(self) -> bool:
        return self.flush()

    def close(self) -> None:
        try:
            if self._uncommitted:
                self._sink.abort(None)
        finally:
            self._sink.close()


def late_write(table: WritableTable, request: SinkRequest) -> ProcessorFactory:
    """A supplier of processors that write late rows to `table`."""
    return lambda: LateWrite(table.sink(request))
