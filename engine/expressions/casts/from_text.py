"""Casts from text. Spaces around a value are ignored; a text with anything else around the value is
refused.

Arrow reads the usual forms at full speed. Texts that Arrow refuses are brought to its form with
regular expressions, and read again.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.casts.numbers import any_true
from runnel.expressions.casts.temporal import instant
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack, pack_scalar
from runnel.expressions.time import intervals
from runnel.sqltypes import BIGINT, VARCHAR, Kind, SqlType, to_arrow

Conversion = Callable[[Datum, EvaluationContext], Datum]

_TRUE = pack(["true", "t", "yes", "y", "on", "1"], VARCHAR)
_FALSE = pack(["false", "f", "no", "n", "off", "0"], VARCHAR)
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_DATE = r"(?P<year>[0-9]{1,4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_SECONDS = r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})" + _SECONDS
_CLOCK = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})" + _SECONDS + ")?"
_OFFSET = (
    r"(?: "
    r"?(?P<zone>Z|z|(?P<sign>[+-])(?P<zone_hour>0?[0-9]|1[0-5])(?::?(?P<zone_minute>[0-5][0-9]))?))"
    r"?"
)
_MINUTE_US = pack_scalar(60_000_000, BIGINT)
_SIXTY = pack_scalar(60, BIGINT)
_MINUS_ONE = pack_scalar(-1, BIGINT)
_ONE = pack_scalar(1, BIGINT)


def conversion(target: SqlType) -> Conversion:
    """The conversion of VARCHAR to a type that isn't text or nested."""
    special = _SPECIAL.get(target.kind)
    if special is not None:
        return special
    arrow = to_arrow(target)
    if target.is_integer:
        return lambda datum, context: _to_integer(datum, arrow)
    if target.is_approximate:
        return lambda datum, context: _to_float(datum, arrow)
    if target.kind is Kind.DECIMAL:
        from runnel.expressions.casts.decimal_text import text_to_decimal  # few queries need it

        return lambda datum, context: text_to_decimal(pc.utf8_trim_whitespace(datum), arrow)
    return lambda datum, context: pc.cast(datum, arrow)


def _to_integer(datum: Datum, arrow: pa.DataType) -> Datum:
    if any_true(pc.match_substring(datum, "x", ignore_case=True)):
        raise pa.ArrowInvalid("hexadecimal")
    try:
        return pc.cast(datum, arrow)
    except pa.ArrowInvalid:
        trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(datum), r"^\+([0-9])", r"\1")
        return pc.cast(trimmed, arrow)


def _to_float(datum: Datum, arrow: pa.DataType) -> Datum:
    text = pc.utf8_trim_whitespace(datum)
    result = pc.cast(text, arrow)
    infinite = pc.is_inf(result)
    if any_true(pc.and_not(infinite, pc.match_substring_regex(text, _INFINITE))):
        raise pa.ArrowInvalid("out of range")
    return result


def _to_boolean(datum: Datum, context: EvaluationContext) -> Datum:
    word = pc.ascii_lower(pc.utf8_trim_whitespace(datum))
    true = pc.is_in(word, value_set=_TRUE)
    known = pc.or_(true, pc.is_in(word, value_set=_FALSE))
    if any_true(pc.and_not(pc.is_valid(word), known)):
        raise pa.ArrowInvalid("not a boolean")
    return pc.if_else(pc.is_valid(word), true, _NULL_BOOLEAN)


_NULL_BOOLEAN = pa.nulls(1, pa.bool_())[0]


def _groups(text: Datum, pattern: str) -> Callable[[str], Datum]:
    """The named groups of a pattern, which must match every value that isn't NULL."""
    found = pc.extract_regex(text, pattern)
    if any_true(pc.and_(pc.is_null(found), pc.is_valid(text))):
        raise pa.ArrowInvalid("not in the expected form")
    return lambda name: pc.struct_field(found, name)


def _padded(value: Datum, width: int) -> Datum:
    return pc.utf8_lpad(value, width, "0")


def _date_text(group: Callable[[str], Datum]) -> Datum:
    """The date as YYYY-MM-DD."""
    fields = (_padded(group("year"), 4), _padded(group("month"), 2), _padded(group("day"), 2))
    return pc.binary_join_element_wise(*fields, _DASH)


def _time_text(group: Callable[[str], Datum]) -> Datum:
    """The time as HH:MM:SS.ffffff: missing fields are 0, and digits after the sixth of a fraction
    are cut off.
    """
    clock = (_padded(group(name), 2) for name in ("hour", "minute", "second"))
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(group("fraction"), 0, 6), 6, "0")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*clock, _COLON), fraction, _DOT)


_DASH, _COLON, _DOT, _SPACE = (pack_scalar(text, VARCHAR) for text in "-:. ")
_TIMESTAMP_TYPE = pa.timestamp("us")


def _to_date(datum: Datum, context: EvaluationContext) -> Datum:
    try:
        return pc.cast(datum, pa.date32())
    except pa.ArrowInvalid:
        group = _groups(pc.utf8_trim_whitespace(datum), f"^{_DATE}$")
        return pc.cast(_date_text(group), pa.date32())


