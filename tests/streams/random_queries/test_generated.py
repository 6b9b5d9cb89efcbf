"""Random queries over random streams give what they give over tables, and what DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.effort import some
from tests.streams.random_queries.generated import Bench, Tally, agree, case_of, tried

BLOCKS, CASES = 9, 10
LEAST_SHARE = 0.9
"""So many of the queries must run on streams."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("block", some(range(BLOCKS), 2))
def test_a_stream_that_ends_gives_what_the_tables_give(bench: Bench, block: int) -> None:
    tally = Tally()
    found = [tried(bench, seed, tally) for seed in range(block * CASES, (block + 1) * CASES)]
    assert [item for item in found if item is not None] == []
    assert tally.agreed + tally.refused.total() == CASES
    assert tally.agreed >= LEAST_SHARE * CASES, str(tally)


def test_cases_are_of_every_mode_and_kind() -> None:
    cases = [case_of(seed) for seed in range(BLOCKS * CASES)]
    assert {case.mode for case in cases} == {"scripted", "pushed", "simulated"}
    assert len({case.kind for case in cases}) == 6
    words = (
        "HOP(",
        "TUMBLE(",
        "CUMULATE(",
        "SESSION(",
        "QUALIFY",
        "EXISTS",
        "FULL JOIN",
        "DISTINCT",
        "UNION ALL",
        "ASOF",
    )
    assert [word for word in words if not any(word in case.sql.ours for case in cases)] == []
    assert any(feed.table.num_rows > 1_000 for case in cases for feed in case.feeds.values())


def test_a_wrong_answer_is_seen(bench: Bench) -> None:
    case = next(
        case
        for case in map(case_of, range(1_000))
        if case.sql.ours.startswith("SELECT id, window_start")
    )
    assert bench.difference(case) is None
    wrong = replace(
        case.sql, duckdb=case.sql.duckdb.replace("SELECT id, ", "SELECT id + 1 AS id, ", 1)
    )
    assert bench.difference(replace(case, sql=wrong)) is not None
    assert agree([(1, 2.0), (None, 1.0)], [(None, 1.0 + 1e-12), (1, 2.0)], exact=True)
    assert not agree([(1, 2.0)], [(1, 2.001)], exact=True)
    assert not agree([(1,)], [(1,), (1,)], exact=False)
