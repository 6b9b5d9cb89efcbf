"""Foreign keys between tables: a table to which others refer is not dropped, replaced or copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import CatalogObject, Snapshot, next_version
from runnel.catalog import Mapping as TableMapping
from runnel.columns.table_definition import TableDefinition
from runnel.connectors.duckdb.own_tables import OwnTables
from runnel.errors import (
    DependencyException,
    NotSupportedError,
    OperationalError,
    as_written,
)

if TYPE_CHECKING:
    from runnel.planner.plans import AlterTablePlan


def referring_tables(snapshot: Snapshot, name: str) -> list[str]:
    """The names of the tables whose foreign keys refer to a table, itself included."""
    return [
        item.name
        for item in snapshot
        if isinstance(item, TableMapping)
        and item.definition is not None
        and any(key.table.lower() == name.lower() for key in item.definition.foreign_keys)
    ]


def referenced_tables(snapshot: Snapshot, name: str, definition: TableDefinition) -> dict[str, str]:
    """The tables in DuckDB to which foreign keys of a table refer, by their names in the catalog in
    lower case, without the table itself; OperationalError if one was dropped meanwhile."""
    found = {}
    for key in definition.foreign_keys:
        if key.table.lower() == name.lower():
            continue
        item = snapshot.objects.get(key.table.lower())
        location = getattr(getattr(item, "table", None), "location", None)
        if location is None:
            raise OperationalError(
                f'table "{key.table}" was dropped by another statement', hint="try again"
            )
        found[key.table.lower()] = location.qualified
    return found


def check_unreferenced(
    snapshot: Snapshot, name: str, action: str, without: Sequence[CatalogObject] = ()
) -> None:
    """ProgrammingError if tables besides `without` and itself refer to a table, which would be
    `action`."""
    gone = {name.lower(), *(item.name.lower() for item in without)}
    others = [other for other in referring_tables(snapshot, name) if other.lower() not in gone]
    if others:
        names = ", ".join(as_written(other) for other in others[:10])
        raise DependencyException(
            f'table "{name}" can\'t be {action}: foreign keys refer to it',
            detail=f"they are constraints of {names}",
            hint=f"DROP TABLE {names} first, or in the same statement",
        )


def check_alterable(snapshot: Snapshot, plan: AlterTablePlan, own: OwnTables) -> None:
    """NotSupportedError for a change of a table that its foreign keys do not allow: DuckDB would
    have to drop a table to which others refer, or to rename one in a file."""
    others = referring_tables(snapshot, plan.name)
    is_renamed = plan.new_name.lower() != plan.name.lower()
    if others and (plan.created is not None or own.is_file):
        raise NotSupportedError(
            f'this change of table "{plan.name}" is not supported: foreign keys refer to it',
            detail=f"they are constraints of {', '.join(others[:10])}",
            hint="change the table before the tables that refer to it are created: DROP them, "
            "ALTER the table, and CREATE them again",
        )
    if own.is_file and plan.definition.foreign_keys and (is_renamed or plan.created is not None):
        raise NotSupportedError(
            f'this change of table "{plan.name}" is not supported: it has a foreign key',
            detail="in a DuckDB file DuckDB would have to rename it, which damages the key",
            hint="create another table with the columns, INSERT the rows, and DROP this one",
        )


def renamed_references(
    snapshot: Snapshot, item: TableMapping, old: str
) -> tuple[TableMapping, ...]:
    """The table, which was called `old`, and the tables that refer to it, by its new name."""
    if item.name.lower() == old.lower():
        return (item,)
    found = [item]
    for name in referring_tables(snapshot, old):
        known = snapshot.objects[name.lower()]
        other = item if name.lower() == old.lower() else known
        assert isinstance(other, TableMapping) and other.definition is not None
        keys = tuple(
            replace(key, table=item.name) if key.table.lower() == old.lower() else key
            for key in other.definition.foreign_keys
        )
        definition = replace(other.definition, foreign_keys=keys)
        changed = replace(other, definition=definition, version=next_version())
        if other is item:
            found[0] = changed
        else:
            found.append(changed)
    return tuple(found)


def in_drop_order(items: Sequence[CatalogObject]) -> list[CatalogObject]:
    """The objects, with a table to which others refer after these."""
    left, found = list(items), list[CatalogObject]()
    while left:
        targets = {
            key.table.lower()
            for item in left
            if isinstance(item, TableMapping) and item.definition is not None
            for key in item.definition.foreign_keys
            if key.table.lower() != item.name.lower()
        }
        free = [item for item in left if item.name.lower() not in targets] or left
        found += free
        left = [item for item in left if item not in free]
    return found
