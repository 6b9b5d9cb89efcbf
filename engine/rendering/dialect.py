"""What a rendering knows of an engine: how it writes types, names and literals, and the tables of
what it does as we mean it.

A table maps a function's key to a rule. A rule gets the call and its arguments as the engine's SQL,
and gives SQL of exactly the call's type, or raises Unrenderable. What isn't in a table is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Aggregate, Call, Cast, Expression, Literal, PythonCall
from runnel.foreign.fragment import Unrenderable
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.relation.over import WindowCall
    from runnel.rendering.render import Rendering

FunctionRule = Callable[["Rendering", Call, Sequence[str]], str]
CastRule = Callable[["Rendering", Cast, str], str]


@frozen
class Invocation:
    """An aggregate whose arguments are rendered. `run` puts DISTINCT, FILTER and OVER to a bare
    call of an engine's aggregate, so that a rule may build its result of several."""

    call: Aggregate
    arguments: tuple[str, ...]
    run: Callable[..., str]
    """`run(name, *arguments, distinct=…)`: "name(DISTINCT arguments) FILTER (…) OVER (…)"."""
    order: str
    """ORDER BY of the call, to stand behind the arguments; empty without one."""
    is_window: bool = False


AggregateRule = Callable[["Rendering", Invocation], str]


@frozen
class Dialect:
    """One engine's SQL."""

    quote: Callable[[str], str]
    type_name: Callable[[SqlType], str]
    literal: Callable[[Any, SqlType], str]
    """A value that isn't NULL, as an expression of the type."""
    text: Callable[[str], str]
    """A text as a literal."""
    error: str
    """The function that fails with a message."""
    key: Callable[[str, SqlType], str]
    """A value as groups and joins compare it."""
    functions: Mapping[str, FunctionRule]
    casts: CastRule
    aggregates: Mapping[str, AggregateRule]
    windows: Mapping[str, FunctionRule]
    """The functions that only OVER knows; empty where the engine's windows aren't rendered."""
    ignores_nulls_inside: bool = False
    """Whether IGNORE NULLS stands within a call's brackets."""
    frame: Callable[[WindowCall], str] | None = None
    """The frame of a call with OVER, where the engine has rules of its own; refuses calls that
    aren't the same there."""
    python: Callable[[Rendering, PythonCall, Sequence[str]], str] | None = None
    """A call of a Python function, where the engine can run one."""


@frozen(kw_only=True)
class Unknown(Expression):
    """A constant whose value is known when the statement runs: it depends on arguments, time or
    zone."""

    original: Expression


@frozen(kw_only=True)
class Failure(Expression):
    """A constant that can't be worked out; a row that takes it fails with `message`."""

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
    """What a rule raises: names the call with the types of its arguments."""
    if what is None and isinstance(call, Cast):
        what = f"a cast of {call.operand.type} to {call.type}"
    elif what is None and isinstance(call, Call):
        types = ", ".join(str(item.type) for item in call.arguments)
        what = f"{call.function.upper()}({types})"
    return Unrenderable(what or "", call.position)


def template(text: str, *kinds: Kind) -> FunctionRule:
    """A rule that puts the arguments into `text`; with `kinds` for the first argument's type
    only."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if kinds and call.arguments[0].type.kind not in kinds:
            raise refused(call)
        return text.format(*arguments)

    return rule


def typed(text: str) -> FunctionRule:
    """The template, converted to the type of the call."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return f"CAST({text.format(*arguments)} AS {rendering.type(call.type)})"

    return rule
