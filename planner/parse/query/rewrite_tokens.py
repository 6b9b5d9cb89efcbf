"""The rewriting of a query's tokens before sqlglot's parser reads them.

sqlglot knows about a thousand functions: it renames them, reorders their arguments and splits some,
and it drops everything after a type's name. To make the tree say what the user wrote:

- The name of every function call gets a mark in front, so that it is parsed as an exp.Anonymous
  with the arguments as written.
- A word that is a function without parentheses (CURRENT_DATE) becomes a call without arguments.
- The keywords within EXTRACT, SUBSTRING, POSITION and OVERLAY become commas. TRIM is left as it is:
  sqlglot has a node for it.
- The types in CAST and `::` are parsed here, and replaced by a word with the type's number. A typed
  literal (DATE '…') becomes a CAST of the string, because sqlglot would let a following `::` bind
  more tightly.
- Every `?` becomes `$n`, where n is its number in the whole statement from 0.
- `TABLE(f(…))` becomes `f(…)`. Tables among the arguments of a table function become queries, see
  `table_arguments`.
- A JOIN without a word before it becomes INNER JOIN, to distinguish it from a comma.
- `MAP[k, v]` becomes a call of "MAP[", and `X'ff'` a call of "X'"; `E'a\\n'` becomes the string
  that it denotes.
- The clauses within JSON functions become arguments, see `json_clauses`.

Rewritten tokens keep their offsets in the text. `query.py` turns sqlglot's tree into the one that
the binder reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError
from runnel.planner.parse.query import json_clauses, table_arguments
from runnel.planner.parse.query.clause_words import CASTS, NOT_CALLED, NOT_CALLED_AFTER
from runnel.planner.parse.tokens import DIALECT, TokenReader, is_word, position_at, word_of
from runnel.planner.parse.types import TYPE_WORDS, parse_type
from runnel.sqltypes import SqlType

MARK = "\0"
"""The prefix of a function's name; no name in SQL text can contain it."""

TYPE = "runnel_type_"
"""The prefix of a type's number, which replaces the type's name."""
_PARSER: Any = type(DIALECT.parser())
_SYNTAX_TYPES = {
    getattr(TokenType, name)
    for name in (
        *(
            "ALL",
            "ANY",
            "ARRAY",
            "COLLATE",
            "EXISTS",
            "FILTER",
            "GLOB",
            "ILIKE",
            "INTERVAL",
            "ISNULL",
            "LIKE",
            "OFFSET",
        ),
        *(
            "NULL",
            "PRIMARY_KEY",
            "RLIKE",
            "SOME",
            "TABLE",
            "UNION",
            "UNKNOWN",
            "UNNEST",
            "WINDOW",
            "XOR",
        ),
    )
}
_CALLABLE = (_PARSER.FUNC_TOKENS | {TokenType.IDENTIFIER}) - _SYNTAX_TYPES
_WITHOUT_PARENTHESES = set(_PARSER.NO_PAREN_FUNCTIONS)
_JOIN_WORDS = (
    "INNER",
    "OUTER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "NATURAL",
    "SEMI",
    "ANTI",
    "ASOF",
    "POSITIONAL",
)
_SEPARATORS = {
    "EXTRACT": ("FROM",),
    "SUBSTRING": ("FROM", "FOR"),
    "POSITION": ("IN", "FROM"),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
}


_OPERANDS = {
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER),
    *(TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.PLACEHOLDER),
}
_BEFORE_COLON = {*_OPERANDS, TokenType.L_BRACKET, TokenType.NULL, TokenType.TRUE, TokenType.FALSE}


def number_parameters(tokens: Sequence[Token], sql: str) -> dict[int, int]:
    """The number of each `?`, by its offset in the text; ProgrammingError for parameters of another
    style."""
    numbers: dict[int, int] = {}
    before = None
    for token in tokens:
        if token.token_type is TokenType.PLACEHOLDER:
            numbers[token.start] = len(numbers)
        elif token.token_type is TokenType.PARAMETER or (
            token.token_type is TokenType.COLON and before not in _BEFORE_COLON
        ):
            raise ProgrammingError(
                f'syntax error at "{token.text}"',
                hint="parameters are written as ?",
                position=position_at(token, sql),
            )
        before = token.token_type
    return numbers


_PLAIN = {TokenType.STRING, TokenType.NUMBER}
_STAR_WORDS = ("EXCLUDE", "REPLACE")
_BEFORE_STAR = ("SELECT", "DISTINCT", "ALL", ",", ".")


