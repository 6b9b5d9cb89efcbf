"""OPTIONS (…) at the end of a query."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError, suggest
from runnel.planner.parse.tokens import TokenReader, read_options, word_of

UNBOUNDED_STATE = "allowUnboundedState"
_BOOLEANS = {"true": True, "false": False}


def split_options(tokens: Sequence[Token], sql: str) -> tuple[Sequence[Token], bool]:
    """Splits off the OPTIONS of a query; returns the other tokens, and whether the options allow
    unbounded state."""
    start = _start(tokens)
    if start is None:
        return tokens, False
    reader = TokenReader(tokens[start + 1 :], sql)
    allowed = False
    for option in read_options(reader):
        if option.name.text != UNBOUNDED_STATE:
            raise ProgrammingError(
                f'a query has no option "{option.name.text}"',
                hint=suggest(
                    option.name.text, (UNBOUNDED_STATE,), f"its option is '{UNBOUNDED_STATE}'"
                ),
                position=option.name.position,
            )
        if option.value.lower() not in _BOOLEANS:
            raise ProgrammingError(
                f"option '{UNBOUNDED_STATE}' is 'true' or 'false'", position=option.name.position
            )
        allowed = _BOOLEANS[option.value.lower()]
    reader.finish()
    return tokens[:start], allowed


def _start(tokens: Sequence[Token]) -> int | None:
    """The index of an OPTIONS whose list of texts ends the query; None if there is none."""
    depth = 0
    for index in range(len(tokens) - 1, 0, -1):
        kind = tokens[index].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth == 0:
            first = tokens[min(index + 1, len(tokens) - 1)].token_type
            is_list = kind is TokenType.L_PAREN and first in (TokenType.STRING, TokenType.R_PAREN)
            return index - 1 if is_list and word_of(tokens[index - 1]) == "OPTIONS" else None
    return None
