"""What operators share that work on rows only when a watermark completes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from runnel.columns.batches import join_batches
from runnel.columns.key_hash import keyed_state
from runnel.processor import Watermark
from runnel.processors.stateful.late_output import DivertingProcessor
from runnel.processors.stateful.row_buffer import CompiledHolding, HeldRows
from runnel.storage.memory_budget import Reservation

WEIGHT = 2
"""How much memory is needed for each byte that waits: to put rows in order."""

TAKEN_SHARE = 4
"""Complete rows are taken out of files while they take one in so many parts of what operators may
hold."""


class HoldingProcessor(DivertingProcessor):
    """Gives `results` of the rows that a watermark completes, and at the end of all others. `keys`
    are the columns by which rows are divided among processors. `diverts`: whether late rows go to
    output 1."""

    holds = "the rows that wait for the watermark"

    def __init__(
        self, holding: CompiledHolding, keys: tuple[int, ...] = (), diverts: bool = False
    ) -> None:
        super().__init__(diverts, holding.unit)
        self.held = HeldRows(holding)
        self._keys = keys
        self._is_done = False

    def results(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What comes of rows that are complete."""
        raise NotImplementedError

    def state_size(self) -> tuple[int, int]:
        return self.held.count, self.held.size

    def results_of(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        """The same of several batches, of about `most` bytes together, or more where all are due at
        once."""
        yield from self.results(join_batches(batches))

    def spilled_size(self) -> tuple[int, int]:
        return self.held.spilled_size

    @property
    def can_spill(self) -> bool:
        """Whether rows may wait in files."""
        return self.held.can_spill

    @property
    def weight(self) -> int:
        return WEIGHT if self.can_spill else 1

    def spill(self) -> None:
        if self.can_spill:
            self.held.spill(self._reservation.memory)

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
            self.emit_all(self._complete(watermark))
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain():
                return False
            self._is_done = True
            self.emit_all(self._complete(None))
        return self.drain()

    def _complete(self, watermark: Watermark | None) -> Iterator[pa.RecordBatch]:
        """What comes of the rows that a watermark, which was noted, completes (None: of all)."""
        for most, complete in stepwise(self.held, watermark, self._reservation):
            yield from self.results_of(complete, most)

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermarks, then the rows that wait, by the columns that divide them."""
        yield from self.held.watermark_state()
        for batch in self.held.row_state():
            yield (
                keyed_state(batch, *(batch.schema.names[key] for key in self._keys))
                if self._keys
                else batch
            )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if not self.held.restores_watermarks(batch):
            self.held.put_back(batch, self.context.job.evaluation)
            self.account_for(batch)

    def close(self) -> None:
        super().close()
        self.held.clear()


def stepwise(
    held: HeldRows, watermark: Watermark | None, reservation: Reservation
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """The rows that a watermark completes (None: all), as many at a time as memory has room for:
    each time how many bytes they should take at most, and the rows. Meanwhile the watermark counts
    as being where rows were taken up to."""
    most = reservation.memory.allowed // TAKEN_SHARE if reservation.is_limited else 0
    steps = held.steps(most, watermark is None)
    for time in steps:
        held.see(time)
        complete = held.complete()
        if complete:
            yield most, complete
    if watermark is None:
        complete = held.take_all()
    else:
        if steps:
            held.see(watermark.time)
        complete = held.complete()
    if complete:
        yield most, complete
