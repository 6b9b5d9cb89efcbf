"""Joins with a table that is looked up by key, such as a stream enriched from a map.

Each row is joined with the current row of the table. There is no state: each batch requests all of
its keys at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, from_flags, indexes, true_flags
from runnel.connector import KeyedTable
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import StatelessProcessor
from runnel.processors.joins.build_side import JoinPlan, JoinShape
from runnel.processors.joins.index import all_valid
from runnel.relation.nodes import Field, JoinKind


@frozen(kw_only=True)
class Lookup:
    """The right side of a lookup join.

    table: the table.
    columns: the indexes of the table's columns that the right side has.
    predicate: over all columns of the table; only rows for which it is true match. None: all.
    """

    table: KeyedTable
    columns: tuple[int, ...]
    predicate: Expression | None = None


KINDS = (
    JoinKind.INNER,
    JoinKind.LEFT,
    JoinKind.SEMI,
    JoinKind.ANTI,
    JoinKind.EXISTS_MARK,
    JoinKind.SINGLE,
)
"""The kinds of join that can be looked up: a left row has at most one match."""


class LookupPlan:
    """A compiled lookup join, shared by executions."""

    def __init__(
        self,
        lookup: Lookup,
        shape: JoinShape,
        keys: Sequence[Expression],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        self.lookup = lookup
        self.rows = JoinPlan(shape, (keys, ()), fields, names)
        self.predicate = None if lookup.predicate is None else compile_expression(lookup.predicate)


class LookupJoinProcessor(StatelessProcessor):
    """Emits each row with the row of the table that its key finds."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plan, evaluation = self._plan.rows, self.context.job.evaluation
        # Example: the keys [a, NULL, b], of which only a exists. asked = [0, 2] are the rows with a
        # key; `rows` has a row for each of them, and found = [True, False]. positions = [0, 0, 1]
        # is the index in `rows` of each row of the batch, and matched = [True, False, False].
        keys = plan.probe_keys(batch, evaluation)
        valid = all_valid(keys)
        asked = np.arange(batch.num_rows) if valid is None else np.flatnonzero(valid)
        rows, found = self._plan.lookup.table.get_many(
            keys if valid is None else [key.take(indexes(asked)) for key in keys]
        )
        if self._plan.predicate is not None and found.any():
            found = found & true_flags(
                evaluate(
                    self._plan.predicate, EvaluationInput(rows.columns, rows.num_rows, evaluation)
                )
            )
        right = [rows.column(index) for index in self._plan.lookup.columns]
        if plan.condition is not None and found.any():
            left = batch if valid is None else batch.take(indexes(asked))
            frame = EvaluationInput([*left.columns, *right], left.num_rows, evaluation)
            found = found & true_flags(evaluate(plan.condition, frame))
        positions = np.zeros(batch.num_rows, np.int64)
        positions[asked] = np.arange(len(asked))
        matched = np.zeros(batch.num_rows, np.bool_)
        matched[asked] = found
        return self._result(batch, right, positions, matched)

    def _result(
        self, batch: pa.RecordBatch, right: Sequence[pa.Array], positions: Indexes, matched: Mask
    ) -> pa.RecordBatch:
        plan = self._plan.rows
        left = plan.left_columns(batch)
        if plan.kind is JoinKind.EXISTS_MARK:
            marks = [from_flags(matched)] if plan.right_output else []
            return plan.row_batch([*left.columns, *marks], batch.num_rows)
        if plan.kind in (JoinKind.LEFT, JoinKind.SINGLE):
            chosen = indexes(positions, matched)
            return plan.row_batch(
                [*left.columns, *(right[i].take(chosen) for i in plan.right_output)], batch.num_rows
            )
        remaining = np.flatnonzero(~matched if plan.kind is JoinKind.ANTI else matched)
        columns = (
            left.columns
            if len(remaining) == batch.num_rows
            else [column.take(indexes(remaining)) for column in left.columns]
        )
        if not plan.is_left_only:
            columns = [
                *columns,
                *(right[i].take(indexes(positions[remaining])) for i in plan.right_output),
            ]
        return plan.row_batch(list(columns), len(remaining))


def lookup_join(
    lookup: Lookup,
    shape: JoinShape,
    keys: Sequence[Expression],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> ProcessorFactory:
    """Return a supplier of processors that join each row with the current row of its key.

    lookup: the table.
    shape: the kind, which is one of KINDS, and a condition over the columns of both sides.
    keys: the values of the table's key columns, in their order, over the left side.
    fields: the fields of the left side, then of the right side.
    names: the names of the result's columns.
    """
    plan = LookupPlan(lookup, shape, keys, fields, names)
    return lambda: LookupJoinProcessor(plan)
