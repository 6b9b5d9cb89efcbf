"""Writing while a stream goes on, without snapshots: rows become visible soon, not only at the
end."""

from __future__ import annotations

import pyarrow as pa

from runnel.connector import Sink
from runnel.processor import Inbox, Processor, Watermark
from runnel.processors.sinks.sink_watermarks import SinkWatermarks

COMMIT_INTERVAL = 1_000_000_000
"""Nanoseconds that rows of a job without snapshots wait for their commit at most: some sinks make a
file of each."""


class StreamWrite(Processor):
    """Writes its input to a sink. It is committed `delay` ns after the first row came, or, with 0,
    whenever nothing more comes for now; and at a snapshot and the end. Runs at parallelism 1."""

    def __init__(self, sink: Sink, delay: int = 0) -> None:
        self.cooperative = sink.cooperative
        self._sink = sink
        self._delay = delay
        self._has_uncommitted = False
        self._watermarks = SinkWatermarks()

    def process(self, ordinal: int, inbox: Inbox) -> None:
        batch: pa.RecordBatch | None = inbox.poll()
        if batch is not None and batch.num_rows:
            self._sink.write(batch)
            if self._delay and not self._has_uncommitted:
                self.alarm = self.context.job.clock() + self._delay
            self._has_uncommitted = True

    def process_watermark(self, watermark: Watermark) -> bool:
        self._watermarks.observe(watermark)
        return True

    def save_snapshot(self) -> bool:
        # Where a job without snapshots is suspended, this is the one that it has.
        return all(self.outbox.offer_snapshot(batch) for batch in self._watermarks.state())

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._watermarks.restore(batch)

    def flush(self) -> bool:
        if not self._delay:
            self._commit()
        return True

    def on_alarm(self) -> bool:
        self._commit()
        return True

    def complete(self) -> bool:
        self._commit()
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        # A job that is suspended goes on after these rows, so they mustn't wait, or be lost with
        # the execution.
        if success:
            self._commit()
        return True

    def _commit(self) -> None:
        self.alarm = 0
        if self._has_uncommitted:
            # A light job's epoch: the sink's rows die with the process where it can't commit them
            # at once.
            self._sink.commit(self._sink.stage(0))
            self._has_uncommitted = False

    def close(self) -> None:
        try:
            if self._has_uncommitted:
                self._sink.abort(None)
        finally:
            self._sink.close()
