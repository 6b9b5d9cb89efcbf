"""The rounds of `make fuzz`: a few of the quick ones, and what is said of a round that finds
something."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.torture import fuzz


@pytest.mark.parametrize("part", ["statements", "sets"])
def test_a_round_finds_nothing_and_counts(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "STATEMENTS", 20)
    monkeypatch.setattr(fuzz, "QUERIES", 5)
    with fuzz.Fuzzer() as fuzzer:
        assert fuzzer.round(part, 3) == []
        assert fuzzer.counts == {part: 1}
        assert fuzzer.outcomes.total() == (20 if part == "statements" else 0)


def test_a_difference_is_printed_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(self: fuzz.Fuzzer, seed: int) -> Iterator[str]:
        if seed == 8:
            yield "something differs"

    monkeypatch.setattr(fuzz.Fuzzer, "_queries", wrong)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--parts", "queries", "--seed", "7", "--rounds", "2"])
    assert fuzz.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["queries, seed 7: nothing", "something differs"]
    assert lines[2] == "repeat: python -m tests.torture.fuzz --parts queries --seed 8 --rounds 1"
    assert lines[3].startswith("1 rounds with differences; rounds queries 2")


def test_so_many_statements_are_rounds_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(
        fuzz.Fuzzer, "_statements", lambda self, seed: iter(seeds.append(seed) or ())
    )
    monkeypatch.setattr(sys, "argv", ["fuzz", "--statements", "500", "--seed", "4"])
    assert fuzz.main() == 0
    assert seeds == [4, 5, 6]
    assert "rounds statements 3" in capsys.readouterr().out
