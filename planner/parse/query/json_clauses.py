"""Rules that write the clauses of JSON functions as arguments: sqlglot misreads or rejects them.

`JSON_VALUE(j, p RETURNING t DEFAULT e ON EMPTY)` becomes JSON_VALUE(j, p, '\\0RETURNING', CAST(NULL
AS t), '\\0DEFAULT', e, '\\0ON EMPTY'): a clause is a text argument that begins with a character
that no SQL text can contain, followed by the clause's operand. `JSON_OBJECT(KEY k VALUE v, k : v)`
becomes JSON_OBJECT(k, v, k, v). The arguments of an aggregate may end with ORDER BY, so its clause
is appended to the name instead: JSON_ARRAYAGG(x NULL ON NULL) is "JSON_ARRAYAGG NULL"(x).
`planner/bind/scalars/json.py` reads the result.
"""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.planner.parse.query.token_pass import TokenPass
from runnel.planner.parse.tokens import like

CLAUSE = "\0"
"""The first character of a clause."""

PAIRS = frozenset({"JSON_OBJECT", "JSON_OBJECTAGG"})
AGGREGATES = frozenset({"JSON_OBJECTAGG", "JSON_ARRAYAGG"})
FUNCTIONS = (
    frozenset({"JSON_QUERY", "JSON_VALUE", "JSON_ARRAY", "JSON_EXISTS"}) | PAIRS | AGGREGATES
)

_WRAPPERS = (
    ("WITHOUT", "ARRAY", "WRAPPER"),
    ("WITHOUT", "WRAPPER"),
    ("WITH", "WRAPPER"),
    ("WITH", "ARRAY", "WRAPPER"),
    *(
        ("WITH", kind, *rest)
        for kind in ("CONDITIONAL", "UNCONDITIONAL")
        for rest in (("ARRAY", "WRAPPER"), ("WRAPPER",))
    ),
)
_ANSWERS = (
    ("NULL",),
    ("ERROR",),
    ("EMPTY",),
    ("EMPTY", "ARRAY"),
    ("EMPTY", "OBJECT"),
    ("TRUE",),
    ("FALSE",),
    ("UNKNOWN",),
    (),
)
_PHRASES = (
    *_WRAPPERS,
    *((*answer, "ON", event) for answer in _ANSWERS for event in ("EMPTY", "ERROR")),
    ("NULL", "ON", "NULL"),
    ("ABSENT", "ON", "NULL"),
)
FIRST_WORDS = frozenset(words[0] for words in _PHRASES)
"""The words with which a phrase begins."""


def pair(to: TokenPass, token: Token) -> bool:
    """Drops KEY, and replaces VALUE and `:` by a comma."""
    is_start = to.previous() in ("(", ",")
    if to.peek() == "KEY":
        if not is_start or to.peek(1) in (":", "VALUE", ",", ")", ".", "("):
            return False
        to.index += 1
        return True
    if is_start:
        return False
    to.put(to.next(), TokenType.COMMA, ",")
    return True


def phrase(to: TokenPass, token: Token) -> bool:
    """Replaces one of `_PHRASES`."""
    is_first = to.previous() == "("
    for words in _PHRASES:
        if to.accept(*words):
            if to.inside in AGGREGATES:
                to.rename(f" {words[0]}")
            else:
                _clause(to, token, " ".join(words), is_first=is_first)
            return True
    return False


def operand(to: TokenPass, token: Token) -> bool:
    """Replaces RETURNING and its type, or DEFAULT, whose operand follows."""
    if to.previous() == "(":
        return False
    word = to.peek()
    to.index += 1
    _clause(to, token, word, is_first=False)
    to.put(token, TokenType.COMMA, ",")
    if word == "RETURNING":
        to.cast(like(to.tokens[min(to.index, len(to.tokens) - 1)], TokenType.NULL, "NULL"))
    return True


def _clause(to: TokenPass, token: Token, text: str, *, is_first: bool) -> None:
    if not is_first:
        to.put(token, TokenType.COMMA, ",")
    to.put(token, TokenType.STRING, CLAUSE + text)
