"""Into how many processors a step is divided: as many as were asked for, where there are rows for
them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import runnel


def processors(connection: runnel.Connection, sql: str) -> dict[str, int]:
    """The number of processors of each vertex, as EXPLAIN ANALYZE tells it."""
    lines = [row[0] for row in connection.execute(f"EXPLAIN ANALYZE {sql}").fetchall()]
    cells = [line.split("  ") for line in lines[2:-1]]
    return {parts[0]: int(next(item for item in parts[1:] if item)) for parts in cells}


@pytest.mark.parametrize(
    ("rows", "given", "used"),
    [(100, 3, 3), (100, 8, 8), (100, 64, 8), (20_000, 64, 20), (70_000, 64, 64)],
)
def test_no_more_processors_than_rows_can_use(rows: int, given: int, used: int) -> None:
    with runnel.connect(query_parallelism=given, pushdown=False) as connection:
        table = pa.table({"a": list(range(rows))})
        connection.register(
            "t", pa.Table.from_batches(table.to_batches(max_chunksize=max(1, rows // 64)))
        )
        found = processors(connection, "SELECT a, COUNT(*) FROM t GROUP BY a")
        assert found["accumulate"] == found["combine"] == used
        rows_out = connection.execute("SELECT a, COUNT(*) FROM t GROUP BY a").fetchall()
        assert sorted(rows_out) == [(i, 1) for i in range(rows)]
