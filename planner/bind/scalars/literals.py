"""Literals of bytes, and the length or precision of a CAST. Loaded on first use."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.planner.parse.types import TypeLimit
from runnel.sqltypes import BIGINT, INTERVAL, VARBINARY, VARCHAR, Kind, SqlType

_UNITS = {0: "second", 3: "milliseconds"}


def fitted(
    value: Expression, size: int | TypeLimit, position: Position | None, *, is_tried: bool = False
) -> Expression:
    """The result of a CAST to VARCHAR(size) or VARBINARY(size), cut to `size` characters or bytes;
    to CHAR(n), whose size is -n, also filled with spaces; or to TIMESTAMP(size), rounded to `size`
    digits of a second, halves up, as in PostgreSQL and DuckDB. A value outside of a TypeLimit is an
    error, or NULL of TRY_CAST."""
    if isinstance(size, TypeLimit):
        limits = [
            Literal(value=str(item), type=VARCHAR) for item in (size.low, size.high, size.word)
        ]
        name = "try_limited" if is_tried else "limited"
        return Call(function=name, arguments=(value, *limits), type=value.type, position=position)
    if value.type.kind is Kind.VARBINARY:
        one, length = Literal(value=1, type=BIGINT), Literal(value=size, type=BIGINT)
        return build.call("SUBSTRING", [value, one, length], position)
    if value.type.kind is Kind.VARCHAR and size < 0:
        return build.call("RPAD", [value, Literal(value=-size, type=BIGINT)], position)
    if value.type.kind is Kind.VARCHAR:
        return build.call("LEFT", [value, Literal(value=size, type=BIGINT)], position)
    unit = _UNITS.get(size)
    if unit is None:
        return value
    half = Literal(value=timedelta(seconds=0.5 / 10**size), type=INTERVAL)
    word = Literal(value=unit, type=VARCHAR)
    return build.call("DATE_TRUNC", [word, build.call("add", [value, half], position)], position)


def binary_literal(tree: Any, position: Position | None) -> Expression:
    """Binds X'ff'."""
    digits = "".join(tree.expressions[0].name.split())
    try:
        return Literal(value=bytes.fromhex(digits), type=VARBINARY, position=position)
    except ValueError:
        raise ProgrammingError(
            f"X'{tree.expressions[0].name}' is not a binary value",
            hint="write pairs of the digits 0-9 and a-f",
            position=position,
        ) from None


def epoch(literal: Literal, target: SqlType) -> Literal:
    """The literal 'epoch' as the text of the start of 1970, if it is cast to a date or time."""
    texts = {
        Kind.DATE: "1970-01-01",
        Kind.TIMESTAMP: "1970-01-01 00:00:00",
        Kind.TIMESTAMP_TZ: "1970-01-01 00:00:00+00",
    }
    text = texts.get(target.kind)
    return literal if text is None else replace(literal, value=text)
