"""TO_CHAR, and its way back: TO_DATE, TO_TIMESTAMP and TO_NUMBER by a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions import char_moments, char_numbers
from runnel.expressions.buffers import FALSE, pack_scalar
from runnel.expressions.cast_temporal import instant, local
from runnel.expressions.char_patterns import DAYS, MONTHS, Piece, pieces_of
from runnel.expressions.coercion import convert
from runnel.expressions.context import Frame
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, spread
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.per_value import kernel_of, per_value
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMP_TZ, VARCHAR, Kind, decimal

_INT64 = pa.int64()


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if len(arguments) not in (2, 3):
        raise ProgrammingError(f"TO_CHAR takes 2 to 3 arguments, not {len(arguments)}", position=position)
    value, pattern, *locale = arguments
    if value.type.kind in (Kind.DATE, Kind.NULL):
        value = convert(value, TIMESTAMP)
    if not (value.type.is_numeric or value.type.is_temporal or value.type.is_interval):
        raise ProgrammingError(
            f"argument 1 of TO_CHAR must be a number, a date, a time or an INTERVAL, not {value.type}",
            hint="add an explicit CAST",
            position=value.position or position,
        )
    for item in (pattern, *locale):
        if item.type.kind not in (Kind.VARCHAR, Kind.NULL):
            raise ProgrammingError(
                f"the pattern of TO_CHAR must be VARCHAR, not {item.type}", position=item.position or position
            )
    return (value, *(convert(item, VARCHAR) for item in (pattern, *locale))), VARCHAR


def _compile(call: Call) -> Kernel:
    given = call.arguments[0].type
    if given.is_numeric:
        numbers = kernel_of(char_numbers.text_of, [given, VARCHAR], VARCHAR)
        return lambda frame, value, pattern, *locale: numbers(value, pattern)

    def run(frame: Frame, value: Datum, pattern: Datum, *locale: Datum) -> Datum:
        if isinstance(pattern, pa.Scalar):
            if isinstance(value, pa.Scalar):
                return _moments(frame, pa.repeat(value, 1), pattern, given.kind)[0]
            return _moments(frame, value, pattern, given.kind)
        values = spread(value, len(pattern))
        answer: pa.Array = pa.nulls(len(pattern), pa.string())
        for distinct in pattern.unique().drop_null():
            chosen = pc.coalesce(pc.equal(pattern, distinct), FALSE)
            answer = pc.if_else(chosen, _moments(frame, values, distinct, given.kind), answer)
        return answer

    return run


def _moments(frame: Frame, values: pa.Array, pattern: pa.Scalar, kind: Kind) -> pa.Array:
    if not pattern.is_valid:
        return pa.nulls(len(values), pa.string())
    if kind is Kind.TIMESTAMP_TZ:
        zone = frame.context.zone
        wall = local(values, zone)
        offset = pc.subtract(pc.cast(wall, _INT64), pc.cast(values, _INT64))
        return char_moments.text_of(char_moments.Moments(wall, kind, offset, zone), pattern.as_py())
    return char_moments.text_of(char_moments.Moments(values, kind), pattern.as_py())


_DIGITS = {"YYYY": 4, "IYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MS": 3, "US": 6, "DDD": 3, "J": 7, "SSSS": 5, "SSSSS": 5}
_DIGITS |= {f"FF{count}": count for count in range(1, 7)}
_NAMES: dict[str, tuple[str, ...]] = {
    "MONTH": MONTHS,
    "MON": tuple(name[:3] for name in MONTHS),
    "DAY": DAYS,
    "DY": tuple(name[:3] for name in DAYS),
    **dict.fromkeys(("AM", "PM"), ("AM", "PM")),
    **dict.fromkeys(("A.M.", "P.M."), ("A.M.", "P.M.")),
    **dict.fromkeys(("AD", "BC"), ("AD",)),
}
_READABLE = (
    frozenset(_NAMES) | frozenset(_DIGITS) | {"MM", "DD", "HH", "HH12", "HH24", "MI", "SS", "D", "ID", "Q", "TZH", "TZM", "OF"}
)


@lru_cache(maxsize=256)
def _regex_of(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The regular expression of a pattern, and the fields of its groups."""
    parts, fields = [r"\s*"], []
    pieces = pieces_of(pattern)
    for place, piece in enumerate(pieces):
        if not piece.field:
            parts.append(_plain(piece.text))
            continue
        if piece.field not in _READABLE:
            raise DataError(f"{piece.field} can't be read from a text")
        following = pieces[place + 1] if place + 1 < len(pieces) else None
        parts.append(_group(piece, following))
        fields.append(piece.field)
    return re.compile("".join(parts) + r"\s*\Z", re.IGNORECASE), tuple(fields)


