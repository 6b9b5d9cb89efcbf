"""The clauses EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO, in this order, at the end of a
SELECT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError
from runnel.planner.parse.query.query import parse_expression
from runnel.planner.parse.syntax import EmissionClauses
from runnel.planner.parse.tokens import TokenReader, position_at, word_of

_CLAUSES = (("EMIT", "EVERY"), ("ALLOWED", "LATENESS"), ("LATE", "DATA"))
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def split_emission(
    tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]
) -> tuple[Sequence[Token], EmissionClauses | None]:
    """Splits the tokens into the query and its emission clauses; None if there are no clauses."""
    start = _first_clause(tokens)
    if start is None:
        return tokens, None
    reader = TokenReader(tokens[start:], sql)
    position = reader.position
    every = lateness = late_table = None
    if reader.accept("EMIT", "EVERY"):
        every = _expression(reader, parameters)
    if reader.accept("ALLOWED", "LATENESS"):
        lateness = _expression(reader, parameters)
    if reader.accept("LATE", "DATA"):
        reader.expect("INTO")
        late_table = reader.name("a mapping")
    if not reader.at_end:
        if any(_stands_at(reader, clause) for clause in _CLAUSES):
            raise ProgrammingError(
                f"{reader.peek()} {reader.peek(1)} is in the wrong position",
                hint="the order is EMIT EVERY, ALLOWED LATENESS, LATE DATA INTO, each at most once",
                position=reader.position,
            )
        reader.finish()
    return tokens[:start], EmissionClauses(every, lateness, late_table, position)


def _first_clause(tokens: Sequence[Token]) -> int | None:
    """The index of the first clause: after FROM, outside of parentheses; None if there is none."""
    depth, has_from = 0, False
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
        elif depth == 0 and kind is TokenType.FROM:
            has_from = True
        elif depth == 0 and has_from and index and index + 2 < len(tokens):
            words = (word_of(token), word_of(tokens[index + 1]))
            if words in _CLAUSES and (words[0] != "LATE" or word_of(tokens[index + 2]) == "INTO"):
                return index
    return None


def _stands_at(reader: TokenReader, words: tuple[str, str]) -> bool:
    return (reader.peek(), reader.peek(1)) == words


def _expression(reader: TokenReader, parameters: Mapping[int, int]) -> object:
    """Parses a constant that reaches to the next clause or to the end."""
    start = reader.index
    while not reader.at_end and not any(_stands_at(reader, clause) for clause in _CLAUSES):
        reader.index += 1
    end = reader.position if reader.at_end else position_at(reader.tokens[reader.index], reader.sql)
    return parse_expression(reader.tokens[start : reader.index], reader.sql, parameters, end)
