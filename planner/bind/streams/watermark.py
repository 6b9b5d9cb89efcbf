"""Binding of WATERMARK FOR in CREATE MAPPING: `column`, or `column - constant`.

The columns of a mapping are known only when its connector has opened it. Only then it is checked
that the constant fits the column's type.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from runnel.catalog import WatermarkClause
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.bind.scalars.intervals import parse_interval
from runnel.planner.parse.query.allow_list import position_of, unwrapped
from runnel.planner.parse.syntax import MappingWatermark

_FORMS = (
    "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, AS ts - 5 for an integer column, or AS ts"
)
_LARGEST = 2**62
"""The maximum delay, so that a watermark fits into int64."""


def watermark_clause(watermark: MappingWatermark, sql: str) -> WatermarkClause:
    """The column and its delay; an error with a position for any other expression."""
    column, value = watermark.column, unwrapped(watermark.value)
    lag, is_interval = 0, False
    if isinstance(value, exp.Sub):
        lag, is_interval = _constant(unwrapped(value.expression), sql)
        value = unwrapped(value.this)
    elif isinstance(value, exp.Add):
        raise ProgrammingError(
            "a watermark can't be ahead of the event times",
            hint=_FORMS,
            position=position_of(value, sql) or column.position,
        )
    position = position_of(value, sql) or column.position
    if not isinstance(value, exp.Column) or value.args.get("table") is not None:
        raise NotSupportedError(
            "a watermark must be the time column minus a constant", hint=_FORMS, position=position
        )
    if value.name.lower() != column.text.lower():
        raise ProgrammingError(
            f'WATERMARK FOR "{column}" must use that column, not "{value.name}"',
            hint=_FORMS,
            position=position,
        )
    return WatermarkClause(column.text, lag, is_interval, column.position)


def _constant(tree: Any, sql: str) -> tuple[int, bool]:
    position = position_of(tree, sql)
    if isinstance(tree, exp.Interval):
        lag, is_months = parse_interval(tree, position)
        if is_months:
            raise ProgrammingError(
                "the delay of a watermark can't be an interval of months or years",
                hint="months differ in length: use days, as in INTERVAL '30' DAY",
                position=position,
            )
        return _checked(lag, position), True
    is_negative = isinstance(tree, exp.Neg)
    number = tree.this if is_negative else tree
    if isinstance(number, exp.Literal) and not number.is_string and number.name.isdecimal():
        return _checked(-int(number.name) if is_negative else int(number.name), position), False
    raise NotSupportedError(
        "the delay of a watermark must be a constant", hint=_FORMS, position=position
    )


def _checked(lag: int, position: Position | None) -> int:
    if lag < 0:
        raise ProgrammingError(
            "the delay of a watermark can't be negative", hint=_FORMS, position=position
        )
    if lag > _LARGEST:
        raise ProgrammingError("the delay of a watermark is out of range", position=position)
    return lag
