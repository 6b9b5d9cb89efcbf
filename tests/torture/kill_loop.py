"""Kills jobs again and again, and compares what their sinks hold with what the same queries give
without.

    python -m tests.torture.kill_loop [--minutes M] [--kills N] [--seed S]
        [--cases window_parquet,join_map] [--results]

A round is a new directory with some of the jobs. Its process is killed by SIGKILL: at a random
moment of its start or its work, or right before a file operation (in the middle of snapshots,
commits and recoveries), and started again, until all jobs have given everything. In some rounds the
process suspends, restarts, drops and makes its jobs meanwhile, and names snapshots. Then each sink
must hold each row once; that of a job that runs at-least-once each row at least once, and no other.
All is drawn from the seed of the round, which a failure prints: with it, the same jobs are killed
at the same operations, and, as near as a clock allows, at the same moments. `--results` puts the
summary into benchmarks/RESULTS.md when no difference was found.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from operator import lt
from pathlib import Path
from random import Random
from typing import Any

import runnel
from tests.torture import cases, growing_files
from tests.torture.growing_files import FOLDER

ROOT = Path(__file__).parents[2]
MOST_KILLS = 14
"""Of one round; then its process is let alone."""
JOBS = 4
"""At once in one process."""
PATIENCE = 180.0
DISTURBED = 0.4
"""The share of rounds in which statements change the jobs."""

TITLE = "### jobs that are killed"

AT_START, AT_WORK, AT_OPERATION = "at the start", "at work", "at a file operation"
KINDS = (AT_START, AT_WORK, AT_WORK, AT_OPERATION, AT_OPERATION)
"""When the process is killed: some time after it was started, some time after its jobs were, before
a file operation."""


class Difference(AssertionError):
    """A sink holds something else than without kills, or a job didn't come to its end."""


@dataclass
class Tally:
    """What was done so far."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    disturbed: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        jobs = ", ".join(f"{name} {count}" for name, count in sorted(self.jobs.items()))
        return (
            f"{self.rounds} rounds ({self.disturbed} with statements), "
            f"{self.kills.total()} kills ({kinds}), "
            f"{self.rows} rows compared; jobs: {jobs}"
        )

    def section(self, minutes: float) -> str:
        """The summary as a section of benchmarks/RESULTS.md."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        runs: dict[str, Counter[str]] = {}
        for name, count in sorted(self.jobs.items()):
            query, sink, *again = name.split("_")
            runs.setdefault(f"{query}, at least once" if again else query, Counter())[sink] += count
        sinks = sorted({sink for counts in runs.values() for sink in counts})
        return "\n".join(
            (
                f"{TITLE}, and what their sinks hold",
                "",
                (
                    f"{self.kills.total()} kills by SIGKILL in {self.rounds} rounds and "
                    f"{minutes:.0f} minutes ({kinds}), each "
                    "followed by a start with perhaps another parallelism; "
                    f"in {self.disturbed} rounds statements came upon the jobs meanwhile. "
                    f"{self.rows:,} rows of the sinks were "
                    "compared with what the same queries give without kills: none was lost, and "
                    "none came twice but where it may. "
                    f"`make torture` does so; seen on {date.today().isoformat()}."
                ),
                "",
                f"| jobs that came through, by query and sink | {' | '.join(sinks)} |",
                f"|---|{'---|' * len(sinks)}",
                *(
                    f"| {query} | {' | '.join(str(counts[sink]) for sink in sinks)} |"
                    for query, counts in runs.items()
                ),
            )
        )


