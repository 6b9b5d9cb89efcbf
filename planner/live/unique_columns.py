"""The columns by which the rows of a relation differ."""

from __future__ import annotations

from collections.abc import Iterable

from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, conjuncts
from runnel.processors.live.views.changes import ViewChanges
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
        case Window():
            return (*unique_columns(relation.input), *_numbered(relation))
        case Limit(count=Literal(value=1)):
            return ((),)
        case Limit() | Sort():
            return unique_columns(relation.input)
        case GroupLimit():
            return unique_columns(relation.input) + _first_rows(relation)
        case Join():
            return _joined(relation)
        case Scan(table=table) if not table.is_unbounded or isinstance(table, ViewChanges):
            return _scanned(relation)
    return ()


def _scanned(node: Scan) -> Keys:
    key = node.table.key_columns
    has_all = bool(key) and set(key) <= set(node.columns)
    return (tuple(node.columns.index(i) for i in key),) if has_all else ()


def _joined(node: Join) -> Keys:
    """A row of one side is in the result once at most if the other side has one row for each key
    of the join."""
    left, right = unique_columns(node.left), unique_columns(node.right)
    if node.kind in (*LEFT_ONLY, *MARKS, JoinKind.SINGLE):
        return left
    found: Keys = ()
    if node.kind in (JoinKind.INNER, JoinKind.LEFT) and _is_met_once(right, node.right_keys):
        found += left
    if node.kind in (JoinKind.INNER, JoinKind.RIGHT) and _is_met_once(left, node.left_keys):
        width = len(node.left.fields)
        found += tuple(tuple(width + i for i in key) for key in right)
    return found


def _is_met_once(side: Keys, keys: Iterable[Expression]) -> bool:
    equated = {_distinct_values_of(item) for item in keys}
    return any(set(key) <= equated for key in side)


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
