"""Whole plans of queries on streams in shuffled orders: the same answer by the watermark alone,
nothing kept, no standstill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from runnel.catalog import EventTime
from runnel.runtime.simulation import Simulation
from tests.streams.random_queries.generated import Bench
from tests.streams.random_queries.random_feeds import batch_of, schema_of
from tests.streams.random_queries.simulated import held_case, kept_by, tried, until_held
from tests.streams.scripted_table import HOLD, ScriptedTable

BLOCKS, PLANS, DICE = 10, 6, 3


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_any_order_of_events_gives_the_same(bench: Bench, block: int) -> None:
    refused: Counter[str] = Counter()
    found = [
        tried(bench, seed, DICE, refused) for seed in range(block * PLANS, (block + 1) * PLANS)
    ]
    assert [message for message, _ in found if message is not None] == []
    assert refused.total() <= 1, refused
    assert sum(steps for _, steps in found) > 100 * PLANS


def test_cases_are_of_every_kind() -> None:
    cases = [held_case(seed) for seed in range(BLOCKS * PLANS)]
    words = ("HOP(", "TUMBLE(", "CUMULATE(", "SESSION(", " OVER (", "EXISTS", " JOIN ", "DISTINCT")
    assert [word for word in words if not any(word in case.sql.ours for case in cases)] == []
    assert {case.parallelism for case in cases} == {1, 2, 3}


def test_rows_that_wait_are_seen(bench: Bench) -> None:
    """Without a watermark that is far on, groups are kept and rows missing: the checks can fail."""
    rows = [(time, 1, "x", 1, 1.0, True, None, time) for time in range(20)]
    bench.streams._register(
        "a",
        ScriptedTable(
            "a", schema_of("bigint"), [(batch_of(rows, "bigint"), HOLD)], EventTime(0, 0, 0)
        ),
    )
    sql = (
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 6)) "
        "GROUP BY window_end"
    )
    plan = bench.streams._session.prepare(sql, ())
    simulation = Simulation(plan.dag(2), 1)  # type: ignore[attr-defined]
    assert sorted(until_held(simulation)) == [(6, 6), (12, 6), (18, 6)]
    assert sum(kept_by(simulation).values()) == 1
    bench.streams.unregister("a")
