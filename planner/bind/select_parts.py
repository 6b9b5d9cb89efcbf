"""Placeholders and collections for one SELECT. Aggregates, windows and GROUPING are collected
separately while the clauses are bound; a placeholder represents each call until the SELECT is
assembled."""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.base.frozen import frozen
from runnel.expressions.nodes import AggregateCall, Expression
from runnel.relation.subqueries import OuterValue


@frozen
class Item:
    """One bound column of the select list.

    expression: the value of the column.
    name: the name of the result's column.
    alias: the name after AS, as written; None if there is none.
    """

    expression: Expression
    name: str
    alias: str | None


@frozen(kw_only=True)
class AggregateValue(Expression):
    """The value of the collected aggregate at `index`."""

    index: int


@frozen(kw_only=True)
class WindowValue(Expression):
    """The value of the collected call with OVER at `index`."""

    index: int


@frozen(kw_only=True)
class GroupingValue(Expression):
    """GROUPING(…): a bit mask of the arguments that are not in the row's grouping set."""

    arguments: tuple[Expression, ...]


@frozen(kw_only=True)
class OuterSelectContext(OuterValue):
    """In a subquery, an aggregate or a GROUPING that belongs to an enclosing query.

    value: the placeholder of the call in the enclosing query.
    """

    value: AggregateValue | GroupingValue


@dataclass(slots=True)
class Aggregates:
    """The aggregates of one SELECT, and its calls of GROUPING.

    calls: the distinct aggregates, in the order of appearance.
    groupings: the calls of GROUPING, in the order of appearance.
    _numbers: the index of each aggregate in `calls`.
    """

    calls: list[AggregateCall] = field(default_factory=list)
    groupings: list[GroupingValue] = field(default_factory=list)
    _numbers: dict[AggregateCall, int] = field(default_factory=dict)

    def add(self, call: AggregateCall) -> AggregateValue:
        number = self._numbers.setdefault(call, len(self.calls))
        if number == len(self.calls):
            self.calls.append(call)
        return AggregateValue(index=number, type=call.type, position=call.position)


@frozen
class Collector:
    """Collects the aggregates that are written in a subquery of a clause but belong to the query of
    the clause.

    clause: the name of the clause, for messages.
    aggregates: the collection; None if the clause may have no aggregates.
    """

    clause: str
    aggregates: Aggregates | None
