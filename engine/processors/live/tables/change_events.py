"""The events of a log of changes, as rows that appear and rows that disappear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, indexes, join_arrays, numbers, true_flags
from runnel.errors import DataError
from runnel.expressions.kernels.values import array_of
from runnel.processors.live.consolidation import weight_column
from runnel.sqltypes import VARCHAR

_OPERATIONS = ("c", "r", "u", "d")
_AFTER = np.array([1, 1, 1, 0], np.int64)
_BEFORE = np.array([0, 0, -1, -1], np.int64)
_OF_KEY = np.array([1, 1, 1, -1], np.int64)
"""The change by each operation of the row after it, of the row before it, and in a table with a key
of the row with the key."""


@frozen
class EventShape:
    """The columns of events.

    width: the number of columns of the table, the first columns.
    is_keyed: whether each event is about the row with its key, so that it has one row.
    source: the log in words.
    location: the names of the last columns, which say where an event is.
    """

    width: int
    is_keyed: bool
    source: str
    location: tuple[str, ...]

    def text_of(self, columns: Sequence[pa.Array], row: int) -> str:
        """An event in words; `columns`: the ones of the table, then the location."""
        places = [
            f"{name} {columns[self.width + i][row].as_py()}" for i, name in enumerate(self.location)
        ]
        values = ", ".join(_shown(column[row].as_py()) for column in columns[: self.width])
        return ", ".join([self.source, *places]) + f": row ({values})"


def rows_of_events(shape: EventShape, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that the events add or remove: the columns of the table, the location, and 1 or −1.
    DataError for an event that can't be read."""
    # Example: operation u, once with the row after it and once with the row before it, and c with
    # both: the weights are [1, −1, 1, 0], and the last row is left out.
    width = shape.width
    table, place = batch.columns[:width], batch.columns[width + 3 :]
    operation, is_before, has_row = batch.columns[width : width + 3]
    codes = pc.index_in(operation, value_set=array_of(list(_OPERATIONS), VARCHAR))
    unknown = np.flatnonzero(true_flags(codes.is_null()))
    if len(unknown):
        row = int(unknown[0])
        raise _unknown(operation[row].as_py(), shape.text_of([*table, *place], row))
    kind = numbers(codes, np.int32)
    if shape.is_keyed:
        weights = _OF_KEY[kind]
    else:
        weights = np.where(true_flags(is_before), _BEFORE[kind], _AFTER[kind])
    incomplete = np.flatnonzero((weights != 0) & ~true_flags(has_row))
    if len(incomplete):
        row = int(incomplete[0])
        raise _incomplete(bool(weights[row] < 0), shape.text_of([*table, *place], row))
    rows = np.flatnonzero(weights)
    arrays = [column.take(indexes(rows)) for column in (*table, *place)]
    names = [f"c{i}" for i in range(len(arrays) + 1)]
    return pa.RecordBatch.from_arrays([*arrays, weight_column(weights[rows])], names=names)


def _unknown(operation: str | None, event: str) -> DataError:
    if operation is None:
        return DataError(
            "an event of a change log has no operation",
            detail=event,
            hint="an event is an object with the fields before, after and op",
        )
    return DataError(
        f"operation '{operation}' of a change log is not supported",
        detail=event,
        hint="operations are c (create), r (read), u (update) and d (delete)",
    )


def _incomplete(is_before: bool, event: str) -> DataError:
    if not is_before:
        return DataError("an event of a change log has no row after the change", detail=event)
    return DataError(
        "an event of a change log has no row before the change",
        detail=event,
        hint="name the key of the table: 'changeKey' = 'id'; or have the database write whole rows "
        "before a change, in PostgreSQL by REPLICA IDENTITY FULL",
    )


def unknown_row(event: str, count: int) -> DataError:
    """The error for an event that removes a row that the table does not contain."""
    more = "" if count == 1 else f" ({count} such events at once)"
    return DataError(
        "a change log removes a row that the table does not contain",
        detail=event + more,
        hint="read the log from its beginning; or ignore such events: 'onInconsistency' = 'skip'",
    )


def taken(columns: Sequence[pa.Array], rows: Indexes | Mask) -> list[pa.Array]:
    """Some rows."""
    numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    chosen = indexes(numbers.astype(np.int64, copy=False))
    return [column.take(chosen) for column in columns]


def together(first: Sequence[pa.Array], second: Sequence[pa.Array]) -> list[pa.Array]:
    """The rows of both."""
    return [join_arrays(both) for both in zip(first, second, strict=True)]


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
