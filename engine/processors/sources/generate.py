"""Table functions without an input: GENERATE_SERIES and GENERATE_STREAM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, from_numbers, make_batch
from runnel.dag import ProcessorFactory
from runnel.errors import DataError, internal
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, Processor, ProcessorContext
from runnel.processors.constants import constant
from runnel.processors.stateful.buffered import EmittingProcessor

STREAM_ROWS = 1024
"""Maximum number of rows in a batch of GENERATE_STREAM."""

STREAM_BATCHES = 16
"""Maximum number of batches that one call of GENERATE_STREAM produces if it has fallen back."""

LEAST_PAUSE = 1_000_000
"""Minimum time that GENERATE_STREAM sleeps, whatever its rate, in nanoseconds."""


class GenerateSeries(EmittingProcessor):
    """Emits start, start + step, … up to stop, all from the processor with index 0."""

    holds_snapshots = True

    def __init__(self, arguments: tuple[Expression, ...], schema: pa.Schema) -> None:
        super().__init__()
        self._arguments = arguments
        self._schema = schema

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if context.index:
            return
        numbers = [_whole_number(item, context, "GENERATE_SERIES") for item in self._arguments]
        start, stop, step = numbers if len(numbers) == 3 else (*numbers, 1)
        if step == 0:
            raise DataError(
                "the step of GENERATE_SERIES cannot be equal to zero",
                hint="leave it out to count up by 1",
                position=self._arguments[-1].position,
            )
        self.emit_all(self._series(start, step, max(0, (stop - start) // step + 1)))

    def _series(self, start: int, step: int, count: int) -> Iterator[pa.RecordBatch]:
        for first in range(0, count, MAX_ROWS):
            offsets = np.arange(min(MAX_ROWS, count - first), dtype=np.int64)
            # With a single value the step may be so large that the multiplication would overflow.
            values = offsets * step + (start + first * step) if count > 1 else offsets + start
            yield make_batch([from_numbers(values, pa.int64())], self._schema, len(values))


class GenerateStream(EmittingProcessor):
    """Emits 0, 1, 2, … without end, all from the processor with index 0.

    It emits `rate` rows per second of the job's clock.
    """

    def __init__(self, arguments: tuple[Expression, ...], schema: pa.Schema) -> None:
        super().__init__()
        self._arguments = arguments
        self._schema = schema
        self._rate = 0
        self._started: int | None = None
        self._emitted = 0

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._rate = _whole_number(self._arguments[0], context, "GENERATE_STREAM")
        if self._rate < 0:
            raise DataError(
                "the rate of GENERATE_STREAM cannot be negative",
                hint="set it to the number of rows per second",
                position=self._arguments[0].position,
            )

    def complete(self) -> bool:
        if not self.drain():
            return False
        if self.context.index:
            return True
        now = self.context.job.clock()
        if self._started is None:
            # After a restart the rows that were emitted before count as emitted at the same rate.
            self._started = now - (self._emitted * 1_000_000_000 // self._rate if self._rate else 0)
        due = (now - self._started) * self._rate // 1_000_000_000
        for _ in range(STREAM_BATCHES):
            count = min(due - self._emitted, STREAM_ROWS)
            if count <= 0:
                break
            values = np.arange(self._emitted, self._emitted + count)
            self._emitted += count
            self.emit(make_batch([from_numbers(values, pa.int64())], self._schema, count))
            if not self.drain():
                return False
        self._sleep(now, due)
        return False

    def state(self) -> Iterable[pa.RecordBatch]:
        """Yield the number of emitted rows."""
        if not self.context.index:
            yield pa.RecordBatch.from_arrays(
                [from_numbers(np.array([self._emitted]), pa.int64())], names=["emitted"]
            )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._emitted = max(self._emitted, *batch.column(0).to_pylist())

    def _sleep(self, now: int, due: int) -> None:
        if self._emitted < due:
            self.context.wake()
        elif self._rate:
            assert self._started is not None
            next_row = self._started + -(-(self._emitted + 1) * 1_000_000_000 // self._rate)
            self.context.wake_at(max(next_row, now + LEAST_PAUSE))


def _whole_number(argument: Expression, context: ProcessorContext, function: str) -> int:
    value: Any = constant(argument, context.job.evaluation)
    if value is None:
        raise DataError(
            f"an argument of {function} is null",
            hint="give it whole numbers",
            position=argument.position,
        )
    return int(value)


def generate(
    function: str, arguments: tuple[Expression, ...], names: tuple[str, ...]
) -> ProcessorFactory:
    """Return a supplier of processors for a table function.

    function: "generate_series", with the arguments start, stop and optionally step, or
        "generate_stream", with the number of rows per second.
    arguments: integers that refer to no columns.
    names: the name of the only column, a BIGINT.
    """
    schema = pa.schema([pa.field(names[0], pa.int64())])
    kinds: dict[str, type[GenerateSeries] | type[GenerateStream]] = {
        "generate_series": GenerateSeries,
        "generate_stream": GenerateStream,
    }
    kind = kinds.get(function)
    if kind is None:
        raise internal(f"there is no generator {function}")

    def make() -> Processor:
        return kind(arguments, schema)

    return make
