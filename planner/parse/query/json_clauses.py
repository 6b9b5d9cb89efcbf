"""Rules that write the clauses of JSON functions as arguments: sqlglot misreads or rejects them.

`JSON_VALUE(j, p RETURNING t DEFAULT e ON EMPTY)` becomes JSON_VALUE(j, p, '\\0RETURNING', CAST(NULL
AS t), '\\0DEFAULT', e, '\\0ON EMPTY'). The text of each clause begins with a character that no SQL
text can contain; the clause's operand, if it has one, is the next argument. `JSON_OBJECT(KEY k
VALUE v, k : v)` becomes JSON_OBJECT(k, v, k, v).

The arguments of an aggregate may end with ORDER BY. The clause of an aggregate is therefore
appended to its name: JSON_ARRAYAGG(x NULL ON NULL) becomes "JSON_ARRAYAGG NULL"(x).
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
    """Drops KEY, and writes a comma for VALUE and for `:`."""
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
    """Writes one of `_PHRASES` as an argument, or into the name of an aggregate."""
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
    """Writes RETURNING with its type, or DEFAULT, as an argument; the operand of DEFAULT
    follows."""
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
