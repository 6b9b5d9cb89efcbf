"""IN over literals and parameters: one hash lookup per row, with SQL's rules for NULL.

`x IN (…)` is NULL where x is NULL, and where x isn't found but the list contains a NULL. −0 equals
0, and NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.function import Datum
from runnel.expressions.kernels.buffers import null_scalar, pack, pack_scalar
from runnel.expressions.nodes import Expression, InList, Literal, Parameter
from runnel.sqltypes import BOOLEAN, SqlType

Evaluator = Callable[[EvaluationInput], Any]

_NULL = null_scalar(BOOLEAN)


def compile_in_list(
    expression: InList, compile_expression: Callable[[Expression], Evaluator]
) -> Evaluator:
    """The evaluator of an IN list.

    The value set is built once if all values are literals, and once per execution if there are
    parameters.
    """
    operand = compile_expression(expression.operand)
    zero = (
        pack_scalar(0.0, expression.operand.type)
        if expression.operand.type.is_approximate
        else None
    )
    empty = EvaluationContext()
    is_fixed = all(isinstance(value, Literal) for value in expression.values)
    fixed = (
        _value_set(expression.values, expression.operand.type, empty, zero) if is_fixed else None
    )
    cached: list[tuple[EvaluationContext, tuple[pa.Array, bool]]] = []

    def value_set(context: EvaluationContext) -> tuple[pa.Array, bool]:
        if fixed is not None:
            return fixed
        known = cached[0] if cached else None
        if known is None or known[0] is not context:
            made = _value_set(expression.values, expression.operand.type, context, zero)
            known = (context, made)
            cached[:] = [known]
        return known[1]

    def run(frame: EvaluationInput) -> Datum:
        value = operand(frame)
        values, has_null = value_set(frame.context)
        if zero is not None:
            value = pc.add(value, zero)
        found = pc.is_in(value, value_set=values)
        if has_null:
            found = pc.if_else(found, found, _NULL)
        if isinstance(value, pa.Scalar):
            return found if value.is_valid else _NULL
        return pc.if_else(value.is_valid(), found, _NULL) if value.null_count else found

    return run


def _value_set(
    values: Sequence[Expression],
    sql_type: SqlType,
    context: EvaluationContext,
    zero: pa.Scalar | None,
) -> tuple[pa.Array, bool]:
    """The values that aren't NULL, with −0 as 0, and whether there was a NULL."""
    literals = [value.value for value in values if isinstance(value, Literal)]
    scalars = [context.arguments[value.index] for value in values if isinstance(value, Parameter)]
    arrays = pa.concat_arrays(
        [pack(literals, sql_type), *(pa.repeat(scalar, 1) for scalar in scalars)]
    )
    present = arrays.drop_null()
    return (present if zero is None else pc.add(present, zero)), len(present) < len(arrays)
