"""OVER: the values of window calls beside the rows that they are computed for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import join_batches
from runnel.dag import ProcessorFactory
from runnel.errors import OperationalError
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import constant
from runnel.processors.over.calls import ROW_BYTES, CompiledWindow, by_arrangement
from runnel.processors.over.frames import check_offset
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Field
from runnel.relation.over import WindowCall
from runnel.storage.memory_budget import Reservation, size_of

if TYPE_CHECKING:
    from runnel.processors.over.spilled import SpilledWindow

PRUNE_ROWS = 1 << 16
"""How many rows are held before those that can't be needed are looked for, at least."""


class WindowProcessor(EmittingProcessor):
    """Holds all its input; when that ends, computes the calls one after the other and emits the
    rows as they came. Rows that memory has no room for go to files (`spilled_window`)."""

    holds_snapshots = True

    def __init__(self, plan: CompiledWindow) -> None:
        super().__init__()
        self._plan = plan
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._held_bytes = 0
        self._is_done = False
        self._most = 0
        self._next_prune = PRUNE_ROWS
        self._reservation = Reservation(None)
        self._spilled: SpilledWindow | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory)
        for call in self._plan.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)
        if self._plan.most is not None:
            self._most = constant(self._plan.most[1], context.job.evaluation) or 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._spilled is not None:
            self._spilled.take(batch)
            return
        self._batches.append(batch)
        self._held += batch.num_rows
        self._held_bytes += size_of(batch)
        if self._plan.most is not None and self._held > self._next_prune:
            self._prune(self._plan.most[0])
        self.check_accumulated(self._held)
        needed = self._held_bytes + ROW_BYTES * self._held
        if not self._reservation.is_trifle(needed):
            self._reservation.set(needed)
            if self._reservation.must_spill:
                self._spill()

    def _prune(self, call: int) -> None:
        """Keeps the rows that may still be among the first of their partition."""
        self._batches = [
            self._plan.first_rows(join_batches(self._batches), call, self._most, self.context)
        ]
        self._held = self._batches[0].num_rows
        self._held_bytes = size_of(self._batches[0])
        self._next_prune = max(2 * self._held, PRUNE_ROWS)

    def _spill(self) -> None:
        from runnel.processors.over.spilled import SpilledWindow

        self._spilled = SpilledWindow(self._plan, self._reservation.memory, self.context)
        while self._batches:
            self._spilled.take(self._batches.pop(0))
        self._reservation.release()

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            if self._spilled is not None:
                self.emit_all(self._spilled.results())
            elif self._batches:
                self.emit_all(self._computed())
        return self.drain()

    def _computed(self) -> Iterator[pa.RecordBatch]:
        rows = join_batches(self._batches)
        self._batches = []
        yield from self._plan.results(rows, self.context)
        self._reservation.release()

    def state(self) -> Iterable[pa.RecordBatch]:
        """The rows that are held; once they are computed they are emitted before a snapshot, and
        nothing is left."""
        if self._spilled is not None and not self._is_done:
            raise OperationalError(
                "no snapshot is possible of a window that is in files", hint="raise memory_limit"
            )
        return self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def close(self) -> None:
        super().close()
        self._batches = []
        if self._spilled is not None:
            self._spilled.close()
        self._reservation.release()


def window(
    calls: tuple[WindowCall, ...],
    width: int,
    names: tuple[str, ...],
    most: tuple[int, Expression] | None = None,
    fields: tuple[Field, ...] | None = None,
) -> ProcessorFactory:
    """A supplier of processors that give the first `width` columns of the input, then the value of
    each call, called by `names`. Rows of one partition must meet in one processor. `most` is a call
    and a number: rows for which it gives more may be left out; then all calls number rows
    (ROW_NUMBER, RANK, DENSE_RANK) in one arrangement. `fields` are the input's columns, for which
    rows that are too many to be divided can be handed to DuckDB."""
    plan = CompiledWindow(calls, by_arrangement(enumerate(calls)), width, names, most, fields)
    return lambda: WindowProcessor(plan)
