"""Runs everything that makes its cases by chance, as long as it is told: generated queries, changed
statements and messages.

    python -m tests.torture.fuzz [--minutes M] [--seed S] [--rounds N]
        [--parts queries,statements,…]
    python -m tests.torture.fuzz --statements 100000
    python -m tests.torture.fuzz --frames 100000

A round is one part with one seed; the parts take turns. What differs is printed with the command
that repeats its round. One that does not end in time is a failure too: the stacks of all threads
are printed, and the process ends. `--statements` and `--frames` give so many changed statements or
messages, and count what the answers were.
"""

from __future__ import annotations

import argparse
import faulthandler
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any

import runnel
from tests.bad_input import test_fuzz
from tests.differential import test_generated, test_grouping_sets, test_windows
from tests.differential.correlated import CorrelatedGenerator
from tests.differential.generator import Generator
from tests.differential.one_sided import OneSidedGenerator
from tests.fragments import test_generated_on_duckdb
from tests.serving import frames
from tests.streams.random_queries import generated as streams
from tests.streams.random_queries import late_generated

PATIENCE = 600.0
"""Seconds that a round may take."""
QUERIES = 50
STATEMENTS = 200
FRAMES = 2000


class Fuzzer:
    """The parts, by name: each gives what is wrong in the round of a seed, and counts what it did.
    Use as a context."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        """What changed statements and messages were answered with."""
        self._stack = ExitStack()
        self.parts: dict[str, Callable[[int], Iterator[str]]] = {
            "queries": self._queries,
            "correlated": self._correlated,
            "windows": self._windows,
            "sets": self._sets,
            "duckdb": lambda seed: self._on_duckdb(seed, Generator),
            "sides": lambda seed: self._on_duckdb(seed, OneSidedGenerator),
            "streams": self._streams,
            "late": self._late,
            "statements": self._statements,
            "frames": self._frames,
        }
        if shutil.which("java"):
            self.parts["runtimes"] = self._runtimes

    def __enter__(self) -> Fuzzer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self, part: str, seed: int) -> list[str]:
        """What is wrong in one round."""
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)
        try:
            found = list(self.parts[part](seed))
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.counts[part] += 1
        return found

    def _queries(self, seed: int) -> Iterator[str]:
        return test_generated.differences(seed, QUERIES, Generator)

    def _correlated(self, seed: int) -> Iterator[str]:
        return test_generated.differences(seed, QUERIES, CorrelatedGenerator)

    def _windows(self, seed: int) -> Iterator[str]:
        return test_windows.differences(seed, QUERIES)

    def _sets(self, seed: int) -> Iterator[str]:
        return test_grouping_sets.differences(seed, QUERIES)

    def _on_duckdb(self, seed: int, make: test_generated_on_duckdb.Make) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            yield from test_generated_on_duckdb.differences(seed, QUERIES, make, Path(folder))

    def _streams(self, seed: int) -> Iterator[str]:
        bench, tally = streams.Bench(), streams.Tally()
        try:
            for case in range(10 * seed, 10 * seed + 10):
                found = streams.tried(bench, case, tally)
                if found is not None:
                    yield found
        finally:
            bench.close()

    def _late(self, seed: int) -> Iterator[str]:
        bench, tally = late_generated.LateBench(), streams.Tally()
        try:
            for case in range(10 * seed, 10 * seed + 10):
                found = late_generated.tried(bench, case, tally)
                if found is not None:
                    yield found
        finally:
            bench.close()

    def _runtimes(self, seed: int) -> Iterator[str]:
        from tests.both_runtimes import queries

        yield from map(str, queries.generated(self._pair, seed))

    @cached_property
    def _pair(self) -> Any:
        from tests.both_runtimes.pair import Pair
        from tests.both_runtimes.tally import Tally

        made = Pair(Tally(), {})
        self._stack.callback(made.close)
        return made

    def _statements(self, seed: int) -> Iterator[str]:
        """Changed statements on a connection of their own."""
        with test_fuzz.connected() as connection:
            yield from test_fuzz.faults(connection, Random(seed), STATEMENTS, self.outcomes)

    def _frames(self, seed: int) -> Iterator[str]:
        """Changed messages to the handlers of a server."""
        with runnel.connect() as connection:
            handlers = frames.Handlers(connection)
            try:
                for message in range(seed * FRAMES, (seed + 1) * FRAMES):
                    try:
                        self.outcomes[frames.tried(handlers, message) or "answered"] += 1
                    except AssertionError as error:
                        yield str(error)
            finally:
                handlers.server.stop()


def _rounds(given: argparse.Namespace, parts: list[str]) -> Iterator[tuple[str, int]]:
    """Parts and seeds, until the time or the number of rounds is over."""
    until = time.monotonic() + 60 * given.minutes
    if given.statements or given.frames:
        part, size = ("statements", STATEMENTS) if given.statements else ("frames", FRAMES)
        number = -(-(given.statements or given.frames) // size)
        yield from ((part, seed) for seed in range(given.seed, given.seed + number))
        return
    turns = cycle(parts)
    for number in count():
        if number >= given.rounds * len(parts) or time.monotonic() > until:
            return
        yield next(turns), given.seed + number // len(parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--rounds", type=int, default=10**9, help="stop after so many of each part")
    parser.add_argument(
        "--seed", type=int, default=1, help="that of the first rounds; the next ones count on"
    )
    parser.add_argument(
        "--parts",
        default="",
        help="the parts to run, with commas between them; all that can be run here",
    )
    parser.add_argument(
        "--statements", type=int, default=0, help="so many changed statements, and nothing else"
    )
    parser.add_argument(
        "--frames", type=int, default=0, help="so many changed messages, and nothing else"
    )
    given = parser.parse_args()
    failed = 0
    with Fuzzer() as fuzzer:
        parts = given.parts.split(",") if given.parts else list(fuzzer.parts)
        unknown = [part for part in parts if part not in fuzzer.parts]
        if unknown:
            parser.error(f"there is no part {unknown[0]}; there are {', '.join(fuzzer.parts)}")
        for part, seed in _rounds(given, parts):
            found = fuzzer.round(part, seed)
            for problem in found:
                print(problem, flush=True)
            if found:
                failed += 1
                print(
                    f"repeat: python -m tests.torture.fuzz --parts {part} --seed {seed} --rounds 1",
                    flush=True,
                )
            else:
                print(f"{part}, seed {seed}: nothing", flush=True)
        print(
            f"{failed} rounds with differences; rounds {_shown(fuzzer.counts)}; answers "
            f"{_shown(fuzzer.outcomes)}"
        )
    return min(failed, 1)


def _shown(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counted.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
