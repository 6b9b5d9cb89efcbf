"""A relation that is certainly empty becomes an empty VALUES, and so do relations that depend on
it.

Only where it is certain whatever the data: a false condition, LIMIT 0, an inner join with an empty
side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from runnel.expressions.nodes import Literal
from runnel.relation.nodes import (
    Aggregate,
    Expand,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Single,
    Sort,
    Union,
    Unnest,
    Values,
    references,
    transform,
)
from runnel.relation.over import Window
from runnel.relation.streams import AssignWindows, ImposeOrder
from runnel.relation.subqueries import GroupLimit, Recursion, Series, UnnestTogether

_EMPTY_WITH_RIGHT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI, JoinKind.RIGHT)
_LEFT_WITHOUT_RIGHT = (JoinKind.ANTI, JoinKind.NULL_ANTI)


def prune_empty(relation: Relation) -> Relation:
    """The relation without subtrees that never return a row."""
    return transform(relation, _prune)


def is_empty(relation: Relation) -> bool:
    return isinstance(relation, Values) and not relation.rows


def _empty(node: Relation) -> Relation:
    return Values(rows=(), columns=node.fields, position=node.position)


def _prune(node: Relation) -> Relation:
    rule = _RULES.get(type(node))
    return node if rule is None else rule(node)


def _filter(node: Filter) -> Relation:
    is_false = isinstance(node.condition, Literal) and node.condition.value is not True
    return _empty(node) if is_false or is_empty(node.input) else node


def _passing(node: Single) -> Relation:
    return _empty(node) if is_empty(node.input) else node


def _limit(node: Limit) -> Relation:
    is_zero = isinstance(node.count, Literal) and node.count.value == 0
    return _empty(node) if is_zero or is_empty(node.input) else node


def _aggregate(node: Aggregate) -> Relation:
    return _empty(node) if node.keys and is_empty(node.input) else node


def _join(node: Join) -> Relation:
    if is_empty(node.left) and node.kind not in (JoinKind.RIGHT, JoinKind.FULL):
        return _empty(node)
    impossible = is_empty(node.right) or (
        isinstance(node.condition, Literal) and node.condition.value is not True
    )
    if not impossible:
        return node
    if node.kind in _LEFT_WITHOUT_RIGHT:
        return node.left
    if node.kind in _EMPTY_WITH_RIGHT and (node.kind is not JoinKind.RIGHT or is_empty(node.right)):
        return _empty(node)
    return node


def _recursion(node: Recursion) -> Relation:
    if is_empty(node.anchor):
        return _empty(node)
    if not is_empty(node.step):
        return node
    names = tuple(item.name for item in node.fields)
    columns = references(node.fields)
    return (
        Aggregate(input=node.anchor, keys=columns, aggregates=(), names=names)
        if node.distinct
        else node.anchor
    )


def _union(node: Union) -> Relation:
    branches = tuple(item for item in node.parts if not is_empty(item))
    if not branches:
        return _empty(node)
    if len(branches) == len(node.parts):
        return node
    fields = node.fields
    if len(branches) > 1 and branches[0].fields == fields:
        return replace(node, parts=branches)
    rest = branches[0] if len(branches) == 1 else replace(node, parts=branches)
    if rest.fields == fields:
        return rest
    return Project(
        input=rest, expressions=references(rest.fields), names=tuple(item.name for item in fields)
    )


_RULES: dict[type[Relation], Callable[[Any], Relation]] = {
    Filter: _filter,
    Project: _passing,
    Sort: _passing,
    Unnest: _passing,
    Expand: _passing,
    Window: _passing,
    AssignWindows: _passing,
    ImposeOrder: _passing,
    Recursion: _recursion,
    Series: _passing,
    UnnestTogether: _passing,
    GroupLimit: _passing,
    Limit: _limit,
    Aggregate: _aggregate,
    Join: _join,
    Union: _union,
}
