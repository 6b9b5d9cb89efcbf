"""Writing a stream without snapshots: rows become visible soon, not only at the end."""

from __future__ import annotations

import pyarrow as pa

from runnel.connector import Sink
from runnel.processor import Inbox, Processor, Stateful, Transactional, Watermark
from runnel.processors.sinks.sink_watermarks import SinkWatermarks

COMMIT_INTERVAL = 1_000_000_000
"""Maximum time that rows of a job without snapshots wait for their commit, in nanoseconds.

It isn't shorter because some sinks create a file per commit.
"""


class StreamWrite(Processor, Stateful, Transactional):
    """Writes its input to a sink. Runs at parallelism 1.

    It also commits at each snapshot and at the end.

    sink: the sink.
    delay: nanoseconds from the first uncommitted row to the commit; 0: it commits whenever its
        inbox is empty.
    """

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
        # Called only for the snapshot of a suspension: the job has no other snapshots.
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
        # A suspended job resumes after these rows, so they must be committed before the execution
        # ends.
        if success:
            self._commit()
        return True

    def _commit(self) -> None:
        self.alarm = 0
        if self._has_uncommitted:
            # Epoch 0, as in a light job: rows that the sink can't commit at once are lost if the
            # process ends.
            self._sink.commit(self._sink.stage(0))
            self._has_uncommitted = False

    def close(self) -> None:
        try:
            if self._has_uncommitted:
                self._sink.abort(None)
        finally:
            self._sink.close()
