"""Binding of a table that is known by a log of its changes: the current rows over the events."""

from __future__ import annotations

from runnel.catalog import Table
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.relation.changing_tables import ChangingTable
from runnel.relation.live import CurrentRows
from runnel.relation.nodes import Filter, Project, Relation, references, repeated
from runnel.sqltypes import BOOLEAN, VARCHAR


def current_rows(table: Table, events: Relation) -> Relation:
    """The columns of the table over all columns of its log.

    Events of a table with a key become the row with that key: the row before the event if it
    disappears, else the row after it. Otherwise each event becomes both rows.
    """
    assert isinstance(table, ChangingTable)
    log = table.log
    if log.is_event is not None:
        events = Filter(input=events, condition=log.is_event, position=events.position)
    columns_of_log = references(events.fields)
    place = [columns_of_log[index] for index, _ in log.location]
    names = tuple(
        [column.name for column in table.columns]
        + ["$operation", "$is_before", "$has_row"]
        + [f"$place{i}" for i in range(len(place))]
    )
    if log.key is None:
        after = (*log.after, log.operation, _flag(False), log.has_after, *place)
        before = (*log.before, log.operation, _flag(True), log.has_before, *place)
        rows = repeated(events, (after, before), names)
    else:
        delete = Literal(value="d", type=VARCHAR)
        removes = build.call("is_true", [build.call("eq", [log.operation, delete])])

        def chosen(after: Expression, before: Expression) -> Expression:
            return after if after == before else build.case([removes], [before], after)

        columns = [*map(chosen, log.after, log.before)]
        has_row = chosen(log.has_after, log.has_before)
        rows = Project(
            input=events,
            expressions=(*columns, log.operation, removes, has_row, *place),
            names=names,
            position=events.position,
        )
    return CurrentRows(
        input=rows, log=log, width=len(table.columns), key=log.key, position=events.position
    )


def _flag(value: bool) -> Expression:
    return Literal(value=value, type=BOOLEAN)
