"""Random queries over random streams: a stream that ends gives exactly what the batch query gives.

The same text runs over streams and over tables of the same rows, and DuckDB is asked in its own
words. The streams are pushed by a writer, or follow a script, on worker threads or in a simulation
that shuffles the order of all events.

`python -m tests.streams.random_queries.generated SECONDS
[SEED]` goes on for as long as told and prints what it finds;
`python -m tests.streams.random_queries.generated case SEED` repeats one case.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import runnel
from runnel.catalog import EventTime
from runnel.connector import EventTimeMark
from runnel.connectors.pushed.table import StreamWriter
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of, same_value
from tests.slt.oracle import SETTINGS, same
from tests.streams.random_queries.query_generator import QueryGenerator
from tests.streams.random_queries.query_text import Text
from tests.streams.random_queries.random_feeds import (
    TIME_TYPES,
    Feed,
    FeedOptions,
    random_feed,
    schema_of,
    unit_of,
)
from tests.streams.scripted_table import IDLE, Entry, ScriptedTable

Rows = list[tuple[Any, ...]]
TIMEOUT = 60.0
MODES = ("scripted", "scripted", "pushed", "simulated")
NAMES = pa.table(
    {"k": pa.array([1, 2, 2, 7, None], pa.int64()), "name": ["one", "two", "deux", None, "none"]}
)


@dataclass(frozen=True)
class Case:
    """A query and the streams it reads."""

    seed: int
    kind: str
    sql: Text
    feeds: dict[str, Feed]
    ordered: bool
    parallelism: int
    mode: str

    def __str__(self) -> str:
        counts = ", ".join(
            f"{name}: {feed.table.num_rows} rows in {len(feed.scripts)}"
            for name, feed in self.feeds.items()
        )
        return (
            f"python -m tests.streams.random_queries.generated case {self.seed}\n"
            f"  {self.mode}, {self.kind}, parallelism {self.parallelism}, {counts}\n"
            f"  {self.sql.ours}"
        )


def case_of(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    kind = rng.choice(list(TIME_TYPES))
    lag = rng.choice((0, 1, 5, 20))
    ordered = rng.random() < 0.5
    mode = rng.choice(MODES)
    generator = QueryGenerator(rng, kind, lag, ordered)
    sql = generator.query()
    if mode == "pushed" and not ordered and "TABLE a," in sql.ours and "TABLE b," in sql.ours:
        # IMPOSE_ORDER has no word for never being idle, which a slow machine could make a stream
        mode = "scripted"
    if mode == "simulated" and "EMIT EVERY" in sql.ours:
        mode = "scripted"  # time passes in a simulation, so that there would be early results
    many = 4_000 if "JOIN" not in sql.ours and mode != "simulated" and rng.random() < 0.5 else 200
    most = rng.choice((20, 20, 60, 60, 60, 200, 200, many))
    partitions = 1 if mode == "pushed" or generator.needs_unique else rng.choice((1, 1, 2, 3))
    feeds = {}
    for name in "ab":
        options = FeedOptions(
            kind, most, lag, partitions, not generator.needs_times, generator.needs_unique
        )
        feed = random_feed(rng, options, 0 if name == "a" else 10_000)
        # Windows that are open when their stream falls idle are late for a join or a union that
        # goes on without it.
        meets_windows = "GROUP BY" in sql.ours and ("JOIN" in sql.ours or "UNION ALL" in sql.ours)
        feeds[name] = (
            replace(feed, scripts=_without_idleness(feed.scripts)) if meets_windows else feed
        )
    return Case(seed, kind, sql, feeds, ordered, rng.choice((1, 2, 3)), mode)


def _without_idleness(scripts: Sequence[Sequence[Entry]]) -> tuple[tuple[Entry, ...], ...]:
    return tuple(tuple(entry for entry in script if entry is not IDLE) for script in scripts)


class Bench:
    """The connections that cases run on: one for streams, one for tables, and DuckDB."""

    def __init__(self) -> None:
        self.streams = runnel.connect()
        self.tables = runnel.connect()
        self.duckdb = duckdb.connect()
        for setting in SETTINGS:
            self.duckdb.execute(setting)
        for connection in (self.streams, self.tables):
            connection.register("d", NAMES)
            connection.execute(
                "CREATE MAPPING m (__key BIGINT, k BIGINT, name VARCHAR) TYPE IMap "
                "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
            )
            rows = [(key, *row.values()) for key, row in enumerate(NAMES.to_pylist())]
            connection.cursor().executemany("SINK INTO m VALUES (?, ?, ?)", rows)
        for name in "dm":
            self.duckdb.register(name, NAMES)

    def close(self) -> None:
        self.streams.close()
        self.tables.close()
        self.duckdb.close()

    def difference(self, case: Case) -> str | None:
        """What is wrong with a case; None where all agree. NotSupportedError where streams can't do
        it."""
        expected = self.over_tables(case)
        found = self.over_streams(case)
        if not agree(found, expected, exact=True):
            return f"streams differ from tables: {_shown(found, expected)}\n{case}"
        theirs = self.in_duckdb(case)
        if not agree(found, theirs, exact=False):
            return f"DuckDB differs: {_shown(found, theirs)}\n{case}\n  {case.sql.duckdb}"
        return None

    def over_tables(self, case: Case) -> Rows:
        for name, feed in case.feeds.items():
            self.tables.register(name, feed.table)
        self.tables.execute(f"SET query_parallelism = {case.parallelism}")
        return rows_of(
            self.tables.execute(
                case.sql.tables or case.sql.ours, timeout=TIMEOUT
            ).fetch_arrow_table()
        )

    def in_duckdb(self, case: Case) -> Rows:
        for name, feed in case.feeds.items():
            self.duckdb.register(name, feed.table)
        return rows_of(self.duckdb.sql(case.sql.duckdb).to_arrow_table())

    def over_streams(self, case: Case) -> Rows:
        self.streams.execute(f"SET query_parallelism = {case.parallelism}")
        if case.mode == "pushed":
            return self._pushed(case)
        with self.scripted(case.feeds, case.ordered):
            if case.mode == "simulated":
                return self._simulated(case)
            return rows_of(self.streams.execute(case.sql.ours, timeout=TIMEOUT).fetch_arrow_table())

    @contextmanager
    def scripted(self, feeds: dict[str, Feed], ordered: bool) -> Iterator[dict[str, ScriptedTable]]:
        """The feeds as streams that follow a script."""
        tables = {}
        for name, feed in feeds.items():
            event_time = EventTime(0, feed.lag, 0) if ordered else None
            tables[name] = ScriptedTable(name, schema_of(feed.kind), feed.scripts, event_time)
            self.streams._register(name, tables[name])
        try:
            yield tables
        finally:
            for name in feeds:
                self.streams.unregister(name)

    def _simulated(self, case: Case) -> Rows:
        plan: Any = self.streams._session.prepare(case.sql.ours, ())
        simulation = Simulation(
            plan.dag(case.parallelism), case.seed, SimulationOptions(parallelism=case.parallelism)
        )
        batches = simulation.run()
        if simulation.error is not None:
            raise simulation.error
        return rows_of(batches)

    def _pushed(self, case: Case) -> Rows:
        """What a writer writes; all of it has room in the buffer of a reader."""
        writers = {}
        for name, feed in case.feeds.items():
            lag: Any = feed.lag if unit_of(case.kind) == 1 else timedelta(microseconds=feed.lag)
            timing = (
                {"time_column": "t", "max_disorder": lag, "idle_timeout": timedelta(0)}
                if case.ordered
                else {}
            )
            writers[name] = self.streams.register_stream(name, schema_of(feed.kind), **timing)
        rng = random.Random(case.seed)
        try:
            cursor = self.streams.execute(case.sql.ours, timeout=TIMEOUT)
            left = {
                name: list(feed.scripts[0])
                for name, feed in case.feeds.items()
                if writers[name].reader_count
            }
            while waiting := [name for name, entries in left.items() if entries]:
                name = rng.choice(waiting)
                try:
                    _write(writers[name], left[name].pop(0), case)
                except runnel.OperationalError:
                    cursor.fetchall()  # tells why nobody reads any more
                    raise
            for writer in writers.values():
                writer.close()
            return rows_of(cursor.fetch_arrow_table())
        finally:
            for name, writer in writers.items():
                writer.close()
                self.streams.unregister(name)


def _write(writer: StreamWriter, entry: Any, case: Case) -> None:
    if isinstance(entry, pa.RecordBatch):
        writer.write(entry, timeout=TIMEOUT)
    elif isinstance(entry, EventTimeMark) and case.ordered:
        time = entry.time // unit_of(case.kind) if case.kind == "date" else entry.time
        arrow = pa.int32() if case.kind == "date" else pa.int64()
        writer.watermark(pa.scalar(time, arrow).cast(TIME_TYPES[case.kind]).as_py())


def agree(found: Rows, expected: Rows, *, exact: bool) -> bool:
    """Whether both are the same rows, in any order; `exact`: with the same types."""
    if len(found) != len(expected):
        return False
    if Counter(map(repr, found)) == Counter(map(repr, expected)):
        return True
    pairs = zip(sorted(found, key=_rank), sorted(expected, key=_rank), strict=True)
    return all(
        same_value(left, right, 1e-9) if exact else same(left, right) for left, right in pairs
    )


def _rank(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((0, 0, "") if value is None else _rank_of(value) for value in row)


def _rank_of(value: Any) -> tuple[Any, ...]:
    if isinstance(value, int | float | Decimal):
        return (1, round(float(value), 6) + 0.0, "")
    return (
        2,
        0,
        str(value.timestamp()) if hasattr(value, "tzinfo") and value.tzinfo else str(value),
    )


def _shown(found: Rows, expected: Rows) -> str:
    """The first rows that only one side has."""
    ours, theirs = Counter(map(repr, found)), Counter(map(repr, expected))
    more, less = list((ours - theirs).elements()), list((theirs - ours).elements())
    return (
        f"{len(found)} rows, not {len(expected)}\n  too much: {sorted(more)[:6]}\n"
        f"  missing: {sorted(less)[:6]}"
    )


class Tally:
    """How many cases agreed, and which were refused."""

    def __init__(self) -> None:
        self.agreed = 0
        self.rows = 0
        self.refused: Counter[str] = Counter()

    def __str__(self) -> str:
        refusals = "".join(
            f"\n  {count} x {message}" for message, count in self.refused.most_common(12)
        )
        return f"{self.agreed} cases agreed, {self.refused.total()} were refused{refusals}"


def tried(bench: Bench, seed: int, tally: Tally) -> str | None:
    """Runs the case of a seed; says what is wrong with it."""
    case = case_of(seed)
    try:
        found = bench.difference(case)
    except runnel.NotSupportedError as error:
        tally.refused[f"{error.message}; {error.detail} | {case.sql.ours[:160]}"] += 1
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{case}"
    tally.agreed += found is None
    return found


def main(seconds: float, seed: int) -> None:
    end, failed, tally, bench = time.monotonic() + seconds, 0, Tally(), Bench()
    while time.monotonic() < end:
        difference = tried(bench, seed, tally)
        if difference is not None:
            failed += 1
            print(difference, flush=True)
            bench.close()
            bench = Bench()
        seed += 1
    bench.close()
    print(f"{tally}\n{failed} failed; next seed {seed}")


def one(seed: int) -> None:
    """Repeats one case and prints all about it."""
    bench, case = Bench(), case_of(seed)
    print(case, "", case.sql.duckdb, sep="\n")
    for name, feed in case.feeds.items():
        print(name, feed.lag)
        for entry in (entry for script in feed.scripts for entry in script):
            print("  ", entry.to_pylist() if isinstance(entry, pa.RecordBatch) else entry)
    print(bench.difference(case))
    bench.close()


if __name__ == "__main__":
    if sys.argv[1] == "case":
        one(int(sys.argv[2]))
    else:
        main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000)
