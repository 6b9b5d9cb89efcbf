"""Number literals."""

from __future__ import annotations

from decimal import Decimal
from math import isinf

from runnel.errors import Position, ProgrammingError
from runnel.expressions.nodes import Literal
from runnel.sqltypes import DOUBLE, MAX_PRECISION, decimal, integer_type_of


def number_literal(text: str, position: Position | None) -> Literal:
    """A number with its SQL type: the narrowest integer type that holds it, DECIMAL for digits with
    a point, DOUBLE for a number with an exponent."""
    text = text.replace("_", "")
    if "e" in text.lower():
        value = float(text)
        if isinf(value):
            raise ProgrammingError(f"number {text[:40]} is too large for DOUBLE", position=position)
        return Literal(value=value, type=DOUBLE, position=position)
    digits = text.lstrip("-").replace(".", "", 1).lstrip("0") or "0"
    fraction = text.partition(".")[2]
    precision = max(len(digits), len(fraction), 1)
    if precision > MAX_PRECISION:
        raise ProgrammingError(
            f"a number of {precision} digits is too long for DECIMAL",
            hint=(
                f"DECIMAL holds {MAX_PRECISION} digits; write it with an exponent for a DOUBLE: 1e0"
            ),
            position=position,
        )
    if "." in text:
        return Literal(
            value=Decimal(text), type=decimal(precision, len(fraction)), position=position
        )
    kind = integer_type_of(int(text))
    return Literal(
        value=int(text) if kind.is_integer else Decimal(text), type=kind, position=position
    )
