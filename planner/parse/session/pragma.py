"""PRAGMA: the forms that have another statement here."""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError
from runnel.planner.parse.query.query import parse_query
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.settings import parse_set
from runnel.planner.parse.syntax import NoEffect, Query, Show, Statement
from runnel.planner.parse.tokens import like, tokenize

_QUERIES = {
    "SHOW_TABLES": 'SELECT name FROM "show tables" ORDER BY name',
    "DATABASE_LIST": (
        "SELECT 0 AS seq, database_name AS name, path AS file FROM information_schema.databases"
    ),
    "VERSION": "SELECT version() AS library_version",
    "FUNCTIONS": "SELECT * FROM duckdb_functions()",
}
_OF_TABLE = {"TABLE_INFO": "pragma_table_info", "SHOW": "pragma_show"}
_REMEDIES: dict[str, str] = {
    "DATABASE_SIZE": "SHOW memory_limit has the limit of memory; the size of a directory or a "
    "DuckDB file is the size of its files",
    "STORAGE_INFO": "use DESCRIBE and SUMMARIZE",
    "INDEX_LIST": "read FROM duckdb_constraints() and FROM duckdb_indexes()",
    "INDEX_INFO": "read FROM duckdb_constraints() and FROM duckdb_indexes()",
    "FOREIGN_KEY_LIST": "write FROM duckdb_constraints()",
    "PLATFORM": "read version()",
    "IMPORT_DATABASE": "COPY each table FROM its file",
}
_WITHOUT_EFFECT = frozenset(
    (
        "ENABLE_PROGRESS_BAR DISABLE_PROGRESS_BAR ENABLE_PRINT_PROGRESS_BAR "
        "DISABLE_PRINT_PROGRESS_BAR ENABLE_OBJECT_CACHE DISABLE_OBJECT_CACHE DISABLE_PROFILING "
        "ENABLE_OPTIMIZER FORCE_CHECKPOINT ENABLE_CHECKPOINT_ON_SHUTDOWN"
    ).split()
)
_KNOWN = (
    "use SET name = value for a setting, DESCRIBE t or PRAGMA table_info('t') for the columns of a "
    "table, and SHOW TABLES"
)


def parse_pragma(reader: StatementReader) -> Statement:
    """PRAGMA {table_info(t) | show_tables | database_list | version | name = value | …}"""
    position = reader.position
    pragma = reader.next()
    word = reader.peek()
    if word in _OF_TABLE and reader.peek(1) == "(":
        return _of_table(reader, pragma)
    if reader.peek(1) == "=":
        return _setting(reader, pragma)
    if word in _QUERIES and reader.peek(1) in ("", "("):
        reader.next()
        if reader.accept("("):
            reader.expect(")")
        return _query(reader, pragma, _QUERIES[word])
    if word == "SHOW_TABLES_EXPANDED":
        reader.next()
        return Show(sql=reader.sql, position=position, what="all tables")
    if word in _WITHOUT_EFFECT and reader.peek(1) == "":
        reader.next()
        return NoEffect(sql=reader.sql, position=position)
    name = f"PRAGMA {word.lower()}" if word else "PRAGMA"
    if word.startswith(("ENABLE_", "DISABLE_", "VERIFY_", "FORCE_")):
        hint = "it changes no result: leave it out"
    else:
        hint = _REMEDIES.get(word, _KNOWN)
    raise NotSupportedError(
        f"{name} is not supported",
        hint=hint,
        position=position if reader.at_end else reader.position,
    )


def _of_table(reader: StatementReader, pragma: Token) -> Query:
    """{table_info | show}({'t' | t})"""
    function = _OF_TABLE[reader.peek()]
    reader.next()
    reader.expect("(")
    name = reader.next().text if reader.at_string else reader.object_name("a table").text
    reader.expect(")")
    quoted = name.replace("'", "''")
    return _query(reader, pragma, f"SELECT * FROM {function}('{quoted}')")


def _setting(reader: StatementReader, pragma: Token) -> Statement:
    """name = value, which is SET."""
    tokens = [like(pragma, TokenType.SET, "SET"), *reader.tokens[reader.index :]]
    reader.index = len(reader.tokens)
    inner = reader.of(tokens)
    statement = parse_set(inner)
    inner.finish()
    return statement


def _query(reader: StatementReader, pragma: Token, text: str) -> Query:
    """A query whose tokens have the position of PRAGMA."""
    written = [like(pragma, token.token_type, token.text) for token in tokenize(text)]
    parsed = parse_query(written, reader.sql, reader.parameters)
    return Query(
        sql=reader.sql,
        position=reader.position,
        expression=parsed.tree,
        text=reader.sql,
        parameters=0,
    )