def _plain(text: str) -> str:
    """Separators match any run of them, as in PostgreSQL."""
    if text.isspace():
        return r"\s*"
    return re.escape(text) if text.isalnum() else r"\s*[^\w\s+-]?\s*" if text not in "+-" else r"\s*[^\w\s]?\s*"


def _group(piece: Piece, following: Piece | None) -> str:
    names = _NAMES.get(piece.field)
    if names is not None:
        return "(" + "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) + r")\s*"
    if piece.field == "TZH":
        return r"([+-]?\d{1,2})"
    if piece.field == "OF":
        return r"([+-]\d{1,2}(?::?\d{2})?)"
    width = _DIGITS.get(piece.field, 2)
    is_open = following is None or not following.field
    most = 9 if is_open and piece.field in ("YYYY", "J") else width
    return rf"(\d{{1,{most}}}){'(?:st|nd|rd|th)' if piece.ending else ''}"


def _read(text: str, pattern: str) -> tuple[datetime, int | None]:
    """The moment that a text shows, and its offset from UTC in seconds if it has one."""
    regex, fields = _regex_of(pattern)
    match = regex.match(text)
    if match is None:
        raise DataError(f"the text '{text[:60]}' doesn't fit the pattern '{pattern}'")
    found = {field: value for field, value in zip(fields, match.groups(), strict=True) if value is not None}
    try:
        moment = _date_of(found) + _time_of(found)
    except (ValueError, OverflowError):
        raise DataError(f"the text '{text[:60]}' shows no date or time that there is") from None
    return moment, _offset_of(found)


def _date_of(found: dict[str, str]) -> datetime:
    if "J" in found:
        return datetime.fromordinal(int(found["J"]) - 1_721_425)
    year = 1
    for field in ("YYYY", "IYYY", "YYY", "YY", "Y"):
        if field in found:
            year = _full_year(int(found[field]), field)
    month = int(found.get("MM", 1))
    for field in ("MONTH", "MON"):
        if field in found:
            month = [name[:3].lower() for name in MONTHS].index(found[field][:3].lower()) + 1
    if "DDD" in found:
        day = int(found["DDD"])
        if not 1 <= day <= (366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365):
            raise ValueError
        return datetime(year, 1, 1) + timedelta(days=day - 1)
    return datetime(year, month, int(found.get("DD", 1)))


def _full_year(number: int, field: str) -> int:
    """Years of less than four digits are those nearest to 2020, as in PostgreSQL."""
    if field in ("YYYY", "IYYY"):
        return number
    if field == "YYY":
        return number + (1000 if number >= 520 else 2000)
    if field == "Y":
        return 2000 + number
    return number + (1900 if number >= 70 else 2000)


def _time_of(found: dict[str, str]) -> timedelta:
    if "SSSS" in found or "SSSSS" in found:
        return timedelta(seconds=int(found.get("SSSS") or found["SSSSS"]))
    hour = int(found.get("HH24", 0))
    half = next((found[field][0].lower() for field in ("AM", "PM", "A.M.", "P.M.") if field in found), None)
    for field in ("HH12", "HH"):
        if field in found:
            hour = int(found[field])
            if not 1 <= hour <= 12:
                raise ValueError
            hour = hour % 12 + (12 if half == "p" else 0) if half else hour % 24
    minute, second = int(found.get("MI", 0)), int(found.get("SS", 0))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    micros = 0
    for field in ("MS", "US", *(f"FF{count}" for count in range(1, 7))):
        if field in found:
            micros += int(found[field].ljust({"MS": 3, "US": 6}.get(field) or int(field[2]), "0").ljust(6, "0"))
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _offset_of(found: dict[str, str]) -> int | None:
    if "OF" in found:
        digits = found["OF"].lstrip("+-").replace(":", "").ljust(4, "0") if len(found["OF"]) > 3 else found["OF"][1:] + "00"
        seconds = int(digits[:-2]) * 3600 + int(digits[-2:]) * 60
        return -seconds if found["OF"][0] == "-" else seconds
    if "TZH" not in found:
        return None
    seconds = abs(int(found["TZH"])) * 3600 + int(found.get("TZM", 0)) * 60
    return -seconds if found["TZH"][0] == "-" else seconds


