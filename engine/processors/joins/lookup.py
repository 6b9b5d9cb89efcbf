"""Joins with a table that is looked up by key, row for row as it is at that moment: a stream
enriched by a map.

Nothing is kept: each batch asks for all of its keys at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, from_flags, indexes, true_flags
from runnel.connector import KeyedTable
from runnel.dag import ProcessorFactory
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import StatelessProcessor
from runnel.processors.joins.build_side import JoinPlan, JoinShape
from runnel.processors.joins.index import all_valid
from runnel.relation.nodes import Field, JoinKind


@frozen(kw_only=True)
class Lookup:
    """What is looked up: in `table`, of which the columns at `columns` are the right side's, and
    only the rows for which `predicate` (over all columns of the table; None: all) is true."""

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
    """A compiled look-up, shared by executions."""

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


class LookupJoin(StatelessProcessor):
    """Gives each row with what its key finds."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plan, evaluation = self._plan.rows, self.context.job.evaluation
        keys = plan.probe_keys(batch, evaluation)
        valid = all_valid(keys)
        asked = np.arange(batch.num_rows) if valid is None else np.flatnonzero(valid)
        rows, found = self._plan.lookup.table.get_many(
            keys if valid is None else [key.take(indexes(asked)) for key in keys]
        )
        if self._plan.predicate is not None and found.any():
            found = found & true_flags(
                evaluate(self._plan.predicate, Frame(rows.columns, rows.num_rows, evaluation))
            )
        right = [rows.column(place) for place in self._plan.lookup.columns]
        if plan.condition is not None and found.any():
            left = batch if valid is None else batch.take(indexes(asked))
            frame = Frame([*left.columns, *right], left.num_rows, evaluation)
            found = found & true_flags(evaluate(plan.condition, frame))
        places = np.zeros(batch.num_rows, np.int64)
        places[asked] = np.arange(len(asked))
        matched = np.zeros(batch.num_rows, np.bool_)
        matched[asked] = found
        return self._result(batch, right, places, matched)

    def _result(
        self, batch: pa.RecordBatch, right: Sequence[pa.Array], places: Indexes, matched: Mask
    ) -> pa.RecordBatch:
        plan = self._plan.rows
        left = plan.left_columns(batch)
        if plan.kind is JoinKind.EXISTS_MARK:
            marks = [from_flags(matched)] if plan.right_output else []
            return plan.row_batch([*left.columns, *marks], batch.num_rows)
        if plan.kind in (JoinKind.LEFT, JoinKind.SINGLE):
            chosen = indexes(places, matched)
            return plan.row_batch(
                [*left.columns, *(right[i].take(chosen) for i in plan.right_output)], batch.num_rows
            )
        kept = np.flatnonzero(~matched if plan.kind is JoinKind.ANTI else matched)
        columns = (
            left.columns
            if len(kept) == batch.num_rows
            else [column.take(indexes(kept)) for column in left.columns]
        )
        if not plan.is_left_only:
            columns = [*columns, *(right[i].take(indexes(places[kept])) for i in plan.right_output)]
        return plan.row_batch(list(columns), len(kept))


def lookup_join(
    lookup: Lookup,
    shape: JoinShape,
    keys: Sequence[Expression],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> ProcessorFactory:
    """A supplier of processors that join each row with the one that `keys`, the values of the
    table's key columns in their order, finds there at that moment; the kind is one of KINDS, the
    shape's condition over the columns of both sides."""
    plan = LookupPlan(lookup, shape, keys, fields, names)
    return lambda: LookupJoin(plan)
