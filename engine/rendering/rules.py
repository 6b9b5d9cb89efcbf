"""Rules by engine; arguments and errors of the rules of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from runnel.base.frozen import frozen
from runnel.expressions.nodes import AggregateCall, Call, Cast, Expression, Literal
from runnel.foreign.fragment import Unrenderable

Key = TypeVar("Key")
Rule = TypeVar("Rule")


class ByEngine(NamedTuple, Generic[Rule]):
    """A row of a table: the rule of each engine.

    duckdb: the rule for DuckDB; None: Runnel computes the value, DuckDB does not.
    spark: the rule for Spark; None likewise.
    """

    duckdb: Rule | None = None
    spark: Rule | None = None


def both(rule: Rule) -> ByEngine[Rule]:
    """One rule for both engines."""
    return ByEngine(rule, rule)


def for_duckdb(table: Mapping[Key, ByEngine[Rule]]) -> dict[Key, Rule]:
    """DuckDB's column of a table."""
    return {key: item.duckdb for key, item in table.items() if item.duckdb is not None}


def for_spark(table: Mapping[Key, ByEngine[Rule]]) -> dict[Key, Rule]:
    """Spark's column of a table."""
    return {key: item.spark for key, item in table.items() if item.spark is not None}


@frozen
class Invocation:
    """An aggregate whose arguments are rendered.

    `run` adds the DISTINCT, FILTER and OVER of the call to a bare call of an engine's aggregate, so
    that a rule may combine several. DISTINCT applies to the arguments of `run`: a rule that passes
    values computed from the argument raises Unrenderable if `call.distinct`, as different arguments
    may have equal values.

    call: the aggregate as it was bound.
    arguments: the SQL text of each argument.
    is_window: whether the call has OVER.
    """

    call: AggregateCall
    arguments: tuple[str, ...]
    run: Callable[..., str]
    """`run(name, *arguments, distinct=…)`: "name(DISTINCT arguments) FILTER (…) OVER (…)"."""
    order: str
    """ORDER BY of the call, which follows the arguments; empty without one."""
    is_window: bool = False


@frozen(kw_only=True)
class Unknown(Expression):
    """A constant whose value is known when the statement runs: it depends on arguments, time or
    zone."""

    original: Expression


@frozen(kw_only=True)
class FailingExpression(Expression):
    """A constant whose evaluation fails; a row that evaluates it fails with `message`."""

    message: str


UNKNOWN = object()
"""The value of an option that is known only when the statement runs."""


def option(call: Call, index: int) -> Any:
    """The value of an argument that is the same for all rows: UNKNOWN until the statement runs.
    Unrenderable where the argument depends on the row."""
    argument = call.arguments[index]
    if isinstance(argument, Literal):
        return argument.value
    if isinstance(argument, Unknown):
        return UNKNOWN
    raise refused(
        call, f"{call.function.upper()} with an argument {index + 1} that differs from row to row"
    )


def refused(call: Call | Cast, what: str | None = None) -> Unrenderable:
    """The exception of a rule, which names the call with the types of its arguments."""
    if what is None and isinstance(call, Cast):
        what = f"a cast of {call.operand.type} to {call.type}"
    elif what is None and isinstance(call, Call):
        types = ", ".join(str(item.type) for item in call.arguments)
        what = f"{call.function.upper()}({types})"
    return Unrenderable(what or "", call.position)
