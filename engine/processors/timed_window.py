"""OVER on streams, where a watermark says when a partition is complete: its rows wait until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from runnel.batches import join_batches
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.key_hash import keyed_state
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.constants import constant
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.held_rows import CompiledHolding, HeldRows, Holding
from runnel.processors.late_rows import LateRows
from runnel.processors.window_calls import CompiledWindow, by_arrangement
from runnel.processors.window_frames import check_offset
from runnel.windows import WindowCall

PRUNE_ROWS = 1 << 14
"""How many rows are held before those that can't be needed are looked for, at least."""


class TimedWindow(EmittingProcessor):
    """Computes the calls over the rows of the partitions that a watermark completes, and at the end over all others."""

    def __init__(self, plan: CompiledWindow, holding: CompiledHolding, keys: tuple[int, ...], unit: str) -> None:
        super().__init__()
        self._plan = plan
        self._held = HeldRows(holding)
        self._keys = keys
        self._unit = unit
        self._most = 0
        self._next_prune = PRUNE_ROWS
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._late_rows = LateRows(context, self._unit)
        for call in self._plan.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)
        if self._plan.most is not None:
            self._most = constant(self._plan.most[1], context.job.evaluation) or 0

    @property
    def late_rows(self) -> int:
        return self._late_rows.count

    def state_size(self) -> tuple[int, int]:
        return self._held.count, self._held.size

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self._held.add(batch, self.context.job.evaluation)
        if late is not None:
            self._late_rows.add(late.count, late.due, late.watermark)
        if self._plan.most is not None and self._held.count > self._next_prune:
            self._prune(self._plan.most[0])
        self.check_accumulated(self._held.count)

    def _prune(self, call: int) -> None:
        """Keeps the rows that may still be among the first of their partition."""
        rows = join_batches(self._held.take_all())
        self._held.put_back(self._plan.first_rows(rows, call, self._most, self.context), self.context.job.evaluation)
        self._next_prune = max(2 * self._held.count, PRUNE_ROWS)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if self._held.advance(watermark):
            complete = self._held.complete()
            if complete:
                self._next_prune = max(2 * self._held.count, PRUNE_ROWS)
                self.emit_all(self._results(complete))
                if not self.drain():
                    return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain():
                return False
            self._is_done = True
            rest = self._held.take_all()
            if rest:
                self.emit_all(self._results(rest))
        return self.drain()

    def _results(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._plan.results(join_batches(batches), self.context)

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermarks, then the rows that wait, by the columns that divide them."""
        yield from self._held.watermark_state()
        for batch in self._held.row_state():
            yield keyed_state(batch, *(batch.schema.names[key] for key in self._keys)) if self._keys else batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if not self._held.restores_watermarks(batch):
            self._held.put_back(batch, self.context.job.evaluation)

    def close(self) -> None:
        super().close()
        self._held.clear()


def timed_window(
    calls: tuple[WindowCall, ...],
    shape: tuple[int, tuple[str, ...]],
    holding: Holding,
    most: tuple[int, Expression] | None = None,
    keys: tuple[int, ...] = (),
) -> ProcessorFactory:
    """A supplier of processors that give the columns of the input and the value of each call: so many of the input's columns,
    and the names of all, as `shape` says. All calls partition by the expressions that `holding` bounds. Rows that agree in
    the columns at `keys` must meet in one processor. `most` is as in `window.window`."""
    width, names = shape
    plan = CompiledWindow(calls, by_arrangement(enumerate(calls)), width, names, most, None)
    compiled = CompiledHolding(holding)
    unit = "" if holding.bounds[0][0].type.is_integer else "µs"
    return lambda: TimedWindow(plan, compiled, keys, unit)
