"""The parameters of a statement: `?` in order, `$1` by number, `:name` and `$name` by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import ArgumentsError, InterfaceError, Position, ProgrammingError
from runnel.planner.parse.tokens import is_word, tokenize
from runnel.sqltypes import SqlType

HINT = "parameters are written ?, $1 or :name"

_OPERAND_ENDS = frozenset(
    getattr(TokenType, name)
    for name in "IDENTIFIER STRING NUMBER R_PAREN R_BRACKET R_BRACE PLACEHOLDER VAR".split()
)
"""The tokens that may end an operand. After these a colon separates a key from its value, or a
bracket contains an index."""


_BEFORE_OPERANDS = frozenset(
    getattr(TokenType, name)
    for name in (
        "EQ NEQ LT GT LTE GTE COMMA L_PAREN IN LIKE ILIKE AND OR BETWEEN LIMIT OFFSET SELECT WHERE "
        "THEN ELSE WHEN PLUS DASH STAR SLASH"
    ).split()
)
"""The tokens after which an operand must follow."""


class NamedTypes(tuple[SqlType, ...]):
    """The types of arguments that were passed by name.

    The same types passed in order are other types: a statement with `:name` accepts no tuple, also
    when its plan for a dictionary is cached.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is NamedTypes and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((NamedTypes, tuple(self)))


@frozen
class Parameters:
    """The parameters of one text.

    numbers: the index of each parameter, from 0, by the offset of each of its occurrences.
    names: the name or number of each parameter by its index, as written after the sign; empty for
        parameters that are written `?`.
    sign: how the parameters are written: "?", "$", "$n" (by number) or ":"; "" if there are none.
    """

    numbers: dict[int, int]
    names: tuple[str, ...]
    sign: str

    @property
    def count(self) -> int:
        return max(self.numbers.values(), default=-1) + 1

    @property
    def is_named(self) -> bool:
        return self.sign in (":", "$")

    def position(self, sql: str, index: int) -> Position:
        """The position of the first occurrence of a parameter."""
        offset = min(offset for offset, number in self.numbers.items() if number == index)
        return Position.at(sql, offset, len(self.shown(index)))

    def shown(self, index: int) -> str:
        """A parameter as it is written."""
        return "?" if self.sign == "?" else f"{self.sign[0]}{self.names[index]}"


