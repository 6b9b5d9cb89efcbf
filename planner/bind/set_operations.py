"""Binding of UNION, INTERSECT and EXCEPT. The operands are converted to types in which rows are
equal exactly if `=` is true for their columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression
from runnel.planner.bind.by_name import by_name
from runnel.planner.bind.convert import (
    changed,
    common_types,
    converted,
    decimal_key,
    distinct_rows,
    exact_cast,
)
from runnel.planner.parse.query.allow_list import position_of
from runnel.relation.nodes import Aggregate, Relation, SetOperation, Union
from runnel.sqltypes import INTERVAL_MIXED, SqlType, has_mixed_interval, loses_digits

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.bind.scope import Scope


def set_operation(binder: StatementBinder, tree: Any, outer: Scope | None) -> Relation:
    """Binds a chain of set operations from the left. There is no recursion, because generated SQL
    has chains of thousands."""
    operations = [tree]
    while isinstance(operations[-1].this, exp.SetOperation) and not _has_tail(operations[-1].this):
        operations.append(operations[-1].this)
    relation = binder.query(operations[-1].this, outer)
    for operation in reversed(operations):
        right = binder.query(operation.expression, outer)
        position = position_of(operation.expression, binder.sql)
        distinct = bool(operation.args.get("distinct"))
        if operation.args.get("by_name"):
            relation, right = by_name(relation, right, position)
        if isinstance(operation, exp.Union):
            relation = union(relation, right, distinct, position)
        else:
            relation = _intersect_or_except(operation.key, relation, right, distinct, position)
    return relation


def _has_tail(tree: Any) -> bool:
    """Whether a set operation has its own ORDER BY, LIMIT, OFFSET or WITH."""
    return any(tree.args.get(key) for key in ("with_", "order", "limit", "offset"))


def union(left: Relation, right: Relation, distinct: bool, position: Position | None) -> Relation:
    """UNION [ALL].

    Two DECIMALs may need more than 38 digits for a common type. Then UNION ALL rounds to the common
    type. UNION compares the values, so it raises an error for a value that would be rounded.
    """
    types = common_types(left, right, "UNION", position)
    if distinct:
        left, right = (
            unrounded(side, types, other, position)
            for side, other in ((left, right), (right, left))
        )
    left, right = converted(left, types), converted(right, types)
    if (
        distinct
        and isinstance(left, Aggregate)
        and isinstance(left.input, Union)
        and not left.aggregates
    ):
        left = left.input
    branches = left.parts if isinstance(left, Union) else (left,)
    both = Union(parts=(*branches, right), position=position)
    return distinct_rows(both) if distinct else both


def unrounded(
    side: Relation, types: tuple[SqlType, ...], other: Relation, position: Position | None
) -> Relation:
    """One side of a UNION. Columns that may lose digits in the common types are converted without
    rounding."""
    lossy = _lossy(side, other, "UNION", position)
    return changed(side, {number: partial(exact_cast, target=types[number]) for number in lossy})


def _intersect_or_except(
    operation: str, left: Relation, right: Relation, distinct: bool, position: Position | None
) -> Relation:
    """INTERSECT or EXCEPT [ALL], which return rows of the left side.

    Two DECIMALs may need more than 38 digits for a common type. Then they are compared by keys, and
    the result has the type of the left side.
    """
    types = list(common_types(left, right, operation.upper(), position))
    lossy = _lossy(left, right, operation.upper(), position)
    keys = _interval_keys(types, operation.upper(), position) | dict.fromkeys(lossy, decimal_key)
    back = {number: partial(build.cast, target=left.fields[number].type) for number in lossy}
    sides = []
    for side in (left, right):
        own = tuple(
            side.fields[number].type if number in lossy else item
            for number, item in enumerate(types)
        )
        sides.append(changed(converted(side, own), keys))
    found = SetOperation(
        operation=operation, all=not distinct, left=sides[0], right=sides[1], position=position
    )
    return changed(found, back)


def _interval_keys(
    types: list[SqlType], operation: str, position: Position | None
) -> dict[int, Callable[[Expression], Expression]]:
    """By the number of each column of intervals: the function that writes equal intervals alike."""
    for item in types:
        if item.is_nested and has_mixed_interval(item):
            raise build.uncompared_intervals(operation, position)
    return {number: _justified for number, item in enumerate(types) if item == INTERVAL_MIXED}


def _justified(operand: Expression) -> Expression:
    return Call(
        function="justify_interval",
        arguments=(operand,),
        type=INTERVAL_MIXED,
        position=operand.position,
    )


def forbids_recursion(node: Relation) -> str:
    """The reason why an operand of a set operation may not read the working table of a recursion;
    "" for other nodes."""
    if isinstance(node, SetOperation):
        return f"within {node.operation.upper()}"
    return "within a UNION of the recursive term" if isinstance(node, Union) else ""


def _lossy(left: Relation, right: Relation, operation: str, position: Position | None) -> list[int]:
    """The numbers of the DECIMAL columns for which no common type has enough digits;
    ProgrammingError if such DECIMALs are in nested types."""
    lossy = []
    for number, (first, second) in enumerate(zip(left.fields, right.fields, strict=True)):
        if loses_digits(first.type, second.type):
            if first.type.is_nested:
                raise ProgrammingError(
                    f"the DECIMALs in column {number + 1} of {operation}, {first.type} and "
                    f"{second.type}, have no common type"
                    " that holds their digits",
                    hint="CAST one side to the type of the other",
                    position=position,
                )
            lossy.append(number)
    return lossy
