"""SESSION: rows with the bounds of the session that they are in, given once it is complete.

A session is complete when the watermark is beyond its end, which is the gap after its last event:
closed intervals [t, t + gap] that touch share a session. Its rows wait until then. A row whose time
is NULL is in no session and doesn't wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    from_flags,
    from_numbers,
    join_batches,
    numbers,
)
from runnel.columns.key_hash import keyed_state
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Column
from runnel.processor import Watermark
from runnel.processors.sessions.ended_sessions import is_ended_state
from runnel.processors.sessions.session_merge import LEAST, OpenSessions
from runnel.processors.sessions.session_output import Held, SessionPlan
from runnel.processors.sessions.sessions_at_end import SessionsAtEnd
from runnel.processors.sources.partition_watermarks import LEAST_TIME
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.state_account import StateAccount
from runnel.processors.stateful.until_watermark import TAKEN_SHARE, WEIGHT
from runnel.relation.streams import TimeBound
from runnel.sqltypes import to_arrow
from runnel.storage.memory_budget import size_of

_WATERMARK = pa.schema([pa.field("$watermark", pa.int64())])


class SessionRowsProcessor(EmittingProcessor):
    """Holds the rows of open sessions."""

    def __init__(self, plan: SessionPlan, bound: TimeBound, passes_late: bool) -> None:
        self.late = LateRows(self, time_unit(to_arrow(plan.type)), are_emitted=False)
        self.account = StateAccount(self, "the rows of open sessions", WEIGHT)
        super().__init__(self.late, self.account)
        self._plan = plan
        self._bound = bound
        self._passes_late = passes_late
        self._sessions = OpenSessions(plan.gap)
        self._held: list[Held] = []
        self._count = 0
        self._watermark = LEAST_TIME

    def state_size(self) -> tuple[int, int]:
        held = tuple(self._held)
        taken = sum((item.file_bytes or size_of(item.batch)) + 16 * len(item.rows) for item in held)
        return sum(len(item.rows) for item in held), taken

    def spilled_size(self) -> tuple[int, int]:
        held = [item for item in tuple(self._held) if item.file_bytes]
        return sum(len(item.rows) for item in held), sum(item.file_bytes for item in held)

    def spill(self) -> None:
        """The rows go to a file; which session each is in stays in memory."""
        held = [item for item in self._held if not item.file_bytes]
        if held:
            batch = self.account.reservation.memory.mapped(
                join_batches([item.taken() for item in held])
            )
            sessions = np.concatenate([item.sessions for item in held])
            self._held = [item for item in self._held if item.file_bytes]
            self._held.append(Held(batch, np.arange(batch.num_rows), sessions, batch.nbytes))

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._take(batch, None if self._watermark == LEAST_TIME else self._watermark)

    def _take(self, batch: pa.RecordBatch, before: int | None) -> None:
        batch, untimed = self._plan.divided(batch)
        if untimed is not None:
            self.emit(untimed)
        if not batch.num_rows:
            return
        times = self._plan.times(batch)
        sessions, late = self._sessions.add(self._plan.hashes(batch), times, before)
        rows = np.arange(batch.num_rows)
        if late.any():
            assert before is not None
            if self._passes_late:
                self._pass_late(batch.filter(from_flags(late)))
            else:
                self._count_late(batch, np.flatnonzero(late), times[late], before)
            rows, sessions = rows[~late], sessions[~late]
        if len(rows):
            self._hold(Held(batch, rows, sessions))
            self.check_accumulated(self._count)

    def _count_late(
        self, batch: pa.RecordBatch, late: Indexes, times: Indexes, watermark: int
    ) -> None:
        """Counts the `late` rows of a batch, which have these event times."""

        def event(number: int) -> LateEvent:
            return LateEvent(batch.slice(int(late[number]), 1), int(times[number]))

        self.late.add(len(late), watermark - times, watermark, event)

    def _pass_late(self, batch: pa.RecordBatch) -> None:
        """Emits late rows with bounds that end behind the watermark: those of the session that a
        row touches and that was emitted, or else of the session that it makes with other late
        rows."""
        hashes, times = self._plan.hashes(batch), self._plan.times(batch)
        touches, first, last = self._sessions.ended.of(hashes, times)
        touches &= times >= np.maximum(first, LEAST + self._plan.gap) - self._plan.gap
        own = ~touches
        if own.any():
            sessions = OpenSessions(self._plan.gap)
            of, _ = sessions.add(hashes[own], times[own], None)
            first[own], last[own] = sessions.first[of], sessions.last[of]
        rows = np.arange(batch.num_rows)
        for piece in self._plan.results([Held(batch, rows, rows)], first, last):
            self.emit(piece)

    def _hold(self, held: Held) -> None:
        """Keeps rows; small batches are put together, so that there are few."""
        self._count += len(held.rows)
        while (
            self._held
            and len(self._held[-1].rows) <= len(held.rows) < MAX_ROWS
            and not self._held[-1].file_bytes
        ):
            last = self._held.pop()
            batch = join_batches([last.taken(), held.taken()])
            held = Held(
                batch, np.arange(batch.num_rows), np.concatenate((last.sessions, held.sessions))
            )
        self._held.append(held)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        time = watermark.time + self._bound.offset
        if watermark.column == self._bound.watermark and time > self._watermark:
            self._watermark = time
            self._close(time - self._plan.gap)
            self._sessions.forget(time)
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if self.drain() and self._held:
            self._close(None)
        return self.drain()

    def _close(self, before: int | None) -> None:
        """Gives the rows of the sessions whose last event is before a time (None: of all)."""
        sessions = self._sessions
        if before is None or sessions.earliest_end() < before:
            self._give(before)
        if sessions.is_crowded:
            # Where sessions are brought together again and again, numbers are used up though none
            # is over.
            for held in self._held:
                held.sessions = sessions.now(held.sessions)
            moved = sessions.renumber()
            for held in self._held:
                held.sessions = moved[held.sessions]

    def _give(self, before: int | None) -> None:
        sessions = self._sessions
        first, last = sessions.first, sessions.last
        closed = sessions.close(before)
        complete: list[Held] = []
        spilled = 0
        for held in self._held:
            held.sessions = sessions.now(held.sessions)
            gone = closed[held.sessions]
            if gone.any():
                complete.append(held.at(gone))
                spilled += held.file_bytes
                held.keep(~gone)
        self._held = [held for held in self._held if len(held.rows)]
        self._count = sum(len(held.rows) for held in self._held)
        self.emit_all(self._results(complete, spilled, (first, last)))

    def _results(
        self, complete: list[Held], spilled: int, bounds: tuple[Indexes, Indexes]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of complete sessions; where so many bytes of them are in files, those of some
        sessions at a time."""
        parts = 1
        if spilled:
            parts += spilled * TAKEN_SHARE // max(self.account.reservation.memory.allowed, 1)
        for part in range(parts):
            some = (
                complete
                if parts == 1
                else [held.at(held.sessions % parts == part) for held in complete]
            )
            yield from self._plan.results([held for held in some if len(held.rows)], *bounds)

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermark, the ended sessions, then the rows that wait, by their keys."""
        yield pa.RecordBatch.from_arrays(
            [from_numbers(np.array([self._watermark]), pa.int64())], schema=_WATERMARK
        )
        yield from self._sessions.ended_state(
            None if self._watermark == LEAST_TIME else self._watermark
        )
        for held in self._held:
            rows = held.taken()
            yield keyed_state(rows, *(rows.schema.names[i] for i in self._plan.keys))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names == _WATERMARK.names:
            time = int(numbers(batch.column(0), np.int64)[0])
            self._watermark = time if self._watermark == LEAST_TIME else min(time, self._watermark)
        elif is_ended_state(batch):
            self._sessions.ended.restore(batch, self.context.index, self.context.parallelism)
        else:
            self._take(batch, None)
            self.account.add(batch)

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
    passes_late: bool = False,
) -> ProcessorFactory:
    """A supplier of processors that give the first `width` columns of each row and the three bounds
    of its session, called by `names`. Rows that agree in the columns at `keys` must meet in one
    processor. `bound`: the time column's, by whose watermark sessions are complete; without one
    they are at the end of the input. Late rows are left out, counted and logged; with `passes_late`
    they are given in sessions of their own, for an operator behind that knows late rows by their
    window_end."""
    plan = SessionPlan(gap, time.index, time.type, keys, width, names, time.position)
    if bound is not None:
        return lambda: SessionRowsProcessor(plan, bound, passes_late)
    return lambda: SessionsAtEnd(plan)
