"""SESSION: rows with the bounds of the session that they are in, given once it is complete.

A session is complete when the watermark is beyond its end, which is the gap after its last event: closed intervals
[t, t + gap] that touch share a session. Its rows wait until then. A row whose time is NULL is in no session and doesn't wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_flags,
    from_numbers,
    indexes,
    join_batches,
    make_batch,
    numbers,
    validity,
)
from runnel.dag import ProcessorFactory
from runnel.errors import DataError, Position
from runnel.expressions.nodes import Column
from runnel.frozen import frozen
from runnel.key_hash import hash_columns, keyed_state
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.assign_windows import bounds_range
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.event_time import LEAST_TIME, event_times
from runnel.processors.late_rows import LateRows
from runnel.processors.row_identity import factorise, same
from runnel.processors.session_merge import OpenSessions
from runnel.sqltypes import TIMESTAMP, Kind, SqlType, to_arrow
from runnel.streams import WINDOW_COLUMNS, TimeBound

_WATERMARK = pa.schema([pa.field("$watermark", pa.int64())])


@frozen
class SessionPlan:
    """What the processors of a vertex share. The rows have the first `width` columns of the input; `keys` are columns of it by
    which the sessions are told apart; `bound` is that of the time column, None where no watermark bounds it."""

    gap: int
    time: int
    type: SqlType
    keys: tuple[int, ...]
    width: int
    names: tuple[str, ...]
    bound: TimeBound | None
    position: Position | None

    @property
    def bound_type(self) -> SqlType:
        return TIMESTAMP if self.type.kind is Kind.DATE else self.type


@dataclass(slots=True)
class _Held:
    """Rows that wait: those at `rows` of a batch, and the number of each one's session."""

    batch: pa.RecordBatch
    rows: Indexes
    sessions: Indexes

    def kept(self, mask: Mask) -> None:
        """Leaves only some rows."""
        self.rows, self.sessions = self.rows[mask], self.sessions[mask]
        if 2 * len(self.rows) < self.batch.num_rows:
            self.batch = self.batch.take(indexes(self.rows))
            self.rows = np.arange(len(self.rows))


