"""Whole queries on streams, crashed and restored at other parallelisms: nothing lost, nothing
twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.effort import some
from tests.snapshots.crashes import Crashes, Outside, tried
from tests.streams.random_queries.generated import Bench
from tests.streams.random_queries.simulated import held_case

BLOCKS, PLANS = 10, 15


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("block", some(range(BLOCKS), 3))
def test_output_is_that_of_a_run_without_crashes(bench: Bench, block: int) -> None:
    refused: Counter[str] = Counter()
    found = [tried(bench, seed, refused) for seed in range(block * PLANS, (block + 1) * PLANS)]
    assert [message for message, _ in found if message is not None] == []
    assert refused.total() <= 3, refused
    assert sum(restored for _, restored in found) > PLANS // 2


@pytest.mark.parametrize("block", some(range(4), 2))
def test_output_over_tables_is_too(bench: Bench, block: int) -> None:
    """Operators that hold all their input let no snapshot begin before they have ended; what has
    ended isn't run again."""
    refused: Counter[str] = Counter()
    found = [
        tried(bench, seed, refused, over_tables=True)
        for seed in range(block * PLANS, (block + 1) * PLANS)
    ]
    assert [message for message, _ in found if message is not None] == []
    assert sum(restored for _, restored in found) > PLANS // 2


def test_cases_are_of_every_kind() -> None:
    cases = [held_case(seed) for seed in range(BLOCKS * PLANS)]
    words = (
        "HOP(",
        "TUMBLE(",
        "CUMULATE(",
        "SESSION(",
        " OVER (",
        "EXISTS",
        " JOIN ",
        "DISTINCT",
        "UNION",
    )
    assert [word for word in words if not any(word in case.sql.ours for case in cases)] == []
    changes = [Crashes(seed).parallelism for seed in range(BLOCKS * PLANS)]
    assert sum(len(set(item)) > 1 for item in changes) > BLOCKS * PLANS // 2


def test_a_sink_that_commits_twice_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""

    def commit(self: Outside, epoch: int) -> None:
        self.visible.extend(2 * self.staged.pop(epoch, []))

    monkeypatch.setattr(Outside, "commit", commit)
    found = [tried(bench, seed, Counter())[0] for seed in range(20)]
    assert sum(message is not None for message in found) > 5
