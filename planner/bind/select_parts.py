"""What the clauses of one SELECT have in common while they are bound: the calls that are gathered
aside, and what stands in their place until the SELECT is put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Aggregate, Expression
from runnel.relation.subqueries import OuterValue


@frozen(kw_only=True)
class AggregateValue(Expression):
    """The value of the aggregate at `index` of those collected."""

    index: int


@frozen(kw_only=True)
class WindowValue(Expression):
    """The value of the call with OVER at `index` of those collected."""

    index: int


@frozen(kw_only=True)
class GroupingValue(Expression):
    """GROUPING(…): which of the arguments the grouping set of a row doesn't have."""

    arguments: tuple[Expression, ...]


@frozen(kw_only=True)
class OuterCollected(OuterValue):
    """In a subquery, an aggregate or a GROUPING that belongs to a query around: what stands for it
    there."""

    value: AggregateValue | GroupingValue


@dataclass(slots=True)
class Aggregates:
    """The different aggregates of one SELECT, in order of appearance, and its calls of GROUPING."""

    calls: list[Aggregate] = field(default_factory=list)
    groupings: list[GroupingValue] = field(default_factory=list)
    _numbers: dict[Aggregate, int] = field(default_factory=dict)

    def add(self, call: Aggregate) -> AggregateValue:
        number = self._numbers.setdefault(call, len(self.calls))
        if number == len(self.calls):
            self.calls.append(call)
        return AggregateValue(index=number, type=call.type, position=call.position)


@frozen
class Collector:
    """Where the aggregates go that stand in a subquery of a clause and belong to the query of the
    clause; None where the clause may have none."""

    clause: str
    aggregates: Aggregates | None
