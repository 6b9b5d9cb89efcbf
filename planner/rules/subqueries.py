"""Subqueries become joins; afterwards no expression holds a relation.

`EXISTS`, `IN` and `NOT IN` as conjuncts of a WHERE, HAVING or inner join condition become SEMI, ANTI and NULL_ANTI joins.
Anywhere else each subquery becomes a join that adds one column, and that column takes its place: MARK for IN, EXISTS_MARK
for EXISTS, SINGLE for a scalar subquery (CROSS where it has exactly one row). Conjuncts keep their order, so one that can
fail still sees only the rows that passed those before it. What is correlated is taken apart by `correlation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from runnel.errors import NotSupportedError, Position
from runnel.expressions.nodes import Call, Column, Expression, Literal, columns_of, conjuncts, walk
from runnel.planner.rules.correlation import correlated_parts, decorrelated, is_correlated
from runnel.planner.rules.rewriting import conjunction, project_columns, renumber
from runnel.relation import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Sort,
    Unnest,
    Values,
    expressions_of,
    transform,
)
from runnel.relation import walk as relations_of
from runnel.sqltypes import BIGINT
from runnel.subqueries import Exists, InSubquery, ScalarSubquery
from runnel.windows import Window

SUBQUERIES = (Exists, InSubquery, ScalarSubquery)


def subqueries_to_joins(relation: Relation) -> Relation:
    """The relation without subquery expressions; NotSupportedError where one can't be turned into a join."""
    return transform(relation, _rewrite)


def _rewrite(node: Relation) -> Relation:
    if not any(_has_subquery(item) for item in expressions_of(node)):
        return node
    rule = _RULES.get(type(node))
    if rule is None:
        raise _unsupported(node)
    return rule(node)


def _has_subquery(expression: Expression) -> bool:
    return any(isinstance(item, SUBQUERIES) for item in walk(expression))


def _unsupported(node: Relation) -> NotSupportedError:
    found = [item for e in expressions_of(node) for item in walk(e) if isinstance(item, SUBQUERIES)]
    where = {Join: "the condition of an outer join, over both its sides,", Values: "VALUES"}.get(type(node), "this clause")
    return NotSupportedError(
        f"a subquery in {where} is not supported",
        hint="put it in the WHERE clause or the select list of a derived table",
        position=found[0].position or node.position,
    )


def _filter(node: Filter) -> Relation:
    return _filtered(node.input, conjuncts(node.condition), len(node.fields))


def _filtered(relation: Relation, parts: list[Expression], width: int) -> Relation:
    """The rows for which all parts are true, of which some hold subqueries; the first `width` columns."""
    for part in parts:
        joined = _as_join(relation, part)
        if joined is not None:
            relation = joined
            continue
        hoisting = _Hoisting(relation)
        condition = hoisting.rewrite(part)
        relation = hoisting.relation
        relation = Filter(input=relation, condition=condition, position=part.position)
    return project_columns(relation, range(width))


def _as_join(relation: Relation, part: Expression) -> Relation | None:
    """The join that a conjunct is as a whole; None if it isn't [NOT] IN or [NOT] EXISTS."""
    negated = isinstance(part, Call) and part.function == "not"
    inner = part.arguments[0] if isinstance(part, Call) and negated else part
    if isinstance(inner, Exists):
        return _exists_join(relation, inner, JoinKind.ANTI if negated else JoinKind.SEMI)
    if isinstance(inner, InSubquery) and not any(_has_subquery(item) for item in inner.operands):
        return _in_join(relation, inner, JoinKind.NULL_ANTI if negated else JoinKind.SEMI)
    return None


def _exists_join(relation: Relation, node: Exists, kind: JoinKind) -> Relation:
    subquery = _existence_only(subqueries_to_joins(node.relation))
    if not is_correlated(subquery):
        one = Limit(input=subquery, count=Literal(value=1, type=BIGINT), offset=None)
        return Join(kind=kind, left=relation, right=one, position=node.position)
    right, condition = decorrelated(subquery, len(relation.fields), "EXISTS")
    return Join(kind=kind, left=relation, right=right, condition=condition, position=node.position)


