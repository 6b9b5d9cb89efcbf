"""Hints for misspelt keywords: `SELEC 1`, `SELECT * FORM t`, `GROPU BY`. Loaded when a statement
has failed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token

from runnel.base.nearest import nearest
from runnel.errors import Position, ProgrammingError
from runnel.planner.parse.tokens import is_word, position_at

BEGINNINGS = (
    *("SELECT", "FROM", "WITH", "VALUES", "INSERT", "SINK", "UPDATE", "DELETE", "MERGE"),
    *("TRUNCATE", "COPY", "CREATE", "ALTER", "DROP", "EXPLAIN", "SHOW", "DESCRIBE", "SUMMARIZE"),
    *("SET", "RESET", "BACKUP", "CANCEL", "VERIFY", "PIVOT", "UNPIVOT", "PREPARE", "EXECUTE"),
    *("BEGIN", "COMMIT", "ROLLBACK", "DEALLOCATE"),
)
"""The words with which statements begin."""

_CLAUSES = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT"),
    *("OFFSET", "JOIN", "INNER", "LEFT", "RIGHT", "OUTER", "CROSS", "USING", "UNION", "EXCEPT"),
    *("INTERSECT", "VALUES", "WINDOW", "BETWEEN", "RETURNING", "INTO", "TABLE", "WITH"),
)
"""The words within a query of which misspelt ones are recognised."""

_KNOWN = frozenset((*BEGINNINGS, *_CLAUSES, "GROUPS", "VALUE", "TABLES"))
_LOOK_BACK = 2
_BEFORE_BY = ("ORDER", "GROUP", "PARTITION")


def beginning(word: str) -> str | None:
    """The word with which the user probably meant to begin the statement."""
    return nearest(word, BEGINNINGS) if len(word) > 2 else None


def misspelt_before(
    tokens: Sequence[Token], blamed: Token | None, sql: str
) -> ProgrammingError | None:
    """The error for a misspelt keyword at the blamed token, or shortly before it: sqlglot reads
    such a word as a name, and fails at the next one. None if there is none."""
    index = len(tokens) - 1 if blamed is None else tokens.index(blamed)
    for at in (index, index - 1):
        token = tokens[at]
        if at > 0 and is_word(token) and tokens[at - 1].text.upper() in _BEFORE_BY:
            text = sql[token.start : token.end + 1]
            return ProgrammingError(
                f'syntax error at "{text}"',
                hint="did you mean BY?",
                position=position_at(token, sql),
            )
    for token in reversed(tokens[max(0, index - _LOOK_BACK) : index + 1]):
        found = _clause(token)
        if found is not None:
            text = sql[token.start : token.end + 1]
            return ProgrammingError(
                f'syntax error at "{text}"',
                hint=f"did you mean {found}?",
                position=position_at(token, sql),
            )
    return None


def _clause(token: Token) -> str | None:
    text = token.text.upper()
    if not is_word(token) or len(text) < 3 or text in _KNOWN or not text.isalpha():
        return None
    return nearest(text, _CLAUSES)


def unknown_beginning(text: str, position: Position, listed: str) -> ProgrammingError:
    """The error for a statement that begins with an unknown word."""
    near = beginning(text)
    return ProgrammingError(
        f'syntax error at "{text}"',
        detail="no statement begins with this word",
        hint=listed if near is None else f"did you mean {near}?",
        position=position,
    )