class TokenRewriter:
    """Rewrites the tokens of one query or expression.

    types: after `rewrite`, the types that the casts name, by their number.
    """

    def __init__(self, tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]) -> None:
        self._reader = TokenReader(tokens, sql)
        self._parameters = parameters
        self._open: list[str] = []
        self._names: list[int] = []
        self._output: list[Token] = []
        self.types: list[SqlType] = []

    def rewrite(self) -> list[Token]:
        reader = self._reader
        while not reader.at_end:
            token = reader.tokens[reader.index]
            inside = self._open[-1] if self._open else ""
            if inside in table_arguments.CONTEXTS and table_arguments.rewrite(inside, reader, self):
                continue
            if token.token_type is TokenType.TABLE and inside.isidentifier():
                table_arguments.check_takes_tables(inside, reader)
            if token.token_type is TokenType.STRING and self._is_whole_interval():
                self._whole_interval(reader.next())
            elif token.token_type in _PLAIN or token.token_type is TokenType.COMMA:
                self._output.append(reader.next())
            elif token.token_type is TokenType.PLACEHOLDER:
                self._parameter(reader.next())
            elif self._is_before_type(token):
                self._type(reader.next())
            elif self._is_typed_literal():
                self._typed_literal()
            elif token.token_type is TokenType.L_PAREN:
                self._opening(reader.next())
            elif token.token_type is TokenType.R_PAREN:
                self._closing(reader.next())
            elif self._is_separator():
                self._separator(reader.next())
            elif (
                self._open
                and self._open[-1] in json_clauses.FUNCTIONS
                and json_clauses.rewrite(self._open[-1], reader, self)
            ):
                continue
            elif token.token_type in (TokenType.L_BRACKET, TokenType.R_BRACKET):
                self._bracket(reader.next())
            elif token.token_type is TokenType.BYTE_STRING:
                self._escaped_string(reader.next())
            else:
                self._word(reader.next())
        return self._output

    def _is_whole_interval(self) -> bool:
        """Whether the next string is an interval with units: INTERVAL '1 day 2 hours'."""
        reader = self._reader
        if not reader.index or word_of(reader.tokens[reader.index - 1]) != "INTERVAL":
            return False
        from runnel.planner.bind.scalars.intervals import has_units

        return has_units(reader.tokens[reader.index].text, reader.peek(1))

    def _whole_interval(self, token: Token) -> None:
        """Puts a mark before every character: sqlglot would read only the first number and unit of
        such a string."""
        self._output.append(_like(token, TokenType.STRING, MARK.join(["", *token.text])))
        self._output.append(_like(token, TokenType.VAR, "SECOND"))

    def _parameter(self, token: Token) -> None:
        self._output.append(_like(token, TokenType.PARAMETER, "$"))
        self._output.append(_like(token, TokenType.NUMBER, str(self._parameters[token.start])))

    def _is_before_type(self, token: Token) -> bool:
        if token.token_type is TokenType.DCOLON:
            return True
        return token.token_type is TokenType.ALIAS and bool(self._open) and self._open[-1] in CASTS

    def _type(self, token: Token) -> None:
        first = self._reader.tokens[self._reader.index] if not self._reader.at_end else token
        self._output.append(token)
        self._output.append(_like(first, TokenType.VAR, f"{TYPE}{len(self.types)}"))
        self.types.append(parse_type(self._reader))

    def _is_typed_literal(self) -> bool:
        """Whether a type and a string come next, as in TIMESTAMP WITH TIME ZONE '…'."""
        reader = self._reader
        if reader.peek() not in TYPE_WORDS:
            return False
        ahead = (
            4
            if reader.peek(1) in ("WITH", "WITHOUT")
            and reader.peek(2) == "TIME"
            and reader.peek(3) == "ZONE"
            else 1
        )
        at = reader.index + ahead
        return at < len(reader.tokens) and reader.tokens[at].token_type is TokenType.STRING

    def _typed_literal(self) -> None:
        first = self._reader.tokens[self._reader.index]
        parsed = parse_type(self._reader)
        self._put_cast(first, self._reader.next(), parsed)

    def _put_cast(self, first: Token, value: Token, parsed: SqlType) -> None:
        self._output.append(_like(first, TokenType.VAR, "CAST"))
        self._output.append(_like(first, TokenType.L_PAREN, "("))
        self._output.append(value)
        self._output.append(_like(first, TokenType.ALIAS, "AS"))
        self._output.append(_like(first, TokenType.VAR, f"{TYPE}{len(self.types)}"))
        self._output.append(_like(first, TokenType.R_PAREN, ")"))
        self.types.append(parsed)

    def _opening(self, token: Token) -> None:
        reader = self._reader
        before = word_of(reader.tokens[reader.index - 2]) if reader.index >= 2 else ""
        if (
            before == "TABLE"
            and not reader.at_end
            and reader.peek(1) == "("
            and reader.peek() not in ("SELECT", "WITH")
        ):
            self._output.pop()
            self._open.append("TABLE")
            self._names.append(0)
            return
        self._open.append(before)
        self._names.append(len(self._output) - 1)
        self._output.append(token)
        if before == "EXTRACT" and not reader.at_end and reader.peek(1) == "FROM":
            field = reader.next()
            self._output.append(_like(field, TokenType.STRING, field.text))

    def _closing(self, token: Token) -> None:
        is_table = bool(self._open) and self._close() == "TABLE"
        if not is_table:
            self._output.append(token)

    def _close(self) -> str:
        self._names.pop()
        return self._open.pop()

    def _bracket(self, token: Token) -> None:
        """Rewrites a bracket of a subscript, of an array, or of MAP[…], which becomes a call."""
        if token.token_type is TokenType.R_BRACKET:
            is_map = bool(self._open) and self._open[-1] in _BRACKETS and self._close() == "MAP["
            self._output.append(_like(token, TokenType.R_PAREN, ")") if is_map else token)
            return
        before = self._output[-1] if self._output else None
        is_map = before is not None and before.token_type is TokenType.MAP
        if before is not None and is_map:
            self._output[-1] = _like(before, TokenType.VAR, MARK + "MAP[")
        self._open.append("MAP[" if is_map else "[")
        self._names.append(len(self._output) - 1)
        self._output.append(_like(token, TokenType.L_PAREN, "(") if is_map else token)
        if self._reader.peek() == ":":
            # sqlglot would read `[:n` as a parameter called n.
            self._output.append(_like(token, TokenType.NUMBER, "1"))

    def _escaped_string(self, token: Token) -> None:
        """Replaces the escapes of E'…', as read from the text: the tokenizer has already replaced
        some of them in the token."""
        body = self._reader.sql[token.start : token.end + 1].strip()[2:-1].replace("''", "'")
        try:
            text = _ESCAPE.sub(_escaped, body)
        except (ValueError, OverflowError):
            raise ProgrammingError(
                "an escape sequence in a string is not a valid character",
                position=position_at(token, self._reader.sql),
            ) from None
        self._output.append(_like(token, TokenType.STRING, text))

    def clause(self, token: Token, text: str, *, is_first: bool) -> None:
        """Appends a clause of a JSON function."""
        if not is_first:
            self.comma(token)
        self._output.append(_like(token, TokenType.STRING, json_clauses.CLAUSE + text))

    def comma(self, token: Token) -> None:
        self._output.append(_like(token, TokenType.COMMA, ","))

    def put(self, like: Token, token_type: TokenType, text: str) -> None:
        """Appends a token with the position of `like`."""
        self._output.append(_like(like, token_type, text))

    def open_call(self, like: Token, name: str) -> None:
        """Begins a call that is not one in the text."""
        self._open.append(name)
        self._names.append(len(self._output))
        self.put(like, TokenType.VAR, MARK + name)
        self.put(like, TokenType.L_PAREN, "(")

    def close_call(self, like: Token) -> None:
        """Ends a call that `open_call` began."""
        self._close()
        self.put(like, TokenType.R_PAREN, ")")

    def rename(self, suffix: str) -> None:
        """Appends to the name of the current function."""
        name = self._output[self._names[-1]]
        self._output[self._names[-1]] = _like(name, TokenType.VAR, name.text + suffix)

    def type_argument(self) -> None:
        """Reads a type and appends a NULL of it."""
        first = self._reader.tokens[min(self._reader.index, len(self._reader.tokens) - 1)]
        parsed = parse_type(self._reader)
        self._put_cast(first, _like(first, TokenType.NULL, "NULL"), parsed)

    def _is_separator(self) -> bool:
        word = self._reader.peek()
        if not self._open or word not in _SEPARATORS.get(self._open[-1], ()):
            return False
        return not (word == "FROM" and self._reader.index > 0 and self._previous() == "DISTINCT")

    def _previous(self) -> str:
        return word_of(self._reader.tokens[self._reader.index - 1])

    def _separator(self, token: Token) -> None:
        if word_of(token) == "FOR" and self._open[-1] == "SUBSTRING" and not self._has_start():
            # SUBSTRING(s FOR n) starts at 1.
            self._output.append(_like(token, TokenType.COMMA, ","))
            self._output.append(_like(token, TokenType.NUMBER, "1"))
        self._output.append(_like(token, TokenType.COMMA, ","))

    def _has_start(self) -> bool:
        """Whether the current SUBSTRING already had its FROM or comma."""
        depth = 0
        for token in reversed(self._reader.tokens[: self._reader.index - 1]):
            if token.token_type is TokenType.R_PAREN:
                depth += 1
            elif token.token_type is TokenType.L_PAREN:
                if depth == 0:
                    return False
                depth -= 1
            elif depth == 0 and word_of(token) in ("FROM", ","):
                return True
        return False

    def _word(self, token: Token) -> None:
        reader = self._reader
        word = word_of(token)
        before = word_of(reader.tokens[reader.index - 2]) if reader.index >= 2 else ""
        following = None if reader.at_end else reader.tokens[reader.index]
        if (
            word == "X"
            and following is not None
            and following.token_type is TokenType.STRING
            and following.start == token.end + 1
        ):
            self._output.append(_like(token, TokenType.VAR, MARK + "X'"))
            self._output.append(_like(token, TokenType.L_PAREN, "("))
            self._output.append(reader.next())
            self._output.append(_like(token, TokenType.R_PAREN, ")"))
        elif word in _STAR_WORDS and _follows_star(reader.tokens, reader.index - 1):
            self._output.append(token)
        elif reader.peek() == "(":
            is_call = (
                (token.token_type in _CALLABLE or word in ("DIV", "XOR", "SESSION"))
                and word not in NOT_CALLED
                and (before, word) not in NOT_CALLED_AFTER
            )
            self._output.append(
                _like(token, TokenType.VAR, MARK + token.text) if is_call else token
            )
        elif word == "JOIN" and before not in _JOIN_WORDS:
            self._output.append(_like(token, TokenType.INNER, "INNER"))
            self._output.append(token)
        elif token.token_type in _WITHOUT_PARENTHESES and before not in (".", "AS"):
            self._output.append(_like(token, TokenType.VAR, MARK + token.text))
            self._output.append(_like(token, TokenType.L_PAREN, "("))
            self._output.append(_like(token, TokenType.R_PAREN, ")"))
        else:
            self._output.append(token)


