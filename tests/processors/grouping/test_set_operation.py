"""INTERSECT and EXCEPT, compared with DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.errors import OperationalError
from runnel.processors.grouping.set_operation import set_operation
from runnel.testing import verify_processor
from tests.processors.random_tables import duckdb_rows, random_table

QUICK: dict[str, Any] = {"ordered": False, "row_by_row": False}


@pytest.mark.parametrize("operation", ["intersect", "except"])
@pytest.mark.parametrize("is_all", [False, True])
@pytest.mark.parametrize("columns", ["i", "f", "sb", "l", "rd"])
@pytest.mark.parametrize(
    ("sizes", "priorities"),
    [
        ((40, 30), (0, 1)),
        ((40, 30), (0, 0)),
        ((30, 40), (1, 0)),
        ((0, 10), (0, 1)),
        ((10, 0), (0, 1)),
    ],
)
def test_agrees_with_duckdb(
    operation: str, is_all: bool, columns: str, sizes: tuple[int, int], priorities: tuple[int, int]
) -> None:
    left, right = random_table(1, sizes[0], columns), random_table(2, sizes[1], columns)
    positive = ", ".join(
        f"CASE WHEN {c} = 0 THEN 0 ELSE {c} END" if c in "fr" else c for c in columns
    )
    sql = f"SELECT {positive} FROM l {operation} {'ALL' if is_all else ''} SELECT {positive} FROM r"
    wanted = duckdb_rows(sql, l=left, r=right)
    inputs = [left.to_batches(max_chunksize=11), right.to_batches(max_chunksize=7)]
    verify_processor(
        set_operation(operation, is_all), inputs, wanted, priorities=priorities, **QUICK
    )


def test_too_many_rows() -> None:
    table = random_table(1, 20, "n")
    with pytest.raises(OperationalError, match="would hold more than 10 rows"):
        inputs = [table.to_batches(), []]
        verify_processor(set_operation("except", False), inputs, [], accumulation_limit=10, **QUICK)