class KillLoop:
    """Rounds over some cases, below `folder`."""

    def __init__(
        self, folder: Path, chosen: Sequence[cases.Case] = cases.CASES, most_kills: int = MOST_KILLS
    ) -> None:
        self._folder = folder
        self._chosen = chosen
        self._most_kills = most_kills
        self.tally = Tally()
        cases.prepare(folder)
        with runnel.connect() as connection:
            for statement in cases.sources(folder, streams=False):
                connection.execute(statement)
            self._expected = cases.expected(
                connection, list({case.query.name: case.query for case in chosen}.values())
            )

    def round(
        self, seed: int, disturbs: bool | None = None, chosen: Sequence[cases.Case] = ()
    ) -> None:
        """One round; Difference if anything is wrong. `disturbs`: whether statements change the
        jobs, `chosen`: which jobs; if they aren't given, it is by chance."""
        random = Random(seed)
        is_disturbed = random.random() < DISTURBED if disturbs is None else disturbs
        chosen = chosen or random.sample(self._chosen, min(JOBS, len(self._chosen)))
        folder = self._folder / f"round-{seed}"
        folder.mkdir()
        for name in ("lines.json", "spoiled.json"):
            shutil.copy(self._folder / name, folder)
        (folder / "wanted.json").write_text(
            json.dumps({name: len(rows) for name, rows in self._expected.items()})
        )
        writer = None
        if any(case.query.grows for case in chosen):
            complete, growing = self._folder / FOLDER, folder / FOLDER
            writer = growing_files.Writer(complete, growing, Random(seed))
        kills = 0
        try:
            while not (folder / "result.json").exists():
                kills += self._run(folder, chosen, random, (kills, is_disturbed))
            self._compare(folder, chosen)
        except Difference as error:
            raise Difference(
                f"seed {seed}, after {kills} kills: {error}\n"
                f"jobs {cases.described(chosen)}; files are in {folder}\n"
                f"replay: python -m tests.torture.kill_loop --seed {seed} --rounds 1"
                f" --cases {cases.described(self._chosen)} --most-kills {self._most_kills}"
            ) from None
        finally:
            if writer is not None:
                writer.stop()
        shutil.rmtree(folder)
        self.tally.rounds += 1
        self.tally.disturbed += is_disturbed
        self.tally.jobs.update(case.name for case in chosen)

    def _run(
        self, folder: Path, chosen: Sequence[cases.Case], random: Random, state: tuple[int, bool]
    ) -> int:
        """Runs the process once, which was killed so often and is disturbed or not; 1 if it was
        killed."""
        kills, is_disturbed = state
        kind = random.choice(KINDS) if kills < self._most_kills else ""
        fault = (
            int(2 ** random.uniform(0, 10 if is_disturbed else 8.5)) if kind == AT_OPERATION else 0
        )
        statements = random.randrange(1, 1 << 30) if is_disturbed else 0
        delay = random.uniform(0, 1.5)
        is_ready = folder / "ready"
        is_ready.unlink(missing_ok=True)
        # Each process has another parallelism, so that state is divided anew.
        arguments = [
            str(folder),
            cases.described(chosen),
            str(random.choice((1, 2, 3))),
            str(fault),
            str(statements),
        ]
        command = [sys.executable, "-m", "tests.torture.worker", *arguments]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while (
            kind == AT_WORK
            and process.poll() is None
            and not is_ready.exists()
            and time.monotonic() < until
        ):
            time.sleep(0.01)  # the other process may die before it could tell anything
        try:
            code = process.wait(delay if kind in (AT_WORK, AT_START) else PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            if kind not in (AT_WORK, AT_START):
                raise Difference(f"not over after {PATIENCE:g} s") from None
            code = -9
        if code == -9 and kind:
            self.tally.kills[kind] += 1
            return 1
        if code != 0:
            raise Difference(
                f"the process ended with code {code}\n"
                + (folder / "log").read_text(errors="replace")[-6000:]
            )
        return 0

    def _compare(self, folder: Path, chosen: Sequence[cases.Case]) -> None:
        result = json.loads((folder / "result.json").read_text())
        for case in chosen:
            for name, found in result["rows"][case.name].items():
                wanted = self._expected[name]
                wrong = (
                    _first_difference(found, wanted)
                    if case.is_exact
                    else _first_missing(found, wanted, case.query.sums)
                )
                if wrong:
                    raise Difference(f"{case.name}, {name}: {wrong}")
                self.tally.rows += len(found)
        for job in result["jobs"]:
            if job["status"] not in ("COMPLETED", "SUSPENDED") or job["last_error"] is not None:
                raise Difference(f"a job failed on the way: {job}")
        if result["traces"]:
            raise Difference(f"left behind: {result['traces']}")


def _first_difference(found: list[Any], wanted: list[Any]) -> str:
    if found == wanted:
        return ""
    lost = Counter(map(tuple, wanted)) - Counter(map(tuple, found))
    more = Counter(map(tuple, found)) - Counter(map(tuple, wanted))
    return (
        f"{len(found)} rows instead of {len(wanted)}; {lost.total()} lost, such as "
        f"{list(lost)[:3]}; "
        f"{more.total()} too many, such as {list(more)[:3]}"
    )


def _first_missing(found: list[Any], wanted: list[Any], sums: int) -> str:
    """What is wrong with the rows of a job that runs at-least-once: rows that are missing, or that
    nobody gave. The last `sums` columns of a row may be greater than they should be."""

    def divided(row: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        place = len(row) - sums
        return tuple(row[:place]), tuple(row[place:])

    greatest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for key, values in map(divided, found):
        greatest[key] = max(greatest.get(key, values), values)
    least = dict(map(divided, wanted))
    missing = [
        key
        for key, values in least.items()
        if key not in greatest or any(map(lt, greatest[key], values))
    ]
    made_up = [key for key in greatest if key not in least]
    if not missing and not made_up:
        return ""
    return (
        f"{len(missing)} of {len(wanted)} rows missing, such as {missing[:3]}; {len(made_up)} made "
        f"up, such as {made_up[:3]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--kills", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--rounds", type=int, default=10**9, help="stop after so many")
    parser.add_argument(
        "--seed", type=int, default=1, help="that of the first round; the next ones count on"
    )
    parser.add_argument(
        "--cases", default=cases.described(cases.CASES), help="the jobs to choose from"
    )
    parser.add_argument("--most-kills", type=int, default=MOST_KILLS, help="of one round")
    parser.add_argument(
        "--results", action="store_true", help="write the summary to benchmarks/RESULTS.md"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="runnel-torture-"))
    loop = KillLoop(folder, cases.named(given.cases), given.most_kills)
    began = time.monotonic()
    until = began + 60 * given.minutes
    seed = given.seed
    while (
        time.monotonic() < until
        and loop.tally.kills.total() < given.kills
        and loop.tally.rounds < given.rounds
    ):
        try:
            loop.round(seed)
        except Difference as error:
            print(error, loop.tally, sep="\n", flush=True)
            return 1
        print(f"seed {seed}: {loop.tally}", flush=True)
        seed += 1
    shutil.rmtree(folder)
    summary = loop.tally.section((time.monotonic() - began) / 60)
    print(summary)
    if given.results:
        write_results(summary)
    return 0


def write_results(summary: str) -> None:
    """Puts the summary in the place of the one that is there."""
    from benchmarks.run import RESULTS, put

    RESULTS.write_text(put(summary, RESULTS.read_text()))


if __name__ == "__main__":
    sys.exit(main())
