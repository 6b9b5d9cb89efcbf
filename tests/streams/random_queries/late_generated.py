"""Random queries with LATE DATA INTO over random streams whose rows come later than is allowed: no
row is lost or counted twice.

A row is in the results or in the mapping of late rows: over tables without the late rows the query
gives what it gives over the streams (`late_queries.Account` has the other cases). Of one stream
with one partition it is known which rows must be late.

`python -m tests.streams.random_queries.late_generated --minutes M [--seed
S]` goes on for as long as told and prints the seeds of what fails;
`python -m tests.streams.random_queries.late_generated --case SEED` repeats one case.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import runnel
from tests.streams.random_queries.generated import Bench, Case, Rows, Tally, agree
from tests.streams.random_queries.late_model import late_rows
from tests.streams.random_queries.late_queries import Account, LateQueries, LateQuery
from tests.streams.random_queries.query_text import Text
from tests.streams.random_queries.random_feeds import (
    TIME_TYPES,
    FeedOptions,
    random_feed,
    schema_of,
    unit_of,
)

SQL_TYPES = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "date": "TIMESTAMP",
    "timestamp": "TIMESTAMP",
    "instant": "TIMESTAMP WITH TIME ZONE",
}
LABELS = pa.table(
    {"number": pa.array([1, 2, 7, None], pa.int64()), "label": ["one", "two", None, "none"]}
)


@dataclass(frozen=True)
class LateCase:
    """A query, and how it is run."""

    case: Case
    query: LateQuery

    def __str__(self) -> str:
        return (
            f"{self.case}\n  python -m tests.streams.random_queries.late_generated --case "
            f"{self.case.seed}"
        )


def case_of(seed: int) -> LateCase:
    """The case of a seed."""
    rng = random.Random(f"late {seed}")
    kind, ordered = rng.choice(list(TIME_TYPES)), rng.random() < 0.5
    lag = rng.choice((0, 0, 1, 4))
    mode = rng.choice(("scripted", "simulated", "simulated", "pushed"))
    query = LateQueries(rng, kind, lag, ordered).query()
    partitions = 1 if mode == "pushed" else rng.choice((1, 1, 2, 3))
    feeds = {}
    for name in "ab":
        disorder = lag + rng.choice((0, 3, 10, 40))
        options = FeedOptions(
            kind, rng.choice((10, 30, 80)), disorder, partitions, nulls=not query.is_timed
        )
        feed = random_feed(rng, options, 0 if name == "a" else 10_000)
        feeds[name] = replace(feed, lag=lag * unit_of(kind))
    sql = Text(f"{query.stream} LATE DATA INTO {mapping_of(kind, query)}", "")
    return LateCase(Case(seed, kind, sql, feeds, ordered, rng.choice((1, 2, 3)), mode), query)


def mapping_of(kind: str, query: LateQuery) -> str:
    """The name of the mapping for late rows: one for each form of these."""
    return f"late_{kind}" if "window_end" in query.late else "late"


class LateBench(Bench):
    """A bench with a mapping for late rows."""

    def __init__(self) -> None:
        super().__init__()
        for connection in (self.streams, self.tables):
            connection.execute("DROP MAPPING m")
            connection.execute(
                "CREATE MAPPING m (__key BIGINT, label VARCHAR) TYPE IMap OPTIONS "
                "('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
            )
            connection.execute("SINK INTO m VALUES (1, 'one'), (2, NULL), (7, 'seven')")
            connection.register("u", LABELS)
        self.late_count = 0

    def wrong(self, case: LateCase) -> str | None:
        """What is wrong with a case; None where all adds up."""
        found, late = self._run(case)
        ids = [row[0] for row in late]
        self.late_count += len(late)
        twice = [row for row, count in Counter(late).items() if count > 1]
        if twice:
            return f"late more than once: {twice[:5]}\n{case}"
        # Where rows are pushed a reader may take several batches as one, in which no row is late
        # for another; several processors may still wait for each other's watermark.
        is_known = case.case.mode != "pushed" and case.case.parallelism == 1
        must = late_rows(case.case.feeds["a"], case.query) if is_known else None
        if must is not None and must != sorted(set(ids)):
            return f"late: {sorted(set(ids))}, not {must}\n{case}"
        problem = self._account(case, found, late)
        return None if problem is None else f"{problem}\n  late: {late[:12]}\n{case}"

    def _run(self, case: LateCase) -> tuple[Rows, Rows]:
        types = {"id": "BIGINT", "window_end": SQL_TYPES[case.case.kind]}
        columns = ", ".join(f"{name} {types[name]}" for name in case.query.late)
        mapping = mapping_of(case.case.kind, case.query)
        self.streams.execute(f"CREATE MAPPING IF NOT EXISTS {mapping} ({columns}) TYPE DuckDB")
        self.streams.execute(f"DELETE FROM {mapping}")
        if "TABLE va" in case.query.stream:
            # A view needs something to look at when it is made; the streams of the case take its
            # place.
            self.streams.register("a", schema_of(case.case.kind).empty_table())
            self.streams.execute("CREATE OR REPLACE VIEW va AS SELECT * FROM a")
            self.streams.unregister("a")
        found = self.over_streams(case.case)
        late = self.streams.execute(f"SELECT * FROM {mapping}").fetch_arrow_table()
        self.gone = late
        return found, [tuple(row.values()) for row in late.to_pylist()]

    def _account(self, case: LateCase, found: Rows, late: Rows) -> str | None:
        account = case.query.account
        if account in (Account.MISSED, Account.PAIRS):
            whole = self._over_tables(case, set())
            ids = {row[0] for row in late}
            return (
                missed(found, whole, ids) if account is Account.MISSED else pairs(found, whole, ids)
            )
        by_window = account is Account.WINDOWS or "window_end" in case.query.late
        expected = self._over_tables(case, set() if by_window else {row[0] for row in late})
        if account is Account.LAST:
            found = list({row[: case.query.keys]: row for row in found}.values())
        if not agree(found, expected, exact=True):
            more, less = Counter(map(repr, found)), Counter(map(repr, expected))
            return (
                f"wrong: {sorted((more - less).elements())[:4]}\n"
                f"  missing: {sorted((less - more).elements())[:4]}"
            )
        return None

    def _over_tables(self, case: LateCase, without: set[Any]) -> Rows:
        for name, feed in case.case.feeds.items():
            table = feed.table
            keep = pa.array(
                [number not in without for number in table.column("id").to_pylist()], pa.bool_()
            )
            self.tables.register(name, table.filter(keep))
        self.tables.register("gone", self.gone)
        self.tables.execute("CREATE OR REPLACE VIEW va AS SELECT * FROM a")
        return [
            tuple(row.values())
            for row in self._renamed(self.tables.execute(case.query.table, timeout=60))
        ]

    @staticmethod
    def _renamed(cursor: Any) -> list[dict[int, Any]]:
        table = cursor.fetch_arrow_table()
        return list(table.rename_columns([str(i) for i in range(table.num_columns)]).to_pylist())


def missed(found: Rows, whole: Rows, late: set[Any]) -> str | None:
    """What is wrong where the last column has the ids of a window's rows, and a row is late if it
    misses a window."""
    windows = {row[:-3]: set(row[-1]) for row in found}
    all_windows = {row[:-3]: set(row[-1]) for row in whole}
    if len(windows) != len(found):
        return "a window came twice"
    lost = set()
    for key, ids in all_windows.items():
        given = windows.pop(key, set())
        if given - ids:
            return f"rows that aren't of the window {key}: {given - ids}"
        lost |= ids - given
    if windows:
        return f"windows that there aren't: {list(windows)[:3]}"
    return None if lost == late else f"missing in a window: {sorted(lost)}, late: {sorted(late)}"


def pairs(found: Rows, whole: Rows, late: set[Any]) -> str | None:
    """What is wrong with the pairs of a join, where some rows were late."""
    more = Counter(found) - Counter(whole)
    if more:
        return f"pairs too much: {list(more)[:4]}"
    lost = [pair for pair in (Counter(whole) - Counter(found)) if not late & set(pair)]
    return f"pairs lost: {lost[:4]}" if lost else None


def tried(bench: LateBench, seed: int, tally: Tally) -> str | None:
    """Runs the case of a seed; says what is wrong with it."""
    case = case_of(seed)
    try:
        found = bench.wrong(case)
    except runnel.NotSupportedError as error:
        tally.refused[f"{error.message}; {error.detail} | {case.query.stream[:160]}"] += 1
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{case}"
    tally.agreed += found is None
    return found


def main(minutes: float, seed: int) -> int:
    """Tries cases for so long; returns how many failed."""
    end, failed, tally, bench, count = time.monotonic() + 60 * minutes, 0, Tally(), LateBench(), 0
    while time.monotonic() < end:
        problem = tried(bench, seed, tally)
        if problem is not None:
            failed += 1
            print(problem, flush=True)
        if problem is not None or seed % 500 == 499:
            count += bench.late_count
            bench.close()
            bench = LateBench()
        seed += 1
    count += bench.late_count
    bench.close()
    print(f"{tally}\n{count} late rows; {failed} failed; next seed {seed}")
    return failed


def one(seed: int) -> None:
    """Repeats one case and prints all about it."""
    bench, case = LateBench(), case_of(seed)
    print(case, case.query, sep="\n")
    for name, feed in case.case.feeds.items():
        print(name, feed.lag)
        for number, script in enumerate(feed.scripts):
            for entry in script:
                print("  ", number, shown(entry))
    print(bench.wrong(case))
    bench.close()


def shown(entry: Any) -> Any:
    return (
        [tuple(row.values()) for row in entry.to_pylist()]
        if isinstance(entry, pa.RecordBatch)
        else entry
    )


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.streams.random_queries.late_generated")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--case", type=int)
    return parser.parse_args(given)


if __name__ == "__main__":
    chosen = arguments()
    if chosen.case is not None:
        one(chosen.case)
    else:
        raise SystemExit(1 if main(chosen.minutes, chosen.seed) else 0)