def _follows_star(tokens: Sequence[Token], index: int) -> bool:
    """Whether the word at `index` belongs to the * of a select list, and not to a product or to the
    expressions of DISTINCT ON (…)."""
    index -= 1
    if index < 1:
        return False
    if word_of(tokens[index]) == "*":
        return word_of(tokens[index - 1]) in _BEFORE_STAR or _closes_distinct_on(tokens, index - 1)
    if word_of(tokens[index]) == ")":
        index = _opening_of(tokens, index)
    elif tokens[index].token_type is not TokenType.IDENTIFIER and not is_word(tokens[index]):
        return False
    # The token or list before `index` belongs to another EXCLUDE or REPLACE, as in
    # `* EXCLUDE (a) REPLACE (…)`.
    return (
        index > 0 and word_of(tokens[index - 1]) in _STAR_WORDS and _follows_star(tokens, index - 1)
    )


def _closes_distinct_on(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token at `index` is the bracket that closes a DISTINCT ON (…)."""
    if word_of(tokens[index]) != ")":
        return False
    at = _opening_of(tokens, index)
    return at > 1 and word_of(tokens[at - 1]) == "ON" and word_of(tokens[at - 2]) == "DISTINCT"


def _opening_of(tokens: Sequence[Token], index: int) -> int:
    """The index of the bracket that the one at `index` closes; 0 if there is none."""
    depth = 0
    for at in range(index, 0, -1):
        depth += (tokens[at].token_type is TokenType.R_PAREN) - (
            tokens[at].token_type is TokenType.L_PAREN
        )
        if depth == 0:
            return at
    return 0


_BRACKETS = ("[", "MAP[")
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _escaped(match: re.Match[str]) -> str:
    short, long, hexadecimal, octal, letter = match.groups()
    if letter is not None:
        return _ESCAPES.get(letter, letter)
    character = chr(int(octal, 8) if octal else int(short or long or hexadecimal, 16))
    character.encode()
    return character


def _like(token: Token, token_type: TokenType, text: str) -> Token:
    """A token of another kind with the position of `token`."""
    return Token(token_type, text, token.line, token.col, token.start, token.end, [])
