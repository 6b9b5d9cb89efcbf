"""Literal rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from runnel.columns.batches import join_arrays, make_batch
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Expression, Literal
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import SqlType, to_arrow

Column = Any
"""A pyarrow Array if all values are literals, or else a list of the evaluators of its values."""


class ValuesProcessor(EmittingProcessor):
    """Emits its rows, all from the processor with index 0."""

    holds_snapshots = True

    def __init__(self, columns: list[Column], schema: pa.Schema, count: int) -> None:
        super().__init__()
        self._columns = columns
        self._schema = schema
        self._count = count

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if context.index == 0:
            evaluation = context.job.evaluation
            arrays = [_evaluated(column, evaluation) for column in self._columns]
            self.emit(make_batch(arrays, self._schema, self._count))


def _evaluated(column: Column, context: EvaluationContext) -> pa.Array:
    if not isinstance(column, list):
        return column
    frame = EvaluationInput((), 1, context)
    return join_arrays([evaluate(item, frame) for item in column])


def values(rows: tuple[tuple[Expression, ...], ...], names: tuple[str, ...]) -> ProcessorFactory:
    """Return a supplier of processors that emit literal rows.

    Columns that consist of literals only are built once, here.

    rows: expressions that refer to no columns.
    names: the names of the columns.
    """
    if not rows:
        return lambda: ValuesProcessor([], pa.schema([]), 0)
    columns: list[Column] = []
    fields = []
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        kind = column[0].type
        fields.append(pa.field(name, to_arrow(kind)))
        columns.append(_prepared(column, kind))
    schema, count = pa.schema(fields), len(rows)
    return lambda: ValuesProcessor(columns, schema, count)


def _prepared(column: tuple[Expression, ...], kind: SqlType) -> Column:
    if all(isinstance(item, Literal) for item in column):
        return array_of([item.value for item in column if isinstance(item, Literal)], kind)
    return [compile_expression(item) for item in column]
