"""Groups, sorts, joins and aggregates over INTERVAL, by numbers that operators compare.

Two INTERVALs are equal if their lengths are, in which a month is 30 days: the operators get the
length in µs as the key, a BIGINT. A group returns the interval of its rows: of several that are
equal, such as 1 month and 30 days, the one with the most months, and then the most days. SUM and
AVG become sums of the fields, MIN and MAX the extremes of the length. INTERSECT and EXCEPT compare
whole rows, which the binder brings into the same form.

    GROUP BY i          key LENGTH(i), MAX(FORM(i)); above it FROM_LENGTH(length, form)
    MIN(i)              MIN(LENGTH(i)), ARG_MIN(FORM(i), LENGTH(i)); above it the same
    MIN(a) of arrays    ARG_MIN(a, a), which orders arrays and rows as ORDER BY does
    SUM(i)              SUM of the months, of the days, and of the µs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.expressions import build
from runnel.expressions.coercion import convert
from runnel.expressions.nodes import AggregateCall, Call, Column, Expression, SortKey
from runnel.relation.nodes import (
    Aggregate,
    Join,
    Project,
    Relation,
    Sort,
    transform,
    walk,
)
from runnel.relation.over import Window, WindowCall
from runnel.relation.subqueries import GroupLimit
from runnel.sqltypes import BIGINT, INTERVAL_MIXED, Kind, SqlType, has_mixed_interval

_SUMS = ("sum", "avg")
_EXTREMES = {"min": "arg_min", "max": "arg_max"}


def interval_keys(relation: Relation) -> Relation:
    """The relation with numbers in place of INTERVALs where rows are compared."""
    if not any(map(_is_concerned, walk(relation))):
        return relation
    return transform(relation, _rewritten)


def _is_concerned(node: Relation) -> bool:
    return isinstance(node, (Aggregate, Sort, Join, Window, GroupLimit)) and any(
        item.type.is_interval or item.type.is_nested for item in node.own_expressions
    )


def _rewritten(node: Relation) -> Relation:
    if isinstance(node, Aggregate):
        return _Grouping(node).result()
    if isinstance(node, (Sort, GroupLimit)):
        return _sorted(node)
    if isinstance(node, Join):
        return _joined(node)
    if isinstance(node, Window):
        return replace(node, calls=tuple(map(_window_call, node.calls)))
    return node


def _call(function: str, arguments: Sequence[Expression], result: SqlType) -> Expression:
    return Call(function=function, arguments=tuple(arguments), type=result)


def _key(expression: Expression, what: str) -> Expression:
    """A key as operators compare it."""
    if expression.type == INTERVAL_MIXED:
        return _call("interval_length", [expression], BIGINT)
    if has_mixed_interval(expression.type):
        raise build.uncompared_intervals(what, expression.position)
    return expression


def _order(keys: Sequence[SortKey], what: str) -> tuple[SortKey, ...]:
    return tuple(key.mapped(lambda item: _key(item, what)) for key in keys)


def _sorted(node: Sort | GroupLimit) -> Relation:
    if isinstance(node, Sort):
        return replace(node, keys=_order(node.keys, "ORDER BY"))
    keys = tuple(_key(item, "LIMIT") for item in node.keys)
    return replace(node, keys=keys, order=_order(node.order, "ORDER BY"))


def _joined(node: Join) -> Relation:
    left, right = (
        tuple(_key(item, "a join") for item in keys) for keys in (node.left_keys, node.right_keys)
    )
    return replace(node, left_keys=left, right_keys=right)


def _is_nested_extreme(call: AggregateCall) -> bool:
    return call.function in _EXTREMES and call.arguments[0].type.is_nested


def _nested_extreme(call: AggregateCall) -> AggregateCall:
    """MIN or MAX of arrays or rows as ARG_MIN or ARG_MAX, whose key has an order."""
    value = _key(call.arguments[0], call.function.upper())
    return replace(
        call, function=_EXTREMES[call.function], arguments=(value, value), distinct=False
    )


def _window_call(item: WindowCall) -> WindowCall:
    if _is_nested_extreme(item.call):
        item = replace(item, call=_nested_extreme(item.call))
    call, by_length = item.call, any(key.expression.type == INTERVAL_MIXED for key in item.order)
    compares = call.function in (*_SUMS, *_EXTREMES) and any(
        argument.type.is_interval for argument in call.arguments
    )
    is_plain = not compares or (call.function in _EXTREMES and call.type != INTERVAL_MIXED)
    if not is_plain or (by_length and item.frame.offsets) or _has_distinct(call):
        raise build.uncompared_intervals(f"{call.function.upper()} OVER", call.position)
    return replace(
        item,
        partition=tuple(_key(key, "PARTITION BY") for key in item.partition),
        order=_order(item.order, "ORDER BY"),
    )


def _has_distinct(call: AggregateCall) -> bool:
    return call.distinct and any(has_mixed_interval(item.type) for item in call.arguments)


class _Grouping:
    """An aggregation over intervals as an aggregation over numbers, and a projection."""

    def __init__(self, node: Aggregate) -> None:
        self._node = node
        self._keys = tuple(_key(key, "GROUP BY") for key in node.keys)
        self._calls: list[AggregateCall] = []

    def result(self) -> Relation:
        node = self._node
        aggregates = [self._expression(call) for call in node.aggregates]
        keys = [self._group_key(i, key) for i, key in enumerate(node.keys)]
        if self._keys == node.keys and tuple(self._calls) == node.aggregates:
            return node
        names = tuple(f"c{i}" for i in range(len(keys) + len(self._calls)))
        inner = replace(node, keys=self._keys, aggregates=tuple(self._calls), names=names)
        return Project(input=inner, expressions=(*keys, *aggregates), names=node.names)

    def _group_key(self, index: int, key: Expression) -> Expression:
        column = Column(index=index, name=f"c{index}", type=self._keys[index].type)
        if key.type != INTERVAL_MIXED:
            return column
        form = _call("interval_form", [key], BIGINT)
        most = self._add(AggregateCall(function="max", arguments=(form,), type=BIGINT))
        return _call("interval_from_length", [column, most], INTERVAL_MIXED)

    def _add(self, call: AggregateCall) -> Expression:
        index = len(self._keys) + len(self._calls)
        self._calls.append(call)
        return Column(index=index, name=f"c{index}", type=call.type)

    def _expression(self, call: AggregateCall) -> Expression:
        argument = call.arguments[0] if call.arguments else None
        if _is_nested_extreme(call):
            return self._add(_nested_extreme(call))
        if argument is not None and argument.type.is_interval:
            if call.function in _SUMS:
                return self._total(call, argument)
            if call.function in _EXTREMES and argument.type == INTERVAL_MIXED:
                return self._extreme(call, argument)
        arguments = call.arguments
        if call.distinct:
            if call.function != "count" and _has_distinct(call):
                raise build.uncompared_intervals(
                    f"{call.function.upper()}(DISTINCT …)", call.position
                )
            arguments = tuple(_key(item, "DISTINCT") for item in arguments)
        return self._add(
            replace(call, arguments=arguments, order=_order(call.order, call.function.upper()))
        )

    def _extreme(self, call: AggregateCall, argument: Expression) -> Expression:
        span = _call("interval_length", [argument], BIGINT)
        form = _call("interval_form", [argument], BIGINT)
        found = self._add(replace(call, arguments=(span,), type=BIGINT))
        function = _EXTREMES[call.function]
        formed = self._add(replace(call, function=function, arguments=(form, span), type=BIGINT))
        return _call("interval_from_length", [found, formed], INTERVAL_MIXED)

    def _total(self, call: AggregateCall, argument: Expression) -> Expression:
        if call.distinct:
            raise build.uncompared_intervals(f"{call.function.upper()}(DISTINCT …)", call.position)
        if argument.type.kind is Kind.INTERVAL:
            micros = _call("duration_micros", [argument], BIGINT)
            whole = self._add(replace(call, function="sum", arguments=(micros,), type=BIGINT))
            total = build.call("TO_MICROSECONDS", [whole], call.position)
        else:
            mixed = convert(argument, INTERVAL_MIXED)
            parts = [
                self._add(
                    replace(
                        call,
                        function="sum",
                        arguments=(_call(f"interval_{part}", [mixed], BIGINT),),
                        type=BIGINT,
                    )
                )
                for part in ("months", "days", "micros")
            ]
            total = _call("interval_from_parts", parts, INTERVAL_MIXED)
        if call.function == "avg":
            count = self._add(replace(call, function="count", type=BIGINT))
            total = build.call("divide", [total, count], call.position)
        return build.cast(total, call.type, call.position)
