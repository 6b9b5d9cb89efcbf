"""TRY_CAST: a conversion that returns NULL where a value can't be converted.

The whole array is converted first. If that fails, the array is halved repeatedly, so that a few bad
values cost a few more calls. A long array is dictionary-encoded before it is halved, so that each
distinct bad value fails once.
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
"""The number of values below which the array is halved without dictionary encoding."""


def attempted(
    conversion: Conversion,
    datum: Datum,
    source: SqlType,
    target: SqlType,
    context: EvaluationContext,
) -> Datum:
    """The converted values; NULL for the values that the conversion refuses."""
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


# For ['1', 'x', '3', '4'] as INTEGER (the next chunk to convert is the last of `waiting`):
#     waiting [[1, x, 3, 4]]    fails, is halved
#     waiting [[3, 4], [1, x]]  [1, x] fails, is halved
#     waiting [[3, 4], [x], [1]]  [1] is converted; [x] fails and has one value: NULL; [3, 4] is
#                                 converted
def _halved(
    conversion: Conversion, array: pa.Array, target: SqlType, context: EvaluationContext
) -> pa.Array:
    """The chunks that can be converted, and NULLs for the other values, in their order.

    A list of waiting chunks takes the place of recursion.
    """
    if len(array) == 0:
        return pa.nulls(0, to_arrow(target))
    converted: list[pa.Array] = []
    waiting = [array]
    while waiting:
        chunk = waiting.pop()
        try:
            converted.append(conversion(chunk, context))
        except FAULTS:
            if len(chunk) == 1:
                converted.append(pa.nulls(1, to_arrow(target)))
            else:
                middle = len(chunk) // 2
                waiting += [chunk.slice(middle), chunk.slice(0, middle)]
    return join_arrays(converted)


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
