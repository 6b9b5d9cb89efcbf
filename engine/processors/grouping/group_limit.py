"""LIMIT within groups: the first rows of each group in an order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import MAX_ROWS, Indexes, indexes, join_batches, numbers
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression, SortKey
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import row_count
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.sorting.ordering import Ordering
from runnel.processors.stateful.buffered import EmittingProcessor

LEAST_BUFFER = 65_536
"""Minimum number of rows that are buffered before rows are dropped.

Rows that can't be among the first ones of their group are dropped when this number of rows is
buffered, or twice the number that remained the last time.
"""


@frozen
class GroupLimitPlan:
    """A compiled GroupLimit, shared by executions.

    keys: the rows with equal keys are a group.
    ordering: the order of the rows in a group; None: the order of arrival.
    count: the number of rows per group; None: all.
    offset: the number of rows to skip in each group; None: 0.
    """

    keys: tuple[Evaluator, ...]
    ordering: Ordering | None
    count: Expression | None
    offset: Expression | None


class GroupLimitProcessor(EmittingProcessor):
    """Buffers the rows that may be among the first ones of their group; emits them at the end."""

    holds_snapshots = True

    def __init__(self, plan: GroupLimitPlan) -> None:
        super().__init__()
        self._plan = plan
        self._batches: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._rows_after_trim = 0
        self._skip = 0
        self._count: int | None = None
        self._is_over = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        evaluation = context.job.evaluation
        self._skip = row_count(self._plan.offset, evaluation, "OFFSET") or 0
        self._count = row_count(self._plan.count, evaluation, "LIMIT")
        self.is_satisfied = self._count == 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._buffered_rows += batch.num_rows
        if self._count is not None and self._buffered_rows > max(
            2 * self._rows_after_trim, LEAST_BUFFER
        ):
            rows = join_batches(self._batches)
            order, positions = self._ranked(rows)
            retained = np.sort(order[positions < self._skip + self._count])
            self._batches = [rows.take(indexes(retained))]
            self._buffered_rows = self._rows_after_trim = len(retained)
        self.check_accumulated(self._buffered_rows)

    def _ranked(self, rows: pa.RecordBatch) -> tuple[Indexes, Indexes]:
        """Return the row numbers group by group, in order, and the position of each in its group.

        Positions are counted from 0.
        """
        # Example: three rows with the keys [a, b, a] and the values [9, 5, 3], ordered by value.
        #
        #   order         [2, 1, 0]: the rows by value; codes = [0, 1, 0]: the groups of the rows
        #   grouped       [2, 0, 1]: the same, stably sorted by group
        #   sorted_codes  [0, 0, 1]; begins = [0, 2], sizes = [2, 1]: the groups in `grouped`
        #   positions     [0, 1, 2] - [0, 0, 2] = [0, 1, 0]
        count = rows.num_rows
        frame = EvaluationInput(rows.columns, count, self.context.job.evaluation)
        order = np.arange(count)
        if self._plan.ordering is not None:
            found = self._plan.ordering.indices(self._plan.ordering.columns(frame))
            order = numbers(found, np.uint64).astype(np.int64)
        if not self._plan.keys:
            return order, np.arange(count)
        codes, _ = factorise([evaluate(key, frame) for key in self._plan.keys])
        grouped = order[np.argsort(codes[order], kind="stable")]
        sorted_codes = codes[grouped]
        begins = np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1])))
        sizes = np.diff(np.concatenate((begins, [count])))
        return grouped, np.arange(count) - np.repeat(begins, sizes)

    def complete(self) -> bool:
        if not self._is_over:
            self._is_over = True
            if self._batches and not self.is_satisfied:
                self.emit_all(self._first_rows())
        return self.drain()

    def _first_rows(self) -> Iterator[pa.RecordBatch]:
        rows = join_batches(self._batches)
        self._batches = []
        order, positions = self._ranked(rows)
        mask = positions >= self._skip
        if self._count is not None:
            mask &= positions < self._skip + self._count
        chosen = order[mask]
        for start in range(0, len(chosen), MAX_ROWS):
            yield rows.take(indexes(chosen[start : start + MAX_ROWS]))

    def state(self) -> list[pa.RecordBatch]:
        """Return the buffered rows.

        After the end of the input there is none: the rows are emitted before the snapshot.
        """
        return self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def close(self) -> None:
        super().close()
        self._batches = []


def group_limit(
    keys: Sequence[Expression],
    order: Sequence[SortKey],
    count: Expression | None,
    offset: Expression | None,
) -> ProcessorFactory:
    """Return a supplier of processors that emit the first rows of each group.

    All rows of a group must arrive at the same processor.

    keys: the rows with equal keys are a group.
    order: the order of the rows in a group.
    count: the number of rows per group; None: all.
    offset: the number of rows to skip in each group; None: 0.
    """
    plan = GroupLimitPlan(
        tuple(map(compile_expression, keys)), Ordering(order) if order else None, count, offset
    )
    return lambda: GroupLimitProcessor(plan)
