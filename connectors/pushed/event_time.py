"""Event time of pushed streams: the arguments of `register_stream`, and a writer's watermarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from runnel.catalog import EventTime, TableColumn
from runnel.errors import DataError, ProgrammingError, suggest
from runnel.expressions.kernels.values import array_of, parameter_type
from runnel.processors.sources.partition_watermarks import event_times
from runnel.sqltypes import Kind, SqlType

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)


def stream_event_time(
    name: str,
    time_column: str | None,
    max_disorder: timedelta | int | None,
    idle_timeout: timedelta | None,
) -> Callable[[Sequence[TableColumn]], EventTime | None]:
    """A function that finds the event time among the columns of a stream, as WATERMARK FOR does
    for a mapping."""

    def find(columns: Sequence[TableColumn]) -> EventTime | None:
        if time_column is None:
            if max_disorder is not None or idle_timeout is not None:
                raise ProgrammingError(
                    f'the stream "{name}" has no time column',
                    hint="name it: register_stream(…, time_column=…)",
                )
            return None
        index = _column_index(name, time_column, columns)
        column = columns[index]
        return EventTime(index, _lag(max_disorder, column), _milliseconds(idle_timeout))

    return find


def event_time_of(value: Any, column: TableColumn | None, stream: str) -> int:
    """A value of a time column in units of event time.

    `column` is None if the time column is not known here.
    """
    expected = _natural_type(value) if column is None else column.type
    what = (
        "an integer, date or timestamp"
        if column is None
        else f'a value of column "{column.name}", {expected}'
    )
    refusal = ProgrammingError(
        f'{value!r:.60} is no watermark of stream "{stream}"', hint=f"pass {what}"
    )
    if (
        value is None
        or expected is None
        or isinstance(value, bool)
        or (isinstance(value, int) and not expected.is_integer)
    ):
        raise refusal
    try:
        found: int = event_times(array_of([value], expected))[0].as_py()
    except DataError as error:
        raise refusal from error
    return found


def _natural_type(value: Any) -> SqlType | None:
    try:
        found = parameter_type(value)
    except (DataError, ProgrammingError):
        return None
    return found if _is_time(found) else None


def _is_time(item: SqlType) -> bool:
    return item.is_integer or item.kind in _TIMES


def _column_index(stream: str, name: str, columns: Sequence[TableColumn]) -> int:
    for index, column in enumerate(columns):
        if column.name.lower() == name.lower():
            if not _is_time(column.type):
                raise ProgrammingError(
                    f'column "{column.name}" of stream "{stream}" can\'t be its time column: it is '
                    f"of type {column.type}",
                    hint=(
                        "event time is a TIMESTAMP, with or without time zone, a DATE or an integer"
                    ),
                )
            return index
    names = [column.name for column in columns]
    raise ProgrammingError(
        f'stream "{stream}" has no column "{name}"',
        hint=suggest(name, names, "its columns are " + ", ".join(names)),
    )


def _lag(disorder: timedelta | int | None, column: TableColumn) -> int:
    if disorder is None:
        return 0
    is_number = isinstance(disorder, int) and not isinstance(disorder, bool)
    if not (is_number if column.type.is_integer else isinstance(disorder, timedelta)):
        expected = "an int, as its values are" if column.type.is_integer else "a timedelta"
        raise ProgrammingError(
            f'max_disorder of column "{column.name}" must be {expected}, not {disorder!r}'
        )
    lag = disorder // timedelta(microseconds=1) if isinstance(disorder, timedelta) else disorder
    if lag < 0:
        raise ProgrammingError(f"max_disorder must not be negative: {disorder!r}")
    return lag


def _milliseconds(timeout: timedelta | None) -> int | None:
    if timeout is None:
        return None
    if not isinstance(timeout, timedelta) or timeout < timedelta(0):
        raise ProgrammingError(
            f"idle_timeout must be a timedelta that isn't negative, not {timeout!r}",
            hint="timedelta(0) means never",
        )
    return -(-timeout // timedelta(milliseconds=1))
