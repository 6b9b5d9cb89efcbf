"""GROUPING SETS, ROLLUP and CUBE: which sets of keys they mean, and the relation that gives each
row once per set.

The rows are aggregated by the keys, those outside the row's set being NULL, and by the number of
the set, so that a key that really is NULL stays apart. A set without keys has a group even where
there are no rows: for it a row is added that no aggregate counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import Position, ProgrammingError
from runnel.expressions.aggregates.registry import function_of
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Call, Case, Column, Expression, InList, Literal
from runnel.planner.bind.select_parts import GroupingValue
from runnel.planner.parse.query.allow_list import unwrapped
from runnel.relation.nodes import Expand, Field, Project, Relation, Union, Values, references
from runnel.sqltypes import BIGINT, BOOLEAN

MOST_SETS = 4096
MOST_CUBED = 12

Keys = tuple[int, ...]
"""A grouping set: the numbers of its keys."""


def grouping_sets(
    trees: Sequence[Any], key_of: Callable[[Any], int], position: Position | None
) -> tuple[Keys, ...]:
    """The sets that the items of a GROUP BY mean together; `key_of` gives the number of a key's
    tree."""
    sets: list[Keys] = [()]
    for tree in trees:
        items = _sets(tree, key_of, position)
        if len(sets) * len(items) > MOST_SETS:
            raise _too_many(position)
        sets = [tuple(dict.fromkeys(first + second)) for first in sets for second in items]
    return tuple(sets)


def _sets(tree: Any, key_of: Callable[[Any], int], position: Position | None) -> list[Keys]:
    tree = unwrapped(tree)
    if isinstance(tree, exp.Rollup):
        parts = [_element(item, key_of, position) for item in tree.expressions]
        return [sum(parts[:count], ()) for count in range(len(parts), -1, -1)]
    if isinstance(tree, exp.Cube):
        parts = [_element(item, key_of, position) for item in tree.expressions]
        if len(parts) > MOST_CUBED:
            raise _too_many(position)
        return [
            sum(chosen, ())
            for size in range(len(parts), -1, -1)
            for chosen in combinations(parts, size)
        ]
    if isinstance(tree, exp.GroupingSets):
        found = [keys for item in tree.expressions for keys in _sets(item, key_of, position)]
        if len(found) > MOST_SETS:
            raise _too_many(position)
        return found
    return [_element(tree, key_of, position)]


def _element(tree: Any, key_of: Callable[[Any], int], position: Position | None) -> Keys:
    tree = unwrapped(tree)
    if isinstance(tree, exp.Tuple):
        return tuple(key_of(item) for item in tree.expressions)
    if isinstance(tree, exp.Rollup | exp.Cube | exp.GroupingSets):
        raise ProgrammingError(
            "ROLLUP and CUBE list expressions, or lists of these in parentheses", position=position
        )
    return (key_of(tree),)


def _too_many(position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"GROUP BY has more than {MOST_SETS} grouping sets",
        hint="list those that are needed",
        position=position,
    )


@frozen
class Grouped:
    """What is aggregated for grouping sets: the relation, its key columns with the set's number as
    the last, and the calls."""

    relation: Relation
    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]


def grouped_by_sets(
    relation: Relation,
    keys: Sequence[Expression],
    sets: Sequence[Keys],
    calls: Sequence[AggregateCall],
) -> Grouped:
    """The relation once per set."""
    fields = relation.fields
    width = len(fields)
    key_fields = [
        Field(item.name if isinstance(item, Column) else f"$key{i}", item.type)
        for i, item in enumerate(keys)
    ]
    given = references(fields)
    names = tuple(item.name for item in (*fields, *key_fields))
    computed = Project(input=relation, expressions=(*given, *keys), names=names)
    columns = references(computed.fields)
    present = _true()
    expanded: Relation = Expand(
        input=computed,
        projections=tuple(
            (
                *given,
                *(columns[width + i] if i in kept else _null(item) for i, item in enumerate(keys)),
                _number(at),
                present,
            )
            for at, kept in enumerate(sets)
        ),
        names=(*names, "$set", "$present"),
        of_sets=True,
    )
    empty = [at for at, kept in enumerate(sets) if not kept]
    out = references(expanded.fields)
    if empty:
        nothing = tuple(_null(item) for item in columns)
        rows = tuple((*nothing, _number(at), Literal(value=None, type=BOOLEAN)) for at in empty)
        expanded = Union(parts=(expanded, Values(rows=rows, columns=expanded.fields)))
        calls = [_only_present(call, out[-1]) for call in calls]
    return Grouped(expanded, out[width:-1], tuple(calls))


def _true() -> Literal:
    return Literal(value=True, type=BOOLEAN)


def _null(expression: Expression) -> Literal:
    return Literal(value=None, type=expression.type)


def _number(value: int) -> Literal:
    return Literal(value=value, type=BIGINT)


def _only_present(call: AggregateCall, present: Column) -> AggregateCall:
    """The aggregate without the added rows, all of whose columns are NULL."""
    if call.predicate is None:
        if call.function == "count_star":
            return replace(call, function="count", arguments=(present,))
        is_plain = all(isinstance(item, Column) for item in call.arguments[:1])
        if call.arguments and is_plain and not call.order and not function_of(call).keeps_nulls:
            return call
        return replace(call, predicate=present)
    return replace(
        call, predicate=Call(function="and", arguments=(present, call.predicate), type=BOOLEAN)
    )


def grouping_value(
    value: GroupingValue, keys: Sequence[Expression], sets: Sequence[Keys], number: Column | None
) -> Expression:
    """GROUPING(…) over the aggregation's result: a bit for each argument, 1 where the set of
    `number` doesn't have it."""
    places = []
    for argument in value.arguments:
        if argument not in keys:
            raise ProgrammingError(
                "GROUPING takes expressions of GROUP BY",
                position=argument.position or value.position,
            )
        places.append(keys.index(argument))
    numbers: dict[int, list[int]] = {}
    for at, kept in enumerate(sets):
        bits = 0
        for place in places:
            bits = bits << 1 | (place not in kept)
        numbers.setdefault(bits, []).append(at)
    if number is None or len(numbers) == 1:
        return replace(_number(next(iter(numbers))), position=value.position)
    *others, (last, _) = sorted(numbers.items(), reverse=True)
    return Case(
        conditions=tuple(
            InList(operand=number, values=tuple(map(_number, found)), type=BOOLEAN)
            for _, found in others
        ),
        results=tuple(_number(bits) for bits, _ in others),
        otherwise=_number(last),
        type=BIGINT,
        position=value.position,
    )
