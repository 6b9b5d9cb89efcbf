"""The constraints of the tables of CREATE TABLE as rows, with the names that DuckDB derives."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.catalog import CatalogObject, Mapping, visible_columns
from runnel.columns.table_definition import ForeignKey, TableKey
from runnel.errors import DatabaseError
from runnel.planner.parse.tokens import tokenize


@frozen
class Constraint:
    """A constraint of a table.

    table: name of the table.
    kind: "PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY" or "NOT NULL".
    columns: names of its columns; of a CHECK the columns that its condition names.
    condition: the text of a CHECK; None for other constraints.
    foreign: of a FOREIGN KEY the key to which it refers; None for other constraints.
    """

    table: str
    kind: str
    columns: tuple[str, ...]
    condition: str | None = None
    foreign: ForeignKey | None = None

    @property
    def name(self) -> str:
        """The table, the columns and the kind: t_id_pkey."""
        ends = {"PRIMARY KEY": "pkey", "UNIQUE": "key", "CHECK": "check", "NOT NULL": "not_null"}
        if self.foreign is not None:
            return "_".join((self.table, *self.columns, *self.foreign.referenced, "fkey"))
        return "_".join((self.table, *self.columns, ends[self.kind]))

    @property
    def text(self) -> str:
        """The constraint as SQL."""
        if self.kind == "CHECK":
            return f"CHECK({self.condition})"
        if self.foreign is not None:
            own, other = (", ".join(names) for names in (self.columns, self.foreign.referenced))
            return f"FOREIGN KEY ({own}) REFERENCES {self.foreign.table}({other})"
        return self.kind if self.kind == "NOT NULL" else f"{self.kind}({', '.join(self.columns)})"

    def indexes(self, item: CatalogObject) -> list[int]:
        """The indexes of its columns in the table, from 0."""
        names = [name.lower() for name in _column_names(item)]
        return [names.index(name.lower()) for name in self.columns]


def keys_of(item: CatalogObject) -> tuple[TableKey, ...]:
    """The primary key and the unique keys of a table of CREATE TABLE; () for other objects."""
    definition = item.definition if isinstance(item, Mapping) else None
    return () if definition is None else definition.keys


def constraints_of(item: CatalogObject) -> list[Constraint]:
    """The constraints of a table of CREATE TABLE: its keys, then CHECK, FOREIGN KEY and NOT
    NULL."""
    definition = item.definition if isinstance(item, Mapping) else None
    if definition is None:
        return []
    names = _column_names(item)
    found = [
        Constraint(item.name, "PRIMARY KEY" if key.is_primary else "UNIQUE", key.columns)
        for key in definition.keys
    ]
    found += [
        Constraint(item.name, "CHECK", _named_in(text, names), text) for text in definition.checks
    ]
    found += [
        Constraint(item.name, "FOREIGN KEY", key.columns, foreign=key)
        for key in definition.foreign_keys
    ]
    found += [
        Constraint(item.name, "NOT NULL", (name,))
        for name in names
        if not definition.is_nullable(name)
    ]
    return found


def _column_names(item: CatalogObject) -> list[str]:
    return [column.name for column in visible_columns(item.table)] if hasattr(item, "table") else []


def _named_in(text: str, names: list[str]) -> tuple[str, ...]:
    """The columns that a condition names, in the order of the table."""
    try:
        words = {token.text.lower() for token in tokenize(text)}
    except DatabaseError:
        return ()
    return tuple(name for name in names if name.lower() in words)
