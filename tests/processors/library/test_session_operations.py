"""Sessions with user-defined operations: equal to the ones of built-in operations."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, between
from runnel.processors.library import (
    AggregateOperation,
    aggregate_by_session,
    counting,
    insert_watermarks,
    sink_to_list,
    source_of,
    summing,
)
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.jobs.named import PATIENCE
from tests.processors.library.test_windows import OPERATIONS, by_sql, trades


def found_with(
    kind: str, table: pa.Table, gap: Any, lag: Any, parallelism: int
) -> tuple[list[Any], int]:
    """The rows, and the number of late rows."""
    result: list[pa.RecordBatch] = []
    dag = DAG()
    rows = dag.vertex("rows", source_of(table.to_batches(max_chunksize=5)), 1)
    order = dag.vertex("order", insert_watermarks("t", lag=lag), 1)
    step = aggregate_by_session("ticker", time="t", gap=gap, **OPERATIONS[kind])
    sessions = dag.vertex("sessions", step, parallelism)
    dag.edge(between(rows, order)).edge(between(order, sessions).partitioned("ticker"))
    dag.edge(between(sessions, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        job = connection.submit(dag)
        job.join(PATIENCE)
        late = job.metrics()["sessions"].late_rows
    return sorted(rows_of(result), key=repr), late


@pytest.mark.parametrize("seed", some(range(24), 6))
def test_own_operations_have_the_sessions_of_built_in_ones(seed: int) -> None:
    random = Random(seed)
    is_integer = random.random() < 0.5
    table = trades(seed, 120, is_integer=is_integer, nulls=True)
    unit: Any = 1 if is_integer else timedelta(seconds=1)
    arguments = (unit * random.randrange(1, 4), unit * random.randrange(4), random.choice((1, 3)))
    expected, late = found_with("sql", table, *arguments)
    assert found_with("own", table, *arguments) == (expected, late)
    assert len(expected) > 5


def test_rows_are_late_in_some_of_these_tables() -> None:
    table = trades(0, 120, is_integer=True)
    found, late = found_with("own", table, 1, 0, 3)
    assert late > 0
    assert sum(row[-1] for row in found) == 120 - late


@pytest.mark.parametrize("keys", [("ticker",), ()], ids=["keyed", "global"])
def test_snapshots_at_each_point(keys: tuple[str, ...]) -> None:
    table = trades(5, 24, is_integer=True, nulls=True)
    step = aggregate_by_session(*keys, time="t", gap=1, **OPERATIONS["own"])
    by = "PARTITION BY ticker" if keys else ""
    expected = by_sql(
        table, f"SESSION(TABLE trades {by}, DESCRIPTOR(t), 1)", "ticker, " if keys else ""
    )
    batches = table.to_batches(max_chunksize=4)
    verify_processor(step, [batches], expected, ordered=False, row_by_row=True)


def test_an_end_out_of_range() -> None:
    rows = pa.record_batch({"t": pa.array([2**63 - 2]), "v": pa.array([1])})
    own = AggregateOperation(
        create=int, accumulate=lambda n, rows: n + 1, combine=max, export=lambda n: n
    )
    for operation in (own, summing("v"), counting()):
        step = aggregate_by_session(time="t", gap=5, n=operation)
        with pytest.raises(runnel.DataError, match="out of the range of BIGINT"):
            verify_processor(step, [[rows]], [])
