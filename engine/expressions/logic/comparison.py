"""Comparisons: = <> < <= > >=, IS [NOT] DISTINCT FROM.

Floats compare by SQL's rules: NaN equals itself and is larger than any other number, and −0 equals
0. Other types are compared by Arrow's kernels over arguments of one type. DECIMALs whose common
type would lose digits are compared in 256 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_flags, validity
from runnel.errors import Position, ProgrammingError
from runnel.expressions.coercion import (
    check_count,
    convert,
    operand_types,
    read_arrays,
    read_numbers,
    retype_parameters,
)
from runnel.expressions.function import Bound, Datum, Function, Kernel, over_arrays
from runnel.expressions.kernels.buffers import FALSE
from runnel.expressions.nodes import INFIX, Call, Expression
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    Kind,
    SqlType,
    as_decimal,
    common_type,
    contains,
    has_mixed_interval,
    loses_digits,
)

_KERNELS: dict[str, Kernel] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""By operator: the operator that is true where it is false, apart from NULLs."""


def bind_comparison(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Both sides in their common type; text literals and parameters get the type of a temporal
    side.
    """
    check_count(name, arguments, 2, position)
    left, right = read_arrays(*retype_parameters(read_numbers(arguments)))
    target = comparison_type(left.type, right.type)
    if target is None or (target.is_nested and not _is_comparable(name, target)):
        raise ProgrammingError(
            f"cannot apply {INFIX[name]!r} operator to {operand_types((left, right))}",
            hint="add an explicit CAST"
            if target is None
            else "compare its fields or elements one by one",
            position=position,
        )
    if target.kind is Kind.INTERVAL_MIXED:
        return (_length(convert(left, target)), _length(convert(right, target))), BOOLEAN
    if target.kind is Kind.NULL:  # Arrow's kernels don't compare values of the null type
        target = BOOLEAN
    if loses_digits(left.type, right.type):
        if target.is_nested:
            raise ProgrammingError(
                f"the DECIMALs of {operand_types((left, right))} have no common type that holds "
                "their digits",
                hint="CAST one side to the type of the other",
                position=position,
            )
        return (
            convert(left, as_decimal(left.type)),
            convert(right, as_decimal(right.type)),
        ), BOOLEAN
    return (convert(left, target), convert(right, target)), BOOLEAN


_EQUALITIES = ("eq", "ne", "is_distinct", "is_not_distinct")


def _length(interval: Expression) -> Expression:
    """The length of an INTERVAL, by which it is compared."""
    return Call(
        function="interval_length", arguments=(interval,), type=BIGINT, position=interval.position
    )


def _is_comparable(name: str, nested: SqlType) -> bool:
    """Whether values of a nested type can be compared by this operator.

    ARRAY and ROW can be compared unless they contain an INTERVAL, and have an order unless they
    contain a MAP. MAP has neither, since the order of its entries has no significance.
    """
    if has_mixed_interval(nested) or nested.kind is Kind.MAP:
        return False
    return name in _EQUALITIES or not contains(nested, Kind.MAP)


def comparison_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type in which values of two types are compared; None if they can't be."""
    return common_type(left, right)


def _compile(call: Call) -> Kernel:
    kind = call.arguments[0].type
    if kind.kind is Kind.DECIMAL and kind != call.arguments[1].type:
        return _wide_decimal_kernel(_KERNELS[call.function], call)
    return comparison_kernel(call.function, kind)


def comparison_kernel(name: str, sql_type: SqlType) -> Kernel:
    """The kernel of `name` ("eq", "lt", …) for two values of one type."""
    if sql_type.is_nested:
        return _nested_kernel(name)
    return _float_kernel(name) if sql_type.is_approximate else _KERNELS[name]


def _nested_kernel(name: str) -> Kernel:
    """The kernel for arrays and rows: NULL where a side is NULL; within them NULL equals NULL, and
    is larger than any value."""
    if name not in _EQUALITIES:
        from runnel.expressions.kernels.order_keys import nested_keys

        compare = _KERNELS[name]
        return over_arrays(lambda left, right: compare(nested_keys(left), nested_keys(right)))
    from runnel.expressions.kernels.sameness import same_values

    is_negated = name in ("ne", "is_distinct")
    with_nulls = name in ("eq", "ne")

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        same = same_values(left, right)
        valid = None
        if with_nulls and (left.null_count or right.null_count):
            masks = [mask for mask in (validity(left), validity(right)) if mask is not None]
            valid = masks[0] if len(masks) == 1 else masks[0] & masks[1]
        return from_flags(~same if is_negated else same, valid)

    return over_arrays(run)


def _wide_decimal_kernel(kernel: Kernel, call: Call) -> Kernel:
    """The kernel for DECIMALs that have no common type of 38 digits."""
    left, right = (pa.decimal256(item.type.precision, item.type.scale) for item in call.arguments)

    def run(first: Datum, second: Datum) -> Datum:
        return kernel(pc.cast(first, left), pc.cast(second, right))

    return run


def _float_kernel(name: str) -> Kernel:
    """The kernel for floats: one or two Arrow kernels if one side is a scalar that isn't NaN;
    otherwise NaNs are handled row by row.
    """
    plain = _KERNELS[name]
    if name in ("eq", "ne"):
        with_number: Kernel = plain
    elif name in ("lt", "le"):
        with_number = plain
    else:
        opposite = _KERNELS[NEGATED[name]]

        def with_number(left: Datum, right: Datum) -> Datum:
            return pc.invert(opposite(left, right))

    general = _GENERAL[name]
    mirrored = _MIRRORED_WITH_NUMBER[name]

    def run(left: Datum, right: Datum) -> Datum:
        if isinstance(right, pa.Scalar) and _is_number(right):
            return with_number(left, right)
        if isinstance(left, pa.Scalar) and _is_number(left):
            return mirrored(left, right)
        return general(left, right)

    return run


def _is_number(scalar: pa.Scalar) -> bool:
    value = scalar.as_py()
    return value is not None and not math.isnan(value)


def _less_equal(left: Datum, right: Datum) -> Datum:
    return pc.or_(pc.less_equal(left, right), pc.is_nan(right))


def _equal(left: Datum, right: Datum) -> Datum:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


_GENERAL: dict[str, Callable[[Any, Any], Any]] = {
    "eq": _equal,
    "ne": lambda left, right: pc.invert(_equal(left, right)),
    "le": _less_equal,
    "ge": lambda left, right: _less_equal(right, left),
    "lt": lambda left, right: pc.invert(_less_equal(right, left)),
    "gt": lambda left, right: pc.invert(_less_equal(left, right)),
}
"""The comparisons of floats either of which may be NaN."""
_MIRRORED_WITH_NUMBER: dict[str, Callable[[Any, Any], Any]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
    "lt": lambda left, right: pc.invert(pc.greater_equal(left, right)),
    "le": lambda left, right: pc.invert(pc.greater(left, right)),
}
"""The comparisons of a number on the left, which isn't NaN, with floats that may be NaN."""


def _compile_distinct(call: Call) -> Kernel:
    """IS [NOT] DISTINCT FROM: two NULLs are the same value, and the result is never NULL."""
    if call.arguments[0].type.is_nested:
        return _nested_kernel(call.function)
    equal = _GENERAL["eq"] if call.arguments[0].type.is_approximate else _KERNELS["eq"]
    if (
        call.arguments[0].type.kind is Kind.DECIMAL
        and call.arguments[0].type != call.arguments[1].type
    ):
        equal = _wide_decimal_kernel(_KERNELS["eq"], call)
    negate = call.function == "is_distinct"

    def run(left: Datum, right: Datum) -> Datum:
        same = pc.or_kleene(
            pc.coalesce(equal(left, right), FALSE), pc.and_(pc.is_null(left), pc.is_null(right))
        )
        return pc.invert(same) if negate else same

    return run


def _entry(name: str, compile_call: Callable[[Call], Kernel]) -> Function:
    return Function(
        name=name,
        arguments="x ANY, y ANY",
        result="BOOLEAN",
        bind=bind_comparison,
        compile=compile_call,
        family="comparison",
    )


FUNCTIONS = (
    *(_entry(name, _compile) for name in _KERNELS),
    *(_entry(name, _compile_distinct) for name in ("is_distinct", "is_not_distinct")),
)
