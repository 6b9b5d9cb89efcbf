"""The compiled form of an interval join, and the values that it computes for each arriving row.

All executions share one plan. The two sides are numbered: 0 is the left side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask
from runnel.columns.key_hash import hash_columns
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import Evaluator, compile_expression
from runnel.expressions.nodes import Expression, columns_of
from runnel.processors.joins.build_side import JoinPlan, JoinShape
from runnel.processors.joins.index import all_valid, is_integer_like
from runnel.processors.sources.partition_watermarks import GREATEST_TIME, LEAST_TIME, less
from runnel.processors.stateful.late_event import time_unit
from runnel.processors.stream_joins.sorted_runs import NEVER, JoinRows, times_of
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.stream_joins import BufferedSide, IntervalShape, partition_columns
from runnel.sqltypes import to_arrow

LEFT, RIGHT = 0, 1

ONCE = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.EXISTS_MARK)
"""The kinds for which the first match of a left row determines its result."""

_KEEPS = (
    (JoinKind.LEFT, JoinKind.FULL, JoinKind.SINGLE, *ONCE),
    (JoinKind.RIGHT, JoinKind.FULL),
)
"""For each side, the kinds that record whether its rows were matched."""


class IntervalPlan:
    """A compiled join, shared by executions."""

    def __init__(
        self,
        shape: tuple[JoinShape, IntervalShape],
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        join, times = shape
        self.kind = join.kind
        self.rows = JoinPlan(join, keys, fields, names)
        self.time_bounds = times.time_bounds
        self.waiting = (times.left, times.right)
        self.emits_late = times.emits_late
        self.tied = {} if times.tie is None else dict([times.tie])
        self.divided_by = partition_columns(*keys)
        self.by_time: Evaluator | None = (
            None if times.condition is None else compile_expression(times.condition)
        )
        self.time_columns = (
            frozenset() if times.condition is None else frozenset(columns_of(times.condition))
        )
        self.keeps = tuple(self.kind in kinds for kinds in _KEEPS)
        self.is_once = self.kind in ONCE
        self.compares_keys = (
            len(keys[0]) > 1 or bool(join.null_safe) or not all(_is_integer(key) for key in keys[0])
        )
        timed = [
            fields[side][column].type
            for side in (LEFT, RIGHT)
            for column, _ in self.waiting[side].bounds
        ]
        units = [time_unit(to_arrow(item)) for item in timed]
        self.unit = "" if "" in units or not units else units[0]
        self.late_by = (
            _expiry_watermark(times.left, times.right),
            _expiry_watermark(times.right, times.left),
        )

    def rows_of(
        self, side: int, batch: pa.RecordBatch, evaluation: EvaluationContext
    ) -> tuple[JoinRows, Mask | None]:
        """Return the rows of a batch that can match, and the mask of these rows (None: all)."""
        keys = (
            self.rows.probe_keys(batch, evaluation)
            if side == LEFT
            else self.rows.build_keys(batch, evaluation)
        )
        valid = all_valid(keys, self.rows.null_safe)
        waiting = self.waiting[side]
        times = expiry = None
        if self.time_bounds is not None:
            times, there = times_of(
                batch.column(self.time_bounds.left if side == LEFT else self.time_bounds.right)
            )
            valid = _both(valid, there)
        for column, offset in waiting.expiry:
            found, there = times_of(batch.column(column))
            valid = _both(valid, there)
            found = less(found, -offset)
            expiry = found if expiry is None else np.minimum(expiry, found)
        matched = np.zeros(batch.num_rows, np.bool_)
        hashes = hash_columns(keys) if keys else None
        rows = JoinRows(
            batch, hashes, keys, times, expiry, watermark_limits(waiting, batch), matched
        )
        if valid is None or valid.all():
            return rows, None
        return rows.filtered(valid), valid


def _is_integer(key: Expression) -> bool:
    return is_integer_like(to_arrow(key.type))


def _expiry_watermark(side: BufferedSide, other: BufferedSide) -> int | None:
    """Return the index of the side's own watermark that removes rows of the other side."""
    return side.numbers.index(other.watermark) if other.watermark in side.numbers else None


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def watermark_limits(waiting: BufferedSide, batch: pa.RecordBatch) -> list[Indexes]:
    """Return for each of a side's watermarks, in order, its limits while the rows wait."""
    found: dict[int, Indexes] = {}
    for column, bound in waiting.bounds:
        times, there = times_of(batch.column(column))
        limits = np.clip(times, LEAST_TIME, GREATEST_TIME) - bound.offset
        if there is not None:
            limits[~there] = NEVER
        before = found.get(bound.watermark)
        found[bound.watermark] = limits if before is None else np.minimum(before, limits)
    return [found[number] for number in waiting.numbers]
