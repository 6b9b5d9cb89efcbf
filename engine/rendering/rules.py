"""Arguments and errors of the rules of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.base.frozen import frozen
from runnel.expressions.nodes import AggregateCall, Call, Cast, Expression, Literal
from runnel.foreign.fragment import Unrenderable


@frozen
class Invocation:
    """An aggregate whose arguments are rendered.

    `run` adds the DISTINCT, FILTER and OVER of the call to a bare call of an engine's aggregate, so
    that a rule may combine several. DISTINCT applies to the arguments of `run`: a rule that passes
    values computed from the argument raises Unrenderable if `call.distinct`, as different arguments
    may have equal values.
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
