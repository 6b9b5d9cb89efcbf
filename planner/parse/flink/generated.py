"""The columns of the time, as Flink computes them for each row.

    CREATE TABLE orders (id BIGINT, ts AS LOCALTIMESTAMP, p AS PROCTIME()) WITH (…)

A generated row of connector 'datagen' has a time of its own, the time at which it is due, so these
columns are generated: they are declared with their type. Of other connectors, PROCTIME() is the
time at which a row is read, and the other expressions are the time of the statement.
"""

from __future__ import annotations

import re

from sqlglot import exp

from runnel.planner.parse.syntax import ComputedClause, MappingColumn, MappingWatermark, Name
from runnel.sqltypes import TIMESTAMP, TIMESTAMP_TZ, Kind

PROCTIME = "PROCTIME"
_TIMES = {
    "LOCALTIMESTAMP": TIMESTAMP,
    "CURRENT_TIMESTAMP": TIMESTAMP_TZ,
    "CURRENT_ROW_TIMESTAMP": TIMESTAMP_TZ,
    "NOW": TIMESTAMP_TZ,
    PROCTIME: TIMESTAMP_TZ,
}
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*\d?\s*\))?\s*")


def time_function(item: ComputedClause) -> str:
    """The name of the function of a computed column that is the time alone; "" for another."""
    found = _CALL.fullmatch(item.text)
    name = "" if found is None else found.group(1).upper()
    return name if name in _TIMES else ""


def with_row_times(
    columns: tuple[MappingColumn, ...], computed: tuple[ComputedClause, ...]
) -> tuple[tuple[MappingColumn, ...], tuple[ComputedClause, ...]]:
    """Declares the columns that are the time alone, in their positions."""
    by_index = {item.index: item for item in computed}
    declared = iter(columns)
    physical, others = [], []
    for index in range(len(columns) + len(computed)):
        item = by_index.get(index)
        if item is None:
            physical.append(next(declared))
        elif time_function(item):
            physical.append(MappingColumn(item.name, _TIMES[time_function(item)]))
        else:
            others.append(item)
    return tuple(physical), tuple(others)


def processing_watermark(
    computed: tuple[ComputedClause, ...], delay: str = ""
) -> MappingWatermark | None:
    """WATERMARK FOR the first column of the processing time, whose rows are in order; `delay`: for
    how many seconds rows that are read at the same time may still come from another reader."""
    for item in computed:
        if time_function(item) == PROCTIME:
            value: exp.Expression = exp.Column(
                this=exp.Identifier(this=item.name.text, quoted=True)
            )
            if delay:
                length = exp.Interval(this=exp.Literal.string(delay), unit=exp.Var(this="SECOND"))
                value = exp.Sub(this=value, expression=length)
            return MappingWatermark(Name(item.name.text, item.name.position), value)
    return None


RAW_FORMATS = {
    Kind.VARCHAR: "varchar",
    Kind.VARBINARY: "varbinary",
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "tinyint",
    Kind.SMALLINT: "smallint",
    Kind.INTEGER: "integer",
    Kind.BIGINT: "bigint",
    Kind.REAL: "real",
    Kind.DOUBLE: "double",
}
"""The format of a single value, by its type."""
_UNITS = {"ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "h": 3_600_000, "m": 60_000}


def milliseconds(value: str, least: int = 1) -> int | None:
    """The milliseconds of a value of Flink's type Duration, such as 10 s; None for other texts, and
    below `least`."""
    text = value.replace(" ", "").lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    factor = _UNITS.get(text[len(digits) :] or "ms")
    if not digits.isascii() or not digits.isdecimal() or factor is None or int(digits) < least:
        return None
    return int(digits) * factor
