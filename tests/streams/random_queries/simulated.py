"""Whole plans of queries on streams under dice: orders of events by the hundred, with queues of one
place.

Each stream says at its end that event time is far on, and then holds: everything must be there by
the watermark alone, and nothing be kept. Then it ends, which may add nothing.

`python -m tests.streams.random_queries.simulated SECONDS [SEED]` goes on for as long as told.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

import runnel
from runnel.connector import EventTimeMark
from runnel.processor import Processor
from runnel.runtime.simulation import Simulation, SimulationOptions, StandstillError
from runnel.testing.rows import rows_of
from tests.streams.random_queries.generated import Bench, Case, Rows, agree
from tests.streams.random_queries.query_generator import QueryGenerator
from tests.streams.random_queries.random_feeds import TIME_TYPES, FeedOptions, random_feed
from tests.streams.scripted_table import HOLD

FAR = 1 << 60
"""An event time after all."""

KEEPING = ("ASOF", " d y", " m y", "FROM d", "FROM m", "SYSTEM_TIME", "allowUnboundedState")
"""What such queries keep at the end is right: the newest version of a key, the table looked up in,
what is asked for."""

NOT_BY_WATERMARK = ("EMIT EVERY",)
"""In simulations time passes, and such queries give early results."""


def held_case(seed: int) -> Case:
    """A case without NULL times, whose streams hold before they end."""
    rng = random.Random(f"simulated {seed}")
    kind, lag, ordered = rng.choice(list(TIME_TYPES)), rng.choice((0, 1, 5, 20)), rng.random() < 0.5
    generator = QueryGenerator(rng, kind, lag, ordered)
    sql = generator.query()
    while any(word in sql.ours for word in NOT_BY_WATERMARK):
        sql = generator.query()
    parallelism = rng.choice((1, 2, 3))
    feeds = {}
    for name in "ab":
        partitions = 1 if generator.needs_unique else rng.choice((1, 1, 2))
        options = FeedOptions(
            kind,
            rng.choice((8, 30, 60)),
            lag,
            partitions,
            nulls=False,
            unique=generator.needs_unique,
        )
        feed = random_feed(rng, options, 0 if name == "a" else 10_000)
        feeds[name] = replace(
            feed, scripts=tuple((*script, EventTimeMark(FAR), HOLD) for script in feed.scripts)
        )
    return Case(seed, kind, sql, feeds, ordered, parallelism, "simulated")


def check(bench: Bench, case: Case, dice: int) -> int:
    """Runs a case with some seeds of the simulation. AssertionError where one isn't right; gives
    the number of steps."""
    expected = bench.over_tables(case)
    bench.streams.execute(f"SET query_parallelism = {case.parallelism}")
    steps = 0
    with bench.scripted(case.feeds, case.ordered) as tables:
        plan: Any = bench.streams._session.prepare(case.sql.ours, ())
        for roll in range(dice):
            for table in tables.values():
                table.rewind()
            options = SimulationOptions(
                parallelism=case.parallelism, delay=0.3 if roll % 2 else 0.9
            )
            simulation = Simulation(plan.dag(case.parallelism), case.seed * 1_000 + roll, options)
            found = until_held(simulation)
            assert agree(found, expected, exact=True), (
                f"by the watermark: {len(found)} rows, not {len(expected)}, roll {roll}"
            )
            if not any(word in case.sql.ours for word in KEEPING):
                assert kept_by(simulation) == {}, f"kept: {kept_by(simulation)}"
            assert late_rows(simulation) == 0
            for table in tables.values():
                table.release()
            simulation.run()
            assert simulation.error is None, simulation.error
            assert len(rows_of(simulation.batches)) == len(expected), (
                "rows at the end that were not due by the watermark"
            )
            steps += simulation.steps
    return steps


def until_held(simulation: Simulation) -> Rows:
    """Runs until nothing can go on, which is for the streams that hold; what came out until
    then."""
    try:
        simulation.run()
    except StandstillError as standstill:
        assert "no event is possible" in str(standstill), standstill
    assert simulation.error is None, simulation.error
    return rows_of(simulation.batches)


def late_rows(simulation: Simulation) -> int:
    return sum(tasklet.counts().late_rows for tasklet in simulation.execution.tasklets)


def kept_by(simulation: Simulation) -> dict[str, int]:
    """How many rows each vertex would write to a snapshot, but for watermarks and those that write
    none."""
    found: Counter[str] = Counter()
    for tasklet in simulation.execution.tasklets:
        processor: Processor | None = getattr(tasklet, "processor", None)
        state = getattr(processor, "state", None)
        if state is not None:
            found[getattr(tasklet, "vertex", "?")] += sum(
                batch.num_rows for batch in state() if not _is_time(batch)
            )
    return {vertex: rows for vertex, rows in found.items() if rows}


def _is_time(batch: pa.RecordBatch) -> bool:
    """Watermarks, and the places of scans."""
    return batch.num_columns > 0 and (
        "watermark" in batch.schema.names[0] or "watermark" in batch.schema.names[4:5]
    )


def tried(bench: Bench, seed: int, dice: int, refused: Counter[str]) -> tuple[str | None, int]:
    """What is wrong with the case of a seed, and how many steps its runs took."""
    case = held_case(seed)
    try:
        return None, check(bench, case, dice)
    except runnel.NotSupportedError as error:
        refused[f"{error.message} | {case.sql.ours[:160]}"] += 1
        return None, 0
    except (AssertionError, runnel.Error) as error:
        return (
            (
                f"{type(error).__name__}: {error}\nsimulated, seed {seed}, parallelism "
                f"{case.parallelism}\n  {case.sql.ours}"
            ),
            0,
        )


def main(seconds: float, seed: int, dice: int = 10) -> None:
    end, done, failed, steps, bench = time.monotonic() + seconds, 0, 0, 0, Bench()
    refused: Counter[str] = Counter()
    while time.monotonic() < end:
        found, taken = tried(bench, seed, dice, refused)
        steps += taken
        if found is not None:
            failed += 1
            print(found, flush=True)
        done, seed = done + 1, seed + 1
    bench.close()
    print(
        f"{done} plans, {done * dice} runs, {steps} steps; {refused.total()} refused; {failed} "
        f"failed; next seed {seed}"
    )
    for message, count in refused.most_common(10):
        print(f"  {count} x {message}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000)
