"""Ten fast measurements compared with stored ratios, for a look after a change: two minutes.

    python -m benchmarks.check [--write] [--rounds=N] [name …]

Each measurement is the ratio of Runnel's time to a peer's time over the same work in the same run.
Both times are the fastest of N rounds (7) in turns, since noise of the machine only adds time. A
ratio that is more than 25 % above the one in `baseline.json` is measured again with twice the
rounds; if it is still above, the command names it and fails. With --write the measured ratios are
stored.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv

import runnel
from benchmarks.cold_start import SCRIPTS, process
from benchmarks.measure import Contestant, measure
from benchmarks.point_queries import filled_map
from benchmarks.streams import HOP_10, TUMBLE, batches, by_hand, streamed

BASELINE = Path(__file__).parent / "baseline.json"
TOLERANCE = 1.25
ROUNDS = 7
ROWS = 300_000
STREAM_ROWS = 1_000_000
GROUPS = "SELECT k, COUNT(*), SUM(v), MAX(v) FROM t GROUP BY k"
LIGHT_JOB = "SELECT k, SUM(v) FROM small WHERE v > ? GROUP BY k"
FILE_SUM = "SELECT SUM(v) FROM {file}"

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Pair:
    """Work of Runnel, and the same work of a peer.

    name: what is measured, as in `baseline.json`.
    peer: the peer's name.
    calls: how often each function does the work.
    """

    name: str
    peer: str
    ours: Work
    theirs: Work
    calls: tuple[int, int] = (1, 1)

    def ratio(self, rounds: int) -> float:
        """Runnel's fastest time as a multiple of the peer's."""
        contestants = [
            Contestant("Runnel", self.ours, self.calls[0]),
            Contestant(self.peer, self.theirs, self.calls[1]),
        ]
        ours, theirs = measure(self.name, contestants, rounds=rounds).timings
        return ours.fastest / theirs.fastest


def repeated(call: Callable[[int], object], calls: int) -> Work:
    numbers = cycle(range(50))

    def run() -> None:
        for _ in range(calls):
            call(next(numbers))

    return run


def pairs(folder: Path) -> Iterator[Pair]:
    """The ten measurements. Files are written to the folder."""
    with ExitStack() as stack:
        connection = stack.enter_context(runnel.connect(cooperative_threads=2))
        duck = stack.enter_context(duckdb.connect(config={"threads": 2}))
        yield from _small(connection, duck)
        yield from _tables(connection, duck)
        yield from _files(connection, duck, folder)
    yield from _streams()
    yield Pair(
        "cold start", "DuckDB", *(partial(process, SCRIPTS[n]) for n in ("Runnel", "DuckDB"))
    )


def _small(connection: runnel.Connection, duck: duckdb.DuckDBPyConnection) -> Iterator[Pair]:
    cursor = connection.cursor()
    filled_map(connection, ROWS)
    duck.execute("CREATE TABLE m (k BIGINT PRIMARY KEY, v BIGINT)")
    duck.execute(f"INSERT INTO m SELECT i, i * 3 FROM range({ROWS}) t(i)")
    looking = duck.cursor()
    yield Pair(
        "key look-up",
        "DuckDB",
        repeated(
            lambda k: cursor.execute("SELECT this FROM m WHERE __key = ?", (k,)).fetchone(), 1_000
        ),
        repeated(lambda k: looking.execute("SELECT v FROM m WHERE k = ?", [k]).fetchone(), 100),
        (1_000, 100),
    )
    small = pa.table({"k": [i % 10 for i in range(100)], "v": list(range(100))})
    connection.register("small", small)
    duck.register("arrow_small", small)
    duck.execute("CREATE TABLE small AS FROM arrow_small")
    yield Pair(
        "light job",
        "DuckDB",
        repeated(lambda bound: cursor.execute(LIGHT_JOB, (bound,)).fetchall(), 300),
        repeated(lambda bound: duck.execute(LIGHT_JOB, [bound]).fetchall(), 100),
        (300, 100),
    )
    yield Pair(
        "rows as tuples",
        "DuckDB",
        lambda: cursor.execute("SELECT * FROM m").fetchall(),
        lambda: duck.execute("SELECT * FROM m").fetchall(),
    )


def _tables(connection: runnel.Connection, duck: duckdb.DuckDBPyConnection) -> Iterator[Pair]:
    random = np.random.default_rng(7)
    table = pa.table(
        {"k": random.integers(0, 1_000, 3_000_000), "v": random.integers(0, 1_000_000, 3_000_000)}
    )
    connection.register("t", table)
    duck.register("t", table)
    for name, sql in (
        ("GROUP BY", GROUPS),
        ("filter and sort", "SELECT * FROM t WHERE v < 100000 ORDER BY v, k"),
    ):
        yield Pair(
            name,
            "DuckDB",
            partial(lambda sql: connection.execute(sql).fetch_arrow_table(), sql),
            partial(lambda sql: duck.sql(sql).to_arrow_table(), sql),
        )


def _files(
    connection: runnel.Connection, duck: duckdb.DuckDBPyConnection, folder: Path
) -> Iterator[Pair]:
    numbers = np.arange(600_000)
    rows = pa.table({"id": numbers, "v": numbers * 7 % 1_000, "name": (numbers % 97).astype(str)})
    pyarrow.csv.write_csv(rows, folder / "rows.csv")
    duck.register("rows", rows)
    duck.execute(f"COPY rows TO '{folder / 'rows.jsonl'}' (FORMAT json)")
    columns = "{'id': 'BIGINT', 'v': 'BIGINT', 'name': 'VARCHAR'}"
    for kind, suffix in (("csv", "csv"), ("json", "jsonl")):
        sql = FILE_SUM.format(file=f"read_{kind}('{folder}/rows.{suffix}', columns = {columns})")
        yield Pair(
            f"{kind.upper()}, a column's sum",
            "DuckDB",
            partial(lambda sql: connection.execute(sql).fetchall(), sql),
            partial(lambda sql: duck.execute(sql).fetchall(), sql),
        )


def _streams() -> Iterator[Pair]:
    rows = batches(STREAM_ROWS, 1_000)
    yield Pair(
        "tumbling windows", "by hand", partial(streamed, TUMBLE, rows), partial(by_hand, rows)
    )
    yield Pair(
        "sliding windows",
        "tumbling",
        partial(streamed, HOP_10, rows),
        partial(streamed, TUMBLE, rows),
    )


def compared(
    measured: Iterator[Pair], baseline: dict[str, float], rounds: int, names: Sequence[str] = ()
) -> tuple[dict[str, float], list[str]]:
    """Prints a line for each measurement; returns the ratios, and the names of those that are too
    high."""
    print(f"{'':24} {'peer':10} {'stored':>8} {'now':>8} {'change':>8}")
    found, slower = {}, []
    for pair in measured:
        if names and pair.name not in names:
            continue
        ratio, stored = pair.ratio(rounds), baseline.get(pair.name)
        if stored is not None and ratio > stored * TOLERANCE:
            ratio = min(ratio, pair.ratio(2 * rounds))
        found[pair.name] = ratio
        change = "" if stored is None else f"{ratio / stored - 1:+.0%}"
        if stored is not None and ratio > stored * TOLERANCE:
            slower.append(pair.name)
            change += " slower"
        elif stored is not None and ratio * TOLERANCE < stored:
            change += " faster: --write stores it"
        shown = "" if stored is None else f"{stored:.3g}"
        print(f"{pair.name:24} {pair.peer:10} {shown:>8} {ratio:8.3g} {change:>8}", flush=True)
    return found, slower


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if a ratio is too high."""
    names = [item for item in arguments if not item.startswith("--")]
    rounds = next((int(item[9:]) for item in arguments if item.startswith("--rounds=")), ROUNDS)
    baseline = json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found, slower = compared(pairs(Path(folder)), baseline, rounds, names)
    if "--write" in arguments:
        stored = {name: round(ratio, 3) for name, ratio in {**baseline, **found}.items()}
        BASELINE.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
        return 0
    if slower:
        print(f"slower than in baseline.json by more than 25 %: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
