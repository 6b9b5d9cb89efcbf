"""A text of SQL as a list of statements, and the tables that a statement reads. Loaded on first
use: few programs read their own statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from sqlglot import exp

from runnel.errors import InterfaceError, Position, ProgrammingError, as_written
from runnel.planner.parse.parameters import parameters_of
from runnel.planner.parse.statement import parse
from runnel.planner.parse.tokens import has_tokens
from runnel.results.outcome_text import first_word
from runnel.results.scripts import statements_of


class StatementType(Enum):
    """The kind of a statement, by DuckDB's names."""

    __module__ = "runnel"

    INVALID = "invalid"
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    CREATE = "create"
    DELETE = "delete"
    PREPARE = "prepare"
    EXECUTE = "execute"
    ALTER = "alter"
    TRANSACTION = "transaction"
    COPY = "copy"
    EXPLAIN = "explain"
    DROP = "drop"
    PRAGMA = "pragma"
    VACUUM = "vacuum"
    CALL = "call"
    SET = "set"
    ATTACH = "attach"
    DETACH = "detach"
    MERGE_INTO = "merge into"


_OF_WORD = {
    **dict.fromkeys(
        ("SELECT", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "SUMMARIZE", "PIVOT", "UNPIVOT"),
        StatementType.SELECT,
    ),
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "END"), StatementType.TRANSACTION),
    **dict.fromkeys(("SET", "RESET", "USE"), StatementType.SET),
    **dict.fromkeys(("ANALYZE", "VACUUM"), StatementType.VACUUM),
    **dict.fromkeys(("CALL", "CHECKPOINT"), StatementType.CALL),
    "DEALLOCATE": StatementType.DROP,
    "TRUNCATE": StatementType.DELETE,
    "COMMENT": StatementType.ALTER,
    "SINK": StatementType.INSERT,
    "MERGE": StatementType.MERGE_INTO,
}
"""The kinds of statements whose first word is not the name of their kind."""


class ExtractedStatement(str):
    """A statement of a text: a str, so `execute` accepts it.

    type: its kind.
    named_parameters: the names of its parameters; numbers, from "1", if they have none.
    """

    __slots__ = ("named_parameters", "type")
    __module__ = "runnel"
    type: StatementType
    named_parameters: set[str]

    @property
    def query(self) -> str:
        """The text of the statement."""
        return str(self)


def extracted(sql: str) -> list[ExtractedStatement]:
    """The statements of a text, without running them. ParserException if one has wrong syntax, with
    its position in the whole text."""
    if not isinstance(sql, str):
        raise InterfaceError(f"a statement is given as {type(sql).__name__}, not as str")
    return [_statement(sql, *item) for item in statements_of(sql) if has_tokens(item[1])]


def _statement(sql: str, begin: int, text: str) -> ExtractedStatement:
    try:
        parsed = parse(text)
        parameters = parameters_of(text)
    except ProgrammingError as error:
        error.sql = sql
        if (found := error.position) is not None:
            error.position = Position.at(sql, begin + found.offset, found.length)
        raise
    made = ExtractedStatement(text.strip())
    word = first_word(text)
    if word in ("WITH", "(", ""):
        word = type(parsed).__name__.upper()
    kind = StatementType.__members__.get(word, StatementType.INVALID)
    made.type = _OF_WORD.get(word, StatementType.SELECT if word == "QUERY" else kind)
    names = parameters.names or map(str, range(1, parameters.count + 1))
    made.named_parameters = set(names)
    return made


def table_names(sql: str, *, qualified: bool = False) -> set[str]:
    """The names of the tables, views and files that a statement reads.

    qualified: with the names of their schemas, and in quotes where SQL needs them.
    """
    trees = list(_trees(parse(sql)))
    common = {item.alias.lower() for tree in trees for item in tree.find_all(exp.CTE)}
    found = set()
    for tree in trees:
        for table in tree.find_all(exp.Table):
            path = [part for part in (table.text("catalog"), table.text("db")) if part]
            if table.name and (path or table.name.lower() not in common):
                named = ".".join(map(as_written, (*path, table.name)))
                found.add(named if qualified else table.name)
    return found


def _trees(value: Any) -> Iterator[exp.Expr]:
    """The syntax trees of a statement and of the statements within it."""
    if isinstance(value, exp.Expr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _trees(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from _trees(getattr(value, item.name))
