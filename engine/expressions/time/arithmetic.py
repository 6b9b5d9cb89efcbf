"""Arithmetic on dates, times and intervals.

| operation | result |
|---|---|
| DATE ± INTERVAL | TIMESTAMP |
| TIME ± INTERVAL | TIME, around the clock |
| TIMESTAMP ± INTERVAL, any zone | the same type; months keep the day, or take the month's last |
| DATE ± integer | DATE, in days |
| DATE − DATE | INTEGER, in days |
| TIMESTAMP − TIMESTAMP, TIME − TIME | INTERVAL |
| INTERVAL ± INTERVAL | INTERVAL; of days and less, or of months, if both are |
| INTERVAL * number, number * INTERVAL, INTERVAL / number | INTERVAL; a fraction of months is days |

Years outside 1 to 9999 are an overflow.
"""

from __future__ import annotations

from datetime import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.errors import DataError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.coercion import convert
from runnel.expressions.function import Bound, Datum, Kernel, over_arrays
from runnel.expressions.kernels.buffers import DAY_US, FIRST_US, LAST_US, null_scalar, pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.sqltypes import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    INTERVAL_MIXED,
    TIME,
    TIMESTAMP,
    Kind,
    SqlType,
    to_arrow,
)

_INT64 = pa.int64()


def bind(name: str, left: Expression, right: Expression) -> Bound | None:
    """The operands and the result type; None if the operator doesn't accept them."""
    if name in ("add", "subtract"):
        return _bind_sum(name, left, right)
    if name == "multiply" and left.type.is_numeric:
        left, right = right, left
    if name in ("multiply", "divide") and left.type.is_interval and right.type.is_numeric:
        factor = BIGINT if right.type.is_integer and name == "multiply" else DOUBLE
        if left.type.kind is Kind.INTERVAL_MIXED or (
            left.type.kind is Kind.INTERVAL_MONTH and factor == DOUBLE
        ):
            left, factor = convert(left, INTERVAL_MIXED), DOUBLE
        return (left, convert(right, factor)), left.type
    return None


def _bind_sum(name: str, left: Expression, right: Expression) -> Bound | None:
    if left.type.is_interval and right.type == left.type:
        return (left, right), left.type
    if left.type.is_interval and right.type.is_interval:
        return (convert(left, INTERVAL_MIXED), convert(right, INTERVAL_MIXED)), INTERVAL_MIXED
    if name == "add" and (left.type.is_interval or left.type.is_integer):
        left, right = right, left
    first, second = left.type, right.type
    if first.is_temporal and second.is_interval:
        if first.kind is Kind.DATE:
            return (convert(left, TIMESTAMP), right), TIMESTAMP
        return (left, right), first
    if first.kind is Kind.DATE and second.is_integer:
        return (left, convert(right, BIGINT)), DATE
    if name == "add" and {first.kind, second.kind} == {Kind.DATE, Kind.TIME}:
        day, clock = (left, right) if first.kind is Kind.DATE else (right, left)
        return (convert(day, TIMESTAMP), _since_midnight(clock)), TIMESTAMP
    if name == "subtract" and first.is_temporal and second.is_temporal:
        return _bind_difference(left, right)
    return None


def _since_midnight(clock: Expression) -> Expression:
    """The INTERVAL from 00:00 to a TIME."""
    midnight = Literal(value=time(), type=TIME)
    return Call(function="subtract", arguments=(clock, midnight), type=INTERVAL)


def _bind_difference(left: Expression, right: Expression) -> Bound | None:
    if left.type.kind is Kind.DATE and right.type.kind is Kind.DATE:
        return (left, right), INTEGER
    if Kind.TIME in (left.type.kind, right.type.kind):
        return ((left, right), INTERVAL) if left.type == right.type else None
    wider = left.type if left.type.kind.value > right.type.kind.value else right.type
    return (convert(left, wider), convert(right, wider)), INTERVAL


def compile_call(call: Call) -> Kernel:
    """The kernel of a call whose arguments `bind` returned."""
    left, right = (item.type for item in call.arguments)
    if Kind.INTERVAL_MIXED in (left.kind, right.kind):
        return _of_mixed(call, left)
    checked = pc.add_checked if call.function == "add" else pc.subtract_checked
    if call.function in ("multiply", "divide"):
        return _scaled(call.function, left, right)
    if left.is_interval:
        return checked if left.kind is Kind.INTERVAL_MONTH else _through_integers(checked, INTERVAL)
    if right.is_temporal:
        return _difference(left)
    if right.kind is Kind.INTERVAL_MONTH:
        return add_months(left, 1 if call.function == "add" else -1)
    if right.is_integer:
        return _add_days(checked)
    return _around_the_clock(checked) if left.kind is Kind.TIME else _in_range(checked)


def _of_mixed(call: Call, left: SqlType) -> Kernel:
    """An operation on an INTERVAL of months and days. To a time, the months are added first."""
    # Loaded on first use: few statements have such an interval.
    from runnel.expressions.time import mixed_intervals

    divides = call.function == "divide"
    if call.function in ("multiply", "divide"):
        return over_arrays(lambda span, factor: mixed_intervals.scaled(span, factor, divides))
    sign = 1 if call.function == "add" else -1
    if left.is_interval:
        return over_arrays(lambda first, second: mixed_intervals.add(first, second, sign))
    months = add_months(left, sign)
    checked = pc.add_checked if sign == 1 else pc.subtract_checked
    rest = _around_the_clock(checked) if left.kind is Kind.TIME else _in_range(checked)

    def run(time: pa.Array, span: pa.Array) -> pa.Array:
        moved = months(time, mixed_intervals.months_of(span))
        return rest(moved, mixed_intervals.duration_of(span))

    return over_arrays(run)


