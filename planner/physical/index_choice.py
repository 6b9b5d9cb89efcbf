"""Which index, if any, answers a scan: by equality, by range, or by giving the rows in the order
that is wanted.

Only the first column of an index is looked up; the whole predicate is applied again to what the
index gives. An equality or IN beats a range from both ends, that beats the wanted order, and that
beats a range open at one end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Index, Snapshot
from runnel.connector import IndexedTable, IndexLookup
from runnel.expressions.nodes import (
    Call,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    conjuncts,
)
from runnel.relation.nodes import Scan
from runnel.sqltypes import SqlType


class OrderColumn(NamedTuple):
    """One column of the table in a wanted order, NULL smallest."""

    column: int
    descending: bool


@frozen
class _Bounds:
    """What a predicate says of one column; each bound comes with whether it is inclusive."""

    points: tuple[Expression, ...] | None = None
    lower: tuple[Expression, bool] | None = None
    upper: tuple[Expression, bool] | None = None


def choose_index(
    scan: Scan, snapshot: Snapshot, order: Sequence[OrderColumn] = ()
) -> IndexLookup | None:
    """The best look-up for a scan; its `ordered` says whether it also gives the wanted order."""
    if not isinstance(scan.table, IndexedTable):
        return None
    found = [
        ranked
        for index in snapshot.indexes_on(scan.table.name)
        if (ranked := _rank(scan, index, order)) is not None
    ]
    return max(found, key=lambda ranked: ranked[0])[1] if found else None


def _rank(scan: Scan, index: Index, order: Sequence[OrderColumn]) -> tuple[int, IndexLookup] | None:
    columns = _column_numbers(scan, index)
    if columns is None:
        return None
    bounds = _bounds(scan, columns[0])
    if bounds.points is not None:
        return 4, IndexLookup(index, points=bounds.points)
    if index.kind != "sorted":
        return None
    lookup = IndexLookup(index)
    if bounds.lower is not None:
        lookup = replace(lookup, lower=bounds.lower[0], lower_inclusive=bounds.lower[1])
    if bounds.upper is not None:
        lookup = replace(lookup, upper=bounds.upper[0], upper_inclusive=bounds.upper[1])
    ends = (bounds.lower is not None) + (bounds.upper is not None)
    in_order = _gives_order(columns, order)
    if in_order:
        lookup = replace(lookup, ordered=True, descending=order[0].descending)
    if ends == 2:
        return 3, lookup
    if in_order:
        return 2, lookup
    return (1, lookup) if ends else None


def _column_numbers(scan: Scan, index: Index) -> list[int] | None:
    """Where the index's columns stand in the table; None if one of them isn't there."""
    numbers = {column.name.lower(): i for i, column in enumerate(scan.table.columns)}
    found = [numbers.get(name.lower()) for name in index.columns]
    return (
        [number for number in found if number is not None] if found and None not in found else None
    )


def _gives_order(columns: Sequence[int], order: Sequence[OrderColumn]) -> bool:
    wanted = [item.column for item in order]
    return (
        bool(order)
        and wanted == list(columns[: len(wanted)])
        and len({item.descending for item in order}) == 1
    )


def _bounds(scan: Scan, column: int) -> _Bounds:
    bounds = _Bounds()
    for part in conjuncts(scan.predicate):
        points = _points(part, column)
        if points is not None:
            if bounds.points is None or len(points) < len(bounds.points):
                bounds = replace(bounds, points=points)
            continue
        comparison = _comparison(part, column)
        if comparison is None:
            continue
        operator, value = comparison
        if operator in ("gt", "ge") and bounds.lower is None:
            bounds = replace(bounds, lower=(value, operator == "ge"))
        elif operator in ("lt", "le") and bounds.upper is None:
            bounds = replace(bounds, upper=(value, operator == "le"))
    return bounds


def _points(part: Expression, column: int) -> tuple[Expression, ...] | None:
    """The values of which the column must have one, for `=`, IN, and equalities joined by OR."""
    if isinstance(part, InList):
        return part.values if _is_column(part.operand, column) else None
    if isinstance(part, Call) and part.function == "or":
        points: tuple[Expression, ...] = ()
        for argument in part.arguments:
            more = _points(argument, column)
            if more is None:
                return None
            points += more
        return points
    comparison = _comparison(part, column)
    return (comparison[1],) if comparison is not None and comparison[0] == "eq" else None


MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _comparison(part: Expression, column: int) -> tuple[str, Expression] | None:
    """(operator, value) of a comparison of the column with a constant, the column on the left."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    left, right = part.arguments
    if _is_column(left, column) and is_bound(right, left.type):
        return part.function, right
    if _is_column(right, column) and is_bound(left, right.type):
        return MIRRORED[part.function], left
    return None


def _is_column(expression: Expression, column: int) -> bool:
    """Whether an expression is the column, perhaps made a wider integer to be compared with one."""
    while (
        isinstance(expression, Cast)
        and expression.operand.type.is_integer
        and expression.type.is_integer
    ):
        expression = expression.operand
    return isinstance(expression, Column) and expression.index == column


def is_bound(value: Expression, compared: SqlType) -> bool:
    """Whether `value` is a literal or a parameter of the type in which the column is compared."""
    return isinstance(value, Literal | Parameter) and value.type == compared
