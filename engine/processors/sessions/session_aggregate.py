"""GROUP BY sessions without their rows: each session has states, which are combined when sessions
are merged.

A session is complete when the watermark is after its end, as in `session_rows`. Early results are
emitted for the open sessions that have new rows. With ALLOWED LATENESS a session is retained for
that time after its result was emitted, and emitted again, with its new bounds, if a late row was
added: a late row may merge several sessions. Rows are grouped by the number of their session and
the other keys; when sessions are merged, the numbers are looked up again (`OpenSessions.now`).

Sessions are identified by the 64-bit hash of their keys. Two keys with the same hash would share a
session. This is found when the session is complete, and fails the query, since the rows, which have
the keys, are not retained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    flags,
    from_flags,
    from_numbers,
    numbers,
    validity,
)
from runnel.columns.key_hash import Hashes, hash_columns, keyed_state
from runnel.dag import ProcessorFactory
from runnel.errors import DataError, OperationalError
from runnel.expressions.nodes import AggregateCall, Column, Expression
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage, spread_out
from runnel.processors.grouping.group_state import WEIGHT, GroupState, Partial, exported, partial_of
from runnel.processors.grouping.row_identity import same
from runnel.processors.sessions.changed_sessions import ChangedSessions
from runnel.processors.sessions.ended_sessions import is_ended_state
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sessions.session_states import SESSION, SessionStates, session_numbers
from runnel.processors.sources.partition_watermarks import LEAST_TIME, event_times
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.state_account import StateAccount
from runnel.processors.time_windows.assign_windows import bounds_range
from runnel.relation.streams import WINDOW_COLUMNS, TimeBound
from runnel.sqltypes import BIGINT, TIMESTAMP, Kind, to_arrow

_WATERMARK = pa.schema([pa.field("$watermark", pa.int64())])


@frozen(kw_only=True)
class SessionKeys:
    """How rows are grouped: by their session (events of the same `partition`, numbers of keys, that
    are at most `gap` apart in `time`), and by `keys`. `columns` says what the key columns of the
    result are: the number of one of `keys`, or −1, −2, −3 for window_time, window_end and
    window_start. `bound` is that of the time column."""

    gap: int
    time: Column
    keys: tuple[Expression, ...]
    partition: tuple[int, ...]
    columns: tuple[int, ...]
    bound: TimeBound


@frozen(kw_only=True)
class SessionEmission:
    """What comes out beside complete sessions. `every`: microseconds between early results of open
    sessions that changed;
    `lateness`: how long, in event time, a complete session still takes rows and is given again;
    `diverts`: whether late rows go to output 1."""

    every: int | None = None
    lateness: int = 0
    diverts: bool = False


class SessionAggregation(Aggregation):
    """A compiled aggregation by sessions."""

    def __init__(
        self, by: SessionKeys, aggregates: tuple[AggregateCall, ...], names: tuple[str, ...]
    ) -> None:
        time = Column(index=by.time.index, name=by.time.name, type=BIGINT)
        internal = (
            *(f"k{i}" for i in range(1 + len(by.keys))),
            *(f"a{i}" for i in range(len(aggregates))),
        )
        super().__init__((time, *by.keys), aggregates, internal, AggregationStage.SINGLE)
        self.by = by
        kind = to_arrow(by.time.type)
        self.bound_type = pa.timestamp("us") if pa.types.is_date(kind) else kind
        types = [
            self.bound_type if place < 0 else self.layout.key_types[1 + place]
            for place in by.columns
        ]
        types += [to_arrow(call.type) for call in aggregates]
        self.schema = pa.schema(
            [pa.field(name, kind) for name, kind in zip(names, types, strict=True)]
        )

    def result_keys(self, partial: Partial, first: Indexes, last: Indexes) -> list[pa.Array]:
        """The key columns of the result, where the groups' sessions begin and end with these
        events."""
        valid = validity(partial.keys[SESSION])
        return [
            self._bounds(place, first, last, valid) if place < 0 else partial.keys[1 + place]
            for place in self.by.columns
        ]

    def _bounds(self, place: int, first: Indexes, last: Indexes, valid: Mask | None) -> pa.Array:
        part = WINDOW_COLUMNS[place]
        values = first if part == "window_start" else last + self.by.gap - (part == "window_time")
        found = from_numbers(values, pa.int64(), valid)
        return (
            found.cast(self.bound_type)
            if pa.types.is_integer(self.bound_type)
            else found.view(self.bound_type)
        )


STATE_WEIGHT = 2
"""Bytes of memory that are needed per byte of state, to merge states."""


class SessionAggregateProcessor(EmittingProcessor):
    """Holds the states of open sessions."""

    is_divided_by_hash = True
    """Whether processors share the rows by the hash of all keys. If not, each of them restores all
    ended sessions."""

    def __init__(self, aggregation: SessionAggregation, emission: SessionEmission) -> None:
        unit = time_unit(to_arrow(aggregation.by.time.type))
        self.late = LateRows(self, unit, emission.diverts)
        self.account = StateAccount(self, "the states of open sessions", STATE_WEIGHT)
        super().__init__(self.late, self.account)
        self._aggregation = aggregation
        self._by = aggregation.by
        self._every = emission.every
        self._lateness = emission.lateness
        self._changes = ChangedSessions()
        self._ungiven = ChangedSessions()
        self._sessions = OpenSessions(aggregation.by.gap)
        self._watermark = LEAST_TIME
        self._floor = LEAST_TIME
        """Rows of sessions that would end before this are late, however much lateness is
        allowed."""
        self._sets: list[SessionStates] = []

    def state_size(self) -> tuple[int, int]:
        sizes = [states.size for states in self._sets]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)

    def spilled_size(self) -> tuple[int, int]:
        sizes = [states.spilled_size for states in self._sets]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)

    @property
    def _is_spilled(self) -> bool:
        """Whether some states are in files."""
        return any(states.is_spilled for states in self._sets)

    def spill(self) -> None:
        for states in self._sets:
            states.spill(self.account.reservation.memory)

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        layouts = [
            self._aggregation.plain_layout,
            *(item.layout for item in self._aggregation.distinct_sets),
        ]
        self._sets = [
            SessionStates(layout, self._sessions, self.check_accumulated) for layout in layouts
        ]

    def _hashes(self, keys: Sequence[pa.Array], num_rows: int) -> Hashes:
        """Of the columns of all keys but the session's number."""
        chosen = [keys[i] for i in self._by.partition]
        return hash_columns(chosen) if chosen else np.zeros(num_rows, np.uint64)

    @property
    def _deadline(self) -> int | None:
        """Rows of sessions that would end before this are late; None before there is a
        watermark."""
        return (
            None
            if self._watermark == LEAST_TIME
            else max(self._watermark - self._lateness, self._floor)
        )

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        aggregation = self._aggregation
        columns = aggregation.inputs_of(batch, self.context.job.evaluation)
        times = event_times(columns[SESSION])
        valid = validity(times)
        moments = numbers(times, np.int64)
        hashes = self._hashes(columns[1:], batch.num_rows)
        timed = slice(None) if valid is None else valid
        before = self._deadline
        found = np.zeros(batch.num_rows, np.int64)
        late = np.zeros(batch.num_rows, np.bool_)
        if times.null_count < len(times):
            found[timed], late[timed] = self._sessions.add(hashes[timed], moments[timed], before)
        columns[SESSION] = from_numbers(found, pa.int64(), valid)
        if late.any():
            self._count_late(batch, np.flatnonzero(late), moments[late])
            self.late.emit(batch.filter(from_flags(late)))
            columns = [column.filter(from_flags(~late)) for column in columns]
        self._sets[0].add(columns, len(columns[0]))
        if self._lateness:
            self._ungiven.add(columns[SESSION], len(self._sessions.root))
        if self._every is not None:
            self._changes.add(columns[SESSION], len(self._sessions.root))
            if not self.alarm:
                self.alarm = self.context.job.clock() + 1000 * self._every
        for item, states in zip(aggregation.distinct_sets, self._sets[1:], strict=True):
            rows = aggregation.distinct_rows(item, columns)
            states.add(rows, len(rows[0]))

    def _count_late(self, batch: pa.RecordBatch, late: Indexes, times: Indexes) -> None:
        """Counts the `late` rows of a batch, which have these event times."""

        def event(number: int) -> LateEvent:
            return LateEvent(batch.slice(int(late[number]), 1), int(times[number]))

        self.late.add(len(late), self._watermark - times, self._watermark, event)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        time = watermark.time + self._by.bound.offset
        if watermark.column == self._by.bound.watermark and time > self._watermark:
            self._watermark = time
            if self._lateness:
                self._give(time - self._by.gap)
            else:
                self._close(time - self._by.gap)
            self._sessions.forget(max(time - self._lateness, self._floor))
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def _close(self, before: int) -> None:
        """Gives the sessions whose last event is before a time."""
        sessions = self._sessions
        if sessions.earliest_end() < before:
            for states in self._sets:
                states.collapse()
            first, last = sessions.first, sessions.last
            closed = sessions.close(before)
            self._emit_closed(closed, first, last)
        if not (self._is_spilled and self.is_producing):
            self._renumber_if_crowded()

    def _emit_closed(self, closed: Mask, first: Indexes, last: Indexes) -> None:
        """Gives the groups of sessions that are over, where they are in files those of some
        sessions at a time."""
        if self._is_spilled:
            self.emit_all(self._results_by_parts(closed, first, last))
        else:
            self._emit_groups([states.take(closed) for states in self._sets], first, last)

    def _results_by_parts(
        self, closed: Mask, first: Indexes, last: Indexes
    ) -> Iterator[pa.RecordBatch]:
        for chosen in self._divided(closed):
            plain, *distinct = [states.take(chosen) for states in self._sets]
            if plain is not None:
                yield from self._results(plain, distinct, first, last, True)
        # Not before: the states of closed sessions are found by the numbers that these have.
        self._renumber_if_crowded()

    def _divided(self, chosen: Mask) -> Iterator[Mask]:
        """Some sessions in parts, so that the states in files of each have room in memory."""
        spilled = sum(states.spilled_size[1] for states in self._sets)
        share = int(np.count_nonzero(chosen)) / max(len(chosen), 1)
        parts = 1 + int(spilled * share) * WEIGHT // max(self.account.reservation.memory.allowed, 1)
        number = np.arange(len(chosen)) % parts
        for part in range(parts):
            yield chosen & (number == part)

    def _changed_by_parts(
        self, changed: Mask, with_untimed: bool, is_final: bool
    ) -> Iterator[pa.RecordBatch]:
        """The results of some sessions, and of rows that are in none if asked for, which stay,
        where some are in files."""
        first, last = self._sessions.first.copy(), self._sessions.last.copy()
        for chosen in self._divided(changed):
            plain, *distinct = [states.of(chosen, False) for states in self._sets]
            if plain is not None:
                yield from self._results(plain, distinct, first, last, is_final)
        if with_untimed:
            plain, *distinct = [
                states.of(np.zeros(len(changed), np.bool_), True) for states in self._sets
            ]
            if plain is not None:
                yield from self._results(plain, distinct, first, last, is_final)

    def _rest_by_parts(self) -> Iterator[pa.RecordBatch]:
        """The results of all that is left, where some of it is in files."""
        if self._lateness:
            yield from self._changed_by_parts(self._ungiven.of(self._sessions), True, True)
            for states in self._sets:
                states.clear()
            return
        first, last = self._sessions.first, self._sessions.last
        yield from self._results_by_parts(self._sessions.close(None), first, last)
        plain, *distinct = [states.take(None) for states in self._sets]  # what has no session
        if plain is not None:
            yield from self._results(plain, distinct, first, last, True)

    def _give(self, before: int) -> None:
        """Gives the sessions whose last event is before a time and to which rows came since they
        were given, and forgets those that can't change any more."""
        sessions = self._sessions
        for states in self._sets:
            states.collapse()
        complete = self._ungiven.of(sessions) & (sessions.last < before)
        if self._is_spilled:
            self.emit_all(self._give_by_parts(complete, before))
            return
        parts = [states.of(complete, False) for states in self._sets] if complete.any() else [None]
        self._ungiven.drop(complete, sessions)
        first, last = sessions.first.copy(), sessions.last.copy()
        if sessions.earliest_end() < before - self._lateness:
            gone = sessions.close(before - self._lateness)
            for states in self._sets:
                states.take(gone)
        self._renumber_if_crowded()
        self._emit_groups(parts, first, last)

    def _give_by_parts(self, complete: Mask, before: int) -> Iterator[pa.RecordBatch]:
        """The same where some states are in files: `complete` are the sessions to be given."""
        self._ungiven.drop(complete, self._sessions)
        yield from self._changed_by_parts(complete, False, True)
        if self._sessions.earliest_end() < before - self._lateness:
            gone = self._sessions.close(before - self._lateness)
            for states in self._sets:
                states.forget(gone)
        self._renumber_if_crowded()

    def _ungiven_groups(self) -> list[Partial | None]:
        """At the end: the groups that rows came to since they were given, and those of no
        session."""
        for states in self._sets:
            states.collapse()
        chosen = self._ungiven.of(self._sessions)
        return [states.of(chosen, True) for states in self._sets]

    def _renumber_if_crowded(self) -> None:
        """Where sessions are brought together again and again, numbers are used up though none is
        over."""
        if not self._sessions.is_crowded:
            return
        for states in self._sets:
            states.collapse()
            states.update()
        changed = [changes.now(self._sessions) for changes in (self._changes, self._ungiven)]
        moved = self._sessions.renumber()
        self._changes.renew(moved[changed[0]])
        self._ungiven.renew(moved[changed[1]])
        for states in self._sets:
            states.renew(lambda found: moved[found])

    def on_alarm(self) -> bool:
        """Early results of the open sessions that rows came to."""
        if self.alarm and self.drain():
            self.alarm = 0
            if self._changes.any:
                for states in self._sets:
                    states.collapse()
                changed = self._changes.of(self._sessions)
                if self._lateness and self._watermark != LEAST_TIME:
                    # Complete ones come with the next watermark.
                    changed &= self._sessions.last >= self._watermark - self._by.gap
                with_untimed, self._changes = self._changes.has_untimed, ChangedSessions()
                if self._is_spilled:
                    self.emit_all(self._changed_by_parts(changed, with_untimed, False))
                    return self.drain()
                parts = [states.of(changed, with_untimed) for states in self._sets]
                self._emit_groups(
                    parts, self._sessions.first.copy(), self._sessions.last.copy(), is_final=False
                )
        return self.drain()

    def complete(self) -> bool:
        if self.drain() and not all(states.is_empty for states in self._sets):
            first, last = self._sessions.first, self._sessions.last
            if self._is_spilled:
                self.emit_all(self._rest_by_parts())
                return self.drain()
            ungiven = self._ungiven_groups() if self._lateness else None
            taken = [states.take(None) for states in self._sets]
            self._emit_groups(taken if ungiven is None else ungiven, first, last)
        return self.drain()

    def _emit_groups(
        self, parts: Sequence[Partial | None], first: Indexes, last: Indexes, is_final: bool = True
    ) -> None:
        if parts[0] is not None:
            self.emit_all(self._results(parts[0], parts[1:], first, last, is_final))

    def _results(
        self,
        partial: Partial,
        distinct: Sequence[Partial | None],
        first: Indexes,
        last: Indexes,
        is_final: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The result for groups of sessions, of which `first` and `last` are the events at their
        ends, by number."""
        aggregation = self._aggregation
        if aggregation.distinct_sets:
            parts = [spread_out(partial, aggregation.plain, aggregation.layout)]
            for item, rows in zip(aggregation.distinct_sets, distinct, strict=True):
                if rows is not None:
                    parts.append(aggregation.of_distinct(item, rows, self.check_accumulated))
            partial = GroupState(aggregation.layout, self.check_accumulated).combine(parts)
        self._check_hashes(partial)
        self._check_ends(partial, first, last)
        for start in range(0, partial.num_rows, MAX_ROWS):
            piece = partial.slice(start, min(MAX_ROWS, partial.num_rows - start))
            begin, end = self._spans(piece, first, last)
            keys = aggregation.result_keys(piece, begin, end)
            yield aggregation.result_of(
                Partial(keys, piece.columns, piece.num_rows), self.context.job.evaluation, is_final
            )

    def _spans(self, partial: Partial, first: Indexes, last: Indexes) -> tuple[Indexes, Indexes]:
        """The first and the last event of the session of each group; 0 where it has none."""
        found, valid = session_numbers(partial)
        if valid is None:
            return first[found], last[found]
        begin, end = np.zeros(partial.num_rows, np.int64), np.zeros(partial.num_rows, np.int64)
        begin[valid], end[valid] = first[found[valid]], last[found[valid]]
        return begin, end

    def _check_hashes(self, partial: Partial) -> None:
        """Fails where a session has more than one key."""
        keys = [partial.keys[1 + i] for i in self._by.partition]
        found, valid = session_numbers(partial)
        rows = np.arange(partial.num_rows) if valid is None else np.flatnonzero(valid)
        order = rows[np.argsort(found[rows], kind="stable")]
        again = np.flatnonzero(found[order][1:] == found[order][:-1])
        if keys and len(again) and not same(keys, order[again], keys, order[again + 1]).all():
            raise OperationalError(
                "two keys of SESSION have the same hash, so their sessions can't be distinguished",
                hint="give PARTITION BY another form of the key, such as UPPER(key) or key + 0",
                position=self._by.time.position,
            )

    def _check_ends(self, partial: Partial, first: Indexes, last: Indexes) -> None:
        """Fails where the end of a session is none of the time's values."""
        kind = self._by.time.type
        greatest = bounds_range(kind)[1]
        if (
            partial.num_rows
            and int(self._spans(partial, first, last)[1].max()) > greatest - self._by.gap
        ):
            raise DataError(
                "a session has an end that is out of the range of "
                f"{TIMESTAMP if kind.kind is Kind.DATE else kind}",
                hint="leave the row out with WHERE"
                + (", or CAST the column to BIGINT" if kind.is_integer else ""),
                position=self._by.time.position,
            )

    def state(self) -> Iterator[pa.RecordBatch]:
        """The watermark; the ended sessions; then for the groups, and for each set of distinct
        arguments, their states with the first event of the session as first key, and its last event
        in a column behind the others."""
        watermark = pa.RecordBatch.from_arrays(
            [from_numbers(np.array([self._watermark]), pa.int64())], schema=_WATERMARK
        )
        if self._floor > max(self._watermark - self._lateness, LEAST_TIME):
            watermark = watermark.append_column(
                "floor", from_numbers(np.array([self._floor]), pa.int64())
            )
        yield watermark
        yield from self._sessions.ended_state(self._deadline)
        for number, states in enumerate(self._sets):
            states.collapse()
            states.update()
            for run in states.all_runs():
                begin, end = self._spans(run, self._sessions.first, self._sessions.last)
                valid = validity(run.keys[SESSION])
                held = Partial(
                    [from_numbers(begin, pa.int64(), valid), *run.keys[1:]],
                    run.columns,
                    run.num_rows,
                )
                batch = exported(held, states.layout)
                names = [*(f"{number}_{name}" for name in batch.schema.names), "ungiven", "last"]
                fresh = from_flags(self._is_ungiven(run))
                columns = [*batch.columns, fresh, from_numbers(end, pa.int64(), valid)]
                batch = pa.RecordBatch.from_arrays(columns, names=names)
                keys = [names[1 + i] for i in self._by.partition]
                yield keyed_state(batch, *keys) if keys else batch

    def _is_ungiven(self, partial: Partial) -> Mask:
        """Which groups are of sessions that rows came to since they were given; of no matter
        without lateness."""
        found, valid = session_numbers(partial)
        ungiven = self._ungiven.of(self._sessions)
        return (
            ungiven[found]
            if valid is None
            else np.where(valid, ungiven[np.where(valid, found, 0)], True)
        )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names[0] == _WATERMARK.names[0]:
            time, *floor = [int(numbers(column, np.int64)[0]) for column in batch.columns]
            self._watermark = time if self._watermark == LEAST_TIME else min(time, self._watermark)
            self._floor = max(self._floor, *floor, LEAST_TIME)
            return
        if is_ended_state(batch):
            context = self.context
            share = (context.index, context.parallelism) if self.is_divided_by_hash else (0, 1)
            self._sessions.ended.restore(batch, *share)
            return
        states = self._sets[int(batch.schema.names[0].partition("_")[0])]
        partial = partial_of(batch, states.layout)
        first, valid = session_numbers(partial)
        last = numbers(batch.column(batch.num_columns - 1), np.int64)
        hashes = self._hashes(partial.keys[1:], partial.num_rows)
        timed = slice(None) if valid is None else valid
        found = np.zeros(partial.num_rows, np.int64)
        if valid is None or valid.any():
            found[timed], are_mixed = self._sessions.add_spans(
                hashes[timed], first[timed], last[timed]
            )
            states.is_mixed |= are_mixed
            fresh = flags(batch.column(batch.num_columns - 2)) & (True if valid is None else valid)
            self._ungiven.mark(found[fresh])
        partial.keys[SESSION] = from_numbers(found, pa.int64(), valid)
        states.add_states(partial)
        self.account.add(batch)

    def close(self) -> None:
        super().close()
        self._sets = []


def session_aggregate(
    by: SessionKeys,
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    emission: SessionEmission | None = None,
) -> ProcessorFactory:
    """A supplier of processors that aggregate by sessions and keys. Rows of the same partition must
    meet in one processor."""
    aggregation = SessionAggregation(by, aggregates, names)
    return lambda: SessionAggregateProcessor(aggregation, emission or SessionEmission())
