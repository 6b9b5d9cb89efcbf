"""The aggregation of a live query."""

from __future__ import annotations

from runnel.expressions.nodes import Column, Expression, columns_of
from runnel.planner.live.maintained import Maintained, check_repeatable
from runnel.planner.rewriting import renumber
from runnel.relation.live import WEIGHT, LiveAggregate
from runnel.relation.nodes import Aggregate, Project, references


def live_aggregate(node: Aggregate, below: Maintained) -> Maintained:
    """The groups of an aggregation, maintained.

    Its input has the keys first, then the columns that the aggregates read, then the weight if rows
    change: rows are exchanged by the keys, and stored as they are.
    """
    check_repeatable(node)
    columns = references(below.relation.fields)
    read = sorted({i for call in node.aggregates for e in call.expressions for i in columns_of(e)})
    count = len(node.keys)
    expressions: list[Expression] = [*node.keys, *(columns[i] for i in read)]
    names = [*node.names[:count], *(columns[i].name for i in read)]
    if below.is_changing:
        expressions.append(below.weight)
        names.append(WEIGHT)
    rows = Project(input=below.relation, expressions=tuple(expressions), names=tuple(names))
    positions = {index: count + place for place, index in enumerate(read)}
    keys: tuple[Column, ...] = references(rows.fields)[:count]
    aggregates = tuple(
        call.map_expressions(lambda item: renumber(item, positions)) for call in node.aggregates
    )
    relation = LiveAggregate(
        input=rows,
        keys=keys,
        aggregates=aggregates,
        names=node.names,
        is_changing=below.is_changing,
        position=node.position,
    )
    return Maintained(relation, is_changing=True, unique=tuple(range(count)))
