"""The processor of joins of streams: the watermarks of both inputs, and the state of both sides.

A StreamJoin matches the rows. Rows that wait hold back the watermarks that the processor emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.sources.partition_watermarks import GREATEST_TIME, LEAST_TIME
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_event import LateEvent
from runnel.processors.stateful.late_rows import LATE, LateRows
from runnel.processors.stateful.state_account import StateAccount
from runnel.processors.stream_joins.join_inputs import JoinInputs, restored_rows, rows_state
from runnel.processors.stream_joins.sorted_runs import JoinRows, SortedRun
from runnel.storage.memory_budget import Reservation

WEIGHT = 2
"""Bytes of memory that are needed per byte of rows that wait, to match them."""


class StreamJoin(ABC):
    """The part of a StreamJoinProcessor that matches rows. Each processor has one of its own.

    unit: the unit of event times, for the log of late rows.
    state_name: the name of the state in errors, in the plural.
    numbers: for each input, the numbers of the watermarks that the processor emits for it.
    pair: for each input, the number of the watermark that rows of the other input wait for; while
        an input is idle, its watermark advances together with the watermark of the other input.
    emits_late: for each input, whether its late rows are emitted too, on outputs of their own.
    partition_columns: for each input, the columns by which its rows are partitioned among
        processors.
    tied: pairs of watermarks: the lesser of key and value is emitted with the value's number.
    inputs: the rows that wait, and the progress of the inputs.
    """

    unit: str
    state_name = "the rows that wait in a join of streams"
    numbers: tuple[Sequence[int], Sequence[int]]
    pair: tuple[int | None, int | None] = (None, None)
    emits_late: tuple[bool, bool] = (False, False)
    partition_columns: Sequence[Sequence[int]]
    tied: Mapping[int, int] = {}
    inputs: JoinInputs
    context: ProcessorContext
    reservation: Reservation
    _late: LateRows
    _check_accumulated: Callable[[int], None]

    def init(self, processor: StreamJoinProcessor) -> None:
        """Must be called when the processor is initialised."""
        self.inputs = processor.inputs
        self.context = processor.context
        self.reservation = processor.account.reservation
        self._late = processor.late
        self._check_accumulated = processor.check_accumulated

    @abstractmethod
    def arrive(self, ordinal: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch] | None:
        """Add rows of an input; returns an iterator of results, or None if there are none."""

    @abstractmethod
    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        """Yield the results at a watermark, which is already in `inputs`."""

    @abstractmethod
    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        """Yield the results at the end of an input, which is already in `inputs`."""

    @abstractmethod
    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all rows that still wait when both inputs have ended."""

    @abstractmethod
    def restored(self, side: int, batch: pa.RecordBatch, matched: Mask) -> JoinRows:
        """Return rows of a snapshot as rows that wait.

        matched: a mask of the rows that had a match.
        """

    def saves(self, side: int) -> bool:
        """Whether this processor saves the rows of a side, which all processors may have."""
        return True

    def finish_restore(self) -> None:
        """All state was restored."""

    def count_late(self, late: Mask, rows: JoinRows, due: Indexes, limit: int, number: int) -> None:
        """Count the rows where `late` is true.

        rows: all rows.
        due: the times of all rows; these are late because they are below `limit`.
        limit: the least time that a row could have without being late.
        number: the number of the watermark from which `limit` is derived.
        """
        if not late.any():
            return
        places, lateness = np.flatnonzero(late), limit - due[late]
        watermark = self.inputs.observed.get(number, limit)

        def event(number: int) -> LateEvent:
            row = rows.batch.slice(int(places[number]), 1)
            return LateEvent(row, watermark - int(lateness[number]))

        self._late.add(len(places), lateness, watermark, event)

    def emit_late(self, ordinal: int, rows: pa.RecordBatch, late: Mask) -> None:
        """Emit the rows where `late` is true, if late rows of this input are requested."""
        if self.emits_late[ordinal] and late.any():
            output = LATE + (ordinal == 1 and self.emits_late[0])
            self._late.emit(rows.take(indexes(np.flatnonzero(late))), output)

    def check_size(self) -> None:
        """Must be called when a buffer has grown; raises OperationalError if it is too large."""
        self._check_accumulated(self.inputs.count)


class _Step(Enum):
    """The progress of processing a watermark or the end of an input.

    NONE: nothing is in progress.
    RESULTS: results are emitted.
    WATERMARKS: watermarks are emitted.
    """

    NONE = 0
    RESULTS = 1
    WATERMARKS = 2


