"""COPY … TO and COPY … FROM."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import QUERY_WORDS, StatementReader
from runnel.planner.parse.syntax import Name, Query, Statement
from runnel.planner.parse.tokens import like

_FORMATS = ("CSV", "JSON", "PARQUET")
_TRUTHS = ("TRUE", "FALSE", "ON", "OFF", "1", "0", "=", "MATCH", "AUTO")

OptionValue = str | tuple[str, ...]
"""The value of an option: a text, or a list of texts."""


@frozen(kw_only=True)
class CopyTo(Statement):
    """COPY {table [(columns)] | 'file' | (query)} TO 'file' [options].

    query: the rows.
    target: the path of the file.
    options: names and values as they are written; the value of a switch is "".
    """

    query: Query
    target: Name
    options: tuple[tuple[Name, OptionValue], ...]

    @property
    def parameters(self) -> int:
        """The number of parameters of the query."""
        return self.query.parameters


@frozen(kw_only=True)
class CopyFrom(Statement):
    """COPY table [(columns)] FROM 'file' [options].

    table, columns: what is written; without columns: all of them.
    source: the path of the files.
    options: as in `CopyTo`.
    """

    table: Name
    columns: tuple[Name, ...] | None
    source: Name
    options: tuple[tuple[Name, OptionValue], ...]


def parse_copy(reader: StatementReader) -> CopyTo | CopyFrom:
    """COPY {table [(columns)] | 'file' | (query)} TO 'file' [[WITH] (name value, …)], or COPY
    table [(columns)] FROM 'file' [[WITH] (name value, …)]"""
    position = reader.position
    reader.expect("COPY")
    start = reader.index
    is_query = reader.peek() == "(" and reader.peek(1) in (*QUERY_WORDS, "(")
    depth = 0
    while not reader.at_end and not (depth == 0 and reader.peek() in ("TO", "FROM")):
        depth += {"(": 1, ")": -1}.get(reader.next().text, 0)
    end = reader.index
    if reader.peek() == "FROM" and not is_query:
        return _copy_from(reader, reader.tokens[start:end], position)
    reader.expect("TO")
    if reader.peek() in ("STDOUT", "PROGRAM"):
        raise NotSupportedError(
            f"COPY … TO {reader.peek()} is not supported",
            hint="write COPY … TO 'file', or fetch the rows; the shell prints them",
            position=reader.position,
        )
    target = reader.string("the path of a file in quotes")
    options = copy_options(reader)
    reader.finish()
    query = _query(reader, start, end, is_query)
    return CopyTo(
        sql=reader.sql, position=position, query=query, target=target, options=tuple(options)
    )


def _copy_from(reader: StatementReader, target: Sequence[Token], position: Position) -> CopyFrom:
    """The rest of COPY FROM; `target` has the tokens of the table and its columns."""
    if not target:
        raise ProgrammingError("COPY … FROM needs a table", position=reader.position)
    inner = reader.of(list(target))
    table = inner.object_name("the name of a table")
    columns = inner.names("a column") if inner.peek() == "(" else None
    inner.finish()
    reader.expect("FROM")
    if reader.peek() in ("STDIN", "PROGRAM"):
        raise NotSupportedError(
            f"COPY … FROM {reader.peek()} is not supported",
            hint="write COPY … FROM 'file', or insert rows by executemany; the shell reads the "
            "rows of a dump: runnel -f dump.sql",
            position=reader.position,
        )
    source = reader.string("the path of a file in quotes")
    options = copy_options(reader)
    if reader.peek() == "WHERE":
        raise NotSupportedError(
            "COPY … FROM with WHERE is not supported",
            hint="write INSERT INTO t SELECT … FROM 'file' WHERE …",
            position=reader.position,
        )
    reader.finish()
    return CopyFrom(
        sql=reader.sql,
        position=position,
        table=table,
        columns=columns,
        source=source,
        options=tuple(options),
    )


def _query(reader: StatementReader, start: int, end: int, is_query: bool) -> Query:
    """The query of the tokens from `start` to `end`: in parentheses, or the name of a table or, in
    quotes, of a file."""
    rows = list(reader.tokens[start:end])
    if not rows:
        raise ProgrammingError(
            "COPY needs a table, or a query in parentheses", position=reader.position
        )
    if is_query:
        return reader.of(rows[1:-1]).query()
    inner = reader.of(rows)
    if inner.at_string:
        inner.next()
    else:
        inner.object_name("the name of a table")
    columns = inner.names("a column") if inner.peek() == "(" else ()
    inner.finish()
    first = rows[0]
    listed, table = [like(first, TokenType.STAR, "*")], rows
    if columns:
        start_of_columns = inner.index - 2 * len(columns) - 1
        listed, table = rows[start_of_columns + 1 : -1], rows[:start_of_columns]
    tokens = [like(first, TokenType.SELECT, "SELECT"), *listed]
    tokens += [like(first, TokenType.FROM, "FROM"), *table]
    return reader.of(tokens).query()


def copy_options(reader: StatementReader) -> list[tuple[Name, OptionValue]]:
    """`(name value, …)` as in DuckDB and PostgreSQL; a name without a value is a switch."""
    reader.accept("WITH")
    options: list[tuple[Name, OptionValue]] = []
    if not reader.accept("("):
        while not reader.at_end and reader.peek() != "WHERE":
            options.append(_option(reader, options))
        return options
    while not reader.accept(")"):
        if options:
            reader.expect(",")
        options.append(_option(reader, options))
    return options


def _option(
    reader: StatementReader, earlier: list[tuple[Name, OptionValue]]
) -> tuple[Name, OptionValue]:
    name = reader.name("an option")
    is_switch = name.text.upper() == "HEADER" and _next_text(reader) not in _TRUTHS
    if name.text.upper() in _FORMATS or (is_switch and not reader.at_string):
        return name, ""
    reader.unique(name, [item for item, _ in earlier], "option")
    if reader.at_end or reader.peek() in (",", ")"):
        return name, ""
    if not reader.accept("="):
        reader.accept("AS")
    for start, end in (("(", ")"), ("[", "]")):
        if reader.accept(start):
            words: list[str] = []
            while not reader.accept(end):
                if words:
                    reader.expect(",")
                words.append(reader.next().text)
            return name, tuple(words)
    return name, reader.next().text


def _next_text(reader: StatementReader) -> str:
    """The next token in upper case, also a number; "" at the end."""
    return "" if reader.at_end else reader.tokens[reader.index].text.upper()
