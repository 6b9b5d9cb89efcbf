"""Functions whose result is a whole number: DIV, GCD, LCM, FACTORIAL and WIDTH_BUCKET."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity
from runnel.errors import DataError, DivisionByZero, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert, operand_types, retype_parameters
from runnel.expressions.function import (
    Bound,
    Kernel,
    always_may_fail,
    over_arrays,
    over_first,
)
from runnel.expressions.kernels.buffers import pack
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.numbers.arithmetic import finite
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BIGINT, DOUBLE, INTEGER, Kind, array, common_type, decimal

_INT64 = pa.int64()
_LEAST = -(2**63)


def _bind_quotient(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """DIV: the quotient of integers as `/` returns it; for other numbers the quotient without its
    fraction.
    """
    check_count(name, arguments, 2, position)
    left, right = retype_parameters(arguments)
    if not (left.type.is_numeric and right.type.is_numeric):
        raise ProgrammingError(
            f"cannot apply DIV to {operand_types((left, right))}",
            hint="CAST to a number",
            position=position,
        )
    common = common_type(left.type, right.type)
    assert common is not None
    if common.is_integer:
        return (convert(left, BIGINT), convert(right, BIGINT)), BIGINT
    if common.is_approximate:
        return (convert(left, DOUBLE), convert(right, DOUBLE)), DOUBLE
    return (left, right), decimal(38, 0)


def _compile_quotient(call: Call) -> Kernel:
    if call.type.is_integer:
        kernel: Kernel = pc.divide_checked
        return kernel
    if call.type.kind is Kind.DOUBLE:
        return lambda left, right: finite(pc.trunc(pc.divide_checked(left, right)), left, right)
    return per_value(_whole_quotient)(call)


def _whole_quotient(left: Any, right: Any) -> Decimal:
    if right == 0:
        raise DivisionByZero("division by zero")
    first, second = Decimal(left).as_integer_ratio(), Decimal(right).as_integer_ratio()
    over, under = first[0] * second[1], first[1] * second[0]
    whole = abs(over) // abs(under)
    if whole >= 10**38:
        raise DataError("overflow")
    return Decimal(whole if (over < 0) == (under < 0) else -whole)


def _absolute(values: Numbers) -> Numbers:
    """Absolute values; DataError for the one BIGINT that has none."""
    if len(values) and values.min() == _LEAST:
        raise DataError("overflow")
    return np.abs(values)


def _pairs(operation: Callable[[Numbers, Numbers], Numbers]) -> Kernel:
    """A kernel for a numpy function over two BIGINT columns; in rows with a NULL it gets zeros."""

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        valid = pc.and_(left.is_valid(), right.is_valid())
        mask = np.asarray(numbers(pc.cast(valid, pa.int8()), np.int8), dtype=bool)
        first, second = (np.where(mask, numbers(item, np.int64), 0) for item in (left, right))
        return from_numbers(
            operation(_absolute(first), _absolute(second)), _INT64, None if mask.all() else mask
        )

    return over_arrays(run)


def _lcm(left: Numbers, right: Numbers) -> Numbers:
    divisor = np.maximum(np.gcd(left, right), 1)
    product: Numbers = numbers(
        pc.multiply_checked(from_numbers(left // divisor, _INT64), from_numbers(right, _INT64)),
        np.int64,
    )
    return product


_MOST_FACTORIAL = 33
"""The largest argument whose factorial has at most 38 digits."""
_FACTORIALS = [Decimal(math.factorial(number)) for number in range(_MOST_FACTORIAL + 1)]


def _factorial(values: pa.Array) -> pa.Array:
    bounds = pc.min_max(values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and low < 0:
        raise DataError("FACTORIAL of a negative number")
    if high is not None and high > _MOST_FACTORIAL:
        raise DataError("overflow", hint=f"the largest argument is {_MOST_FACTORIAL}")
    return pack(_FACTORIALS, decimal(38, 0)).take(values)


# For WIDTH_BUCKET(x, 0, 10, 5) of x = [−1, 3, 10]:
#     share   [−0.1, 0.3, 1.0]  the position in the range, from 0 to 1
#     inside  [−1, 1, 5]        the bucket from 0
#     bucket  [0, 2, 6]         from 1; 0 below the range, count + 1 at its end and above
def _width_bucket(operand: pa.Array, low: pa.Array, high: pa.Array, count: pa.Array) -> pa.Array:
    columns = [numbers(item, np.float64) for item in (operand, low, high)]
    buckets = numbers(count, np.int64)
    mask = np.ones(len(operand), bool)
    for item in (operand, low, high, count):
        valid = validity(item)
        mask &= True if valid is None else valid
    value, first, last = (
        np.where(mask, item, filler) for item, filler in zip(columns, (0.0, 0.0, 1.0), strict=True)
    )
    number = np.where(mask, buckets, 1)
    if (number <= 0).any():
        raise DataError("the count of WIDTH_BUCKET must be positive")
    if (number >= 2**31 - 1).any():
        raise DataError("overflow")
    if (first == last).any() or not np.isfinite([first, last]).all() or np.isnan(value).any():
        raise DataError(
            "the bounds of WIDTH_BUCKET must be finite and differ, and its operand must not be NaN"
        )
    with np.errstate(all="ignore"):
        share = (value - first) / (last - first)
        inside = np.floor(share * number)
    bucket = np.where(
        share < 0,
        0,
        np.where(share >= 1, number + 1, np.minimum(np.nan_to_num(inside), number - 1) + 1),
    )
    return from_numbers(bucket.astype(np.int32), pa.int32(), None if mask.all() else mask)


def _bucket_of_array(value: float, bounds: list[float | None]) -> int:
    """The number of bounds up to `value`; the bounds are sorted."""
    from bisect import bisect_right

    if None in bounds:
        raise DataError("the bounds of WIDTH_BUCKET must not be NULL")
    return bisect_right([bound for bound in bounds if bound is not None], value)


def _bind_width_bucket(
    name: str, arguments: Sequence[Expression], position: Position | None
) -> Bound:
    if len(arguments) == 2:
        return signature(DOUBLE, array(DOUBLE), result=INTEGER)(name, arguments, position)
    return signature(DOUBLE, DOUBLE, DOUBLE, BIGINT, result=INTEGER)(name, arguments, position)


def _compile_width_bucket(call: Call) -> Kernel:
    return (
        per_value(_bucket_of_array)(call)
        if len(call.arguments) == 2
        else over_arrays(_width_bucket)
    )


_TWO_INTEGERS = signature(BIGINT, BIGINT, result=BIGINT)
FUNCTIONS = (
    named(
        "div",
        "x NUMERIC, y NUMERIC",
        "BIGINT, DECIMAL(38, 0) or DOUBLE",
        _bind_quotient,
        _compile_quotient,
        can_fail=always_may_fail,
        family="math",
    ),
    named(
        "gcd",
        "x BIGINT, y BIGINT",
        "BIGINT",
        _TWO_INTEGERS,
        kernel=_pairs(np.gcd),
        can_fail=always_may_fail,
        sql_names=("GREATEST_COMMON_DIVISOR",),
        family="math",
    ),
    named(
        "lcm",
        "x BIGINT, y BIGINT",
        "BIGINT",
        _TWO_INTEGERS,
        kernel=_pairs(_lcm),
        can_fail=always_may_fail,
        sql_names=("LEAST_COMMON_MULTIPLE",),
        family="math",
    ),
    named(
        "factorial",
        "x BIGINT",
        "DECIMAL(38, 0)",
        signature(BIGINT, result=decimal(38, 0)),
        kernel=over_first(_factorial),
        can_fail=always_may_fail,
        family="math",
    ),
    named(
        "width_bucket",
        "x DOUBLE, low DOUBLE, high DOUBLE, count BIGINT | x DOUBLE, bounds ARRAY",
        "INTEGER",
        _bind_width_bucket,
        _compile_width_bucket,
        can_fail=always_may_fail,
        family="math",
    ),
)
