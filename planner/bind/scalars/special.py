"""Binding of rare scalars: fields of rows, slices, operators on JSON, regular expressions and bits,
TRY_CAST, OVERLAPS, and functions with keywords among their arguments. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.planner.bind.scalars import json as bind_json
from runnel.planner.bind.scalars import operators, rows
from runnel.planner.bind.scalars.literals import binary_literal, fitted
from runnel.planner.parse.query.allow_list import function_call, position_of, sql_type_of
from runnel.planner.parse.types import object_kind_of, size_of
from runnel.sqltypes import BIGINT, NULL, VARCHAR, Kind, can_cast

if TYPE_CHECKING:
    from runnel.planner.bind.scope import Scope

Bind = Callable[[Any], Expression]

_BINARY: dict[type, str] = {
    exp.JSONExtract: "json_arrow",
    exp.JSONExtractScalar: "json_arrow_text",
    exp.RegexpLike: "regexp_like",
    exp.SimilarTo: "similar_to",
    exp.Pow: "power",
    exp.IntDiv: "div",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseLeftShift: "bit_shift_left",
    exp.BitwiseRightShift: "bit_shift_right",
    exp.StartsWith: "starts_with",
}


def special(bind: Bind, tree: Any, sql: str) -> Expression | None:
    """Binds a tree of one of these kinds; None for any other tree."""
    position = position_of(tree, sql)
    if isinstance(tree, (exp.Kwarg, exp.PropertyEQ)):
        raise NotSupportedError(
            f'"{tree.this.name}" is a named argument, which this function does not have',
            hint="macros, table functions and STRUCT_PACK have named arguments",
            position=position,
        )
    function = _BINARY.get(type(tree))
    if function is not None:
        return build.call(function, [bind(tree.this), bind(tree.expression)], position)
    method = _METHODS.get(type(tree))
    return None if method is None else method(bind, tree, position)


def _dot(bind: Bind, tree: Any, position: Position | None) -> Expression:
    called = function_call(tree.expression)
    if called is not None:
        # DuckDB's `x.upper()` is `upper(x)`.
        call = tree.expression.copy()
        call.set("expressions", [tree.this.copy(), *called[1]])
        return bind(call)
    if not isinstance(tree.expression, exp.Identifier):
        raise NotSupportedError(
            "only the name of a field or a function may follow a point here", position=position
        )
    operand = bind(tree.this)
    name = Literal(value=tree.expression.name, type=VARCHAR, position=position)
    return build.call(_MEMBER.get(operand.type.kind, "field"), [operand, name], position)


def _array(bind: Bind, tree: Any, position: Position | None) -> Expression:
    if tree.expressions and isinstance(tree.expressions[0], exp.Comprehension):
        return bind(operators.comprehended(tree.expressions[0]))
    return build.call("array", [bind(item) for item in tree.expressions], position)


def _map(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """`MAP {key: value, …}`."""
    items = []
    for item in tree.this.expressions:
        key = item.this
        items.append(bind(exp.Column(this=key) if isinstance(key, exp.Identifier) else key))
        items.append(bind(item.expression))
    return build.call("map_of", items, position)


def _subscript(bind: Bind, tree: Any, position: Position | None) -> Expression:
    if len(tree.expressions) != 1:
        raise NotSupportedError("a subscript must be one number", position=position)
    if isinstance(tree.expressions[0], exp.Slice):
        return _slice(bind, tree, position)
    operand, subscript = bind(tree.this), bind(tree.expressions[0])
    if operand.type.kind is Kind.ROW:
        return build.call("field", [operand, _name_of(operand, subscript)], position)
    if operand.type.kind is Kind.JSON:
        return build.call("json_arrow", [operand, subscript], position)
    if operand.type.kind is Kind.VARCHAR and subscript.type.is_integer:
        return build.call("text_slice", [operand, subscript, subscript], position)
    return build.call("subscript", [operand, subscript], position)


def _name_of(operand: Expression, subscript: Expression) -> Expression:
    """The name of the field with a number, from 1; any other subscript as it is."""
    if not isinstance(subscript, Literal) or not subscript.type.is_integer:
        return subscript
    fields, number = operand.type.fields, subscript.value
    if number is None or not 1 <= number <= len(fields):
        return subscript
    return Literal(value=str(fields[number - 1][0]), type=VARCHAR, position=subscript.position)


def _at_time_zone(bind: Bind, tree: Any, position: Position | None) -> Expression:
    return build.call("at_time_zone", [bind(tree.this), bind(tree.args["zone"])], position)


def _slice(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """`a[i:j]` of an array or a text. An absent bound of an array is NULL."""
    part, operand = tree.expressions[0], bind(tree.this)
    is_text = operand.type.kind is Kind.VARCHAR
    bounds = [
        Literal(value=default if is_text else None, type=BIGINT) if bound is None else bind(bound)
        for bound, default in ((part.this, 1), (part.args.get("expression"), -1))
    ]
    return build.call("text_slice" if is_text else "array_slice", [operand, *bounds], position)


def _regexp_ignoring_case(bind: Bind, tree: Any, position: Position | None) -> Expression:
    flags = Literal(value="i", type=VARCHAR)
    return build.call("regexp_like", [bind(tree.this), bind(tree.expression), flags], position)


def _escape(bind: Bind, tree: Any, position: Position | None) -> Expression:
    matching = tree.this
    operands = [bind(operand) for operand in (matching.this, matching.expression, tree.expression)]
    if isinstance(matching, exp.SimilarTo):
        return build.call("similar_to", operands, position)
    matched = build.call("ilike" if isinstance(matching, exp.ILike) else "like", operands, position)
    return build.call("not", [matched], position) if matching.args.get("negate") else matched


def _bitwise_not(bind: Bind, tree: Any, position: Position | None) -> Expression:
    return build.call("bit_not", [bind(tree.this)], position)


def _try_cast(bind: Bind, tree: Any, position: Position | None) -> Expression:
    operand, target = bind(tree.this), sql_type_of(tree.args["to"])
    size = size_of(tree.args["to"])
    kind = object_kind_of(tree.args["to"])
    if kind is not None:
        raise NotSupportedError(
            f"TRY_CAST to {kind} is not supported", hint="write to_regclass('t')", position=position
        )
    if operand.type == target or operand.type == NULL or not can_cast(operand.type, target):
        found = build.explicit_cast(operand, target, position)
    else:
        found = Call(function="try_cast", arguments=(operand,), type=target, position=position)
    return found if size is None else fitted(found, size, position, is_tried=True)


def _overlaps(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """(s1, e1) OVERLAPS (s2, e2).

    The periods are half-open. Start and end may be swapped, and an end may be an interval. A period
    with start = end is a point.
    """
    periods = []
    for side in (tree.this, tree.expression):
        if not isinstance(side, exp.Tuple) or len(side.expressions) != 2:
            raise ProgrammingError(
                "OVERLAPS compares two periods: (start, end) OVERLAPS (start, end)",
                position=position,
            )
        begin, end = (bind(item) for item in side.expressions)
        if end.type.is_interval:
            end = build.call("add", [begin, end], position)
        periods += [begin, end]
    return build.call("overlaps", periods, position)


def is_json(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds x IS JSON [VALUE | OBJECT | ARRAY | SCALAR]."""
    kind = tree.expression.this
    word = Literal(value=str(kind).lower() if isinstance(kind, str) else "value", type=VARCHAR)
    return build.call("is_json", [bind(tree.this), word], position)


