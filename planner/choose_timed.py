"""How aggregations over inputs without end are run."""

from __future__ import annotations

from collections.abc import Callable

from runnel.planner import physical
from runnel.planner.estimates import estimate
from runnel.planner.event_time import bound_of, time_bounds
from runnel.planner.physical import Physical
from runnel.planner.streaming import never_ends
from runnel.relation import Aggregate, Relation

Choose = Callable[[Relation], Physical]


def choose_timed_aggregate(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by keys that watermarks bound; None where the input ends, or no key has a bound."""
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
