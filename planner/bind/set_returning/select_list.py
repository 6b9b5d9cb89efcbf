"""Binding of UNNEST in a select list: each row is repeated for every element.

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
from runnel.planner.bind.scalars.special import fields_of
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

_DEEPEST = 100
"""The number of levels of UNNEST that no type has."""


@frozen(kw_only=True)
class SetValue(Expression):
    """An element of the collected set at `index`."""

    index: int


@frozen(kw_only=True)
class SetCall:
    """A call of a set-returning function.

    index: the number of the call among the calls of the SELECT, from 0.
    arguments: the array of UNNEST; start, stop and step if `is_series`.
    is_series: True for UNNEST(GENERATE_SERIES(…)), False for any other UNNEST.
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
        return super().bind(tree)

    def _inner(self, clause: str) -> ExpressionBinder:
        return ExpressionBinder(self._query, self._scope, clause, self._aggregates, self._windows)

    def _unnest(self, tree: Any) -> Expression:
        position = self._at(tree)
        call = function_call(tree.this)
        if call is not None and call[0] == "GENERATE_SERIES" and not tree.expressions:
            return self._series(tree.this, call[1])  # the list itself is not needed
        columns = self.columns(tree)
        if len(columns) != 1 or columns[0][1]:
            raise ProgrammingError(
                "UNNEST of a ROW makes a column for each field",
                hint="write it as an item of the select list, or read one field: (row).field",
                position=position,
            )
        return columns[0][0]

    def fields(self, tree: Any) -> list[tuple[Expression, str]]:
        """The columns of UNNEST if they are fields of a ROW, else []."""
        call = function_call(tree.this)
        if call is not None and call[0] == "GENERATE_SERIES":
            return []
        columns = self.columns(tree)
        return columns if columns[0][1] else []

    def columns(self, tree: Any) -> list[tuple[Expression, str]]:
        """The columns of UNNEST, each with its name; "" for one that is no field of a ROW."""
        position = self._at(tree)
        levels = _levels(tree.expressions, position)
        value = self._inner("UNNEST").bind(tree.this)
        kind, depth = value.type, 0
        while kind.kind is Kind.ARRAY and kind.element is not None and depth < levels:
            if depth:
                value = build.call("flatten", [value], position)
            kind, depth = kind.element, depth + 1
        if not depth and kind.kind is not Kind.ROW:
            raise ProgrammingError(
                f"UNNEST needs an ARRAY or a ROW, not {value.type}",
                position=value.position or position,
            )
        element = self._add((value,), False, kind, position) if depth else value
        return _fields(element, "", levels - depth, position)

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


def _fields(
    value: Expression, name: str, levels: int, position: Position | None
) -> list[tuple[Expression, str]]:
    """The fields of a ROW, and of the ROWs among them, down to a number of levels."""
    if value.type.kind is not Kind.ROW or levels <= 0:
        return [(value, name)]
    return [
        column
        for field_value, field_name in fields_of(value, position)
        for column in _fields(field_value, field_name, levels - 1, position)
    ]


def _levels(arguments: list[Any], position: Position | None) -> int:
    """The number of levels of `recursive := true` or `max_depth := n`; 1 without them."""
    levels = 1
    for item in arguments:
        if not isinstance(item, exp.Kwarg | exp.PropertyEQ):
            raise ProgrammingError(
                "UNNEST of several arrays is only allowed in FROM",
                hint="write UNNEST(a), UNNEST(b), or FROM t, UNNEST(t.a, t.b) AS u (x, y)",
                position=position,
            )
        name, value = item.this.name.lower(), item.expression
        if name == "recursive" and isinstance(value, exp.Boolean):
            levels = _DEEPEST if value.this else levels
        elif name == "max_depth" and isinstance(value, exp.Literal) and value.name.isdecimal():
            levels = max(int(value.name), 1)
        else:
            raise NotSupportedError(
                f"{item.this.name} of UNNEST is not supported",
                hint="UNNEST has recursive := true and max_depth := 2",
                position=position,
            )
    return levels


def sets_in(expressions: Iterable[Expression]) -> set[int]:
    """The numbers of the sets whose elements occur in the expressions."""
    return {node.index for item in expressions for node in walk(item) if isinstance(node, SetValue)}


def check_no_set(expression: Expression | None, clause: str) -> None:
    """Raises ProgrammingError for a set in a clause that only selects rows, such as WHERE."""
    for node in () if expression is None else walk(expression):
        if isinstance(node, SetValue):
            raise ProgrammingError(
                f"UNNEST is not allowed in {clause}",
                hint="write it in FROM, or filter a subquery that has it",
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
    return build.call("GENERATE_SERIES", call.arguments, call.position)
