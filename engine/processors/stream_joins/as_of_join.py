"""As-of joins: each left row with the last right row of its key at its time.

Input 0 is the left side, input 1 the right side. The right rows are versions. A left row waits
until the watermark of the versions has passed its time. If the right side is bounded, it is read
first, and no row waits. The state has the versions that a waiting or a later left row can match: of
each key the last version before the left watermark, and all later versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes
from runnel.columns.key_hash import hash_columns
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.grouping.row_identity import factorise, same
from runnel.processors.joins.build_side import JoinPlan, JoinShape
from runnel.processors.joins.index import all_valid
from runnel.processors.stateful.late_event import time_unit
from runnel.processors.stream_joins.sorted_runs import (
    NEVER,
    TAME_TIME,
    JoinRows,
    Probe,
    SortedRun,
    joined,
    times_of,
)
from runnel.processors.stream_joins.stream_join import StreamJoin, StreamJoinProcessor
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.stream_joins import AsOfShape, partition_columns
from runnel.relation.streams import TimeBound
from runnel.sqltypes import to_arrow

LEFT, RIGHT = 0, 1

PRUNED_FROM = 4_096
"""Minimum number of versions from which old versions are removed.

They are removed again when the number of versions has doubled since the last time.
"""

FORGOTTEN_SHARE = 4
"""A run in a file is rewritten when at least 1/FORGOTTEN_SHARE of its versions are old."""


class AsOfPlan:
    """A compiled as-of join, shared by executions.

    shape: how versions are chosen, and how rows wait.
    keys: the keys of the left side, then of the right side.
    times: the time of the left side, then of the right side.
    fields: the fields of the left side, then of the right side.
    names: the names of the result's columns.
    columns: the indexes of the columns to emit; None: all.
    """

    def __init__(
        self,
        shape: AsOfShape,
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        times: tuple[Expression, Expression],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
        columns: tuple[int, ...] | None = None,
    ) -> None:
        kind = JoinKind.LEFT if shape.outer else JoinKind.INNER
        self.rows = JoinPlan(JoinShape(kind, None, columns), keys, fields, names)
        self.shape = shape
        self.times = tuple(compile_expression(time) for time in times)
        self.divided_by = partition_columns(*keys)
        self.numbers = tuple(sorted({bound.watermark for _, bound in shape.bounds}))
        self.unit = time_unit(to_arrow(times[LEFT].type))

    def rows_of(
        self, side: int, batch: pa.RecordBatch, evaluation: EvaluationContext
    ) -> tuple[JoinRows, Mask | None]:
        """Return the rows of a batch that have a key and a time, and their mask (None: all).

        The times of both sides are transformed (negated for `forward`, reduced by 1 for a strict
        left time), so that the match is always the last version at or before the left time.
        """
        keys = (
            self.rows.probe_keys(batch, evaluation)
            if side == LEFT
            else self.rows.build_keys(batch, evaluation)
        )
        found, there = times_of(
            evaluate(self.times[side], EvaluationInput(batch.columns, batch.num_rows, evaluation))
        )
        times = np.clip(found, -TAME_TIME, TAME_TIME)
        times = -times if self.shape.forward else times
        times = times - 1 if side == LEFT and self.shape.strict else times
        valid = all_valid(keys)
        if there is not None:
            valid = there if valid is None else valid & there
        expiry = (
            times - self.shape.version.offset
            if side == LEFT and self.shape.version is not None
            else None
        )
        holds = (
            [_watermark_limits(number, self.shape.bounds, batch) for number in self.numbers]
            if side == LEFT
            else []
        )
        matched = np.zeros(batch.num_rows, np.bool_)
        rows = JoinRows(
            batch, hash_columns(keys) if keys else None, keys, times, expiry, holds, matched
        )
        if valid is None or valid.all():
            return rows, None
        return rows.filtered(valid), valid


def _watermark_limits(
    number: int, bounds: Sequence[tuple[int, TimeBound]], batch: pa.RecordBatch
) -> Indexes:
    """Return the limit of a watermark of the left side while each row waits."""
    least = np.full(batch.num_rows, NEVER)
    for column, bound in bounds:
        if bound.watermark == number:
            times, there = times_of(batch.column(column))
            limits = np.clip(times, -TAME_TIME, TAME_TIME) - bound.offset
            least = np.minimum(least, limits if there is None else np.where(there, limits, NEVER))
    return least


class AsOfStreamJoin(StreamJoin):
    """Buffers versions, and left rows until their versions are complete."""

    state_name = "the versions of an as-of join and the rows that wait for them"

    def __init__(self, plan: AsOfPlan) -> None:
        due, version = plan.shape.due, plan.shape.version
        self.unit = plan.unit
        self.numbers = (plan.numbers, ())
        self.pair = (
            None if due is None else due.watermark,
            None if version is None else version.watermark,
        )
        self.emits_late = plan.shape.emits_late
        self.partition_columns = plan.divided_by
        self._plan = plan
        self._row_count_at_pruning = 0

    def init(self, processor: StreamJoinProcessor) -> None:
        super().init(processor)
        self._left_rows, self._versions = self.inputs.buffers

    def arrive(self, ordinal: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch] | None:
        if ordinal == RIGHT:
            self._add_versions(batch)
            return None
        return self._arrive(batch)

    def _add_versions(self, batch: pa.RecordBatch) -> None:
        rows, _ = self._plan.rows_of(RIGHT, batch, self.context.job.evaluation)
        bound = self._plan.shape.version
        if bound is not None and bound.watermark in self.inputs.observed:
            assert rows.times is not None
            late = rows.times < self.inputs.observed[bound.watermark] + bound.offset
            limit = self.inputs.observed[bound.watermark] + bound.offset
            self.count_late(late, rows, rows.times, limit, bound.watermark)
            self.emit_late(RIGHT, rows.batch, late)
        if rows.count:
            self._versions.add(SortedRun(rows))
            self._prune()
            self.check_size()

    def _arrive(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows, valid = self._plan.rows_of(LEFT, batch, self.context.job.evaluation)
        if valid is not None:
            yield from self._alone(batch, np.flatnonzero(~valid))
        assert rows.times is not None
        late = self._too_late(rows)
        if late is not None:
            yield from self._alone(rows.batch, np.flatnonzero(late))
            rows = rows.filtered(~late)
        waits = np.zeros(rows.count, np.bool_)
        bound = self._plan.shape.version
        if bound is not None and not self.inputs.ended[RIGHT]:
            assert rows.expiry is not None
            waits = (
                rows.expiry >= self.inputs.observed[bound.watermark]
                if bound.watermark in self.inputs.observed
                else ~waits
            )
        yield from self._resolved(rows, np.flatnonzero(~waits))
        if waits.any():
            self._left_rows.add(SortedRun(rows if waits.all() else rows.filtered(waits)))
            self.check_size()

    def _too_late(self, rows: JoinRows) -> Mask | None:
        """Return a mask of the left rows that are late by their own watermark; None if none is.

        Their versions may have been removed.
        """
        due = self._plan.shape.due
        if due is None or due.watermark not in self.inputs.observed or not rows.count:
            return None
        assert rows.times is not None
        late: Mask = rows.times < self._due(due)
        self.count_late(late, rows, rows.times, self._due(due), due.watermark)
        self.emit_late(LEFT, rows.batch, late)
        return late if late.any() else None

    def _due(self, due: TimeBound) -> int:
        """Return the least (transformed) time of left rows that aren't late."""
        return self.inputs.observed[due.watermark] + due.offset - self._plan.shape.strict

    def _prune(self) -> None:
        """Remove the versions that no waiting or later left row can match.

        These are the versions of a key before the last one at or before the least such time.
        """
        due, versions = self._plan.shape.due, self._versions
        if (
            due is None
            or due.watermark not in self.inputs.observed
            or versions.row_count < max(PRUNED_FROM, 2 * self._row_count_at_pruning)
        ):
            return
        least = min(
            [self._due(due), *(run.least_time(self._left_rows.horizon) for run in self._left_rows)]
        )
        if versions.is_spilled:
            self._prune_runs(least)
            return
        rows = joined([run.rows for run in versions])
        assert rows.times is not None
        codes = factorise(rows.keys)[0] if rows.keys else np.zeros(rows.count, np.int64)
        order = np.lexsort((rows.times, codes))
        has_next = np.zeros(rows.count, np.bool_)
        has_next[order[:-1]] = (codes[order][1:] == codes[order][:-1]) & (
            rows.times[order][1:] <= least
        )
        retained = rows.filtered(~has_next)
        versions.runs = [SortedRun(retained)]
        self._row_count_at_pruning = retained.count

    def _prune_runs(self, least: int) -> None:
        """Like `_prune` if some versions are in files: rewrite the runs with many old versions."""
        runs = list(self._versions)
        retained = []
        for run in runs:
            old = superseded(run, runs, least)
            if np.count_nonzero(old) * FORGOTTEN_SHARE < run.rows.count:
                retained.append(run)
                continue
            rest = run.rows.filtered(~old)
            if rest.count:
                retained.append(SortedRun(rest))
                if run.is_spilled:
                    retained[-1].put_into_file(self.reservation.memory)
        self._versions.runs = retained
        self._row_count_at_pruning = self._versions.row_count

    def _resolved(self, rows: JoinRows, chosen: Indexes) -> Iterator[pa.RecordBatch]:
        """Yield left rows with their versions."""
        for start in range(0, len(chosen), MAX_ROWS):
            part = chosen[start : start + MAX_ROWS]
            best, found = self._found(rows, part)
            for number, run in enumerate(self._versions):
                hits = np.flatnonzero(best == number)
                if len(hits):
                    yield self._pairs(rows.batch, part[hits], run, found[hits])
            yield from self._alone(rows.batch, part[best < 0])

    def _found(self, rows: JoinRows, chosen: Indexes) -> tuple[Indexes, Indexes]:
        """Return for each left row the number of the run with its version, and the row in that run.

        −1 if the left row has no version.
        """
        best, found = np.full(len(chosen), -1), np.zeros(len(chosen), np.int64)
        times = np.zeros(len(chosen), np.int64)
        assert rows.times is not None
        order = np.argsort(
            rows.times[chosen] if rows.hashes is None else rows.hashes[chosen], kind="stable"
        )
        for number, run in enumerate(self._versions):
            place = np.empty(len(chosen), np.int64)
            place[order] = latest(rows, chosen[order], run)
            hits = np.flatnonzero(place >= 0)
            assert run.rows.times is not None
            given = run.rows.times[place[hits]]
            # Of equal times, the version in the later run counts.
            better = (best[hits] < 0) | (given >= times[hits])
            hits, given = hits[better], given[better]
            best[hits], found[hits], times[hits] = number, place[hits], given
        return best, found

    def _pairs(
        self, left: pa.RecordBatch, rows: Indexes, run: SortedRun, versions: Indexes
    ) -> pa.RecordBatch:
        plan = self._plan.rows
        columns = [left.column(i).take(indexes(rows)) for i in plan.left_output]
        columns += [run.rows.batch.column(i).take(indexes(versions)) for i in plan.right_output]
        return plan.row_batch(columns, len(rows))

    def _alone(self, batch: pa.RecordBatch, rows: Indexes) -> Iterator[pa.RecordBatch]:
        """Yield left rows without a version, if the join is outer."""
        if not self._plan.shape.outer:
            return
        plan = self._plan.rows
        for start in range(0, len(rows), MAX_ROWS):
            chosen = indexes(rows[start : start + MAX_ROWS])
            columns = [batch.column(i).take(chosen) for i in plan.left_output]
            columns += [
                pa.nulls(len(chosen), plan.right_schema.field(i).type) for i in plan.right_output
            ]
            yield plan.row_batch(columns, len(chosen))

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        shape = self._plan.shape
        if shape.version is not None and watermark.column == shape.version.watermark:
            for rows, gone in self._left_rows.expire(watermark.time):
                yield from self._resolved(rows, gone)
        self._prune()

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        if ordinal == RIGHT:
            for rows in self._left_rows.take_all():
                yield from self._resolved(rows, np.arange(rows.count))

    def rest(self) -> Iterator[pa.RecordBatch]:
        yield from self.on_end(RIGHT)

    def saves(self, side: int) -> bool:
        # Unless versions are partitioned, every processor has all of them.
        return side == LEFT or not self.context.index or bool(self._plan.divided_by[RIGHT])

    def restored(self, side: int, batch: pa.RecordBatch, matched: Mask) -> JoinRows:
        return self._plan.rows_of(side, batch, self.context.job.evaluation)[0]


