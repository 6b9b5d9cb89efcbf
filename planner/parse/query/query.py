"""Queries and scalar expressions: from tokens to the sqlglot trees that the binder reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import Error, NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.query.allow_list import check
from runnel.planner.parse.query.clauses import GRAMMAR
from runnel.planner.parse.query.shapes import finish
from runnel.planner.parse.query.token_pass import EmissionTokens, TokenPass, too_deep
from runnel.planner.parse.syntax import ChangesClause, EmissionClauses
from runnel.planner.parse.tokens import DIALECT, position_at

PIVOT_WORDS = frozenset({"PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER"})


@frozen
class ParsedQuery:
    """A parsed query.

    tree: a sqlglot tree, in the shapes that `shapes.py` describes.
    emission: EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO; None: the query has none of them.
    unbounded_state: whether its OPTIONS allow unbounded state.
    changes: EMIT CHANGES; None: the query does not have it.
    """

    tree: Any
    emission: EmissionClauses | None
    unbounded_state: bool
    changes: ChangesClause | None = None


def parse_query(tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]) -> ParsedQuery:
    """Parses a query. All errors have a position."""
    if any(token.text.upper() in PIVOT_WORDS for token in tokens):
        # Loaded on first use: few statements have PIVOT.
        from runnel.planner.parse.query.pivots import with_queries

        tokens = with_queries(tokens, sql)
    to = TokenPass(tokens, sql, parameters, is_query=True)
    tree = _parse(to, None)
    if not isinstance(tree, exp.Query | exp.Values):
        raise ProgrammingError("a query was expected", position=position_at(tokens[0], sql))
    emission = None if to.emission is None else _emission(to.emission, to)
    changes = (
        None
        if to.changes is None
        else ChangesClause(to.changes, to.epoch_millis, to.state_limit, to.poll_millis)
    )
    return ParsedQuery(tree, emission, to.unbounded_state, changes)


def _emission(clauses: EmissionTokens, to: TokenPass) -> EmissionClauses:
    every, lateness = (
        found and parse_expression(found[0], to.sql, to.parameters, found[1])
        for found in (clauses.every, clauses.lateness)
    )
    return EmissionClauses(every, lateness, clauses.late_table, clauses.position)


def parse_expression(
    tokens: Sequence[Token], sql: str, parameters: Mapping[int, int], end: Position
) -> Any:
    """Parses a scalar expression. If there are no tokens, the error has the position `end`."""
    if not tokens:
        raise ProgrammingError("an expression is missing", position=end)
    return _parse(TokenPass(tokens, sql, parameters, is_query=False), exp.Condition)


def _parse(to: TokenPass, into: Any) -> Any:
    tokens, sql = to.tokens, to.sql
    written = to.run(GRAMMAR)
    parser = DIALECT.parser()
    try:
        trees = (
            parser.parse(written, sql) if into is None else parser.parse_into(into, written, sql)
        )
    except SqlglotError as error:
        raise _syntax_error(error, tokens, sql) from None
    except RecursionError:
        raise too_deep(Position.at(sql, tokens[0].start)) from None
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        # sqlglot's compiled build raises these for some malformed texts.
        raise ProgrammingError(
            "syntax error", detail=str(error), position=position_at(tokens[0], sql)
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise ProgrammingError("syntax error", position=position_at(tokens[0], sql))
    tree = finish(trees[0], to)
    check(tree, sql, tokens, written, GRAMMAR)
    if "/*+" in sql:
        # Loaded on first use: few queries have hints.
        from runnel.planner.parse.flink.hints import check_hints

        check_hints(tree, tokens, sql)
    if not _WINDOWS.isdisjoint(to.words):
        # Loaded on first use: few queries have windows.
        from runnel.planner.parse.flink.group_windows import rewrite

        rewrite(tree, sql)
    if not _VALUES.isdisjoint(to.words):
        # Loaded on first use: few queries have them.
        from runnel.planner.parse.flink.aggregates import rewrite_aggregates

        rewrite_aggregates(tree)
    return tree


_VALUES = frozenset(("FIRST_VALUE", "LAST_VALUE"))


_WINDOWS = frozenset(
    kind + suffix
    for kind in ("TUMBLE", "HOP", "SESSION")
    for suffix in ("", "_START", "_END", "_ROWTIME", "_PROCTIME")
)
"""The words of which a query with a group window of Flink has one."""


_EXPECTING = re.compile(r"^(?:Expecting|Expected) (.+?)(?: but got .*)?$")


def _syntax_error(error: SqlglotError, tokens: Sequence[Token], sql: str) -> Error:
    """The error of Runnel for an error of sqlglot, at the token that sqlglot's error points to."""
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    description = str(details.get("description") or str(error).partition("\n")[0])
    blamed = _blamed_token(details, tokens)
    if description.endswith("does not support CTE"):
        return NotSupportedError(
            "WITH is not supported here",
            hint="write SELECT * FROM (VALUES …)",
            position=position_at(blamed or tokens[0], sql),
        )
    # Loaded on first use, as the statement has failed.
    from runnel.planner.parse.query.misspelt import misspelt_before

    misspelt = misspelt_before(tokens, blamed, sql)
    if misspelt is not None:
        return misspelt
    expected = _EXPECTING.match(description)
    detail: str | None
    if description.startswith("Required keyword"):
        detail = "an expression or a name is missing"
        blamed = None if blamed is None else _next_token(blamed, tokens)
    elif expected:
        detail = f"expected {expected.group(1).rstrip('.')}"
        blamed = None if blamed is None else _next_token(blamed, tokens)
    elif description.startswith("Invalid expression"):
        detail = None
    else:
        detail = description
    if blamed is None:
        return ProgrammingError(
            "the statement ends too early",
            detail=detail,
            position=Position.at(sql, tokens[-1].end + 1),
        )
    text = sql[blamed.start : blamed.end + 1]
    return ProgrammingError(
        f'syntax error at "{text}"', detail=detail, position=position_at(blamed, sql)
    )


def _blamed_token(details: Mapping[str, Any], tokens: Sequence[Token]) -> Token | None:
    for token in tokens:
        if token.line == details.get("line") and token.col == details.get("col"):
            return token
    return tokens[0] if not details else None


def _next_token(token: Token, tokens: Sequence[Token]) -> Token | None:
    """The token after the last one that sqlglot accepted."""
    index = tokens.index(token) + 1
    return tokens[index] if index < len(tokens) else None
