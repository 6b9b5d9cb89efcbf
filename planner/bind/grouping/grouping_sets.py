"""GROUPING SETS, ROLLUP and CUBE: the sets of keys that they denote, and a relation that repeats
each row once per set.

The rows are grouped by the number of the set and by the keys. A key outside the row's set is NULL;
the number of the set distinguishes it from a key that is NULL in the data. A set without keys has a
group even if there are no rows. For such a set a row is added that no aggregate counts.
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
from runnel.expressions.nodes import AggregateCall as AggregateCall
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
    """The sets that all items of a GROUP BY denote together.

    Several items are combined by a cross product: GROUP BY a, ROLLUP (b, c) has the sets (a, b, c),
    (a, b) and (a). `key_of` returns the number of the key for a tree.
    """
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
        elements = [_element(item, key_of, position) for item in tree.expressions]
        return [sum(elements[:count], ()) for count in range(len(elements), -1, -1)]
    if isinstance(tree, exp.Cube):
        elements = [_element(item, key_of, position) for item in tree.expressions]
        if len(elements) > MOST_CUBED:
            raise _too_many(position)
        return [
            sum(chosen, ())
            for size in range(len(elements), -1, -1)
            for chosen in combinations(elements, size)
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
            "ROLLUP and CUBE contain expressions, or lists of expressions in parentheses",
            position=position,
        )
    return (key_of(tree),)


def _too_many(position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"GROUP BY has more than {MOST_SETS} grouping sets",
        hint="list only the sets that are needed",
        position=position,
    )


@frozen
class Grouped:
    """The input of an aggregation by grouping sets.

    relation: the rows, once per set.
    keys: the columns to group by; the last one is the set's number.
    calls: the aggregates, which skip rows that were added for empty sets.
    """

    relation: Relation
    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]


def repeated(
    relation: Relation,
    projections: Sequence[Sequence[Expression]],
    names: Sequence[str],
    position: Position | None,
) -> Relation:
    """Each row once per list of expressions."""
    return Expand(
        input=relation,
        projections=tuple(tuple(item) for item in projections),
        names=tuple(names),
        position=position,
    )


def grouped_by_sets(
    relation: Relation,
    keys: Sequence[Expression],
    sets: Sequence[Keys],
    calls: Sequence[AggregateCall],
) -> Grouped:
    """Repeats the rows of a relation once per set.

    For the row (x, y) and GROUPING SETS ((x), ()), the output has the columns of the row, the keys,
    the set's number and a mark:

        x, y | x    | 0 | true     the set (x)
        x, y | NULL | 1 | true     the set ()
        NULL | NULL | 1 | NULL     added, so that () has a group without rows
    """
    fields = relation.fields
    width = len(fields)
    key_fields = [
        Field(item.name if isinstance(item, Column) else f"$key{i}", item.type)
        for i, item in enumerate(keys)
    ]
    inputs = references(fields)
    names = tuple(item.name for item in (*fields, *key_fields))
    computed = Project(input=relation, expressions=(*inputs, *keys), names=names)
    columns = references(computed.fields)
    present = _true()
    expanded: Relation = Expand(
        input=computed,
        projections=tuple(
            (
                *inputs,
                *(
                    columns[width + i] if i in present_keys else _null(item)
                    for i, item in enumerate(keys)
                ),
                _number(at),
                present,
            )
            for at, present_keys in enumerate(sets)
        ),
        names=(*names, "$set", "$present"),
        of_sets=True,
    )
    empty = [at for at, present_keys in enumerate(sets) if not present_keys]
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
    """The aggregate without the rows that were added for empty sets. All columns of these rows are
    NULL."""
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
    """GROUPING(…) over the aggregation's result: one bit per argument, 1 if the argument is not in
    the row's set. `number` is the column with the number of the set.

    For the sets (a, b), (a), () with the numbers 0, 1, 2, GROUPING(a, b) is 0b00, 0b01, 0b11, as a
    CASE on the set's number.
    """
    positions = []
    for argument in value.arguments:
        if argument not in keys:
            raise ProgrammingError(
                "GROUPING needs expressions of GROUP BY",
                position=argument.position or value.position,
            )
        positions.append(keys.index(argument))
    numbers: dict[int, list[int]] = {}
    for at, present_keys in enumerate(sets):
        bits = 0
        for position in positions:
            bits = bits << 1 | (position not in present_keys)
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
