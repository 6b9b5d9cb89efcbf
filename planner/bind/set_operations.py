"""Set operations: their operands are converted to types in which rows are equal exactly if `=` says
so."""

from __future__ import annotations

from functools import partial

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.planner.bind.convert import (
    changed,
    common_types,
    converted,
    decimal_key,
    distinct_rows,
    exact_cast,
)
from runnel.relation.nodes import Aggregate, Relation, SetOperation, Union
from runnel.sqltypes import SqlType, loses_digits


def union(left: Relation, right: Relation, distinct: bool, position: Position | None) -> Relation:
    """UNION [ALL].

    If 38 digits can't hold two DECIMALs, UNION ALL rounds to the common type. UNION, which compares
    the values, refuses a value that would be rounded.
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
    """One side of a UNION in which the columns that may lose digits in the common types are
    converted without rounding."""
    lossy = _lossy(side, other, "UNION", position)
    return changed(side, {number: partial(exact_cast, target=types[number]) for number in lossy})


def intersect_or_except(
    operation: str, left: Relation, right: Relation, distinct: bool, position: Position | None
) -> Relation:
    """INTERSECT or EXCEPT [ALL], which return rows of the left side.

    If 38 digits can't hold two DECIMALs, they are compared by keys and keep the left side's type.
    """
    types = list(common_types(left, right, operation.upper(), position))
    lossy = _lossy(left, right, operation.upper(), position)
    back = {number: partial(build.cast, target=left.fields[number].type) for number in lossy}
    sides = []
    for side in (left, right):
        own = tuple(
            side.fields[number].type if number in lossy else item
            for number, item in enumerate(types)
        )
        sides.append(changed(converted(side, own), dict.fromkeys(lossy, decimal_key)))
    found = SetOperation(
        operation=operation, all=not distinct, left=sides[0], right=sides[1], position=position
    )
    return changed(found, back)


def _lossy(left: Relation, right: Relation, operation: str, position: Position | None) -> list[int]:
    """The columns of DECIMALs whose digits no common type can hold; ProgrammingError if they are in
    nested types."""
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
