"""Binding of operators of DuckDB and PostgreSQL that stand for functions: @> and <@, #> and #>>,
GLOB, and list comprehensions; + and - of intervals. Loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.planner.bind.scalars.intervals import (
    CLOCK_UNITS,
    calendar_interval,
    interval_literals,
    is_computed,
    unit_of,
)
from runnel.planner.parse.query.allow_list import function_call, unwrapped
from runnel.sqltypes import BIGINT, VARCHAR, Kind

Bind = Callable[[Any], Expression]


def contains(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds a @> b: of JSON if one of the operands is JSON, else of arrays."""
    return _contains(bind(tree.this), bind(tree.expression), position)


def contained(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds a <@ b."""
    return _contains(bind(tree.expression), bind(tree.this), position)


def _contains(whole: Expression, part: Expression, position: Position | None) -> Expression:
    is_json = Kind.JSON in (whole.type.kind, part.type.kind)
    whole, part = build.read_arrays(whole, part)
    return build.call("JSON_CONTAINS" if is_json else "array_has_all", [whole, part], position)


def overlapping(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds a && b."""
    operands = build.read_arrays(bind(tree.this), bind(tree.expression))
    return build.call("array_has_any", operands, position)


def at_path(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds j #> '{a,0}' and j #>> '{a,0}', also with (ARRAY['a', '0']) as the path."""
    is_text = isinstance(tree, exp.JSONBExtractScalar)
    keys = _keys(bind(tree.expression), "#>>" if is_text else "#>", position)
    function = "JSON_EXTRACT_PATH_TEXT" if is_text else "JSON_EXTRACT_PATH"
    return build.call(function, [bind(tree.this), *keys], position)


def _keys(path: Expression, operator: str, position: Position | None) -> list[Expression]:
    """The names and subscripts of a path."""
    if isinstance(path, Call) and path.function == "array" and path.arguments:
        return list(path.arguments)
    if not isinstance(path, Literal) or not isinstance(path.value, str):
        raise NotSupportedError(
            f"the path of {operator} must be a constant",
            hint="use JSON_EXTRACT_PATH(json, key, …) with a key for each step",
            position=path.position or position,
        )
    match = re.fullmatch(r"\s*[{](.*)[}]\s*", path.value, re.DOTALL)
    steps = [] if match is None else _STEP.findall(match[1])
    if match is None or ",".join(whole for whole, _, _ in steps) != match[1] or not steps:
        raise ProgrammingError(
            f"the path of {operator} is '{path.value}', which is not a list of keys",
            hint=f"write {operator} '{{a,0,b}}'; a path such as '$.a[0]' is for ->",
            position=path.position or position,
        )
    return [_key(quoted, plain) for _, quoted, plain in steps]


_STEP = re.compile(r'(\s*(?:"((?:[^"\\]|\\.)*)"|([^,"{}]*[^,"{}\s]))\s*)(?:,|$)')


def _key(quoted: str, plain: str) -> Expression:
    """A step of a path: a subscript if it is a number, else a name."""
    if plain and re.fullmatch("-?[0-9]{1,9}", plain):
        return Literal(value=int(plain), type=BIGINT)
    return Literal(value=plain.strip() or re.sub(r"\\(.)", r"\1", quoted), type=VARCHAR)


def glob(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds s GLOB 'pattern': `*` is any text, `?` any character, `[a-c]` and `[!a]` a character of
    a set; a backslash makes the next character an ordinary one."""
    pattern = bind(tree.expression)
    if pattern.type.kind is not Kind.NULL and (
        not isinstance(pattern, Literal) or not isinstance(pattern.value, str)
    ):
        raise NotSupportedError(
            "the pattern of GLOB must be a text literal",
            hint="use LIKE or REGEXP_FULL_MATCH",
            position=pattern.position or position,
        )
    text = pattern.value if isinstance(pattern, Literal) else None
    value = None if text is None else regex_of_glob(str(text))
    if text is not None and value is None:
        raise ProgrammingError(
            f"the pattern '{text}' of GLOB has a [ without a ]",
            hint="write [[] or a backslash before the [",
            position=pattern.position or position,
        )
    regex = Literal(value=value, type=VARCHAR, position=pattern.position)
    return build.call("regexp_full_match", [bind(tree.this), regex], position)


def regex_of_glob(pattern: str) -> str | None:
    """The regular expression of a pattern of GLOB; None if a [ has no ].

    For "a*[!b]?": "(?s)a.*[^b]."
    """
    parts, at = ["(?s)"], 0
    while at < len(pattern):
        found = _GLOB.match(pattern, at)
        if found is None:
            return None
        many, one, negated, members, escaped, plain = found.groups()
        if members is not None:
            safe = re.sub(r"([\\^\[\]&~|])", r"\\\1", members)
            parts.append(f"[{'^' if negated else ''}{safe}]")
        else:
            parts.append(".*" if many else "." if one else re.escape(escaped or plain))
        at = found.end()
    return "".join(parts)


_GLOB = re.compile(r"([*]+)|([?])|\[(!)?(\]?[^\]]+)\]|\\(.)|([^\[])", re.DOTALL)


def comprehended(tree: Any) -> Any:
    """The call that [value FOR x IN list IF condition] stands for.

    With a position, as in [value FOR x, i IN list IF condition], i counts the elements of the list
    before the condition selects.
    """
    names = [tree.expression, tree.args.get("position")]
    names = [name.copy() for name in names if name is not None]
    condition, items, value = tree.args.get("condition"), tree.args["iterator"], tree.this

    def applied(function: str, to: Any, body: Any, parameters: list[Any]) -> Any:
        function_of = exp.Lambda(this=body.copy(), expressions=[item.copy() for item in parameters])
        return exp.Anonymous(this=function, expressions=[to.copy(), function_of])

    if condition is None:
        return applied("LIST_TRANSFORM", items, value, names)
    if len(names) == 1:
        return applied(
            "LIST_TRANSFORM", applied("LIST_FILTER", items, condition, names), value, names
        )
    kept = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    pair = exp.Struct(expressions=[_field("keep", condition), _field("value", kept)])
    pairs = applied("LIST_TRANSFORM", items, pair, names)
    each = exp.to_identifier("$pair")
    kept_pairs = applied("LIST_FILTER", pairs, _member(each, "keep"), [each])
    return applied("LIST_TRANSFORM", kept_pairs, _member(each, "value"), [each])


def _field(name: str, value: Any) -> Any:
    return exp.PropertyEQ(this=exp.to_identifier(name), expression=value.copy())


def _member(row: Any, name: str) -> Any:
    return exp.Dot(this=row.copy(), expression=exp.to_identifier(name))


def bound_sum(
    bind: Callable[[Any], Expression],
    tree: Any,
    function: str,
    zone: str,
    at: Callable[[Any], Position | None],
) -> Expression:
    """Binds + or -: of an instant and an interval of days or months on the local clock of the
    session's zone, unless that is UTC."""
    position = at(tree)
    left, right = unwrapped(tree.this), unwrapped(tree.expression)
    time = bind(left)
    by_calendar = time.type.kind is Kind.TIMESTAMP_TZ and zone != "UTC"
    if isinstance(right, exp.Interval) and not is_computed(right) and not by_calendar:
        for interval in interval_literals(right, at(right)):
            time = build.call(function, [time, interval], position)
        return time
    span, span_tree = bind(right), right
    if function == "add" and time.type.is_interval:
        by_calendar = span.type.kind is Kind.TIMESTAMP_TZ and zone != "UTC"
        time, span, span_tree = span, time, left
    is_span = span.type.kind in (Kind.INTERVAL_MONTH, Kind.INTERVAL_MIXED) or (
        span.type.kind is Kind.INTERVAL and not _is_clock(span_tree)
    )
    if not by_calendar or not is_span:
        return build.call(function, [time, span], position)
    if isinstance(span_tree, exp.Interval) and not is_computed(span_tree):
        span = calendar_interval(span_tree, at(span_tree))
    name = "calendar_sum" if function == "add" else "calendar_difference"
    return build.call(name, [time, span], position)


def _is_clock(tree: Any) -> bool:
    """Whether an expression is an interval of hours and less, or a multiple of one."""
    if isinstance(tree, (exp.Paren, exp.Neg)):
        return _is_clock(tree.this)
    if isinstance(tree, (exp.Mul, exp.Div)):
        return _is_clock(tree.this) or _is_clock(tree.expression)
    if isinstance(tree, exp.Interval):
        unit = tree.args.get("unit")
        if is_computed(tree):
            return unit is not None and unit_of(unit.name, None) in CLOCK_UNITS
        value = calendar_interval(tree, None).value
        return not value[0] and not value[1]
    call = function_call(tree)
    return call is not None and call[0].removeprefix("TO_").removesuffix("S") in CLOCK_UNITS


__all__ = ["at_path", "bound_sum", "comprehended", "contained", "contains", "glob", "regex_of_glob"]
