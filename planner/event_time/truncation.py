"""Truncated times on streams: by how much a truncated time can be smaller than the time.

The start of a time's day is less than a day before the time. So if no later row has a time before
the watermark, none has a day before the watermark's day, and a group of rows by day is complete
when the day has ended. Months have no fixed length: the longest or the shortest length is used,
whichever is safe.
"""

from __future__ import annotations

from datetime import timedelta

from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.kernels.python_values import Interval
from runnel.expressions.nodes import Call, Cast, Expression, Literal
from runnel.sqltypes import Kind

_HOUR = DAY_US // 24
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": _HOUR // 60,
    "hour": _HOUR,
    "day": DAY_US,
    "week": 7 * DAY_US,
    "month": 31 * DAY_US,
    "quarter": 92 * DAY_US,
    "year": 366 * DAY_US,
    "decade": 3_653 * DAY_US,
    "century": 36_525 * DAY_US,
    "millennium": 365_250 * DAY_US,
}
"""The maximum length of each unit of DATE_TRUNC in microseconds."""

_MOST_OF_MONTH, _LEAST_OF_MONTH = 31 * DAY_US, 28 * DAY_US


def truncated(expression: Expression) -> tuple[Expression, int] | None:
    """The operand of a monotone expression, and the smallest difference expression − operand in
    event time, which is negative for truncation; None for any other expression.

    For example, DATE_TRUNC('hour', ts) is (ts, 1 − 1 hour in µs).
    """
    if isinstance(expression, Cast):
        is_day = (
            expression.operand.type.kind is Kind.TIMESTAMP and expression.type.kind is Kind.DATE
        )
        return (expression.operand, 1 - DAY_US) if is_day else None
    if not isinstance(expression, Call):
        return None
    rule = _RULES.get(expression.function)
    return None if rule is None else rule(expression)


def _date_trunc(call: Call) -> tuple[Expression, int] | None:
    unit, time = call.arguments[:2]
    if (
        len(call.arguments) > 2
        or call.type.kind is not Kind.TIMESTAMP
        or not isinstance(unit, Literal)
    ):
        return None
    length = _UNITS.get(str(unit.value).lower().removesuffix("s"))
    return None if length is None else (time, 1 - length)


def _date_bin(call: Call) -> tuple[Expression, int] | None:
    stride, time, *origin = call.arguments
    if (
        not isinstance(stride, Literal)
        or stride.type.kind is not Kind.INTERVAL
        or stride.value is None
    ):
        return None
    if call.type.kind is not Kind.TIMESTAMP or any(
        not isinstance(item, Literal) or item.value is None for item in origin
    ):
        return None
    return time, 1 - stride.value // timedelta(microseconds=1)


def _multiply(call: Call) -> tuple[Expression, int] | None:
    """Handles x / n * n of integers."""
    quotient, number = call.arguments
    if isinstance(quotient, Literal):
        quotient, number = number, quotient
    while (
        isinstance(quotient, Cast) and quotient.type.is_integer and quotient.operand.type.is_integer
    ):
        quotient = quotient.operand
    if (
        not isinstance(quotient, Call)
        or quotient.function != "divide"
        or not quotient.type.is_integer
    ):
        return None
    value, by = quotient.arguments
    size = _positive(number)
    return (value, 1 - size) if size is not None and size == _positive(by) else None


def _subtract(call: Call) -> tuple[Expression, int] | None:
    """Handles x - x % n of integers, and a time minus months."""
    value, rest = call.arguments
    if rest.type.kind is Kind.INTERVAL_MONTH:
        return _months(value, rest, -1)
    value, rest = _uncast(value), _uncast(rest)
    if not isinstance(rest, Call) or rest.function != "remainder" or not rest.type.is_integer:
        return None
    whole, by = rest.arguments
    size = _positive(by)
    return (value, 1 - size) if size is not None and _uncast(whole) == value else None


def _add(call: Call) -> tuple[Expression, int] | None:
    value, months = call.arguments
    if isinstance(value, Literal):
        value, months = months, value
    return _months(value, months, 1)


def _months(value: Expression, months: Expression, sign: int) -> tuple[Expression, int] | None:
    if (
        not isinstance(months, Literal)
        or months.type.kind is not Kind.INTERVAL_MONTH
        or months.value is None
    ):
        return None
    if value.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return None
    count = sign * months.value
    return value, count * (_LEAST_OF_MONTH if count > 0 else _MOST_OF_MONTH)


def _calendar(call: Call) -> tuple[Expression, int] | None:
    """Handles an instant plus or minus days, on the local clock of a zone."""
    moved = moved_by_calendar(call)
    return None if moved is None else (call.arguments[0], moved - CLOCK_CHANGE)


def moved_by_calendar(call: Call) -> int | None:
    """The µs that an interval of days moves an instant by if the clock of the zone does not change;
    None if the interval is not constant or has months."""
    span = call.arguments[1]
    if not isinstance(span, Literal) or span.value is None:
        return None
    if isinstance(span.value, Interval) and span.value.months:
        return None
    value = span.value
    if isinstance(value, Interval):
        value = timedelta(days=value.days, microseconds=value.microseconds)
    moved: int = value // timedelta(microseconds=1)
    return moved if call.function == CALENDAR_SUMS[0] else -moved


CALENDAR_SUMS = ("calendar_sum", "calendar_difference")
CLOCK_CHANGE = DAY_US
"""The longest time by which the clock of a zone was set forward or back, in µs."""


def _positive(number: Expression) -> int | None:
    number = _uncast(number)
    if (
        not isinstance(number, Literal)
        or not number.type.is_integer
        or number.value is None
        or number.value <= 0
    ):
        return None
    return int(number.value)


def _uncast(value: Expression) -> Expression:
    """An integer without the casts to wider integers around it."""
    while isinstance(value, Cast) and value.type.is_integer and value.operand.type.is_integer:
        value = value.operand
    return value


_RULES = {
    "date_trunc": _date_trunc,
    "date_bin": _date_bin,
    "multiply": _multiply,
    "subtract": _subtract,
    "add": _add,
    **dict.fromkeys(CALENDAR_SUMS, _calendar),
}
