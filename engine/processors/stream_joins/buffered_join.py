"""What joins of streams share: watermarks of both inputs that are held back by the rows that wait,
and the state of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    Indexes,
    Mask,
    empty_columns,
    flags,
    from_flags,
    from_numbers,
    indexes,
    make_batch,
    numbers,
    validity,
)
from runnel.columns.key_hash import keyed_state
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import GREATEST_TIME, LEAST_TIME
from runnel.processors.stateful.late_output import LATE, DivertingProcessor
from runnel.processors.stream_joins.sorted_runs import Rows, RunBuffer

_SEEN, _TOLD = "$seen", "$told"
_MARKS = ("$left", "$right")


class _Step(Enum):
    """How far the work on a watermark, or on the end of an input, has got."""

    NONE = 0
    EMITTING = 1
    PROMISING = 2


class WaitingProcessor(DivertingProcessor):
    """A processor of two inputs, 0 and 1, whose rows wait.

    `promised` are, for each input, the numbers of the watermarks that are passed on, no further
    than `held_back` allows. `pair` are the watermarks of both that rows of the other input wait
    for: while an input is idle, its own goes along with the other one. The processor does what
    follows from a watermark (`on_watermark`) or an end (`on_end`), and when that has come out, it
    promises what may be promised since. The rows that wait are in `buffers`, one for each input;
    late ones are counted in `unit`s of event time, and those of the inputs that `told` says go on
    by outputs of their own as well.
    """

    holds = "the rows that wait in a join of streams"
    """What is in the buffers, for errors."""

    def __init__(
        self,
        unit: str,
        promised: tuple[Sequence[int], Sequence[int]],
        pair: tuple[int | None, int | None] = (None, None),
        told: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__(any(told), unit)
        self._late_outputs = (LATE if told[0] else None, LATE + told[0] if told[1] else None)
        self.buffers = (RunBuffer(), RunBuffer())
        self._pair = pair
        self.seen: dict[int, int] = {}
        self.ended = [False, False]
        self._promised = promised
        self.tied: dict[int, int] = {}
        """Watermarks that are promised as others, by number: the lesser of the two."""
        self._told: dict[int, int] = {}
        self._promises: deque[Watermark] = deque()
        self._step = _Step.NONE

    def state_size(self) -> tuple[int, int]:
        runs = [run for buffer in self.buffers for run in buffer]
        return sum(run.living for run in runs), sum(run.size for run in runs)

    def spilled_size(self) -> tuple[int, int]:
        runs = [run for buffer in self.buffers for run in buffer if run.is_spilled]
        return sum(run.living for run in runs), sum(run.file_bytes for run in runs)

    @property
    def weight(self) -> int:
        return 2

    def spill(self) -> None:
        for buffer in self.buffers:
            buffer.spill(self._reservation.memory)

    def count_late(self, late: Mask, times: Indexes, watermark: int) -> None:
        """Some rows, of these times, or none, came after that watermark."""
        if late.any():
            self.note_late(int(np.count_nonzero(late)), int(times[late].min()), watermark)

    def tell_late(self, ordinal: int, rows: pa.RecordBatch, late: Mask) -> None:
        """Hands on some rows of an input, or none, that are late, where anybody wants to know."""
        output = self._late_outputs[ordinal]
        if output is not None and late.any():
            self.emit_late(rows.take(indexes(np.flatnonzero(late))), output)

    def account(self) -> None:
        """To be called when a buffer has grown. OperationalError where it may not."""
        self.check_accumulated(sum(buffer.held for buffer in self.buffers))

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        """What comes out at a watermark, which is in `seen` already."""
        raise NotImplementedError

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        """What comes out at the end of an input, which is in `ended` already."""
        raise NotImplementedError

    def held_back(self, ordinal: int, place: int) -> int:
        """How far the watermark at `place` of those that an input promises may get while rows
        wait."""
        raise NotImplementedError

    def process_watermark(self, watermark: Watermark) -> bool:
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self._step = _Step.EMITTING
            self.emit_all(self._at(watermark))
        return self._concluded()

    def _at(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        yield from self._passed(watermark.column, watermark.time)
        yield from self._along()

    def _along(self) -> Iterator[pa.RecordBatch]:
        """The watermark of an input that is idle goes along with that of the other one."""
        for ordinal in sorted(self.idle_inputs):
            number, other = self._pair[ordinal], self._pair[1 - ordinal]
            if number is not None and other is not None and other in self.seen:
                yield from self._passed(number, self.seen[other])

    def _passed(self, number: int, time: int) -> Iterator[pa.RecordBatch]:
        # One that went along with the other may be ahead of what the input itself says later.
        if time > self.seen.get(number, LEAST_TIME - 1):
            self.seen[number] = time
            yield from self.on_watermark(Watermark(time, number))

    def flush(self) -> bool:
        """An input may have fallen idle since the last watermark of the other."""
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            if not self.idle_inputs:
                return True
            self._step = _Step.EMITTING
            self.emit_all(self._along())
        return self._concluded()

    def on_idle(self) -> bool:
        return self.flush()

    def complete_edge(self, ordinal: int) -> bool:
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self.ended[ordinal] = True
            self._step = _Step.EMITTING
            self.emit_all(self.on_end(ordinal))
        return self._concluded()

    def _concluded(self) -> bool:
        """Hands out what came of a watermark or an end, then what may be promised since. False: not
        all yet."""
        if self._step is _Step.EMITTING:
            if not self.drain():
                return False
            self._promises.extend(self._new_promises())
            self._step = _Step.PROMISING
        while self._promises:
            if not self.outbox.offer(self._promises[0]):
                return False
            self._promises.popleft()
        self._step = _Step.NONE
        return True

    def _new_promises(self) -> list[Watermark]:
        if all(self.ended):
            return []
        limits: dict[int, list[int | None]] = {}
        for ordinal, promised in enumerate(self._promised):
            for place, number in enumerate(promised):
                seen = GREATEST_TIME if self.ended[ordinal] else self.seen.get(number)
                limits.setdefault(self.tied.get(number, number), []).extend(
                    (seen, self.held_back(ordinal, place))
                )
        found = []
        for number, times in sorted(limits.items()):
            known = [time for time in times if time is not None]
            if len(known) == len(times) and min(known) > self._told.get(number, LEAST_TIME):
                self._told[number] = min(known)
                found.append(Watermark(min(known), number))
        return found

    def close(self) -> None:
        super().close()
        for buffer in self.buffers:
            buffer.runs = []

    def watermark_state(self) -> Iterator[pa.RecordBatch]:
        """The watermarks that were seen and promised."""
        known = sorted(self.seen.keys() | self._told.keys())
        if known:
            columns = [from_numbers(np.array(known, np.int64), pa.int64())]
            columns += [_times(known, times) for times in (self.seen, self._told)]
            yield pa.RecordBatch.from_arrays(columns, names=["$watermark", _SEEN, _TOLD])

    def restores_watermarks(self, batch: pa.RecordBatch) -> bool:
        """Whether a batch of state is about watermarks, which it takes in then: of what several
        processors had seen and promised, the least."""
        if batch.schema.names[-1] != _TOLD:
            return False
        known = numbers(batch.column(0), np.int64).tolist()
        for times, column in ((self.seen, batch.column(1)), (self._told, batch.column(2))):
            valid = validity(column)
            for place, time in enumerate(numbers(column, np.int64).tolist()):
                if valid is None or valid[place]:
                    times[known[place]] = min(time, times.get(known[place], time))
        return True


def rows_state(side: int, rows: Rows, divided_by: Sequence[int]) -> pa.RecordBatch:
    """Rows that wait, each with whether it was matched, as state that is divided by the columns at
    `divided_by`."""
    columns = [*rows.batch.columns, from_flags(rows.matched)]
    batch = pa.RecordBatch.from_arrays(columns, names=[*rows.batch.schema.names, _MARKS[side]])
    return (
        keyed_state(batch, *(batch.schema.names[place] for place in divided_by))
        if divided_by
        else batch
    )


def restored_rows(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch, Mask]:
    """Of such state the side, the rows, and which of them were matched."""
    names = batch.schema.names
    columns = batch.columns[:-1]
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(names, columns, strict=False)]
    )
    given = (
        make_batch(columns, schema, batch.num_rows) if columns else empty_columns(batch.num_rows)
    )
    return _MARKS.index(names[-1]), given, flags(batch.column(len(columns))).copy()


def _times(known: list[int], times: dict[int, int]) -> pa.Array:
    values = np.array([times.get(number, 0) for number in known], np.int64)
    return from_numbers(
        values, pa.int64(), np.array([number in times for number in known], np.bool_)
    )
