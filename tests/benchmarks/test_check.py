"""The comparison of `make bench-check` with stored ratios."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest

from benchmarks import check
from benchmarks.check import BASELINE, Pair, compared, main, pairs


def busy(seconds: float) -> Callable[[], None]:
    def run() -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass

    return run


SLOW = Pair("slow", "peer", busy(0.02), busy(0.002))
EVEN = Pair("even", "peer", busy(0.004), busy(0.004))


def test_only_a_ratio_above_the_tolerance_is_slower(capsys: pytest.CaptureFixture[str]) -> None:
    found, slower = compared(iter([SLOW, EVEN]), {"slow": 2.0, "even": 4.0}, 5)
    assert slower == ["slow"] and found["slow"] > 2.5 > found["even"]
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["peer", "stored", "now", "change"]
    assert first.endswith(" slower") and second.endswith("faster: --write stores it")


def test_only_the_named_ones_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found, slower = compared(iter([SLOW, EVEN]), {}, 1, ["even"])
    assert list(found) == ["even"] and not slower
    assert "slow" not in capsys.readouterr().out


def test_what_is_stored_decides_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(check, "pairs", lambda folder: iter([SLOW]))
    assert main(["--write", "--rounds=1"]) == 0
    stored = json.loads((tmp_path / "baseline.json").read_text("utf-8"))
    assert list(stored) == ["slow"]
    (tmp_path / "baseline.json").write_text('{"slow": 1.0}', "utf-8")
    assert main(["--rounds=1"]) == 1
    assert "slower than in baseline.json by more than 25 %: slow" in capsys.readouterr().out


def test_each_stored_ratio_is_measured(tmp_path: Path) -> None:
    stored = json.loads(BASELINE.read_text("utf-8"))
    assert list(stored) == [pair.name for pair in pairs(tmp_path)]
