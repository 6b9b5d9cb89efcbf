"""Binding of TABLE(CHANGES(TABLE t)): the changes of a table as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.catalog import Table, View
from runnel.connector import KeyedTable
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.bind.streams.time_windows import named_table

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder


def changes_of(binder: StatementBinder, arguments: list[Any], position: Position | None) -> Table:
    """The change stream of the table that CHANGES names."""
    tree = arguments[0] if len(arguments) == 1 else None
    if isinstance(tree, exp.Kwarg):
        tree = tree.expression
    table = named_table(tree) if isinstance(tree, exp.Subquery) else None
    if table is None:
        raise ProgrammingError(
            "CHANGES needs the name of one mapping",
            hint="write TABLE(CHANGES(TABLE m))",
            position=position,
        )
    found = binder.lookup(binder.table_name(table), position)
    stream = (
        found.table.changes()
        if not isinstance(found, View) and isinstance(found.table, KeyedTable)
        else None
    )
    if stream is None:
        kind = "a view" if isinstance(found, View) else f"of type {found.table.connector}"
        raise NotSupportedError(
            f'CHANGES can\'t read "{found.name}", which is {kind}: it records no changes',
            hint="name a mapping of TYPE IMap",
            position=position,
        )
    return stream
