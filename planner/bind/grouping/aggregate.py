"""Binding of aggregate calls and of GROUPING: the base class of the scalar binder, which collects
these calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import GroupingError, Position, ProgrammingError
from runnel.expressions.nodes import AggregateCall, Expression, LambdaVariable, walk
from runnel.planner.bind.ordering import sort_key
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.select_parts import (
    Aggregates,
    AggregateValue,
    Collector,
    GroupingValue,
    OuterSelectContext,
)
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.sqltypes import BIGINT

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder
    from runnel.planner.bind.grouping.aggregate_level import Level

MOST_GROUPING_ARGUMENTS = 31


class AggregateBinder(ABC):
    """Binds aggregates over one scope, and collects them in `aggregates`; None: the clause may have
    no aggregates. `clause` is the name of the clause in errors."""

    def __init__(
        self, query: QueryBinder, scope: Scope, clause: str, aggregates: Aggregates | None = None
    ) -> None:
        self._query = query
        self._scope = scope
        self._clause = clause
        self._aggregates = aggregates

    @abstractmethod
    def bind(self, tree: Any) -> Expression:
        """Binds a tree to a typed expression."""

    @abstractmethod
    def condition(self, tree: Any) -> Expression:
        """Binds an expression that must be BOOLEAN, as in WHERE."""

    @abstractmethod
    def _plain(self, clause: str, aggregates: Aggregates | None) -> AggregateBinder:
        """A binder over the same scope for a clause without OVER."""

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._query.sql)

    def _filter(self, tree: Any) -> Expression:
        inner = tree.this
        if call_of(inner)[0].startswith("JSON_"):
            from runnel.planner.bind.scalars.json import aggregate

            return aggregate(self.bind, inner, call_of(inner)[0], self._at(tree), tree.expression)
        if not self.is_aggregate(call_of(inner)[0]):
            raise ProgrammingError("FILTER needs an aggregate function", position=self._at(tree))
        return self._aggregate(inner, tree.expression.this)

    @property
    def _around(self) -> Scope:
        """The outer scope of a subquery in this clause."""
        return replace(self._scope, collector=Collector(self._clause, self._aggregates))

    def _aggregate(self, tree: Any, predicate: Any) -> Expression:
        if self._aggregates is None and self._scope.outer is None:
            raise self._misplaced(tree, self._clause)
        from runnel.planner.bind.grouping.aggregate_level import level_of

        call = self._plain("an aggregate function", None).aggregate_of(tree, predicate)
        if self._scope.variables:
            self._refuse_variables(call)
        level = level_of(call.expressions)
        return self._placed(
            level, self._aggregates_of(level, tree).add(call.map_expressions(level.lifted))
        )

    def _refuse_variables(self, call: AggregateCall) -> None:
        """Raises ProgrammingError if an aggregate in a lambda function refers to a parameter."""
        for node in (node for item in call.expressions for node in walk(item)):
            if isinstance(node, LambdaVariable) and node in self._scope.variables:
                raise ProgrammingError(
                    f'an aggregate function can\'t refer to "{node.name}", a parameter of a lambda '
                    "function",
                    hint="for the elements of an ARRAY use LIST_REDUCE or LIST_SUM",
                    position=node.position,
                )

    def _aggregates_of(self, level: Level, tree: Any) -> Aggregates:
        """The aggregates of the query at this level: of an enclosing query or of this one.
        ProgrammingError if the clause of that query may have no aggregates."""
        if not level.depth:
            if self._aggregates is None:
                raise self._misplaced(tree, self._clause)
            return self._aggregates
        scope: Scope | None = self._scope
        for _ in range(level.depth):
            assert scope is not None
            scope = scope.outer
        collector = None if scope is None else scope.collector
        if collector is None or collector.aggregates is None:
            raise self._misplaced(
                tree, "FROM" if collector is None else collector.clause, is_outer=True
            )
        return collector.aggregates

    def _misplaced(self, tree: Any, clause: str, is_outer: bool = False) -> ProgrammingError:
        hints = {
            "WHERE": "filter groups with HAVING",
            "FROM": "aggregate in a derived table that reads the table itself",
        }
        name = call_of(tree)[0].upper()
        is_grouping = name in ("GROUPING", "GROUPING_ID")
        return GroupingError(
            f"{'' if is_grouping else 'aggregate function '}{name} is not allowed in {clause}",
            detail=("all its columns belong to the outer query, so the aggregate does too")
            if is_outer
            else None,
            hint=None if is_grouping else hints.get(clause),
            position=self._at(tree),
        )

    def _placed(self, level: Level, value: AggregateValue | GroupingValue) -> Expression:
        if not level.depth:
            return value
        return OuterSelectContext(
            value=value, depth=level.depth, type=value.type, position=value.position
        )

    def aggregate_of(self, tree: Any, predicate: Any) -> AggregateCall:
        """Binds the call of an aggregate function, with its arguments and its FILTER."""
        # Loaded on first use, as in `is_aggregate`: most look-ups and writes have no aggregate.
        from runnel.expressions.aggregates.registry import aggregate_call
        from runnel.planner.bind.grouping.aggregate_order import ordered_call

        position = self._at(tree)
        name, trees = call_of(tree)
        arguments, ordered, within_group = ordered_call(tree, trees, position)
        distinct = len(arguments) >= 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = arguments[0].expressions
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            if name.upper() != "COUNT" or distinct:
                raise ProgrammingError(
                    f"{name.upper()}(*) is not supported", hint="name a column", position=position
                )
            name, bound = "count_star", []
        else:
            bound = [self.bind(argument) for argument in arguments]
        where = None
        if predicate is not None:
            where = self._plain("FILTER", self._aggregates).condition(predicate)
        order = [sort_key(self.bind(item.this), item, self._query.environment) for item in ordered]
        own = self._query.python_function(name)
        if own is not None:
            from runnel.expressions.aggregates.function import AggregateSyntax
            from runnel.expressions.python.aggregate import python_aggregate

            return python_aggregate(
                own,
                AggregateSyntax(name, tuple(bound), tuple(order), within_group, position),
                distinct,
                where,
            )
        return aggregate_call(
            name, bound, distinct, where, position, order=order, within_group=within_group
        )

    def is_aggregate(self, name: str) -> bool:
        """Whether `name`, in any case, is an aggregate function, built-in or defined by the
        user."""
        if is_aggregate(name):
            return True
        own = self._query.python_function(name)
        return own is not None and own.is_aggregate

    def _within_group(self, tree: Any) -> Expression:
        name = call_of(tree)[0]
        if not self.is_aggregate(name):
            written = tree.this.name
            raise ProgrammingError(
                f"WITHIN GROUP needs an aggregate function, which {written} isn't",
                position=self._at(tree),
            )
        return self._aggregate(tree, None)

    def _grouping(self, tree: Any) -> Expression:
        arguments, position = call_of(tree)[1], self._at(tree)
        if self._aggregates is None and self._scope.outer is None:
            raise self._misplaced(tree, self._clause)
        if not 1 <= len(arguments) <= MOST_GROUPING_ARGUMENTS:
            raise ProgrammingError(
                f"GROUPING accepts 1 to {MOST_GROUPING_ARGUMENTS} arguments, not {len(arguments)}",
                position=position,
            )
        inner = self._plain("GROUPING", None)
        from runnel.planner.bind.grouping.aggregate_level import level_of

        bound = [inner.bind(argument) for argument in arguments]
        level = level_of(bound)
        value = GroupingValue(
            arguments=tuple(map(level.lifted, bound)), type=BIGINT, position=position
        )
        self._aggregates_of(level, tree).groupings.append(value)
        return self._placed(level, value)


def is_aggregate(name: str) -> bool:
    """Whether `name`, in any case, is a built-in aggregate function."""
    from runnel.expressions.aggregates.registry import is_aggregate as is_known

    return is_known(name)


def call_of(tree: Any) -> tuple[str, list[Any]]:
    call = function_call(tree.this if isinstance(tree, exp.WithinGroup) else tree)
    return ("", []) if call is None else call
