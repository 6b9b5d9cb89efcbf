"""Spark's functions on bits, and its tests of floats, as ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Call
from runnel.rendering.render import FunctionRule, template, typed
from runnel.rendering.rules import refused
from runnel.rendering.spark.arithmetic import infinite

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def _shift(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        value, places = arguments
        made = f"{name}({value}, CAST({places} AS INT))"
        return rendering.check(
            f"({places} < 0) OR ({places} > 63)", "a shift must be by 0 to 63 bits", made
        )

    return rule


def _quotient(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    if not call.type.is_integer:
        raise refused(call)
    return f"({arguments[0]} div {arguments[1]})"


FUNCTIONS: dict[str, FunctionRule] = {
    "bit_and": template("({0} & {1})"),
    "bit_or": template("({0} | {1})"),
    "bit_xor": template("({0} ^ {1})"),
    "bit_not": template("(~{0})"),
    "bit_shift_left": _shift("shiftleft"),
    "bit_shift_right": _shift("shiftright"),
    "bit_count": typed("bit_count({0})"),
    "div": _quotient,
    "is_nan": template("({0} = CAST('NaN' AS DOUBLE))"),
    "is_inf": lambda rendering, call, arguments: infinite(arguments[0]),
    "is_finite": template("(abs({0}) < CAST('Infinity' AS DOUBLE))"),
}
