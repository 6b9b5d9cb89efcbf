"""MERGE INTO."""

from __future__ import annotations

from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import Position, ProgrammingError
from runnel.planner.parse.dml import returning, target_alias, update_assignments
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import ColumnAssignment, Name, Statement


@frozen
class MergeBranch:
    """WHEN … THEN … of MERGE.

    kind: "matched", "by target" (NOT MATCHED) or "by source".
    condition: the condition after AND, as a sqlglot tree; None: true.
    action: "insert", "update", "delete" or "nothing".
    columns: the listed columns of INSERT; None: all.
    values: the values of INSERT, as sqlglot trees; None: the columns of the source by position.
    is_by_name: whether the columns of the source are assigned by name.
    assignments: the items of SET; None with `is_by_name` or without SET.
    position: of WHEN.
    """

    kind: str
    condition: Any | None
    action: str
    position: Position
    columns: tuple[Name, ...] | None = None
    values: tuple[Any, ...] | None = None
    is_by_name: bool = False
    assignments: tuple[ColumnAssignment, ...] | None = None


@frozen(kw_only=True)
class MergeInto(Statement):
    """MERGE INTO.

    table: the target.
    alias: its name within the statement; None: its own name.
    source: the item after USING, as a sqlglot SELECT over it.
    on: the condition after ON, as a sqlglot tree; None with `using`.
    using: the columns of USING (…).
    branches: the branches, in order.
    returning: the query of RETURNING; None: there is none.
    parameters: the number of parameters in `sql`.
    """

    table: Name
    alias: Name | None
    source: Any
    on: Any | None
    using: tuple[Name, ...]
    branches: tuple[MergeBranch, ...]
    returning: Any | None
    parameters: int


def parse_merge(reader: StatementReader) -> MergeInto:
    """MERGE INTO t [AS a] USING source ON condition WHEN … [RETURNING …]"""
    position = reader.position
    reader.expect("MERGE")
    reader.expect("INTO")
    table = reader.object_name("the target")
    alias = target_alias(reader, "USING")
    reader.expect("USING")
    source = reader.from_items(("ON",), ("USING",))
    on, using = None, tuple[Name, ...]()
    if reader.accept("ON"):
        on = reader.expression("WHEN")
    else:
        reader.expect("USING")
        using = reader.names("a column")
    branches = []
    while reader.peek() == "WHEN":
        branches.append(_branch(reader))
    if not branches:
        raise reader.error("WHEN")
    return MergeInto(
        sql=reader.sql,
        position=position,
        table=table,
        alias=alias,
        source=source,
        on=on,
        using=using,
        branches=tuple(branches),
        returning=returning(reader, alias or table),
        parameters=reader.parameter_count,
    )


def _branch(reader: StatementReader) -> MergeBranch:
    position = reader.position
    reader.expect("WHEN")
    kind = "matched"
    if reader.accept("NOT"):
        reader.expect("MATCHED")
        kind = "by target"
        if reader.accept("BY"):
            if reader.accept("SOURCE"):
                kind = "by source"
            else:
                reader.expect("TARGET")
    else:
        reader.expect("MATCHED")
    condition = reader.expression("THEN") if reader.accept("AND") else None
    reader.expect("THEN")
    word = reader.peek()
    allowed = ("INSERT", "DO") if kind == "by target" else ("UPDATE", "DELETE", "DO")
    if word not in allowed:
        error = reader.error(f"one of {', '.join(allowed)}")
        if word == "INSERT":
            error.hint = "INSERT is for WHEN NOT MATCHED"
        raise error
    if reader.accept("DO"):
        reader.expect("NOTHING")
        return MergeBranch(kind, condition, "nothing", position)
    if reader.accept("DELETE"):
        return MergeBranch(kind, condition, "delete", position)
    if reader.accept("UPDATE"):
        return _update(reader, kind, condition, position)
    return _insert(reader, condition, position)


def _update(
    reader: StatementReader, kind: str, condition: Any | None, position: Position
) -> MergeBranch:
    if reader.accept("SET", "*") or not reader.accept("SET"):
        is_by_name = reader.accept("BY", "NAME") or reader.previous() != "*"
        if kind == "by source":
            raise ProgrammingError(
                "UPDATE of rows without a match needs SET column = value",
                position=position,
            )
        return MergeBranch(kind, condition, "update", position, is_by_name=is_by_name)
    assignments = update_assignments(reader, "WHEN", "RETURNING")
    return MergeBranch(kind, condition, "update", position, assignments=assignments)


def _insert(reader: StatementReader, condition: Any | None, position: Position) -> MergeBranch:
    reader.expect("INSERT")
    is_by_name = reader.accept("BY", "NAME")
    columns = values = None
    if not reader.accept("*"):
        if reader.accept("DEFAULT", "VALUES"):
            return MergeBranch("by target", condition, "insert", position, (), ())
        if reader.peek() == "(":
            columns = reader.names("a column")
        if reader.accept("VALUES"):
            reader.expect("(")
            found = [reader.expression(",", ")")]
            while reader.accept(","):
                found.append(reader.expression(",", ")"))
            reader.expect(")")
            values = tuple(found)
    return MergeBranch("by target", condition, "insert", position, columns, values, is_by_name)
