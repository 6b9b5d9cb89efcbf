"""Casts to text.

| type | form |
|---|---|
| BOOLEAN | true, false |
| DECIMAL | plain digits, with all of its scale: 1.50 |
| REAL, DOUBLE | the shortest digits that read back as the same value, with a point: 100.0, 0.001 |
| … from 1E15 on, below 1E-6 | with an exponent: 1.0E20, 2.5E-7 |
| … NaN, infinities | NaN, Infinity, -Infinity |
| DATE, TIME, TIMESTAMP | ISO, no fraction of seconds if it is 0: 2020-01-31, 10:00:00.5 |
| TIMESTAMP WITH TIME ZONE | the session zone's local time and offset: 2020-01-31 10:00:00+01 |
| INTERVAL | 3 days 04:05:06.5, 1 year 2 months, as PostgreSQL |
| VARBINARY | its bytes as UTF-8 |
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.casts.temporal import local
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.python_values import OUTSIDE_YEARS, RANGES
from runnel.expressions.time import intervals
from runnel.sqltypes import BIGINT, VARCHAR, Kind, SqlType

Conversion = Callable[[Datum, EvaluationContext], Datum]


def conversion(source: SqlType, target: SqlType) -> Conversion:
    """The conversion of a type that isn't nested to VARCHAR."""
    return _CONVERSIONS.get(source.kind, _plain)


def _plain(datum: Datum, context: EvaluationContext) -> Datum:
    return pc.cast(datum, pa.string())


def _float(datum: Datum, context: EvaluationContext) -> Datum:
    text = pc.cast(datum, pa.string())
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    if any_true(pc.match_substring_regex(text, "[en]")):
        text = _large_as_digits(text)
        text = pc.replace_substring_regex(text, r"^(-?[0-9]+)e", r"\1.0e")
        text = pc.replace_substring_regex(text, r"e\+?", "E")
        text = pc.replace_substring_regex(text, "^-?nan$", "NaN")
        text = pc.replace_substring_regex(text, "^(-?)inf$", r"\1Infinity")
    return text


def _large_as_digits(text: Datum) -> Datum:
    """Numbers from 1E10 to below 1E15 as plain digits; Arrow writes them with an exponent."""
    large = pc.match_substring_regex(text, r"e\+1[0-4]$")
    if not any_true(large):
        return text
    digits = pc.cast(pc.cast(pc.if_else(large, text, _ZERO), _DIGITS), pa.string())
    digits = pc.replace_substring_regex(pc.utf8_rtrim(digits, "0"), r"\.$", ".0")
    return pc.if_else(large, digits, text)


_ZERO, _DIGITS = pack_scalar("0", VARCHAR), pa.decimal128(38, 10)


def _decimal(datum: Datum, context: EvaluationContext) -> Datum:
    text = pc.cast(datum, pa.string())
    if not any_true(pc.match_substring(text, "E")):
        return text
    return over_first(_decimal_digits)(datum)


# For the DECIMAL(9, 8) values 0.00000012 and −1.5, of which Arrow writes the first as 1.2E-7:
#     digits  ['12', '150000000']         the unscaled absolute values
#     padded  ['000000012', '150000000']  at least scale + 1 digits
#     plain   ['0.00000012', '1.50000000']
#     sign    ['', '-']
def _decimal_digits(array: pa.Array) -> pa.Array:
    """Digits without an exponent (Arrow writes small values with one): the unscaled number with a
    decimal point.
    """
    scale = array.type.scale
    digits = pc.cast(pc.abs(array.view(pa.decimal128(array.type.precision, 0))), pa.string())
    padded = pc.utf8_lpad(digits, scale + 1, "0")
    plain = pc.replace_substring_regex(padded, f"([0-9]{{{scale}}})$", r".\1")
    sign = pc.if_else(pc.equal(pc.sign(array), _MINUS), _MINUS_SIGN, _EMPTY)
    return pc.binary_join_element_wise(sign, plain, _EMPTY)


_MINUS = pack_scalar(-1, BIGINT)
_MINUS_SIGN, _EMPTY = pack_scalar("-", VARCHAR), pack_scalar("", VARCHAR)


def _without_empty_fraction(text: Datum) -> Datum:
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def _time(datum: Datum, context: EvaluationContext) -> Datum:
    return _without_empty_fraction(pc.cast(datum, pa.string()))


def _date(datum: Datum, context: EvaluationContext) -> Datum:
    _check_years(pc.cast(datum, pa.int32()), Kind.DATE)
    return pc.cast(datum, pa.string())


def _timestamp(datum: Datum, context: EvaluationContext) -> Datum:
    _check_years(pc.cast(datum, pa.int64()), Kind.TIMESTAMP)
    return _time(datum, context)


def _check_years(number: Datum, kind: Kind) -> None:
    """Refuses other years, as the texts that Arrow writes for them can't be read back as dates."""
    bounds = pc.min_max(number)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    first, last = RANGES[kind]
    if low is not None and (low < first or high > last):
        name = "TIMESTAMP WITH TIME ZONE" if kind is Kind.TIMESTAMP_TZ else kind.name
        raise DataError(
            f"a {name} outside the years 1 to 9999 can't be converted to VARCHAR",
            hint=OUTSIDE_YEARS,
        )


def _instant(datum: Datum, context: EvaluationContext) -> Datum:
    wall = local(datum, context.zone)
    _check_years(pc.cast(wall, pa.int64()), Kind.TIMESTAMP_TZ)
    text = _without_empty_fraction(pc.cast(wall, pa.string()))
    if context.zone == "UTC":
        return pc.binary_join_element_wise(text, _UTC_OFFSET, _EMPTY)
    seconds = pc.subtract(pc.cast(wall, pa.int64()), pc.cast(datum, pa.int64()))
    return pc.binary_join_element_wise(text, over_first(intervals.offset_text)(seconds), _EMPTY)


_UTC_OFFSET = pack_scalar("+00", VARCHAR)


def _interval(datum: Datum, context: EvaluationContext) -> Datum:
    return over_first(intervals.format_durations)(datum)


def _months(datum: Datum, context: EvaluationContext) -> Datum:
    return over_first(intervals.format_months)(datum)


def _mixed(datum: Datum, context: EvaluationContext) -> Datum:
    # Loaded on first use: few statements have intervals of months and days.
    from runnel.expressions.time.mixed_intervals import format_intervals

    return over_first(format_intervals)(datum)


def _same(datum: Datum, context: EvaluationContext) -> Datum:
    return datum


_CONVERSIONS: dict[Kind, Conversion] = {
    Kind.VARCHAR: _same,
    Kind.JSON: _same,
    Kind.UUID: _same,
    Kind.REAL: _float,
    Kind.DOUBLE: _float,
    Kind.DECIMAL: _decimal,
    Kind.TIME: _time,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_TZ: _instant,
    Kind.INTERVAL: _interval,
    Kind.INTERVAL_MONTH: _months,
    Kind.INTERVAL_MIXED: _mixed,
}
