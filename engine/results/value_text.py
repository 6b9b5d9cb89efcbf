"""One value as text for people: in a cell of a table, in CSV, in JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

NULL_TEXT = "NULL"


def value_text(value: Any, null: str = NULL_TEXT) -> str:
    """A value as SQL would write it, without quotes around a text."""
    if isinstance(value, str):
        return value
    return null if value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    if isinstance(value, dict):
        pairs = (f"{_nested(key)}: {_nested(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "(" + ", ".join(map(_nested, value)) + ")"
    return str(value)


def _nested(value: Any) -> str:
    """A value within a list, a map or a row: a text has quotes there."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return value_text(value)


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(value: timedelta) -> str:
    """Days and a time of day, such as "-1 day 02:00:00.5": both have their own sign."""
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    minutes, seconds = divmod(value.seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if value.microseconds:
        clock += f".{value.microseconds:06}".rstrip("0")
    if not value.days:
        return sign + clock
    days = f"{sign}{value.days} day{'' if value.days == 1 else 's'}"
    return f"{days} {sign}{clock}" if value.seconds or value.microseconds else days


def json_text(value: Any) -> str:
    """A value as JSON. A number that JSON does not have (NaN, a DECIMAL of many digits) and a value
    of another type than JSON's is a text."""
    if value is None or isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'"{_float_text(value)}"'
    if isinstance(value, Decimal) and len(value.as_tuple().digits) <= 15:
        return format(value, "f")
    if isinstance(value, dict):
        pairs = (f"{json_text(value_text(key))}: {json_text(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value_text(value), ensure_ascii=False)
