"""The check of a Python function that a user defines, and of its types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, get_args, get_origin

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError, NotSupportedError, ProgrammingError
from runnel.expressions.aggregates.registry import is_aggregate
from runnel.expressions.aggregates.window_functions import is_window_function
from runnel.expressions.build import is_function
from runnel.expressions.python.function import PythonFunction
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    TIME,
    TIMESTAMP,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    from_arrow,
)

_PYTHON_TYPES: dict[object, SqlType] = {
    int: BIGINT,
    float: DOUBLE,
    str: VARCHAR,
    bool: BOOLEAN,
    bytes: VARBINARY,
    datetime: TIMESTAMP,
    date: DATE,
    time: TIME,
    timedelta: INTERVAL,
    Decimal: decimal(18, 3),
}
"""The types of Python classes; DuckDB has the same digits for a Decimal."""
_OTHERS = frozenset(
    {
        *(
            "GENERATE_SERIES",
            "GENERATE_STREAM",
            "TUMBLE",
            "HOP",
            "SESSION",
            "IMPOSE_ORDER",
            "UNNEST",
        ),
        "GROUPING",
    }
)
"""Functions over tables and groups, whose names are reserved too."""


@frozen
class FunctionOptions:
    """The options of a user function; `Connection.create_function` and `create_aggregate` explain
    them in full.

    scalar: whether the function receives Python values, once per row; otherwise Arrow arrays.
        None: as its annotations say.
    nulls: "pass" or "skip": whether rows with a NULL argument reach the function. None: as its
        annotations say.
    deterministic: whether equal arguments always yield equal values.
    replace: whether an existing user function of the name is replaced.
    is_aggregate: whether it is an aggregate.
    returns_null: whether an exception in the function makes the value of its row NULL.
    """

    scalar: bool | None = False
    nulls: str | None = "pass"
    deterministic: bool = True
    replace: bool = False
    is_aggregate: bool = False
    returns_null: bool = False


def python_function(
    name: str,
    function: Callable[..., Any],
    parameter_types: Sequence[Any],
    return_type: Any,
    options: FunctionOptions,
) -> PythonFunction:
    """A function of the user. InterfaceError for arguments of wrong classes, ProgrammingError for
    the name of a built-in function."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InterfaceError(
            f"{name!a} can't be the name of a function",
            hint="use one or more printable characters",
        )
    if not callable(function):
        raise InterfaceError(
            f"a function is something to call, not a value of class {type(function).__name__}"
        )
    if isinstance(parameter_types, str) or not isinstance(parameter_types, Sequence):
        raise InterfaceError(
            "parameter_types must be a list, one type per parameter",
            hint="write ['BIGINT', 'VARCHAR']",
        )
    if options.nulls not in ("pass", "skip"):
        raise InterfaceError(f"nulls must be 'pass' or 'skip', not {options.nulls!r}")
    if options.is_aggregate and not parameter_types:
        raise InterfaceError(
            "an aggregate function needs a parameter", hint="give the type of at least one"
        )
    _check_free(name)
    return PythonFunction(
        name=name,
        function=function,
        parameters=tuple(sql_type(item) for item in parameter_types),
        result=sql_type(return_type),
        is_scalar=bool(options.scalar),
        skips_nulls=options.nulls == "skip",
        is_deterministic=bool(options.deterministic),
        is_aggregate=options.is_aggregate,
        returns_null=options.returns_null,
    )


def _check_free(name: str) -> None:
    is_known = is_aggregate(name) or is_function(name) or is_window_function(name)
    if is_known or name.upper() in _OTHERS or name.upper().startswith("JSON_"):
        raise ProgrammingError(f'"{name}" is a built-in function', hint="take another name")


def sql_type(written: Any) -> SqlType:
    """A SQL type, specified by its name, as an Arrow type, or as a Python class."""
    if isinstance(written, SqlType):
        found = written
    elif isinstance(written, str):
        found = parse_type(written)
    elif isinstance(written, pa.DataType):
        found = from_arrow(written)
    elif isinstance(written, type) and written in _PYTHON_TYPES:
        found = _PYTHON_TYPES[written]
    elif get_origin(written) is list and len(get_args(written)) == 1:
        found = array(sql_type(get_args(written)[0]))
    elif type(written).__name__ == "DuckDBPyType":
        found = parse_type(str(written))
    else:
        raise InterfaceError(
            f"{written!r} is not a type",
            hint=(
                "write a SQL type such as 'BIGINT', an Arrow type, or int, float, str, bool, "
                "bytes, Decimal, datetime, date, time, list[int]"
            ),
        )
    if found.kind is Kind.NULL:
        raise NotSupportedError("a function can't have a parameter or a value of type NULL")
    return found
