"""Tables of connector 'datagen': the columns of the time, as Flink computes them for each row.

    CREATE TABLE orders (id BIGINT, ts AS LOCALTIMESTAMP, p AS PROCTIME()) WITH (…)

Elsewhere such an expression is the time of the statement. A generated row has a time of its own,
the time at which it is due, so these columns are generated: they are declared with their type.
"""

from __future__ import annotations

import re

from sqlglot import exp

from runnel.errors import NotSupportedError
from runnel.planner.parse.syntax import ComputedClause, MappingColumn, MappingWatermark, Name
from runnel.sqltypes import TIMESTAMP, TIMESTAMP_TZ

PROCTIME = "PROCTIME"
_TIMES = {
    "LOCALTIMESTAMP": TIMESTAMP,
    "CURRENT_TIMESTAMP": TIMESTAMP_TZ,
    "CURRENT_ROW_TIMESTAMP": TIMESTAMP_TZ,
    "NOW": TIMESTAMP_TZ,
    PROCTIME: TIMESTAMP_TZ,
}
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*\d?\s*\))?\s*")
_REMEDIES = {
    "kafka": "use the time of the message: {0} TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
    "WATERMARK FOR {0} AS {0}",
    "filesystem": "use a time in the rows: {0} TIMESTAMP(3), WATERMARK FOR {0} AS {0}",
}
_REMEDY = (
    "leave the column out: a stream can emit by the clock with EMIT EVERY, and joins a table "
    "as it is, without FOR SYSTEM_TIME AS OF"
)


def time_function(item: ComputedClause) -> str:
    """The name of the function of a computed column that is the time alone; "" for another."""
    found = _CALL.fullmatch(item.text)
    name = "" if found is None else found.group(1).upper()
    return name if name in _TIMES else ""


def refuse_processing_time(computed: tuple[ComputedClause, ...], connector: str) -> None:
    """NotSupportedError for a column `AS PROCTIME()`."""
    for item in computed:
        if time_function(item) == PROCTIME:
            raise NotSupportedError(
                f'the computed column "{item.name}" of the processing time is not supported',
                hint=_REMEDIES.get(connector, _REMEDY).format(item.name.text),
                position=item.name.position,
            )


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


def processing_watermark(computed: tuple[ComputedClause, ...]) -> MappingWatermark | None:
    """WATERMARK FOR the first column of the processing time: its rows are in order."""
    for item in computed:
        if time_function(item) == PROCTIME:
            column = exp.Column(this=exp.Identifier(this=item.name.text, quoted=True))
            return MappingWatermark(Name(item.name.text, item.name.position), column)
    return None
