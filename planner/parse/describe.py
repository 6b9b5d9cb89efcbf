"""DESCRIBE and SUMMARIZE, of a table, a file or a query."""

from __future__ import annotations

from sqlglot import TokenType

from runnel.errors import Position
from runnel.planner.parse.reader import QUERY_WORDS, StatementReader
from runnel.planner.parse.syntax import Describe, NamePattern, Query, Show, Summarize
from runnel.planner.parse.tokens import like


def _function(reader: StatementReader, position: Position) -> Show:
    """FUNCTION [EXTENDED] name: the row of SHOW FUNCTIONS."""
    reader.expect("FUNCTION")
    if reader.index + 1 < len(reader.tokens):
        reader.accept("EXTENDED")
    name = reader.name("a function").text
    pattern = NamePattern(name, True, False)
    return Show(sql=reader.sql, position=position, what="functions", like=pattern)


def parse_describe(reader: StatementReader) -> Describe | Show | Query:
    """{DESCRIBE | DESC} [[EXTENDED] [TABLE] name | FUNCTION name | 'file' | query
    | {CATALOG | DATABASE | SCHEMA | JOB} name]"""
    position = reader.position
    reader.next()
    if reader.peek() == "EXTENDED" and reader.index + 1 < len(reader.tokens):
        reader.next()
    if reader.peek() == "TABLE" and (reader.peek(1) or reader.index + 1 < len(reader.tokens)):
        reader.next()
    if reader.at_end:
        return Describe(sql=reader.sql, position=position)
    if reader.peek() == "FUNCTION" and reader.index + 1 < len(reader.tokens):
        return _function(reader, position)
    is_named = reader.index + 1 < len(reader.tokens) and reader.peek(1) != "."
    if is_named and reader.peek() in ("JOB", "CATALOG", "DATABASE", "SCHEMA"):
        # Loaded on first use: most descriptions are of tables.
        from runnel.planner.parse.flink.inspections import parse_description

        return parse_description(reader, position)
    is_schema_table = reader.peek() == "INFORMATION_SCHEMA" and reader.peek(1) == "."
    if reader.at_string or is_schema_table or _is_call(reader):
        return Describe(sql=reader.sql, position=position, query=_rows_of(reader))
    if reader.peek() in QUERY_WORDS:
        return Describe(sql=reader.sql, position=position, query=reader.query())
    return Describe(sql=reader.sql, position=position, name=reader.object_name("a table"))


def parse_summarize(reader: StatementReader) -> Summarize:
    """SUMMARIZE {[TABLE] name | 'file' | query}"""
    position = reader.position
    reader.expect("SUMMARIZE")
    if reader.at_end:
        raise reader.error("a table, a file or a query")
    if reader.peek() == "TABLE" and reader.index + 1 < len(reader.tokens):
        reader.next()
    is_query = reader.peek() in QUERY_WORDS
    query = reader.query() if is_query else _rows_of(reader)
    return Summarize(sql=reader.sql, position=position, query=query)


def _is_call(reader: StatementReader) -> bool:
    return reader.peek(1) == "(" and reader.peek() not in QUERY_WORDS


def _rows_of(reader: StatementReader) -> Query:
    """The next tokens, an item of FROM, as the query `FROM item`."""
    word = like(reader.tokens[reader.index], TokenType.FROM, "FROM")
    inner = reader.of([word, *reader.tokens[reader.index :]])
    reader.index = len(reader.tokens)
    return inner.query()
