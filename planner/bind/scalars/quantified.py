"""Binding of `x IN (SELECT …)`, `x < ANY (…)` and `x < ALL (…)`, over a subquery or an array.

Both sides of IN are converted to the type in which `=` compares them. `= ANY` is bound as IN, and
`<> ALL` as NOT IN. The other comparisons need only four aggregates: the number of values, the
number of values that are not NULL, the smallest and the largest value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, Parameter, walk
from runnel.planner.bind.convert import changed, converted, decimal_key
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.select_parts import AggregateValue, GroupingValue, OuterSelectContext
from runnel.planner.parse.query.allow_list import position_of
from runnel.relation.nodes import Aggregate, Project, Relation, references
from runnel.relation.subqueries import (
    InSubquery,
    OuterColumn,
    OuterValue,
    ScalarSubquery,
    map_outer_in,
)
from runnel.relation.unnest import elements_of
from runnel.sqltypes import BIGINT, BOOLEAN, Kind, SqlType, common_type, loses_digits
from runnel.sqltypes import array as array_of

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder

_ORDERED = ("lt", "le", "gt", "ge")
_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "<>"}


def quantified(
    bind: Callable[[Any], Expression], query: QueryBinder, scope: Scope, tree: Any, function: str
) -> Expression:
    """Binds a comparison whose right side is exp.Any or exp.All."""
    position = position_of(tree, query.sql)
    is_all = isinstance(tree.expression, exp.All)
    if function not in _SYMBOLS:
        raise NotSupportedError("ANY and ALL need =, <>, <, <=, > and >=", position=position)
    left = tree.this.unnest()
    if isinstance(left, exp.Tuple):
        raise NotSupportedError(
            "a row can't be compared by ANY or ALL", hint="use IN or EXISTS", position=position
        )
    operand, inner = bind(left), tree.expression.this.unnest()
    if isinstance(inner, exp.Query | exp.Values):
        return _over_rows(operand, query.subquery(inner, scope), function, is_all, position)
    _, array = build.read_arrays(Literal(value=None, type=array_of(operand.type)), bind(inner))
    if array.type.kind is Kind.NULL:
        return _UNKNOWN
    if array.type.kind is not Kind.ARRAY:
        raise ProgrammingError(
            f"ANY and ALL accept a subquery or an ARRAY, not {array.type}",
            position=array.position or position_of(tree.expression.this, query.sql),
        )
    rows = elements_of(_inside(array))
    return _unless_null(array, _over_rows(operand, rows, function, is_all, position), is_all)


def like_any(bind: Callable[[Any], Expression], tree: Any, position: Position | None) -> Expression:
    """Binds LIKE or ILIKE whose right side is exp.Any or exp.All over a list of patterns."""
    patterns = tree.expression.unnest()
    listed = patterns.this.unnest()
    if isinstance(listed, exp.Query):
        raise NotSupportedError(
            "LIKE ANY and LIKE ALL of a subquery are not supported",
            hint="list the patterns, LIKE ANY ('a%', 'b%'), or write EXISTS (SELECT 1 FROM p WHERE "
            "x LIKE p.pattern)",
            position=position,
        )
    items = listed.expressions if isinstance(listed, (exp.Tuple, exp.Array)) else [listed]
    operand = bind(tree.this)
    function = "ilike" if isinstance(tree, exp.ILike) else "like"
    found = [build.call(function, [operand, bind(item)], position) for item in items]
    if tree.args.get("negate"):
        found = [build.call("not", [item], position) for item in found]
    if len(found) == 1:
        return found[0]
    return build.call("and" if isinstance(patterns, exp.All) else "or", found, position)


_UNKNOWN = Literal(value=None, type=BOOLEAN)


def _unless_null(array: Expression, verdict: Expression, is_all: bool) -> Expression:
    """`verdict`, which is the result over the elements of `array`; NULL if the array is NULL,
    because UNNEST returns no elements for it."""
    if isinstance(array, Call) and array.function == "array":
        return verdict
    if is_all:
        return build.call(
            "and", [verdict, build.call("or", [build.call("is_not_null", [array]), _UNKNOWN])]
        )
    return build.call(
        "or", [verdict, build.call("and", [build.call("is_null", [array]), _UNKNOWN])]
    )


def _over_rows(
    operand: Expression, relation: Relation, function: str, is_all: bool, position: Position | None
) -> Expression:
    """The comparison with the values of a relation, which must have one column."""
    if len(relation.fields) != 1:
        raise ProgrammingError(
            f"the subquery of {'ALL' if is_all else 'ANY'} must have one column, not "
            f"{len(relation.fields)}",
            position=position,
        )
    if (function, is_all) in (("eq", False), ("ne", True)):
        found = in_subquery([operand], relation, _SYMBOLS[function], position)
        return build.call("not", [found], position) if is_all else found
    shared = comparison_type(operand.type, relation.fields[0].type, _SYMBOLS[function], position)
    if not loses_digits(operand.type, relation.fields[0].type):
        relation = converted(relation, (shared,))
        operand = build.cast(operand, shared, implicit=True)
    return _by_extremes(operand, relation, function, is_all, position)


def _inside(expression: Expression) -> Expression:
    """The expression as it would be written in a subquery at the same position."""

    def change(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, Column) and not nesting:
            return OuterColumn(
                index=item.index, name=item.name, type=item.type, position=item.position
            )
        if isinstance(item, AggregateValue | GroupingValue) and not nesting:
            return OuterSelectContext(value=item, type=item.type, position=item.position)
        if isinstance(item, OuterValue) and item.depth >= max(nesting, 1):
            return item.at_depth(item.depth + 1)
        return None

    return map_outer_in(expression, change)


def _by_extremes(
    operand: Expression, relation: Relation, function: str, is_all: bool, position: Position | None
) -> Expression:
    """The comparison by the four aggregates. One subquery computes all of them if the operand can
    be moved into it; otherwise each aggregate has its own subquery."""
    from runnel.expressions.aggregates.registry import aggregate_call

    value = references(relation.fields)[0]
    calls = [
        aggregate_call("count", [], position=position),
        aggregate_call("count", [value], position=position),
        aggregate_call("min", [value], position=position),
        aggregate_call("max", [value], position=position),
    ]

    def grouped(chosen: Sequence[int]) -> Relation:
        picked = tuple(calls[i] for i in chosen)
        return Aggregate(
            input=relation, keys=(), aggregates=picked, names=tuple(f"$bound{i}" for i in chosen)
        )

    if all(
        isinstance(item, Column | OuterColumn | Literal | Parameter | Call | Cast)
        for item in walk(operand)
    ):
        bounds = grouped(range(4))
        columns = references(bounds.fields)
        verdict = _verdict(_inside(operand), lambda i: columns[i], function, is_all)
        inner = Project(input=bounds, expressions=(verdict,), names=("verdict",))
        return ScalarSubquery(relation=inner, type=BOOLEAN, position=position)

    def apart(i: int) -> Expression:
        return ScalarSubquery(relation=grouped([i]), type=calls[i].type, position=position)

    return _verdict(operand, apart, function, is_all)


def _verdict(
    operand: Expression, bound: Callable[[int], Expression], function: str, is_all: bool
) -> Expression:
    """The comparison as an expression over the four aggregates. `bound` returns aggregate 0 (number
    of values), 1 (number of values that are not NULL), 2 (smallest value) or 3 (largest value)."""
    zero = Literal(value=0, type=BIGINT)
    true, false, unknown = (Literal(value=value, type=BOOLEAN) for value in (True, False, None))
    if function in _ORDERED:
        # For ALL the value that is hardest to satisfy decides, for ANY the easiest.
        extreme = 3 if (function in ("gt", "ge")) is is_all else 2
        decided = build.call(function, [operand, bound(extreme)])
    else:
        decided = build.call(
            "or", [build.call("ne", [operand, bound(2)]), build.call("ne", [operand, bound(3)])]
        )
        if function == "eq":
            decided = build.call("not", [decided])
    clear = build.call("not", [decided]) if is_all else decided
    has_null = build.call(
        "or", [build.call("lt", [bound(1), bound(0)]), build.call("is_null", [operand])]
    )
    conditions = [build.call("eq", [bound(0), zero]), clear, has_null]
    return build.case(
        conditions,
        [true if is_all else false, false if is_all else true, unknown],
        true if is_all else false,
    )


def in_subquery(
    operands: Sequence[Expression], relation: Relation, symbol: str, position: Position | None
) -> InSubquery:
    """Binds IN; there is one operand for each column of the relation.

    If no DECIMAL type has enough digits for both sides, they are compared by keys.
    """
    sides: list[Expression] = []
    types: list[SqlType] = []
    keyed: set[int] = set()
    for number, (operand, column) in enumerate(
        zip(operands, references(relation.fields), strict=True)
    ):
        shared = comparison_type(operand.type, column.type, symbol, position)
        if loses_digits(operand.type, column.type):
            build.call("eq", [operand, column], position)  # refuses nested types
            keyed.add(number)
            shared = column.type
        types.append(shared)
        sides.append(
            decimal_key(operand) if number in keyed else build.cast(operand, shared, implicit=True)
        )
    relation = changed(converted(relation, tuple(types)), dict.fromkeys(keyed, decimal_key))
    return InSubquery(operands=tuple(sides), relation=relation, type=BOOLEAN, position=position)


def comparison_type(
    left: SqlType, right: SqlType, symbol: str, position: Position | None
) -> SqlType:
    """The common type of two types that are compared; ProgrammingError if there is none."""
    shared = common_type(left, right)
    if shared is None:
        raise ProgrammingError(
            f"cannot apply '{symbol}' operator to [{left}, {right}]",
            hint="consider adding an explicit CAST",
            position=position,
        )
    return shared


def in_array(operand: Expression, array: Expression, position: Position | None) -> Expression:
    """IN of an array, such as a parameter. As in DuckDB, a NULL in the array is no value of it."""
    if array.type.kind not in (Kind.ARRAY, Kind.NULL):
        raise ProgrammingError(
            f"IN without parentheses needs an array, not {array.type}",
            hint="write x IN (a, b); or x IN ? with a list as the argument",
            position=position,
        )
    return build.call("array_contains", [array, operand], position)
