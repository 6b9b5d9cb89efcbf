"""CREATE INDEX and DROP INDEX."""

from __future__ import annotations

from runnel.errors import NotSupportedError, Position
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import CreateIndex, DropIndex, Name

_METHODS = {"SORTED": "sorted", "BTREE": "sorted", "ART": "sorted", "HASH": "hash"}


def parse_create_index(
    reader: StatementReader, position: Position, *, is_unique: bool
) -> CreateIndex:
    """[CONCURRENTLY] [IF NOT EXISTS] [name] ON table (column, …), after CREATE [UNIQUE] INDEX."""
    if reader.peek(1) != "ON":
        reader.accept("CONCURRENTLY")
    if_not_exists = reader.accept_if_not_exists(False)
    is_unnamed = reader.peek() == "ON" and reader.peek(1) != "ON"
    name = None if is_unnamed else reader.public_name("the index")
    reader.expect("ON")
    table = reader.object_name("the table")
    method = _method(reader) if reader.accept("USING") else None
    columns = _columns(reader)
    if reader.accept("TYPE") or reader.accept("USING"):
        method = _method(reader)
    if reader.peek() in ("WHERE", "INCLUDE"):
        raise NotSupportedError(
            f"{reader.peek()} of an index is not supported",
            hint="leave it out: the index has all rows, and the columns that are listed",
            position=reader.position,
        )
    return CreateIndex(
        sql=reader.sql,
        position=position,
        name=name,
        table=table,
        columns=columns,
        method=method,
        kind=_METHODS[method or "SORTED"],
        is_unique=is_unique,
        if_not_exists=if_not_exists,
    )


def parse_drop_index(reader: StatementReader, position: Position) -> DropIndex:
    """[CONCURRENTLY] [IF EXISTS] name [ON table], after DROP INDEX."""
    if reader.peek(1) and reader.peek(1) not in (".", "ON", "CASCADE", "RESTRICT"):
        reader.accept("CONCURRENTLY")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.object_name("the index")
    table = reader.object_name("the mapping") if reader.accept("ON") else None
    if not reader.accept("CASCADE"):  # nothing depends on an index
        reader.accept("RESTRICT")
    return DropIndex(sql=reader.sql, position=position, name=name, table=table, if_exists=if_exists)


def _columns(reader: StatementReader) -> tuple[Name, ...]:
    """The columns in parentheses. Their order and the order of NULLs is one of reading, which an
    index is in both directions: ASC, DESC and NULLS change nothing."""
    reader.expect("(")
    names: list[Name] = []
    while True:
        _refuse_expression(reader, reader.peek() == "(")
        name = reader.name("a column")
        _refuse_expression(reader, reader.peek() not in (",", ")", "ASC", "DESC", "NULLS", ""))
        names.append(reader.unique(name, names, "column"))
        if not reader.accept("ASC"):
            reader.accept("DESC")
        if reader.accept("NULLS") and not reader.accept("FIRST"):
            reader.expect("LAST")
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(names)


def _refuse_expression(reader: StatementReader, is_expression: bool) -> None:
    if is_expression:
        raise NotSupportedError(
            "an index of an expression is not supported",
            hint="list columns; CREATE TABLE t (…, c AS (expression)) makes a column of one",
            position=reader.position,
        )


def _method(reader: StatementReader) -> str:
    word = reader.peek()
    if word in _METHODS:
        reader.next()
        return word
    if word == "BITMAP":
        raise NotSupportedError(
            "an index of TYPE BITMAP is not supported",
            hint="use SORTED or HASH",
            position=reader.position,
        )
    raise reader.error("one of SORTED or HASH")
