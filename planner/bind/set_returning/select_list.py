"""Binding of UNNEST and GENERATE_SERIES in a select list: each row is repeated for every element.

A *set* is one call of such a function. Several sets advance together: a row is repeated as often as
the longest set has elements, and shorter sets are padded with NULL. Sets are expanded after WHERE,
grouping and the windows, and before DISTINCT and ORDER BY. A set that GROUP BY names is expanded
before the grouping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Change, Column, Expression, transform, walk
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.select_parts import AggregateValue, WindowValue
from runnel.planner.bind.set_returning.series import generator
from runnel.planner.parse.query.allow_list import function_call
from runnel.relation.nodes import Relation
from runnel.relation.unnest import Series, Unnest
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder
    from runnel.planner.bind.grouping.over import WindowCalls
    from runnel.planner.bind.scope import Scope
    from runnel.planner.bind.select_parts import Aggregates


@frozen(kw_only=True)
class SetValue(Expression):
    """An element of the collected set at `index`."""

    index: int


@frozen(kw_only=True)
class SetCall:
    """A call of a set-returning function.

    index: the number of the call among the calls of the SELECT, from 0.
    arguments: the array of UNNEST; start, stop and step if `is_series`.
    is_series: True for GENERATE_SERIES, False for UNNEST.
    type: the type of an element.
    position: of the call in the statement; None: unknown.
    """

    index: int = field(compare=False)
    arguments: tuple[Expression, ...]
    is_series: bool
    type: SqlType
    position: Position | None = field(default=None, compare=False, repr=False)

    def mapped(self, change: Change) -> SetCall:
        return replace(self, arguments=tuple(map(change, self.arguments)))


class SetBinder(ExpressionBinder):
    """Binds scalars that may contain calls of set-returning functions, and collects the calls in
    `calls`."""

    def __init__(
        self,
        query: QueryBinder,
        scope: Scope,
        clause: str,
        aggregates: Aggregates | None,
        windows: WindowCalls | None,
        calls: list[SetCall],
    ) -> None:
        super().__init__(query, scope, clause, aggregates, windows)
        self.calls = calls

    def bind(self, tree: Any) -> Expression:
        if isinstance(tree, exp.Explode):
            return self._unnest(tree)
        call = function_call(tree)
        if call is not None and call[0] == "GENERATE_SERIES":
            return self._series(tree, call[1])
        return super().bind(tree)

    def _inner(self, clause: str) -> ExpressionBinder:
        return ExpressionBinder(self._query, self._scope, clause, self._aggregates, self._windows)

    def _unnest(self, tree: Any) -> Expression:
        position = self._at(tree)
        if tree.expressions:
            raise ProgrammingError(
                "UNNEST of several arrays is only allowed in FROM",
                hint="write UNNEST(a), UNNEST(b), or FROM t, UNNEST(t.a, t.b) AS u (x, y)",
                position=position,
            )
        call = function_call(tree.this)
        if call is not None and call[0] == "GENERATE_SERIES":
            return self._series(tree.this, call[1])  # DuckDB's function of that name is an array
        array = self._inner("UNNEST").bind(tree.this)
        if array.type.kind is not Kind.ARRAY or array.type.element is None:
            raise ProgrammingError(
                f"UNNEST needs an ARRAY, not {array.type}",
                hint="the fields of a ROW are columns by a star: SELECT s.* FROM (SELECT … AS s)"
                if array.type.fields
                else None,
                position=array.position or position,
            )
        return self._add((array,), False, array.type.element, position)

    def _series(self, tree: Any, arguments: Sequence[Any]) -> Expression:
        position = self._at(tree)
        inner = self._inner("GENERATE_SERIES")
        series = generator(
            "generate_series", [inner.bind(item) for item in arguments], {}, False, position
        )
        return self._add(series.own_expressions, True, series.fields[-1].type, position)

    def _add(
        self,
        arguments: tuple[Expression, ...],
        is_series: bool,
        kind: SqlType,
        position: Position | None,
    ) -> Expression:
        call = SetCall(
            index=len(self.calls),
            arguments=arguments,
            is_series=is_series,
            type=kind,
            position=position,
        )
        if call not in self.calls:
            self.calls.append(call)
        return SetValue(index=self.calls.index(call), type=kind, position=position)


def sets_in(expressions: Iterable[Expression]) -> set[int]:
    """The numbers of the sets whose elements occur in the expressions."""
    return {node.index for item in expressions for node in walk(item) if isinstance(node, SetValue)}


def check_no_set(expression: Expression | None, clause: str) -> None:
    """Raises ProgrammingError for a set in a clause that only selects rows, such as WHERE."""
    for node in () if expression is None else walk(expression):
        if isinstance(node, SetValue):
            raise ProgrammingError(
                f"UNNEST and GENERATE_SERIES are not allowed in {clause}",
                hint="write them in FROM, or filter a subquery that has them",
                position=node.position,
            )


def sets_before_groups(
    relation: Relation, keys: list[Expression], sets: Sequence[SetCall]
) -> tuple[Relation, Change, tuple[SetCall, ...]]:
    """Expands the sets that GROUP BY names. Returns the expanded rows, the function that replaces
    the `SetValue`s of these sets by columns, and the other sets."""
    named = sets_in(keys)
    calls = [call for call in sets if call.index in named]
    if not calls:
        return relation, lambda expression: expression, tuple(sets)
    for call in calls:
        for argument in call.arguments:
            if any(isinstance(node, AggregateValue | WindowValue) for node in walk(argument)):
                raise ProgrammingError(
                    "GROUP BY can't group by an aggregate or a window function",
                    position=call.position,
                )
    relation, change = with_sets(relation, calls)
    return relation, change, tuple(call for call in sets if call.index not in named)


def with_sets(relation: Relation, calls: Sequence[SetCall]) -> tuple[Relation, Change]:
    """Expands sets. Returns the rows with the elements as last columns, and the function that
    replaces each `SetValue` by its column."""
    width = len(relation.fields)
    names = tuple(f"$set{call.index}" for call in calls)
    first = calls[0]
    if len(calls) == 1 and first.is_series:
        relation = Series(
            input=relation, arguments=first.arguments, name=names[0], position=first.position
        )
    else:
        arrays = tuple(map(_as_array, calls))
        relation = Unnest(input=relation, arrays=arrays, names=names, position=first.position)
    positions = {call.index: width + i for i, call in enumerate(calls)}
    fields = relation.fields

    def placed(node: Expression) -> Expression:
        if not isinstance(node, SetValue) or node.index not in positions:
            return node
        at = positions[node.index]
        return Column(index=at, name=fields[at].name, type=node.type, position=node.position)

    return relation, lambda expression: transform(expression, placed)


def _as_array(call: SetCall) -> Expression:
    if not call.is_series:
        return call.arguments[0]
    if not call.type.is_integer:
        raise NotSupportedError(
            "GENERATE_SERIES over timestamps next to another set is not supported",
            hint="write it in FROM: … FROM GENERATE_SERIES(…) AS s (v)",
            position=call.position,
        )
    return build.call("array_series", call.arguments, call.position)
