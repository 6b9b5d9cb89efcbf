"""The base of joins of streams: the watermarks of both inputs, and the state of both sides.

Rows that wait hold back the watermarks that the join emits.
"""

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
from runnel.processors.stateful.late_output import LATE, LateOutputProcessor
from runnel.processors.stream_joins.sorted_runs import JoinRows, RunBuffer

_OBSERVED, _EMITTED = "$seen", "$told"
_MARKS = ("$left", "$right")


class _Step(Enum):
    """The progress of processing a watermark or the end of an input.

    NONE: nothing is in progress.
    EMITTING: results are emitted.
    PROMISING: watermarks are emitted.
    """

    NONE = 0
    EMITTING = 1
    PROMISING = 2


class BufferedJoinProcessor(LateOutputProcessor):
    """A processor of two inputs, 0 and 1, whose rows wait for each other.

    At a watermark (`on_watermark`) or the end of an input (`on_end`) it emits the results, and then
    the watermarks that have become possible. The rows that wait are in `buffers`, one per input.

    unit: the unit of event times, for the log of late rows.
    `promised`: for each input, the numbers of the watermarks that the processor emits, limited by
        `held_back`.
    pair: for each input, the watermark that rows of the other input wait for; while an input is
        idle, its watermark advances together with the watermark of the other input.
    `told`: for each input, whether its late rows are emitted too, on outputs of their own.
    """

    holds = "the rows that wait in a join of streams"
    """The name of the state in errors."""

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
        """Pairs of watermarks: the lesser of key and value is emitted with the value's number."""
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
        """Count the rows where `late` is true.

        times: the times of all rows.
        watermark: the time of the watermark that the late rows missed.
        """
        if late.any():
            self.note_late(int(np.count_nonzero(late)), int(times[late].min()), watermark)

    def tell_late(self, ordinal: int, rows: pa.RecordBatch, late: Mask) -> None:
        """Emit the rows where `late` is true, if late rows of this input are requested."""
        output = self._late_outputs[ordinal]
        if output is not None and late.any():
            self.emit_late(rows.take(indexes(np.flatnonzero(late))), output)

    def account(self) -> None:
        """Must be called when a buffer has grown; raises OperationalError if it is too large."""
        self.check_accumulated(sum(buffer.held for buffer in self.buffers))

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        """Yield the results at a watermark, which is already in `seen`."""
        raise NotImplementedError

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        """Yield the results at the end of an input, which is already in `ended`."""
        raise NotImplementedError

    def held_back(self, ordinal: int, place: int) -> int:
        """Return the limit of a watermark that results from the rows that wait.

        ordinal: the input.
        `place`: the index of the watermark among the emitted watermarks of the input.
        """
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
        """Advance the watermark of an idle input together with the other input's watermark."""
        for ordinal in sorted(self.idle_inputs):
            number, other = self._pair[ordinal], self._pair[1 - ordinal]
            if number is not None and other is not None and other in self.seen:
                yield from self._passed(number, self.seen[other])

    def _passed(self, number: int, time: int) -> Iterator[pa.RecordBatch]:
        # The watermark of an idle input may be ahead of the input's next own watermark.
        if time > self.seen.get(number, LEAST_TIME - 1):
            self.seen[number] = time
            yield from self.on_watermark(Watermark(time, number))

    def flush(self) -> bool:
        """Advance the watermark of an input that became idle after the other's last watermark."""
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
        """Emit the results of a watermark or an end, then the watermarks that have become possible.

        Returns false if some of them still wait.
        """
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
        """Yield the observed and the emitted watermarks, for a snapshot."""
        known = sorted(self.seen.keys() | self._told.keys())
        if known:
            columns = [from_numbers(np.array(known, np.int64), pa.int64())]
            columns += [_times(known, times) for times in (self.seen, self._told)]
            yield pa.RecordBatch.from_arrays(columns, names=["$watermark", _OBSERVED, _EMITTED])

    def restores_watermarks(self, batch: pa.RecordBatch) -> bool:
        """Restore watermarks from a batch of state; returns whether the batch contains watermarks.

        If several processors saved a watermark, the least time counts.
        """
        if batch.schema.names[-1] != _EMITTED:
            return False
        known = numbers(batch.column(0), np.int64).tolist()
        for times, column in ((self.seen, batch.column(1)), (self._told, batch.column(2))):
            valid = validity(column)
            for place, time in enumerate(numbers(column, np.int64).tolist()):
                if valid is None or valid[place]:
                    times[known[place]] = min(time, times.get(known[place], time))
        return True


def rows_state(side: int, rows: JoinRows, divided_by: Sequence[int]) -> pa.RecordBatch:
    """Make a batch of state from rows that wait, with a column for whether each was matched.

    side: 0 for the left side, 1 for the right side.
    divided_by: the indexes of the columns by which the state is partitioned.
    """
    columns = [*rows.batch.columns, from_flags(rows.matched)]
    batch = pa.RecordBatch.from_arrays(columns, names=[*rows.batch.schema.names, _MARKS[side]])
    return (
        keyed_state(batch, *(batch.schema.names[place] for place in divided_by))
        if divided_by
        else batch
    )


def restored_rows(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch, Mask]:
    """Return the side, the rows and the mask of matched rows of a batch of `rows_state`."""
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