def _existence_only(relation: Relation) -> Relation:
    """The subquery of an EXISTS without what doesn't change whether it has a row: the select list, GROUP BY, DISTINCT,
    ORDER BY, a LIMIT of one or more."""
    while (
        isinstance(relation, Project | Sort)
        or (isinstance(relation, Aggregate) and relation.keys)
        or (isinstance(relation, Limit) and _keeps_a_row(relation))
    ):
        relation = relation.input
    return relation


def _keeps_a_row(limit: Limit) -> bool:
    value = getattr(limit.count, "value", 1 if limit.count is None else 0)
    return isinstance(value, int) and value > 0 and limit.offset is None


def _in_join(relation: Relation, node: InSubquery, kind: JoinKind) -> Relation:
    subquery = subqueries_to_joins(node.relation)
    condition: Expression | None = None
    if is_correlated(subquery):
        subquery, condition = decorrelated(subquery, len(relation.fields), "IN")
    keys = tuple(Column(index=i, name=subquery.fields[i].name, type=item.type) for i, item in enumerate(node.operands))
    return Join(
        kind=kind,
        left=relation,
        right=subquery,
        left_keys=node.operands,
        right_keys=keys,
        condition=condition,
        position=node.position,
    )


class _Hoisting:
    """Joins subqueries to a relation one after the other; each adds a column at the end."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation

    def rewrite(self, expression: Expression) -> Expression:
        """The expression with columns of `self.relation` in place of its subqueries."""
        if not _has_subquery(expression):
            return expression
        children = tuple(self.rewrite(child) for child in expression.children)
        expression = expression.with_children(children)
        if isinstance(expression, Exists):
            return self._last(_exists_join(self.relation, expression, JoinKind.EXISTS_MARK), expression)
        if isinstance(expression, InSubquery):
            return self._last(_in_join(self.relation, expression, JoinKind.MARK), expression)
        if isinstance(expression, ScalarSubquery):
            return self._last(self._scalar(expression), expression)
        return expression

    def _scalar(self, node: ScalarSubquery) -> Relation:
        subquery = subqueries_to_joins(node.relation)
        if is_correlated(subquery):
            found = next(item for item in _correlated_items(subquery))
            raise _correlated_scalar(found.position or node.position)
        kind = JoinKind.CROSS if has_one_row(subquery) else JoinKind.SINGLE
        return Join(kind=kind, left=self.relation, right=subquery, position=node.position)

    def _last(self, joined: Relation, expression: Expression) -> Expression:
        self.relation = joined
        index = len(joined.fields) - 1
        name = joined.fields[index].name
        return Column(index=index, name=name, type=expression.type, position=expression.position)


def _correlated_items(relation: Relation) -> Iterable[Expression]:
    for node in relations_of(relation):
        for expression in expressions_of(node):
            yield from correlated_parts(expression)


def _correlated_scalar(position: Position | None) -> NotSupportedError:
    return NotSupportedError(
        "a scalar subquery that refers to the outer query is not supported",
        hint="join with a derived table that has a GROUP BY over the columns compared",
        position=position,
    )


def has_one_row(relation: Relation) -> bool:
    """Whether a relation has exactly one row whatever the data."""
    if isinstance(relation, Aggregate):
        return not relation.keys
    if isinstance(relation, Values):
        return len(relation.rows) == 1
    if isinstance(relation, Project | Sort):
        return has_one_row(relation.input)
    return isinstance(relation, Join) and relation.kind is JoinKind.CROSS and all(map(has_one_row, relation.inputs))


def _project(node: Project) -> Relation:
    hoisting = _Hoisting(node.input)
    expressions = tuple(hoisting.rewrite(item) for item in node.expressions)
    return replace(node, input=hoisting.relation, expressions=expressions)


def _aggregate(node: Aggregate) -> Relation:
    hoisting = _Hoisting(node.input)
    keys = tuple(hoisting.rewrite(item) for item in node.keys)
    calls = tuple(call.map_expressions(hoisting.rewrite) for call in node.aggregates)
    return replace(node, input=hoisting.relation, keys=keys, aggregates=calls)


def _sort(node: Sort) -> Relation:
    hoisting = _Hoisting(node.input)
    keys = tuple(key._replace(expression=hoisting.rewrite(key.expression)) for key in node.keys)
    return project_columns(replace(node, input=hoisting.relation, keys=keys), range(len(node.fields)))


def _unnest(node: Unnest) -> Relation:
    hoisting = _Hoisting(node.input)
    array = hoisting.rewrite(node.array)
    width, added = len(node.input.fields), len(hoisting.relation.fields) - len(node.input.fields)
    unnested = replace(node, input=hoisting.relation, array=array)
    last = range(width + added, len(unnested.fields))
    return project_columns(unnested, [*range(width), *last])


def _window(node: Window) -> Relation:
    hoisting = _Hoisting(node.input)
    calls = tuple(call.map_expressions(hoisting.rewrite) for call in node.calls)
    width, grown = len(node.input.fields), len(hoisting.relation.fields)
    window = replace(node, input=hoisting.relation, calls=calls)
    return project_columns(window, [*range(width), *range(grown, grown + len(calls))])


def _join(node: Join) -> Relation:
    """The parts of an inner join's condition that hold subqueries are a filter above it. In an outer join a subquery is
    joined to the side whose columns it is about, none of whose rows that loses."""
    if node.kind is not JoinKind.INNER:
        return _outer_join(node)
    parts = conjuncts(node.condition)
    first = next(i for i, part in enumerate(parts) if _has_subquery(part))
    below = replace(node, condition=conjunction(parts[:first]))
    return _filtered(below, parts[first:], len(node.fields))


def _outer_join(node: Join) -> Relation:
    """Here right columns are numbered from _FAR while the sides grow; `_sides_swapped` turns to the right side's own view."""
    width = len(node.left.fields)
    left, right = _Hoisting(node.left), _Hoisting(node.right)
    parts = []
    for part in conjuncts(node.condition):
        apart = _mapped(part, lambda index: index if index < width else _FAR + index - width)
        about = {index >= _FAR for index in _subject(apart, node)}
        if len(about) > 1:
            raise _unsupported(node)
        if about == {True}:
            apart = _mapped(right.rewrite(_mapped(apart, _sides_swapped)), _sides_swapped)
        parts.append(left.rewrite(apart))
    grown = len(left.relation.fields)
    condition = conjunction(_mapped(part, lambda i: i if i < _FAR else i - _FAR + grown) for part in parts)
    joined = replace(node, left=left.relation, right=right.relation, condition=condition)
    return project_columns(joined, [*range(width), *range(grown, grown + len(node.right.fields))])


def _subject(part: Expression, node: Join) -> set[int]:
    """The columns that the subqueries of a part are about."""
    found: set[int] = set()
    for item in walk(part):
        if isinstance(item, SUBQUERIES):
            if is_correlated(item.relation):
                raise _unsupported(node)
            found.update(index for child in item.children for index in columns_of(child))
    return found


def _mapped(expression: Expression, place: Callable[[int], int]) -> Expression:
    return renumber(expression, {index: place(index) for index in columns_of(expression)})


def _sides_swapped(index: int) -> int:
    return index - _FAR if index >= _FAR else index + _FAR


_FAR = 1 << 30

_RULES: dict[type[Relation], Callable[[Any], Relation]] = {
    Filter: _filter,
    Project: _project,
    Aggregate: _aggregate,
    Sort: _sort,
    Unnest: _unnest,
    Join: _join,
    Window: _window,
}
