"""Taking a correlated subquery apart: what it says of the outer query's columns becomes the condition of a join.

The outer columns may stand in conjuncts of Filters below Projects, joins, DISTINCT and ORDER BY. Such a conjunct is pulled
up to the top of the subquery; the columns it reads are passed up with it, behind the subquery's own. Anything else that is
correlated is refused: a GROUP BY, LIMIT or UNION in between would see other rows for every outer row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, columns_of, conjuncts, transform, walk
from runnel.planner.rules.rewriting import column, conjunction, renumber, shift
from runnel.relation import Aggregate, Filter, Join, JoinKind, Project, Relation, Sort, expressions_of, references
from runnel.relation import walk as relations_of
from runnel.subqueries import OuterColumn


def correlated_parts(expression: Expression) -> Iterator[OuterColumn]:
    """The references to the outer query in an expression."""
    return (node for node in walk(expression) if isinstance(node, OuterColumn))


def is_correlated(relation: Relation) -> bool:
    """Whether anything in a relation refers to the outer query."""
    return any(True for node in relations_of(relation) for item in expressions_of(node) for _ in correlated_parts(item))


def decorrelated(relation: Relation, outer_width: int, what: str) -> tuple[Relation, Expression | None]:
    """The subquery without its correlation, and the condition that pairs its rows with the outer ones.

    The condition is over the outer query's `outer_width` columns followed by those of the new relation, which has
    perhaps more columns than the old one, at the end. `what` names the construct in errors.
    """
    freed, parts = _pull(relation, what)

    def joined(part: Expression) -> Expression:
        return transform(shift(part, outer_width), _outer_to_column)

    return freed, conjunction(joined(part) for part in parts)


def _outer_to_column(node: Expression) -> Expression:
    if isinstance(node, OuterColumn):
        return Column(index=node.index, name=node.name, type=node.type, position=node.position)
    return node


_Pulled = tuple[Relation, list[Expression]]


def _pull(node: Relation, what: str) -> _Pulled:
    """The node without correlation, and its correlated conjuncts over the node's new columns."""
    if not is_correlated(node):
        return node, []
    rule = _RULES.get(type(node))
    if rule is None:
        raise _refused(node, what)
    pulled: _Pulled = rule(node, what)
    return pulled


def _refused(node: Relation, what: str) -> NotSupportedError:
    below = [item for r in relations_of(node) for e in expressions_of(r) for item in correlated_parts(e)]
    return NotSupportedError(
        f'the reference to the outer column "{below[0].name}" is not supported in this place',
        detail=f"a correlated {what} may refer to it in WHERE only, with no GROUP BY, LIMIT or UNION around",
        hint="join with a derived table instead",
        position=below[0].position or node.position,
    )


def _no_correlation(expressions: Sequence[Expression], node: Relation, what: str) -> None:
    if any(True for item in expressions for _ in correlated_parts(item)):
        raise _refused(node, what)


def _filter(node: Filter, what: str) -> _Pulled:
    below, parts = _pull(node.input, what)
    staying = []
    for part in conjuncts(node.condition):
        if any(True for _ in correlated_parts(part)):
            parts.append(part)
        else:
            staying.append(part)
    condition = conjunction(staying)
    return (below if condition is None else replace(node, input=below, condition=condition)), parts


def _project(node: Project, what: str) -> _Pulled:
    _no_correlation(node.expressions, node, what)
    below, parts = _pull(node.input, what)
    expressions, names = list(node.expressions), list(node.names)
    places: dict[int, int] = {}
    for index in sorted(set().union(*map(columns_of, parts))):
        passed = column(below.fields, index)
        places[index] = len(expressions)
        expressions.append(passed)
        names.append(passed.name)
    project = replace(node, input=below, expressions=tuple(expressions), names=tuple(names))
    return project, [renumber(part, places) for part in parts]


def _distinct(node: Aggregate, what: str) -> _Pulled:
    """DISTINCT over more columns has more rows, but as many different ones for one outer row."""
    if node.aggregates:
        raise _refused(node, what)
    _no_correlation(node.keys, node, what)
    below, parts = _pull(node.input, what)
    keys, names = list(node.keys), list(node.names)
    places: dict[int, int] = {}
    for index in sorted(set().union(*map(columns_of, parts))):
        passed = column(below.fields, index)
        places[index] = len(keys)
        keys.append(passed)
        names.append(passed.name)
    distinct = replace(node, input=below, keys=tuple(keys), names=tuple(names))
    return distinct, [renumber(part, places) for part in parts]


def _sort(node: Sort, what: str) -> _Pulled:
    _no_correlation([key.expression for key in node.keys], node, what)
    below, parts = _pull(node.input, what)
    return replace(node, input=below), parts


_BOTH_SIDES = (JoinKind.INNER, JoinKind.CROSS)
_LEFT_SIDE = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.NULL_ANTI)


def _join(node: Join, what: str) -> _Pulled:
    _no_correlation((*node.left_keys, *node.right_keys), node, what)
    staying = [part for part in conjuncts(node.condition) if not any(True for _ in correlated_parts(part))]
    moving = [part for part in conjuncts(node.condition) if any(True for _ in correlated_parts(part))]
    if node.kind in _LEFT_SIDE:
        _no_correlation(moving, node, what)
        if is_correlated(node.right):
            raise _refused(node.right, what)
        left, parts = _pull(node.left, what)
        old, by = len(node.left.fields), len(left.fields) - len(node.left.fields)
        condition = conjunction(_widened(part, old, by) for part in staying)
        return replace(node, left=left, condition=condition), parts
    if node.kind not in _BOTH_SIDES:
        raise _refused(node, what)
    return _pull_both(node, staying, moving, what)


def _pull_both(node: Join, staying: list[Expression], moving: list[Expression], what: str) -> _Pulled:
    left, left_parts = _pull(node.left, what)
    right, right_parts = _pull(node.right, what)
    old, by = len(node.left.fields), len(left.fields) - len(node.left.fields)
    joined = replace(node, left=left, right=right, condition=conjunction(_widened(part, old, by) for part in staying))
    parts = left_parts + [shift(part, len(left.fields)) for part in right_parts]
    parts += [_widened(part, old, by) for part in moving]
    if by == 0:
        return joined, parts
    width = len(node.fields)
    order = [*range(old), *range(old + by, width + by), *range(old, old + by), *range(width + by, len(joined.fields))]
    columns = references(joined.fields)
    project = Project(
        input=joined,
        expressions=tuple(columns[i] for i in order),
        names=tuple(columns[i].name for i in order),
        position=node.position,
    )
    places = {index: place for place, index in enumerate(order)}
    return project, [renumber(part, places) for part in parts]


def _widened(part: Expression, old: int, by: int) -> Expression:
    """A condition of a join whose left side had `old` columns and now has `by` more at its end."""
    return renumber(part, {i: i if i < old else i + by for i in columns_of(part)})


_RULES: dict[type[Relation], Callable[[Any, str], _Pulled]] = {
    Filter: _filter,
    Project: _project,
    Aggregate: _distinct,
    Sort: _sort,
    Join: _join,
}