def _to_time(datum: Datum, context: EvaluationContext) -> Datum:
    group = _groups(pc.utf8_trim_whitespace(datum), f"^{_TIME}$")
    timestamp = pc.binary_join_element_wise(_FIRST_DAY, _time_text(group), _SPACE)
    return pc.cast(pc.cast(timestamp, _TIMESTAMP_TYPE), pa.time64("us"))


_FIRST_DAY = pack_scalar("1970-01-01", VARCHAR)


def _to_timestamp(datum: Datum, context: EvaluationContext) -> Datum:
    """Text as local time. A zone is accepted if it is UTC, since dropping another one would be
    silent."""
    try:
        return pc.cast(datum, _TIMESTAMP_TYPE)
    except pa.ArrowInvalid:
        pattern = f"^{_DATE}(?:[T ]{_CLOCK}(?: ?[Zz]| (?i:UTC))?)?$"
        return _timestamp(_groups(pc.utf8_trim_whitespace(datum), pattern))


def _timestamp(group: Callable[[str], Datum]) -> Datum:
    """The timestamp of the named groups of a date and a time."""
    return pc.cast(
        pc.binary_join_element_wise(_date_text(group), _time_text(group), _SPACE), _TIMESTAMP_TYPE
    )


def _to_instant(datum: Datum, context: EvaluationContext) -> Datum:
    """Text as an instant; without an offset it is local time in the session's zone."""
    try:
        return pc.cast(datum, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(datum)
        if any_true(pc.match_substring_regex(text, _ZONE_NAME)):
            return over_first(lambda texts: _in_named_zones(texts, context))(text)
        group = _groups(text, f"^{_DATE}(?:[T ]{_CLOCK}{_OFFSET})?$")
        timestamp = _timestamp(group)
        minutes = pc.add(
            pc.multiply(_number(group("zone_hour")), _SIXTY), _number(group("zone_minute"))
        )
        sign = pc.if_else(pc.equal(group("sign"), _DASH), _MINUS_ONE, _ONE)
        shift = pc.cast(pc.multiply(pc.multiply(minutes, sign), _MINUTE_US), pa.duration("us"))
        with_offset = pc.cast(pc.subtract_checked(timestamp, shift), pa.timestamp("us", "UTC"))
        local = pc.equal(group("zone"), _EMPTY)
        return pc.if_else(local, instant(timestamp, context.zone), with_offset)


_EMPTY = pack_scalar("", VARCHAR)
_ZONE_NAME = r"^[0-9].* [A-Za-z][A-Za-z0-9_/+-]+$"
"""A text that ends with the name of a time zone; `Z` alone is an offset."""


# For ['2026-01-05 12:00 Asia/Tokyo', '2026-01-05 12:00+02']:
#     names  ['Asia/Tokyo', '']
#     rows with a name are converted in its zone, rows without a name by their offset
def _in_named_zones(texts: pa.Array, context: EvaluationContext) -> pa.Array:
    """The instants of texts of which some end with the name of a time zone."""
    is_named = pc.fill_null(pc.match_substring_regex(texts, _ZONE_NAME), False)
    names = pc.if_else(is_named, pc.replace_substring_regex(texts, "^.* ", ""), _EMPTY)
    clocks = pc.if_else(is_named, pc.replace_substring_regex(texts, " +[^ ]+$", ""), texts)
    result = pa.nulls(len(texts), pa.timestamp("us", "UTC"))
    for name in pc.unique(names).to_pylist():
        chosen = pc.equal(names, pack_scalar(name, VARCHAR))
        rows = clocks.filter(chosen)
        if name:
            group = _groups(rows, f"^{_DATE}[T ]{_CLOCK}$")
            found = instant(_timestamp(group), "UTC" if name.upper() == "UTC" else name)
        else:
            found = _to_instant(rows, context)
        result = pc.replace_with_mask(result, chosen, found)
    return result


def _number(digits: Datum) -> Datum:
    return pc.cast(_padded(digits, 1), pa.int64())


def _to_interval(datum: Datum, context: EvaluationContext) -> Datum:
    return over_first(intervals.parse_durations)(datum)


def _to_months(datum: Datum, context: EvaluationContext) -> Datum:
    return over_first(intervals.parse_months)(datum)


def _to_mixed(datum: Datum, context: EvaluationContext) -> Datum:
    # Loaded on first use: few statements have intervals of months and days.
    from runnel.expressions.time.mixed_intervals import parse_intervals

    return over_first(parse_intervals)(datum)


def _to_uuid(datum: Datum, context: EvaluationContext) -> Datum:
    from runnel.expressions.text import uuids

    return uuids.parse(datum)


def _to_json(datum: Datum, context: EvaluationContext) -> Datum:
    """The text unchanged, if it is JSON."""
    from runnel.expressions.json import text as json_text

    return over_first(json_text.checked)(datum)


_SPECIAL: dict[Kind, Conversion] = {
    Kind.BOOLEAN: _to_boolean,
    Kind.DATE: _to_date,
    Kind.TIME: _to_time,
    Kind.TIMESTAMP: _to_timestamp,
    Kind.TIMESTAMP_TZ: _to_instant,
    Kind.INTERVAL: _to_interval,
    Kind.INTERVAL_MONTH: _to_months,
    Kind.INTERVAL_MIXED: _to_mixed,
    Kind.UUID: _to_uuid,
    Kind.JSON: _to_json,
}
