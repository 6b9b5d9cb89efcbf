"""Checks of a query's tokens before and after sqlglot's parser, which accepts some wrong texts and
skips some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError
from runnel.planner.parse.query import json_clauses
from runnel.planner.parse.query.clause_words import DROPPED, FRAME_UNITS
from runnel.planner.parse.query.rewrite_tokens import TYPE
from runnel.planner.parse.tokens import position_at, word_of

_PLAIN = {TokenType.STRING, TokenType.NUMBER}
_CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "INTERSECT",
    "EXCEPT",
)
_TIGHTER = ("||", "+", "-", "*", "/", "%", "^", "::", "[")


def check_tokens(tokens: Sequence[Token], sql: str) -> None:
    """Refuses texts that sqlglot's parser accepts or misreads: a comma before a closing bracket or
    a clause, `a IS NULL + b` (of which it drops IS, or which it reads as `a IS (NULL + b)`),
    `alias: expression`, BigQuery's WITH OFFSET."""
    opened: list[bool] = []
    for index, token in enumerate(tokens):
        if token.token_type in _PLAIN:
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        word, after = word_of(token), "" if following is None else word_of(following)
        blamed = following
        if word in ("(", "["):
            opened.append(
                word == "[" or (index > 0 and word_of(tokens[index - 1]) in json_clauses.PAIRS)
            )
        elif word in (")", "]") and opened:
            opened.pop()
        if word == ",":
            is_name = index + 2 < len(tokens) and tokens[index + 2].token_type is TokenType.FARROW
            is_wrong = (
                (after in _CLAUSES and not is_name) or after in (")", "]", "}") or following is None
            )
        elif word in ("NULL", "TRUE", "FALSE", "UNKNOWN", "ISNULL", "NOTNULL"):
            is_wrong = after in _TIGHTER and (
                word in ("ISNULL", "NOTNULL") or _follows_is(tokens, index)
            )
        elif word == "WITH":
            is_wrong = after == "OFFSET"
        elif word in FRAME_UNITS and after == "BETWEEN":
            is_wrong = not _has_and(tokens[index + 2 :])
        else:
            is_wrong, blamed = word == ":" and not (opened and opened[-1]), token
        if is_wrong:
            at = token if blamed is None else blamed
            raise ProgrammingError(
                f'syntax error at "{sql[at.start : at.end + 1]}"',
                hint="put the test in parentheses" if after in _TIGHTER else None,
                position=position_at(at, sql),
            )


def _has_and(tokens: Sequence[Token]) -> bool:
    """Whether AND follows before the enclosing bracket closes: a frame with BETWEEN needs it, and
    sqlglot doesn't check."""
    depth = 0
    for token in tokens:
        if token.token_type is TokenType.AND and depth == 0:
            return True
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0:
            break
    return False


def _follows_is(tokens: Sequence[Token], index: int) -> bool:
    before = [word_of(token) for token in tokens[max(index - 2, 0) : index]]
    return before[-1:] == ["IS"] or before == ["IS", "NOT"]


_NAMED = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}


def check_nothing_lost(tokens: Sequence[Token], tree: Any, sql: str) -> None:
    """Raises ProgrammingError unless every name, number and string of the rewritten tokens is in
    the tree: sqlglot skips some.

    A keyword of a clause that no node of the tree retains belongs in `clause_words.CLAUSES`, under
    `dropped`. Otherwise the clause is a "syntax error" at that word.
    """
    known = {node.meta_get("start") for node in tree.walk()}
    for index, token in enumerate(tokens):
        if token.token_type not in _NAMED or token.start in known or word_of(token) in DROPPED:
            continue
        # sqlglot drops the position of `.5`, and splits the text of INTERVAL '1 day'.
        if token.text.startswith(TYPE) or (
            index > 0 and word_of(tokens[index - 1]) in ("INTERVAL", ".")
        ):
            continue
        if index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.FARROW:
            continue
        raise ProgrammingError(
            f'syntax error at "{sql[token.start : token.end + 1]}"',
            position=position_at(token, sql),
        )
