"""Matches an arriving run with a waiting run: candidates by key and time, then exact matches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes, true_flags
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import Evaluator, evaluate
from runnel.processors.grouping.row_identity import same
from runnel.processors.joins.index import pairs_in_ranges
from runnel.processors.stream_joins.interval_plan import LEFT, RIGHT, IntervalPlan
from runnel.processors.stream_joins.sorted_runs import Probe, SortedRun


class Matching:
    """Matches arriving runs of one side (`run`) with waiting runs of the other side (`other`).

    late: a mask of the arriving rows that must not match rows of the other side that expire before
        `horizon`: such rows count as removed, though they may still be in memory. None: no row.
    horizon: the time of the other side's last expiry; None: nothing has expired.
    """

    def __init__(self, plan: IntervalPlan, side: int, evaluation: EvaluationContext) -> None:
        self._plan = plan
        self._side = side
        self._evaluation = evaluation
        self.late: Mask | None = None
        self.horizon: int | None = None

    def pairs(self, run: SortedRun, other: SortedRun) -> Iterator[tuple[Indexes, Indexes]]:
        """Yield the matching rows of `run` and of `other`, in chunks.

        A chunk may be empty, as a point where the cooperative call may end.
        """
        probe, by_time = self._probe(run, other)
        if by_time and probe.count:
            if probe.earliest is not None and int(probe.earliest.min()) > other.high:
                return
            if probe.latest is not None and int(probe.latest.max()) < other.low:
                return
        starts, counts = other.find(probe)
        for indexes_in_run, found, _ in pairs_in_ranges(starts, counts):
            mine, theirs = run.order[indexes_in_run], other.order[found]
            true = self._true(run, mine, other, theirs)
            yield (mine, theirs) if true is None else (mine[true], theirs[true])

    def _probe(self, run: SortedRun, other: SortedRun) -> tuple[Probe, bool]:
        """Return the probe for the other side's rows, in the order of the run.

        Also returns whether the probe searches by time.
        """
        # Example: right − left between 0 and 5, for an arriving left row with time 10: its matches
        # have times from 10 + 0 to 10 + 5. For an arriving right row they have times from 10 - 5
        # to 10 - 0.
        rows, order, link = run.rows, run.order, self._plan.time_bounds
        hashes = None if rows.hashes is None else rows.hashes[order]
        if link is None or rows.times is None or run.is_wild or other.is_wild:
            return Probe(rows.count, hashes, None, None), False
        times = rows.times[order]
        low, high = (
            (link.low, link.high) if self._side == LEFT else (_minus(link.high), _minus(link.low))
        )
        earliest = None if low is None else times + low
        latest = None if high is None else times + high
        return Probe(rows.count, hashes, earliest, latest), True

    def _true(
        self, run: SortedRun, rows: Indexes, other: SortedRun, others: Indexes
    ) -> Mask | None:
        """Return a mask of the candidates that match; None if all do."""
        plan = self._plan
        true = np.ones(len(rows), np.bool_)
        if run.rows.hashes is not None and other.rows.hashes is not None:
            true &= run.rows.hashes[rows] == other.rows.hashes[others]
        if self.late is not None and self.horizon is not None and other.rows.expiry is not None:
            true &= ~self.late[rows] | (other.rows.expiry[others] >= self.horizon)
        if self._side == RIGHT and plan.is_once:
            true &= ~other.rows.matched[others]
        is_wild = run.is_wild or other.is_wild
        if other.is_rounded and not is_wild:
            true &= self._within(run, rows, other, others)
        if plan.compares_keys and run.rows.keys:
            hits = np.flatnonzero(true)
            true[hits] = same(run.rows.keys, rows[hits], other.rows.keys, others[hits])
        conditions = [(plan.rows.condition, plan.rows.condition_columns)]
        if is_wild:
            conditions.insert(0, (plan.by_time, plan.time_columns))
        left, right = (
            ((run, rows), (other, others)) if self._side == LEFT else ((other, others), (run, rows))
        )
        for condition, columns in conditions:
            if condition is not None:
                hits = np.flatnonzero(true)
                true[hits] = self._holds_for(
                    condition, columns, (left[0], left[1][hits]), (right[0], right[1][hits])
                )
        return None if true.all() else true

    def _within(self, run: SortedRun, rows: Indexes, other: SortedRun, others: Indexes) -> Mask:
        """Return a mask of the pairs within the time bounds, after a search by truncated times."""
        link = self._plan.time_bounds
        assert link is not None and run.rows.times is not None and other.rows.times is not None
        apart = other.rows.times[others] - run.rows.times[rows]
        if self._side == RIGHT:
            apart = -apart
        within = np.ones(len(apart), np.bool_)
        if link.low is not None:
            within &= apart >= link.low
        if link.high is not None:
            within &= apart <= link.high
        return within

    def _holds_for(
        self,
        condition: Evaluator,
        columns: frozenset[int],
        left: tuple[SortedRun, Indexes],
        right: tuple[SortedRun, Indexes],
    ) -> Mask:
        """Return a mask of the pairs for which a condition is true.

        Only the columns that the condition reads are collected.
        """
        plan = self._plan.rows
        (first, left_rows), (second, right_rows) = left, right
        if not len(left_rows):
            return np.zeros(0, np.bool_)
        pairs: list[pa.Array] = [None] * (plan.left_width + len(plan.right_schema))
        for index in columns:
            if index < plan.left_width:
                pairs[index] = first.rows.batch.column(index).take(indexes(left_rows))
            else:
                pairs[index] = second.rows.batch.column(index - plan.left_width).take(
                    indexes(right_rows)
                )
        return true_flags(
            evaluate(condition, EvaluationInput(pairs, len(left_rows), self._evaluation))
        )


def _minus(value: int | None) -> int | None:
    return None if value is None else -value
