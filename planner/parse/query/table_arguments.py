"""Rules for tables as arguments of table functions: sqlglot parses neither `TABLE t` there nor a
PARTITION BY after it.

`TUMBLE(TABLE t, …)` becomes TUMBLE((SELECT * FROM t), …), and
`SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(c), …)` becomes SESSION((SELECT * FROM t), "PARTITION
BY OF A TABLE"(a, b), DESCRIPTOR(c), …). `planner/bind/streams/time_windows.py` reads the result.
"""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError, suggest
from runnel.planner.parse.query.token_pass import TokenPass
from runnel.planner.parse.tokens import is_word, position_at

PARTITION = "PARTITION BY OF A TABLE"
"""The name of the call that replaces the PARTITION BY of an argument; no token has this text."""

WINDOW_FUNCTIONS = frozenset({"IMPOSE_ORDER", "TUMBLE", "HOP", "CUMULATE", "SESSION"})
"""The table functions that add a watermark or windows to their input."""

FUNCTIONS = WINDOW_FUNCTIONS | {"CHANGES"}
"""The table functions that accept tables."""


def table(to: TokenPass, token: Token) -> bool:
    """Writes `TABLE name`, an argument, as a query. (The rule `rules.opening` handles a table
    function in TABLE(…).)"""
    if to.inside not in FUNCTIONS:
        _check_accepts_tables(to)
        return False
    if to.previous() not in ("(", ",", "=>"):
        return False
    if to.peek(1) == "(":
        if to.peek(2) in ("SELECT", "WITH", "VALUES", "("):
            raise ProgrammingError(
                "TABLE needs the name of a table or a table function",
                hint="leave TABLE out: write the query in parentheses",
                position=position_at(token, to.sql),
            )
        return False
    to.index += 1
    to.put(token, TokenType.L_PAREN, "(")
    to.put(token, TokenType.SELECT, "SELECT")
    to.put(token, TokenType.STAR, "*")
    to.put(token, TokenType.FROM, "FROM")
    while True:
        if to.at_end or not _is_name(to.tokens[to.index]):
            raise to.error("the name of a table")
        to.copy()
        if to.peek() != ".":
            break
        to.copy()
    to.put(to.output[-1], TokenType.R_PAREN, ")")
    return True


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or is_word(token)


def _check_accepts_tables(to: TokenPass) -> None:
    """Raises ProgrammingError for TABLE and a name as the first argument of a table function."""
    if (
        not to.inside.isidentifier()
        or to.peek(1) == "("
        or to.previous() != "("
        or to.previous(3) not in ("(", "FROM", "JOIN", ",")
    ):
        return
    raise ProgrammingError(
        f"there is no table function {to.inside} that accepts a table",
        hint=suggest(to.inside, sorted(FUNCTIONS)),
        position=position_at(to.tokens[to.index - 2], to.sql),
    )


def argument_name(to: TokenPass, token: Token) -> bool:
    """Writes the word before `=>` as a name: sqlglot would parse OFFSET, an argument's name, as a
    clause."""
    name = to.tokens[to.index - 1]
    if to.index and is_word(name):
        while to.output and to.output[-1].start >= name.start:
            to.output.pop()
        to.put(name, TokenType.VAR, name.text)
    return False


def partition(to: TokenPass, token: Token) -> bool:
    """Writes PARTITION BY as the beginning of a call of PARTITION."""
    to.put(token, TokenType.COMMA, ",")
    to.index += 1
    to.open_call(token, PARTITION)
    if to.peek() in (",", ")"):
        raise to.error("the columns to partition by")
    return True


def end_of_partition(to: TokenPass, token: Token) -> bool:
    """Ends the call of PARTITION if the next argument belongs to the table function and is not a
    key."""
    if to.peek() == ")" or (to.peek(1) == "DESCRIPTOR" and to.peek(2) == "(") or to.peek(2) == "=>":
        to.close_call(token)
    return False
