"""CAST to a type that is stored as a wider one: an unsigned type, or an array of fixed size."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.function import (
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_first,
)
from runnel.expressions.nodes import Call, Literal

_ARGUMENTS = "x ANY, least VARCHAR, greatest VARCHAR, type VARCHAR"


def _compile(call: Call) -> Kernel:
    """The values, all of which must be within the limits; with try_limited, NULL for others."""
    value, *limits = call.arguments
    low, high, word = (str(item.value) for item in limits if isinstance(item, Literal))
    is_tried = call.function == "try_limited"

    def run(values: pa.Array) -> pa.Array:
        is_list = value.type.is_nested
        measures = pc.list_value_length(values) if is_list else values
        least = pa.scalar(low).cast(measures.type)
        greatest = pa.scalar(high).cast(measures.type)
        fits = pc.and_(
            pc.greater_equal(measures, least),
            pc.less_equal(measures, greatest),
        )
        bad = pc.fill_null(pc.invert(fits), fill_value=False)
        if not pc.any(bad).as_py():
            return values
        if is_tried:
            return pc.if_else(bad, pa.scalar(None, values.type), values)
        shown = values.filter(bad)[0].as_py()
        raise DataError(
            f"an array of {len(shown)} values is no {word}"
            if is_list
            else f"{shown} is out of the range of {word}"
        )

    return lambda datum, *_: over_first(run)(datum)


def _not_by_name(*_: object) -> None:
    raise DataError("a limit needs a type: CAST(x AS type)")


def _function(name: str, is_tried: bool) -> Function:
    return Function(
        name=name,
        arguments=_ARGUMENTS,
        result="the type of x",
        bind=_not_by_name,  # type: ignore[arg-type]
        compile=_compile,
        can_fail=never_fails if is_tried else always_may_fail,
        family="conversion",
    )


FUNCTIONS = (_function("limited", is_tried=False), _function("try_limited", is_tried=True))
