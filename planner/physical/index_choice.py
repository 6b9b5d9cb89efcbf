"""The choice of an index for a scan: by equality, by range, or because it returns the rows in the
required order.

Only the first column of an index is looked up; the whole predicate is applied again to the rows
that the index returns. An equality or IN is preferred to a range with two ends, that to the
required order, and that to a range with one end.
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


class IndexOrderColumn(NamedTuple):
    """A column of the table in a required order, in which NULL is the smallest value.

    column: the index of the column in the table.
    descending: whether larger values come first.
    """

    column: int
    descending: bool


@frozen
class _ColumnBounds:
    """The constraints that a predicate puts on one column.

    points: the values of which the column must equal one; None if there is no such list.
    lower, upper: a bound, and whether it is inclusive; None if there is none.
    """

    points: tuple[Expression, ...] | None = None
    lower: tuple[Expression, bool] | None = None
    upper: tuple[Expression, bool] | None = None


def choose_index(
    scan: Scan, snapshot: Snapshot, order: Sequence[IndexOrderColumn] = ()
) -> IndexLookup | None:
    """The best look-up for a scan, or None; its `ordered` says whether it also returns the required
    order."""
    if not isinstance(scan.table, IndexedTable):
        return None
    found = [
        ranked
        for index in snapshot.indexes_on(scan.table.name)
        if (ranked := _rank(scan, index, order)) is not None
    ]
    return max(found, key=lambda ranked: ranked[0])[1] if found else None


def _rank(
    scan: Scan, index: Index, order: Sequence[IndexOrderColumn]
) -> tuple[int, IndexLookup] | None:
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
    """The positions of the index's columns in the table; None if one of them does not exist."""
    numbers = {column.name.lower(): i for i, column in enumerate(scan.table.columns)}
    found = [numbers.get(name.lower()) for name in index.columns]
    return (
        [number for number in found if number is not None] if found and None not in found else None
    )


def _gives_order(columns: Sequence[int], order: Sequence[IndexOrderColumn]) -> bool:
    required = [item.column for item in order]
    return (
        bool(order)
        and required == list(columns[: len(required)])
        and len({item.descending for item in order}) == 1
    )


def _bounds(scan: Scan, column: int) -> _ColumnBounds:
    bounds = _ColumnBounds()
    for conjunct in conjuncts(scan.predicate):
        points = _points(conjunct, column)
        if points is not None:
            if bounds.points is None or len(points) < len(bounds.points):
                bounds = replace(bounds, points=points)
            continue
        comparison = _comparison(conjunct, column)
        if comparison is None:
            continue
        operator, value = comparison
        if operator in ("gt", "ge") and bounds.lower is None:
            bounds = replace(bounds, lower=(value, operator == "ge"))
        elif operator in ("lt", "le") and bounds.upper is None:
            bounds = replace(bounds, upper=(value, operator == "le"))
    return bounds


def _points(conjunct: Expression, column: int) -> tuple[Expression, ...] | None:
    """The values of which the column must equal one, for `=`, IN, and equalities joined by OR."""
    if isinstance(conjunct, InList):
        return conjunct.values if _is_column(conjunct.operand, column) else None
    if isinstance(conjunct, Call) and conjunct.function == "or":
        points: tuple[Expression, ...] = ()
        for argument in conjunct.arguments:
            more = _points(argument, column)
            if more is None:
                return None
            points += more
        return points
    comparison = _comparison(conjunct, column)
    return (comparison[1],) if comparison is not None and comparison[0] == "eq" else None


MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _comparison(conjunct: Expression, column: int) -> tuple[str, Expression] | None:
    """(operator, value) of a comparison of the column with a constant, with the column on the
    left."""
    if not isinstance(conjunct, Call) or conjunct.function not in MIRRORED:
        return None
    left, right = conjunct.arguments
    if _is_column(left, column) and is_bound(right, left.type):
        return conjunct.function, right
    if _is_column(right, column) and is_bound(left, right.type):
        return MIRRORED[conjunct.function], left
    return None


def _is_column(expression: Expression, column: int) -> bool:
    """Whether an expression is the column, perhaps cast to a wider integer for the comparison."""
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
