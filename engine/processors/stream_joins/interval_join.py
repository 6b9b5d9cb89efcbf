"""Joins of two streams by a time interval. Input 0 is the left side, input 1 the right side.

The rows of both sides wait for each other. An arriving batch is matched with the waiting rows of
the other side. A row is removed when the watermark of the other side shows that no later row can
match it; if the join emits rows without a match, such a row is emitted then. A row that can't match
anything (NULL in its key or times) doesn't wait.

Rows that wait hold back the watermarks that the join emits, since they may be emitted with their
own times. A row is late if rows that it could match may have been removed: it is counted, and
matched with the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, from_flags, indexes
from runnel.dag import ProcessorFactory
from runnel.errors import DataError
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.stream_joins.interval_matching import Matching
from runnel.processors.stream_joins.interval_plan import LEFT, RIGHT, IntervalPlan
from runnel.processors.stream_joins.sorted_runs import JoinRows, SortedRun
from runnel.processors.stream_joins.stream_join import StreamJoin, StreamJoinProcessor
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.stream_joins import IntervalShape


class IntervalStreamJoin(StreamJoin):
    """Joins the rows of two inputs as they arrive."""

    def __init__(self, plan: IntervalPlan) -> None:
        left, right = plan.waiting
        self.unit = plan.unit
        self.numbers = (left.numbers, right.numbers)
        self.pair = (right.watermark, left.watermark)
        self.emits_late = plan.emits_late
        self.partition_columns = plan.divided_by
        self.tied = plan.tied
        self._plan = plan

    def arrive(self, ordinal: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of an arriving batch; then its rows wait."""
        plan, side, buffers = self._plan, ordinal, self.inputs.buffers
        rows, valid = plan.rows_of(side, batch, self.context.job.evaluation)
        if valid is not None:
            yield from self._alone(side, batch, np.flatnonzero(~valid))
        if not rows.count:
            return
        matching = Matching(plan, side, self.context.job.evaluation)
        matching.late, matching.horizon = self._too_late(side, rows), buffers[1 - side].horizon
        run = SortedRun(rows)
        for other in buffers[1 - side]:
            for mine, theirs in matching.pairs(run, other):
                yield from (
                    self._matched(run, mine, other, theirs)
                    if side == LEFT
                    else self._matched(other, theirs, run, mine)
                )
        waits = self._waits(side, rows)
        if not waits.all():
            yield from self._alone(side, rows.batch, np.flatnonzero(~waits & ~rows.matched))
            run = SortedRun(rows.filtered(waits))
        if run.rows.count:
            buffers[side].add(run)
            self.check_size()

    def _too_late(self, side: int, rows: JoinRows) -> Mask | None:
        """Return a mask of the rows whose matches may have been removed; None if there are none."""
        horizon, place = self.inputs.buffers[1 - side].horizon, self._plan.late_by[side]
        if horizon is None or place is None:
            return None
        late: Mask = rows.holds[place] < horizon
        if not late.any():
            return None
        self.count_late(late, rows, rows.holds[place], horizon, self.numbers[side][place])
        self.emit_late(side, rows.batch, late)
        return late

    def _waits(self, side: int, rows: JoinRows) -> Mask:
        """Return a mask of the rows of a side that a later row may match."""
        if self.inputs.ended[1 - side]:
            return np.zeros(rows.count, np.bool_)
        waits = np.ones(rows.count, np.bool_)
        horizon = self.inputs.buffers[side].horizon
        if horizon is not None and rows.expiry is not None:
            waits = rows.expiry >= horizon
        if side == LEFT and self._plan.is_once:
            waits &= ~rows.matched
        return waits

    def _matched(
        self, first: SortedRun, left: Indexes, second: SortedRun, right: Indexes
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of matching pairs."""
        plan = self._plan
        if plan.is_once:
            settled = np.unique(left)
            settled = settled[~first.rows.matched[settled]]
            first.rows.matched[settled] = True
            if plan.kind is not JoinKind.ANTI:
                yield from self._left_rows(first.rows.batch, settled, True)
            return
        if (
            plan.kind is JoinKind.SINGLE
            and len(left)
            and (first.rows.matched[left].any() or np.bincount(left).max() > 1)
        ):
            raise DataError(
                "more than one row returned by a subquery used as an expression",
                hint="let the subquery return at most one row, with an aggregate or LIMIT 1",
            )
        if plan.keeps[LEFT]:
            first.rows.matched[left] = True
        if plan.keeps[RIGHT]:
            second.rows.matched[right] = True
        columns = [first.rows.batch.column(i).take(indexes(left)) for i in plan.rows.left_output]
        columns += [
            second.rows.batch.column(i).take(indexes(right)) for i in plan.rows.right_output
        ]
        yield plan.rows.row_batch(columns, len(left))

    def _alone(self, side: int, batch: pa.RecordBatch, rows: Indexes) -> Iterator[pa.RecordBatch]:
        """Yield the results of rows that have no match and can't get one."""
        plan = self._plan
        if not plan.keeps[side] or plan.kind is JoinKind.SEMI:
            return
        if plan.is_once:
            yield from self._left_rows(batch, rows, False)
            return
        left, right = plan.rows.left_output, plan.rows.right_output
        for start in range(0, len(rows), MAX_ROWS):
            chosen = indexes(rows[start : start + MAX_ROWS])
            count = len(chosen)
            columns = [
                batch.column(i).take(chosen)
                if side == LEFT
                else pa.nulls(count, plan.rows.left_schema.field(i).type)
                for i in left
            ]
            columns += [
                batch.column(i).take(chosen)
                if side == RIGHT
                else pa.nulls(count, plan.rows.right_schema.field(i).type)
                for i in right
            ]
            yield plan.rows.row_batch(columns, count)

    def _left_rows(
        self, batch: pa.RecordBatch, rows: Indexes, mark: bool
    ) -> Iterator[pa.RecordBatch]:
        plan = self._plan.rows
        for start in range(0, len(rows), MAX_ROWS):
            chosen = indexes(rows[start : start + MAX_ROWS])
            columns = [batch.column(i).take(chosen) for i in plan.left_output]
            if plan.right_output:
                columns.append(from_flags(np.full(len(chosen), mark)))
            yield plan.row_batch(columns, len(chosen))

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        for side, buffer in enumerate(self.inputs.buffers):
            if self._plan.waiting[side].watermark == watermark.column:
                for rows, gone in buffer.expire(watermark.time):
                    yield from self._alone(side, rows.batch, gone[~rows.matched[gone]])

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        """Emit the rows of the other side without a match, as no later row can match them."""
        yield from self._last(1 - ordinal)

    def _last(self, side: int) -> Iterator[pa.RecordBatch]:
        for rows in self.inputs.buffers[side].take_all():
            yield from self._alone(side, rows.batch, np.flatnonzero(~rows.matched))

    def rest(self) -> Iterator[pa.RecordBatch]:
        for side in (LEFT, RIGHT):
            yield from self._last(side)

    def restored(self, side: int, batch: pa.RecordBatch, matched: Mask) -> JoinRows:
        rows, _ = self._plan.rows_of(side, batch, self.context.job.evaluation)
        rows.matched = matched
        return rows

    def finish_restore(self) -> None:
        for side, buffer in enumerate(self.inputs.buffers):
            number = self._plan.waiting[side].watermark
            if number is not None and number in self.inputs.observed:
                # Rows that this watermark removes were already removed before the snapshot.
                for _ in buffer.expire(self.inputs.observed[number]):
                    pass


def interval_join(
    shape: tuple[JoinShape, IntervalShape],
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> ProcessorFactory:
    """Return a supplier of processors that join two streams within time bounds.

    They emit the pairs of equal keys within the time bounds for which the condition is true, and
    rows without a match if the kind requires it. With several processors both sides must be
    partitioned by keys that are columns of both sides (`divided_by`).

    shape: the join, whose kind matches NULL with nothing, and its time bounds.
    keys: the keys of the left side, then of the right side, as in `nodes.Join`.
    fields: the fields of the left side, then of the right side.
    names: the names of the result's columns.
    """
    plan = IntervalPlan(shape, keys, fields, names)
    return lambda: StreamJoinProcessor(IntervalStreamJoin(plan))
