"""NOT and the IS tests, and how AND and OR are bound.

AND and OR are compiled in `conditional.py`, as their right operands may not have to be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import NotNullViolation, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert, retype_parameters
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail
from runnel.expressions.kernels.buffers import FALSE, TRUE
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.signature import ANY, named, signature
from runnel.sqltypes import BOOLEAN, INTEGER, Kind


def bind_boolean(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Every argument is BOOLEAN or NULL. AND and OR accept two or more, the other operators one."""
    if name not in ("and", "or"):
        check_count(name, arguments, 1, position)
    converted = []
    for argument in retype_parameters((*arguments, _MODEL))[:-1]:
        if argument.type.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ProgrammingError(
                f"argument of {name.replace('_', ' ').upper()} must be BOOLEAN, "
                f"not {argument.type}",
                hint="compare it with something, or add an explicit CAST",
                position=argument.position or position,
            )
        converted.append(convert(argument, BOOLEAN))
    return tuple(converted), BOOLEAN


def bind_any(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    return tuple(arguments), BOOLEAN


_MODEL = Expression(type=BOOLEAN)
"""An operand of type BOOLEAN, from which NULLs and parameters get their type."""


def _is_true(value: Datum) -> Datum:
    return pc.coalesce(value, FALSE)


def _is_not_false(value: Datum) -> Datum:
    return pc.coalesce(value, TRUE)


def _is_false(value: Datum) -> Datum:
    return pc.invert(pc.coalesce(value, TRUE))


def _is_not_true(value: Datum) -> Datum:
    return pc.invert(pc.coalesce(value, FALSE))


def _is_null(value: Datum) -> Datum:
    return pc.is_null(value)


def _is_not_null(value: Datum) -> Datum:
    return pc.is_valid(value)


def _bind_not_null(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    return tuple(arguments), arguments[0].type


def _present(value: Datum, column: Datum) -> Datum:
    """The value; IntegrityError if it is NULL."""
    if pc.any(pc.is_null(pa.array([value]) if isinstance(value, pa.Scalar) else value)).as_py():
        raise NotNullViolation(f'column "{column.as_py()}" must not be NULL')
    return value


def _count_of(test: Callable[[Datum], Datum]) -> Kernel:
    """The number of arguments that pass a test."""

    def run(*values: Datum) -> Datum:
        flags = [pc.cast(test(value), pa.int32()) for value in values]
        return reduce(pc.add, flags)

    return run


def _not_evaluated(call: Call) -> Kernel:
    raise AssertionError("AND and OR are compiled by conditional.compile_connective")


def _boolean(name: str, kernel: Kernel) -> Function:
    return Function(name, "x BOOLEAN", "BOOLEAN", bind_boolean, lambda call: kernel, family="logic")


def _any(name: str, kernel: Kernel) -> Function:
    return Function(name, "x ANY", "BOOLEAN", bind_any, lambda call: kernel, family="logic")


def _connective(name: str, compile_call: Callable[[Call], Kernel]) -> Function:
    return Function(
        name, "x BOOLEAN, y BOOLEAN, …", "BOOLEAN", bind_boolean, compile_call, family="logic"
    )


FUNCTIONS = (
    _connective("and", _not_evaluated),
    _connective("or", _not_evaluated),
    _boolean("not", pc.invert),
    _boolean("is_true", _is_true),
    _boolean("is_not_true", _is_not_true),
    _boolean("is_false", _is_false),
    _boolean("is_not_false", _is_not_false),
    _any("is_null", _is_null),
    _any("is_not_null", _is_not_null),
    Function(
        "not_null",
        "x ANY, column VARCHAR",
        "the type of x",
        _bind_not_null,
        lambda call: _present,
        can_fail=always_may_fail,
        family="logic",
    ),
    *(
        named(
            name,
            "x ANY, …",
            "INTEGER",
            signature(ANY, result=INTEGER, repeats=True),
            kernel=_count_of(test),
            family="logic",
        )
        for name, test in (("num_nulls", _is_null), ("num_nonnulls", _is_not_null))
    ),
)
