"""WITH in front of INSERT, and changes within WITH."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, Position
from runnel.planner.parse.tokens import position_at

_QUERY = ("SELECT", "FROM", "VALUES", "TABLE", "WITH")
_IN_PARENTHESES = (["SELECT"], ["FROM"], ["VALUES"], ["WITH"])
_CHANGES = {"INSERT": ("INTO", "OR"), "DELETE": ("FROM",), "UPDATE": (), "MERGE": ("INTO",)}
"""The words of statements that change rows, with the words that may follow; (): any."""


def insert_first(tokens: Sequence[Token], words: Sequence[str], sql: str) -> Sequence[Token]:
    """`WITH x AS (…) INSERT INTO t query` as the tokens of `INSERT INTO t WITH x AS (…) query`,
    which means the same; the tokens of other statements as they are. `words` are their words.

    NotSupportedError for a query of WITH that changes rows, and for WITH before another change.
    """
    depth, main = 0, None
    for index, word in enumerate(words):
        if word == "(" and words[index - 1] in ("AS", "MATERIALIZED"):
            _check_reads(tokens, words, index + 1, sql)
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and index and word in ("SELECT", *_CHANGES) and words[index - 1] == ")":
            main = index
            break
    if main is None or words[main] == "SELECT":
        return tokens
    if words[main] != "INSERT":
        raise NotSupportedError(
            f"WITH before {words[main]} is not supported",
            hint="write the query as a subquery: WHERE id IN (SELECT …), or after FROM or USING",
            position=position_at(tokens[main], sql),
        )
    query = _query_of_insert(words, main)
    if query is None:
        return tokens
    if words[query] == "WITH":
        raise NotSupportedError(
            "WITH before INSERT and before its query is not supported",
            hint="list the queries in one WITH: WITH a AS (…), b AS (…) INSERT INTO t SELECT …",
            position=position_at(tokens[query], sql),
        )
    return [*tokens[main:query], *tokens[:main], *tokens[query:]]


def _check_reads(tokens: Sequence[Token], words: Sequence[str], index: int, sql: str) -> None:
    """NotSupportedError if the query of WITH that begins at a token changes rows."""
    following = _CHANGES.get(words[index]) if index < len(words) else None
    if following is None or (following and words[index + 1 : index + 2][0] not in following):
        return
    position: Position = position_at(tokens[index], sql)
    raise NotSupportedError(
        f"{words[index]} in WITH is not supported",
        hint="write two statements in a transaction: BEGIN; INSERT INTO archive SELECT * FROM t "
        "WHERE …; DELETE FROM t WHERE …; COMMIT",
        position=position,
    )


def _query_of_insert(words: Sequence[str], start: int) -> int | None:
    """The index of the first word of the query of `INSERT INTO t [(columns)] query`; None if there
    is none."""
    depth = 0
    for index in range(start + 1, len(words)):
        word = words[index]
        if depth == 0 and word in _QUERY:
            return index
        if depth == 0 and word == "(" and words[index + 1 : index + 2] in _IN_PARENTHESES:
            return index
        depth += {"(": 1, ")": -1}.get(word, 0)
    return None
