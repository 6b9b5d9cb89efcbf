"""executemany: the argument lists as columns, written once, all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runnel.connector import WritableTable, WriteMode
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Cast, Column, Expression, Parameter, transform, walk
from runnel.planner.plans import KeyPutPlan, Plan, WritePlan
from runnel.relation.nodes import Project, Relation, Values
from runnel.sqltypes import SqlType
from runnel.statements.arguments import Rows
from runnel.statements.writes import write_batch

if TYPE_CHECKING:
    from runnel.session.session import Session

Template = tuple[Expression, ...]
"""One row of VALUES: expressions over parameters."""


def templates(plan: Plan) -> tuple[Template, ...]:
    """The rows of an INSERT or SINK of VALUES; () for any other plan."""
    if isinstance(plan, KeyPutPlan) and plan.mode in (WriteMode.INSERT, WriteMode.SINK):
        return plan.rows
    if isinstance(plan, WritePlan):
        values = _below_computed(plan.logical)
        return values.rows if isinstance(values, Values) else ()
    return ()


def _below_computed(relation: Relation) -> Relation:
    """The rows that the computed columns of a table are computed from, if it has some."""
    if not isinstance(relation, Project) or any(
        isinstance(node, Parameter) for item in relation.expressions for node in walk(item)
    ):
        return relation
    return relation.input


def run_batch(
    session: Session,
    plan: KeyPutPlan | WritePlan,
    types: tuple[SqlType, ...],
    rows: Rows,
    context: EvaluationContext,
) -> int:
    """Writes the VALUES of `plan`, evaluated for each argument list, as one batch; returns the
    number of rows."""
    table: WritableTable = plan.table
    columns = [
        array_of(list(values), item)
        for values, item in zip(zip(*rows, strict=True), types, strict=True)
    ]
    frame = EvaluationInput(columns, len(rows), context)
    parts = [
        [
            evaluate(compile_expression(_over_columns(expression, types)), frame)
            for expression in template
        ]
        for template in templates(plan)
    ]
    if isinstance(plan, WritePlan) and isinstance(plan.logical, Project):
        parts = [_projected(plan.logical, part, frame) for part in parts]
    names = [table.columns[i].name for i in plan.columns]
    return write_batch(table, plan.mode, plan.columns, _interleaved(parts, names, len(rows)))


def _projected(project: Project, columns: list[Any], values: EvaluationInput) -> list[Any]:
    frame = EvaluationInput(columns, values.num_rows, values.context)
    return [evaluate(compile_expression(item), frame) for item in project.expressions]


def _over_columns(expression: Expression, types: tuple[SqlType, ...]) -> Expression:
    """The expression with each parameter replaced by the column of its values."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, Parameter):
            return node
        given = types[node.index]
        column = Column(index=node.index, name=str(node), type=given, position=node.position)
        if given == node.type:
            return column
        return Cast(operand=column, type=node.type, implicit=True, position=node.position)

    return transform(expression, change)


def _interleaved(parts: list[list[Any]], names: list[str], count: int) -> pa.RecordBatch:
    """The rows of several templates in the order in which single statements would have written
    them."""
    batches = [pa.RecordBatch.from_arrays(arrays, names=names) for arrays in parts]
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    order = np.arange(len(parts) * count).reshape(len(parts), count).T.ravel()
    return table.take(
        pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order.tobytes())])
    ).to_batches()[0]
