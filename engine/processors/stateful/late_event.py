"""The text of a late event in the log: its columns, shortened, and times in readable form."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from runnel.base.frozen import frozen

VALUE_LENGTH = 40
"""Maximum number of characters of one value."""
EVENT_LENGTH = 200
"""Maximum number of characters of all columns."""


@frozen
class LateEvent:
    """A late event.

    row: a batch whose only row is the event.
    time: its time, in units of event time.
    label: what `time` is: "eventTime", or "due" for the time at which the result of the event was
        complete.
    """

    row: pa.RecordBatch
    time: int
    label: str = "eventTime"


def event_text(row: pa.RecordBatch, zone: str) -> str:
    """The columns of the first row, such as `(k=1, page='a long t…')`."""
    columns: list[str] = []
    length = 0
    for name, column in zip(row.schema.names, row.columns, strict=True):
        if length > EVENT_LENGTH:
            columns.append("…")
            break
        columns.append(f"{name}={_value_text(column[0], zone)}")
        length += len(columns[-1])
    return f"({', '.join(columns)})"


def _value_text(scalar: pa.Scalar, zone: str) -> str:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return "?"  # a time outside the years 1 to 9999
    return _shortened(_plain(value, zone))


def _plain(value: Any, zone: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        value = value[:VALUE_LENGTH]
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return repr(value[: VALUE_LENGTH + 1])
    if isinstance(value, datetime):
        return str(value if value.tzinfo is None else value.astimezone(ZoneInfo(zone)))
    return str(value) if not isinstance(value, date) else value.isoformat()


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"


def time_text(time: int, unit: str, zone: str) -> str:
    """An event time: a timestamp, in the zone of the job if it has one, or a number.

    unit: see `time_unit`.
    """
    if not unit:
        return str(time)
    try:
        found = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)
        return str(
            found.astimezone(ZoneInfo(zone)) if unit == ZONED else found.replace(tzinfo=None)
        )
    except OverflowError:
        return f"{time} µs"


def duration_text(duration: int, unit: str) -> str:
    """A difference of event times, such as `123ms` or `1.5ms`, or a number."""
    if not unit:
        return str(duration)
    whole, rest = divmod(duration, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") + "ms" if rest else f"{whole}ms"


PLAIN, ZONED = "µs", "µs UTC"
"""The units of event times that are no integers: of a TIMESTAMP or DATE, and of a TIMESTAMP WITH
TIME ZONE."""


def time_unit(kind: pa.DataType) -> str:
    """The unit of event times of a type; "" for integers."""
    if pa.types.is_integer(kind):
        return ""
    return ZONED if pa.types.is_timestamp(kind) and kind.tz is not None else PLAIN