def superseded(run: SortedRun, runs: Sequence[SortedRun], least: int) -> Mask:
    """Return a mask of a run's versions that a later version of their key supersedes.

    The later version must not be after `least`.
    """
    rows = run.rows
    assert rows.times is not None
    old: Mask = np.zeros(rows.count, np.bool_)
    probe = replace(rows, times=np.full(rows.count, least))
    is_later = False
    for other in runs:
        is_later |= other is run
        for start in range(0, rows.count, MAX_ROWS):
            chosen = run.order[start : start + MAX_ROWS]
            found = latest(probe, chosen, other)
            hits = np.flatnonzero(found >= 0)
            mine, theirs = chosen[hits], found[hits]
            assert other.rows.times is not None
            given, own = other.rows.times[theirs], rows.times[mine]
            # Of equal times the version that arrived last counts.
            is_next = given >= own if is_later else given > own
            if other is run:
                is_next &= theirs != mine
            old[mine[is_next]] = True
    return old


def latest(rows: JoinRows, chosen: Indexes, run: SortedRun) -> Indexes:
    """Return for each chosen row the row of a run with its key and the latest time up to its own.

    −1 if there is none.
    """
    assert rows.times is not None and run.rows.times is not None
    times = rows.times[chosen]
    hashes = None if rows.hashes is None else rows.hashes[chosen]
    first, counts = run.find(Probe(len(chosen), hashes, None, times))
    at = first + counts - 1
    result = np.full(len(chosen), -1)
    open_rows = np.flatnonzero(counts)
    # The candidates share the first bits of the hash. Mostly the last one has the key; if not, the
    # one before it is tried, and so on.
    while len(open_rows):
        found = run.order[at[open_rows]]
        fits = run.rows.times[found] <= times[open_rows]
        if hashes is not None and run.rows.hashes is not None:
            fits &= hashes[open_rows] == run.rows.hashes[found]
            hits = np.flatnonzero(fits)
            fits[hits] = same(rows.keys, chosen[open_rows[hits]], run.rows.keys, found[hits])
        result[open_rows[fits]] = found[fits]
        open_rows = open_rows[~fits]
        at[open_rows] -= 1
        open_rows = open_rows[at[open_rows] >= first[open_rows]]
    return result


def as_of_join(
    shape: AsOfShape,
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    times: tuple[Expression, Expression],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
    columns: tuple[int, ...] | None = None,
) -> ProcessorFactory:
    """Return a supplier of processors of an as-of join; the parameters are as in AsOfPlan.

    If the right side is bounded, input 1 must have an earlier priority than input 0. With several
    processors, either both sides are partitioned by keys that are columns of both sides, or the
    right side is broadcast.
    """
    plan = AsOfPlan(shape, keys, times, fields, names, columns)
    return lambda: StreamJoinProcessor(AsOfStreamJoin(plan))
