"""RANGE(start, stop, step) over dates and times, as in DuckDB: an array of timestamps without the
stop. GENERATE_SERIES includes the stop.

Over instants, a step of months or whole days is added on the local clock of the session's zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, from_numbers, numbers
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel, over_arrays
from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.nested.lists import MOST_ITEMS, all_valid, list_function, made
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.time.calendar_steps import instants_of, steps_by_calendar, wall_times
from runnel.sqltypes import (
    INTERVAL,
    INTERVAL_MONTH,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Kind,
    array,
    to_arrow,
)

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.NULL, Kind.VARCHAR)


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    name = {"time_range": "RANGE", "time_series": "GENERATE_SERIES"}[name]
    check_count(name, arguments, 3, position)
    *bounds, step = arguments
    kind = TIMESTAMP_TZ if any(item.type == TIMESTAMP_TZ for item in bounds) else TIMESTAMP
    for item in bounds:
        if item.type.kind not in _TIMES:
            raise ProgrammingError(
                f"{name} over times needs dates or timestamps, not {item.type}",
                hint="write CAST(x AS TIMESTAMP)",
                position=item.position or position,
            )
    if step.type.kind in (Kind.VARCHAR, Kind.NULL):
        step = convert(step, INTERVAL)
    if step.type not in (INTERVAL, INTERVAL_MONTH):
        raise ProgrammingError(
            f"{name} over times needs an interval of days and less, or of months, as its step",
            hint=f"write {name}(start, stop, INTERVAL '1' HOUR)",
            position=step.position or position,
        )
    return (*(convert(item, kind) for item in bounds), step), array(kind)


def _compile(call: Call) -> Kernel:
    in_months = call.arguments[2].type == INTERVAL_MONTH
    arrow, inclusive = to_arrow(call.arguments[0].type), call.function == "time_series"

    def made_of(zone: str, columns: tuple[pa.Array, ...]) -> pa.Array:
        mask = all_valid(*columns)
        start, stop = (numbers(column, np.int64) for column in columns[:2])
        step = numbers(columns[2], np.int32 if in_months else np.int64).astype(np.int64)
        if mask is not None:
            start, stop, step = (
                np.where(mask, values, default)
                for values, default in ((start, 0), (stop, 0), (step, 1))
            )
        if (step == 0).any():
            raise DataError("the step of a range must not be 0")
        by_calendar = steps_by_calendar(step, in_months, call.arguments[0].type, zone)
        start, stop = (wall_times(values, by_calendar, zone) for values in (start, stop))
        if inclusive:
            stop = stop + np.sign(step)
        items, lengths = (_by_months if in_months else _by_micros)(start, stop, step)
        if by_calendar is not None:
            items = instants_of(items, np.repeat(by_calendar, lengths), zone)
        return made(from_numbers(items, arrow), lengths, pa.list_(arrow), mask)

    def run(frame: EvaluationInput, *columns: Datum) -> Datum:
        zone = frame.context.zone
        return over_arrays(lambda *arrays: made_of(zone, arrays))(*columns)

    return run


def _by_micros(start: Numbers, stop: Numbers, step: Numbers) -> tuple[Numbers, Numbers]:
    lengths = np.maximum(-(-(stop - start) * np.sign(step) // np.abs(step)), 0)
    _check(lengths)
    return np.repeat(start, lengths) + _positions(lengths) * np.repeat(step, lengths), lengths


# For start 2026-01-31, stop 2026-03-31 and a step of one month; each item is the one before it plus
# the step, as in GENERATE_SERIES:
#     months    [672, 673, 674]           since 1970, the last one with the month of the stop
#     day       [30, 27, 27]              the day of the start, or of the shortest month so far
#     items     [01-31, 02-28, 03-28]
#     is_inside [True, True, True]
def _by_months(start: Numbers, stop: Numbers, step: Numbers) -> tuple[Numbers, Numbers]:
    first_month, last_month = _months(start), _months(stop)
    lengths = np.maximum((last_month - first_month) // step + 1, 0)
    _check(lengths)
    row = np.repeat(np.arange(len(start)), lengths)
    months = first_month[row] + _positions(lengths) * step[row]
    first_day = _first_days(months)
    last = _first_days(months + 1) - first_day - 1
    # Below the values of all earlier rows, so that the minimum begins again with each row.
    below = row * 64
    day = np.minimum((start // DAY_US - _first_days(first_month))[row], last) - below
    day = np.minimum.accumulate(day) + below
    items = (first_day + day) * DAY_US + (start % DAY_US)[row]
    is_inside = np.where(step[row] > 0, items < stop[row], items > stop[row])
    return items[is_inside], np.bincount(row[is_inside], minlength=len(start))


def _positions(lengths: Numbers) -> Numbers:
    """0, 1, 2, … within each list."""
    positions: Numbers = np.arange(int(lengths.sum())) - np.repeat(
        np.cumsum(lengths) - lengths, lengths
    )
    return positions


def _check(lengths: Numbers) -> None:
    if lengths.astype(float).sum() > MOST_ITEMS:
        raise DataError("a range is too long", hint=f"the maximum is {MOST_ITEMS} elements")


def _months(micros: Numbers) -> Numbers:
    """Months since 1970."""
    months: Numbers = micros.view("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return months


def _first_days(months: Numbers) -> Numbers:
    """Days since 1970 of the first day of each month."""
    days: Numbers = months.view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _function(name: str) -> Function:
    made = list_function(
        name,
        "start TIMESTAMP, stop TIMESTAMP, step INTERVAL",
        "TIMESTAMP[]",
        _bind,
        _compile,
        names=(),
        can_fail=True,
    )
    return replace(
        made,
        needs_frame=True,
        depends_on_session=lambda call: call.arguments[0].type == TIMESTAMP_TZ,
    )


FUNCTIONS = (_function("time_range"), _function("time_series"))
