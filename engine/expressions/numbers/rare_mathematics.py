"""Rarer functions of numbers, which call Python's `math` for each value."""

from __future__ import annotations

import math
from functools import partial

from runnel.errors import DataError
from runnel.expressions.function import always_may_fail
from runnel.expressions.signature import by_value
from runnel.sqltypes import BOOLEAN, DOUBLE, INTEGER


def _gamma(x: float) -> float:
    if x == 0 or (x < 0 and x == math.floor(x)):
        raise DataError(f"GAMMA has no value at {x:g}")
    return math.gamma(x)


def _lgamma(x: float) -> float:
    if x == 0 or (x < 0 and x == math.floor(x)):
        raise DataError(f"LGAMMA has no value at {x:g}")
    return math.lgamma(x)


def _round_even(x: float, digits: int = 0) -> float:
    """Rounded to the nearest value, and from the middle to the one with an even last digit."""
    return x if not math.isfinite(x) else float(round(x, max(min(digits, 400), -400)))


_math = partial(by_value, family="math")
FUNCTIONS = (
    _math("gamma", "x DOUBLE", [DOUBLE], DOUBLE, _gamma, can_fail=always_may_fail),
    _math("lgamma", "x DOUBLE", [DOUBLE], DOUBLE, _lgamma, can_fail=always_may_fail),
    _math("erf", "x DOUBLE", [DOUBLE], DOUBLE, math.erf),
    _math("erfc", "x DOUBLE", [DOUBLE], DOUBLE, math.erfc),
    _math("nextafter", "x DOUBLE, y DOUBLE", [DOUBLE, DOUBLE], DOUBLE, math.nextafter),
    _math("signbit", "x DOUBLE", [DOUBLE], BOOLEAN, lambda x: math.copysign(1.0, x) < 0),
    _math(
        "round_even",
        "x DOUBLE [, digits INTEGER]",
        [DOUBLE, INTEGER],
        DOUBLE,
        _round_even,
        optional=1,
    ),
)
