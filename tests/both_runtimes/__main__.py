"""Everything that both runtimes can do, on both: values, types, order, errors.

    python -m tests.both_runtimes [edges | matrix | lifted | slt | generated | tpch | streams] [SECONDS] [SEED]

Without a name all parts run once; `SECONDS` is for the random ones (matrix, generated), which begin at `SEED`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from tests.both_runtimes import expressions, queries, streams, tpch
from tests.both_runtimes.pair import Pair
from tests.both_runtimes.random_rows import random_columns
from tests.rendering import aggregate_cases, spark_engine
from tests.rendering.function_cases import all_cases
from tests.snapshots.goldens import SLT, collected

ROWS = 300


class Run:
    """Counts what is compared, and prints what is otherwise."""

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        self.folder = folder
        self.seconds = seconds
        self.seed = seed
        self.pair = Pair()
        self.failed = 0

    def say(self, found: object) -> None:
        self.failed += 1
        print(found, flush=True)

    def edges(self) -> None:
        """The function matrix and the aggregates over edge values."""
        for found in (*spark_engine.mismatches(failing=10_000), *spark_engine.aggregate_mismatches(failing=10_000)):
            self.say(found)
        print(f"edges: {len(all_cases())} functions, {len(aggregate_cases.all_cases())} aggregates, of which Spark gets a part")

    def matrix(self) -> None:
        """The function matrix over random rows, with code that Spark makes."""
        end, seed, count = time.monotonic() + self.seconds, self.seed, 0
        while True:
            sheet = expressions.Sheet(self.pair.ours, random_columns(seed, ROWS), cached=seed % 2 == 0)
            cases = expressions.of_matrix(sheet.names)
            for found in expressions.differences(cases, sheet, 2, 400):
                self.say(f"seed {seed}: {found}")
            sheet.close()
            seed, count = seed + 1, count + len(cases)
            if time.monotonic() >= end:
                break
        print(f"matrix: {len(cases)} cases over {count // len(cases)} sheets of {ROWS} random rows; next seed {seed}")

    def lifted(self) -> None:
        """The expressions of the .slt files, their constants in columns."""
        lifted = expressions.Lifted()
        for path in sorted(SLT.glob("*.slt")):
            lifted.add(path)
        cases = lifted.cases()
        for cached in (False, True):
            sheet = expressions.Sheet(self.pair.ours, lifted.columns, cached=cached)
            for found in expressions.differences(cases, sheet, 1, 10_000):
                self.say(found)
            sheet.close()
        print(f"lifted: {len(cases)} of {len(lifted.expressions)} expressions run in Spark, too")

    def slt(self) -> None:
        """The queries of the .slt files over tables."""
        no_twin: list[str] = []
        count = 0
        pair = self.pair
        for path in sorted(SLT.glob("*.slt")):
            asked = queries.of_file(path, self.folder)
            count += len(asked)
            for found in queries.differences(pair, asked, no_twin):
                self.say(found)
            print(
                f"slt, up to {path.stem}: {count} queries: {pair.on_spark} with a part on Spark ({pair.failed_alike} fail on "
                f"both), {pair.own} without, {len(no_twin)} over tables that Spark can't hold",
                flush=True,
            )

    def generated(self) -> None:
        """Random queries over random tables."""
        end, seed, before = time.monotonic() + self.seconds, self.seed, self.pair.on_spark
        while True:
            for found in queries.generated(self.pair, seed, 25):
                self.say(found)
            seed += 1
            if time.monotonic() >= end:
                break
        print(f"generated: {self.pair.on_spark - before} queries with a part on Spark; next seed {seed}")

    def tpch(self) -> None:
        """All queries of TPC-H."""
        for found in tpch.differences(self.pair, self.folder / "tpch"):
            self.say(found)
        print("tpch: 22 queries")

    def streams(self) -> None:
        """Every streaming golden."""
        bench = streams.Streams(self.pair.session, self.folder / "streams")
        (self.folder / "goldens").mkdir()
        for found in streams.differences(bench, chain(streams.of_windows(), collected(self.folder / "goldens", ""))):
            self.say(found)
        bench.close()
        print(f"streams: {bench.agreed} goldens agreed ({bench.rows} rows), {bench.refused.total()} Spark can't run")
        for why, count in bench.refused.most_common():
            print(f"  {count} x {why}")


def main(arguments: list[str]) -> int:
    """The command line."""
    names = [item for item in arguments if not item.replace(".", "").isdigit()]
    numbers = [float(item) for item in arguments if item.replace(".", "").isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), *(numbers + [0.0, 0][len(numbers) :]))  # type: ignore[arg-type]
        run.seed = int(run.seed)
        parts: dict[str, Callable[[], None]] = {
            name: getattr(run, name) for name in ("edges", "matrix", "lifted", "slt", "generated", "tpch", "streams")
        }
        for name, part in parts.items():
            if not names or name in names:
                began = time.monotonic()
                part()
                print(f"  {time.monotonic() - began:.0f} s", flush=True)
        run.pair.close()
    print(f"{run.failed} differences")
    return min(run.failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
