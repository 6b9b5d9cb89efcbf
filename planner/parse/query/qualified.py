"""Rules for the forms in which psql and other programs name functions, operators and collations of
PostgreSQL: `pg_catalog.f(…)`, `OPERATOR(pg_catalog.~)` and `COLLATE pg_catalog.default`."""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.planner.parse.query.token_pass import TokenPass

_BINARY_COLLATIONS = ("c", "posix", "default", "ucs_basic", "c.utf8", "binary")
"""The collations that compare texts by code points, as all comparisons do here."""


def qualified_function(to: TokenPass, token: Token) -> bool:
    """Leaves out `pg_catalog.` before a function."""
    if to.peek(1) != "." or to.peek(3) != "(":
        return False
    to.index += 2
    return True


def qualified_operator(to: TokenPass, token: Token) -> bool:
    """`OPERATOR(schema.sign)` becomes the sign."""
    if to.peek(1) != "(":
        return False
    end = next((at for at in range(2, 8) if to.peek(at) == ")"), 0)
    begin = 4 if to.peek(3) == "." else 2
    if begin >= end:
        return False
    to.index += begin
    for _ in range(end - begin):
        to.copy()
    to.index += 1
    return True


def collation(to: TokenPass, token: Token) -> bool:
    """Leaves out COLLATE of a collation that compares texts by code points."""
    at = 3 if to.peek(1) == "PG_CATALOG" and to.peek(2) == "." else 1
    name = to.tokens[to.index + at] if to.index + at < len(to.tokens) else None
    if name is None or name.token_type is TokenType.STRING:
        return False
    if name.text.lower() not in _BINARY_COLLATIONS:
        return False
    to.index += at + 1
    return True


RULES = {
    "PG_CATALOG": qualified_function,
    "OPERATOR": qualified_operator,
    "COLLATE": collation,
}
"""The rule for each first word."""
