"""Tables as arguments of table functions, rewritten in tokens: sqlglot parses neither `TABLE t`
there nor a PARTITION BY after it.

`TUMBLE(TABLE t, …)` becomes TUMBLE((SELECT * FROM t), …), and
`SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(c), …)` becomes SESSION((SELECT * FROM t), "PARTITION
BY OF A TABLE"(a, b), DESCRIPTOR(c), …). `planner/bind/streams/time_windows.py` reads the result.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError, suggest
from runnel.planner.parse.tokens import TokenReader, is_word, position_at, word_of

PARTITION = "PARTITION BY OF A TABLE"
"""The name of the call that replaces the PARTITION BY of an argument; no token has this text."""

WINDOW_FUNCTIONS = frozenset({"IMPOSE_ORDER", "TUMBLE", "HOP", "CUMULATE", "SESSION"})
"""The table functions that add a watermark or windows to their input."""

FUNCTIONS = WINDOW_FUNCTIONS | {"CHANGES"}
"""The table functions that accept tables."""

CONTEXTS = FUNCTIONS | {PARTITION}
"""The calls within whose parentheses there may be something to rewrite."""


class ArgumentOutput(Protocol):
    """The operations of the token rewriter that this module uses."""

    def put(self, like: Token, token_type: TokenType, text: str) -> None:
        """Appends a token with the position of `like`."""

    def open_call(self, like: Token, name: str) -> None:
        """Begins a call that is not one in the text."""

    def close_call(self, like: Token) -> None:
        """Ends the call."""


def rewrite(function: str, reader: TokenReader, output: ArgumentOutput) -> bool:
    """Rewrites the next tokens of a call of `function` if they are a table, a PARTITION BY or a
    named argument; returns whether they were."""
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
        # sqlglot would parse the argument name OFFSET as a clause.
        output.put(reader.next(), TokenType.VAR, token.text)
        return True
    if token.token_type is TokenType.PARTITION_BY:
        output.put(token, TokenType.COMMA, ",")
        output.open_call(reader.next(), PARTITION)
        if reader.peek() in (",", ")"):
            raise reader.error("the columns to partition by")
        return True
    return False


def check_takes_tables(function: str, reader: TokenReader) -> None:
    """Raises ProgrammingError if the first argument of `function` is TABLE and a name, and the
    function does not accept tables."""
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
        f"there is no table function {function} that accepts a table",
        hint=suggest(function, sorted(FUNCTIONS)),
        position=position_at(reader.tokens[reader.index - 2], reader.sql),
    )


def _ends_list(reader: TokenReader) -> bool:
    """Whether the next comma ends the keys of PARTITION BY: an argument follows it, not a key."""
    return (reader.peek(1) == "DESCRIPTOR" and reader.peek(2) == "(") or reader.peek(2) == "=>"


def _table(reader: TokenReader, output: ArgumentOutput) -> bool:
    """Rewrites TABLE and a name as a query; a table function in TABLE(…) is rewritten elsewhere."""
    if reader.peek(1) == "(":
        if reader.peek(2) in ("SELECT", "WITH", "VALUES", "("):
            raise ProgrammingError(
                "TABLE needs the name of a table or a table function",
                hint="leave TABLE out: write the query in parentheses",
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


def _name_part(reader: TokenReader, output: ArgumentOutput) -> Token:
    token = reader.next()
    output.put(token, token.token_type, token.text)
    return token


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or is_word(token)
