"""Some queries whose answers are written down, as jobs that go on elsewhere;
`python -m tests.snapshots.goldens` runs all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from runnel.processors.time_windows.timed_aggregate import TimedAggregateProcessor
from tests.snapshots.goldens import SLT, Bench, Golden, of_lists, of_nexmark, of_slt


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def check(bench: Bench, goldens: list[Golden]) -> None:
    """All of them agree, and all but a few are stopped twice."""
    assert [found for golden in goldens if (found := bench.difference(golden)) is not None] == []
    assert bench.tally.agreed + bench.tally.refused.total() == len(goldens)
    assert bench.tally.refused.total() <= len(goldens) // 3, bench.tally.refused
    assert bench.tally.restores > 1.8 * bench.tally.agreed


def test_nexmark(bench: Bench) -> None:
    goldens = [
        golden
        for golden in of_nexmark(1_000, events=2_000)
        if golden.name[9:12] in ("q05", "q07", "q08", "q11", "q13")
    ]
    assert len(goldens) > 4
    check(bench, goldens)


@pytest.mark.parametrize(
    ("name", "every"),
    [("joins/asof", 1), ("windows/windows_session", 5), ("windows/windows_hop", 7)],
)
def test_files(bench: Bench, name: str, every: int, tmp_path: Path) -> None:
    check(bench, of_slt(SLT / f"{name}.slt", tmp_path)[::every])


def test_lists(bench: Bench) -> None:
    check(bench, list(islice(of_lists(), 0, None, 11)))


def test_state_that_is_lost_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    goldens = list(islice(of_lists(), 2))
    monkeypatch.setattr(TimedAggregateProcessor, "restore_snapshot", lambda *_: None)
    assert all("rows, not" in (bench.difference(golden) or "") for golden in goldens)