class StreamJoinProcessor(EmittingProcessor):
    """A processor of two inputs, 0 and 1, whose rows wait for each other.

    At a watermark or the end of an input it emits the results of its StreamJoin, and then the
    watermarks that have become possible.
    """

    def __init__(self, join: StreamJoin) -> None:
        self.inputs = JoinInputs()
        self.late = LateRows(self, join.unit, any(join.emits_late))
        self.account = StateAccount(self, join.state_name, WEIGHT)
        super().__init__(self.late, self.account)
        self._join = join
        self._watermarks: deque[Watermark] = deque()
        self._step = _Step.NONE
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._join.init(self)

    def state_size(self) -> tuple[int, int]:
        return self.inputs.size

    def spilled_size(self) -> tuple[int, int]:
        return self.inputs.spilled_size

    def spill(self) -> None:
        self.inputs.spill(self.account.reservation.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        results = self._join.arrive(ordinal, batch)
        if results is not None:
            self.emit_all(results)

    def process_watermark(self, watermark: Watermark) -> bool:
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self._step = _Step.RESULTS
            self.emit_all(self._at(watermark))
        return self._concluded()

    def _at(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        yield from self._passed(watermark.column, watermark.time)
        yield from self._advance_idle()

    def _advance_idle(self) -> Iterator[pa.RecordBatch]:
        """Advance the watermark of an idle input together with the other input's watermark."""
        for ordinal in sorted(self.idle_inputs):
            number, other = self._join.pair[ordinal], self._join.pair[1 - ordinal]
            if number is not None and other is not None and other in self.inputs.observed:
                yield from self._passed(number, self.inputs.observed[other])

    def _passed(self, number: int, time: int) -> Iterator[pa.RecordBatch]:
        # The watermark of an idle input may be ahead of the input's next own watermark.
        if time > self.inputs.observed.get(number, LEAST_TIME - 1):
            self.inputs.observed[number] = time
            yield from self._join.on_watermark(Watermark(time, number))

    def flush(self) -> bool:
        """Advance the watermark of an input that became idle after the other's last watermark."""
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            if not self.idle_inputs:
                return True
            self._step = _Step.RESULTS
            self.emit_all(self._advance_idle())
        return self._concluded()

    def on_idle(self) -> bool:
        return self.flush()

    def complete_edge(self, ordinal: int) -> bool:
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self.inputs.ended[ordinal] = True
            self._step = _Step.RESULTS
            self.emit_all(self._join.on_end(ordinal))
        return self._concluded()

    def _concluded(self) -> bool:
        """Emit the results of a watermark or an end, then the watermarks that have become possible.

        Returns false if some of them still wait.
        """
        if self._step is _Step.RESULTS:
            if not self.drain():
                return False
            self._watermarks.extend(self._new_watermarks())
            self._step = _Step.WATERMARKS
        while self._watermarks:
            if not self.outbox.offer(self._watermarks[0]):
                return False
            self._watermarks.popleft()
        self._step = _Step.NONE
        return True

    def _new_watermarks(self) -> list[Watermark]:
        """Return the watermarks that have advanced; rows that wait hold them back."""
        inputs, join = self.inputs, self._join
        if all(inputs.ended):
            return []
        limits: dict[int, list[int | None]] = {}
        for ordinal, numbers in enumerate(join.numbers):
            for index, number in enumerate(numbers):
                observed = GREATEST_TIME if inputs.ended[ordinal] else inputs.observed.get(number)
                limits.setdefault(join.tied.get(number, number), []).extend(
                    (observed, inputs.buffers[ordinal].least_hold(index))
                )
        found = []
        for number, times in sorted(limits.items()):
            known = [time for time in times if time is not None]
            if len(known) == len(times) and min(known) > inputs.emitted.get(number, LEAST_TIME):
                inputs.emitted[number] = min(known)
                found.append(Watermark(min(known), number))
        return found

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain():
                return False
            self._is_done = True
            self.emit_all(self._join.rest())
        return self.drain()

    def state(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that wait, then the watermarks."""
        for side, buffer in enumerate(self.inputs.buffers):
            if self._join.saves(side):
                columns = self._join.partition_columns[side]
                for run in buffer:
                    yield rows_state(side, run.living_rows(buffer.horizon), columns)
        yield from self.inputs.watermark_state()

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if self.inputs.restores_watermarks(batch):
            return
        side, rows, matched = restored_rows(batch)
        restored = self._join.restored(side, rows, matched)
        if restored.count:
            self.inputs.buffers[side].add(SortedRun(restored))
            self.account.add(batch)

    def finish_restore(self) -> bool:
        self._join.finish_restore()
        return True

    def close(self) -> None:
        super().close()
        self.inputs.clear()
