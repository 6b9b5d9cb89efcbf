"""Filter and projection in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from runnel.columns.batches import make_batch, slices
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, compile_selection
from runnel.expressions.function import spread
from runnel.expressions.kernels.result_size import TooManyRows
from runnel.expressions.nodes import Expression
from runnel.expressions.properties import is_slow
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import to_arrow

Transform = Callable[[pa.RecordBatch, EvaluationContext], pa.RecordBatch]


def compile_transform(
    condition: Expression | None, projections: tuple[Expression, ...] | None, names: tuple[str, ...]
) -> Transform:
    """Compile a filter and a projection into one function.

    The function raises TooManyRows if the result of a batch needs too much memory; `divided`
    handles that.

    condition: BOOLEAN over the columns of the input; only rows for which it is true remain. None:
        all rows.
    projections: one expression per column of the result; None: all columns unchanged.
    names: the names of the result's columns.
    """
    select = None if condition is None else compile_selection(condition)
    project = _renaming(names) if projections is None else compile_projection(projections, names)
    if select is None:
        return project

    def transform(batch: pa.RecordBatch, context: EvaluationContext) -> pa.RecordBatch:
        return project(select(batch, context), context)

    return transform


def compile_projection(projections: tuple[Expression, ...], names: tuple[str, ...]) -> Transform:
    """Compile a projection: like `compile_transform` without a condition."""
    evaluators = [compile_expression(item) for item in projections]
    schema = pa.schema(
        [pa.field(n, to_arrow(e.type)) for n, e in zip(names, projections, strict=True)]
    )

    def project(batch: pa.RecordBatch, context: EvaluationContext) -> pa.RecordBatch:
        frame = EvaluationInput(batch.columns, batch.num_rows, context)
        return make_batch(
            [spread(item(frame), frame.num_rows) for item in evaluators], schema, frame.num_rows
        )

    return project


def _renaming(names: tuple[str, ...]) -> Transform:
    renamed = list(names)

    def rename(batch: pa.RecordBatch, context: EvaluationContext) -> pa.RecordBatch:
        return (
            batch if not renamed or batch.schema.names == renamed else batch.rename_columns(renamed)
        )

    return rename


SLOW_ROWS = 2048
"""Number of rows per step if an expression is slow, since a cooperative call should be short."""


def chunked(
    batch: pa.RecordBatch, transform: Transform, context: EvaluationContext
) -> Iterator[pa.RecordBatch]:
    """Yield the results of a slow transform, SLOW_ROWS rows of the batch at a time."""
    return (
        result for part in slices(batch, SLOW_ROWS) for result in divided(part, transform, context)
    )


def divided(
    batch: pa.RecordBatch, transform: Transform, context: EvaluationContext, size: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the results of a transform, with fewer rows at a time if they need too much memory.

    size: the number of rows at a time to begin with; None: all.
    """
    for part in slices(batch, size or max(batch.num_rows, 1)):
        try:
            result = transform(part, context)
        except TooManyRows as error:
            context.check()
            yield from divided(part, transform, context, error.fitting)
        else:
            yield result


def works_slowly(condition: Expression | None, projections: tuple[Expression, ...] | None) -> bool:
    """Whether one of the expressions is slow."""
    return any(
        is_slow(item)
        for item in (*(() if condition is None else (condition,)), *(projections or ()))
    )


class SlowCalc(EmittingProcessor):
    """Applies a slow transform, a few rows at a time."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._transform = transform

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(chunked(batch, self._transform, self.context.job.evaluation))


class CalcProcessor(EmittingProcessor):
    """Applies a transform to each batch."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._transform = transform

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        evaluation = self.context.job.evaluation
        try:
            self.emit(self._transform(batch, evaluation))
        except TooManyRows as error:
            self.emit_all(divided(batch, self._transform, evaluation, error.fitting))


def calc(
    condition: Expression | None, projections: tuple[Expression, ...] | None, names: tuple[str, ...]
) -> ProcessorFactory:
    """Return a supplier of processors that filter and project; see `compile_transform`."""
    transform = compile_transform(condition, projections, names)
    if works_slowly(condition, projections):
        return lambda: SlowCalc(transform)
    return lambda: CalcProcessor(transform)


def chunking() -> ProcessorFactory:
    """Return a supplier of processors that only divide their rows into small batches.

    They precede an operator that processes each row slowly.
    """
    transform = compile_transform(None, None, ())
    return lambda: SlowCalc(transform)
