"""ALTER TABLE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.base.frozen import frozen
from runnel.columns.table_definition import IdentityColumn
from runnel.errors import Error, NotSupportedError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.session.foreign_keys import ForeignKeyClause
from runnel.planner.parse.syntax import Delete, Name, Statement
from runnel.planner.parse.tables import (
    ConditionText,
    KeyClause,
    TableColumnClause,
    TableReader,
)
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import SqlType


@frozen
class AddColumn:
    """ADD COLUMN.

    column: the column.
    keys: PRIMARY KEY and UNIQUE of its clause.
    checks: the conditions of CHECK of its clause.
    foreign_keys: REFERENCES of its clause.
    if_not_exists: whether an existing column is left as it is.
    """

    column: TableColumnClause
    keys: tuple[KeyClause, ...]
    checks: tuple[ConditionText, ...]
    foreign_keys: tuple[ForeignKeyClause, ...]
    if_not_exists: bool


@frozen
class AddConstraint:
    """ADD PRIMARY KEY, UNIQUE, CHECK or FOREIGN KEY.

    keys: the keys.
    checks: the conditions of CHECK.
    foreign_keys: the foreign keys.
    """

    keys: tuple[KeyClause, ...]
    checks: tuple[ConditionText, ...]
    foreign_keys: tuple[ForeignKeyClause, ...]


@frozen
class ChangeIdentity:
    """ALTER COLUMN … ADD GENERATED … AS IDENTITY, or DROP IDENTITY.

    column: the column.
    identity: its numbers; None: it has none after the change.
    """

    column: Name
    identity: IdentityColumn | None


@frozen
class DropColumn:
    """DROP COLUMN.

    column: the column.
    if_exists: whether a missing column is no error.
    """

    column: Name
    if_exists: bool


@frozen
class RenameColumn:
    """RENAME COLUMN a TO b.

    column: the column.
    new_name: its new name.
    """

    column: Name
    new_name: Name


@frozen
class RenameTable:
    """RENAME TO t.

    new_name: the new name of the table.
    """

    new_name: Name


@frozen
class ChangeType:
    """ALTER COLUMN c TYPE t [USING expression].

    column: the column.
    type: its new type.
    using: the expression of its new values, as a sqlglot tree; None: a CAST.
    """

    column: Name
    type: SqlType
    using: Any | None


@frozen
class ChangeDefault:
    """ALTER COLUMN c SET DEFAULT expression, or DROP DEFAULT.

    column: the column.
    default: the expression; None: NULL.
    """

    column: Name
    default: ConditionText | None


@frozen
class ChangeNullable:
    """ALTER COLUMN c SET NOT NULL or DROP NOT NULL.

    column: the column.
    is_not_null: whether it is SET NOT NULL.
    """

    column: Name
    is_not_null: bool


Alteration = (
    AddColumn
    | AddConstraint
    | DropColumn
    | RenameColumn
    | RenameTable
    | ChangeType
    | ChangeDefault
    | ChangeNullable
    | ChangeIdentity
)


@frozen(kw_only=True)
class AlterTable(Statement):
    """ALTER TABLE.

    name: the table.
    if_exists: whether a missing table is no error.
    alterations: the changes, in order.
    is_cascading: whether jobs that use the table are suspended.
    """

    name: Name
    if_exists: bool
    alterations: tuple[Alteration, ...]
    is_cascading: bool


_CHANGES = ("ADD", "DROP", "RENAME", "ALTER", "OWNER", ".")
"""The words that may come after the name of a table."""


def parse_alter_table(reader: StatementReader) -> Statement:
    """ALTER TABLE [IF EXISTS] [ONLY] t {change, … [CASCADE] | SET ('option' = 'value', …)
    | RESET ('option', …) | OWNER TO role}; the owner changes nothing, as there are no roles"""
    position = reader.position
    reader.expect("ALTER", "TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    if reader.peek(1) not in _CHANGES:
        reader.accept("ONLY")
    name = reader.object_name("the table")
    if reader.peek() in ("SET", "RESET") and reader.peek(1) == "(":
        # Loaded on first use: few tables are Flink's.
        from runnel.planner.parse.flink.alterations import parse_options

        return parse_options(reader, position, name, if_exists)
    try:
        alterations = _all_alterations(reader)
        is_cascading = reader.accept("CASCADE")
        if not is_cascading:
            reader.accept("RESTRICT")
        reader.finish()
    except Error as refusal:
        # Loaded on first use: few tables are Flink's.
        from runnel.planner.parse.flink.altered_items import items_of

        found = items_of(reader.sql, refusal)
        reader.index = len(reader.tokens)
        return found
    return AlterTable(
        sql=reader.sql,
        position=position,
        name=name,
        if_exists=if_exists,
        alterations=tuple(alterations),
        is_cascading=is_cascading,
    )


def _all_alterations(reader: StatementReader) -> list[Alteration]:
    """The changes; none for OWNER TO."""
    if reader.accept("OWNER", "TO"):
        reader.name("a role")
        return []
    found = _alterations(reader)
    while reader.accept(","):
        found += _alterations(reader)
    return found


def _alterations(reader: StatementReader) -> list[Alteration]:
    """One change; or of Flink ADD (column, …), DROP (column, …) or MODIFY."""
    word = reader.peek()
    _refuse_parts(reader)
    if word == "MODIFY":
        reader.next()
        return _listed(reader, _modified)
    if word in ("ADD", "DROP") and reader.peek(1) == "(":
        reader.next()
        if word == "ADD":
            return _listed(reader, _added)
        return _listed(reader, lambda item: DropColumn(item.name("a column"), False))
    return [_alteration(reader)]


_INSTEAD = {
    "WATERMARK": "write the table again: CREATE OR REPLACE TABLE … (…, WATERMARK FOR ts AS …) "
    "WITH (…)",
    "PARTITION": "a partition exists when a row of it was written: INSERT INTO t …",
}


def _refuse_parts(reader: StatementReader) -> None:
    """NotSupportedError for WATERMARK FOR and PARTITION (…) after ADD, MODIFY or DROP."""
    ahead = 2 if reader.peek(1) == "(" else 1
    word = reader.peek(ahead)
    after = {"WATERMARK": "FOR", "PARTITION": "("}.get(word)
    if after is not None and reader.peek(ahead + 1) == after:
        raise NotSupportedError(
            f"{word} in ALTER TABLE is not supported",
            hint=_INSTEAD[word],
            position=reader.position,
        )


def _end_of_column(reader: StatementReader) -> None:
    """Reads COMMENT 'text', which is not stored; NotSupportedError for FIRST and AFTER."""
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    if reader.peek() in ("FIRST", "AFTER"):
        raise NotSupportedError(
            f"{reader.peek()} in ALTER TABLE is not supported",
            hint="leave it out: a new column is the last one; name the columns in SELECT",
            position=reader.position,
        )


def _listed(
    reader: StatementReader, read: Callable[[StatementReader], Alteration]
) -> list[Alteration]:
    """(change, …), or one change without parentheses."""
    if not reader.accept("("):
        return [read(reader)]
    found = [read(reader)]
    while reader.accept(","):
        found.append(read(reader))
    reader.expect(")")
    return found


def _modified(reader: StatementReader) -> Alteration:
    reader.accept("COLUMN")
    change = ChangeType(reader.name("a column"), parse_type(reader), None)
    _end_of_column(reader)
    return change


def _alteration(reader: StatementReader) -> Alteration:
    if reader.accept("ADD"):
        return _added(reader)
    if reader.accept("DROP"):
        reader.accept("COLUMN")
        if_exists = reader.accept("IF", "EXISTS")
        return DropColumn(reader.name("a column"), if_exists)
    if reader.accept("RENAME"):
        if reader.accept("TO"):
            return RenameTable(reader.name("the new name"))
        reader.accept("COLUMN")
        column = reader.name("a column")
        reader.expect("TO")
        return RenameColumn(column, reader.name("the new name"))
    if reader.accept("ALTER"):
        return _changed(reader)
    raise reader.error("one of ADD, DROP, RENAME or ALTER")


def _added(reader: StatementReader) -> Alteration:
    body = TableReader(reader)
    if reader.peek() != "COLUMN" and body.table_constraint():
        return AddConstraint(tuple(body.keys), tuple(body.checks), tuple(body.foreign_keys))
    reader.accept("COLUMN")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    body.column()
    _end_of_column(reader)
    constraints = tuple(body.keys), tuple(body.checks), tuple(body.foreign_keys)
    return AddColumn(body.columns[0], *constraints, if_not_exists)


def _changed(reader: StatementReader) -> Alteration:
    reader.accept("COLUMN")
    column = reader.name("a column")
    words = (("SET", "DATA", "TYPE"), ("SET", "TYPE"), ("TYPE",))
    if any(reader.accept(*item) for item in words):
        sql_type = parse_type(reader)
        using = reader.expression(",", "CASCADE", "RESTRICT") if reader.accept("USING") else None
        return ChangeType(column, sql_type, using)
    if reader.accept("SET", "DEFAULT"):
        return ChangeDefault(column, TableReader(reader).default())
    if reader.accept("DROP", "DEFAULT"):
        return ChangeDefault(column, None)
    if reader.peek() == "ADD" or (reader.peek() == "DROP" and reader.peek(1) == "IDENTITY"):
        return _identity(reader, column)
    if reader.accept("SET", "NOT", "NULL"):
        return ChangeNullable(column, True)
    if reader.accept("DROP", "NOT", "NULL"):
        return ChangeNullable(column, False)
    raise reader.error("one of TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL or DROP NOT NULL")


def _identity(reader: StatementReader, column: Name) -> ChangeIdentity:
    """Reads ADD GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(…)], or DROP IDENTITY [IF EXISTS]."""
    if reader.accept("DROP", "IDENTITY"):
        return ChangeIdentity(column, None)
    # Loaded on first use: few columns are numbered.
    from runnel.planner.parse.session.sequences import parse_identity

    reader.expect("ADD", "GENERATED")
    is_always = reader.accept("ALWAYS")
    if not is_always:
        reader.expect("BY", "DEFAULT")
    reader.expect("AS", "IDENTITY")
    return ChangeIdentity(column, parse_identity(reader, is_always=is_always))


def parse_truncate(reader: StatementReader) -> Delete:
    """TRUNCATE [TABLE] [ONLY] t [RESTART IDENTITY | CONTINUE IDENTITY] [CASCADE | RESTRICT]: DELETE
    of all rows. CASCADE deletes no rows of other tables."""
    position = reader.position
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    if reader.peek(1):
        reader.accept("ONLY")
    table = reader.object_name("the table")
    restart = reader.position if reader.accept("RESTART", "IDENTITY") else None
    if restart is None:
        reader.accept("CONTINUE", "IDENTITY")
    if not reader.accept("CASCADE"):
        reader.accept("RESTRICT")
    return Delete(
        sql=reader.sql,
        position=position,
        table=table,
        alias=None,
        where=None,
        parameters=reader.parameter_count,
        restart=restart,
    )
