"""Tables as arguments of table functions, in tokens: sqlglot knows no `TABLE t` there, and no
PARTITION BY behind it.

`TUMBLE(TABLE t, …)` becomes TUMBLE((SELECT * FROM t), …), and
`SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(c), …)` becomes SESSION((SELECT * FROM t), "PARTITION
BY OF A TABLE"(a, b), DESCRIPTOR(c), …). `bind_windows` reads it all.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError, suggest
from runnel.planner.parse.tokens import TokenReader, is_word, position_at, word_of

PARTITION = "PARTITION BY OF A TABLE"
"""The name of the call that the PARTITION BY of an argument becomes; no token has this text."""

WINDOW_FUNCTIONS = frozenset({"IMPOSE_ORDER", "TUMBLE", "HOP", "CUMULATE", "SESSION"})
"""The table functions that put a watermark or windows on their input."""

FUNCTIONS = WINDOW_FUNCTIONS | {"CHANGES"}
"""The table functions that take tables."""

PLACES = FUNCTIONS | {PARTITION}
"""Within the parentheses of these there may be something to rewrite."""


class Output(Protocol):
    """What the rewriter of tokens offers."""

    def put(self, like: Token, token_type: TokenType, text: str) -> None:
        """Puts out a token in the place of `like`."""

    def open_call(self, like: Token, name: str) -> None:
        """Begins a call that the text doesn't have as one."""

    def close_call(self, like: Token) -> None:
        """Ends it."""


def rewrite(function: str, reader: TokenReader, output: Output) -> bool:
    """Rewrites what comes next within `function` where it is a table or a PARTITION BY; whether it
    was."""
    token = reader.tokens[reader.index]
    if function == PARTITION:
        if token.token_type is TokenType.R_PAREN or (
            token.token_type is TokenType.COMMA and _ends_list(reader)
        ):
            output.close_call(token)
        return False
    if token.token_type is TokenType.TABLE and word_of(reader.tokens[reader.index - 1]) in (
        "(",
        ",",
        "=>",
    ):
        return _table(reader, output)
    if reader.peek(1) == "=>" and is_word(token):
        # OFFSET is one that sqlglot has other plans for.
        output.put(reader.next(), TokenType.VAR, token.text)
        return True
    if token.token_type is TokenType.PARTITION_BY:
        output.put(token, TokenType.COMMA, ",")
        output.open_call(reader.next(), PARTITION)
        if reader.peek() in (",", ")"):
            raise reader.error("the columns that divide the rows")
        return True
    return False


def check_takes_tables(function: str, reader: TokenReader) -> None:
    """ProgrammingError where the first argument of `function` is TABLE and a name, and it isn't one
    that takes tables."""
    if (
        function in FUNCTIONS
        or reader.peek(1) == "("
        or word_of(reader.tokens[reader.index - 1]) != "("
    ):
        return
    if reader.index < 3 or word_of(reader.tokens[reader.index - 3]) not in (
        "(",
        "FROM",
        "JOIN",
        ",",
    ):
        return
    raise ProgrammingError(
        f"there is no table function {function} that takes a table",
        hint=suggest(function, sorted(FUNCTIONS)),
        position=position_at(reader.tokens[reader.index - 2], reader.sql),
    )


def _ends_list(reader: TokenReader) -> bool:
    """Whether a comma stands before the next argument, not before another key."""
    return (reader.peek(1) == "DESCRIPTOR" and reader.peek(2) == "(") or reader.peek(2) == "=>"


def _table(reader: TokenReader, output: Output) -> bool:
    """TABLE and a name; another table function in TABLE(…) is rewritten as it is elsewhere."""
    if reader.peek(1) == "(":
        if reader.peek(2) in ("SELECT", "WITH", "VALUES", "("):
            raise ProgrammingError(
                "TABLE takes the name of a table or a table function",
                hint="leave TABLE out: a query stands in parentheses alone",
                position=position_at(reader.tokens[reader.index], reader.sql),
            )
        return False
    word = reader.next()
    if reader.at_end or not _is_name(reader.tokens[reader.index]):
        raise reader.error("the name of a table")
    output.put(word, TokenType.L_PAREN, "(")
    output.put(word, TokenType.SELECT, "SELECT")
    output.put(word, TokenType.STAR, "*")
    output.put(word, TokenType.FROM, "FROM")
    last = _name_part(reader, output)
    while reader.peek() == ".":
        dot = reader.next()
        output.put(dot, TokenType.DOT, ".")
        if reader.at_end or not _is_name(reader.tokens[reader.index]):
            raise reader.error("the name of a table")
        last = _name_part(reader, output)
    output.put(last, TokenType.R_PAREN, ")")
    return True


def _name_part(reader: TokenReader, output: Output) -> Token:
    token = reader.next()
    output.put(token, token.token_type, token.text)
    return token


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or is_word(token)
