"""What a scalar function is: how its arguments are bound, and the kernel it compiles to."""

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
"""A pyarrow Array (one value per row) or Scalar (the same value for every row), of canonical
type."""

Kernel = Callable[..., Datum]
"""Takes one datum per argument. A kernel over scalars only gives a scalar."""

Bound = tuple[tuple[Expression, ...], SqlType]
Bind = Callable[[str, Sequence[Expression], Position | None], Bound]


FAULTS = (pa.ArrowException, DataError, ValueError, OverflowError)
"""What a kernel may raise over a row that it can't work on."""


def never_fails(call: Call) -> bool:
    return False


def always_may_fail(call: Call) -> bool:
    return True


@frozen
class Function:
    """One entry of `functions.FUNCTIONS`.

    `name` is the key that `Call.function` carries; `sql_names` are the names under which SQL calls
    it (none for an operator). `bind(name, arguments, position)` converts the arguments to the types
    the kernel wants and gives the result's type, or raises ProgrammingError. `compile(call)` gives
    the kernel; with `needs_frame` the kernel gets the Frame before the arguments. `can_fail(call)`
    says whether a row can make the kernel raise; where it can't, the kernel may be run over rows
    whose result is thrown away. `depends_on_session(call)` says whether the value depends on the
    statement's time or the session's zone. `is_slow`: a row takes a µs or more, so operators work
    on fewer rows at a time. `arguments` and `result` say the same for people.
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
    """The datum as an array of `num_rows` values; TooManyRows where that takes too much memory."""
    if not isinstance(datum, pa.Scalar):
        return datum
    check_spread(datum, num_rows)
    return pa.repeat(datum, num_rows)


def over_arrays(kernel: Kernel) -> Kernel:
    """A kernel that may rely on its arguments being arrays of one length; over scalars only it
    works on one row."""

    def run(*arguments: Datum) -> Datum:
        rows = next((len(datum) for datum in arguments if not isinstance(datum, pa.Scalar)), None)
        if rows is None:
            return kernel(*(pa.repeat(datum, 1) for datum in arguments))[0]
        return kernel(*(spread(datum, rows) for datum in arguments))

    return run


def over_first(kernel: Kernel) -> Kernel:
    """A kernel over one array; a scalar is worked on as one row."""

    def run(datum: Datum) -> Datum:
        return kernel(pa.repeat(datum, 1))[0] if isinstance(datum, pa.Scalar) else kernel(datum)

    return run
