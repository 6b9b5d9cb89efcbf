"""Flink's types: STRING, BYTES, TIMESTAMP_LTZ(3), ROW<…>, ARRAY<…> and MAP<…>.

A length of a text and a precision of up to six digits of a time are accepted without effect: texts
have any length, times have microseconds. FLOAT has 32 bits, unlike in other statements.
"""

from __future__ import annotations

from runnel import sqltypes
from runnel.errors import NotSupportedError
from runnel.planner.parse.tokens import TokenReader
from runnel.planner.parse.types import MAX_NESTING, parse_angled, parse_type
from runnel.sqltypes import SqlType

_TEXTS = ("STRING", "VARCHAR", "CHAR", "CHARACTER", "CHARACTER VARYING", "TEXT")
_BYTES = ("BYTES", "BINARY", "VARBINARY", "BINARY VARYING")
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIME")
_LOCAL = (("WITH", "LOCAL", "TIME", "ZONE"), ("WITH", "TIME", "ZONE"))
_MOST_DIGITS = 6
_REMEDIES = {
    "MULTISET": "use MAP<type, INT>",
    "RAW": "use BYTES",
    "STRUCTURED": "use ROW<field type, …>",
}


def flink_type(reader: TokenReader, depth: int = 0) -> SqlType:
    """Reads a type of Flink, or one of Runnel."""
    if depth > MAX_NESTING:
        raise NotSupportedError(
            f"a type nested more than {MAX_NESTING} deep is not supported", position=reader.position
        )
    found = _base(reader, depth)
    while reader.peek() in ("ARRAY", "MULTISET"):
        if reader.peek() == "MULTISET":
            raise _refused(reader, "MULTISET")
        reader.next()
        found = sqltypes.array(found)
    return found


def _base(reader: TokenReader, depth: int) -> SqlType:
    word, opening = reader.peek(), reader.peek(1)
    if word in _REMEDIES:
        raise _refused(reader, word)
    if word in ("ROW", "ARRAY", "MAP") and opening in ("<", "<>"):
        reader.next()
        return parse_angled(reader, word, lambda: _element(reader, depth))
    if word in _TEXTS or word in _BYTES:
        reader.next()
        _skip_number(reader)
        return sqltypes.VARCHAR if word in _TEXTS else sqltypes.VARBINARY
    if word in _TIMES:
        return _time(reader, word)
    if word == "FLOAT":
        reader.next()
        return sqltypes.REAL
    if word == "DECIMAL" and opening != "(":
        reader.next()
        return sqltypes.decimal(10, 0)
    return parse_type(reader)


def _element(reader: TokenReader, depth: int) -> SqlType:
    found = flink_type(reader, depth + 1)
    if not reader.accept("NOT", "NULL"):
        reader.accept("NULL")
    return found


def _time(reader: TokenReader, word: str) -> SqlType:
    reader.next()
    position = reader.position
    digits = _skip_number(reader)
    if digits is not None and digits > _MOST_DIGITS:
        raise NotSupportedError(
            f"{word}({digits}) is not supported",
            hint=f"times have microseconds: write {word}({_MOST_DIGITS})",
            position=position,
        )
    if word == "TIMESTAMP_LTZ":
        return sqltypes.TIMESTAMP_TZ
    is_local = any(reader.accept(*words) for words in _LOCAL)
    reader.accept("WITHOUT", "TIME", "ZONE")
    if word == "TIME":
        if is_local:
            raise NotSupportedError(
                "TIME WITH TIME ZONE is not supported",
                hint="use TIME or TIMESTAMP_LTZ(3)",
                position=position,
            )
        return sqltypes.TIME
    return sqltypes.TIMESTAMP_TZ if is_local else sqltypes.TIMESTAMP


def _skip_number(reader: TokenReader) -> int | None:
    """Reads `(n)`, if it comes next."""
    if not reader.accept("("):
        return None
    text = "" if reader.at_end else reader.tokens[reader.index].text
    if not text.isascii() or not text.isdecimal():
        raise reader.error("a number")
    reader.next()
    reader.expect(")")
    return int(text[:10])


def _refused(reader: TokenReader, word: str) -> NotSupportedError:
    return NotSupportedError(
        f"type {word} is not supported", hint=_REMEDIES[word], position=reader.position
    )
