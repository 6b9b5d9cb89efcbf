"""Sessions with user-defined operations: one Python accumulator per session, key and operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import from_numbers, indexes, numbers, validity
from runnel.columns.key_hash import Hashes, hash_columns, keyed_state
from runnel.errors import DataError, OperationalError
from runnel.expressions.kernels.values import array_of
from runnel.processor import Watermark
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.library.accumulators import AccumulatorCodec
from runnel.processors.library.aggregate_operation import AggregateOperation
from runnel.processors.library.by_key import hashable
from runnel.processors.library.typed_rows import column_of
from runnel.processors.sessions.ended_sessions import is_ended_state
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sources.partition_watermarks import LEAST_TIME, event_times
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.time_windows.assign_windows import bounds_range

WATERMARK, FIRST, LAST = "$watermark", "$first", "$last"
"""Columns of state: the watermark; the first and the last event time of a session."""


@frozen
class SessionRule:
    """How rows are grouped.

    keys: names of the key columns.
    time: name of the column with the event time.
    gap: maximum distance of two neighbouring rows of a session, in units of the time column.
    operations: the operations by the names of their columns.
    """

    keys: tuple[str, ...]
    time: str
    gap: int
    operations: Mapping[str, AggregateOperation]


class _Session:
    """The accumulators of a session, or of the rows of a key without a time.

    key: the values of the key columns.
    states: one accumulator per operation.
    """

    __slots__ = ("key", "states")

    def __init__(self, key: tuple[Any, ...], states: list[Any]) -> None:
        self.key = key
        self.states = states


class SessionOperations(EmittingProcessor):
    """Accumulates by session and key. It emits a session when the watermark passes its end, and
    rows without a time at the end of the input.

    rule: how rows are grouped.
    schema: the columns of the rows.
    """

    def __init__(self, rule: SessionRule, schema: pa.Schema) -> None:
        self._rule = rule
        self._codec = AccumulatorCodec(rule.operations.values())
        self._operations = list(rule.operations.values())
        self._key_types = [column_of(schema, key).type for key in rule.keys]
        self._time_type = column_of(schema, rule.time).type
        is_integer = self._time_type.is_integer
        self._bound_type = schema.field(rule.time).type if is_integer else pa.timestamp("us")
        self._open = OpenSessions(rule.gap)
        self._sessions: dict[int, _Session] = {}
        self._untimed: dict[Any, _Session] = {}
        self._watermark = LEAST_TIME
        super().__init__(LateRows(self, time_unit(self._bound_type), False))

    @property
    def _deadline(self) -> int | None:
        """Rows of sessions that would end before this are late; None: there is no watermark."""
        return None if self._watermark == LEAST_TIME else self._watermark

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        times = event_times(batch.column(self._rule.time))
        keys = [batch.column(key) for key in self._rule.keys]
        valid = validity(times)
        chosen = np.arange(len(times)) if valid is None else np.flatnonzero(valid)
        if len(chosen) < len(times):
            untimed = indexes(np.flatnonzero(~np.isin(np.arange(len(times)), chosen)))
            rest = [key.take(untimed) for key in keys]
            for key, rows in self._divided(batch.take(untimed), rest):
                self._accumulate(self._without_time(key), rows)
        if len(chosen):
            moments = numbers(times, np.int64)[chosen]
            hashes = self._hashes(keys, len(times))[chosen]
            found, late = self._open.add(hashes, moments, self._deadline)
            self._merge_states()
            if late.any():
                self._count_late(batch.take(indexes(chosen[late])), moments[late])
            self._add(batch.take(indexes(chosen[~late])), found[~late])
        self.check_accumulated(len(self._sessions) + len(self._untimed))

    def _hashes(self, keys: list[pa.Array], rows: int) -> Hashes:
        return hash_columns(keys) if keys else np.zeros(rows, np.uint64)

    def _add(self, rows: pa.RecordBatch, found: Any) -> None:
        """Add rows to the sessions with these numbers."""
        keys = [rows.column(key) for key in self._rule.keys]
        for (number, *key), chosen in self._divided(rows, [from_numbers(found, pa.int64()), *keys]):
            self._accumulate(self._session(number, tuple(key)), chosen)

    def _divided(
        self, rows: pa.RecordBatch, columns: list[pa.Array]
    ) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        """Yield the rows of each combination of values of some columns."""
        if not columns or not rows.num_rows:
            yield from [((), rows)] if rows.num_rows else []
            return
        codes, first = factorise(columns)
        ordered = rows.take(indexes(np.argsort(codes, kind="stable")))
        ends = np.cumsum(np.bincount(codes, minlength=len(first))).tolist()
        values = zip(*(column.take(indexes(first)).to_pylist() for column in columns), strict=True)
        start = 0
        for value, end in zip(values, ends, strict=True):
            yield value, ordered.slice(start, end - start)
            start = end

    def _accumulate(self, session: _Session, rows: pa.RecordBatch) -> None:
        for place, operation in enumerate(self._operations):
            session.states[place] = operation.accumulate(session.states[place], rows)

    def _session(self, number: int, key: tuple[Any, ...]) -> _Session:
        session = self._sessions.get(number)
        if session is None:
            self._sessions[number] = session = self._empty(key)
        elif hashable(session.key) != hashable(key):
            raise OperationalError(
                "two keys of sessions have the same hash, so their sessions can't be distinguished",
                hint="use another form of the key, such as a text with a prefix",
            )
        return session

    def _empty(self, key: tuple[Any, ...]) -> _Session:
        return _Session(key, [item.create() for item in self._operations])

    def _without_time(self, key: tuple[Any, ...]) -> _Session:
        return self._untimed.setdefault(hashable(key), self._empty(key))

    def _combine(self, session: _Session, states: Iterable[Any]) -> None:
        for place, (operation, state) in enumerate(zip(self._operations, states, strict=True)):
            session.states[place] = operation.combine(session.states[place], state)

    def _merge_states(self) -> None:
        """Combine the accumulators of sessions that became one."""
        known = np.array(list(self._sessions), np.int64)
        current = self._open.now(known)
        changed = current != known
        for old, new in zip(known[changed].tolist(), current[changed].tolist(), strict=True):
            merged = self._sessions.pop(old)
            self._combine(self._session(new, merged.key), merged.states)

    def _count_late(self, rows: pa.RecordBatch, times: Any) -> None:
        def event(number: int) -> LateEvent:
            return LateEvent(rows.slice(number, 1), int(times[number]))

        assert self._late is not None
        self._late.add(rows.num_rows, self._watermark - times, self._watermark, event)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if watermark.column == 0 and watermark.time > self._watermark:
            self._watermark = watermark.time
            before = watermark.time - self._rule.gap
            if self._open.earliest_end() < before:
                self._emit_closed(np.flatnonzero(self._open.close(before)).tolist())
            self._open.forget(watermark.time)
            if self._open.is_crowded:
                moved = self._open.renumber()
                self._sessions = {int(moved[old]): item for old, item in self._sessions.items()}
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if not self.is_producing and (self._sessions or self._untimed):
            self._emit_closed(list(self._sessions))
            if self._untimed:
                rest = list(self._untimed.values())
                self._untimed = {}
                self.emit(self._result([None] * len(rest), [None] * len(rest), rest))
        return self.drain()

    def _emit_closed(self, closed: list[int]) -> None:
        sessions = [self._sessions.pop(number) for number in closed]
        first = [int(self._open.first[number]) for number in closed]
        last = [int(self._open.last[number]) for number in closed]
        if closed:
            self.emit(self._result(first, last, sessions))

    def _result(
        self, first: Sequence[int | None], last: Sequence[int | None], sessions: list[_Session]
    ) -> pa.RecordBatch:
        gap, greatest = self._rule.gap, bounds_range(self._time_type)[1]
        if any(item is not None and item > greatest - gap for item in last):
            raise DataError(
                f"a session has an end that is out of the range of {self._time_type}",
                hint="leave the row out by filter_rows",
            )
        ends = [None if item is None else item + gap for item in last]
        bounds = [pa.array(items, pa.int64()).cast(self._bound_type) for items in (first, ends)]
        values = [
            pa.array([item.export(session.states[i]) for session in sessions], item.type)
            for i, item in enumerate(self._operations)
        ]
        names = ["window_start", "window_end", *self._rule.keys, *self._rule.operations]
        columns = [*bounds, *self._key_columns(sessions), *values]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _key_columns(self, sessions: list[_Session]) -> list[pa.Array]:
        return [
            array_of([session.key[i] for session in sessions], kind)
            for i, kind in enumerate(self._key_types)
        ]

    def state(self) -> Iterator[pa.RecordBatch]:
        """Return the watermark, the ended sessions, then the accumulators of open sessions."""
        times = from_numbers(np.array([self._watermark], np.int64), pa.int64())
        yield pa.RecordBatch.from_arrays([times], names=[WATERMARK])
        yield from self._open.ended_state(self._deadline)
        known = list(self._sessions)
        sessions = [*self._sessions.values(), *self._untimed.values()]
        if not sessions:
            return
        write: Callable[[Any], bytes] = self._codec.stored(self.context.vertex)
        missing = [None] * len(self._untimed)
        spans = [
            pa.array([*times[known].tolist(), *missing], pa.int64())
            for times in (self._open.first, self._open.last)
        ]
        states = [
            pa.array([write(session.states[i]) for session in sessions], pa.binary())
            for i in range(len(self._operations))
        ]
        names = [FIRST, LAST, *self._rule.keys, *self._rule.operations]
        columns = [*spans, *self._key_columns(sessions), *states]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        yield keyed_state(batch, *self._rule.keys) if self._rule.keys else batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names == [WATERMARK]:
            time = int(numbers(batch.column(0), np.int64)[0])
            known = self._watermark
            self._watermark = time if known == LEAST_TIME else min(time, known)
        elif is_ended_state(batch):
            # An edge may divide rows by some keys, or by a function: each processor restores all.
            self._open.ended.restore(batch, 0, 1)
        else:
            self._restore_sessions(batch)

    def _restore_sessions(self, batch: pa.RecordBatch) -> None:
        keys = [batch.column(key) for key in self._rule.keys]
        values = list(zip(*(key.to_pylist() for key in keys), strict=True)) or [()] * len(batch)
        stored = [batch.column(name).to_pylist() for name in self._rule.operations]
        spans = [batch.column(name) for name in (FIRST, LAST)]
        timed = np.flatnonzero(spans[0].is_valid().to_numpy(zero_copy_only=False))
        first, last = (numbers(item.take(indexes(timed)), np.int64) for item in spans)
        found = np.full(len(batch), -1, np.int64)
        if len(timed):
            hashes = self._hashes(keys, len(batch))[timed]
            found[timed], _ = self._open.add_spans(hashes, first, last)
            self._merge_states()
        for row, number in enumerate(found.tolist()):
            key = values[row]
            session = self._without_time(key) if number < 0 else self._session(number, key)
            self._combine(session, [self._codec.restored(items[row]) for items in stored])
