"""Mathematical functions. The transcendental ones compute in DOUBLE.

A NaN that doesn't come from a NaN argument, and an infinity that doesn't come from an infinite one,
is a DataError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts import numbers as cast_numbers
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.function import (
    Datum,
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_first,
)
from runnel.expressions.kernels.buffers import pack_scalar, validity
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.numbers.arithmetic import finite
from runnel.expressions.signature import NUMERIC, named, signature
from runnel.sqltypes import BIGINT, BOOLEAN, DOUBLE, Kind, SqlType, decimal, to_arrow

_PI = pack_scalar(math.pi, DOUBLE)
_FLOAT = pa.float64()


def over_numpy(operation: Callable[[Any], Any]) -> Kernel:
    """A kernel for a numpy function over a DOUBLE array; its results in the slots of NULLs are
    ignored.
    """

    def run(array: pa.Array) -> pa.Array:
        values = np.frombuffer(
            array.buffers()[1], dtype=np.float64, count=len(array), offset=8 * array.offset
        )
        with np.errstate(all="ignore"):
            result = operation(values)
        return pa.Array.from_buffers(_FLOAT, len(array), [validity(array), pa.py_buffer(result)])

    return over_first(run)


def _finite(kernel: Kernel) -> Kernel:
    return lambda *operands: finite(kernel(*operands), *operands)


_ZERO, _LEAST = pack_scalar(0.0, DOUBLE), pack_scalar(-math.inf, DOUBLE)


def _power(base: Datum, exponent: Datum) -> Datum:
    result = pc.power(base, exponent)
    unexplained = pc.and_not(pc.is_nan(result), pc.or_(pc.is_nan(base), pc.is_nan(exponent)))
    if any_true(pc.and_(pc.equal(base, _ZERO), pc.less(exponent, _ZERO))):
        raise DataError("zero raised to a negative power is undefined")
    is_fraction = pc.and_(pc.is_finite(exponent), pc.not_equal(exponent, pc.trunc(exponent)))
    if any_true(pc.or_(unexplained, pc.and_(pc.equal(base, _LEAST), is_fraction))):
        raise DataError("a negative number raised to a fraction has no real value")
    return finite(result, base, exponent)


def _cube_root(values: Any) -> Any:
    """The cube roots of numpy values, exact for cubes of whole numbers.

    The C library returns 3.0000000000000004 for 27.0 on some processors, and 3.0 on others.
    """
    roots = np.cbrt(values)
    whole = np.rint(roots)
    return np.where(whole * whole * whole == values, whole, roots)


def _cotangent(value: Datum) -> Datum:
    return pc.divide_checked(pack_scalar(1.0, DOUBLE), pc.tan_checked(value))


def _in_domain(kernel: Kernel, message: str) -> Kernel:
    """A kernel that raises DataError with `message` for an argument outside the function's
    domain.
    """

    def run(*operands: Datum) -> Datum:
        try:
            return kernel(*operands)
        except pa.ArrowInvalid:
            raise DataError(message) from None

    return run


def _log_base(base: Datum, value: Datum) -> Datum:
    try:
        return finite(pc.divide_checked(pc.ln_checked(value), pc.ln_checked(base)), value)
    except pa.ArrowInvalid as error:
        if "zero" in str(error) and "logarithm" not in str(error):
            raise
        raise DataError(_LOGARITHM) from None


def _hyperbolic(operation: Callable[[Any], Any], message: str) -> Kernel:
    """A kernel for a numpy function that raises DataError with `message` if it returns NaN or an
    infinity for an argument that is neither.
    """
    kernel = over_numpy(operation)

    def run(value: pa.Array) -> pa.Array:
        result = kernel(value)
        undefined = pc.and_not(pc.is_nan(result), pc.is_nan(value))
        if any_true(pc.or_(undefined, pc.and_not(pc.is_inf(result), pc.is_inf(value)))):
            raise DataError(message)
        return result

    return over_first(run)


_LOGARITHM = "logarithm of a number that isn't positive"
_UNARY: dict[str, Kernel] = {
    "square": _finite(lambda value: pc.multiply(value, value)),
    "sqrt": _in_domain(pc.sqrt_checked, "square root of a negative number"),
    "cbrt": over_numpy(_cube_root),
    "exp": _finite(pc.exp),
    "ln": _in_domain(pc.ln_checked, _LOGARITHM),
    "log2": _in_domain(pc.log2_checked, _LOGARITHM),
    "log10": _in_domain(pc.log10_checked, _LOGARITHM),
    "degrees": _finite(over_numpy(np.degrees)),
    "radians": over_numpy(np.radians),
    "sin": _in_domain(pc.sin_checked, "sine of an infinite number"),
    "cos": _in_domain(pc.cos_checked, "cosine of an infinite number"),
    "tan": _in_domain(pc.tan_checked, "tangent of an infinite number"),
    "cot": _cotangent,
    "asin": _in_domain(pc.asin_checked, "arc sine of a number outside -1 to 1"),
    "acos": _in_domain(pc.acos_checked, "arc cosine of a number outside -1 to 1"),
    "atan": pc.atan,
    "sinh": _hyperbolic(np.sinh, "DOUBLE overflow in SINH"),
    "cosh": _hyperbolic(np.cosh, "DOUBLE overflow in COSH"),
    "tanh": over_numpy(np.tanh),
    "asinh": over_numpy(np.arcsinh),
    "acosh": _hyperbolic(np.arccosh, "ACOSH of a number below 1"),
    "atanh": _hyperbolic(np.arctanh, "ATANH of a number not between -1 and 1"),
}
"""The kernels of functions of one DOUBLE, by function key."""
_TOTAL = ("cbrt", "radians", "atan", "tanh", "asinh")
"""The functions among these that are defined for all numbers."""
_ALIASES = {"log10": ("LOG",)}
_TESTS: dict[str, Kernel] = {
    "is_nan": pc.is_nan,
    "is_inf": pc.is_inf,
    "is_finite": pc.is_finite,
}


def _same_type(arguments: Sequence[Expression]) -> SqlType:
    return arguments[0].type


def _sign(call: Call) -> Kernel:
    if call.type.kind is Kind.DECIMAL:
        widen, arrow = cast_numbers.conversion(BIGINT, call.type), pa.int64()
        return lambda value: widen(pc.cast(pc.sign(value), arrow), EvaluationContext())
    return _cast_sign(to_arrow(call.type))


def _cast_sign(arrow: pa.DataType) -> Kernel:
    return lambda value: pc.cast(pc.sign(value), arrow)


def _sign_type(arguments: Sequence[Expression]) -> SqlType:
    source = arguments[0].type
    return decimal(1, 0) if source.kind is Kind.DECIMAL else source


def _abs_can_fail(call: Call) -> bool:
    return call.type.is_integer


_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The constants of splitmix64 (Steele, Lea and Flood, 2014)."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def _random(frame: EvaluationInput, *seed: Datum) -> Datum:
    """A new random number for every row; with a seed, the number that follows from it
    (splitmix64).
    """
    if not seed:
        return pa.Array.from_buffers(
            _FLOAT, frame.num_rows, [None, pa.py_buffer(_generator().random(frame.num_rows))]
        )
    return over_first(_seeded)(seed[0])


def _seeded(array: pa.Array) -> pa.Array:
    state = (
        np.frombuffer(
            array.buffers()[1], dtype=np.uint64, count=len(array), offset=8 * array.offset
        )
        + _GAMMA
    )
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    numbers = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    return pa.Array.from_buffers(_FLOAT, len(array), [validity(array), pa.py_buffer(numbers)])


@lru_cache(maxsize=1)
def _generator() -> np.random.Generator:
    """The random generator; created on first use, as numpy imports its `random` only then."""
    return np.random.default_rng()


FUNCTIONS = (
    *(
        named(
            name,
            "x DOUBLE",
            "DOUBLE",
            signature(DOUBLE, result=DOUBLE),
            kernel=kernel,
            sql_names=_ALIASES.get(name, ()),
            can_fail=never_fails if name in _TOTAL else always_may_fail,
            family="math",
        )
        for name, kernel in _UNARY.items()
    ),
    *(
        named(
            name,
            "x DOUBLE",
            "BOOLEAN",
            signature(DOUBLE, result=BOOLEAN),
            kernel=kernel,
            sql_names=(name.upper().replace("_", ""),),
            family="math",
        )
        for name, kernel in _TESTS.items()
    ),
    Function(
        name="log_base",
        arguments="base DOUBLE, x DOUBLE",
        result="DOUBLE",
        bind=signature(DOUBLE, DOUBLE, result=DOUBLE),
        compile=lambda call: _log_base,
        can_fail=always_may_fail,
        family="math",
    ),
    named(
        "power",
        "x DOUBLE, y DOUBLE",
        "DOUBLE",
        signature(DOUBLE, DOUBLE, result=DOUBLE),
        kernel=_power,
        sql_names=("POW",),
        can_fail=always_may_fail,
        family="math",
    ),
    named(
        "atan2",
        "y DOUBLE, x DOUBLE",
        "DOUBLE",
        signature(DOUBLE, DOUBLE, result=DOUBLE),
        kernel=pc.atan2,
        family="math",
    ),
    named("pi", "", "DOUBLE", signature(result=DOUBLE), kernel=lambda: _PI, family="math"),
    named(
        "abs",
        "x NUMERIC",
        "the type of x",
        signature(NUMERIC, result=_same_type),
        kernel=pc.abs_checked,
        can_fail=_abs_can_fail,
        family="math",
    ),
    named(
        "sign",
        "x NUMERIC",
        "the type of x; DECIMAL(1, 0)",
        signature(NUMERIC, result=_sign_type),
        _sign,
        family="math",
    ),
    Function(
        name="rand",
        arguments="[seed BIGINT]",
        result="DOUBLE, from 0 to below 1; one per row, with a seed the one that belongs to it",
        bind=signature(BIGINT, result=DOUBLE, optional=1),
        compile=lambda call: _random,
        sql_names=("RAND", "RANDOM"),
        needs_frame=True,
        is_volatile=True,
        family="math",
    ),
)
