"""Windows with next to no memory: they give what they give with plenty, and hold nothing
afterwards."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.errors import OperationalError
from runnel.expressions.nodes import AggregateCall, SortKey
from runnel.processors.over.window import window
from runnel.relation.over import UP_TO_PEERS, WHOLE_PARTITION, WindowCall
from runnel.sqltypes import BIGINT
from runnel.storage.memory_budget import Memory
from runnel.testing import verify_processor
from tests.processors.random_tables import columns_of, duckdb_rows, fields_of, random_table

QUICK: dict[str, Any] = {"row_by_row": False, "snapshots": False, "ordered": False}


def number(partition: tuple[Any, ...], *order: Any) -> WindowCall:
    call = AggregateCall(function="row_number", arguments=(), type=BIGINT)
    return WindowCall(
        call=call, partition=partition, order=tuple(map(SortKey, order)), frame=UP_TO_PEERS
    )


def total(partition: tuple[Any, ...], value: Any, *order: Any) -> WindowCall:
    call = AggregateCall(function="sum", arguments=(value,), type=BIGINT)
    frame = UP_TO_PEERS if order else WHOLE_PARTITION
    return WindowCall(call=call, partition=partition, order=tuple(map(SortKey, order)), frame=frame)


def test_rows_are_divided_by_what_all_calls_partition_by() -> None:
    table = random_table(5, 3000, "ifsn")
    i, f, s, n = columns_of(table).values()
    calls = (number((f, s), n), total((i, f), n, n), total((f,), n))
    sql = """SELECT i, f, s, ROW_NUMBER() OVER (PARTITION BY f, s ORDER BY n),
        CAST(SUM(n) OVER (PARTITION BY i, f ORDER BY n) AS BIGINT),
        CAST(SUM(n) OVER (PARTITION BY f) AS BIGINT) FROM (SELECT i, f + 0 AS f, s, n FROM t)"""
    memory = Memory(300_000)
    supplier = window(calls, 3, ("i", "f", "s", "a", "b", "c"))
    verify_processor(
        supplier,
        [table.to_batches(max_chunksize=500)],
        duckdb_rows(sql, t=table),
        memory=memory,
        **QUICK,
    )
    assert memory.spilled_bytes
    assert memory.used == 0


def test_calls_with_nothing_in_common_take_turns() -> None:
    table = pa.table(
        {
            "a": [v % 200 for v in range(4000)],
            "b": [v * 7 % 150 for v in range(4000)],
            "n": range(4000),
        }
    )
    a, b, n = columns_of(table).values()
    calls = (total((a,), n, n), number((b,), n), number((a, b), n), total((b,), n))
    sql = """SELECT a, b, n, CAST(SUM(n) OVER (PARTITION BY a ORDER BY n) AS BIGINT),
        ROW_NUMBER() OVER (PARTITION BY b ORDER BY n),
        ROW_NUMBER() OVER (PARTITION BY a, b ORDER BY n),
            CAST(SUM(n) OVER (PARTITION BY b) AS BIGINT) FROM t"""
    memory = Memory(150_000)
    supplier = window(calls, 3, ("a", "b", "n", "v", "w", "x", "y"))
    verify_processor(
        supplier,
        [table.to_batches(max_chunksize=500)],
        duckdb_rows(sql, t=table),
        memory=memory,
        **QUICK,
    )
    assert memory.spilled_bytes > 2 * table.nbytes
    assert memory.used == 0


@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_few_rows_stay_in_memory(rows: int) -> None:
    table = pa.table(
        {
            "a": pa.array([v % 3 for v in range(rows)], pa.int64()),
            "n": pa.array(range(rows), pa.int64()),
        }
    )
    a, n = columns_of(table).values()
    memory = Memory(10_000_000)
    wanted = duckdb_rows(
        "SELECT a, n, ROW_NUMBER() OVER (PARTITION BY a ORDER BY n) FROM t", t=table
    )
    inputs = [table.to_batches(max_chunksize=500)]
    verify_processor(
        window((number((a,), n),), 2, ("a", "n", "r")), inputs, wanted, memory=memory, **QUICK
    )
    assert (memory.spilled_bytes, memory.used) == (0, 0)


@pytest.mark.parametrize("with_key", [False, True])
def test_one_partition_that_is_too_large_where_duckdb_is_not_at_hand(with_key: bool) -> None:
    table = pa.table({"a": [1] * 4000, "n": range(4000)})
    a, n = columns_of(table).values()
    supplier = window(
        (total((a,) if with_key else (), n, n),), 2, ("a", "n", "t"), None, fields_of(table)
    )
    memory = Memory(100_000)
    with pytest.raises(
        OperationalError,
        match=r"one partition of SUM.* need more than the memory_limit of 100,000 bytes",
    ):
        verify_processor(
            supplier, [table.to_batches(max_chunksize=500)], [], memory=memory, **QUICK
        )
    assert memory.used == 0


ROWS = 1_000_000
SERIES = (
    f"(SELECT v, v * 7919 % {ROWS} AS k, v % 100 AS g "
    f"FROM TABLE(GENERATE_SERIES(1, {ROWS})) AS s(v)) AS t"
)
LARGE = {
    "no column": (
        f"SELECT SUM(a), MAX(b) FROM (SELECT ROW_NUMBER() OVER () a, COUNT(*) OVER () b "
        f"FROM TABLE(GENERATE_SERIES(1, {ROWS})))",
        (ROWS * (ROWS + 1) // 2, ROWS),
    ),
    "no partition": (
        (
            "SELECT SUM(a - k), SUM(b), COUNT(*) FROM (SELECT k, "
            "ROW_NUMBER() OVER (ORDER BY k) a, LAG(k) OVER (ORDER BY k) b "
            f"FROM {SERIES})"
        ),
        (ROWS, (ROWS - 1) * (ROWS - 2) // 2, ROWS),
    ),
    "one partition": (
        (
            "SELECT SUM(a - k), COUNT(*) FROM (SELECT k, "
            f"RANK() OVER (PARTITION BY v < 0 ORDER BY k) a FROM {SERIES})"
        ),
        (ROWS, ROWS),
    ),
    "with and without partition": (
        f"SELECT MAX(a), SUM(b - k) FROM (SELECT k, COUNT(*) OVER (PARTITION BY g) a, "
        f"RANK() OVER (ORDER BY k) b FROM {SERIES})",
        (ROWS // 100, ROWS),
    ),
    "what DuckDB computes otherwise, beside it": (
        f"SELECT MAX(a), SUM(b - k) FROM (SELECT k, "
        f"STRING_AGG(DISTINCT g || '', ',' ORDER BY g || '') OVER (PARTITION BY g) a, "
        f"RANK() OVER (ORDER BY k) b FROM {SERIES})",
        ("99", ROWS),
    ),
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_rows_that_cannot_be_divided(name: str) -> None:
    query, wanted = LARGE[name]
    with runnel.connect(memory_limit="100MB", pushdown="off") as con:
        assert con.execute(query).fetchall() == [wanted]
        assert con._database.memory.used == 0
        assert con._database.kernel().is_open
