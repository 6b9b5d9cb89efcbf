"""Transfers between accounts, out of order: whatever is emitted, and whenever, the sum over all
accounts is zero."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.streams.scripted_table import ScriptedTable

LAG = 8
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("src", pa.int64()), ("dst", pa.int64()), ("x", pa.decimal128(12, 2))]
)
ENTRIES = {
    "union": (
        "(SELECT ts, src AS account, -x AS delta FROM transfers UNION ALL SELECT ts, dst, x "
        "FROM transfers)"
    ),
    "unnest": "(SELECT ts, u.account, u.delta FROM transfers "
    "CROSS JOIN UNNEST(ARRAY[src, dst], ARRAY[-x, x]) AS u (account, delta))",
}
WINDOWS = {
    "tumbling": "TABLE(TUMBLE({}, DESCRIPTOR(ts), 10))",
    "sliding": "TABLE(HOP({}, DESCRIPTOR(ts), 10, 5))",
    "sliding, uneven": "TABLE(HOP({}, DESCRIPTOR(ts), 11, 4))",
    "cumulating": "TABLE(CUMULATE({}, DESCRIPTOR(ts), 5, 20))",
    "session": "TABLE(SESSION({}, DESCRIPTOR(ts), 2))",
}
TOTAL = "SELECT window_end, SUM(delta), COUNT(*) FROM {} w GROUP BY window_end"
BY_ACCOUNT = (
    "SELECT window_end, SUM(balance), SUM(n) FROM "
    "(SELECT window_end, account, SUM(delta) AS balance, COUNT(*) AS n FROM {} w "
    "GROUP BY window_end, account) b "
    "GROUP BY window_end"
)
ROWS_OF_EACH = {"tumbling": 2, "sliding": 4, "session": 2}


def transfers(rng: random.Random, count: int, disorder: int) -> list[pa.RecordBatch]:
    """Transfers up to `disorder` behind the newest, in batches of any size."""
    time, rows = -40, []
    for _ in range(count):
        time += rng.choice((0, 0, 1, 1, 2, 9))
        amount = Decimal(rng.randint(-10_000, 10_000)) / 100
        rows.append(
            (
                time - rng.randint(0, disorder),
                rng.randint(1, 5),
                rng.choice((None, 1, 2, 3)),
                amount,
            )
        )
    whole = pa.RecordBatch.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )
    batches, at = [], 0
    while at < count:
        size = rng.choice((1, 2, 7, 40))
        batches.append(whole.slice(at, size))
        at += size
    return batches


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def scripted(con: runnel.Connection, scripts: Sequence[Sequence[pa.RecordBatch]]) -> None:
    con._register("transfers", ScriptedTable("transfers", SCHEMA, scripts, EventTime(0, LAG, 0)))


def simulated(con: runnel.Connection, sql: str, seed: int) -> tuple[list[Any], int]:
    """The rows of one order of events, in that order, and how many came too late."""
    plan: Any = con._session.prepare(sql, ())
    simulation = Simulation(plan.dag(2), seed, SimulationOptions(spurious=0.2))
    found = rows_of(simulation.run())
    assert simulation.error is None, simulation.error
    return found, sum(tasklet.counts().late_rows for tasklet in simulation.execution.tasklets)


@pytest.mark.parametrize("query", [TOTAL, BY_ACCOUNT], ids=["total", "by account"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("entries", ENTRIES)
def test_every_result_is_zero(
    con: runnel.Connection, entries: str, window: str, query: str
) -> None:
    sql = query.format(WINDOWS[window].format(ENTRIES[entries]))
    for seed in range(3):
        rng = random.Random(f"{sql} {seed}")
        con.execute(f"SET query_parallelism = {seed + 1}")
        scripts = [transfers(rng, rng.randint(1, 150), LAG) for _ in range(seed + 1)]
        scripted(con, scripts)
        found = con.execute(sql).fetchall()
        assert found
        assert {row[1] for row in found} == {Decimal(0)}
        count = sum(batch.num_rows for script in scripts for batch in script)
        if window in ROWS_OF_EACH:
            assert sum(row[2] for row in found) == ROWS_OF_EACH[window] * count


def test_a_pushed_stream_is_zero_while_it_goes_on(con: runnel.Connection) -> None:
    writer = con.register_stream("transfers", SCHEMA, time_column="ts", max_disorder=LAG)
    cursor = con.execute(TOTAL.format(WINDOWS["tumbling"].format(ENTRIES["unnest"])))
    rng = random.Random(1)
    for start in range(0, 1_000, 10):
        writer.write(
            [
                (start + rng.randint(0, LAG), rng.randint(1, 9), rng.randint(1, 9), Decimal("1.25"))
                for _ in range(20)
            ]
        )
        assert writer.watermark(start + 10)
        assert cursor.fetchone() == (start + 10, Decimal(0), 40)
    writer.close()
    assert cursor.fetchall() == []


@pytest.mark.parametrize("window", [name for name in WINDOWS if name != "session"])
def test_early_results_are_zero(con: runnel.Connection, window: str) -> None:
    table = WINDOWS[window].format(ENTRIES["unnest"])
    sql = (
        f"SELECT window_end, SUM(delta), COUNT(*), window_final FROM {table} w GROUP BY window_end"
    )
    sql += " EMIT EVERY INTERVAL '1' SECOND"
    early = 0
    for seed in some(range(12), 3):
        scripted(
            con, [transfers(random.Random(seed), 60, LAG), transfers(random.Random(-seed), 30, LAG)]
        )
        found, late = simulated(con, sql, seed)
        assert {row[1] for row in found} == {Decimal(0)}
        assert {row[2] % 2 for row in found} == {0}
        assert late == 0
        early += sum(not row[3] for row in found)
        final = [row[0] for row in found if row[3]]
        assert len(final) == len(set(final)), "a window is final once"
    assert early > 0


@pytest.mark.parametrize("lateness", ["", " ALLOWED LATENESS 15"])
@pytest.mark.parametrize("window", ["tumbling", "sliding", "cumulating"])
def test_results_without_and_with_late_transfers_are_zero(
    con: runnel.Connection, window: str, lateness: str
) -> None:
    """Both entries of a transfer are late, or none."""
    sql = TOTAL.format(WINDOWS[window].format(ENTRIES["unnest"])) + lateness
    late = 0
    for seed in some(range(8), 2):
        scripted(con, [transfers(random.Random(seed), 80, 5 * LAG)])
        found, dropped = simulated(con, sql, seed)
        assert {row[1] for row in found} == {Decimal(0)}
        late += dropped
    assert late > 0
