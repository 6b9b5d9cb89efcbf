"""Series of instants whose step is a number of months or whole days, on the local clock of a zone.

Start and stop are converted to local times, between which the values of the series are computed,
and the values are converted back. A step of hours and less is added to the instants.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Mask, Numbers, from_numbers, numbers
from runnel.expressions.casts.temporal import instant, local
from runnel.expressions.kernels.buffers import DAY_US
from runnel.sqltypes import Kind, SqlType

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def steps_by_calendar(steps: Numbers, in_months: bool, kind: SqlType, zone: str) -> Mask | None:
    """The series that advance on the local clock; None if no series does.

    steps: months or µs.
    kind: the type of the values.
    """
    if kind.kind is not Kind.TIMESTAMP_TZ or zone == "UTC":
        return None
    found: Mask = np.ones(len(steps), np.bool_) if in_months else steps % DAY_US == 0
    return found if found.any() else None


def wall_times(times: Numbers, chosen: Mask | None, zone: str) -> Numbers:
    """Instants, in µs, of which the chosen ones are replaced by their local times."""
    if chosen is None:
        return times
    found = times.copy()
    found[chosen] = numbers(local(from_numbers(times[chosen], _INSTANT), zone), np.int64)
    return found


def instants_of(times: Numbers, chosen: Mask, zone: str) -> Numbers:
    """Times, in µs, of which the chosen ones are local and are replaced by their instants."""
    found = times.copy()
    found[chosen] = numbers(instant(from_numbers(times[chosen], _LOCAL), zone), np.int64)
    return found
