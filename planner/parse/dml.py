"""INSERT, SINK, UPDATE, DELETE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from runnel.connector import WriteMode
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.reader import QUERY_WORDS, StatementReader
from runnel.planner.parse.syntax import (
    ColumnAssignment,
    ConflictClause,
    Delete,
    Insert,
    Name,
    Update,
)


def parse_insert(reader: StatementReader) -> Insert:
    """{INSERT {[OR {REPLACE | IGNORE}] INTO | OVERWRITE} | SINK INTO} t [AS a]
    [PARTITION (column = value, …)] [(columns) | BY {NAME | POSITION}] [OVERRIDING SYSTEM VALUE]
    {query | DEFAULT VALUES} [ON CONFLICT …] [RETURNING …]"""
    position = reader.position
    mode = WriteMode.SINK if reader.accept("SINK") else WriteMode.INSERT
    conflict, replaces = None, False
    if mode is WriteMode.INSERT:
        reader.expect("INSERT")
        if reader.accept("OR"):
            conflict = ConflictClause((), None, None, reader.position)
            replaces = reader.accept("REPLACE")
            if not replaces and not reader.accept("IGNORE"):
                raise reader.error("one of REPLACE or IGNORE")
    overwrites = mode is WriteMode.INSERT and conflict is None and reader.accept("OVERWRITE")
    if not overwrites:
        reader.expect("INTO")
    table = reader.object_name("the target")
    alias = reader.name("an alias") if reader.accept("AS") else None
    columns = None
    partition = _partition(reader) if reader.peek() == "PARTITION" else ()
    if reader.peek() == "(" and (reader.peek(1) not in QUERY_WORDS or reader.peek(2) in (",", ")")):
        columns = reader.names("a column")
    by_name = reader.accept("BY", "NAME")
    if not by_name:
        reader.accept("BY", "POSITION")
    overrides = _overrides(reader) if reader.peek() == "OVERRIDING" else False
    has_default_values = reader.accept("DEFAULT", "VALUES")
    if has_default_values:
        query = reader.default_values()
    elif reader.peek() in QUERY_WORDS:
        query = reader.query_until(("ON", "CONFLICT"), ("RETURNING",))
    else:
        raise reader.error("a query or VALUES")
    if reader.peek() == "ON" and conflict is not None:
        raise reader.error("the end of the statement, as OR REPLACE or OR IGNORE is written")
    conflict = _conflict(reader) if reader.peek() == "ON" else conflict
    return Insert(
        sql=reader.sql,
        position=position,
        table=table,
        columns=columns,
        query=replace(query, parameters=reader.parameter_count),
        mode=mode,
        alias=alias,
        conflict=None if replaces else conflict,
        replaces=replaces,
        by_name=by_name,
        has_default_values=has_default_values,
        returning=returning(reader, alias or table),
        overwrites=overwrites,
        partition=partition,
        overrides_identity=overrides,
    )


def _overrides(reader: StatementReader) -> bool:
    """Reads OVERRIDING SYSTEM VALUE."""
    position = reader.position
    reader.expect("OVERRIDING")
    if reader.accept("USER"):
        raise NotSupportedError(
            "OVERRIDING USER VALUE is not supported",
            hint="leave the identity column out of the list: INSERT INTO t (other columns) …",
            position=position,
        )
    reader.expect("SYSTEM", "VALUE")
    return True


def _partition(reader: StatementReader) -> tuple[ColumnAssignment, ...]:
    """Reads Flink's PARTITION (column = value, column, …). A column without a value has the one of
    the row."""
    reader.expect("PARTITION", "(")
    found: list[ColumnAssignment] = []
    while True:
        column = reader.unique(reader.name("a column"), [item.column for item in found], "column")
        if reader.accept("="):
            found.append(ColumnAssignment(column, reader.expression(",", ")")))
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(found)


def _conflict(reader: StatementReader) -> ConflictClause:
    """ON CONFLICT [(columns)] DO {NOTHING | UPDATE SET … [WHERE condition]}"""
    position = reader.position
    reader.expect("ON", "CONFLICT")
    if reader.accept("ON", "CONSTRAINT"):
        raise NotSupportedError(
            "ON CONFLICT ON CONSTRAINT is not supported",
            hint="list the columns of the key: ON CONFLICT (a, b)",
            position=position,
        )
    columns = reader.names("a column") if reader.peek() == "(" else ()
    reader.expect("DO")
    if reader.accept("NOTHING"):
        return ConflictClause(columns, None, None, position)
    reader.expect("UPDATE")
    reader.expect("SET")
    assignments = update_assignments(reader, "WHERE", "RETURNING")
    where = reader.expression("RETURNING") if reader.accept("WHERE") else None
    return ConflictClause(columns, assignments, where, position)


def update_assignments(reader: StatementReader, *ends: str) -> tuple[ColumnAssignment, ...]:
    """Reads `column = expression, …` and `(columns) = (expressions), …` after SET, up to one of the
    words."""
    assignments: list[ColumnAssignment] = []
    while True:
        if reader.peek() == "(":
            _assign_several(reader, assignments)
            if not reader.accept(","):
                return tuple(assignments)
            continue
        column = reader.name("a column")
        if reader.peek() == ".":
            raise NotSupportedError(
                "a qualified column in SET is not supported",
                hint="write its name alone",
                position=column.position,
            )
        reader.unique(column, [item.column for item in assignments], "column")
        reader.expect("=")
        assignments.append(ColumnAssignment(column, reader.expression(",", *ends)))
        if not reader.accept(","):
            return tuple(assignments)


def _assign_several(reader: StatementReader, assignments: list[ColumnAssignment]) -> None:
    """Reads `(a, b) = [ROW] (x, y)`, and adds the assignments."""
    columns = reader.names("a column")
    reader.expect("=")
    reader.accept("ROW")
    position = reader.position
    reader.expect("(")
    if reader.peek() in ("SELECT", "WITH", "VALUES", "FROM"):
        raise NotSupportedError(
            "a subquery for several columns in SET is not supported",
            hint="write UPDATE t SET a = s.a, b = s.b FROM (SELECT …) AS s WHERE …",
            position=position,
        )
    values = [reader.expression(",", ")")]
    while reader.accept(","):
        values.append(reader.expression(",", ")"))
    reader.expect(")")
    if len(values) != len(columns):
        raise ProgrammingError(
            f"SET has {len(columns)} columns and {len(values)} values", position=position
        )
    for column, value in zip(columns, values, strict=True):
        reader.unique(column, [item.column for item in assignments], "column")
        assignments.append(ColumnAssignment(column, value))


def returning(reader: StatementReader, table: Name) -> Any | None:
    """The query of RETURNING over the changed rows; None without RETURNING."""
    return reader.select_items(table.local) if reader.accept("RETURNING") else None


def parse_update(reader: StatementReader) -> Update:
    """UPDATE t [[AS] a] SET c = expression, … [FROM …] [WHERE condition] [RETURNING …]"""
    position = reader.position
    reader.expect("UPDATE")
    table = reader.object_name("the target")
    alias = target_alias(reader, "SET")
    reader.expect("SET")
    assignments = update_assignments(reader, "WHERE", "FROM", "RETURNING")
    source = reader.from_items(("WHERE",), ("RETURNING",)) if reader.accept("FROM") else None
    where = reader.expression("RETURNING") if reader.accept("WHERE") else None
    return Update(
        sql=reader.sql,
        position=position,
        table=table,
        alias=alias,
        assignments=assignments,
        where=where,
        parameters=reader.parameter_count,
        source=source,
        returning=returning(reader, alias or table),
    )


def parse_delete(reader: StatementReader) -> Delete:
    """DELETE FROM t [[AS] a] [USING …] [WHERE condition] [RETURNING …]"""
    position = reader.position
    reader.expect("DELETE", "FROM")
    table = reader.object_name("the target")
    alias = target_alias(reader, "WHERE")
    source = reader.from_items(("WHERE",), ("RETURNING",)) if reader.accept("USING") else None
    where = reader.expression("RETURNING") if reader.accept("WHERE") else None
    return Delete(
        sql=reader.sql,
        position=position,
        table=table,
        alias=alias,
        where=where,
        parameters=reader.parameter_count,
        source=source,
        returning=returning(reader, alias or table),
    )


def target_alias(reader: StatementReader, following: str) -> Name | None:
    """The alias of the target, before one of the words that may follow it."""
    if reader.accept("AS"):
        return reader.name("an alias")
    if reader.at_end or reader.peek() in (following, "USING", "RETURNING"):
        return None
    return reader.name("an alias")


def is_default(tree: Any) -> bool:
    """Whether a written value is the word DEFAULT."""
    return isinstance(tree, exp.Column | exp.Var) and _word(tree) == "DEFAULT"


def _word(tree: Any) -> str:
    """The only word of a tree in upper case; "" for a quoted name."""
    name = tree.this if isinstance(tree, exp.Column) else tree
    if isinstance(name, exp.Identifier) and (name.args.get("quoted") or tree.text("table")):
        return ""
    return str(name.this).upper()
