"""INSERT, SINK, UPDATE, DELETE."""

from __future__ import annotations

from runnel.connector import WriteMode
from runnel.errors import NotSupportedError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import ColumnAssignment, Delete, Insert, Name, Update


def parse_insert(reader: StatementReader) -> Insert:
    """{INSERT | SINK} INTO t [(columns)] query"""
    position = reader.position
    mode = WriteMode.SINK if reader.accept("SINK") else WriteMode.INSERT
    if mode is WriteMode.INSERT:
        reader.expect("INSERT")
        if reader.peek() == "OR":
            raise NotSupportedError(
                "INSERT OR is not supported",
                hint="use SINK INTO, which inserts or replaces",
                position=reader.position,
            )
    reader.expect("INTO")
    table = reader.object_name("the target")
    columns = None
    if reader.peek() == "(" and reader.peek(1) not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        columns = reader.names("a column")
    if reader.accept("DEFAULT", "VALUES"):
        raise NotSupportedError(
            "DEFAULT VALUES is not supported", hint="list the columns and values", position=position
        )
    if reader.peek() not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        raise reader.error("a query or VALUES")
    return Insert(
        sql=reader.sql,
        position=position,
        table=table,
        columns=columns,
        query=reader.query(),
        mode=mode,
    )


def parse_update(reader: StatementReader) -> Update:
    """UPDATE t [[AS] a] SET c = expression, … [WHERE condition]"""
    position = reader.position
    reader.expect("UPDATE")
    table = reader.object_name("the target")
    alias = _alias(reader, "SET")
    reader.expect("SET")
    assignments: list[ColumnAssignment] = []
    while True:
        column = reader.name("a column")
        if reader.peek() == ".":
            raise NotSupportedError(
                "a qualified column in SET is not supported",
                hint="write its name alone",
                position=column.position,
            )
        reader.unique(column, [item.column for item in assignments], "column")
        reader.expect("=")
        assignments.append(
            ColumnAssignment(column, reader.expression(",", "WHERE", "FROM", "RETURNING"))
        )
        if not reader.accept(","):
            break
    if reader.peek() in ("FROM", "RETURNING"):
        raise NotSupportedError(
            f"UPDATE … {reader.peek()} is not supported", position=reader.position
        )
    where = reader.expression("RETURNING") if reader.accept("WHERE") else None
    return Update(
        sql=reader.sql,
        position=position,
        table=table,
        alias=alias,
        assignments=tuple(assignments),
        where=where,
        parameters=len(reader.parameters),
    )


def parse_delete(reader: StatementReader) -> Delete:
    """DELETE FROM t [[AS] a] [WHERE condition]"""
    position = reader.position
    reader.expect("DELETE", "FROM")
    table = reader.object_name("the target")
    alias = _alias(reader, "WHERE")
    if reader.peek() in ("USING", "RETURNING"):
        raise NotSupportedError(
            f"DELETE … {reader.peek()} is not supported", position=reader.position
        )
    where = reader.expression("RETURNING") if reader.accept("WHERE") else None
    return Delete(
        sql=reader.sql,
        position=position,
        table=table,
        alias=alias,
        where=where,
        parameters=len(reader.parameters),
    )


def _alias(reader: StatementReader, following: str) -> Name | None:
    if reader.accept("AS"):
        return reader.name("an alias")
    if reader.at_end or reader.peek() in (following, "USING", "RETURNING"):
        return None
    return reader.name("an alias")
