"""Parentheses around conditions in ROLLUP, CUBE and GROUPING SETS.

sqlglot's parser reads a condition there only in parentheses, so they are inserted as tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
GROUPINGS = {TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS}
_CONDITIONS = {
    *(
        TokenType.LT,
        TokenType.GT,
        TokenType.LTE,
        TokenType.GTE,
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.NULLSAFE_EQ,
    ),
    *(
        TokenType.IS,
        TokenType.ISNULL,
        TokenType.NOTNULL,
        TokenType.IN,
        TokenType.BETWEEN,
        TokenType.LIKE,
        TokenType.ILIKE,
    ),
    *(TokenType.SIMILAR_TO, TokenType.AND, TokenType.OR, TokenType.NOT),
}


def with_parentheses(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with parentheses around each element that is a condition.

    For ROLLUP(a, b > 1) the output is ROLLUP(a, (b > 1)): at the closing bracket, the last element
    began at the token `b` and contained `>`.
    """
    output: list[Token] = []
    # For each open bracket: the index in the output of the current element's first token (None if
    # the bracket is not a list of grouping elements), and whether that element is a condition.
    begins: list[int | None] = []
    conditions: list[bool] = []
    for number, token in enumerate(tokens):
        kind = token.token_type
        is_list = bool(begins) and begins[-1] is not None
        if is_list and (kind is TokenType.COMMA or kind in _CLOSING):
            start = begins[-1]
            if conditions[-1] and start is not None:
                output.insert(start, _like(output[start], TokenType.L_PAREN, "("))
                output.append(_like(output[-1], TokenType.R_PAREN, ")"))
        if kind in _CLOSING and begins:
            begins.pop()
            conditions.pop()
        elif is_list and kind in _CONDITIONS:
            conditions[-1] = True
        output.append(token)
        if kind in _OPENING:
            is_grouping = (
                kind is TokenType.L_PAREN
                and number > 0
                and tokens[number - 1].token_type in GROUPINGS
            )
            begins.append(len(output) if is_grouping else None)
            conditions.append(False)
        elif is_list and kind is TokenType.COMMA:
            begins[-1] = len(output)
            conditions[-1] = False
    return output


def _like(token: Token, token_type: TokenType, text: str) -> Token:
    return Token(token_type, text, token.line, token.col, token.start, token.end, [])
