"""Arithmetic on numbers: + − * / % and the sign.

Integer types grow with the operation: `+`, `−` and `/` need one bit more than the wider operand,
`*` one more than the sum of both, and the result is the narrowest type with that many bits. So a
row can overflow only where that is more than BIGINT has. The result of a DECIMAL and an integer is
DECIMAL; the result of an exact number and a REAL or DOUBLE is that type. Division of integers
truncates; `%` has the dividend's sign. No operation wraps around. An infinite result of finite
operands is a DataError, as is division by zero. Dates, times and intervals are in
`time/arithmetic.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import (
    check_count,
    convert,
    exact_decimal,
    operand_types,
    retype_parameters,
)
from runnel.expressions.function import Bound, Datum, Function, Kernel, over_first
from runnel.expressions.nodes import INFIX, Call, Cast, Expression, Literal
from runnel.expressions.numbers import decimals
from runnel.expressions.time import arithmetic as temporal_arithmetic
from runnel.sqltypes import (
    BIGINT,
    INTEGER_WIDTHS,
    Kind,
    SqlType,
    as_decimal,
    common_type,
    fitting_integer,
    to_arrow,
)

_BIGINT_BITS = 63
OVERFLOW = "overflow"


def bind_arithmetic(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """The operands converted for the operator, and its result type."""
    check_count({"remainder": "MOD"}.get(name, name), arguments, 2, position)
    left, right = retype_parameters(arguments)
    if left.type.kind is Kind.NULL and right.type.kind is Kind.NULL:
        left, right = convert(left, BIGINT), convert(right, BIGINT)
    if left.type.is_numeric and right.type.is_numeric:
        return _bind_numbers(name, left, right, position)
    bound = temporal_arithmetic.bind(name, left, right)
    if bound is not None:
        return bound
    raise ProgrammingError(
        f"cannot apply {INFIX[name]!r} operator to {operand_types((left, right))}",
        hint="add an explicit CAST",
        position=position,
    )


def _bind_numbers(
    name: str, left: Expression, right: Expression, position: Position | None
) -> Bound:
    common = common_type(left.type, right.type)
    assert common is not None
    if common.is_approximate:
        if name == "remainder":
            raise ProgrammingError(
                f"cannot apply '%' operator to {operand_types((left, right))}",
                hint="cast the operands to DECIMAL",
                position=position,
            )
        return (convert(left, common), convert(right, common)), common
    if common.kind is Kind.DECIMAL:
        first, second = _as_decimal(left), _as_decimal(right)
        return (first, second), _DECIMAL_TYPES[name](first.type, second.type)
    result = (
        common
        if name == "remainder"
        else fitting_integer(_result_bits(name, bits(left), bits(right)) + 1)
    )
    target = result if INTEGER_WIDTHS[result.kind] >= INTEGER_WIDTHS[common.kind] else common
    return (convert(left, target), convert(right, target)), target


def _as_decimal(operand: Expression) -> Expression:
    if isinstance(operand, Literal) and operand.value is not None:
        return convert(operand, exact_decimal(operand))
    return convert(operand, as_decimal(operand.type))


_DECIMAL_TYPES: dict[str, Callable[[SqlType, SqlType], SqlType]] = {
    "add": decimals.add_type,
    "subtract": decimals.add_type,
    "multiply": decimals.multiply_type,
    "divide": decimals.divide_type,
    "remainder": decimals.remainder_type,
}


def bits(expression: Expression) -> int:
    """The number of bits that an integer expression needs in addition to the sign; if nothing
    better is known, the bits of its type.
    """
    if isinstance(expression, Literal) and expression.value is not None:
        value = expression.value
        return int((value if value >= 0 else ~value).bit_length())
    if isinstance(expression, Cast) and expression.operand.type.is_integer:
        return min(bits(expression.operand), INTEGER_WIDTHS[expression.type.kind] - 1)
    width = INTEGER_WIDTHS[expression.type.kind] - 1
    if (
        isinstance(expression, Call)
        and width < _BIGINT_BITS
        and expression.function in _DECIMAL_TYPES
    ):
        left, right = expression.arguments
        if left.type.is_integer and right.type.is_integer:
            return min(_result_bits(expression.function, bits(left), bits(right)), width)
    return width


def _result_bits(name: str, left: int, right: int) -> int:
    """The bits of the result of an operator whose operands have `left` and `right` bits."""
    if name == "multiply":
        # One bit more than the sum, as the product of the two most negative numbers is
        # 2^(left + right).
        return left + right + 1
    if name == "remainder":
        return max(left, right)
    return max(left, right) + 1


def _can_fail(call: Call) -> bool:
    if call.function in ("divide", "remainder"):
        return True
    left, right = call.arguments
    if call.type.is_integer and left.type.is_integer:
        return _result_bits(call.function, bits(left), bits(right)) > _BIGINT_BITS
    if call.type.kind is Kind.DECIMAL:
        fails = decimals.multiply_can_fail if call.function == "multiply" else decimals.add_can_fail
        return fails(left.type, right.type)
    return True


def _compile(call: Call) -> Kernel:
    left, right = (item.type for item in call.arguments)
    if not (left.is_numeric and right.is_numeric):
        return temporal_arithmetic.compile_call(call)
    if call.type.kind is Kind.DECIMAL:
        if call.function in ("add", "subtract"):
            return decimals.add_kernel(call.function, left, right, call.type)
        return _DECIMAL_KERNELS[call.function](left, right, call.type)
    if call.type.is_approximate:
        return _float_kernel(call.function)
    checked, unchecked = _INTEGER_KERNELS[call.function]
    return checked if _can_fail(call) else unchecked


_INTEGER_KERNELS: dict[str, tuple[Kernel, Kernel]] = {
    "add": (pc.add_checked, pc.add),
    "subtract": (pc.subtract_checked, pc.subtract),
    "multiply": (pc.multiply_checked, pc.multiply),
    "divide": (pc.divide_checked, pc.divide_checked),
    "remainder": (pc.remainder, pc.remainder),
}
"""The checked and the unchecked kernel of each operator; the unchecked one is for types that can't
overflow.
"""
_DECIMAL_KERNELS: dict[str, Callable[[SqlType, SqlType, SqlType], Kernel]] = {
    "multiply": decimals.multiply_kernel,
    "divide": decimals.divide_kernel,
    "remainder": decimals.remainder_kernel,
}
_FLOAT_KERNELS: dict[str, Kernel] = {
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
    "divide": pc.divide_checked,
}


def _float_kernel(name: str) -> Kernel:
    operation = _FLOAT_KERNELS[name]

    def run(left: Datum, right: Datum) -> Datum:
        return finite(operation(left, right), left, right)

    return run


def finite(result: Datum, *operands: Datum) -> Datum:
    """The result of a computation on floats; DataError if it is infinite though its operands are
    finite.
    """
    infinite = pc.is_inf(result)
    if _any(infinite):
        unexplained = infinite
        for operand in operands:
            unexplained = pc.and_(unexplained, pc.is_finite(operand))
        if _any(unexplained):
            raise DataError(OVERFLOW)
    return result


def _any(flags: Datum) -> bool:
    return bool(flags.as_py()) if isinstance(flags, pa.Scalar) else bool(flags.true_count)


def _bind_negate(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    (operand,) = arguments
    if operand.type.kind is Kind.NULL:
        operand = convert(operand, BIGINT)
    if not (operand.type.is_numeric or operand.type.is_interval):
        raise ProgrammingError(
            f"cannot apply '-' operator to {operand_types(arguments)}",
            hint="add an explicit CAST",
            position=position,
        )
    if operand.type.is_integer:
        operand = convert(operand, fitting_integer(INTEGER_WIDTHS[operand.type.kind] + 1))
    return (operand,), operand.type


def _compile_negate(call: Call) -> Kernel:
    if call.type.kind is Kind.INTERVAL:
        duration, integer = to_arrow(call.type), pa.int64()
        return lambda value: pc.cast(pc.negate_checked(pc.cast(value, integer)), duration)
    if call.type.kind is Kind.INTERVAL_MIXED:
        from runnel.expressions.time.mixed_intervals import negated

        return over_first(negated)
    kernel: Kernel = pc.negate_checked
    return kernel


FUNCTIONS = (
    *(
        Function(
            name=name,
            arguments="x NUMERIC, y NUMERIC"
            if name != "remainder"
            else "x EXACT NUMERIC, y EXACT NUMERIC",
            result=(
                "the narrowest integer with room; DECIMAL by the rule table; REAL, DOUBLE; "
                "temporal ± INTERVAL"
            ),
            bind=bind_arithmetic,
            compile=_compile,
            can_fail=_can_fail,
            sql_names=("MOD",) if name == "remainder" else (),
            family="arithmetic",
        )
        for name in ("add", "subtract", "multiply", "divide", "remainder")
    ),
    Function(
        name="negate",
        arguments="x NUMERIC or INTERVAL",
        result="the type of x, for an integer the next wider one",
        bind=_bind_negate,
        compile=_compile_negate,
        can_fail=lambda call: call.type.kind is Kind.BIGINT or call.type.is_interval,
        family="arithmetic",
    ),
)
