"""Converts the values of files to the types of columns, and finds a value that does not fit.

A conversion has the semantics of CAST. Where Arrow's own cast has the same result it is tried
first, because it is several times faster. If Arrow rejects a batch, the whole batch goes through
CAST; if CAST fails too, bisection finds the first value that fails. Blank text in a column that is
not text is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts.decimal_text import exact_decimals
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import canonical
from runnel.expressions.nodes import Cast, Column
from runnel.sqltypes import NUMBERS, VARCHAR, Kind, SqlType, from_arrow, to_arrow

Converter = Callable[[pa.Array], pa.Array]
"""Converts one array; fails with an Arrow exception or a DataError."""

_CONTEXT = EvaluationContext()
_BY_ARROW = NUMBERS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}
"""Types for which any text that Arrow's cast accepts has the same value by CAST."""

SHOWN_CHARACTERS = 80
"""How many characters of a value an error shows."""


@lru_cache(maxsize=1024)
def converter(source: SqlType, target: SqlType) -> Converter | None:
    """Converts a canonical array of one type to one of another; None if the types are equal."""
    if source == target:
        return None
    if source.kind is Kind.NULL:
        arrow_type = to_arrow(target)
        return lambda array: pa.nulls(len(array), arrow_type)
    if source == VARCHAR:
        return _text_converter(target)
    return _cast(source, target)


def convert_arrow(array: pa.Array, target: SqlType) -> pa.Array:
    """Converts an array of any Arrow type to the canonical array of `target`."""
    source = from_arrow(array.type)
    if source.kind is not Kind.NULL:
        array = canonical(array, source)
    convert = converter(source, target)
    return array if convert is None else convert(array)


def convert_or_fail(
    array: pa.Array, convert: Converter, fault: Callable[[int], Exception]
) -> pa.Array:
    """The converted array; raises `fault(index)` for the first value that does not fit."""
    try:
        return convert(array)
    except (pa.ArrowException, DataError):
        raise fault(_first_unfit(array, convert)) from None


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """The location of a value in a file.

    path: the file.
    where: "line 17", "row 3" or "element 5".
    """

    path: str
    where: str


def unfit(
    value: object,
    column: str,
    target: SqlType,
    location: ValueLocation | None,
    *,
    is_inferred: bool,
) -> DataError:
    """The error for a value that does not fit the type of its column.

    `location` is None if the caller adds the location.
    """
    text = str(value).encode("utf-8", "backslashreplace").decode()
    is_code = is_inferred and target.is_numeric and re.match(_CODE, text) is not None
    shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    hint = "correct the file, or declare the column as VARCHAR"
    if target.kind is Kind.VARCHAR:
        hint = "correct the file"
    elif target.is_numeric and re.match(_COMMA, text) is not None:
        hint = (
            "if the comma precedes the fraction, add decimal_separator = ',' (decimalSeparator of "
            "a mapping); if it separates thousands, thousands = ','"
        )
    elif is_inferred:
        hint = (
            f"{target} was inferred from a sample of the data; declare the column as VARCHAR in "
            "CREATE MAPPING"
        )
        if is_code:
            hint = f"digits with a leading zero or a plus sign stay text, but {hint}"
    return DataError(
        f"value '{shown}' doesn't fit column \"{column}\" of type {target}",
        detail=None if location is None else f'file "{location.path}", {location.where}',
        hint=hint,
    )


_CODE = r"^\s*(\+|-?0[0-9])"
"""Digits that inference treats as text, since a number would lose their spelling."""
_COMMA = r"^\s*[+-]?[0-9]+,[0-9]"
"""A number with a comma, which an option must explain."""
_CODE_STARTS = ("0", "-0", "+", " ", "\t")


def numbers_only(convert: Converter) -> Converter:
    """The converter of a column that was inferred as numeric from a sample.

    It rejects values that would have made the column text.
    """

    def run(array: pa.Array) -> pa.Array:
        # Few values start with these characters, and a plain comparison is several times faster
        # than the pattern.
        for start in _CODE_STARTS:
            suspects = array.filter(pc.starts_with(array, start))
            if len(suspects) and pc.any(pc.match_substring_regex(suspects, _CODE)).as_py():
                raise DataError("digits that stay text")
        return convert(array)

    return run


def _text_converter(target: SqlType) -> Converter:
    arrow_type = to_arrow(target)
    is_float = target.kind in (Kind.REAL, Kind.DOUBLE)

    is_decimal = target.kind is Kind.DECIMAL

    def convert(array: pa.Array) -> pa.Array:
        try:
            converted = exact_decimals(array, arrow_type) if is_decimal else array.cast(arrow_type)
        except pa.ArrowException:
            return _cast(VARCHAR, target)(blank_to_null(array))
        if is_float and pc.any(pc.is_inf(converted)).as_py():
            # Arrow reads a number that is too large as infinity; for CAST it is an error.
            return _cast(VARCHAR, target)(blank_to_null(array))
        return converted

    if target.kind in _BY_ARROW:
        return convert
    by_cast = _cast(VARCHAR, target)
    if target.kind is Kind.JSON:
        return by_cast
    return lambda array: by_cast(blank_to_null(array))


def blank_to_null(array: pa.Array) -> pa.Array:
    """Trimmed text; NULL if nothing is left."""
    trimmed = pc.utf8_trim_whitespace(array)
    has_text = pc.cast(pc.binary_length(trimmed), pa.bool_())
    return pc.if_else(has_text, trimmed, pa.nulls(len(array), pa.string()))


@lru_cache(maxsize=1024)
def _cast(source: SqlType, target: SqlType) -> Converter:
    evaluator = compile_expression(
        Cast(type=target, operand=Column(type=source, index=0, name="value"), implicit=True)
    )

    def convert(array: pa.Array) -> pa.Array:
        return evaluate(evaluator, EvaluationInput([array], len(array), _CONTEXT))

    return convert


def _first_unfit(array: pa.Array, convert: Converter) -> int:
    """The index of the first value that `convert` rejects; `convert` rejects the array as a
    whole."""
    # Bisection; everything before `low` converts, array[low:high] contains the first value that
    # fails. Example: ["1", "x", "3"] to INTEGER. [0, 3): middle 1, ["1"] converts, low = 1. [1, 3):
    # middle 2, ["x"] fails, high = 2. [1, 2) has one value: the result is 1.
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(array.slice(low, middle - low))
        except (pa.ArrowException, DataError):
            high = middle
        else:
            low = middle
    return low
