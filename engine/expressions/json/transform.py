"""JSON_TRANSFORM and JSON_TRANSFORM_STRICT, whose type the binder reads from their structure, and
JSON_STRUCTURE."""

from __future__ import annotations

from functools import reduce
from typing import Any

from runnel.errors import DataError
from runnel.expressions.casts.cast import compile_cast, conversion_of
from runnel.expressions.casts.try_cast import attempted
from runnel.expressions.function import Function, Kernel, always_may_fail
from runnel.expressions.json import text as json_text
from runnel.expressions.json.functions import parsed
from runnel.expressions.json.values import Conversion, Fit, conversion
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call
from runnel.expressions.signature import named, signature
from runnel.sqltypes import JSON, Kind, SqlType, contains


def _attempt(source: SqlType, target: SqlType) -> Conversion:
    """A conversion with NULL for the values that it refuses."""
    inner = conversion_of(source, target)
    return lambda datum, context: attempted(inner, datum, source, target, context)


def _compile(call: Call) -> Kernel:
    is_strict = call.function.endswith("strict")
    fit = Fit.STRICT if is_strict else Fit.LENIENT
    made = conversion(call.type, compile_cast if is_strict else _attempt, fit)
    return lambda frame, value: made(value, frame.context)


def _not_by_name(*_: object) -> None:
    raise DataError("JSON_TRANSFORM needs a structure as a literal")


def _has_instants(call: Call) -> bool:
    return contains(call.type, Kind.TIMESTAMP_TZ)


def _of_document(document: str) -> str:
    return json_text.write(_structure(parsed(document)))


def _structure(value: Any) -> Any:
    """The structure of a value: a type, a list of one structure, or structures by name."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -(2**63) <= value < 2**63 else "DOUBLE"
        case str():
            return "VARCHAR"
        case list():
            return [reduce(_common, map(_structure, value), "NULL")]
        case dict():
            return {name: _structure(item) for name, item in value.items()} or "JSON"
    return "DOUBLE"


def _common(first: Any, second: Any) -> Any:
    """The structure of values of both structures."""
    if first == second or second == "NULL":
        return first
    if first == "NULL":
        return second
    if isinstance(first, list) and isinstance(second, list):
        return [_common(first[0], second[0])]
    if isinstance(first, dict) and isinstance(second, dict):
        names = {**first, **second}
        return {name: _common(first.get(name, "NULL"), second.get(name, "NULL")) for name in names}
    numbers = ("BIGINT", "DOUBLE")
    return "DOUBLE" if first in numbers and second in numbers else "JSON"


def _transform(name: str, result: str) -> Function:
    return Function(
        name=name,
        arguments="j JSON, structure VARCHAR",
        result=result,
        bind=_not_by_name,  # type: ignore[arg-type]
        compile=_compile,
        needs_frame=True,
        can_fail=always_may_fail,
        depends_on_session=_has_instants,
        family="JSON",
    )


FUNCTIONS = (
    _transform("json_transform", "the type of the structure; NULL where a value does not fit"),
    _transform("json_transform_strict", "the type of the structure"),
    named(
        "json_structure",
        "j JSON",
        "JSON",
        signature(JSON, result=JSON),
        per_value(_of_document),
        can_fail=always_may_fail,
        family="JSON",
    ),
)
