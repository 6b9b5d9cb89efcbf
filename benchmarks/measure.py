"""Measurement: contestants take turns, round by round, so that a change of the machine's speed
affects all of them equally."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to do the work.

    name: its name in the results.
    run: does the work `calls` times.
    calls: the number by which the time of `run` is divided.
    """

    name: str
    run: Callable[[], object]
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call: the median over the rounds, the fastest and the slowest."""

    name: str
    median: float
    fastest: float
    slowest: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum time of the first contestant, as a multiple of the time of `against`."""

    against: str
    ratio: float


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """The maximum time of the first contestant in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one benchmark: the timings of all contestants, Runnel's first, and the
    budget."""

    title: str
    note: str
    timings: tuple[Timing, ...]
    budget: Budget | TimeBudget | None = None

    @property
    def ratio(self) -> float | None:
        """Runnel's median time as a multiple of the median time of the budget's contestant."""
        if not isinstance(self.budget, Budget):
            return None
        other = next(timing for timing in self.timings if timing.name == self.budget.against)
        return self.timings[0].median / other.median

    @property
    def is_met(self) -> bool | None:
        if isinstance(self.budget, TimeBudget):
            return self.timings[0].median <= self.budget.seconds
        return (
            None if self.budget is None or self.ratio is None else self.ratio <= self.budget.ratio
        )

    @property
    def verdict(self) -> str | None:
        """The budget, the measured value, and whether the budget was met, as a sentence."""
        outcome = "kept" if self.is_met else "**missed**"
        if isinstance(self.budget, TimeBudget):
            return (
                f"Budget: ≤ {spelled(self.budget.seconds)}; seen "
                f"{spelled(self.timings[0].median)}: {outcome}."
            )
        if self.budget is not None and self.ratio is not None:
            return (
                f"Budget: ≤ {self.budget.ratio} of {self.budget.against}; seen {self.ratio:.3g}: "
                f"{outcome}."
            )
        return None


def measure(
    title: str,
    contestants: Sequence[Contestant],
    *,
    rounds: int = 7,
    note: str = "",
    budget: Budget | TimeBudget | None = None,
) -> Result:
    """Runs all contestants once to warm up, then in turn for `rounds` rounds."""
    for contestant in contestants:
        contestant.run()
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(rounds):
        for contestant in contestants:
            gc.collect()
            start = perf_counter_ns()
            answer = contestant.run()
            seconds[contestant.name].append((perf_counter_ns() - start) / 1e9 / contestant.calls)
            del answer  # the time to free a million rows does not count
    timings = tuple(
        Timing(name, median(all_), min(all_), max(all_), rounds) for name, all_ in seconds.items()
    )
    return Result(title, note, timings, budget)


def spelled(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return (
                f"{seconds / size:,.3g} {unit}"
                if seconds / size < 100
                else f"{seconds / size:,.0f} {unit}"
            )
    return f"{seconds / 1e-9:.0f} ns"
