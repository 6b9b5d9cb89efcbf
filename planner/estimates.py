"""Estimates of how many rows a relation returns: good enough to choose the build side of a join.

The selectivities are taken from Hazelcast's cost model where it has them: a condition about which
nothing is known retains a quarter of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.deadline import check_time
from runnel.expressions.nodes import Call, Column, Expression, InList, Literal, conjuncts
from runnel.planner.operators.passes import ESTIMATES
from runnel.relation.nodes import (
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    Single,
)

UNKNOWN_SELECTIVITY = 0.25
EQUALITY_SELECTIVITY = 0.1


Of = Callable[[Relation], int | None]
"""Returns the estimate of an input."""


def estimate(relation: Relation, of: Of | None = None) -> int | None:
    """Estimates the number of rows; None if it is unknown or without bound.

    of: returns the estimates of the inputs, for a caller that has them already.
    """
    of = of or estimate
    rule = ESTIMATES.find(relation)
    if rule is not None:
        return rule(relation, of)
    return of(relation.input) if isinstance(relation, Single) else None


class Estimates:
    """Estimates of the nodes of one relation, each computed once however many nodes above it need
    it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Relation, int | None]] = {}

    def of(self, relation: Relation) -> int | None:
        """As `estimate`, cached."""
        known = self._known.get(id(relation))
        if known is None:
            check_time()
            # The entry refers to the node, so that its id is not reused for another node.
            known = self._known[id(relation)] = relation, estimate(relation, self.of)
        return known[1]


def selectivity(condition: Expression | None) -> float:
    """The fraction of rows for which a condition is true."""
    fraction = 1.0
    for part in conjuncts(condition):
        is_equality = (isinstance(part, Call) and part.function == "eq") or isinstance(part, InList)
        fraction *= EQUALITY_SELECTIVITY if is_equality else UNKNOWN_SELECTIVITY
    return fraction


def literal_count(expression: Expression | None) -> int | None:
    """The value of a literal number; None for a parameter or nothing."""
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        return expression.value
    return None


def filtered_rows(rows: int | None, condition: Expression | None) -> int | None:
    if rows is None:
        return None
    return max(1, round(rows * selectivity(condition))) if rows else 0


def domain_size(relation: Relation, column: int | None) -> int | None:
    """Estimates the number of distinct values of a column (of rows if `column` is None) without
    regard to filters: the number of rows of the table that the column comes from."""
    while True:
        if isinstance(relation, Scan):
            return relation.table.row_count()
        if isinstance(relation, Project):
            expression = None if column is None else relation.expressions[column]
            column = expression.index if isinstance(expression, Column) else None
        elif isinstance(relation, Join) and relation.kind not in (JoinKind.RIGHT, JoinKind.FULL):
            width = len(relation.left.fields)
            if column is None or column >= width:
                return estimate(relation)
            relation = relation.left
            continue
        elif not isinstance(relation, Filter | Limit):
            return estimate(relation)
        relation = relation.input
