"""JSON as values of SQL types: CAST of JSON, and JSON_TRANSFORM, which has NULL in place of values
that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.json import text as json_text
from runnel.expressions.kernels.buffers import pack, pack_nested
from runnel.sqltypes import VARCHAR, Kind, SqlType

Conversion = Callable[[Datum, EvaluationContext], Datum]
ConversionOf = Callable[[SqlType, SqlType], Conversion]
_MOST_DIGITS = 40
"""The number of digits of a number that is not rounded to an integer, as no type has them."""


class Fit(Enum):
    """How values fit their type.

    CAST: an object has the names of the type, and no others.
    STRICT: a missing name is an error; further names are ignored.
    LENIENT: further names are ignored; a value of another kind, and a missing one, is NULL.
    """

    CAST = "cast"
    STRICT = "strict"
    LENIENT = "lenient"


def conversion(target: SqlType, conversion_of: ConversionOf, fit: Fit = Fit.CAST) -> Conversion:
    """The conversion of JSON to `target`; `conversion_of` returns the conversions of texts to the
    types within it."""

    def run(datum: Datum, context: EvaluationContext) -> Datum:
        def leaf(values: Sequence[Any], kind: SqlType) -> pa.Array:
            if kind.is_nested:
                return pack_nested(values, kind, leaf)
            texts = pack([_text(value, kind) for value in values], VARCHAR)
            return conversion_of(VARCHAR, kind)(texts, context)

        def kernel(documents: pa.Array) -> pa.Array:
            parsed = [
                None if document is None else _shaped(json_text.parse(document), target, fit)
                for document in documents.to_pylist()
            ]
            return leaf(parsed, target)

        return over_first(kernel)(datum)

    return run


def _shaped(value: Any, target: SqlType, fit: Fit) -> Any:
    """The value with the arrays and names of the type; the values within are unchanged."""
    if value is None:
        return None
    match target.kind:
        case Kind.ROW:
            return _row(value, target, fit)
        case Kind.ARRAY:
            if not isinstance(value, list):
                return _misfit("an array", value, fit)
            assert target.element is not None
            return [_shaped(item, target.element, fit) for item in value]
        case Kind.MAP:
            if not isinstance(value, dict):
                return _misfit("an object", value, fit)
            assert target.element is not None
            return {name: _shaped(item, target.element, fit) for name, item in value.items()}
        case Kind.VARCHAR | Kind.JSON:
            return value
    return _misfit(str(target), value, fit) if isinstance(value, list | dict) else value


def _row(value: Any, target: SqlType, fit: Fit) -> Any:
    if not isinstance(value, dict):
        _misfit("an object", value, fit)
        value = {}
    names = [name for name, _ in target.fields]
    if fit is Fit.CAST and (further := value.keys() - {*names}):
        raise DataError(
            f'an object has the name "{min(further)}", which is no field of {target}',
            hint="json_transform ignores further names",
        )
    if fit is not Fit.LENIENT and (missing := [name for name in names if name not in value]):
        raise DataError(
            f'an object has no name "{missing[0]}"',
            hint="json_transform has NULL for missing names",
        )
    return {name: _shaped(value.get(name), kind, fit) for name, kind in target.fields}


def _misfit(expected: str, value: Any, fit: Fit) -> None:
    """NULL, or the error for a value of another kind."""
    if fit is not Fit.LENIENT:
        names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
        found = names.get(type(value), "a number")
        raise DataError(f"expected {expected}, not {found}")


def _text(value: Any, target: SqlType) -> str | None:
    """A value as the text that is cast to the type."""
    if target.kind is Kind.JSON:
        return None if value is None else json_text.write(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) and target.is_numeric:
        return str(int(value))
    if isinstance(value, Decimal) and target.is_integer and value.adjusted() < _MOST_DIGITS:
        return str(int(value.to_integral_value(ROUND_HALF_EVEN)))
    return json_text.write(value)
