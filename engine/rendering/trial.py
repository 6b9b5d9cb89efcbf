"""Texts that an engine binds before the statement runs, to find out whether it will take them."""

from __future__ import annotations

from typing import Any

from runnel.expressions.evaluate import is_constant
from runnel.expressions.nodes import Expression, Literal
from runnel.rendering.render import Dialect, Rendering, RenderingContext
from runnel.sqltypes import Kind

_SAMPLES: dict[Kind, Any] = {
    Kind.BOOLEAN: True,
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT), 1),
    **dict.fromkeys((Kind.REAL, Kind.DOUBLE), 1.0),
    Kind.VARCHAR: "a",
}
"""Values that options of functions may have; NULL does for the other types."""


class Trial(Rendering):
    """Renders with some value of its type for each constant that depends on arguments, time or
    zone."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect, RenderingContext())

    def _constant(self, expression: Expression) -> Expression:
        if is_constant(expression):
            return super()._constant(expression)
        return Literal(
            value=_SAMPLES.get(expression.type.kind),
            type=expression.type,
            position=expression.position,
        )
