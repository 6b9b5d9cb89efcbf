"""Expansion of macros: a call of a function of `macro_table.py`, or of a macro of CREATE MACRO
(`user_macros.py`), becomes the tree that it stands for, and is bound as if the user had written
that tree. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.schemas import catalog_and_schema
from runnel.catalog import NamedText
from runnel.errors import NotSupportedError, Position, ProgrammingError, UndefinedFunction, suggest
from runnel.expressions import build
from runnel.expressions.nodes import Expression
from runnel.planner.bind.macros.user_macros import (
    BUILT_IN,
    INSIDE,
    body_of,
    marked,
    within,
    without_positions,
)
from runnel.planner.bind.scalars.macro_table import OVERLOADED, Macro, macros
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.json_clauses import CLAUSE
from runnel.planner.parse.query.query import parse_expression
from runnel.planner.parse.tokens import tokenize

if TYPE_CHECKING:
    from runnel.planner.bind.scope import Scope

_AROUND = (exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def is_macro(name: str) -> bool:
    """Whether the name, in any case, is the name of a macro."""
    return name.upper() in macros()


def macro_names() -> list[str]:
    """The names of all macros, in upper case."""
    return [name for name in macros() if name not in OVERLOADED]


def expanded(
    tree: Any, position: Position | None, path: tuple[str, ...], caller: tuple[int, int]
) -> Any | None:
    """The tree that a call, with FILTER, OVER or WITHIN GROUP around it, stands for; None if the
    function is no macro.

    path: the search path of the session.
    caller: the level of the scope of the call, and the number of lambda parameters in it.
    """
    around = []
    call = tree
    while isinstance(call, _AROUND):
        around.append(call)
        call = call.this
    name, arguments = function_call(call) or ("", [])
    found = macros().get(name)
    if found is None or OVERLOADED.get(name, len(arguments)) != len(arguments):
        return None
    if "FROM pg_catalog" in found[0].body:
        # Its tables have columns, too, to which the arguments do not refer.
        arguments = [marked(item, caller) for item in arguments]
    body = (
        _renamed(call, arguments, found[0].body, position)
        if found[0].parameters is None
        else _substituted(name, found, arguments, position, path)
    )
    return _around(name, call, around, body, position)


def user_value(
    bind: Callable[[Any], Expression],
    macro: NamedText,
    tree: Any,
    scope: Scope,
    position: Position | None,
) -> Expression:
    """The value of a call of a macro of CREATE MACRO, also of one with FILTER, OVER or WITHIN GROUP
    around it. `scope`, `position`: of the call."""
    around = []
    call = tree
    while isinstance(call, _AROUND):
        around.append(call)
        call = call.this
    with within(macro, position):
        body = body_of(macro, call, (scope.level, len(scope.variables)), position)
        if around and body.find(exp.Query) is not None:
            raise NotSupportedError(
                f'FILTER and OVER of macro "{macro.name}", which has a subquery, are not supported',
                hint="write them in the body of the macro",
                position=position,
            )
        return build.limited(bind(_around(macro.name, call, around, body, position)))


def _around(name: str, call: Any, around: list[Any], body: Any, position: Position | None) -> Any:
    """The body with FILTER, OVER and WITHIN GROUP of the call, at the position of the call."""
    for node in reversed(around):
        body = _spread(name, body, node, position)
    starts = [node.meta_get("start") for node in call.walk()]
    ends = [node.meta_get("end") for node in call.walk()]
    if any(start is not None for start in starts):
        body.meta["start"] = min(start for start in starts if start is not None)
        body.meta["end"] = max(end for end in ends if end is not None)
    return body


def _renamed(call: Any, arguments: list[Any], name: str, position: Position | None) -> Any:
    """A call of another function with the same arguments."""
    if name == "[":
        return exp.Array(expressions=[item.copy() for item in arguments])
    if name == "CASE":
        return _chosen(arguments, position)
    copied = call.copy()
    copied.meta[INSIDE] = BUILT_IN
    if name in ("JSON_OBJECT NULL", "JSON_ARRAY NULL"):
        name = name.removesuffix(" NULL")
        copied.append("expressions", exp.Literal.string(CLAUSE + "NULL ON NULL"))
    copied.set("this", name)
    return copied


def _chosen(arguments: list[Any], position: Position | None) -> Any:
    """ELT(n, first, second, …): the value with the number."""
    if len(arguments) < 2:
        raise ProgrammingError(
            f"ELT expects at least 2 arguments, not {len(arguments)}", position=position
        )
    return exp.Case(
        this=arguments[0].copy(),
        ifs=[
            exp.If(this=exp.Literal.number(number), true=item.copy())
            for number, item in enumerate(arguments[1:], 1)
        ],
    )


def _is_distinct(argument: Any) -> bool:
    """Whether the argument is DISTINCT of one expression."""
    return isinstance(argument, exp.Distinct) and len(argument.expressions) == 1


def _substituted(
    name: str,
    found: tuple[Macro, ...],
    arguments: list[Any],
    position: Position | None,
    path: tuple[str, ...],
) -> Any:
    """The body of a macro with the arguments in the place of the parameters."""
    counts = [len(macro.parameters or ()) for macro in found]
    macro = next((item for item in found if len(item.parameters or ()) == len(arguments)), None)
    if macro is None:
        wanted = " or ".join(map(str, counts))
        plural = "" if counts == [1] else "s"
        raise ProgrammingError(
            f"{name} expects {wanted} argument{plural}, not {len(arguments)}", position=position
        )
    if name == "HISTOGRAM" and _is_distinct(arguments[0]):
        # COLLECT(DISTINCT x) of Flink
        macro = macro._replace(body=macro.body.replace("ARRAY_AGG(x)", "ARRAY_AGG(DISTINCT x)"))
        arguments = arguments[0].expressions
    for item in arguments:
        inner = item.this if isinstance(item, exp.Order) else item
        what = (
            "DISTINCT"
            if isinstance(inner, exp.Distinct)
            else "ORDER BY"
            if inner is not item
            else "*"
            if isinstance(item, exp.Star)
            else "a named argument"
            if isinstance(item, exp.Kwarg)
            else None
        )
        if what is not None:
            raise NotSupportedError(f"{what} is not supported in {name}", position=position)
    if macro.body.startswith("$"):
        return _value(macro.body, path)
    given = dict(zip(macro.parameters or (), arguments, strict=True))
    if "AGGREGATE(u" in macro.body:
        macro = macro._replace(body=_with_aggregate(name, macro.body, given["name"], position))
    if "TO_UNITS" in macro.body:
        macro = macro._replace(body=_with_unit(name, macro.body, given["unit"], position))
    # A Paren around the body, so that the root can be replaced as well.
    body = exp.Paren(this=_parsed(macro.body).copy())
    for node in body.find_all(exp.Anonymous):
        node.meta[INSIDE] = BUILT_IN
    for column in list(body.find_all(exp.Column)):
        argument = given.get(column.name)
        if argument is not None and not column.table:
            column.replace(exp.Paren(this=argument.copy()))
    return body


def _with_aggregate(name: str, body: str, tree: Any, position: Position | None) -> str:
    """The body of LIST_AGGREGATE with the aggregate function that its second argument names."""
    from runnel.expressions.aggregates.registry import aggregate_names

    if not isinstance(tree, exp.Literal) or not tree.is_string:
        raise ProgrammingError(
            f"the name of the aggregate function of {name} must be a text literal",
            position=position,
        )
    word = tree.this.upper()
    if word.lower() not in aggregate_names() and not is_macro(word):
        raise UndefinedFunction(
            f'aggregate function "{tree.this}" does not exist',
            hint=suggest(tree.this, aggregate_names()),
            position=position,
        )
    return body.replace("AGGREGATE(u", f"{word}(u")


def _with_unit(name: str, body: str, tree: Any, position: Position | None) -> str:
    """The body with the function that makes an interval of the unit: TO_DAYS for 'day'."""
    word = tree.this.upper() if isinstance(tree, exp.Literal) and tree.is_string else ""
    function = f"TO_{word.removesuffix('S')}S"
    if word == "QUARTER":
        return body.replace("TO_UNITS(", "TO_MONTHS(3 * ")
    if function not in _UNITS:
        raise ProgrammingError(
            f"{name} has no unit {word or 'of that kind'}",
            hint="units are " + ", ".join(unit.removeprefix("TO_")[:-1] for unit in _UNITS),
            position=position,
        )
    return body.replace("TO_UNITS(", f"{function}(")


_UNITS = tuple(
    f"TO_{unit}S"
    for unit in "YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()
)


@cache
def _parsed(text: str) -> Any:
    """The tree of a body, without the positions of its nodes, which are no positions of the
    statement."""
    return without_positions(parse_expression(tokenize(text), text, {}, Position.at(text, 0)))


def _value(word: str, path: tuple[str, ...]) -> Any:
    """The results of the functions about the session."""
    if word == "$VERSION":
        from importlib.metadata import version

        return exp.Literal.string(f"Runnel {version('runnel')}")
    catalog, schema = catalog_and_schema(path[0] if path else "")
    return exp.Literal.string(schema if word == "$SCHEMA" else catalog)


def _spread(name: str, body: Any, node: Any, position: Position | None) -> Any:
    """`body` with FILTER, OVER or WITHIN GROUP. A composition has it around each of its aggregate
    functions, inside the conditions that these functions have already."""
    from runnel.planner.bind.grouping.aggregate import is_aggregate

    def wrapped(call: Any) -> Any:
        copied = node.copy()
        copied.set("this", call)
        return copied

    if not isinstance(body, exp.Paren):
        return wrapped(body)
    if not isinstance(node, (exp.Filter, exp.Window)):
        raise NotSupportedError(
            f"{name} can't have WITHIN GROUP or IGNORE NULLS", position=position
        )
    found = [item for item in body.find_all(exp.Anonymous) if is_aggregate(item.name)]
    if not found:
        what = "FILTER" if isinstance(node, exp.Filter) else "OVER"
        raise ProgrammingError(
            f"{what} needs an aggregate function, which {name} isn't", position=position
        )
    for call in found:
        outer: Any = call.parent if isinstance(call.parent, exp.Filter) else call
        if isinstance(outer.parent, exp.Window):
            outer = outer.parent
        if isinstance(node, exp.Window):
            marker = exp.Null()
            outer.replace(marker)
            marker.replace(wrapped(outer))
            continue
        condition = node.expression.this.copy()
        if isinstance(outer, exp.Filter):
            both = exp.And(
                this=exp.Paren(this=condition), expression=exp.Paren(this=outer.expression.this)
            )
            outer.set("expression", exp.Where(this=both))
        else:
            marker = exp.Null()
            outer.replace(marker)
            marker.replace(wrapped(outer))
    return body
