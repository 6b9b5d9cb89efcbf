"""Sums of an instant and an INTERVAL, on the local clock of the session's zone.

Months and days move the local time, and the time of the day stays; hours and less are added to the
instant. A planner uses these functions where the clock of a zone may change; in UTC they are equal
to "add" and "subtract", which other engines run as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, from_numbers, numbers, validity
from runnel.errors import DataError, Position
from runnel.expressions.casts.temporal import instant, local
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import (
    Bound,
    Datum,
    Function,
    Kernel,
    always_may_fail,
    over_arrays,
)
from runnel.expressions.kernels.buffers import DAY_US, FIRST_US, LAST_US
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.time.arithmetic import add_months
from runnel.expressions.time.mixed_intervals import cleared_parts
from runnel.sqltypes import INTERVAL_MIXED, TIMESTAMP, TIMESTAMP_TZ

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 2, position)
    time, span = arguments
    return (convert(time, TIMESTAMP_TZ), convert(span, INTERVAL_MIXED)), TIMESTAMP_TZ


def _moved(sign: int, zone: str, times: pa.Array, spans: pa.Array) -> pa.Array:
    (months, days, micros), valid = cleared_parts(spans)
    known = validity(times)
    valid = known if valid is None else valid if known is None else valid & known
    start = numbers(times, np.int64)
    if valid is not None:
        start = np.where(valid, start, 0)
    moved = np.flatnonzero((months != 0) | (days != 0))
    if len(moved):
        start = start.copy()
        start[moved] = _by_calendar(start[moved], sign * months[moved], sign * days[moved], zone)
    found = start + sign * micros
    if ((found < FIRST_US) | (found > LAST_US)).any():
        raise DataError("out of range")
    return from_numbers(found, _INSTANT, valid)


# For 2024-03-09 07:30 UTC plus 1 day in America/New_York, where the clock skips 02:00 to 03:00 on
# March 10th:
#     wall     2024-03-09 02:30
#     target   2024-03-10 02:30, which the clock skips
#     shifted  2024-03-10 07:30 UTC, 24 hours later: the local time there is 03:30, not the target
#     result   2024-03-10 07:30 UTC: the target, by the offset before the gap
# A target that occurs twice is the instant with the offset of the start, if that is one of both.
def _by_calendar(start: Numbers, months: Numbers, days: Numbers, zone: str) -> Numbers:
    """Instants, in µs, whose local time is a number of months and then of days later."""
    wall = local(from_numbers(start, _INSTANT), zone)
    later = add_months(TIMESTAMP, 1)(wall, from_numbers(months.astype(np.int32), pa.int32()))
    target = numbers(later, np.int64) + days * DAY_US
    if ((target < FIRST_US) | (target > LAST_US)).any():
        raise DataError("out of range")
    shifted: Numbers = start + (target - numbers(wall, np.int64))
    same = numbers(local(from_numbers(shifted, _INSTANT), zone), np.int64) == target
    if same.all():
        return shifted
    found = instant(from_numbers(target, _LOCAL), zone)
    chosen: Numbers = np.where(same, shifted, numbers(found, np.int64))
    return chosen


def _compile(sign: int) -> Callable[[Call], Kernel]:
    def compile_call(call: Call) -> Kernel:
        def run(frame: EvaluationInput, time: Datum, span: Datum) -> Datum:
            zone = frame.context.zone
            return over_arrays(lambda times, spans: _moved(sign, zone, times, spans))(time, span)

        return run

    return compile_call


def _function(name: str, sign: int) -> Function:
    return Function(
        name=name,
        arguments="x TIMESTAMP WITH TIME ZONE, y INTERVAL",
        result="TIMESTAMP WITH TIME ZONE",
        bind=_bind,
        compile=_compile(sign),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=lambda call: True,
        family="date-time",
    )


FUNCTIONS = (_function("calendar_sum", 1), _function("calendar_difference", -1))
