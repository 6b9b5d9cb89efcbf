"""The clauses of JSON functions, rewritten as arguments: sqlglot misreads or rejects them.

`JSON_VALUE(j, p RETURNING t DEFAULT e ON EMPTY)` becomes JSON_VALUE(j, p, '\\0RETURNING', CAST(NULL
AS t), '\\0DEFAULT', e, '\\0ON EMPTY'): a clause is a text argument that begins with a character
that no SQL text can contain, followed by the clause's operand. `JSON_OBJECT(KEY k VALUE v, k : v)`
becomes JSON_OBJECT(k, v, k, v). The arguments of an aggregate may end with ORDER BY, so its clause
is appended to the name instead: JSON_ARRAYAGG(x NULL ON NULL) is "JSON_ARRAYAGG NULL"(x).
`planner/bind/scalars/json.py` reads the result.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.planner.parse.tokens import TokenReader, word_of

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


class ClauseOutput(Protocol):
    """The operations of the token rewriter that this module uses."""

    def clause(self, token: Token, text: str, *, is_first: bool) -> None:
        """Appends a clause; `is_first`: it is the call's first argument."""

    def rename(self, suffix: str) -> None:
        """Appends to the name of the current function."""

    def comma(self, token: Token) -> None: ...

    def type_argument(self) -> None:
        """Reads a type and appends a NULL of it."""


def rewrite(function: str, reader: TokenReader, output: ClauseOutput) -> bool:
    """Rewrites the next tokens if they are a clause of `function`; returns whether they were."""
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


def _pair(reader: TokenReader, output: ClauseOutput, *, is_start: bool) -> bool:
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
