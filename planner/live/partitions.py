"""Operators of a live query that are computed partition by partition."""

from __future__ import annotations

from collections.abc import Callable

from runnel.expressions.nodes import Expression
from runnel.planner.live.maintained import Maintained, check_repeatable
from runnel.planner.rewriting import shift
from runnel.relation.live import WEIGHT, LivePartitions
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.subqueries import rows_at_run_time


def live_partitions(
    node: Relation,
    below: Maintained,
    keys: tuple[Expression, ...],
    operation: Callable[[Relation, Callable[[Expression], Expression]], Relation],
) -> Maintained:
    """The result of an operator, maintained by computing touched partitions again.

    keys: the expressions by which the operator divides its input into partitions.
    operation: `operation(rows, moved)`, the operator over all rows of some partitions; `moved`
        returns an expression of the operator over `rows`, which have the keys as first columns.
    """
    check_repeatable(node)
    count = len(keys)
    columns = references(below.relation.fields)
    plain = columns[:-1] if below.is_changing else columns
    names = [*(f"$key{i}" for i in range(count)), *(item.name for item in plain)]
    if below.is_changing:
        names.append(WEIGHT)
    rows = Project(input=below.relation, expressions=(*keys, *columns), names=tuple(names))
    table = rows_at_run_time("$partition", rows.fields[: count + len(plain)])
    first = references(table.fields)[:count]

    def moved(item: Expression) -> Expression:
        return first[keys.index(item)] if item in keys else shift(item, count)

    relation = LivePartitions(
        input=rows,
        keys=count,
        operation=operation(table, moved),
        is_changing=below.is_changing,
        position=node.position,
    )
    result = Project(
        input=relation,
        expressions=references(relation.fields)[count:],
        names=tuple(field.name for field in relation.fields[count:]),
    )
    return Maintained(result, is_changing=True)