def _to_date(text: str, pattern: str) -> date:
    return _read(text, pattern)[0].date()


def _bind_timestamp(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """TO_TIMESTAMP(text, pattern), or of seconds since the epoch."""
    if len(arguments) == 1:
        return signature(DOUBLE, result=TIMESTAMP_TZ)(name, arguments, position)
    return signature(VARCHAR, VARCHAR, result=TIMESTAMP_TZ)(name, arguments, position)


def _compile_timestamp(call: Call) -> Kernel:
    if len(call.arguments) == 1:
        return lambda frame, seconds: _of_epoch(seconds)
    walls = kernel_of(lambda text, pattern: _shifted(*_read(text, pattern)), [VARCHAR, VARCHAR], TIMESTAMP)
    has_offset = kernel_of(lambda text, pattern: _read(text, pattern)[1] is not None, [VARCHAR, VARCHAR], BOOLEAN)

    def run(frame: Frame, text: Datum, pattern: Datum) -> Datum:
        wall = walls(text, pattern)
        if frame.context.zone == "UTC":
            return instant(wall, "UTC")
        return pc.if_else(has_offset(text, pattern), instant(wall, "UTC"), instant(wall, frame.context.zone))

    return run


def _shifted(moment: datetime, offset: int | None) -> datetime:
    return moment if offset is None else moment - timedelta(seconds=offset)


def _of_epoch(seconds: Datum) -> Datum:
    micros = pc.round(pc.multiply(seconds, pack_scalar(1e6, DOUBLE)), 0, round_mode="half_towards_infinity")
    return pc.cast(pc.cast(micros, _INT64), pa.timestamp("us", "UTC"))


def _to_number(text: str, pattern: str) -> Decimal:
    """The digits, the point and the sign; what else the pattern has is left out."""
    char_numbers.number_pattern(pattern)
    negative = "-" in text or (text.strip().startswith("<") and text.strip().endswith(">"))
    digits = "".join(character for character in text if character.isdigit() or character == ".")
    try:
        number = Decimal(digits)
    except InvalidOperation:
        raise DataError(f"the text '{text[:60]}' is no number") from None
    if "V" in pattern.upper():
        number = number.scaleb(-char_numbers.number_pattern(pattern).shift)
    number = number.quantize(Decimal(1).scaleb(-10))
    if abs(number) >= 10**28:
        raise DataError("overflow")
    return -number if negative else number


def _session(call: Call) -> bool:
    return call.arguments[0].type.kind is Kind.TIMESTAMP_TZ


FUNCTIONS = (
    Function(
        name="to_char",
        arguments="x number, date, time or INTERVAL, pattern VARCHAR [, locale VARCHAR]",
        result="VARCHAR",
        bind=_bind,
        compile=_compile,
        sql_names=("TO_CHAR",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=_session,
        family="date-time",
    ),
    named(
        "to_date",
        "s VARCHAR, pattern VARCHAR",
        "DATE",
        signature(VARCHAR, VARCHAR, result=DATE),
        per_value(_to_date),
        can_fail=always_may_fail,
        family="date-time",
    ),
    Function(
        name="to_timestamp",
        arguments="s VARCHAR, pattern VARCHAR | seconds DOUBLE",
        result="TIMESTAMP WITH TIME ZONE",
        bind=_bind_timestamp,
        compile=_compile_timestamp,
        sql_names=("TO_TIMESTAMP",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=lambda call: len(call.arguments) == 2,
        family="date-time",
    ),
    named(
        "to_number",
        "s VARCHAR, pattern VARCHAR",
        "DECIMAL(38, 10)",
        signature(VARCHAR, VARCHAR, result=decimal()),
        per_value(_to_number),
        can_fail=always_may_fail,
        family="math",
    ),
)
