"""How a scalar function is described: how its arguments are bound, and the kernel it compiles
to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import DataError, Position
from runnel.expressions.kernels.result_size import check_spread
from runnel.expressions.nodes import Call, Expression
from runnel.sqltypes import SqlType

Datum = Any
"""A pyarrow Array (one value per row) or Scalar (the same value for every row), of canonical type.
"""

Kernel = Callable[..., Datum]
"""Accepts one datum per argument, and returns a datum: a scalar if all arguments are scalars."""

Bound = tuple[tuple[Expression, ...], SqlType]
"""The converted arguments of a call, and the type of its result."""
Bind = Callable[[str, Sequence[Expression], Position | None], Bound]
"""Binds a call: (the function's name, its arguments, the call's position in the SQL text) to the
converted arguments and the result's type.
"""


FAULTS = (pa.ArrowException, DataError, ValueError, OverflowError)
"""The exceptions that a kernel may raise because of a row's values."""


def never_fails(call: Call) -> bool:
    """The `can_fail` of a function that accepts all values."""
    return False


def always_may_fail(call: Call) -> bool:
    """The `can_fail` of a function that some values make fail, whatever the types."""
    return True


@frozen
class Function:
    """One entry of `functions.FUNCTIONS`.

    name: the key that `Call.function` carries.
    arguments: the parameters, in words, for SHOW FUNCTIONS.
    result: the result's type, in words, for SHOW FUNCTIONS.
    bind: converts the arguments to the types that the kernel needs and returns them with the
      result's type, or raises ProgrammingError.
    compile: returns the kernel of a call.
    sql_names: the names under which SQL calls the function; none for an operator.
    can_fail: whether a row can make the kernel of a call raise. A kernel that can't may also run
      over rows whose result is discarded.
    needs_frame: whether the kernel gets the input rows (a Frame) before the arguments.
    is_volatile: whether the value may differ between two calls with equal arguments.
    is_slow: whether a row needs 1 µs or more, so that operators work on fewer rows at a time.
    depends_on_session: whether the value of a call depends on the statement's time or the session's
      zone.
    family: the group under which the functions are listed.
    """

    name: str
    arguments: str
    result: str
    bind: Bind
    compile: Callable[[Call], Kernel]
    sql_names: tuple[str, ...] = ()
    can_fail: Callable[[Call], bool] = never_fails
    needs_frame: bool = False
    is_volatile: bool = False
    is_slow: bool = False
    depends_on_session: Callable[[Call], bool] = never_fails
    family: str = ""


def spread(datum: Datum, num_rows: int) -> pa.Array:
    """The datum as an array of `num_rows` values; raises TooManyRows if the array would be too
    large.
    """
    if not isinstance(datum, pa.Scalar):
        return datum
    check_spread(datum, num_rows)
    return pa.repeat(datum, num_rows)


def over_arrays(kernel: Kernel) -> Kernel:
    """A kernel for a function that needs all arguments as arrays of one length.

    If all arguments are scalars, the function runs over one row and its value is returned as a
    scalar.
    """

    def run(*arguments: Datum) -> Datum:
        rows = next((len(datum) for datum in arguments if not isinstance(datum, pa.Scalar)), None)
        if rows is None:
            return kernel(*(pa.repeat(datum, 1) for datum in arguments))[0]
        return kernel(*(spread(datum, rows) for datum in arguments))

    return run


def over_first(kernel: Kernel) -> Kernel:
    """A kernel for a function of one array; a scalar argument becomes an array of one row."""

    def run(datum: Datum) -> Datum:
        return kernel(pa.repeat(datum, 1))[0] if isinstance(datum, pa.Scalar) else kernel(datum)

    return run
