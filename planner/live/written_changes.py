"""The result of a job's query whose rows change: its changes, for a sink that can write them."""

from __future__ import annotations

from runnel.connector import WritableTable, WriteMode
from runnel.errors import NotSupportedError
from runnel.planner.event_time.check import check_streaming
from runnel.planner.live.maintenance import EPOCH_MILLIS, maintained
from runnel.planner.live.unique_columns import Keys, unique_columns
from runnel.relation.live import Changelog
from runnel.relation.nodes import Field, Relation

WAYS_OUT = (
    "write to a table that rows can be updated in: a map, a table with PRIMARY KEY, "
    "'upsert-kafka', 'print' or 'blackhole'; or aggregate by a window, whose result is final"
)


def written_changes(
    relation: Relation,
    table: WritableTable,
    columns: tuple[int, ...],
    error: NotSupportedError,
    *,
    unbounded_state: bool,
) -> Relation:
    """The changes of `relation`, for a sink of WriteMode.CHANGES. NotSupportedError if they can't
    be maintained, or not written to the table.

    relation: the rows to write, after the rules; a query over a stream that is refused with `error`
        because its rows change.
    columns: the indexes of the table's columns that are written.
    unbounded_state: whether the statement allows unbounded state.
    """
    try:
        found = maintained(relation)
        check_streaming(found.relation, unbounded_state)
    except NotSupportedError:
        raise error from None
    if not found.is_changing:
        raise error
    if WriteMode.CHANGES not in table.write_modes:
        raise NotSupportedError(
            f'rows of a result that changes can\'t be written to "{table.name}"',
            detail=f"the table of connector {table.connector} only appends rows, and has no key",
            hint=WAYS_OUT,
            position=error.position,
        ) from None
    unique = unique_columns(relation)
    written = table.change_key
    if written is None:
        key = unique[0] if unique else None
    else:
        key = _positions(table, written, columns, error)
        _check_key(relation.fields, table, key, unique, error)
    return Changelog(
        input=found.relation,
        key=key,
        distance=EPOCH_MILLIS * 1_000_000,
        position=relation.position,
    )


def _positions(
    table: WritableTable,
    key: tuple[int, ...],
    columns: tuple[int, ...],
    error: NotSupportedError,
) -> tuple[int, ...]:
    """The positions of the table's key in the rows."""
    for index in key:
        if index not in columns:
            raise NotSupportedError(
                f'the key column "{table.columns[index].name}" of "{table.name}" is not written',
                hint="add it to the target columns",
                position=error.position,
            )
    return tuple(columns.index(index) for index in key)


def _check_key(
    fields: tuple[Field, ...],
    table: WritableTable,
    key: tuple[int, ...],
    unique: Keys,
    error: NotSupportedError,
) -> None:
    """NotSupportedError if several rows of the result could have the same key of the table."""
    if any(set(item) <= set(key) for item in unique):
        return
    names = ", ".join(fields[i].name for i in key)
    known = " or ".join("(" + ", ".join(fields[i].name for i in item) + ")" for item in unique)
    raise NotSupportedError(
        f'several rows of the result may have the same key ({names}) of "{table.name}"',
        detail=f"the rows of the result differ by {known or 'no known columns'}",
        hint=f"GROUP BY {names}, or create the table with the key "
        + (known or "that the query groups by"),
        position=error.position,
    )
