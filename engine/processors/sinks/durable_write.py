"""Writing in a job that takes snapshots.

Rows are staged at each barrier, and become visible when the snapshot is durable. The state consists
of the tokens of rows that are staged and not yet committed. A job that restarts from the snapshot
commits them, which has no effect if they were committed before, and aborts rows that were staged
for a snapshot that was never completed. If a snapshot fails, its rows remain staged, and the next
durable snapshot commits them too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, make_batch
from runnel.connector import Sink, Token
from runnel.expressions.kernels.values import array_of
from runnel.processor import Transactional, Watermark
from runnel.processors.sinks.sink_watermarks import SinkWatermarks, is_watermarks
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import BIGINT, VARCHAR, to_arrow

ASK_AGAIN = 1_000_000_000
"""Time after which another snapshot is requested if the last one failed, in nanoseconds."""

TOKEN_CHUNK = 1 << 20
"""Maximum number of characters of a token's text in one row of the state."""

_COUNT = pa.schema([pa.field("count", to_arrow(BIGINT))])

_STATE = pa.schema(
    [
        pa.field("epoch", to_arrow(BIGINT)),
        pa.field("written", to_arrow(BIGINT)),
        pa.field("token", to_arrow(BIGINT)),
        pa.field("text", to_arrow(VARCHAR)),
    ]
)


def tokens_in(state: Iterable[pa.RecordBatch]) -> list[Token]:
    """Return the tokens of the staged rows in the state of a DurableWrite."""
    texts: dict[int, list[str]] = {}
    for batch in state:
        if is_watermarks(batch):
            continue
        for number, text in zip(
            batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True
        ):
            if number >= 0:
                texts.setdefault(number, []).append(text)
    return [json.loads("".join(texts[number])) for number in sorted(texts)]


class DurableWrite(EmittingProcessor, Transactional):
    """Writes its input to a sink, and completes when a snapshot has committed the last rows.

    Runs at parallelism 1.

    sink: the sink.
    counts: whether it emits a row at the end: the number of rows that all executions of the job
        have written.
    """

    def __init__(self, sink: Sink, *, counts: bool) -> None:
        super().__init__()
        self.cooperative = sink.cooperative
        self._sink = sink
        self._counts = counts
        self._epoch = 0
        self._written = 0
        self._has_unstaged = False
        self._staged: list[Token] = []
        self._restored: list[pa.RecordBatch] = []
        self._is_recovered = False
        self._has_asked = False
        self._ask_at = 0
        self._is_counted = False
        self._watermarks = SinkWatermarks()

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._recover()
        if batch.num_rows:
            self._sink.write(batch)
            self._written += batch.num_rows
            self._has_unstaged = True

    def process_watermark(self, watermark: Watermark) -> bool:
        self._watermarks.observe(watermark)
        return True

    def complete(self) -> bool:
        self._recover()
        if self._has_unstaged or self._staged:
            if self.context.job.request_snapshot is None:
                self._stage()
                self._commit()
            else:
                self._ask()
                return False
        if self._counts and not self._is_counted:
            self._is_counted = True
            self.emit(
                make_batch(
                    [from_numbers(np.array([self._written], np.int64), pa.int64())], _COUNT, 1
                )
            )
        return self.drain()

    def _ask(self) -> None:
        """Request a snapshot that commits the last rows.

        It is requested again if it fails, or if it had begun before these rows arrived.
        """
        assert self.context.job.request_snapshot is not None
        now = self.context.job.clock()
        if not self._has_asked and now >= self._ask_at:
            self._has_asked = True
            self.context.job.request_snapshot()
        self.context.wake_at(max(self._ask_at, now + ASK_AGAIN))

    def state(self) -> Iterable[pa.RecordBatch]:
        self._recover()
        self._stage()
        rows = list(self._state_rows())
        columns = [
            array_of([row[i] for row in rows], kind)
            for i, kind in enumerate((BIGINT, BIGINT, BIGINT, VARCHAR))
        ]
        return [make_batch(columns, _STATE, len(rows)), *self._watermarks.state()]

    def _state_rows(self) -> Iterator[tuple[int, int, int, str]]:
        yield self._epoch, self._written, -1, ""
        for number, token in enumerate(self._staged):
            text = json.dumps(token)
            for start in range(0, len(text), TOKEN_CHUNK):
                yield self._epoch, self._written, number, text[start : start + TOKEN_CHUNK]

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if self._watermarks.restore(batch):
            return
        self._restored.append(batch)
        if batch.num_rows:
            self._epoch, self._written = (batch.column(i)[0].as_py() for i in (0, 1))

    def finish_restore(self) -> bool:
        self._recover()
        return True

    def _recover(self) -> None:
        """Recover once, before the first write.

        Rows that were staged for the restored snapshot are committed, other rows are aborted.
        """
        if not self._is_recovered:
            self._sink.recover(tokens_in(self._restored))
            self._restored = []
            self._is_recovered = True

    def _stage(self) -> None:
        if self._has_unstaged:
            self._epoch += 1
            self._staged.append(self._sink.stage(self._epoch))
            self._has_unstaged = False

    def _commit(self) -> None:
        while self._staged:
            self._sink.commit(self._staged[0])
            self._staged.pop(0)

    def commit(self, snapshot_id: int, success: bool) -> bool:
        self._has_asked = False
        if success:
            self._commit()
        else:
            self._ask_at = self.context.job.clock() + ASK_AGAIN
        return True

    def close(self) -> None:
        super().close()
        # Staged rows remain, since the last complete snapshot may contain their tokens.
        self._sink.close()
