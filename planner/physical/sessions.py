"""The operator for SESSION if its rows are needed one by one, not only grouped."""

from __future__ import annotations

from collections.abc import Callable

from runnel.expressions.nodes import Column, Expression
from runnel.planner.estimates import estimate
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.streams import AssignWindows


def choose_session_rows(node: AssignWindows, choose: Callable[[Relation], Physical]) -> Physical:
    """Keys that are not columns are added as columns after the input's, because an edge partitions
    rows by columns only."""
    below, width = node.input, len(node.input.fields)
    computed = [key for key in node.partition if not isinstance(key, Column)]
    names = tuple(f"$partition{number}" for number in range(len(computed)))
    keys = tuple(_key(key, computed, names, width) for key in node.partition)
    if computed:
        below = Project(
            input=below,
            expressions=(*references(below.fields), *computed),
            names=(*(item.name for item in below.fields), *names),
        )
    return physical_streams.SessionRows(
        fields=node.fields,
        rows=estimate(node),
        input=choose(below),
        gap=node.shape.size,
        time=node.time,
        keys=keys,
        bound=time_bounds(node.input).get(node.time.index),
    )


def _key(key: Expression, computed: list[Expression], names: tuple[str, ...], width: int) -> Column:
    if isinstance(key, Column):
        return key
    number = computed.index(key)
    return Column(index=width + number, name=names[number], type=key.type)