class SessionRows(EmittingProcessor):
    """Holds the rows of open sessions."""

    def __init__(self, plan: SessionPlan) -> None:
        super().__init__()
        self._plan = plan
        self._arrow = to_arrow(plan.bound_type)
        self._width = np.dtype(f"i{self._arrow.bit_width // 8}")
        self._sessions = OpenSessions(plan.gap)
        self._held: list[_Held] = []
        self._count = 0
        self._watermark = LEAST_TIME

    @property
    def late_rows(self) -> int:
        """How many rows came too late so far."""
        return self._late_rows.count

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._late_rows = LateRows(context, "" if self._plan.type.is_integer else "µs")

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._take(batch, None if self._watermark == LEAST_TIME else self._watermark)

    def _take(self, batch: pa.RecordBatch, before: int | None) -> None:
        column = event_times(batch.column(self._plan.time))
        valid = validity(column)
        if valid is not None:
            self._emit_untimed(batch.filter(from_flags(~valid)))
            batch = batch.filter(from_flags(valid))
            column = column.filter(from_flags(valid))
        if not batch.num_rows:
            return
        if self._plan.bound is None:
            # All sessions are complete at the same time: they are found then, at once.
            self._hold(_Held(batch, np.arange(batch.num_rows), np.zeros(batch.num_rows, np.int64)))
            self.check_accumulated(self._count)
            return
        times = numbers(column, np.int64)
        sessions, late = self._sessions.add(self._hashes(batch), times, before)
        rows = np.arange(batch.num_rows)
        if late.any():
            assert before is not None
            self._late_rows.add(int(late.sum()), int(times[late].min()) + self._plan.gap, before)
            rows, sessions = rows[~late], sessions[~late]
        if len(rows):
            self._hold(_Held(batch, rows, sessions))
            self.check_accumulated(self._count)

    def _hashes(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        keys = [batch.column(i) for i in self._plan.keys]
        return hash_columns(keys) if keys else np.zeros(batch.num_rows, np.uint64)

    def _hold(self, held: _Held) -> None:
        """Keeps rows; small batches are put together, so that there are few."""
        self._count += len(held.rows)
        while self._held and len(self._held[-1].rows) <= len(held.rows) < MAX_ROWS:
            last = self._held.pop()
            batch = join_batches([last.batch.take(indexes(last.rows)), held.batch.take(indexes(held.rows))])
            held = _Held(batch, np.arange(batch.num_rows), np.concatenate((last.sessions, held.sessions)))
        self._held.append(held)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        bound = self._plan.bound
        if bound is not None and watermark.column == bound.watermark and watermark.time + bound.offset > self._watermark:
            self._watermark = watermark.time + bound.offset
            self._close(self._watermark - self._plan.gap)
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if self.drain() and self._held:
            if self._plan.bound is None:
                self._gather()
            self._close(None)
        return self.drain()

    def _gather(self) -> None:
        """Finds the sessions of all rows together."""
        batch = join_batches([held.batch.take(indexes(held.rows)) for held in self._held])
        times = numbers(event_times(batch.column(self._plan.time)), np.int64)
        sessions, _ = self._sessions.add(self._hashes(batch), times, None)
        self._held = [_Held(batch, np.arange(batch.num_rows), sessions)]

    def _close(self, before: int | None) -> None:
        """Gives the rows of the sessions whose last event is before a time (None: of all)."""
        sessions = self._sessions
        if not sessions.count or (before is not None and sessions.earliest_end() >= before):
            return
        first, last = sessions.first, sessions.last
        closed = sessions.close(before)
        complete: list[_Held] = []
        for held in self._held:
            held.sessions = sessions.now(held.sessions)
            gone = closed[held.sessions]
            if gone.any():
                complete.append(_Held(held.batch, held.rows[gone], held.sessions[gone]))
                held.kept(~gone)
        self._held = [held for held in self._held if len(held.rows)]
        self._count = sum(len(held.rows) for held in self._held)
        if sessions.is_crowded:
            moved = sessions.renumber()
            for held in self._held:
                held.sessions = moved[held.sessions]
        self.emit_all(self._results(complete, first, last))

    def _results(self, complete: Sequence[_Held], first: Indexes, last: Indexes) -> Iterator[pa.RecordBatch]:
        """The rows of complete sessions."""
        found = self._apart_by_key(complete) if self._plan.keys else None
        if found is not None:
            complete, first, last = found
        for held in complete:
            starts, ends = first[held.sessions], last[held.sessions]
            self._check(starts, ends)
            for at in range(0, len(held.rows), MAX_ROWS):
                piece = slice(at, at + MAX_ROWS)
                yield self._result(held.batch.take(indexes(held.rows[piece])), starts[piece], ends[piece] + self._plan.gap)

    def _apart_by_key(self, complete: Sequence[_Held]) -> tuple[Sequence[_Held], Indexes, Indexes] | None:
        """Sessions in which keys that have the same hash came together, taken apart; None if there are none, as is usual."""
        if not complete:
            return None
        batch = join_batches([held.batch.take(indexes(held.rows)) for held in complete])
        sessions = np.concatenate([held.sessions for held in complete])
        keys = [batch.column(i) for i in self._plan.keys]
        rows = np.arange(len(sessions))
        some = np.empty(int(sessions.max()) + 1, np.int64)
        some[sessions] = rows
        if same(keys, rows, keys, some[sessions]).all():
            return None
        codes, _ = factorise(keys)
        apart = OpenSessions(self._plan.gap)
        times = numbers(event_times(batch.column(self._plan.time)), np.int64)
        exact, _ = apart.add(codes.astype(np.uint64), times, None)
        return [_Held(batch, np.arange(len(exact)), exact)], apart.first, apart.last

    def _check(self, starts: Indexes, ends: Indexes) -> None:
        """DataError where the end of a session is none of the type's values."""
        greatest = bounds_range(self._plan.type)[1]
        if (ends > greatest - self._plan.gap).any():
            raise DataError(
                f"a session has an end that is out of the range of {self._plan.bound_type}",
                hint="leave the row out with WHERE" + (", or CAST the column to BIGINT" if self._plan.type.is_integer else ""),
                position=self._plan.position,
            )

    def _result(self, batch: pa.RecordBatch, starts: Indexes, ends: Indexes) -> pa.RecordBatch:
        bounds = [from_numbers(item.astype(self._width, copy=False), self._arrow) for item in (starts, ends, ends - 1)]
        return self._batch([*batch.columns[: self._plan.width], *bounds], batch.num_rows)

    def _emit_untimed(self, batch: pa.RecordBatch) -> None:
        nulls = [pa.nulls(batch.num_rows, self._arrow) for _ in WINDOW_COLUMNS]
        self.emit(self._batch([*batch.columns[: self._plan.width], *nulls], batch.num_rows))

    def _batch(self, columns: list[pa.Array], num_rows: int) -> pa.RecordBatch:
        schema = pa.schema([pa.field(name, item.type) for name, item in zip(self._plan.names, columns, strict=True)])
        return make_batch(columns, schema, num_rows)

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermark, then the rows that wait, by their keys."""
        yield pa.RecordBatch.from_arrays([from_numbers(np.array([self._watermark]), pa.int64())], schema=_WATERMARK)
        for held in self._held:
            rows = held.batch.take(indexes(held.rows))
            yield keyed_state(rows, *(rows.schema.names[i] for i in self._plan.keys))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names == _WATERMARK.names:
            time = int(numbers(batch.column(0), np.int64)[0])
            self._watermark = time if self._watermark == LEAST_TIME else min(time, self._watermark)
        else:
            self._take(batch, None)

    def close(self) -> None:
        super().close()
        self._held = []


def session_rows(
    gap: int,
    time: Column,
    keys: tuple[int, ...],
    width: int,
    names: tuple[str, ...],
    bound: TimeBound | None,
) -> ProcessorFactory:
    """A supplier of processors that give the first `width` columns of each row and the three bounds of its session, called by
    `names`. Rows that agree in the columns at `keys` must meet in one processor. `bound`: the time column's, by whose watermark
    sessions are complete; without one they are at the end of the input."""
    plan = SessionPlan(gap, time.index, time.type, keys, width, names, bound, time.position)
    return lambda: SessionRows(plan)
