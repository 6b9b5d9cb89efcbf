"""The rarer functions on text: TRANSLATE, OVERLAY, FORMAT, quoting, distances.

Most are Python functions that are called once per distinct text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import convert
from runnel.expressions.function import Bound, Datum, Kernel, always_may_fail
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.signature import ANY_TEXT, by_value, named, signature
from runnel.sqltypes import BIGINT, INTEGER, VARCHAR, Kind, SqlType, can_cast

_LONGEST = 100_000_000


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index] if index < len(new) else None)
    return text.translate(table)


def _text_slice(text: str, start: int, stop: int) -> str:
    """The characters from `start` to `stop`, both included, from 1; negative ones count from the
    end."""
    first = max(start + len(text) + 1 if start < 0 else start, 1)
    last = stop + len(text) + 1 if stop < 0 else stop
    return text[first - 1 : max(last, 0)]


def _overlay(text: str, new: str, start: int, count: int | None = None) -> str:
    if start < 1:
        raise DataError(f"OVERLAY start must be at least 1, not {start}")
    length = len(new) if count is None else count
    return text[: start - 1] + new + text[max(start - 1 + length, 0) :]


def _quote_literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


def _quote_nullable(text: str | None) -> str:
    return "NULL" if text is None else _quote_literal(text)


def _quote_identifier(text: str) -> str:
    is_plain = (
        text.isascii()
        and text.replace("_", "a").isalnum()
        and not text[0].isdigit()
        and text == text.lower()
    )
    return text if is_plain else '"' + text.replace('"', '""') + '"'


def _format(pattern: str | None, *values: str | None) -> str | None:
    """PostgreSQL's FORMAT: %s, %I, %L, %%, with a position (%1$s), a width, and `-` to align
    left.
    """
    if pattern is None:
        return None
    texts: list[str] = []
    at, following = 0, 0
    while at < len(pattern):
        if pattern[at] != "%":
            end = pattern.find("%", at)
            end = len(pattern) if end < 0 else end
            texts.append(pattern[at:end])
            at = end
            continue
        at, text, following = _specifier(pattern, at + 1, following, values)
        texts.append(text)
    return "".join(texts)


def _specifier(
    pattern: str, at: int, following: int, values: Sequence[str | None]
) -> tuple[int, str, int]:
    """The text of the specifier at `at`, with the index after it and the position of its value.

    following: the position of the value that was used last.
    """
    if pattern[at : at + 1] == "%":
        return at + 1, "%", following
    end = at
    while end < len(pattern) and pattern[end] in "0123456789$-":
        end += 1
    if end == len(pattern):
        raise DataError("the pattern of FORMAT ends within a %")
    head, kind = pattern[at:end], pattern[end]
    position, dollar, rest = head.partition("$")
    if not dollar:
        position, rest = "", head
    if (dollar and not position.isdigit()) or (
        not rest.removeprefix("-").isdigit() and rest not in ("", "-")
    ):
        raise DataError(f"FORMAT doesn't know %{head}{kind}")
    index = int(position) if position else following + 1
    if not 1 <= index <= len(values):
        raise DataError("FORMAT has too few arguments")
    text = _formatted(kind, values[index - 1])
    width = min(int(rest.removeprefix("-") or 0), 10_000)
    return end + 1, text.ljust(width) if rest.startswith("-") else text.rjust(width), index


def _formatted(kind: str, value: str | None) -> str:
    if kind == "s":
        return value or ""
    if kind == "L":
        return _quote_nullable(value)
    if kind == "I":
        if value is None:
            raise DataError("NULL can't be formatted as an identifier")
        return _quote_identifier(value) if value else '""'
    raise DataError(f"FORMAT doesn't know %{kind}", hint="it knows %s, %I, %L and %%")


def _levenshtein(left: str, right: str) -> int:
    """The edit distance, by one row of the distance matrix at a time."""
    if len(left) * len(right) > _LONGEST:
        raise DataError("the texts are too long for LEVENSHTEIN")
    row = list(range(len(right) + 1))
    for number, first in enumerate(left, 1):
        before, row[0] = row[0], number
        for column, second in enumerate(right, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (first != second)),
            )
    return row[-1]


def _to_base(number: int, base: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    if not 2 <= base <= 36:
        raise DataError("a base must be 2 to 36")
    value = number if number >= 0 else number + 2**64
    text = ""
    while True:
        value, digit = divmod(value, base)
        text = digits[digit] + text
        if not value:
            return text


_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def _normalize(text: str, form: str = "NFC") -> str:
    if form.upper() not in _FORMS:
        raise DataError(
            f"there is no normal form {form}", hint=f"the forms are {', '.join(_FORMS)}"
        )
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


def _to_ascii(text: str) -> str:
    return unicodedata.normalize("NFD", text).encode("ascii", "ignore").decode()


def _unicode(text: str) -> int:
    return ord(text[0]) if text else -1


def _bit_length(text: Datum) -> Datum:
    return pc.multiply(pc.binary_length(text), pack_scalar(8, INTEGER))


def _spaces(count: int) -> str:
    if count > _LONGEST:
        raise DataError(f"a text of {count} characters is too long")
    return " " * max(count, 0)


def _bind_format(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if not arguments:
        raise ProgrammingError("FORMAT expects at least 1 argument, not 0", position=position)
    for item in arguments:
        if not can_cast(item.type, VARCHAR) or item.type.kind is Kind.VARBINARY:
            raise ProgrammingError(
                f"FORMAT doesn't accept {item.type}", position=item.position or position
            )
    return tuple(convert(item, VARCHAR) for item in arguments), VARCHAR


def _contains(call: Call) -> Kernel:
    general = per_value(lambda text, part: part in text)(call)

    def run(text: Datum, part: Datum) -> Datum:
        if isinstance(part, pa.Scalar) and part.is_valid:
            return pc.match_substring(text, part.as_py())
        return general(text, part)

    return run


_text = partial(by_value, family="string")
FUNCTIONS = (
    _text("translate", "s VARCHAR, old VARCHAR, new VARCHAR", [VARCHAR] * 3, VARCHAR, _translate),
    _text(
        "overlay",
        "s VARCHAR PLACING new VARCHAR FROM start BIGINT [FOR count BIGINT]",
        [VARCHAR, VARCHAR, BIGINT, BIGINT],
        VARCHAR,
        _overlay,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text("quote_literal", "x ANY", [ANY_TEXT], VARCHAR, _quote_literal),
    _text(
        "quote_ident",
        "s VARCHAR",
        [VARCHAR],
        VARCHAR,
        lambda text: _quote_identifier(text) if text else '""',
    ),
    named(
        "quote_nullable",
        "x ANY",
        "VARCHAR",
        signature(ANY_TEXT, result=VARCHAR),
        per_value(_quote_nullable, is_strict=False),
        family="string",
    ),
    named(
        "format",
        "pattern VARCHAR, x ANY, …",
        "VARCHAR",
        _bind_format,
        per_value(_format, is_strict=False),
        can_fail=always_may_fail,
        family="string",
    ),
    _text(
        "levenshtein",
        "s VARCHAR, t VARCHAR",
        [VARCHAR] * 2,
        INTEGER,
        _levenshtein,
        can_fail=always_may_fail,
        sql_names=("EDITDIST3",),
    ),
    _text(
        "to_base",
        "x BIGINT, base BIGINT",
        [BIGINT] * 2,
        VARCHAR,
        _to_base,
        can_fail=always_may_fail,
    ),
    _text(
        "text_slice",
        "s VARCHAR, start BIGINT, stop BIGINT",
        [VARCHAR, BIGINT, BIGINT],
        VARCHAR,
        _text_slice,
    ),
    _text("to_hex", "x BIGINT", [BIGINT], VARCHAR, lambda number: _to_base(number, 16).upper()),
    _text("to_bin", "x BIGINT", [BIGINT], VARCHAR, lambda number: _to_base(number, 2)),
    _text("to_oct", "x BIGINT", [BIGINT], VARCHAR, lambda number: _to_base(number, 8)),
    _text(
        "normalize",
        "s VARCHAR [, form VARCHAR]",
        [VARCHAR] * 2,
        VARCHAR,
        _normalize,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text(
        "strip_accents",
        "s VARCHAR",
        [VARCHAR],
        VARCHAR,
        lambda text: "".join(
            c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)
        ),
    ),
    _text("to_ascii", "s VARCHAR", [VARCHAR], VARCHAR, _to_ascii),
    _text("unicode", "s VARCHAR", [VARCHAR], INTEGER, _unicode, sql_names=("ORD",)),
    _text("space", "count BIGINT", [BIGINT], VARCHAR, _spaces, can_fail=always_may_fail),
    named(
        "bit_length",
        "s VARCHAR",
        "INTEGER",
        signature(VARCHAR, result=INTEGER),
        kernel=_bit_length,
        family="string",
    ),
    named(
        "contains",
        "s VARCHAR, part VARCHAR",
        "BOOLEAN",
        signature(VARCHAR, VARCHAR, result=SqlType(Kind.BOOLEAN)),
        _contains,
        family="string",
    ),
)
