"""CREATE, ALTER and DROP MATERIALIZED VIEW."""

from __future__ import annotations

from typing import ClassVar

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import (
    Command,
    DropObject,
    Name,
    OptionClause,
    Query,
    Statement,
)
from runnel.planner.parse.tokens import read_options

KIND = "materialized view"
_ACTIONS = ("SUSPEND", "RESUME", "RESTART")


@frozen(kw_only=True)
class CreateMaterializedView(Statement):
    """CREATE MATERIALIZED VIEW.

    name: the view.
    columns: new names for the query's columns; () if none are listed.
    options: the items of OPTIONS.
    query: the query after AS.
    or_replace: whether an existing view is replaced.
    if_not_exists: whether an existing view is left as it is.
    """

    name: Name
    columns: tuple[Name, ...]
    options: tuple[OptionClause, ...]
    query: Query
    or_replace: bool
    if_not_exists: bool


@frozen(kw_only=True)
class AlterMaterializedView(Command):
    """ALTER MATERIALIZED VIEW.

    name: the view.
    action: "suspend", "resume", "restart" or "options".
    options: the items of OPTIONS.
    """

    name: Name
    action: str
    options: tuple[OptionClause, ...] = ()


@frozen(kw_only=True)
class DropMaterializedView(DropObject):
    """DROP MATERIALIZED VIEW.

    is_cascading: whether views and jobs that read it are suspended.
    """

    kind: ClassVar[str] = KIND
    is_cascading: bool = False


def parse_create_view(
    reader: StatementReader, position: Position, or_replace: bool
) -> CreateMaterializedView:
    """The rest of CREATE MATERIALIZED VIEW, after VIEW: [IF NOT EXISTS] name [(column, …)]
    [OPTIONS (…)] AS query"""
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.object_name("the materialized view")
    columns = reader.names("a column") if reader.peek() == "(" else ()
    options = read_options(reader) if reader.accept("OPTIONS") else ()
    reader.expect("AS")
    query = reader.query()
    if query.parameters:
        raise ProgrammingError(
            "a materialized view can't have parameters",
            hint="write the value as a literal",
            position=Position.at(reader.sql, min(reader.parameters)),
        )
    return CreateMaterializedView(
        sql=reader.sql,
        position=position,
        name=name,
        columns=columns,
        options=options,
        query=query,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def parse_alter_view(reader: StatementReader) -> AlterMaterializedView:
    """ALTER MATERIALIZED VIEW name {SUSPEND | RESUME | RESTART | OPTIONS (…)}"""
    position = reader.position
    reader.expect("ALTER", "MATERIALIZED", "VIEW")
    name = reader.object_name("the materialized view")
    word = reader.peek()
    if word in _ACTIONS:
        reader.next()
        return AlterMaterializedView(
            sql=reader.sql, position=position, name=name, action=word.lower()
        )
    if reader.accept("OPTIONS"):
        options = read_options(reader)
        return AlterMaterializedView(
            sql=reader.sql, position=position, name=name, action="options", options=options
        )
    if word in ("AS", "RENAME"):
        hint = f"write CREATE OR REPLACE MATERIALIZED VIEW {name} AS …, which computes it again"
        if word == "RENAME":
            hint = "DROP MATERIALIZED VIEW, and create it under the other name"
        raise NotSupportedError(
            f"ALTER MATERIALIZED VIEW … {word} is not supported",
            detail="the state of the operators belongs to the query",
            hint=hint,
            position=reader.position,
        )
    raise reader.error("one of SUSPEND, RESUME, RESTART or OPTIONS")


def parse_drop_view(reader: StatementReader, position: Position) -> DropMaterializedView:
    """The rest of DROP MATERIALIZED VIEW, after VIEW: [IF EXISTS] name [CASCADE | RESTRICT]"""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.object_name("the materialized view")
    is_cascading = reader.accept("CASCADE")
    if not is_cascading:
        reader.accept("RESTRICT")
    return DropMaterializedView(
        sql=reader.sql,
        position=position,
        name=name,
        if_exists=if_exists,
        is_cascading=is_cascading,
    )
