"""The composition of a relation's query from other queries and from expressions."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import Any

from runnel.errors import InterfaceError, as_written
from runnel.planner.parse.parameters import parameters_of
from runnel.results.calls import RelationQuery
from runnel.results.outcome_text import first_word
from runnel.results.relational.expressions import Expression

_REPEATABLE = frozenset(
    "SELECT FROM WITH VALUES TABLE SHOW DESCRIBE SUMMARIZE PIVOT UNPIVOT (".split()
)
AUTOMATIC = "relation"
"""The name of a relation without an alias."""

_TOKEN = re.compile(r"""--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*"|\w+|[()]""", re.DOTALL)
"""The tokens of a statement as far as `_writes_after_with` reads it."""

_numbers = count(1)


def repeatable(query: RelationQuery) -> bool:
    """Whether a relation's query can run again without an effect: it writes nothing."""
    word = first_word(query.sql)
    if word == "WITH":
        return not _writes_after_with(query.sql)
    return word in _REPEATABLE or query.sql.lstrip().startswith("(")


def _writes_after_with(sql: str) -> bool:
    """Whether the statement after the WITH clause is an INSERT."""
    depth = 0
    for word in map(str.upper, _TOKEN.findall(sql)):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("SELECT", "FROM", "VALUES", "TABLE"):
            return False
        if depth == 0 and word in ("INSERT", "SINK"):
            return True
    return False


def query_of(cursor: Any) -> RelationQuery:
    """The relation's query; InterfaceError if a statement without rows, or one that writes, made
    it."""
    query: RelationQuery | None = cursor._query
    if query is None or not repeatable(query):
        raise InterfaceError(
            "the statement is no query: it ran, and does not run again",
            hint="relations are made by con.sql('SELECT …'), con.table('t'), con.values(…)",
        )
    return query


def text_of(query: RelationQuery) -> str:
    return query.sql.strip().rstrip(";")


def source_of(query: RelationQuery, alias: str = "") -> str:
    """The items of FROM over a relation."""
    if query.source is not None and not alias:
        return query.source
    name = as_written(alias or query.alias or AUTOMATIC)
    return f"(\n{text_of(query)}\n) AS {name}"


def from_of(query: RelationQuery) -> str:
    return source_of(query) + (f" WHERE {query.condition}" if query.condition else "")


def related(cursor: Any, query: RelationQuery) -> Any:
    """The relation of a query on the connection of the cursor. It is planned."""
    # The frames that its text adds are not the ones of the relations it is composed of.
    query = replace(query, frames=dict(query.frames))
    made = cursor._connection.cursor()
    made._check_open()
    made._sql = query.sql
    prepare = getattr(made._database, "prepare", None)
    if prepare is not None:
        made._plan(query, prepare)
    made._query = query
    return made


def composed(cursor: Any, sql: str) -> Any:
    query = query_of(cursor)
    return related(cursor, replace(query, sql=sql, source=None, condition="", table=""))


def words(items: tuple[Any, ...], method: str) -> str:
    """Expressions of SQL, which are texts or objects, with commas between them."""
    if len(items) == 1 and isinstance(items[0], list | tuple):
        items = tuple(items[0])
    return ", ".join(_word(item, method) for item in items)


def _word(item: Any, method: str) -> str:
    if isinstance(item, Expression):
        if method == "order":
            return item.text + item.order
        return f"{item.text} AS {as_written(item.name)}" if item.name else item.text
    if not isinstance(item, str):
        raise InterfaceError(
            f"{method} needs expressions as texts in SQL, not a value of class "
            f"{type(item).__name__}",
            hint=f"write {method}('a + 1')",
        )
    return item


def number(value: Any, method: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InterfaceError(f"{method} needs a number of rows, not {value!r}")
    return value


def together(cursor: Any, other: Any) -> tuple[RelationQuery, RelationQuery]:
    """The queries of two relations for one statement. If both have parameters, or data frames of
    one name, the second one is read through a variable of its own."""
    if not isinstance(getattr(other, "_query", None), RelationQuery):
        raise InterfaceError(
            f"the other relation is a value of class {type(other).__name__}",
            hint="pass a relation, such as con.sql('SELECT …') or con.from_df(frame)",
        )
    left, right = query_of(cursor), query_of(other)
    clashes = any(
        right.frames[name] is not value
        for name, value in left.frames.items()
        if name in right.frames
    )
    in_order = not clashes and _in_order(left, right)
    if (
        other._connection is not cursor._connection
        or clashes
        or (left.args and right.args and not in_order)
    ):
        name = f"__other_relation_{next(_numbers)}"  # no table is called so
        right = RelationQuery(f"FROM {name}", alias=right.alias, frames={name: other})
    args = (*left.args, *right.args) if left.args and right.args else left.args or right.args
    frames = {**left.frames, **right.frames}
    return replace(left, args=args, frames=frames), replace(right, args=args, frames=frames)


def _in_order(left: RelationQuery, right: RelationQuery) -> bool:
    """Whether both have parameters written `?`, so that their values can follow each other."""
    return all(
        isinstance(item.args, tuple | list) and parameters_of(item.sql).sign == "?"
        for item in (left, right)
    )
