"""Functions of INTERVAL: the length and the form by which it is compared, its fields, and
JUSTIFY_DAYS, JUSTIFY_HOURS and JUSTIFY_INTERVAL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, numbers, validity
from runnel.expressions.function import Datum, Function, over_arrays
from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.signature import signature
from runnel.expressions.time.mixed_intervals import (
    MONTH_DAYS,
    cleared_parts,
    interval_array,
    length,
    quotient,
    summed,
)
from runnel.sqltypes import BIGINT, INTERVAL, INTERVAL_MIXED, SqlType

_FORM = 2**32


# For 1 month 2 days 03:00:00:
#     length  2_775_600_000_000   µs of 32 days and 3 hours
#     form    4_294_967_298       1 month · 2^32 + 2 days
# With both, `_from_length` returns the interval again: the µs are the rest of the length.
def _form(array: pa.Array) -> pa.Array:
    """The months and days as one number."""
    (months, days, _), valid = cleared_parts(array)
    return from_numbers(months * _FORM + days, pa.int64(), valid)


def _from_length(lengths: pa.Array, forms: pa.Array) -> pa.Array:
    """The interval with a length and a form."""
    valid = validity(lengths)
    length, form = (numbers(item, np.int64) for item in (lengths, forms))
    if valid is not None:
        length, form = length * valid, form * valid
    days = (form + _FORM // 2) % _FORM - _FORM // 2
    months = (form - days) // _FORM
    return interval_array(months, days, length - (months * MONTH_DAYS + days) * DAY_US, valid)


def _from_parts(months: pa.Array, days: pa.Array, micros: pa.Array) -> pa.Array:
    """The interval of a number of months, of days and of µs."""
    valid = validity(months)
    count = numbers(months, np.int64), numbers(days, np.int64), numbers(micros, np.int64)
    if valid is not None:
        count = count[0] * valid, count[1] * valid, count[2] * valid
    return interval_array(count[0], count[1], count[2], valid)


def _part(index: int) -> Callable[[pa.Array], pa.Array]:
    def kernel(array: pa.Array) -> pa.Array:
        parts, valid = cleared_parts(array)
        return from_numbers(parts[index], pa.int64(), valid)

    return kernel


def _justified(array: pa.Array, days_to_months: bool, hours_to_days: bool) -> pa.Array:
    """With 24 hours as a day, and 30 days as a month, and one sign for all where both apply."""
    (months, days, micros), valid = cleared_parts(array)
    if hours_to_days and days_to_months:
        total = summed(months * MONTH_DAYS + days, micros)
        days = quotient(total, DAY_US)
        months, micros = quotient(days, MONTH_DAYS), total - days * DAY_US
        return interval_array(months, days - months * MONTH_DAYS, micros, valid)
    if hours_to_days:
        carried = quotient(micros, DAY_US)
        days, micros = days + carried, micros - carried * DAY_US
        wrong = np.sign(days) * np.sign(micros) < 0
        step = np.where(wrong, np.sign(days), 0)
        return interval_array(months, days - step, micros + step * DAY_US, valid)
    carried = quotient(days, MONTH_DAYS)
    months, days = months + carried, days - carried * MONTH_DAYS
    step = np.where(np.sign(months) * np.sign(days) < 0, np.sign(months), 0)
    return interval_array(months - step, days + step * MONTH_DAYS, micros, valid)


def _internal(
    name: str, kinds: tuple[SqlType, ...], result: SqlType, kernel: Callable[..., Datum]
) -> Function:
    return Function(
        name=name,
        arguments=", ".join(map(str, kinds)),
        result=str(result),
        bind=signature(*kinds, result=result),
        compile=lambda call: over_arrays(kernel),
        can_fail=lambda call: True,
        family="date-time",
    )


def _justify(name: str, days_to_months: bool, hours_to_days: bool) -> Function:
    def kernel(array: pa.Array) -> pa.Array:
        return _justified(array, days_to_months, hours_to_days)

    return replace(
        _internal(name, (INTERVAL_MIXED,), INTERVAL_MIXED, kernel), sql_names=(name.upper(),)
    )


FUNCTIONS = (
    _internal("interval_length", (INTERVAL_MIXED,), BIGINT, length),
    _internal("interval_form", (INTERVAL_MIXED,), BIGINT, _form),
    _internal("interval_from_length", (BIGINT, BIGINT), INTERVAL_MIXED, _from_length),
    _internal("interval_from_parts", (BIGINT, BIGINT, BIGINT), INTERVAL_MIXED, _from_parts),
    _internal("duration_micros", (INTERVAL,), BIGINT, lambda array: pc.cast(array, pa.int64())),
    _internal("interval_months", (INTERVAL_MIXED,), BIGINT, _part(0)),
    _internal("interval_days", (INTERVAL_MIXED,), BIGINT, _part(1)),
    _internal("interval_micros", (INTERVAL_MIXED,), BIGINT, _part(2)),
    _justify("justify_days", True, False),
    _justify("justify_hours", False, True),
    _justify("justify_interval", True, True),
)
