"""Calls of the user's Python functions in Spark's SQL: Arrow functions of the Spark session, by a
name that Runnel makes."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import PythonCall
from runnel.expressions.python.function import PythonFunction
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import Rendering
from runnel.sqltypes import Kind, SqlType

_REFUSED = (
    Kind.NULL,
    Kind.INTERVAL,
    Kind.INTERVAL_MONTH,
    Kind.INTERVAL_MIXED,
    Kind.TIME,
    Kind.UUID,
    Kind.ARRAY,
    Kind.MAP,
    Kind.ROW,
)
"""Types that reach a Python function of Spark's in another Arrow type than our own, or not at
all."""


def python_name(function: PythonFunction) -> str:
    """The name of a function in the Spark session; each version is another function."""
    return f"runnel_function_{function.version}"


def python_call(rendering: Rendering, call: PythonCall, arguments: Sequence[str]) -> str:
    """The call, for types that go to Spark's Python workers and back unchanged."""
    function = call.function
    if not arguments:
        raise Unrenderable(f"function {function.name} without arguments", call.position)
    for item in (*function.parameters, function.result):
        _check(item, call)
    return f"{python_name(function)}({', '.join(arguments)})"


def _check(sql_type: SqlType, call: PythonCall) -> None:
    if sql_type.kind in _REFUSED:
        raise Unrenderable(f"function {call.function.name} with type {sql_type}", call.position)
