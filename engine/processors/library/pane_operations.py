"""Windows with user-defined operations: one Python accumulator per pane, key and operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import from_numbers, indexes, numbers
from runnel.columns.key_hash import keyed_state
from runnel.expressions.kernels.values import array_of
from runnel.processor import Watermark
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.library.accumulators import AccumulatorCodec
from runnel.processors.library.aggregate_operation import AggregateOperation
from runnel.processors.library.by_key import hashable
from runnel.processors.library.typed_rows import column_of
from runnel.processors.sources.partition_watermarks import LEAST_TIME, event_times
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_candidates import LateCandidates, copied_row
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.time_windows.frames import FrameTimes
from runnel.relation.streams import WindowShape

ROW_COUNT = "$rows"
"""The column of accumulated batches with the number of rows of a group."""


@frozen
class PaneRule:
    """How rows are grouped.

    keys: names of the key columns.
    time: name of the column with the event time.
    shape: the windows.
    operations: the operations by the names of their columns.
    """

    keys: tuple[str, ...]
    time: str
    shape: WindowShape
    operations: Mapping[str, AggregateOperation]


class _Group:
    """The accumulators of a key in a pane or a window.

    rows: the number of rows.
    states: one accumulator per operation.
    """

    __slots__ = ("rows", "states")

    def __init__(self, states: list[Any]) -> None:
        self.rows = 0
        self.states = states


Groups = dict[Any, _Group]


class PaneOperations(EmittingProcessor):
    """Accumulates by pane and key, and combines panes to windows.

    rule: how rows are grouped.
    stage: the stage of the aggregation.
    schema: the columns of the rows.
    described: metadata of the batches of the first stage.
    """

    def __init__(
        self,
        rule: PaneRule,
        stage: AggregationStage,
        schema: pa.Schema,
        described: dict[bytes, bytes],
    ) -> None:
        self._times = FrameTimes(rule.shape)
        self._rule = rule
        self._codec = AccumulatorCodec(rule.operations.values())
        self._stage = stage
        self._described = described
        self._operations = list(rule.operations.values())
        self._key_types = [column_of(schema, key).type for key in rule.keys]
        time = column_of(schema, rule.time).type
        self._bound_type = schema.field(rule.time).type if time.is_integer else pa.timestamp("us")
        self._panes: dict[int | None, Groups] = defaultdict(dict)
        self._keys: dict[Any, tuple[Any, ...]] = {}
        self._watermark = LEAST_TIME
        self._until = LEAST_TIME
        self._restored: int | None = None
        self._running: tuple[int, Groups] | None = None
        super().__init__(LateRows(self, time_unit(self._bound_type), False))

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._stage is AggregationStage.COMBINE:
            self._take_states(batch, self._codec.unpacked)
            return
        times = event_times(batch.column(self._rule.time))
        panes = self._times.frame_ends(times)
        keys = [batch.column(key) for key in self._rule.keys]
        codes, first = factorise([panes, *keys])
        order = np.argsort(codes, kind="stable")
        ordered = batch.take(indexes(order))
        ends = np.cumsum(np.bincount(codes, minlength=len(first))).tolist()
        found = zip(
            panes.take(indexes(first)).to_pylist(), self._values(keys, first), ends, strict=True
        )
        start = 0
        for pane, key, end in found:
            rows = ordered.slice(start, end - start)
            start = end
            group = self._group(pane, key, rows.num_rows, rows)
            if group is not None:
                for place, operation in enumerate(self._operations):
                    group.states[place] = operation.accumulate(group.states[place], rows)
        self.check_accumulated(sum(map(len, self._panes.values())))

    def _values(self, keys: list[pa.Array], rows: Any) -> Iterable[tuple[Any, ...]]:
        if not keys:
            return [()] * len(rows)
        return zip(*(key.take(indexes(rows)).to_pylist() for key in keys), strict=True)

    def _group(
        self,
        pane: int | None,
        key: tuple[Any, ...],
        count: int,
        rows: pa.RecordBatch | None = None,
    ) -> _Group | None:
        """Return the group of a pane and a key; None if all of its windows were emitted. Rows that
        miss a window are counted.

        count: the number of rows to add.
        rows: the rows; None: their accumulators are added.
        """
        if pane is not None and (first := self._times.first_end(pane)) <= self._watermark:
            if self._stage is AggregationStage.ACCUMULATE:
                assert rows is not None
                event = self._earliest(rows)
                times = np.array([event.time], np.int64)
                panes = np.array([pane], np.int64)
                self._candidates.add(panes, times, lambda _: event.row)
            else:
                known = self._candidates.get(pane) if rows is None else self._earliest(rows)
                self._count_late(count, key, first, known)
                if self._times.last_end(pane) <= self._watermark:
                    return None
        group = self._entry(self._panes[pane], key)
        group.rows += count
        if self._running is not None and pane is not None and pane <= self._running[0]:
            self._running = None
        return group

    @property
    def _candidates(self) -> LateCandidates:
        return LateCandidates(self.context.job, (self._rule.shape, self._rule.time))

    def _earliest(self, rows: pa.RecordBatch) -> LateEvent:
        """Return the row with the smallest event time, of rows of one pane."""
        times = numbers(event_times(rows.column(self._rule.time)), np.int64)
        number = int(times.argmin())
        return LateEvent(copied_row(rows, number), int(times[number]))

    def _count_late(
        self, count: int, key: tuple[Any, ...], due: int, known: LateEvent | None
    ) -> None:
        """Count rows of a key whose window was due at a time; `known` is one of the rows."""

        def event(number: int) -> LateEvent:
            if known is not None:
                return known
            values = [pa.array([value]) for value in key]
            keys = pa.RecordBatch.from_arrays(values, names=list(self._rule.keys))
            return LateEvent(keys, due, "due")

        assert self._late is not None
        time = due if known is None else known.time
        lateness = np.array([self._watermark - time], np.int64)
        self._late.add(count, lateness, self._watermark, event)

    def _entry(self, groups: Groups, key: tuple[Any, ...]) -> _Group:
        identity = hashable(key)
        group = groups.get(identity)
        if group is None:
            self._keys[identity] = key
            groups[identity] = group = _Group([item.create() for item in self._operations])
        return group

    def _take_states(self, batch: pa.RecordBatch, read: Callable[[bytes], Any]) -> None:
        """Add the groups of a first stage, or of a snapshot."""
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        keys = [columns[name] for name in self._rule.keys]
        for row, pane in enumerate(columns["$pane"]):
            group = self._group(pane, tuple(key[row] for key in keys), columns[ROW_COUNT][row])
            if group is not None:
                for place, (name, operation) in enumerate(self._rule.operations.items()):
                    state = read(columns[name][row])
                    group.states[place] = operation.combine(group.states[place], state)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if watermark.column == 0 and watermark.time > self._watermark:
            self._watermark = watermark.time
            self._settle(watermark.time)
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def flush(self) -> bool:
        if self._stage is AggregationStage.ACCUMULATE and self.drain():
            self._settle(self._watermark)
        return self.drain()

    def on_idle(self) -> bool:
        if self._stage is AggregationStage.ACCUMULATE and self.drain():
            self._pass_on(lambda pane: True)
        return self.drain()

    def complete_edge(self, ordinal: int) -> bool:
        return self.drain()

    def complete(self) -> bool:
        if not self.is_producing and self._panes:
            if self._stage is AggregationStage.ACCUMULATE:
                self._pass_on(lambda pane: True)
            else:
                self.emit_all(self._rest())
        return self.drain()

    def _settle(self, watermark: int) -> None:
        """Emit what the watermark completes."""
        if self._stage is AggregationStage.ACCUMULATE:
            self._pass_on(lambda pane: pane is not None and pane <= watermark)
        elif self._next_end(watermark) is not None:
            self.emit_all(self._windows(watermark))
        else:
            self._until = max(self._until, watermark)

    def _pass_on(self, is_due: Callable[[int | None], bool]) -> None:
        due = {pane: self._panes.pop(pane) for pane in list(self._panes) if is_due(pane)}
        if due:
            self.emit(
                self._states(due, self._codec.packed).replace_schema_metadata(self._described)
            )
            self._forget_keys()

    def _next_end(self, until: int | None) -> int | None:
        """Return the end of the next window with a pane that ends until then; None: any time."""
        ends = [
            max(self._times.first_end(pane), self._times.first_end(self._until + 1))
            for pane in self._panes
            if pane is not None and self._times.last_end(pane) > self._until
        ]
        end = min(ends, default=None)
        return end if end is None or until is None or end <= until else None

    def _windows(self, until: int | None) -> Iterator[pa.RecordBatch]:
        while (end := self._next_end(until)) is not None:
            yield self._result(end, self._window(end))
            self._until = end
            for pane in [item for item in self._panes if item is not None]:
                if self._times.last_end(pane) <= end and not self._can_deduct:
                    del self._panes[pane]
            if self._can_deduct:
                self._forget(end - self._rule.shape.size)
        if until is not None:
            self._until = max(self._until, until)
        self._forget_keys()

    def _forget_keys(self) -> None:
        """Forget the keys that no group has."""
        sets = [*self._panes.values(), *([] if self._running is None else [self._running[1]])]
        used = set().union(*sets)
        if len(used) < len(self._keys):
            self._keys = {identity: self._keys[identity] for identity in used}

    def _forget(self, before: int) -> None:
        """Forget panes that end before the window that was emitted last began."""
        for pane in [item for item in self._panes if item is not None and item <= before]:
            del self._panes[pane]

    @property
    def _can_deduct(self) -> bool:
        shape = self._rule.shape
        return shape.size > shape.step and all(item.deduct for item in self._operations)

    def _window(self, end: int) -> Groups:
        """Return the groups of a window: its panes combined, or the previous window with the panes
        that it had alone deducted and the new ones combined."""
        shape = self._rule.shape
        if self._running is None or self._running[0] != end - shape.step or not self._can_deduct:
            groups: Groups = {}
            self._combine(groups, end - shape.size, end)
        else:
            groups = self._running[1]
            self._combine(groups, end - shape.step, end)
            self._deduct(groups, end - shape.size)
        self._running = (end, groups) if self._can_deduct else None
        return groups

    def _combine(self, groups: Groups, after: int, until: int) -> None:
        for pane in sorted(item for item in self._panes if item is not None):
            if after < pane <= until:
                for identity, part in self._panes[pane].items():
                    group = self._entry(groups, self._keys[identity])
                    group.rows += part.rows
                    for place, operation in enumerate(self._operations):
                        group.states[place] = operation.combine(
                            group.states[place], part.states[place]
                        )

    def _deduct(self, groups: Groups, until: int) -> None:
        start = until - self._rule.shape.step
        for pane, parts in self._panes.items():
            if pane is not None and start < pane <= until:
                for identity, part in parts.items():
                    group = groups[identity]
                    group.rows -= part.rows
                    for place, operation in enumerate(self._operations):
                        assert operation.deduct is not None
                        group.states[place] = operation.deduct(
                            group.states[place], part.states[place]
                        )
                    if not group.rows:
                        del groups[identity]

    def _rest(self) -> Iterator[pa.RecordBatch]:
        """All windows that were not emitted, and the rows without a time."""
        yield from self._windows(None)
        untimed = self._panes.get(None)
        if untimed:
            yield self._result(None, untimed)
        self._panes.clear()

    def _result(self, end: int | None, groups: Groups) -> pa.RecordBatch:
        start = None if end is None else end - self._rule.shape.size
        bounds = [
            pa.array([item] * len(groups), pa.int64()).cast(self._bound_type)
            for item in (start, end)
        ]
        values = [
            pa.array([item.export(group.states[i]) for group in groups.values()], item.type)
            for i, item in enumerate(self._operations)
        ]
        names = ["window_start", "window_end", *self._rule.keys, *self._rule.operations]
        return pa.RecordBatch.from_arrays(
            [*bounds, *self._key_columns(groups), *values], names=names
        )

    def _key_columns(self, identities: Iterable[Any]) -> list[pa.Array]:
        keys = [self._keys[identity] for identity in identities]
        return [array_of([key[i] for key in keys], kind) for i, kind in enumerate(self._key_types)]

    def _states(
        self, panes: Mapping[int | None, Groups], write: Callable[[Any], bytes]
    ) -> pa.RecordBatch:
        """Return a row per group: the pane, the keys, the number of rows and the accumulators."""
        rows = [(pane, key, group) for pane, item in panes.items() for key, group in item.items()]
        states = [
            pa.array([write(group.states[i]) for _, _, group in rows], pa.binary())
            for i in range(len(self._operations))
        ]
        return pa.RecordBatch.from_arrays(
            [
                pa.array([pane for pane, _, _ in rows], pa.int64()),
                *self._key_columns(key for _, key, _ in rows),
                pa.array([group.rows for _, _, group in rows], pa.int64()),
                *states,
            ],
            names=["$pane", *self._rule.keys, ROW_COUNT, *self._rule.operations],
        )

    def state(self) -> Iterator[pa.RecordBatch]:
        """Return the watermark, then the groups of panes."""
        times = from_numbers(np.array([self._watermark], np.int64), pa.int64())
        yield pa.RecordBatch.from_arrays([times], names=["watermark"])
        due = {pane: groups for pane, groups in self._panes.items() if groups}
        if due:
            write = self._codec.stored(self.context.vertex)
            yield keyed_state(self._states(due, write), *(self._rule.keys or ("$pane",)))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names == ["watermark"]:
            time = int(numbers(batch.column(0), np.int64)[0])
            known = self._restored
            self._restored = time if known is None else min(time, known)
            return
        self._take_states(batch, self._codec.restored)

    def finish_restore(self) -> bool:
        if self._restored is not None:
            self._watermark = self._until = self._restored
        return True
