"""The value over no rows that an aggregate declares is the value that its evaluation returns."""

from __future__ import annotations

import pytest

import runnel
from runnel.errors import Error
from runnel.expressions.aggregates.function import NoRows
from runnel.expressions.aggregates.registry import AGGREGATES

DECLARED = {name for name, item in AGGREGATES.items() if item.no_rows is not NoRows.EVALUATED}
COLUMNS = ("i", "x", "s", "b", "d")
"""A column of each type that some aggregate accepts."""


def values_of_no_rows(name: str) -> set[object]:
    """The values of an aggregate without an inner row, for the types that it accepts: by an
    aggregation, and by a subquery for each row of another table."""
    found: set[object] = set()
    with runnel.connect() as connection:
        cursor = connection.cursor()
        row = "SELECT 1 AS k, 1 AS i, 1.5e0 AS x, 'a' AS s, TRUE AS b, DATE '2024-01-01' AS d"
        empty = f"({row}) AS t WHERE i > 1"
        for column in COLUMNS:
            call = "COUNT(*)" if name == "count_star" else f"{name}({column})"
            try:
                found.add(cursor.execute(f"SELECT {call} FROM {empty}").fetchall()[0][0])
            except Error:
                continue
            inner = f"SELECT {call} FROM {empty} AND t.k = o.k"
            query = f"SELECT ({inner}) FROM (VALUES (1)) AS o(k)"
            found.add(cursor.execute(query).fetchall()[0][0])
    return found


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_a_declared_value_is_the_evaluated_one(name: str) -> None:
    expected = {NoRows.ZERO: 0, NoRows.NULL: None}[AGGREGATES[name].no_rows]
    assert values_of_no_rows(name) == {expected}


def test_values_that_plans_have_without_an_evaluation() -> None:
    assert {"any_value", "avg", "count", "count_star", "max", "min", "sum"} <= DECLARED
