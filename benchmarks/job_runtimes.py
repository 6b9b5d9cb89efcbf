"""Finds the number of rows from which a job over Spark's tables runs faster on Spark than on
tasklets: the default of `spark_job_rows`.

    python -m benchmarks.job_runtimes [most rows] [rounds]

Each job is created, joined and dropped on both runtimes in turn, in a running Spark session, with a
sink of TYPE Spark. With tasklets, Spark still runs a part of the query, but its result is sent to
Runnel and back to Spark.

The output has the break-even of each job, and the threshold with the smallest loss over all jobs.
The loss of a threshold is the geometric mean, over all jobs and sizes, of the time on the runtime
that the threshold selects divided by the time on the faster runtime.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from pathlib import Path
from typing import Any

import runnel
from benchmarks.measure import Contestant, Result, Timing, measure
from benchmarks.scale.points import break_even
from benchmarks.spark import has_java, new_session

ROWS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
RUNTIMES = ("tasklets", "spark")
JOBS = {
    "copy": "SELECT id, k, v FROM source WHERE v > 0.125",
    "aggregate": "SELECT MAX(id), k, SUM(v) FROM source GROUP BY k",
    "many groups": "SELECT MIN(id), id / 4 AS k, SUM(v) FROM source GROUP BY id / 4",
    "join": (
        "SELECT s.id, t.k, s.v + t.v FROM source s JOIN source t ON t.id = s.id WHERE s.v > 0.5"
    ),
}


@dataclass(frozen=True)
class Case:
    """One job over one number of rows.

    The fields have the job, the number of rows, and the seconds on each runtime.
    """

    job: str
    rows: int
    tasklets: float
    spark: float

    def on(self, runtime: str) -> float:
        return self.tasklets if runtime == "tasklets" else self.spark

    def loss(self, threshold: float) -> float:
        """The time on the runtime that the threshold selects, divided by the time on the faster
        one."""
        return (self.spark if self.rows >= threshold else self.tasklets) / min(
            self.tasklets, self.spark
        )


def threshold(cases: Sequence[Case]) -> tuple[float, float]:
    """From how many rows on Spark is the better choice by and large, and the mean loss with that. 0
    and infinity are candidates, and the middle between two sizes that were measured."""
    rows = sorted({case.rows for case in cases})
    middles = [exp((log(a) + log(b)) / 2) for a, b in pairwise(rows)]

    def mean(candidate: float) -> float:
        return exp(sum(log(case.loss(candidate)) for case in cases) / len(cases))

    best = min((0.0, *middles, inf), key=mean)
    return best, mean(best)


def crossing(cases: Sequence[Case], job: str) -> float | None:
    """The break-even of one job in rows; None if one runtime is faster at every size."""
    mine = sorted((case for case in cases if case.job == job), key=lambda case: case.rows)
    return break_even(
        [(case.rows, case.tasklets) for case in mine], [(case.rows, case.spark) for case in mine]
    )


def results(rounds: int, most: int = 1_000_000) -> Iterator[Result]:
    """A result for each job and size, and what follows from them; none where there is no Java."""
    if not has_java():
        return
    cases: list[Case] = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        warnings.simplefilter("ignore")
        session = new_session()
        try:
            for rows in (item for item in ROWS if item <= most):
                folder = Path(scratch) / str(rows)
                made = session.range(0, rows, 1, max(1, min(8, rows // 10_000)))
                made.selectExpr("id", "id % 1000 AS k", "rand(1) AS v").write.parquet(
                    f"{folder}/in"
                )
                with runnel.connect(folder / "db", spark=session) as connection:
                    for job, query in JOBS.items():
                        result = _job(connection, folder, job, query, rounds)
                        times = [timing.median for timing in result.timings]
                        cases.append(Case(job, rows, *times))
                        yield result
                shutil.rmtree(folder)
        finally:
            session.stop()
    yield summary(cases)


def _job(connection: runnel.Connection, path: Path, job: str, query: str, rounds: int) -> Result:
    for name, folder in (("source", "in"), ("sink", "out")):
        connection.execute(f"""CREATE MAPPING IF NOT EXISTS {name} (id BIGINT, k BIGINT, v DOUBLE)
            TYPE Spark
            OPTIONS ('format' = 'parquet', 'path' = '{path / folder}')""")
    rows = connection.execute("SELECT COUNT(*) FROM source").fetchall()[0][0]
    contestants = [
        Contestant(name, run_on(name, connection, query, path / "out")) for name in RUNTIMES
    ]
    chosen = connection.execute(
        f"EXPLAIN CREATE JOB j AS INSERT INTO sink (id, k, v) {query}"
    ).fetchall()
    said = next((row[0].strip() for row in chosen if "spark_job_rows" in row[0]), "")
    note = (
        f"`{query}` from Spark's Parquet to Spark's Parquet, {rows:,} rows; 'auto' says: "
        f"{said or 'nothing of rows'}"
    )
    return measure(
        f"job on Spark or here: {job}, {rows:,} rows", contestants, rounds=rounds, note=note
    )


def run_on(
    runtime: str, connection: runnel.Connection, query: str, out: Path
) -> Callable[[], object]:
    """A job from its creation to its end, and the removal of its output."""

    def run() -> None:
        connection.execute(
            f"CREATE JOB j OPTIONS ('runtime' = '{runtime}') AS INSERT INTO sink (id, k, v) {query}"
        )
        connection.job("j").join(600)
        connection.execute("DROP JOB j")
        assert list(out.glob("*.parquet"))
        shutil.rmtree(out)

    return run


def summary(cases: Sequence[Case]) -> Result:
    """The break-even of each job, the threshold for all, and how good the setting's default is."""
    found = {job: crossing(cases, job) for job in dict.fromkeys(case.job for case in cases)}
    break_evens = "; ".join(
        f"{job}: {'never' if rows is None else f'from {rows:,.0f} rows on'}"
        for job, rows in found.items()
    )
    best, loss = threshold(cases)
    default = _default()
    now = exp(sum(log(case.loss(default)) for case in cases) / len(cases))
    most = max(case.rows for case in cases)
    note = (
        f"Spark is faster — {break_evens} (of {min(case.rows for case in cases):,} to {most:,}). "
        f"The threshold that costs least is {best:,.0f} rows (jobs take {loss:.3f} times as long "
        "as on the better "
        f"runtime, in the geometric mean); with spark_job_rows at its default of {default:,} it is "
        f"{now:.3f}"
    )
    sums = {name: sum(case.on(name) for case in cases) for name in RUNTIMES}
    best_sum = sum(min(case.tasklets, case.spark) for case in cases)
    auto = sum(case.spark if case.rows >= default else case.tasklets for case in cases)
    timings = {
        "'runtime' = 'auto'": auto,
        "always the better one": best_sum,
        **{f"all on {k}": v for k, v in sums.items()},
    }
    return Result(
        "job on Spark or here: the break-even",
        note,
        tuple(Timing(name, value, value, value, 1) for name, value in timings.items()),
    )


def _default() -> int:
    with runnel.connect() as connection:
        value: Any = connection.execute("SHOW spark_job_rows").fetchall()[0][-1]
    return int(value)


if __name__ == "__main__":
    for item in results(
        max(5, int(sys.argv[2])) if len(sys.argv) > 2 else 5,
        int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS[-1],
    ):
        print(item.title, "—", item.note)
        for timing in item.timings:
            print(
                f"  {timing.median:8.3f} s ({timing.fastest:.3f}–{timing.slowest:.3f})  "
                f"{timing.name}",
                flush=True,
            )
