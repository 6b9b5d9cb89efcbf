"""The user's Python functions in Spark: registered with Runnel's session when a query first calls
them.

Spark's Python workers pass whole Arrow columns, like Runnel's own operators, so a function behaves
the same in Spark. It must be possible to pickle the function; on a cluster, Runnel must be
installed on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.types import ddl
from runnel.errors import ERROR_MARK
from runnel.expressions.nodes import Case, Expression, PythonCall
from runnel.expressions.nodes import walk as parts_of
from runnel.foreign.fragment import Unrenderable
from runnel.relation.nodes import Relation, walk
from runnel.rendering.spark.python import python_name


def python_calls(relation: Relation) -> list[PythonCall]:
    """The calls in a sub-plan.

    Unrenderable for a call in a branch: Spark would call it for all rows, also for rows that do not
    take the branch.
    """
    calls = []
    for node in walk(relation):
        for expression in node.own_expressions:
            found = [part for part in parts_of(expression) if isinstance(part, PythonCall)]
            if found and any(_is_branching(part) for part in parts_of(expression)):
                raise Unrenderable(
                    f"function {found[0].function.name} in a branch", found[0].position
                )
            calls += found
    return calls


def _is_branching(expression: Expression) -> bool:
    return isinstance(expression, Case) or getattr(expression, "function", None) in ("and", "or")


def register(spark: Spark, calls: Iterable[PythonCall]) -> None:
    """Registers the functions with Runnel's session."""
    for call in calls:
        spark.register_function(python_name(call.function), partial(_made, call))


def _made(call: PythonCall) -> tuple[Callable[..., Any], str]:
    return _runner(call), ddl(call.function.result)


def _runner(call: PythonCall) -> Callable[..., Any]:
    """The function that a worker runs, with everything that it needs."""
    bare = replace(call, arguments=(), position=None)
    mark = ERROR_MARK

    def run(*columns: Any) -> Any:
        from runnel.errors import Error
        from runnel.expressions.kernels.canonical import canonical
        from runnel.expressions.python.calls import called

        own = [
            canonical(column, item)
            for column, item in zip(columns, bare.function.parameters, strict=True)
        ]
        try:
            return called(bare, own, len(own[0]))
        except Error as error:
            reason = error.message if error.detail is None else f"{error.message}: {error.detail}"
            raise RuntimeError(mark + " ".join(reason.split())) from None

    return run
