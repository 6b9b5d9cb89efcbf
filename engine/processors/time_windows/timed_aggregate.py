"""GROUP BY over an input without end: groups are emitted when a watermark completes them, and are
then forgotten.

There is one stage, or rows are accumulated where they are and combined by key. Rows whose group was
already emitted are late: they are counted, logged, and sent to output 1 if it exists. Of two stages
only the last one emits results, so only it recognises late rows; it receives the number of rows
that each state represents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Mask,
    from_flags,
    from_numbers,
    indexes,
    no_rows,
    numbers,
)
from runnel.columns.key_hash import (
    KEY_METADATA,
    RECOMBINED,
    RUN_METADATA,
    SAVER_METADATA,
    keyed_state,
)
from runnel.dag import ProcessorFactory
from runnel.expressions.aggregates.states import filled
from runnel.expressions.nodes import AggregateCall, Expression
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.grouping.aggregate import PASS_ON_SHARE
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage, spread_out
from runnel.processors.grouping.group_state import (
    WEIGHT,
    GroupLayout,
    GroupState,
    Partial,
    exported,
    partial_of,
)
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.sources.partition_watermarks import LEAST_TIME
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_candidates import late_events, of_windows
from runnel.processors.stateful.late_event import time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.state_account import StateAccount
from runnel.processors.time_windows.given_groups import GivenGroups
from runnel.processors.time_windows.timed_groups import TimedGroups, is_rows
from runnel.processors.time_windows.timed_runs import with_keys
from runnel.relation.streams import TimeBound
from runnel.storage.memory_budget import Reservation

_WATERMARKS = pa.schema([("watermark", pa.int64()), ("time", pa.int64())])


@frozen
class Timing:
    """What makes groups end: `bounds` are the keys, by number, that a watermark bounds. `diverts`:
    whether late rows go to output 1. `every`: microseconds between early results of open groups,
    those that changed (None: none).
    `lateness`: how long, in event time, a complete group still takes rows and is given again.
    `counted`: the key that numbers grouping sets: late rows, which come once per set, are those of
    the first (None: all are)."""

    bounds: tuple[tuple[int, TimeBound], ...]
    diverts: bool = False
    every: int | None = None
    lateness: int = 0
    counted: int | None = None


class TimedAggregateProcessor(EmittingProcessor):
    """Holds the open groups of its input."""

    def __init__(self, aggregation: Aggregation, timing: Timing) -> None:
        first = aggregation.layout.key_types[timing.bounds[0][0]]
        self._aggregation = aggregation
        self._timing = timing
        self.late = LateRows(self, time_unit(first), timing.diverts)
        weight = WEIGHT if self.can_spill else 1
        self.account = StateAccount(self, "the states of open groups", weight)
        super().__init__(self.late, self.account)
        self._due = DueTimes(timing.bounds)
        self._times = [LEAST_TIME] * len(self._due.watermarks)
        self._distinct: list[TimedGroups] = []
        self._given: GivenGroups | None = None
        self._floors = [LEAST_TIME] * len(self._due.watermarks)
        """Rows that were due before these times are late, however much lateness is allowed."""
        self._is_recombined = False
        self._whole: GroupState | None = None

    def state_size(self) -> tuple[int, int]:
        sizes = [groups.size for groups in self._all_groups]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)

    def spilled_size(self) -> tuple[int, int]:
        sizes = [groups.spilled_size for groups in self._all_groups]
        return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)

    @property
    def can_spill(self) -> bool:
        """Whether what is kept may be in files. Not where lateness looks for distinct arguments
        among all that were given."""
        is_first = self._aggregation.stage is AggregationStage.ACCUMULATE
        return is_first or not (self._timing.lateness and self._aggregation.distinct_sets)

    @property
    def _all_groups(self) -> Sequence[TimedGroups]:
        """The open ones, and those that were given and may change."""
        return (self._groups, *self._distinct, *(() if self._given is None else self._given.groups))

    def spill(self) -> None:
        if self._aggregation.stage is AggregationStage.ACCUMULATE:
            self.end_restore()
            self._pass_on(self._groups.take_all())
        elif self.can_spill:
            for groups in self._all_groups:
                groups.spill(self.account.reservation.memory)

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        aggregation = self._aggregation
        alone = context.parallelism == 1
        self._groups = TimedGroups(
            aggregation.plain_layout, self._due, self.check_accumulated, alone
        )
        self._distinct = [
            TimedGroups(item.layout, self._due, self.check_accumulated, alone)
            for item in aggregation.distinct_sets
        ]
        self._groups.notes_changes = (
            self._timing.every is not None and aggregation.stage is not AggregationStage.ACCUMULATE
        )
        if self._timing.lateness and aggregation.stage is not AggregationStage.ACCUMULATE:
            layouts = [
                aggregation.plain_layout,
                *(item.layout for item in aggregation.distinct_sets),
            ]
            self._given = GivenGroups(
                layouts,
                self._due,
                self._timing.lateness,
                len(aggregation.keys),
                self.check_accumulated,
            )
        for groups in self._all_groups:
            groups.saver = f"{context.index}/{context.parallelism}"

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._timing.every is not None and not self.alarm:
            self.alarm = self.context.job.clock() + 1000 * self._timing.every
        if self._aggregation.stage is AggregationStage.COMBINE:
            self._take_states(batch)
        else:
            self._take_rows(batch)

    def evaluated(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns, then the argument columns of rows."""
        return self._aggregation.inputs_of(batch, self.context.job.evaluation)

    def _take_rows(self, batch: pa.RecordBatch) -> None:
        aggregation = self._aggregation
        columns = self.evaluated(batch)
        num_rows = batch.num_rows
        least = self._due.least(columns)
        if aggregation.stage is AggregationStage.ACCUMULATE and self._has_late(least):
            self.note_late(batch, columns)
        if aggregation.stage is AggregationStage.SINGLE and self._has_late(least):
            late, gone = self.late_among(columns)
            if late.any():
                counted = self._counted(late, columns)
                if counted.any():
                    self.count_late(int(counted.sum()), counted, columns, batch)
                if self._timing.diverts:
                    self.late.emit(batch.filter(from_flags(counted)))
            if gone.any():
                kept = from_flags(~gone)
                columns = [column.filter(kept) for column in columns]
                num_rows = len(columns[0])
                least = self._due.least(columns)
        self._groups.add(columns, num_rows, least)
        for item, groups in zip(aggregation.distinct_sets, self._distinct, strict=True):
            rows = aggregation.distinct_rows(item, columns)
            groups.add(rows, len(rows[0]), self._due.least(rows))
        if aggregation.stage is AggregationStage.ACCUMULATE and self._groups.is_sparse(
            PASS_ON_SHARE
        ):
            self._pass_on(self._groups.take_all())

    def _take_states(self, batch: pa.RecordBatch) -> None:
        partial = partial_of(batch, self._aggregation.layout)
        least = self._due.least(partial.keys)
        if self._has_late(least):
            late, gone = self.late_among(partial.keys)
            if late.any():
                counts = filled(partial.columns[self._aggregation.count_slot][0], np.int64)
                counted = self._counted(late, partial.keys)
                total = int(counts[counted].sum())
                if total:
                    self.count_late(total, counted, partial.keys, self.named_keys(partial.keys))
            partial = partial.take(indexes(np.flatnonzero(~gone)))
        self._groups.add_groups(partial)

    @property
    def _deadlines(self) -> list[int]:
        """Rows that were due before these times are late."""
        return [
            max(time - self._timing.lateness, floor)
            for time, floor in zip(self._times, self._floors, strict=True)
        ]

    def _has_late(self, least: Sequence[int]) -> bool:
        return any(due < time for due, time in zip(least, self._deadlines, strict=True))

    def late_among(self, keys: Sequence[pa.Array]) -> tuple[Mask, Mask]:
        """Which rows, or states, miss a result that was given, and which can be in none that is to
        come."""
        late: Mask = np.zeros(len(keys[0]), np.bool_)
        for due, time in zip(self._due.of(keys), self._deadlines, strict=True):
            late |= due < time
        return late, late

    def note_late(self, batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> None:
        """Of the first of two stages: remembers rows that are due, for the log of the second."""

    def _counted(self, late: Mask, keys: Sequence[pa.Array]) -> Mask:
        """Those of the late rows, or states, that count."""
        number = self._timing.counted
        return late if number is None else late & (numbers(keys[number], np.int64) == 0)

    def named_keys(self, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        """The keys of groups with their names, for the log."""
        names = [getattr(key, "name", "?") for key in self._aggregation.keys]
        return pa.RecordBatch.from_arrays(list(keys), names=names)

    def count_late(
        self, count: int, late: Mask, keys: Sequence[pa.Array], rows: pa.RecordBatch
    ) -> None:
        """Counts `count` rows, at least one, which are in the `late` ones of `rows`, or of
        states."""
        places = np.flatnonzero(late)
        due = [times[late] for times in self._due.of(keys)]
        latest = [time - int(times.min()) for time, times in zip(self._times, due, strict=True)]
        chosen = latest.index(max(latest))
        watermark, times = self._times[chosen], due[chosen]
        windows = None if self._due.are_times(chosen) else of_windows(self.context.job)
        found = late_events(windows, times, watermark, lambda i: rows.slice(int(places[i]), 1))
        self.late.add(count, *found)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if watermark.column in self._due.watermarks:
            place = self._due.watermarks.index(watermark.column)
            if watermark.time > self._times[place]:
                before = list(self._times)
                self._times[place] = watermark.time
                self._settle(before)
                if not self.drain():
                    return False
        return self.outbox.offer(watermark)

    def flush(self) -> bool:
        if (
            self._aggregation.stage is AggregationStage.ACCUMULATE or self._given is not None
        ) and self.drain():
            # Rows behind the watermark: the last stage may still be waiting for them, or they
            # change a result.
            self._settle(self._times)
        for groups in (self._groups, *self._distinct):
            groups.collapse_early()
        return self.drain()

    def on_idle(self) -> bool:
        """Who combines what is accumulated here won't wait for it: the rows so far would be
        late."""
        if self._aggregation.stage is AggregationStage.ACCUMULATE and self.drain():
            self._pass_on(self._groups.take_all())
        return self.drain()

    def on_alarm(self) -> bool:
        """Early results of the open groups that changed."""
        if self.alarm and self.drain():
            self.alarm = 0
            if self._aggregation.stage is AggregationStage.ACCUMULATE:
                self._pass_on(self._groups.take_all())
            else:
                self.emit_early()
        return self.drain()

    def emit_early(self) -> None:
        """Gives the open groups that changed since the last time, as they are now."""
        self._settle(self._times)
        if not self.drain():
            self.alarm = self.context.job.clock()
            return
        if self.is_spilled:
            self.emit_all(self._early_by_parts())
            return
        changed = self._groups.take_changes()
        if changed:
            partial, *distinct = [
                with_keys(groups.merged(), changed) for groups in (self._groups, *self._distinct)
            ]
            self.emit_all(self._results(partial, distinct, is_final=False))

    def _settle(self, before: Sequence[int]) -> None:
        """Gives away what is complete by the watermarks, which were at `before` when that was done
        last."""
        if self._given is None:
            self.settle()
            return
        given = self._given
        if self._groups.is_due(self._times):
            if self.is_spilled or given.is_spilled:
                self.emit_all(self._given_by_parts(before, self._times))
                return
            parts = [groups.take_due(self._times) for groups in (self._groups, *self._distinct)]
            plain, *distinct = given.add(parts, before)
            assert plain is not None
            self.emit_all(self._results(plain, distinct))
        given.forget(self._times)

    def _given_by_parts(
        self, before: Sequence[int], times: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        """The results of the groups that are complete (None: of all), with what was given of them,
        where some are in files."""
        assert self._given is not None
        for part in self._groups.take_by_parts(times):
            yield from self._results(
                self._given.add_part(part, before, self.account.reservation.memory), ()
            )
        if times is None:
            self._given.close()
        else:
            self._given.forget(times)

    def settle(self) -> None:
        """Emits the groups that the watermarks complete."""
        if not self._groups.is_due(self._times):
            return
        if self.is_spilled:
            self.emit_all(self._results_by_parts(self._times))
            return
        complete = self._groups.take_due(self._times)
        if self._aggregation.stage is AggregationStage.ACCUMULATE:
            self._pass_on(complete)
        elif complete is not None:
            self.emit_all(
                self._results(complete, [groups.take_due(self._times) for groups in self._distinct])
            )

    def _pass_on(self, partial: Partial | None) -> None:
        if partial is not None:
            self.emit(exported(partial, self._aggregation.layout, self._aggregation.schema))

    def _results(
        self, partial: Partial, distinct: Sequence[Partial | None], is_final: bool = True
    ) -> Iterator[pa.RecordBatch]:
        return self._final_results(self.with_distinct(partial, distinct), is_final)

    def _final_results(self, partial: Partial, is_final: bool = True) -> Iterator[pa.RecordBatch]:
        """The results of groups with all their states, in the order of their times."""
        partial = self._due.ordered(partial)
        for start in range(0, partial.num_rows, MAX_ROWS):
            piece = partial.slice(start, min(MAX_ROWS, partial.num_rows - start))
            yield self._aggregation.result_of(piece, self.context.job.evaluation, is_final)

    @property
    def is_spilled(self) -> bool:
        """Whether some open groups are in files."""
        return self._groups.is_spilled or any(groups.is_spilled for groups in self._distinct)

    def _results_by_parts(self, times: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        """The results of the groups that are complete (None: of all), where some are in files."""
        return self._results_of(
            [groups.take_by_parts(times) for groups in (self._groups, *self._distinct)]
        )

    def _early_by_parts(self) -> Iterator[pa.RecordBatch]:
        """Early results of the groups that changed, where some are in files."""
        for keys in self._groups.take_changes_by_parts():
            if keys:
                parts = [groups.of(keys) for groups in (self._groups, *self._distinct)]
                yield from self._results_of(parts, is_final=False)

    def _results_of(
        self, sets: Sequence[Iterator[Partial]], is_final: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The results of groups that come in parts, and of their sets of distinct arguments."""
        if not self._distinct:
            for partial in sets[0]:
                yield from self._results(partial, (), is_final)
            return
        for found in self.brought_together(sets):
            if found is None:
                yield no_rows(self._aggregation.schema)
            else:
                yield from self._final_results(found, is_final)

    def brought_together(self, sets: Sequence[Iterator[Partial]]) -> Iterator[Partial | None]:
        """Groups with all their states, of plain ones and of those of each set of distinct
        arguments. Rows of one group may be in several partials of distinct arguments, so all are
        combined by group once more. None is a pause."""
        aggregation = self._aggregation
        whole = GroupState(
            aggregation.layout,
            self.check_accumulated,
            False,
            Reservation(self.context.job.memory, WEIGHT),
        )
        self._whole = whole
        for partial in sets[0]:
            whole.add_partial(spread_out(partial, aggregation.plain, aggregation.layout))
            yield None
        for item, rows in zip(aggregation.distinct_sets, sets[1:], strict=True):
            for partial in rows:
                whole.add_partial(aggregation.of_distinct(item, partial, self.check_accumulated))
                yield None
        yield from whole.results()
        self._whole = None

    def with_distinct(self, partial: Partial, distinct: Sequence[Partial | None]) -> Partial:
        """Groups with the states that are made of distinct arguments."""
        aggregation = self._aggregation
        if not aggregation.distinct_sets:
            return partial
        parts = [spread_out(partial, aggregation.plain, aggregation.layout)]
        for item, rows in zip(aggregation.distinct_sets, distinct, strict=True):
            if rows is not None:
                parts.append(aggregation.of_distinct(item, rows, self.check_accumulated))
        return GroupState(aggregation.layout, self.check_accumulated).combine(parts)

    def complete(self) -> bool:
        if self.drain():
            self.finish()
        return self.drain()

    def finish(self) -> None:
        """Gives away all that is left."""
        if self._given is not None and (self.is_spilled or self._given.is_spilled):
            self.emit_all(self._given_by_parts(self._times, None))
            return
        if self.is_spilled:
            self.emit_all(self._results_by_parts(None))
            return
        rest = self._groups.take_all()
        if self._aggregation.stage is AggregationStage.ACCUMULATE:
            self._pass_on(rest)
        elif rest is not None:
            parts = [rest, *(groups.take_all() for groups in self._distinct)]
            if self._given is not None:
                parts = self._given.add(parts, self._times)
                self._given.close()
            assert parts[0] is not None
            self.emit_all(self._results(parts[0], parts[1:]))

    def state(self) -> Iterator[pa.RecordBatch]:
        """The watermarks; the groups; for each set of distinct arguments its rows, in columns
        d<number of the set>_<number>."""
        columns = [
            from_numbers(np.array(values, np.int64), pa.int64())
            for values in (self._due.watermarks, self._times)
        ]
        watermarks = pa.RecordBatch.from_arrays(columns, schema=_WATERMARKS)
        if (
            self._deadlines != [time - self._timing.lateness for time in self._times]
            and max(self._floors) > LEAST_TIME
        ):
            watermarks = watermarks.append_column(
                "floor", from_numbers(np.array(self._floors, np.int64), pa.int64())
            )
        yield watermarks
        yield from self._state_of((self._groups, *self._distinct), "")
        if self._given is not None:
            yield from self._state_of(self._given.groups, "given_")

    def _state_of(self, sets: Sequence[TimedGroups], prefix: str) -> Iterator[pa.RecordBatch]:
        """Groups, and sets of distinct arguments, in columns whose names begin with `prefix`."""
        lasting = self._due.lasting(range(len(self._aggregation.keys)))
        for i, groups in enumerate(sets):

            def keyed(batch: pa.RecordBatch, i: int = i) -> pa.RecordBatch:
                names = [
                    f"{prefix}d{i - 1}_{j}" if i else prefix + name
                    for j, name in enumerate(batch.schema.names)
                ]
                return keyed_state(batch.rename_columns(names), *(names[key] for key in lasting))

            yield from groups.saved(keyed)

    def divided_as_now(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Groups were once divided by all their keys, their times too."""
        metadata = batch.schema.metadata or {}
        names = metadata.get(KEY_METADATA, b"").decode().split("\n")
        count = len(self._aggregation.keys)
        lasting = self._due.lasting(range(count))
        if len(names) != count or len(lasting) == count:
            return batch
        # Processors had other groups then, whatever it says of who has saved it.
        left = {
            name: value
            for name, value in metadata.items()
            if name not in (SAVER_METADATA, RUN_METADATA)
        }
        divided_by = "\n".join(names[key] for key in lasting).encode()
        return batch.replace_schema_metadata({**left, KEY_METADATA: divided_by})

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        first = batch.schema.names[0]
        if first == "watermark":
            for number, time, *floor in zip(
                *(numbers(column, np.int64).tolist() for column in batch.columns), strict=True
            ):
                place = self._due.watermarks.index(number)
                self._times[place] = (
                    time if self._times[place] == LEAST_TIME else min(time, self._times[place])
                )
                self._floors[place] = max(self._floors[place], *floor, LEAST_TIME)
            return
        sets: Sequence[TimedGroups] = (self._groups, *self._distinct)
        if first.startswith("given_"):
            assert self._given is not None
            sets, first = self._given.groups, first.removeprefix("given_")
        groups = sets[1 + int(first[1:].partition("_")[0]) if first.startswith("d") else 0]
        is_recombined = RECOMBINED in (batch.schema.metadata or {})
        self._is_recombined |= is_recombined
        if is_rows(batch):
            groups.add(batch.columns, batch.num_rows, self._due.least(batch.columns))
        else:
            if is_recombined:
                partial = partial_of(_with_states_of(batch, groups.layout), groups.layout)
                groups.add_partial(
                    GroupState(groups.layout, self.check_accumulated).combine([partial])
                )
            else:
                groups.restore(batch)
        self.account.add(batch)

    def finish_restore(self) -> bool:
        """Of groups that were recombined those that are over belong to windows that others have
        given."""
        self.end_restore()
        if self._is_recombined and self._aggregation.stage is not AggregationStage.ACCUMULATE:
            for groups in (self._groups, *self._distinct):
                groups.collapse()
                groups.forget_due(self._times)
        return True

    def end_restore(self) -> None:
        """All state was given to `restore_snapshot`."""
        for groups in self._all_groups:
            groups.end_restore()

    def close(self) -> None:
        super().close()
        if self._whole is not None:
            self._whole.close()
        self._distinct = []
        self.__dict__.pop("_groups", None)


def _with_states_of(batch: pa.RecordBatch, layout: GroupLayout) -> pa.RecordBatch:
    """Groups of an aggregation in more or fewer stages: of several stages the last state counts
    rows, for late ones."""
    width = len(layout.key_types) + len(layout.state_types)
    if batch.num_columns > width:
        return batch.select(list(range(width)))
    if batch.num_columns < width:
        return batch.append_column(
            "count", from_numbers(np.ones(batch.num_rows, np.int64), pa.int64())
        )
    return batch


def timed_aggregate(
    keys: tuple[Expression, ...],
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    stage: AggregationStage,
    timing: Timing,
) -> ProcessorFactory:
    """A supplier of processors that group by `keys`, of which at least one has a bound, and
    aggregate. Stages, names and the edge between two stages are as in `aggregate`."""
    aggregation = Aggregation(
        keys, aggregates, names, stage, counts_rows=stage is not AggregationStage.SINGLE
    )
    return lambda: TimedAggregateProcessor(aggregation, timing)