def fields_of(operand: Expression, position: Position | None) -> list[tuple[Expression, str]]:
    """The fields of `(row).*`, each with its name."""
    kind = operand.type
    if kind.kind is not Kind.ROW:
        raise ProgrammingError(f".* needs a ROW, not {kind}", position=position)
    names = [Literal(value=name, type=VARCHAR, position=position) for name, _ in kind.fields]
    return [(build.call("field", [operand, name], position), str(name.value)) for name in names]


_MEMBER = {Kind.ROW: "field", Kind.MAP: "subscript", Kind.JSON: "json_arrow"}
"""The functions that a point stands for: row.field, map.key, json.key."""


def nested_field(scope: Scope, tree: Any, position: Position | None) -> Expression | None:
    """The field of a ROW that a name with points refers to: `column.field` or
    `table.column.field`, and fields of fields; None if no ROW column begins the name."""
    names = [part.name for part in tree.parts]
    for used in (2, 1):
        qualifier = names[0] if used == 2 else None
        if used >= len(names):
            continue
        try:
            found = scope.resolve(names[used - 1], qualifier, position)
        except ProgrammingError:
            continue
        if found.type.kind in _MEMBER:
            for name in names[used:]:
                field = Literal(value=name, type=VARCHAR, position=position)
                function = _MEMBER.get(found.type.kind, "field")
                found = build.call(function, [found, field], position)
            return found
    return None


