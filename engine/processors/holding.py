"""What operators share that work on rows only when a watermark completes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from runnel.batches import join_batches
from runnel.key_hash import keyed_state
from runnel.processor import Watermark
from runnel.processors.diverting import DivertingProcessor
from runnel.processors.held_rows import CompiledHolding, HeldRows


class HoldingProcessor(DivertingProcessor):
    """Gives `results` of the rows that a watermark completes, and at the end of all others. `keys` are the columns by which
    rows are divided among processors. `diverts`: whether late rows go to output 1."""

    holds = "the rows that wait for the watermark"

    def __init__(self, holding: CompiledHolding, keys: tuple[int, ...] = (), diverts: bool = False) -> None:
        super().__init__(diverts, holding.unit)
        self.held = HeldRows(holding)
        self._keys = keys
        self._is_done = False

    def results(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What comes of rows that are complete."""
        raise NotImplementedError

    def state_size(self) -> tuple[int, int]:
        return self.held.count, self.held.size

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self.held.add(batch, self.context.job.evaluation)
        if late is not None:
            self.note_late(late.rows.num_rows, late.due, late.watermark)
            self.divert(late.rows)
        self.check_accumulated(self.held.count)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if self.held.advance(watermark):
            complete = self.held.complete()
            if complete:
                self.emit_all(self.results(join_batches(complete)))
                if not self.drain():
                    return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain():
                return False
            self._is_done = True
            rest = self.held.take_all()
            if rest:
                self.emit_all(self.results(join_batches(rest)))
        return self.drain()

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermarks, then the rows that wait, by the columns that divide them."""
        yield from self.held.watermark_state()
        for batch in self.held.row_state():
            yield keyed_state(batch, *(batch.schema.names[key] for key in self._keys)) if self._keys else batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if not self.held.restores_watermarks(batch):
            self.held.put_back(batch, self.context.job.evaluation)

    def close(self) -> None:
        super().close()
        self.held.clear()
