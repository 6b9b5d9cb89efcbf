"""DECIMALs whose common type can't hold all their digits, for IN over subqueries and for set
operations.

`decimal_key` returns a text that is equal for equal numbers of any scale. `exact_cast` is a
conversion that never rounds.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts import to_text as cast_format
from runnel.expressions.casts.cast import conversion_of
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import FAULTS, Datum, Function, Kernel, always_may_fail
from runnel.expressions.kernels.failure import first_failure
from runnel.expressions.nodes import Call
from runnel.sqltypes import VARCHAR, as_decimal

_CONTEXT = EvaluationContext()


def _compile_key(call: Call) -> Kernel:
    """The plain digits without trailing zeros of the fraction."""
    format_decimal = cast_format.conversion(call.arguments[0].type, VARCHAR)
    has_fraction = as_decimal(call.arguments[0].type).scale > 0

    def run(value: Datum) -> Datum:
        text = format_decimal(value, _CONTEXT)
        return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".") if has_fraction else text

    return run


def _compile_cast(call: Call) -> Kernel:
    """A cast that raises DataError for a value that the target type would round."""
    source, target = call.arguments[0].type, call.type
    convert = conversion_of(source, target)
    exact = as_decimal(source)
    wide, wide_target = (
        pa.decimal256(exact.precision, exact.scale),
        pa.decimal256(target.precision, target.scale),
    )

    def unrounded(value: Datum) -> Datum:
        result = convert(value, _CONTEXT)
        if pc.any(pc.not_equal(pc.cast(value, wide), pc.cast(result, wide_target))).as_py():
            raise DataError("out of range")
        return result

    def run(value: Datum) -> Datum:
        try:
            return unrounded(value)
        except FAULTS:
            found = first_failure(unrounded, (value,))
            raise DataError(
                f"{'a value' if found is None else found[0]} of type {source} would be rounded to "
                f"{target}",
                detail=f"{target} is the common type of both sides",
                hint="CAST both sides to one type that holds their values",
            ) from None

    return run


def _not_by_name(*_: object) -> None:
    raise DataError("this function can't be called by name")


FUNCTIONS = (
    Function(
        name="decimal_key",
        arguments="x DECIMAL",
        result="VARCHAR",
        bind=_not_by_name,  # type: ignore[arg-type]
        compile=_compile_key,
        family="conversion",
    ),
    Function(
        name="exact_cast",
        arguments="x DECIMAL AS type",
        result="the type",
        bind=_not_by_name,  # type: ignore[arg-type]
        compile=_compile_cast,
        can_fail=always_may_fail,
        family="conversion",
    ),
)
