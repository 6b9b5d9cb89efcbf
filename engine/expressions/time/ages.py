"""AGE: the years, months, days and time from one date or timestamp to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers, validity
from runnel.errors import Position, ProgrammingError
from runnel.expressions.casts.temporal import local, today
from runnel.expressions.coercion import coerce
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import (
    Bound,
    Datum,
    Function,
    Kernel,
    always_may_fail,
    over_arrays,
)
from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.time.mixed_intervals import interval_array
from runnel.sqltypes import INTERVAL_MIXED, TIMESTAMP, Kind


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """AGE(x, y) is the time from y to x; AGE(x) the time from x to today's midnight."""
    if len(arguments) not in (1, 2):
        raise ProgrammingError(
            f"AGE expects 1 to 2 arguments, not {len(arguments)}", position=position
        )
    instants = coerce([*arguments, Expression(type=TIMESTAMP)], "AGE", position)[:-1]
    if not all(item.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) for item in instants):
        raise ProgrammingError(
            f"AGE needs dates or timestamps, not {arguments[0].type}", position=position
        )
    return tuple(instants), INTERVAL_MIXED


def _compile(call: Call) -> Kernel:
    is_instant = call.arguments[0].type.kind is Kind.TIMESTAMP_TZ

    def run(frame: EvaluationInput, *instants: Datum) -> Datum:
        times = [local(item, frame.context.zone) if is_instant else item for item in instants]
        if len(times) == 1:
            times.insert(0, pc.cast(today(frame.context), pa.timestamp("us")))
        return over_arrays(_age)(*times)

    return run


# For AGE of 2001-04-10 and 1957-06-13:
#     later, earlier  2001-04-10, 1957-06-13; sign 1
#     months          526   from 1957-06 to 2001-04: the difference of the months since 1970
#     days            −3    10 − 13: below 0, so one month less, and the 30 days of June more
#     result          525 months (43 years 9 months) 27 days
def _age(left: pa.Array, right: pa.Array) -> pa.Array:
    """As PostgreSQL: the difference of each field; a negative one borrows from the next larger
    one, a month with the days of the earlier date's month."""
    valid_left, valid_right = validity(left), validity(right)
    valid = (
        valid_right
        if valid_left is None
        else valid_left
        if valid_right is None
        else valid_left & valid_right
    )
    first, second = numbers(left, np.int64), numbers(right, np.int64)
    if valid is not None:
        first, second = np.where(valid, first, 0), np.where(valid, second, 0)
    later, earlier = np.maximum(first, second), np.minimum(first, second)
    sign = np.where(first < second, -1, 1)
    (late_month, late_day, late_time), (month, day, time) = _fields(later), _fields(earlier)
    micros, days, months = late_time - time, late_day - day, late_month - month
    borrowed = micros < 0
    micros, days = micros + borrowed * DAY_US, days - borrowed
    length = (
        (month + 1).view("datetime64[M]").astype("datetime64[D]")
        - month.view("datetime64[M]").astype("datetime64[D]")
    ).astype(np.int64)
    borrowed = days < 0
    days, months = days + borrowed * length, months - borrowed
    return interval_array(sign * months, sign * days, sign * micros, valid)


def _fields(micros: Any) -> tuple[Any, Any, Any]:
    """The months since 1970-01, the days of the month from 0, and the µs of the day."""
    stamps = micros.view("datetime64[us]")
    dates = stamps.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return (
        months.astype(np.int64),
        (dates - months.astype("datetime64[D]")).astype(np.int64),
        (stamps - dates.astype("datetime64[us]")).astype(np.int64),
    )


FUNCTIONS = (
    Function(
        name="age",
        arguments="x TIMESTAMP [, y TIMESTAMP]",
        result="INTERVAL, in years, months, days and time",
        bind=_bind,
        compile=_compile,
        sql_names=("AGE",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=lambda call: True,
        family="date-time",
    ),
)
