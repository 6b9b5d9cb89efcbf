"""Everything that both runtimes can do, on both: values, types, order, errors.

    python -m tests.both_runtimes [PART[:WORD] …] [SECONDS] [SEED]

The parts are tpch, streams, edges, matrix, lifted, slt and generated; all of them without a name. A
WORD leaves of slt and lifted the files, of tpch the queries whose names have it, of streams those
of a kind ("windows", "NEXMark", "lists", "slt", or a file), after one more colon those whose names
have the rest. Each part tells how much it compared, what differed, and why the rest isn't to be had
on Spark. SECONDS is for the random ones (matrix, generated), which begin at SEED.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from itertools import chain, count
from pathlib import Path

from benchmarks.tpch import QUERIES
from tests.both_runtimes import edges, expressions, queries, streams, tpch
from tests.both_runtimes.pair import Pair
from tests.both_runtimes.random_rows import random_columns
from tests.both_runtimes.tally import Tally
from tests.both_runtimes.workers import shared_out
from tests.rendering import aggregate_cases, edge_table, spark_engine
from tests.snapshots.goldens import SLT, Golden, collected
from tests.spark_process import INTERPRETED

ROWS = 300
THREADS = 2
STREAMS = 3
"""A streaming query waits more than it works."""


class Run:
    """One run of some parts. Prints what differs as it is found, and each part's counts."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.folder = Path()
        self.seconds = seconds
        self.seed = seed
        self.failed = 0
        self._stack = ExitStack()

    def part(self, name: str, word: str) -> None:
        """One part by its name."""
        began, tally = time.monotonic(), Tally()
        run: Callable[[Tally, str], str] = getattr(self, name)
        with tempfile.TemporaryDirectory() as folder, ExitStack() as self._stack:
            self.folder = Path(folder)
            added = run(tally, word)
        for line in tally.lines(name):
            print(line)
        print(f"  {added}; {time.monotonic() - began:.0f} s", flush=True)

    def _say(self, tally: Tally, found: Iterable[object]) -> None:
        for item in found:
            self.failed += 1
            tally.differed += 1
            print(item, flush=True)

    def _pairs(self, tally: Tally, *, interpreted: bool) -> list[Pair]:
        settings = INTERPRETED if interpreted else {}
        return [self._stack.enter_context(closing(Pair(tally, settings))) for _ in range(THREADS)]

    def tpch(self, tally: Tally, word: str) -> str:
        """All queries of TPC-H."""
        numbers = [number for number in QUERIES if word in f"q{number:02}"]
        for number, found in tpch.differences(
            self._pairs(tally, interpreted=False), self.folder / "tpch", numbers
        ):
            self._say(tally, found)
            print(f"tpch, query {number}: {'differs' if found else 'the same'}", flush=True)
        return f"TPC-H at scale {tpch.SCALE}, each query as a whole on Spark"

    def streams(self, tally: Tally, word: str) -> str:
        """Every streaming golden."""
        (self.folder / "goldens").mkdir()
        kind, _, rest = word.partition(":")
        windows = streams.of_windows() if kind in ("", "windows") else ()
        goldens: Iterable[Golden] = (
            () if kind == "windows" else collected(self.folder / "goldens", kind)
        )
        chosen = (golden for golden in chain(windows, goldens) if rest in golden.name)
        workers = [streams.Streams(self.folder / f"streams {i}", tally) for i in range(STREAMS)]
        for worker in workers:
            self._stack.enter_context(closing(worker))
        for number, (name, found) in enumerate(streams.differences(workers, chosen), 1):
            self._say(tally, [] if found is None else [found])
            if number % 25 == 0:
                print(
                    f"streams, up to {name}: compared {tally.compared}, left {tally.left.total()}",
                    flush=True,
                )
        return f"{sum(worker.rows for worker in workers)} rows came from Spark"

    def edges(self, tally: Tally, word: str) -> str:
        """The function matrix and the aggregates over edge values."""
        sheets = [
            expressions.Sheet(expressions.own_session(), edge_table.arrays(), cached=False)
            for _ in range(THREADS)
        ]
        self._say(tally, edges.of_functions(tally, sheets))
        functions = tally.compared
        sessions = [sheet.session for sheet in sheets]
        for session in sessions:
            spark_engine._view(session, "groups", aggregate_cases.engine_table())
        self._say(tally, edges.of_aggregates(tally, sessions))
        return (
            f"{functions} functions and casts over {edge_table.ROWS} rows, "
            f"{tally.compared - functions} aggregates"
        )

    def matrix(self, tally: Tally, word: str) -> str:
        """The function matrix over random rows."""
        end, session = time.monotonic() + self.seconds, expressions.own_session()
        for seed in count(self.seed):
            sheet = expressions.Sheet(session, random_columns(seed, ROWS), cached=seed % 2 == 0)
            cases = expressions.of_matrix(sheet.names, tally if seed == self.seed else None)
            found = expressions.differences(cases, sheet, 2, 400, tally)
            self._say(tally, (f"seed {seed}: {item}" for item in found))
            sheet.close()
            if (
                time.monotonic() >= end and seed > self.seed
            ):  # code that Spark makes, and its interpreter
                break
        return f"{len(cases)} cases over sheets of {ROWS} random rows, seeds {self.seed} to {seed}"

    def lifted(self, tally: Tally, word: str) -> str:
        """The expressions of the .slt files, their constants in columns."""
        lifted = expressions.Lifted()
        for path in sorted(SLT.glob("*/*.slt")):
            if word in path.stem:
                lifted.add(path)
        cases, session = lifted.cases(tally), expressions.own_session()
        for cached in (False, True):
            sheet = expressions.Sheet(session, lifted.columns, cached=cached)
            self._say(tally, expressions.differences(cases, sheet, 1, 10_000, tally))
            sheet.close()
        return (
            f"{len(cases)} of {len(lifted.expressions)} expressions, by Spark's interpreter and by "
            "code that it makes"
        )

    def slt(self, tally: Tally, word: str) -> str:
        """The queries of the .slt files over tables."""
        paths = [path for path in sorted(SLT.glob("*/*.slt")) if word in path.stem]
        for place, found in queries.of_files(
            self._pairs(tally, interpreted=True), paths, self.folder
        ):
            self._say(tally, found)
            print(f"slt, {place}: compared {tally.compared}, left {tally.left.total()}", flush=True)
        return f"{len(paths)} files"

    def generated(self, tally: Tally, word: str) -> str:
        """Random queries over random tables."""
        end, pairs = time.monotonic() + self.seconds, self._pairs(tally, interpreted=False)
        seeds: list[int] = []

        def next_seeds() -> Iterable[int]:
            while not seeds or time.monotonic() < end:
                seeds.append(self.seed + len(seeds))
                yield seeds[-1]

        for found in shared_out(next_seeds(), pairs, queries.generated):
            self._say(tally, found)
        return f"seeds {seeds[0]} to {seeds[-1]}"


PARTS = ("tpch", "streams", "edges", "matrix", "lifted", "slt", "generated")


def main(arguments: list[str]) -> int:
    """The command line."""
    warnings.simplefilter("ignore")
    names = [item for item in arguments if not item.replace(".", "").isdigit()]
    unknown = [item for item in names if item.partition(":")[0] not in PARTS]
    if unknown:
        print(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
        return 2
    seconds, seed = [*(float(item) for item in arguments if item not in names), 0.0, 0.0][:2]
    began = time.monotonic()
    run = Run(seconds, int(seed))
    for name in names or PARTS:
        part, _, word = name.partition(":")
        run.part(part, word)
    print(f"{run.failed} differences; {time.monotonic() - began:.0f} s in all")
    return min(run.failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
