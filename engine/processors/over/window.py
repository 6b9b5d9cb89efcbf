"""OVER on tables: appends the values of window calls to the input rows."""

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
from runnel.processors.over.spilled import SpilledWindow
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Field
from runnel.relation.over import WindowCall
from runnel.storage.memory_budget import Reservation, size_of

if TYPE_CHECKING:
    from runnel.processors.over.spilled import SpilledWindow

PRUNE_ROWS = 1 << 16
"""Smallest number of buffered rows at which rows that cannot be needed are removed."""


class WindowProcessor(EmittingProcessor):
    """Buffers its input; when the input ends, computes the calls and emits the rows in input order.

    Rows that do not fit in memory are written to files (`spilled.SpilledWindow`).
    """

    holds_snapshots = True

    def __init__(self, plan: CompiledWindow) -> None:
        super().__init__()
        self._plan = plan
        self._batches: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
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
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += size_of(batch)
        if self._plan.most is not None and self._buffered_rows > self._next_prune:
            self._prune(self._plan.most[0])
        self.check_accumulated(self._buffered_rows)
        needed = self._buffered_bytes + ROW_BYTES * self._buffered_rows
        if not self._reservation.is_trifle(needed):
            self._reservation.set(needed)
            if self._reservation.must_spill:
                self._spill()

    def _prune(self, call: int) -> None:
        """Remove the rows that cannot be among the first `most` of their partition."""
        self._batches = [
            self._plan.first_rows(join_batches(self._batches), call, self._most, self.context)
        ]
        self._buffered_rows = self._batches[0].num_rows
        self._buffered_bytes = size_of(self._batches[0])
        self._next_prune = max(2 * self._buffered_rows, PRUNE_ROWS)

    def _spill(self) -> None:
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
        """The buffered rows; none once the result is computed, as a snapshot waits until the
        result is emitted."""
        if self._spilled is not None and not self._is_done:
            raise OperationalError(
                "an OVER whose rows were spilled to files cannot be part of a snapshot",
                hint="raise memory_limit",
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
    """A supplier of processors that append the values of `calls` to the input rows.

    Rows of one partition must reach the same processor. The other parameters are the fields of
    `CompiledWindow`. With `most`, all calls are numberings (ROW_NUMBER, RANK, DENSE_RANK) in one
    arrangement. With `fields`, DuckDB runs calls whose rows do not fit in memory and cannot be
    divided by a key.
    """
    plan = CompiledWindow(calls, by_arrangement(enumerate(calls)), width, names, most, fields)
    return lambda: WindowProcessor(plan)
