"""The rows of the constraints in information_schema: table_constraints, key_column_usage,
constraint_column_usage and referential_constraints, as in the SQL standard."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.base.schemas import catalog_and_schema, local_name
from runnel.catalog import CatalogObject, Snapshot
from runnel.planner.bind.system_views.constraints import Constraint, constraints_of

Row = tuple[object, ...]
_COLUMN_KEYS = ("PRIMARY KEY", "UNIQUE", "FOREIGN KEY")
_UNIQUE = ("PRIMARY KEY", "UNIQUE")


def table_constraints(catalog: Snapshot) -> list[Row]:
    """A row for each constraint; a NOT NULL is a CHECK."""
    return [
        (
            *_position(item, constraint.name),
            *_position(item, local_name(item.name, item.schema)),
            "CHECK" if constraint.kind == "NOT NULL" else constraint.kind,
            "NO",
            "NO",
            "YES",
            "YES",
        )
        for item, constraint in _constraints(catalog)
    ]


def key_column_usage(catalog: Snapshot) -> list[Row]:
    """A row for each column of each key, with its position in the key to which it refers."""
    return [
        (
            *_position(item, constraint.name),
            *_position(item, local_name(item.name, item.schema)),
            column,
            number,
            None if constraint.foreign is None else _position_in_key(catalog, constraint, number),
        )
        for item, constraint in _constraints(catalog)
        if constraint.kind in _COLUMN_KEYS
        for number, column in enumerate(constraint.columns, 1)
    ]


def constraint_column_usage(catalog: Snapshot) -> list[Row]:
    """A row for each column that a constraint names; of a FOREIGN KEY, the columns to which it
    refers."""
    found: list[Row] = []
    for item, constraint in _constraints(catalog):
        table, columns = item, constraint.columns
        if constraint.foreign is not None:
            table = catalog.objects[constraint.foreign.table.lower()]
            columns = constraint.foreign.referenced
        if constraint.kind != "NOT NULL":
            place = _position(table, local_name(table.name, table.schema))
            found += [(*place, column, *_position(item, constraint.name)) for column in columns]
    return found


def referential_constraints(catalog: Snapshot) -> list[Row]:
    """A row for each FOREIGN KEY, with the key to which it refers."""
    found: list[Row] = []
    for item, constraint in _constraints(catalog):
        if constraint.foreign is not None:
            other = catalog.objects[constraint.foreign.table.lower()]
            key = _key(catalog, constraint)
            found.append(
                (
                    *_position(item, constraint.name),
                    *(_position(other, key.name) if key else (None, None, None)),
                    "NONE",
                    "NO ACTION",
                    "NO ACTION",
                )
            )
    return found


def _constraints(catalog: Snapshot) -> Iterator[tuple[CatalogObject, Constraint]]:
    for item in catalog:
        for constraint in constraints_of(item):
            yield item, constraint


def _position(item: CatalogObject, name: str) -> tuple[str, str, str]:
    return (*catalog_and_schema(item.schema), name)


def _key(catalog: Snapshot, constraint: Constraint) -> Constraint | None:
    """The key to which a FOREIGN KEY refers."""
    assert constraint.foreign is not None
    names = {name.lower() for name in constraint.foreign.referenced}
    for key in constraints_of(catalog.objects[constraint.foreign.table.lower()]):
        if key.kind in _UNIQUE and {name.lower() for name in key.columns} == names:
            return key
    return None


def _position_in_key(catalog: Snapshot, constraint: Constraint, number: int) -> int | None:
    key = _key(catalog, constraint)
    if key is None or constraint.foreign is None:
        return None
    name = constraint.foreign.referenced[number - 1].lower()
    return [column.lower() for column in key.columns].index(name) + 1
