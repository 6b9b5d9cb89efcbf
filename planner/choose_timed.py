"""How aggregations over inputs without end are run."""

from __future__ import annotations

from collections.abc import Callable

from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Column, Expression, columns_of
from runnel.planner import physical
from runnel.planner.estimates import estimate
from runnel.planner.event_time import bound_of, time_bounds
from runnel.planner.physical import Physical
from runnel.planner.rules.rewriting import substitute
from runnel.planner.streaming import never_ends
from runnel.relation import Aggregate, Filter, Project, Relation, references
from runnel.streams import AssignWindows, WindowKind

Choose = Callable[[Relation], Physical]


def choose_timed_aggregate(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by keys that watermarks bound; None where the input ends, or no key has a bound."""
    framed = _framed(node, choose)
    if framed is not None:
        return framed
    if not never_ends(node.input):
        return None
    below = time_bounds(node.input)
    found = ((number, bound_of(key, below)) for number, key in enumerate(node.keys))
    bounds = tuple((number, bound) for number, bound in found if bound is not None)
    if not bounds:
        return None
    return physical.TimedAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=choose(node.input),
        keys=node.keys,
        aggregates=node.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates),
        bounds=bounds,
    )


def _framed(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by the windows of a HOP or CUMULATE that stand right below, where it is by nothing of them but their
    bounds, and only by these bounded."""
    below, conditions, columns = _down_to_windows(node.input)
    if not isinstance(below, AssignWindows) or below.shape.kind not in (WindowKind.HOP, WindowKind.CUMULATE):
        return None
    moved = Aggregate(
        input=below,
        keys=tuple(substitute(key, columns) for key in node.keys),
        aggregates=tuple(call.map_expressions(lambda item: substitute(item, columns)) for call in node.aggregates),
        names=node.names,
    )
    source = below.input
    width = len(source.fields)
    keys: list[Expression] = []
    places: list[int] = []
    for key in moved.keys:
        if isinstance(key, Column) and key.index >= width:
            places.append(key.index - len(below.fields))
        else:
            places.append(len(keys))
            keys.append(key)
    rest = (*keys, *conditions, *moved.own_expressions[len(moved.keys) :])
    bounds = time_bounds(source)
    bound = bounds.get(below.time.index)
    if all(place >= 0 for place in places) or any(columns_of(item) & {width, width + 1, width + 2} for item in rest):
        return None
    if any(bound_of(key, bounds) is not None for key in keys) or (bound is None and never_ends(source)):
        return None
    for condition in conditions:
        source = Filter(input=source, condition=condition)
    return physical.FramedAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=choose(source),
        shape=below.shape,
        time=below.time,
        keys=tuple(keys),
        columns=tuple(places),
        aggregates=moved.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates),
        bound=bound,
    )


def _down_to_windows(node: Relation) -> tuple[Relation, list[Expression], tuple[Expression, ...]]:
    """What is below the projections and filters of a relation, the conditions, and the columns of the relation over it."""
    columns: tuple[Expression, ...] = references(node.fields)
    conditions: list[Expression] = []
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            conditions.append(node.condition)
        elif any(is_volatile(item) for item in node.expressions):
            break
        else:
            columns = tuple(substitute(item, node.expressions) for item in columns)
            conditions = [substitute(item, node.expressions) for item in conditions]
        node = node.input
    return node, conditions, columns
