"""The points, one line of JSON each, written as soon as they are measured. A run continues after
the points of an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp, inf, log
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Point:
    """One process that ran the query: its figures, or the reason of its failure.

    cold: seconds from the start of the process to the answer.
    warm: seconds of a second run of the query; of the first run if that took long.
    planning: seconds of EXPLAIN.
    cpu: CPU seconds of the process and its Java until the first answer.
    peak, java_peak: maximum memory of the process and of its Java in bytes.
    """

    size: str
    bytes: int
    contestant: str
    round: int
    cold: float = inf
    warm: float = inf
    planning: float = inf
    cpu: float = inf
    peak: int = 0
    java_peak: int = 0
    answer: str = ""
    plan: str = ""
    failure: str = ""


class Points:
    """The points of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all: list[Point] = []
        if path.exists():
            # Only the last line can be incomplete: its point is measured again.
            lines = [line for line in path.read_text("utf-8").split("\n")[:-1] if line]
            self.all = [Point(**json.loads(line)) for line in lines]
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def add(self, point: Point) -> None:
        self.all.append(point)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(point)) + "\n")

    def has(self, size: str, contestant: str, round_: int) -> bool:
        return any(
            (item.size, item.contestant, item.round) == (size, contestant, round_)
            for item in self.all
        )

    def failed(self, contestant: str) -> Point | None:
        """The first failed run of a contestant, or None."""
        return next(
            (item for item in self.all if item.contestant == contestant and item.failure), None
        )


@dataclass(frozen=True)
class Summary:
    """The medians of one contestant at one size over `rounds` runs; 0: no run ended."""

    bytes: int
    rounds: int
    cold: float
    warm: float
    planning: float
    cpu: float
    peak: int
    java_peak: int
    failure: str = ""


def summaries(points: Iterable[Point]) -> dict[tuple[str, str], Summary]:
    """The summaries by size and contestant."""
    grouped: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.size, point.contestant), []).append(point)
    return {key: _summary(items) for key, items in grouped.items()}


def _summary(items: Sequence[Point]) -> Summary:
    done = [item for item in items if not item.failure]
    failure = next((item.failure for item in items if item.failure), "")
    if not done:
        return Summary(items[0].bytes, 0, inf, inf, inf, inf, 0, 0, failure)
    times = [
        median(getattr(item, name) for item in done) for name in ("cold", "warm", "planning", "cpu")
    ]
    peaks = [max(getattr(item, name) for item in done) for name in ("peak", "java_peak")]
    return Summary(items[0].bytes, len(done), *times, *peaks, failure)


def break_even(
    ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]
) -> float | None:
    """The size from which `theirs` is always faster; None if it is slower at the largest size.

    Both arguments are pairs (size, seconds), for the same sizes in ascending order. Between two
    sizes, the logarithms are interpolated linearly.
    """
    pairs = [
        (size, log(mine / other)) for (size, mine), (_, other) in zip(ours, theirs, strict=True)
    ]
    lost = [index for index, (_, gain) in enumerate(pairs) if gain <= 0]
    if not pairs or (lost and lost[-1] == len(pairs) - 1):
        return None
    if not lost:
        return pairs[0][0]
    (small, before), (large, after) = pairs[lost[-1]], pairs[lost[-1] + 1]
    share = -before / (after - before)
    return exp(log(small) + share * (log(large) - log(small)))
