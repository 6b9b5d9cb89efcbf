"""Writing in a job that takes snapshots: rows are staged at each barrier, and visible when the
snapshot is safe.

The tokens of what is staged and not yet committed are the state: a job that starts again from the
snapshot commits them, which changes nothing where that was done before, and gives up what was
staged for a snapshot that never came to be. A snapshot that fails leaves its rows staged; the next
one that is safe commits them too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, make_batch
from runnel.connector import Sink, Token
from runnel.expressions.kernels.values import array_of
from runnel.processor import Watermark
from runnel.processors.sinks.sink_watermarks import SinkWatermarks, is_watermarks
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import BIGINT, VARCHAR, to_arrow

ASK_AGAIN = 1_000_000_000
"""Nanoseconds after which a snapshot is asked for again where the last one failed."""

PIECE = 1 << 20
"""Characters of a token's text in one row of the state at most."""

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
    """What the state of a DurableWrite says to be staged."""
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


class DurableWrite(EmittingProcessor):
    """Writes its input to a sink, and is complete only when a snapshot has committed the last of
    it. With `counts` it then gives one row: the number of rows written by all executions of the
    job. Runs at parallelism 1."""

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
        """Has a snapshot taken that commits the last rows. One that was under way when they came
        doesn't hold them, and one may fail: then it is asked for again."""
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
            for start in range(0, len(text), PIECE):
                yield self._epoch, self._written, number, text[start : start + PIECE]

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
        """Before anything is written, once: what the snapshot counts is made visible, what it
        doesn't is given up."""
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
        # What is staged stays: the snapshot that counts may hold it.
        self._sink.close()
