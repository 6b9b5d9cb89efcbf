"""Casts among DATE, TIME, TIMESTAMP and TIMESTAMP WITH TIME ZONE. Local time is that in the
session's zone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.sqltypes import BIGINT, Kind, SqlType, to_arrow

Conversion = Callable[[Datum, EvaluationContext], Datum]

_UTC = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")


@lru_cache(maxsize=64)
def zoned(zone: str) -> pa.DataType:
    """The Arrow type of an instant that is shown in `zone`."""
    return pa.timestamp("us", zone)


def local(datum: Datum, zone: str) -> Datum:
    """Instants as local time in `zone`, as a TIMESTAMP."""
    if zone == "UTC":
        return pc.cast(datum, _NAIVE)
    wall = pc.local_timestamp(pc.cast(datum, zoned(zone)))
    if _is_far(datum):
        # Imported on first use, as few rows have such times.
        from runnel.expressions.time.zones_after_2037 import far_local

        return far_local(datum, wall, zone)
    return wall


_TABLES_END = 2_145_830_400_000_000
"""2037-12-31, in µs: Arrow's time zones have no clock changes after it."""


def _is_far(datum: Datum) -> bool:
    """Whether there is a value after the end of Arrow's time zone tables."""
    micros = pc.cast(datum, pa.int64())
    last = (micros if isinstance(micros, pa.Scalar) else pc.max(micros)).as_py()
    return last is not None and last >= _TABLES_END


def instant(datum: Datum, zone: str) -> Datum:
    """Local times in `zone` as instants, as in PostgreSQL.

    A local time in a gap (the clock skips it) is converted with the offset before the gap. Of the
    two instants of an ambiguous local time, the second is used.
    """
    if zone == "UTC":
        return pc.cast(datum, _UTC)
    try:
        result = pc.cast(
            pc.assume_timezone(datum, zone, ambiguous="latest", nonexistent="raise"), _UTC
        )
    except pa.ArrowInvalid:
        result = _across_gaps(datum, zone)
    if _is_far(datum):
        # Imported on first use, as few rows have such times.
        from runnel.expressions.time.zones_after_2037 import far_instant

        return far_instant(datum, result, zone)
    return result


def _across_gaps(datum: Datum, zone: str) -> Datum:
    """The same as `instant` where some local times are in a gap.

    Example: of 02:30 in a gap from 02:00 (offset +01) to 03:00, `earliest` returns the last instant
      before the gap, 00:59:59.999999 UTC. Its offset is +01, so 02:30 becomes the instant 01:30
      UTC.
    """
    before = pc.cast(
        pc.assume_timezone(datum, zone, ambiguous="latest", nonexistent="earliest"), _UTC
    )
    wall = pc.local_timestamp(pc.cast(before, zoned(zone)))
    offset = pc.subtract(pc.cast(wall, pa.int64()), pc.cast(before, pa.int64()))
    return pc.cast(pc.subtract(pc.cast(datum, pa.int64()), offset), _UTC)


def today(context: EvaluationContext) -> Datum:
    """The statement's date in the session's zone."""
    now = pc.cast(pack_scalar(context.now, BIGINT), _UTC)
    return pc.cast(local(now, context.zone), pa.date32())


def _date_to_timestamp(datum: Datum, context: EvaluationContext) -> Datum:
    return pc.cast(datum, _NAIVE)


def _date_to_instant(datum: Datum, context: EvaluationContext) -> Datum:
    return instant(pc.cast(datum, _NAIVE), context.zone)


def _time_to_timestamp(datum: Datum, context: EvaluationContext) -> Datum:
    return pc.add(
        pc.cast(today(context), _NAIVE), pc.cast(pc.cast(datum, pa.int64()), pa.duration("us"))
    )


def _time_to_instant(datum: Datum, context: EvaluationContext) -> Datum:
    return instant(_time_to_timestamp(datum, context), context.zone)


def _timestamp_to_instant(datum: Datum, context: EvaluationContext) -> Datum:
    return instant(datum, context.zone)


def conversion(source: SqlType, target: SqlType) -> Conversion:
    """The conversion between two temporal types that have a cast."""
    found = _CONVERSIONS.get((source.kind, target.kind))
    if found is not None:
        return found
    arrow = to_arrow(target)
    if source.kind is Kind.TIMESTAMP_TZ:
        return lambda datum, context: pc.cast(local(datum, context.zone), arrow)
    # Arrow's cast to a date drops the time of day, and its cast to a time drops the date.
    return lambda datum, context: pc.cast(datum, arrow)


_CONVERSIONS: dict[tuple[Kind, Kind], Conversion] = {
    (Kind.DATE, Kind.TIMESTAMP): _date_to_timestamp,
    (Kind.DATE, Kind.TIMESTAMP_TZ): _date_to_instant,
    (Kind.TIME, Kind.TIMESTAMP): _time_to_timestamp,
    (Kind.TIME, Kind.TIMESTAMP_TZ): _time_to_instant,
    (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ): _timestamp_to_instant,
}