def whole_row(scope: Scope, tree: Any, position: Position | None) -> Expression | None:
    """The ROW of the columns of a table, if the tree is the name of a table of the scope or of a
    scope around it, and no column has this name; or the constant PI of Flink; None: neither."""
    around: Scope | None = scope
    if scope.has(tree.name):
        return None
    while around is not None:
        if any((column.qualifier or "").lower() == tree.name.lower() for column in around.columns):
            names = [column.name for column in around.star(tree.name, position)]
            return rows.row_of(
                {name: scope.resolve(name, tree.name, position) for name in names}, position
            )
        around = around.outer
    return build.call("PI", [], position) if tree.name.upper() == "PI" else None


def worded_call(
    bind: Bind, tree: Any, name: str, arguments: list[Any], position: Position | None
) -> Expression:
    """Binds a call of a JSON function, STRUCT_PACK(…), MAP[…] or X'…'."""
    if name.startswith("STRUCT_"):
        return rows.row_call(bind, name, arguments, position)
    if name == "X'":
        return binary_literal(tree, position)
    if name == "MAP[":
        return build.call("map_of", [bind(item) for item in arguments], position)
    if name.partition(" ")[0] in bind_json.AGGREGATES:
        return bind_json.aggregate(bind, tree, name, position)
    if name in bind_json.NAMES:
        return bind_json.json_call(bind, name, arguments, position)
    if name in bind_json.STRUCTURED:
        return bind_json.structured(name, [bind(item) for item in arguments], position)
    return build.call(name, [bind(item) for item in arguments], position)


_NAMED = {"MAKE_INTERVAL": ("years", "months", "weeks", "days", "hours", "mins", "secs")}
"""The functions whose arguments may have names."""


def in_order_of_names(name: str, arguments: list[Any], position: Position | None) -> list[Any]:
    """The arguments of a call with `name => value`, in the order of the parameters; 0 for each
    parameter that has none."""
    names = _NAMED.get(name)
    if names is None:
        raise ProgrammingError(
            f"{name} has no named arguments",
            hint=build.signature_hint(name) or "write the values in order",
            position=position,
        )
    values: dict[str, Any] = {}
    for at, item in enumerate(arguments):
        is_named = isinstance(item, exp.Kwarg)
        key = item.this.name.lower() if is_named else names[at] if at < len(names) else ""
        if key not in names or key in values or (values and not is_named and at != len(values)):
            raise ProgrammingError(
                f'{name} has no further argument "{key}"',
                hint=f"its arguments are {', '.join(names)}",
                position=position,
            )
        values[key] = item.expression if is_named else item
    return [values.get(key, exp.Literal.number(0)) for key in names]


_METHODS: dict[type, Callable[[Bind, Any, Position | None], Expression]] = {
    exp.Dot: _dot,
    exp.Array: _array,
    exp.Bracket: _subscript,
    exp.Struct: rows.literal,
    exp.ToMap: _map,
    exp.AtTimeZone: _at_time_zone,
    exp.RegexpILike: _regexp_ignoring_case,
    exp.BitwiseNot: _bitwise_not,
    exp.TryCast: _try_cast,
    exp.Escape: _escape,
    exp.Overlaps: _overlaps,
    exp.ArrayContainsAll: operators.contains,
    exp.ArrayContainedBy: operators.contained,
    exp.ArrayOverlaps: operators.overlapping,
    exp.JSONBExtract: operators.at_path,
    exp.JSONBExtractScalar: operators.at_path,
    exp.Glob: operators.glob,
}
