"""The columns by which the rows of a relation differ."""

from __future__ import annotations

from collections.abc import Iterable

from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, conjuncts
from runnel.processors.live.views.changes import ViewChanges
from runnel.relation.live import CurrentRows
from runnel.relation.nodes import (
    LEFT_ONLY,
    MARKS,
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
)
from runnel.relation.over import Window
from runnel.relation.subqueries import GroupLimit

Keys = tuple[tuple[int, ...], ...]
"""Sets of columns, each by its indexes: no two rows agree in all columns of a set. () within it:
the relation has at most one row."""


def unique_columns(relation: Relation) -> Keys:
    """The known sets of columns by which the rows of a relation after the rules differ; () if none
    is known."""
    match relation:
        case Aggregate():
            return (tuple(range(len(relation.keys))),)
        case Project():
            return _projected(relation.expressions, unique_columns(relation.input))
        case Filter():
            fixed = _constant_columns(relation.condition)
            return tuple(
                tuple(i for i in key if i not in fixed) for key in unique_columns(relation.input)
            )
        case CurrentRows(key=key) if key is not None:
            return (key,)
        case Window():
            return (*unique_columns(relation.input), *_numbered(relation))
        case Limit(count=Literal(value=1)):
            return ((),)
        case Limit() | Sort():
            return unique_columns(relation.input)
        case Join():
            return _of_pairs(relation)
        case GroupLimit():
            return unique_columns(relation.input) + _first_rows(relation)
        case Scan(table=table) if not table.is_unbounded or isinstance(table, ViewChanges):
            return _scanned(relation)
    return ()


def _scanned(node: Scan) -> Keys:
    key = node.table.key_columns
    has_all = bool(key) and set(key) <= set(node.columns)
    return (tuple(node.columns.index(i) for i in key),) if has_all else ()


def _projected(expressions: Iterable[Expression], keys: Keys) -> Keys:
    positions: dict[int, int] = {}
    for position, item in enumerate(expressions):
        index = _distinct_values_of(item)
        if index is not None:
            positions.setdefault(index, position)
    return tuple(tuple(positions[i] for i in key) for key in keys if set(key) <= set(positions))


def _distinct_values_of(item: Expression) -> int | None:
    """The column of an expression that has another value for each value of the column."""
    while True:
        match item:
            case Cast(operand=operand) if _keeps_values_apart(item):
                item = operand
            case Call(function="not_null", arguments=(operand, _)):
                item = operand
            case Column():
                return item.index
            case _:
                return None


def _keeps_values_apart(cast: Cast) -> bool:
    source, target = cast.operand.type, cast.type
    if source.is_integer and target.is_integer:
        return True  # a value beyond the narrower type is an error
    if source.is_exact and target.is_exact:
        return target.scale >= source.scale
    return source.kind is target.kind and not source.is_nested


def _constant_columns(condition: Expression) -> set[int]:
    """The columns that equal a literal in each row that satisfies the condition."""
    found: set[int] = set()
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function == "eq":
            for side, other in (part.arguments, part.arguments[::-1]):
                index = _distinct_values_of(side)
                if index is not None and isinstance(other, Literal):
                    found.add(index)
    return found


def _of_pairs(join: Join) -> Keys:
    """The keys of a join. Where each row has one match at most, the keys of its side are some;
    otherwise a key of the left side with a key of the right side is one."""
    left, right = unique_columns(join.left), unique_columns(join.right)
    if join.kind in (*LEFT_ONLY, *MARKS, JoinKind.SINGLE):
        return left
    if join.kind not in (JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.RIGHT):
        return ()
    width = len(join.left.fields)
    has_one_right = _is_one_row(right, join.right_keys)
    has_one_left = _is_one_row(left, join.left_keys)
    moved = tuple(tuple(width + i for i in key) for key in right)
    found: list[tuple[int, ...]] = []
    if has_one_right and join.kind is not JoinKind.RIGHT:
        found += left
    if has_one_left and join.kind is not JoinKind.LEFT:
        found += moved
    keys = found or [(*first, *second) for first in left for second in moved]
    equal = [
        (first.index, width + second.index)
        for first, second in zip(join.left_keys, join.right_keys, strict=True)
        if isinstance(first, Column) and isinstance(second, Column)
    ]
    # A column of the side whose rows are all in the result stands for the one that equals it.
    to_left = {} if join.kind is JoinKind.RIGHT else {b: a for a, b in equal}
    to_right = {} if join.kind is JoinKind.LEFT else dict(equal)
    variants = [tuple(to.get(i, i) for i in key) for key in keys for to in ({}, to_left, to_right)]
    return tuple(dict.fromkeys(tuple(dict.fromkeys(key)) for key in variants))


def _is_one_row(keys: Keys, matched: Iterable[Expression]) -> bool:
    """Whether one row of a side at most equals the other side in the columns `matched`."""
    columns = {_distinct_values_of(item) for item in matched}
    return any(set(key) <= columns for key in keys)


def _numbered(window: Window) -> Keys:
    """The partition and the number of each ROW_NUMBER."""
    width = len(window.input.fields)
    found = []
    for number, call in enumerate(window.calls):
        columns = [item.index for item in call.partition if isinstance(item, Column)]
        if call.call.function == "row_number" and len(columns) == len(call.partition):
            found.append((*columns, width + number))
    return tuple(found)


def _first_rows(node: GroupLimit) -> Keys:
    """The key of a GroupLimit of one row."""
    is_one = isinstance(node.count, Literal) and node.count.value == 1
    columns = tuple(item.index for item in node.keys if isinstance(item, Column))
    return (columns,) if is_one and len(columns) == len(node.keys) else ()
