"""INTERSECT and EXCEPT of a live query: how often a row occurs on each side decides."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions import build
from runnel.expressions.nodes import AggregateCall, Expression, Literal
from runnel.planner.live.maintained import Maintain, Maintained, with_weights
from runnel.relation.live import WEIGHT
from runnel.relation.nodes import Aggregate, Filter, Pair, Project, Union, references
from runnel.sqltypes import BIGINT


def maintained_set_operation(
    node: Pair, operation: str, maintain: Maintain, *, is_all: bool
) -> Maintained:
    """The operation as a filter over the number of times that each row occurs on each side. With
    ALL the weight of a row is multiplied by the number of times that it is in the result.

    operation: "intersect" or "except".
    """
    if not node.is_unbounded:
        return Maintained(node)
    names = tuple(field.name for field in node.fields)
    sides = tuple(
        Project(
            input=side,
            expressions=(*references(side.fields), *_marks(i)),
            names=(*names, "$left", "$right"),
        )
        for i, side in enumerate(node.inputs)
    )
    rows = Union(parts=sides, position=node.position)
    columns = references(rows.fields)
    width = len(names)
    counts = Aggregate(
        input=rows,
        keys=columns[:width],
        aggregates=tuple(
            AggregateCall(function="count", arguments=(mark,), type=BIGINT)
            for mark in columns[width:]
        ),
        names=(*names, "$lefts", "$rights"),
        position=node.position,
    )
    left, right = references(counts.fields)[width:]
    times = _times(operation, left, right, is_all=is_all)
    chosen = Filter(input=counts, condition=build.call("gt", [times, _number(0)]))
    below = maintain(chosen)
    unique = tuple(range(width))
    if not is_all:
        requested: Sequence[Expression] = references(below.relation.fields)
        requested = [*requested[:width], *([below.weight] if below.is_changing else [])]
        relation = Project(
            input=below.relation,
            expressions=tuple(requested),
            names=(*names, WEIGHT)[: len(requested)],
        )
        return Maintained(relation, below.is_changing, unique)
    weighted = with_weights(below)
    fields = references(weighted.fields)
    weight = build.call("multiply", [fields[-1], times])
    relation = Project(
        input=weighted, expressions=(*fields[:width], weight), names=(*names, WEIGHT)
    )
    return Maintained(relation, is_changing=True)


def _marks(side: int) -> list[Expression]:
    """1 in the column of the side, NULL in the column of its sibling."""
    return [Literal(value=1 if i == side else None, type=BIGINT) for i in range(2)]


def _times(operation: str, left: Expression, right: Expression, *, is_all: bool) -> Expression:
    """How often a row is in the result, by how often it is on each side."""
    if operation == "intersect":
        least = build.call("least", [left, right])
        return least if is_all else build.call("least", [least, _number(1)])
    if is_all:
        return build.call("subtract", [left, right])
    only_left = [build.call("eq", [right, _number(0)])]
    return build.case(only_left, [left], _number(0))


def _number(value: int) -> Expression:
    return Literal(value=value, type=BIGINT)
