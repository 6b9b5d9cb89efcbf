"""Binding of FOREIGN KEY: the table that it refers to, and the key there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.base.schemas import database_of, local_name
from runnel.catalog import Mapping, visible_columns
from runnel.columns.table_definition import ForeignKey, TableDefinition
from runnel.connector import ColumnDefinition
from runnel.errors import ErrorCode, NotSupportedError, ProgrammingError, UndefinedColumn, suggest

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.parse.session.foreign_keys import ForeignKeyClause
    from runnel.planner.parse.syntax import Name


class ForeignKeyBinder:
    """Binds the foreign keys of one table."""

    def __init__(
        self,
        binder: StatementBinder,
        owner: tuple[str, str],
        columns: Sequence[ColumnDefinition],
        definition: TableDefinition,
    ) -> None:
        """`owner`: the key of the schema of the table, and its name; `definition`: its other
        constraints."""
        self._binder = binder
        self._schema, self._name = owner
        self._columns = columns
        self._definition = definition

    def bind(self, clause: ForeignKeyClause) -> ForeignKey:
        """The foreign key; an error if there is no such key, or DuckDB can't compare the values."""
        table, columns, definition = self._target(clause)
        own = tuple(_column(self._columns, name, self._name) for name in clause.columns)
        if clause.referenced:
            other = tuple(_column(columns, name, table) for name in clause.referenced)
        else:
            other = self._primary_key(clause, table, columns, definition)
        names = tuple(column.name for column in other)
        if names not in [key.columns for key in definition.keys]:
            keys = " or ".join(f"({', '.join(key.columns)})" for key in definition.keys)
            raise ProgrammingError(
                f'({", ".join(names)}) is no key of table "{table}"',
                detail="a foreign key refers to the columns of a PRIMARY KEY or UNIQUE, in order",
                hint=f"refer to {keys}" if keys else "add PRIMARY KEY or UNIQUE to that table",
                position=clause.table.position,
            )
        for mine, found, name in zip(own, other, clause.columns, strict=True):
            if mine.type != found.type:
                raise ProgrammingError(
                    f'column "{mine.name}" is of type {mine.type}, and "{found.name}" of table '
                    f'"{table}" of type {found.type}',
                    hint=f'declare "{mine.name}" as {found.type}: a foreign key has the types of '
                    "the key that it refers to",
                    position=name.position,
                )
        return ForeignKey(tuple(column.name for column in own), table, names)

    def _target(
        self, clause: ForeignKeyClause
    ) -> tuple[str, Sequence[ColumnDefinition], TableDefinition]:
        """Name, columns and constraints of the table that the clause refers to."""
        written, own = clause.table.text.lower(), self._name.lower()
        known = self._binder.snapshot.find(clause.table.text)
        is_own = written == own if known is None else known.name.lower() == own
        if is_own or (known is None and written == local_name(own, self._schema)):
            return self._name, self._columns, self._definition
        found = self._binder.lookup(clause.table.text, clause.table.position)
        definition = found.definition if isinstance(found, Mapping) else None
        if definition is None or not isinstance(found, Mapping):
            raise ProgrammingError(
                f'"{found.name}" is no table of CREATE TABLE: a foreign key can\'t refer to it',
                position=clause.table.position,
            )
        is_same = definition.is_temporary is self._definition.is_temporary
        if not is_same or database_of(found.schema) != database_of(self._schema):
            raise NotSupportedError(
                f'table "{self._name}" can\'t refer to table "{found.name}"',
                detail="the tables are in different databases: the connection's own, an attached "
                "one, or the temporary tables",
                position=clause.table.position,
            )
        columns = [ColumnDefinition(c.name, c.type) for c in visible_columns(found.table)]
        return found.name, columns, definition

    def _primary_key(
        self,
        clause: ForeignKeyClause,
        table: str,
        columns: Sequence[ColumnDefinition],
        definition: TableDefinition,
    ) -> tuple[ColumnDefinition, ...]:
        """The primary key, to which REFERENCES without columns refers."""
        key = next((key for key in definition.keys if key.is_primary), None)
        if key is None or len(key.columns) != len(clause.columns):
            of_key = "no PRIMARY KEY" if key is None else f"PRIMARY KEY ({', '.join(key.columns)})"
            raise ProgrammingError(
                f'table "{table}" has {of_key}, to which the foreign key could refer',
                hint="name the columns of a key: REFERENCES t (column, …)",
                position=clause.table.position,
            )
        return tuple(next(c for c in columns if c.name == name) for name in key.columns)


def _column(columns: Sequence[ColumnDefinition], name: Name, table: str) -> ColumnDefinition:
    for column in columns:
        if column.name.lower() == name.text.lower():
            return column
    known = [column.name for column in columns]
    raise UndefinedColumn(
        f'column "{name.text}" of table "{table}" does not exist',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(name.text, known, f"its columns are {', '.join(known[:20])}"),
        position=name.position,
    )