def _through_integers(operation: Kernel, result: SqlType) -> Kernel:
    arrow = to_arrow(result)

    def run(left: Datum, right: Datum) -> Datum:
        return pc.cast(operation(pc.cast(left, _INT64), pc.cast(right, _INT64)), arrow)

    return run


def _difference(operand: SqlType) -> Kernel:
    if operand.kind is Kind.DATE:
        int32 = pa.int32()
        return lambda left, right: pc.subtract_checked(pc.cast(left, int32), pc.cast(right, int32))
    return _through_integers(pc.subtract_checked, INTERVAL)


def _scaled(name: str, interval: SqlType, factor: SqlType) -> Kernel:
    """INTERVAL * number or INTERVAL / number, rounded half away from zero to whole µs. Months are
    multiplied by whole numbers only."""
    arrow = to_arrow(interval)
    if factor.is_integer:
        integers = pa.int32() if interval.kind is Kind.INTERVAL_MONTH else _INT64
        return lambda left, right: pc.cast(
            pc.cast(pc.multiply_checked(pc.cast(left, _INT64), right), integers), arrow
        )
    operation = pc.multiply if name == "multiply" else pc.divide_checked
    options = pc.CastOptions(target_type=pa.float64(), allow_float_truncate=True)

    def run(left: Datum, right: Datum) -> Datum:
        product = operation(pc.cast(pc.cast(left, _INT64), options=options), right)
        whole = pc.round(product, 0, round_mode="half_towards_infinity")
        return pc.cast(pc.cast(whole, _INT64), arrow)

    return run


def _add_days(operation: Kernel) -> Kernel:
    first, last = (pack_scalar(value // DAY_US, BIGINT) for value in (FIRST_US, LAST_US))

    def run(left: Datum, right: Datum) -> Datum:
        days = operation(pc.cast(pc.cast(left, pa.int32()), _INT64), right)
        _check(days, first, last)
        return pc.cast(pc.cast(days, pa.int32()), pa.date32())

    return run


_FIRST, _LAST = pack_scalar(FIRST_US, BIGINT), pack_scalar(LAST_US, BIGINT)


def _in_range(operation: Kernel) -> Kernel:
    def run(left: Datum, right: Datum) -> Datum:
        result = operation(pc.cast(left, _INT64), pc.cast(right, _INT64))
        _check(result, _FIRST, _LAST)
        return pc.cast(result, left.type)

    return run


def _check(values: Datum, first: Datum, last: Datum) -> None:
    if any_true(pc.or_(pc.less(values, first), pc.greater(values, last))):
        raise DataError("out of range")


def _around_the_clock(operation: Kernel) -> Kernel:
    day = pack_scalar(DAY_US, BIGINT)

    def run(left: Datum, right: Datum) -> Datum:
        # The interval is reduced to less than a day first, so that the sum can't overflow.
        result = operation(pc.cast(left, _INT64), pc.remainder(pc.cast(right, _INT64), day))
        return pc.cast(pc.modulo(result, day), pa.time64("us"))

    return run


# For 2024-01-31 10:00 plus 1 month, in `run`:
#     days    2024-01-31
#     start   2024-01      the month
#     target  649          months since 1970-01: 2024-02
#     first   2024-02-01
#     length  29           days of the target month
#     day     28           min(30, length − 1): the day of the month from 0
#     result  2024-02-29 10:00
# A target below −23628 (0001-01) or from 96360 (10000-01) on is out of range.
def add_months(operand: SqlType, sign: int) -> Kernel:
    """Adds months by numpy's calendar: to the month, and then the day of the month, at most the
    last day.

    A TIME isn't changed by months.
    """
    if operand.kind is Kind.TIME:
        null = null_scalar(operand)
        return lambda left, right: pc.if_else(pc.is_valid(right), left, null)
    arrow = to_arrow(operand)

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        valid = pc.and_(left.is_valid(), right.is_valid())
        micros, months = numbers(left, np.int64), numbers(right, np.int32).astype(np.int64) * sign
        mask = np.asarray(numbers(pc.cast(valid, pa.int8()), np.int8), dtype=bool)
        stamps = np.where(mask, micros, 0).view("datetime64[us]")
        days = stamps.astype("datetime64[D]")
        start = days.astype("datetime64[M]")
        target = start.astype(np.int64) + np.where(mask, months, 0)
        if ((target < -23628) | (target >= 96360)).any():
            raise DataError("out of range")
        first = target.view("datetime64[M]").astype("datetime64[D]")
        length = ((target + 1).view("datetime64[M]").astype("datetime64[D]") - first).astype(
            np.int64
        )
        day = np.minimum((days - start.astype("datetime64[D]")).astype(np.int64), length - 1)
        result = (first.astype(np.int64) + day) * DAY_US + (
            stamps - days.astype("datetime64[us]")
        ).astype(np.int64)
        validity = None if mask.all() else valid.buffers()[1]
        return pa.Array.from_buffers(arrow, len(left), [validity, pa.py_buffer(result)])

    return over_arrays(run)
