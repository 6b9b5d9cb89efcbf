"""Binding of ALTER TABLE: the columns and constraints after the changes, and the values of the new
columns in the rows that exist."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlglot import TokenType

from runnel.base.schemas import full_name, local_name
from runnel.catalog import CatalogObject, Mapping
from runnel.columns.table_definition import TableDefinition, TableKey
from runnel.connector import ColumnDefinition, ReadableTable
from runnel.errors import (
    DuplicateColumn,
    ErrorCode,
    NotSupportedError,
    Position,
    ProgrammingError,
    UndefinedColumn,
    as_written,
    suggest,
)
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression
from runnel.planner.bind.constraints.foreign_keys import ForeignKeyBinder
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope, ScopeColumn
from runnel.planner.bind.tables.definitions import (
    BoundTable,
    bound_default,
    check_of_text,
    computed_value,
    default_of,
    length_check,
    table_key,
)
from runnel.planner.bind.tables.generated import computed_of
from runnel.planner.parse.alter_table import (
    AddColumn,
    AddConstraint,
    Alteration,
    ChangeDefault,
    ChangeIdentity,
    ChangeNullable,
    ChangeType,
    DropColumn,
    RenameColumn,
    RenameTable,
)
from runnel.planner.parse.tokens import is_word, tokenize
from runnel.planner.rewriting import substitute
from runnel.relation.nodes import Project, Relation, Scan, references
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.parse.syntax import Name
    from runnel.planner.parse.tables import TableColumnClause


def not_alterable(found: CatalogObject, position: Position | None) -> ProgrammingError:
    """The error for ALTER TABLE of an object that is no table."""
    what = "mapping" if isinstance(found, Mapping) else type(found).__name__.lower()
    return ProgrammingError(
        f'"{found.name}" is a {what}, not a table',
        hint=f"use CREATE OR REPLACE {what.upper()}"
        if what != "registration"
        else "register the changed object under this name",
        position=position,
    )


class AlteredTable:
    """A table while the changes of a statement are applied to it, in order.

    name: its name after them.
    is_copied: whether the rows must be written again.
    """

    def __init__(self, binder: StatementBinder, mapping: Mapping) -> None:
        assert mapping.definition is not None
        self._binder = binder
        self._table = mapping.table
        self.name = mapping.name
        self._schema = mapping.schema
        self.is_copied = False
        visible = [(i, c) for i, c in enumerate(mapping.table.columns) if not c.hidden]
        self._columns = [ColumnDefinition(c.name, c.type) for _, c in visible]
        self._values: list[Expression | None] = [
            Column(index=i, name=c.name, type=c.type) for i, c in visible
        ]
        self._definition = mapping.definition
        own_name = local_name(mapping.name, mapping.schema)
        self._scope = Scope(tuple(ScopeColumn(c.name, c.type, i, own_name) for i, c in visible))

    def apply(self, change: Alteration) -> None:
        """Applies one change."""
        match change:
            case RenameTable():
                known, to = self._binder.snapshot.schemas, change.new_name
                self.name = full_name(known, self._schema, to.text, to.position)
                return
            case ChangeDefault():
                self._change_default(change)
                return
            case ChangeIdentity():
                self._change_identity(change)
                return
            case AddColumn():
                self._add(change)
            case AddConstraint():
                self._constrain(change)
            case DropColumn():
                self._drop(change)
            case RenameColumn():
                self._rename(change)
            case ChangeType():
                self._change_type(change)
            case ChangeNullable():
                index = self._index(change.column)
                name = self._columns[index].name.lower()
                not_null = self._definition.not_null - {name}
                if change.is_not_null:
                    not_null |= {name}
                self._definition = replace(self._definition, not_null=not_null)
        self.is_copied = True

    def bound(self) -> BoundTable:
        """The table after the changes."""
        columns = tuple(self._columns)
        checks = tuple(
            check_of_text(self._binder, columns, text) for text in self._definition.checks
        )
        return BoundTable(columns, self._definition, checks)

    def rows(self) -> Relation:
        """The rows of the table after the changes."""
        table = self._table
        assert isinstance(table, ReadableTable)
        scan = Scan(table=table, columns=tuple(range(len(table.columns))))
        values = [
            default_of(self._binder, self._definition, column.name, column.type)
            if value is None
            else value
            for column, value in zip(self._columns, self._values, strict=True)
        ]
        names = tuple(column.name for column in self._columns)
        rows = Project(input=scan, expressions=tuple(values), names=names)
        if not self._definition.computed:
            return rows
        new = list[Expression](references(rows.fields))
        computed = computed_of(self._binder, self._definition, self._columns)
        written = [computed.get(i, value) for i, value in enumerate(new)]
        written = [substitute(value, new) for value in written]
        return Project(input=rows, expressions=tuple(written), names=names)

    def _index(self, name: Name) -> int:
        for i, column in enumerate(self._columns):
            if column.name.lower() == name.text.lower():
                return i
        names = [column.name for column in self._columns]
        raise UndefinedColumn(
            f'column "{name.text}" of table "{self.name}" does not exist',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name.text, names, f"its columns are {', '.join(names[:20])}"),
            position=name.position,
        )

    def _check_free(self, name: Name) -> None:
        if any(column.name.lower() == name.text.lower() for column in self._columns):
            raise DuplicateColumn(
                f'table "{self.name}" has a column "{name.text}" already',
                hint="take another name",
                position=name.position,
            )

    def _add(self, change: AddColumn) -> None:
        clause, definition = change.column, self._definition
        name = clause.name.text
        if change.if_not_exists and any(
            column.name.lower() == name.lower() for column in self._columns
        ):
            return
        self._check_free(clause.name)
        if clause.identity is not None:
            raise NotSupportedError(
                f'the new column "{name}" can\'t be SERIAL or IDENTITY',
                hint=f"write CREATE SEQUENCE {as_written(name)}_seq, then ALTER TABLE … ADD COLUMN "
                f"{as_written(name)} BIGINT DEFAULT nextval('{name}_seq'), which numbers the rows",
                position=clause.name.position,
            )
        sql_type = clause.type
        if clause.computed is not None:
            sql_type = self._computed_type(clause)
            computed = {**definition.computed, name.lower(): clause.computed.text}
            definition = replace(definition, computed=computed)
        assert sql_type is not None
        if clause.default is not None:
            bound_default(self._binder, clause.default.tree, name, sql_type)
            defaults = {**definition.defaults, name.lower(): clause.default.text}
            definition = replace(definition, defaults=defaults)
        if clause.is_not_null:
            definition = replace(definition, not_null=definition.not_null | {name.lower()})
        if clause.length is not None:
            text = length_check(name, sql_type, clause.length)
            definition = replace(definition, checks=(*definition.checks, text))
        self._definition = definition
        self._columns.append(ColumnDefinition(name, sql_type))
        self._values.append(None)
        self._constrain(AddConstraint(change.keys, change.checks, change.foreign_keys))

    def _computed_type(self, clause: TableColumnClause) -> SqlType:
        """The type of a new computed column."""
        base = [c for c in self._columns if c.name.lower() not in self._definition.computed]
        return computed_value(self._binder, base, clause).type

    def _constrain(self, change: AddConstraint) -> None:
        definition = self._definition
        keys = tuple(table_key(key, self._columns) for key in change.keys)
        if any(key.is_primary for key in keys) and any(k.is_primary for k in definition.keys):
            raise ProgrammingError(
                f'table "{self.name}" has a PRIMARY KEY already',
                hint="use UNIQUE",
                position=change.keys[0].columns[0].position,
            )
        checks = tuple(check.text for check in change.checks)
        definition = replace(
            definition, keys=(*definition.keys, *keys), checks=(*definition.checks, *checks)
        )
        bound = ForeignKeyBinder(self._binder, (self._schema, self.name), self._columns, definition)
        foreign_keys = tuple(bound.bind(clause) for clause in change.foreign_keys)
        self._definition = replace(
            definition, foreign_keys=(*definition.foreign_keys, *foreign_keys)
        )

    def _drop(self, change: DropColumn) -> None:
        known = [column.name.lower() for column in self._columns]
        if change.if_exists and change.column.text.lower() not in known:
            return
        index = self._index(change.column)
        name, definition = self._columns[index].name, self._definition
        self._check_unconstrained(name, change.column.position)
        if len(self._columns) == 1:
            raise ProgrammingError(
                f'"{name}" is the only column of table "{self.name}"',
                hint="a table has at least one column: use DROP TABLE",
                position=change.column.position,
            )
        del self._columns[index], self._values[index]
        self._definition = replace(
            definition,
            defaults=_without(definition.defaults, name),
            not_null=definition.not_null - {name.lower()},
            identities=_without(definition.identities, name),
            computed=_without(definition.computed, name),
            comments=_without(definition.comments, name),
        )

    def _check_unconstrained(self, name: str, position: Position) -> None:
        for key in self._definition.keys:
            if name.lower() in [column.lower() for column in key.columns]:
                kind = "PRIMARY KEY" if key.is_primary else "UNIQUE"
                raise _constrained(self.name, name, f"{kind} ({', '.join(key.columns)})", position)
        for foreign in self._definition.foreign_keys:
            if name.lower() in [column.lower() for column in foreign.columns]:
                kind = f"FOREIGN KEY ({', '.join(foreign.columns)})"
                raise _constrained(self.name, name, kind, position)
        for text in self._definition.checks:
            if renamed(text, name, name + "?") != text:
                raise _constrained(self.name, name, f"CHECK ({text})", position)
        for text in self._definition.computed.values():
            if renamed(text, name, name + "?") != text:
                raise _constrained(self.name, name, f"GENERATED ALWAYS AS ({text})", position)

    def _rename(self, change: RenameColumn) -> None:
        index = self._index(change.column)
        old, new = self._columns[index].name, change.new_name.text
        if new.lower() != old.lower():
            self._check_free(change.new_name)
        self._columns[index] = replace(self._columns[index], name=new)
        definition = self._definition
        self._definition = TableDefinition(
            _moved(definition.defaults, old, new),
            frozenset(_moved(dict.fromkeys(definition.not_null), old, new)),
            tuple(
                TableKey(tuple(_swapped(key.columns, old, new)), key.is_primary)
                for key in definition.keys
            ),
            tuple(renamed(text, old, new) for text in definition.checks),
            definition.is_temporary,
            _moved(definition.identities, old, new),
            {
                name: renamed(text, old, new)
                for name, text in _moved(definition.computed, old, new).items()
            },
            _moved(definition.comments, old, new),
            foreign_keys=tuple(
                replace(key, columns=tuple(_swapped(key.columns, old, new)))
                for key in definition.foreign_keys
            ),
        )

    def _change_type(self, change: ChangeType) -> None:
        index = self._index(change.column)
        column = self._columns[index]
        if column.name.lower() in self._definition.computed and change.using is not None:
            raise self._is_computed(change.column)
        self._columns[index] = replace(column, type=change.type)
        if change.using is not None:
            value = ExpressionBinder(self._binder, self._scope, "USING").bind(change.using)
            self._values[index] = build.assign(value, change.type, column.name)
        else:
            old = self._values[index]
            if old is not None:
                self._values[index] = build.cast(old, change.type, change.column.position)
        default_of(self._binder, self._definition, column.name, change.type)

    def _change_default(self, change: ChangeDefault) -> None:
        column = self._columns[self._index(change.column)]
        name = column.name.lower()
        if name in self._definition.computed:
            raise self._is_computed(change.column)
        defaults = dict(_without(self._definition.defaults, name))
        if change.default is not None:
            bound_default(self._binder, change.default.tree, column.name, column.type)
            defaults[name] = change.default.text
        identities = _without(self._definition.identities, name)
        self._definition = replace(self._definition, defaults=defaults, identities=identities)

    def _change_identity(self, change: ChangeIdentity) -> None:
        column = self._columns[self._index(change.column)]
        name, definition = column.name.lower(), self._definition
        if name in definition.computed:
            raise self._is_computed(change.column)
        has_identity = name in definition.identities
        if has_identity is (change.identity is not None):
            raise ProgrammingError(
                f'column "{column.name}" of table "{self.name}" is '
                + ("an identity already" if has_identity else "no identity"),
                hint="ALTER TABLE … ALTER … DROP IDENTITY" if has_identity else None,
                position=change.column.position,
            )
        identities = dict(_without(definition.identities, name))
        if change.identity is not None:
            if not column.type.is_integer:
                raise ProgrammingError(
                    f'column "{column.name}" has no type of whole numbers',
                    position=change.column.position,
                )
            identities[name] = change.identity
            self.is_copied |= definition.is_nullable(name)
            definition = replace(definition, not_null=definition.not_null | {name})
        defaults = _without(definition.defaults, name)
        self._definition = replace(definition, identities=identities, defaults=defaults)

    def _is_computed(self, name: Name) -> ProgrammingError:
        return UndefinedColumn(
            f'column "{name.text}" of table "{self.name}" is computed',
            hint="DROP the column, and ADD it with another expression",
            position=name.position,
        )


_Value = TypeVar("_Value")


def _without(values: MappingType[str, _Value], name: str) -> MappingType[str, _Value]:
    """The values of the other columns."""
    return {key: value for key, value in values.items() if key != name.lower()}


def _moved(values: MappingType[str, _Value], old: str, new: str) -> dict[str, _Value]:
    """The values with the new name of a column."""
    return {new.lower() if key == old.lower() else key: item for key, item in values.items()}


def _swapped(columns: tuple[str, ...], old: str, new: str) -> list[str]:
    """The columns of a key with the new name of a column."""
    return [new if column.lower() == old.lower() else column for column in columns]


def _constrained(table: str, column: str, constraint: str, position: Position) -> NotSupportedError:
    return NotSupportedError(
        f'column "{column}" of table "{table}" is part of {constraint}',
        hint="create the table again: CREATE TABLE … AS SELECT * EXCLUDE (…)",
        position=position,
    )


def renamed(text: str, old: str, new: str) -> str:
    """The text of an expression with another name for a column."""
    chunks, end = [], 0
    for token in tokenize(text):
        is_name = token.token_type is TokenType.IDENTIFIER or is_word(token)
        if is_name and token.text.lower() == old.lower():
            chunks += [text[end : token.start], '"' + new.replace('"', '""') + '"']
            end = token.end + 1
    return "".join([*chunks, text[end:]])
