"""CAST: which conversion serves a pair of types, and its errors.

The conversions themselves are in `casts.numbers`, `casts.from_text`, `casts.to_text`,
`casts.temporal` and `casts.nested`. A number with a fraction becomes the nearest integer:
a DECIMAL half away from zero, a float half to even. A DECIMAL that loses digits is rounded half
away from zero; no value wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import pyarrow as pa

from runnel.errors import (
    CastOutOfRange,
    ConversionException,
    DataError,
    InvalidTextRepresentation,
    Position,
)
from runnel.expressions.casts import from_text as cast_parse
from runnel.expressions.casts import nested as cast_nested
from runnel.expressions.casts import numbers as cast_numbers
from runnel.expressions.casts import temporal as cast_temporal
from runnel.expressions.casts import to_text as cast_format
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import FAULTS, Datum
from runnel.expressions.kernels.buffers import null_scalar
from runnel.expressions.kernels.failure import first_failure, shown
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType, as_decimal, contains, to_arrow

Conversion = Callable[[Datum, EvaluationContext], Datum]


def compile_cast(source: SqlType, target: SqlType, position: Position | None = None) -> Conversion:
    """The conversion of data of type `source` to `target` (`sqltypes.can_cast` must be true for
    them).

    It raises DataErrors with the value, both types, and the position.
    """
    conversion = conversion_of(source, target)

    def run(datum: Datum, context: EvaluationContext) -> Datum:
        try:
            return conversion(datum, context)
        except FAULTS as error:
            found = first_failure(lambda part: conversion(part, context), (datum,))
            raise _explained(error, found, source, target, position) from None

    return run


def cast_datum(datum: Datum, source: SqlType, target: SqlType, context: EvaluationContext) -> Datum:
    """One datum of type `source` as `target`."""
    return compile_cast(source, target)(datum, context)


def cast_can_fail(source: SqlType, target: SqlType) -> bool:
    """Whether there is a value of `source` that can't be converted."""
    if source.kind is Kind.NULL or source == target:
        return False
    if source.is_nested and target.kind is source.kind:
        return True
    if source.kind is Kind.JSON:
        return target.kind is not Kind.VARCHAR
    if target.kind in (Kind.VARCHAR, Kind.JSON):
        return target.kind is Kind.JSON or source.kind in _NOT_ALL_HAVE_TEXT
    if source.kind is Kind.VARCHAR:
        return target.kind is not Kind.VARBINARY
    if source.kind is Kind.BOOLEAN or target.kind is Kind.BOOLEAN:
        return False
    if source.is_integer and target.is_integer:
        return INTEGER_WIDTHS[source.kind] > INTEGER_WIDTHS[target.kind]
    if source.is_exact and target.kind is Kind.DECIMAL:
        exact = as_decimal(source)
        rounds = exact.scale > target.scale
        return exact.precision - exact.scale + rounds > target.precision - target.scale
    if source.kind is Kind.INTERVAL_MIXED or target.kind is Kind.INTERVAL_MIXED:
        return True
    if source.is_numeric:
        return not target.is_approximate or (
            source.kind is Kind.DOUBLE and target.kind is Kind.REAL
        )
    return False


_NOT_ALL_HAVE_TEXT = frozenset({Kind.VARBINARY, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ})
"""The kinds with values that have no text: bytes that aren't UTF-8, years outside 1 to 9999."""


def depends_on_session(source: SqlType, target: SqlType) -> bool:
    """Whether a cast reads the session's zone or date: casts between an instant and any other type,
    and from TIME to TIMESTAMP.
    """
    if source.kind is Kind.JSON:
        return contains(target, Kind.TIMESTAMP_TZ)
    kinds = {source.kind, target.kind}
    return (Kind.TIMESTAMP_TZ in kinds and kinds - {Kind.TIMESTAMP_TZ, Kind.NULL} != set()) or (
        source.kind is Kind.TIME and target.kind is Kind.TIMESTAMP
    )


@lru_cache(maxsize=1024)
def conversion_of(source: SqlType, target: SqlType) -> Conversion:
    """The conversion without error handling: it raises the exceptions of its kernels."""
    if source == target:
        return _same
    if source.kind is Kind.NULL:
        return partial(_null, target)
    if source.kind is Kind.VARCHAR and target.kind is Kind.ARRAY:
        # Loaded on first use: few statements read arrays from text.
        from runnel.expressions.casts import array_text

        assert target.element is not None
        return array_text.conversion(target, conversion_of(source, target.element))
    if source.kind is Kind.JSON and target.kind is not Kind.VARCHAR:
        # Loaded on first use: few statements read JSON as values.
        from runnel.expressions.json import values

        return values.conversion(target, conversion_of)
    if source.is_nested or target.is_nested:
        return cast_nested.conversion(source, target, conversion_of)
    if target.kind is Kind.VARCHAR:
        return cast_format.conversion(source, target)
    if source.kind is Kind.VARCHAR:
        return cast_parse.conversion(target)
    if source.is_interval:
        from runnel.expressions.time.mixed_intervals import conversion

        kernel = conversion(source, target)
        return lambda datum, context: kernel(datum)
    if source.is_temporal:
        return cast_temporal.conversion(source, target)
    return cast_numbers.conversion(source, target)


def _same(datum: Datum, context: EvaluationContext) -> Datum:
    return datum


def _null(target: SqlType, datum: Datum, context: EvaluationContext) -> Datum:
    return (
        null_scalar(target)
        if isinstance(datum, pa.Scalar)
        else pa.nulls(len(datum), to_arrow(target))
    )


_SPECIAL_TIMES = frozenset("infinity -infinity now today tomorrow yesterday epoch allballs".split())
"""The words that PostgreSQL reads as a time."""


def _explained(
    error: Exception,
    found: list[object] | None,
    source: SqlType,
    target: SqlType,
    position: Position | None,
) -> DataError:
    """The error of a cast, with the first value that fails if it was found."""
    if found is None:
        return ConversionException(
            f"cannot convert {source} to {target}", detail=str(error), position=position
        )
    (value,) = found
    kind: type[DataError] = ConversionException
    if source.kind is Kind.VARCHAR:
        kind = InvalidTextRepresentation
        message = f"cannot parse VARCHAR value {shown(value)} to {target}"
        if target.is_temporal and str(value).strip().lower() in _SPECIAL_TIMES:
            return InvalidTextRepresentation(
                message,
                hint="dates are of the years 1 to 9999; write CURRENT_DATE, CURRENT_TIMESTAMP, or "
                "NULL for a time without end",
                position=position,
            )
        if target.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            hint = f"TRY_CAST(… AS {target}) is NULL for such a text"
            return InvalidTextRepresentation(message, hint=hint, position=position)
    elif isinstance(error, DataError):
        return type(error)(
            error.message, detail=f"the value is {shown(value)}", hint=error.hint, position=position
        )
    elif source.is_numeric:
        message = f"numeric overflow while converting {shown(value)} from {source} to {target}"
        return CastOutOfRange(message, position=position)
    else:
        message = f"cannot convert {source} value {shown(value)} to {target}"
    return kind(message, position=position)
