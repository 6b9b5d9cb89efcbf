"""The words within JSON functions, as arguments: sqlglot reads them in its own way, or not at all.

`JSON_VALUE(j, p RETURNING t DEFAULT e ON EMPTY)` becomes JSON_VALUE(j, p, '\\0RETURNING', CAST(NULL
AS t), '\\0DEFAULT', e, '\\0ON EMPTY'): a clause is a text that begins with a character that no SQL
text can hold, followed by what belongs to it. `JSON_OBJECT(KEY k VALUE v, k : v)` becomes
JSON_OBJECT(k, v, k, v). For aggregates, whose arguments may end with ORDER BY, the clause goes to
the name: JSON_ARRAYAGG(x NULL ON NULL) is "JSON_ARRAYAGG NULL"(x). `bind_json` reads it all.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.planner.parse.tokens import TokenReader, word_of

CLAUSE = "\0"
"""Stands in front of a clause."""

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


class Output(Protocol):
    """What the rewriter of tokens offers."""

    def clause(self, token: Token, text: str, *, is_first: bool) -> None:
        """Puts a clause out; `is_first`: no argument stands before it."""

    def rename(self, suffix: str) -> None:
        """Adds to the name of the function being read."""

    def comma(self, token: Token) -> None: ...

    def type_argument(self) -> None:
        """Reads a type, and puts a NULL of it out."""


def rewrite(function: str, reader: TokenReader, output: Output) -> bool:
    """Rewrites what comes next where it is a clause of `function`; whether it was."""
    before = word_of(reader.tokens[reader.index - 1])
    is_first = before == "("
    if function in PAIRS and _pair(reader, output, is_start=before in ("(", ",")):
        return True
    token = reader.tokens[reader.index]
    for phrase in _PHRASES:
        if reader.accept(*phrase):
            if function in AGGREGATES:
                output.rename(f" {phrase[0]}")
            else:
                output.clause(token, " ".join(phrase), is_first=is_first)
            return True
    if reader.peek() == "RETURNING" and not is_first:
        output.clause(reader.next(), "RETURNING", is_first=False)
        output.comma(token)
        output.type_argument()
        return True
    if reader.peek() == "DEFAULT" and not is_first:
        output.clause(reader.next(), "DEFAULT", is_first=False)
        output.comma(token)
        return True
    return False


def _pair(reader: TokenReader, output: Output, *, is_start: bool) -> bool:
    word = reader.peek()
    if is_start and word == "KEY" and reader.peek(1) not in (":", "VALUE", ",", ")", ".", "("):
        reader.next()
        return True
    if not is_start and (
        word == "VALUE" or word == ":" or reader.tokens[reader.index].token_type is TokenType.COLON
    ):
        output.comma(reader.next())
        return True
    return False