class _Numbering:
    """Numbers the parameters of a text in the order of their first occurrences."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.numbers: dict[int, int] = {}
        self.indexes: dict[str, int] = {}
        self.sign = ""

    def add(self, sign: str, name: str, first: Token, last: Token) -> Token:
        """Adds an occurrence; returns it as one token. ProgrammingError if the parameters before
        are written in another way."""
        if self.sign not in ("", sign):
            raise ProgrammingError(
                "the parameters of a statement are written in one way",
                detail=f"the ones before are written {_STYLES[self.sign]}, "
                f"and this one {_STYLES[sign]}",
                position=Position.at(self.sql, first.start, last.end - first.start + 1),
            )
        self.sign = sign
        if sign == "?":
            index = len(self.numbers)
        elif sign == "$n":
            index = int(name) - 1
        else:
            index = self.indexes.setdefault(name, len(self.indexes))
        self.numbers[first.start] = index
        return Token(
            TokenType.PLACEHOLDER, "?", first.line, first.col, first.start, last.end, first.comments
        )

    def result(self) -> Parameters:
        if self.sign != "$n":
            return Parameters(self.numbers, tuple(self.indexes), self.sign)
        used = set(self.numbers.values())
        last = max(used)
        missing = next((index for index in range(last) if index not in used), None)
        if missing is not None:
            offset = next(offset for offset, index in self.numbers.items() if index == last)
            raise ProgrammingError(
                f"the statement has ${last + 1}, but no ${missing + 1}",
                hint="number the parameters from $1, without gaps",
                position=Position.at(self.sql, offset, len(str(last + 1)) + 1),
            )
        return Parameters(self.numbers, tuple(str(index + 1) for index in range(last + 1)), "$n")


_STYLES = {"?": "?", "$n": "$1", "$": "$name", ":": ":name"}


def number_parameters(tokens: Sequence[Token], sql: str) -> tuple[Sequence[Token], Parameters]:
    """The tokens with each parameter as one token of type PLACEHOLDER, and the parameters.
    ProgrammingError for a parameter of another style."""
    if not any(token.token_type in _SIGNS for token in tokens):
        return tokens, Parameters({}, (), "")
    numbering = _Numbering(sql)
    written: list[Token] = []
    index, count = 0, len(tokens)
    while index < count:
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < count else None
        sign = _sign(token, following, written, sql) if token.token_type in _SIGNS else None
        if sign is None:
            written.append(token)
            index += 1
        elif sign == "?":
            written.append(numbering.add("?", "", token, token))
            index += 1
        else:
            assert following is not None
            written.append(numbering.add(sign, following.text, token, following))
            index += 2
    return written, numbering.result()


_SIGNS = frozenset((TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.MOD))


def _sign(token: Token, following: Token | None, before: Sequence[Token], sql: str) -> str | None:
    """The style of the parameter that begins with this token; None if none does."""
    touching = following is not None and following.start == token.end + 1
    by_number = touching and following is not None and _is_index(following)
    by_name = touching and following is not None and is_word(following)
    match token.token_type:
        case TokenType.PLACEHOLDER:
            return "$n" if by_number else "?"
        case TokenType.PARAMETER if token.text == "$" and (by_number or by_name):
            return "$n" if by_number else "$"
        case TokenType.COLON if _is_separator(token, touching, before):
            return None
        case TokenType.COLON if by_name:
            return ":"
        case TokenType.MOD if not (touching and following and _is_percent(following, before)):
            return None
    shown = sql[token.start : following.end + 1 if touching and following else token.end + 1]
    raise ProgrammingError(
        f'syntax error at "{shown}"',
        hint=f"{HINT}; %s and %(name)s after runnel.connect(paramstyle='pyformat')"
        if token.token_type is TokenType.MOD
        else f"{HINT}; for the operator @ write abs(x)"
        if shown.startswith("@")
        else HINT,
        position=Position.at(sql, token.start, len(shown)),
    )


def _is_index(token: Token) -> bool:
    return (
        token.token_type is TokenType.NUMBER
        and token.text.isascii()
        and token.text.isdecimal()
        and len(token.text) < 6
        and not token.text.startswith("0")
    )


def _is_percent(following: Token, before: Sequence[Token]) -> bool:
    """Whether a percent sign begins %s or %(name)s, and no operand is before it."""
    return (
        (following.text == "s" or following.token_type is TokenType.L_PAREN)
        and bool(before)
        and before[-1].token_type in _BEFORE_OPERANDS
    )


def _is_after(before: Sequence[Token]) -> bool:
    """Whether an operand may end before the next token."""
    return bool(before) and before[-1].token_type in _OPERAND_ENDS


def _is_separator(colon: Token, touching: bool, before: Sequence[Token]) -> bool:
    """Whether a colon separates a key from its value or the bounds of a slice. After a word, `x :y`
    is a parameter and `x: y` and `x:y` are separators."""
    if not before:
        return False
    last = before[-1]
    if last.token_type is TokenType.L_BRACKET:
        return _is_after(before[:-1])
    if is_word(last):
        return last.end + 1 == colon.start or not touching
    return last.token_type in _OPERAND_ENDS


@lru_cache(maxsize=1000)
def parameters_of(sql: str) -> Parameters:
    """The parameters of a statement; ProgrammingError if it can't be split into words."""
    return number_parameters(tokenize(sql), sql)[1]


def count_error(sql: str, expected: int, found: int) -> InterfaceError:
    """The error for a wrong number of arguments: it names the first parameter without a value, or
    the first value without a parameter."""
    message = f"unexpected parameter count: expected {expected}, got {found}"
    hint = "give one argument for each parameter of the statement"
    if found > expected:
        detail = f"no parameter of the statement uses argument {expected + 1}"
        return ArgumentsError(message, detail=detail, hint=hint)
    parameters = parameters_of(sql)
    number = "" if parameters.sign != "?" else f", parameter {found + 1}"
    return ArgumentsError(
        message,
        detail=f"there is no value for {parameters.shown(found)}{number}",
        hint=hint,
        position=parameters.position(sql, found),
    )
