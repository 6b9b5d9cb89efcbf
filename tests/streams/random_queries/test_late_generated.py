"""Random queries with LATE DATA INTO: no row is lost or counted twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.effort import some
from tests.streams.random_queries.late_generated import (
    LateBench,
    Tally,
    arguments,
    case_of,
    missed,
    pairs,
    tried,
)
from tests.streams.random_queries.late_queries import Account

BLOCKS, CASES = 15, 20


@pytest.fixture(scope="module")
def bench() -> Iterator[LateBench]:
    made = LateBench()
    yield made
    made.close()


@pytest.mark.parametrize("block", some(range(BLOCKS), 6))
def test_each_row_is_in_the_results_or_late(bench: LateBench, block: int) -> None:
    tally = Tally()
    before = bench.late_count
    found = [tried(bench, seed, tally) for seed in range(block * CASES, (block + 1) * CASES)]
    assert [item for item in found if item is not None] == []
    assert tally.agreed == CASES
    assert bench.late_count > before


def test_cases_are_of_every_kind() -> None:
    cases = [case_of(seed) for seed in range(BLOCKS * CASES)]
    assert {item.query.account for item in cases} == set(Account)
    assert {item.case.mode for item in cases} == {"scripted", "pushed", "simulated"}
    words = (
        "TUMBLE(",
        "HOP(",
        "CUMULATE(",
        "SESSION(",
        "ROLLUP",
        "CUBE",
        "GROUPING SETS",
        "JOIN m",
        "JOIN u",
        "va",
        "UNION ALL",
        "(2, 3)",
    )
    assert [word for word in words if not any(word in item.query.stream for item in cases)] == []


def test_wrong_accounts_are_seen() -> None:
    rows = [(5, 0, 0, [1, 2]), (7, 0, 0, [1])]
    assert missed([(5, 0, 0, [2]), (7, 0, 0, [1])], rows, {1}) is None
    assert (
        missed([(5, 0, 0, [2]), (7, 0, 0, [1])], rows, set())
        == "missing in a window: [1], late: []"
    )
    assert missed(rows, rows, {1}) is not None
    assert pairs([(1, 2)], [(1, 2), (1, 3)], {3}) is None
    assert pairs([(1, 2)], [(1, 2), (1, 3)], set()) == "pairs lost: [(1, 3)]"
    assert pairs([(1, 2), (1, 2)], [(1, 2)], {1}) == "pairs too much: [(1, 2)]"


def test_how_it_is_called() -> None:
    found = arguments(["--minutes", "0.5", "--seed", "7"])
    assert (found.minutes, found.seed, found.case) == (0.5, 7, None)
