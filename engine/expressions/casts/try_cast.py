"""TRY_CAST: a conversion that gives NULL where a value can't be converted.

The whole array is tried first. When it fails it is halved, so that a few bad values cost a few more
calls; where there are many, each distinct value is tried once.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from runnel.columns.batches import join_arrays
from runnel.errors import DataError
from runnel.expressions.casts.cast import conversion_of, depends_on_session
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import FAULTS, Datum, Function, Kernel
from runnel.expressions.kernels.buffers import null_scalar
from runnel.expressions.nodes import Call
from runnel.sqltypes import SqlType, to_arrow

Conversion = Callable[[Datum, EvaluationContext], Datum]
_FEW = 64


def attempted(
    conversion: Conversion,
    datum: Datum,
    source: SqlType,
    target: SqlType,
    context: EvaluationContext,
) -> Datum:
    """The converted values, NULL for those that the conversion refuses."""
    if isinstance(datum, pa.Scalar):
        try:
            return conversion(datum, context)
        except FAULTS:
            return null_scalar(target)
    try:
        return conversion(datum, context)
    except FAULTS:
        if source.is_nested or len(datum) < _FEW:
            return _halved(conversion, datum, target, context)
    encoded = datum.dictionary_encode()
    return _halved(conversion, encoded.dictionary, target, context).take(encoded.indices)


def _halved(
    conversion: Conversion, array: pa.Array, target: SqlType, context: EvaluationContext
) -> pa.Array:
    """The parts that convert, put together again; without recursion deeper than the halvings."""
    if len(array) == 0:
        return pa.nulls(0, to_arrow(target))
    parts: list[pa.Array] = []
    waiting = [array]
    while waiting:
        part = waiting.pop()
        try:
            parts.append(conversion(part, context))
        except FAULTS:
            if len(part) == 1:
                parts.append(pa.nulls(1, to_arrow(target)))
            else:
                middle = len(part) // 2
                waiting += [part.slice(middle), part.slice(0, middle)]
    return join_arrays(parts)


def _compile(call: Call) -> Kernel:
    source, target = call.arguments[0].type, call.type
    conversion = conversion_of(source, target)
    return lambda frame, value: attempted(conversion, value, source, target, frame.context)


def _not_by_name(*_: object) -> None:
    raise DataError("TRY_CAST needs a type: TRY_CAST(x AS type)")


FUNCTIONS = (
    Function(
        name="try_cast",
        arguments="x ANY AS type",
        result="the type; NULL where x can't be converted",
        bind=_not_by_name,  # type: ignore[arg-type]
        compile=_compile,
        needs_frame=True,
        depends_on_session=lambda call: depends_on_session(call.arguments[0].type, call.type),
        family="conversion",
    ),
)
