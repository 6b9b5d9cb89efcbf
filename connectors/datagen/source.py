"""Reads generated rows, each when it is due.

Row n is due n / rate seconds after the start. The position is the number of rows that were emitted,
with the start of event time, so that a job continues with the same values after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import TableColumn
from runnel.columns.batches import make_batch
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    Pause,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.datagen.values import GeneratedRows, Maker
from runnel.processor import JobContext
from runnel.sqltypes import to_arrow

SECOND = 1_000_000_000
LEAST_PAUSE = 1_000_000
"""The minimum sleep between rows, in ns."""

BATCH_BYTES = 1 << 24
"""The size of a batch, roughly, at most."""


@frozen
class GenerationSchedule:
    """The parameters of a scan.

    rows: the number of rows; None: without end.
    rate: rows per second.
    seed: the seed of all random numbers.
    start: the time of the first row, in µs since 1970; None: the start of the statement.
    row_bytes: the size of a row, roughly.
    """

    rows: int | None
    rate: int
    seed: int
    start: int | None
    row_bytes: int


class DataGenSource(Source):
    """A scan of some columns, in one partition."""

    # Another execution starts at another time.
    traits = SourceTraits(is_repeatable=True, begins_anywhere=True)
    kind = "a DataGen source"

    def __init__(
        self, schedule: GenerationSchedule, columns: Sequence[tuple[TableColumn, Maker]]
    ) -> None:
        self._schedule = schedule
        self._makers = [make for _, make in columns]
        self._schema = pa.schema([(item.name, to_arrow(item.type)) for item, _ in columns])

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        start = self._schedule.start
        return [
            DataGenPartition(
                self._schedule,
                self._batch,
                context.clock,
                context.evaluation.now if start is None else start,
            )
        ]

    def _batch(self, rows: GeneratedRows) -> pa.RecordBatch:
        arrays = [make(rows) for make in self._makers]
        return make_batch(arrays, self._schema, len(rows.numbers))


class DataGenPartition(SourcePartition):
    """All rows. `start` is the time of the first one, in µs since 1970."""

    identity = "rows"

    def __init__(
        self,
        schedule: GenerationSchedule,
        make: Callable[[GeneratedRows], pa.RecordBatch],
        clock: Callable[[], int],
        start: int,
    ) -> None:
        self._schedule = schedule
        self._make = make
        self._clock = clock
        self._started = clock()
        self._start = start
        self._row = 0
        self._end = schedule.rows
        self._is_replay = False
        self._most = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, schedule.row_bytes)))

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._end is not None and self._row >= self._end:
            return END
        rate = self._schedule.rate
        now = self._clock()
        due = (now - self._started) * rate // SECOND + 1
        if self._is_replay:
            due = self._row + self._most
        stop = min(due, self._row + self._most, due if self._end is None else self._end)
        if stop <= self._row:
            next_due = self._started + -(-self._row * SECOND // rate)
            return Pause(max(next_due, now + LEAST_PAUSE))
        numbers = np.arange(self._row, stop)
        self._row = stop
        # Divided first, as a product of a number and a million may not fit.
        whole, rest = np.divmod(numbers, rate)
        times = self._start + whole * 1_000_000 + rest * 1_000_000 // rate
        return self._make(GeneratedRows(numbers, times, self._schedule.seed))

    def position(self) -> Token | None:
        return {"row": self._row, "start": self._start}

    def seek(self, token: Token) -> None:
        self._row, self._start = token["row"], token["start"]
        self._started -= self._row * SECOND // self._schedule.rate

    def stop_at(self, token: Token) -> None:
        # GeneratedRows that were read before are read again without a rate.
        self._end, self._is_replay = token["row"], True
