"""Random queries with EMIT CHANGES over scripted streams, in the simulation: after every epoch the
weights add up to DuckDB's answer over a prefix of each stream.

`python -m tests.streams.live.live_cases SECONDS [SEED]` runs for a given time and prints what it
finds; `python -m tests.streams.live.live_cases case SEED` repeats one case.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa

import runnel
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of
from tests.slt.oracle import SETTINGS
from tests.streams.live.random_logs import log_table, random_log, rows_of_log
from tests.streams.scripted_table import IDLE, Entry, ScriptedTable

Row = tuple[Any, ...]
Answer = Counter[Row]

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("b", pa.bool_()),
        ("x", pa.int64()),
        ("y", pa.int32()),
        ("d", pa.decimal128(12, 2)),
        ("f", pa.float64()),
        ("t", pa.string()),
    ]
)
KEYS = ("k", "b", "k, b", "x % 3", "d", "f", "UPPER(k), y")
STATES = (
    *("COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(y)", "SUM(d)", "MIN(x)", "MAX(x)", "MIN(t)"),
    *("MAX(t)", "MAX(d)", "MIN(f)", "SUM(x) FILTER (WHERE b)", "COUNT(*) FILTER (WHERE x > 0)"),
    *("BOOL_AND(b)", "SUM(x * 3 + y)", "SUM(f)", "AVG(f)"),
)
ROWS = (
    *("COUNT(DISTINCT x)", "SUM(DISTINCT y)", "STRING_AGG(t, ',' ORDER BY t)", "MEDIAN(f)"),
    *("COUNT(DISTINCT t) FILTER (WHERE b)", "ARRAY_AGG(x ORDER BY x)"),
)


@dataclass(frozen=True)
class Case:
    """A query, and for each stream the batches of each partition.

    logs: the streams whose batches have events, and whether their rows have a key.
    """

    seed: int
    sql: str
    streams: dict[str, list[list[pa.RecordBatch]]]
    parallelism: int
    epoch_millis: int
    logs: dict[str, bool]

    @property
    def live(self) -> str:
        return f"{self.sql} EMIT CHANGES OPTIONS ('epochMillis' = '{self.epoch_millis}')"

    def __str__(self) -> str:
        return (
            f"python -m tests.streams.live.live_cases case {self.seed}\n"
            f"  parallelism {self.parallelism}, logs {self.logs}: {self.sql}"
        )


def case_of(seed: int) -> Case:
    rng = random.Random(f"live {seed}")
    names = ("a", "c") if rng.random() < 0.3 else ("a",)
    streams = {name: random_stream(rng, two=len(names) == 1) for name in names}
    sql, parallelism = random_query(rng, names), rng.choice((1, 2, 3))
    millis = rng.choice((0, 0, 0, 20))
    logs = {name: rng.random() < 0.5 for name in names if rng.random() < 0.4}
    for name, keyed in logs.items():
        partitions = streams[name][:1] if keyed else streams[name]
        streams[name] = [
            random_log(
                rng,
                [batch.num_rows for batch in batches],
                SCHEMA,
                lambda count: random_batch(rng, count),
                keyed=keyed,
            )
            for batches in partitions
        ]
    return Case(seed, sql, streams, parallelism, millis, logs)


def random_stream(rng: random.Random, two: bool) -> list[list[pa.RecordBatch]]:
    partitions = 2 if two and rng.random() < 0.3 else 1
    most = 4 if partitions == 2 else 6
    return [
        [random_batch(rng, rng.choice((1, 2, 5, 20))) for _ in range(rng.randint(0, most))]
        for _ in range(partitions)
    ]


def random_batch(rng: random.Random, count: int) -> pa.RecordBatch:
    def values(choices: Sequence[Any]) -> list[Any]:
        return [rng.choice((*choices, None)) for _ in range(count)]

    texts = ["p", "q", "r", "a long text that is hashed by another function than a short one " * 2]
    columns = [
        values(texts),
        values((True, False)),
        values((-7, -1, 0, 1, 2, 3, 2**40)),
        values((-2, 0, 5)),
        values((Decimal("0.10"), Decimal("-3.25"), Decimal("99.99"))),
        values((-0.0, 0.0, 1.5, -2.25, 8.0)),
        values(("", "x", "yy", "zzz")),
    ]
    arrays = [pa.array(items, field.type) for items, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def random_query(rng: random.Random, names: tuple[str, ...]) -> str:
    every = "SELECT * FROM a" if len(names) == 1 else "SELECT * FROM a UNION ALL SELECT * FROM c"
    rows = f"({every}) AS s" if len(names) == 2 or rng.random() < 0.2 else "a"
    where = rng.choice(("", "", " WHERE x > -3", " WHERE b", " WHERE x > 1000000000000000"))
    if rng.random() < 0.4:
        return random_join(rng, names, where)
    shape = rng.random()
    if shape < 0.08:
        return f"SELECT k, x + 1 AS x1 FROM {rows}{where}"
    if shape < 0.2:
        return f"SELECT DISTINCT {rng.choice(KEYS)} FROM {rows}{where}"
    if shape < 0.4:
        return random_ranking(rng, rows, where)
    if shape < 0.47:
        return random_sets(rng, rows, where)
    grouped = random_aggregation(rng, rows, where)
    if shape < 0.56:
        inner = f"SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(t) AS m FROM {rows}{where} GROUP BY k"
        outer = rng.choice(("n, COUNT(*), MAX(k)", "COUNT(*), SUM(n), MIN(s), MAX(m)", "n, SUM(s)"))
        return f"SELECT {outer} FROM ({inner}) AS g" + (
            " GROUP BY n" if outer.startswith("n") else ""
        )
    if shape < 0.63:
        one = f"SELECT k, COUNT(*) AS n FROM {rows}{where} GROUP BY k HAVING COUNT(*) > 2"
        return f"{one} UNION ALL SELECT t, x FROM a"
    return grouped


def random_sets(rng: random.Random, rows: str, where: str) -> str:
    """INTERSECT, EXCEPT and GROUPING SETS."""
    counts = f"SELECT k, COUNT(*) AS x FROM {rows}{where} GROUP BY k"
    if rng.random() < 0.4:
        source = rng.choice((f"{rows}{where}", f"({counts}) AS g"))
        sets = rng.choice(("GROUPING SETS ((k), (x), ())", "ROLLUP (k, x)", "CUBE (k, x)"))
        return f"SELECT k, x, GROUPING(k), COUNT(*), SUM(x) FROM {source} GROUP BY {sets}"
    every = rng.choice((counts, f"SELECT k, x FROM {rows}", "SELECT k, x FROM a"))
    operation = rng.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
    sides = [every, f"SELECT k, x FROM {rows} WHERE b", "SELECT t, x FROM a WHERE y > 0"]
    left, right = rng.sample(sides, 2)
    return f"{left} {operation} {right}"


TABLE = "(VALUES ('p', 1), ('q', 2), ('q', 0), (NULL, 5)) AS v(k, x)"


def random_join(rng: random.Random, names: tuple[str, ...], where: str) -> str:
    """A join of rows that appear or change, of streams, groups and tables."""

    def side(name: str) -> str:
        stream = names[-1] if name == "r" else names[0]
        shape = rng.random()
        if shape < 0.3:
            return (
                f"(SELECT k, COUNT(*) AS x, MAX(y) AS y FROM {stream}{where} GROUP BY k) AS {name}"
            )
        if shape < 0.4:
            return f"(SELECT k, x, COUNT(*) AS y FROM {TABLE} GROUP BY k, x) AS {name}"
        if shape < 0.5:
            return f"(SELECT DISTINCT k, x, y FROM {stream}) AS {name}"
        return f"(SELECT k, x, y FROM {stream}{where}) AS {name}"

    left, right = side("l"), side("r")
    on = rng.choice(
        (
            *("l.k = r.k", "l.k = r.k AND l.x < r.x", "l.x = r.x", "l.y = r.y AND l.k = r.k"),
            *("l.k IS NOT DISTINCT FROM r.k AND l.x = r.y", "l.x = r.y + 1"),
        )
    )
    shape = rng.random()
    if shape < 0.5:
        kind = rng.choice(("", "", "LEFT ", "RIGHT ", "FULL "))
        rows = f"{left} {kind}JOIN {right} ON {on}"
        if rng.random() < 0.3:
            return f"SELECT r.k, COUNT(*), SUM(l.x), COUNT(r.x) FROM {rows} GROUP BY r.k"
        return f"SELECT l.k, l.x, r.k, r.x, r.y FROM {rows}"
    if shape < 0.7:
        exists = f"EXISTS (SELECT 1 FROM {right} WHERE {on})"
        call = rng.choice((f"WHERE {exists}", f"WHERE NOT {exists}", f"WHERE {exists} OR l.x = 1"))
        return f"SELECT k, x FROM {left} {call}"
    one = rng.choice(("k", "x"))
    among = f"l.{one} IN (SELECT r.{one} FROM {right} {rng.choice(('', f'WHERE r.{one} > 0'))})"
    if one == "k":
        among = f"l.k IN (SELECT r.k FROM {right})"
    if shape < 0.9:
        call = rng.choice((f"WHERE {among}", f"WHERE NOT {among}", f"WHERE {among} IS NULL"))
        return f"SELECT k, x FROM {left} {call}"
    scalar = f"(SELECT MAX(r.x) FROM {right})"
    call = rng.choice((f"WHERE l.x = {scalar}", f"WHERE EXISTS (SELECT 1 FROM {right})"))
    return f"SELECT k, x FROM {left} {call}"


def random_ranking(rng: random.Random, rows: str, where: str) -> str:
    """OVER and the first rows in an order, which is the order of whole rows."""
    order = rng.choice(("x, y", "x DESC, y", "y DESC, x DESC"))
    count = rng.randint(1, 3)
    counts = f"SELECT k, COUNT(*) AS x, MAX(y) AS y FROM {rows}{where} GROUP BY k"
    source = (
        f"({counts}) AS c" if rng.random() < 0.3 else f"(SELECT k, x, y FROM {rows}{where}) AS c"
    )
    by = rng.choice(("PARTITION BY k ", "PARTITION BY k ", ""))
    shape = rng.random()
    if shape < 0.35:
        numbered = f"SELECT *, ROW_NUMBER() OVER ({by}ORDER BY {order}) AS r FROM {source}"
        columns = "k, x, y" if by else "x, y"
        return f"SELECT {columns} FROM ({numbered}) AS n WHERE r <= {count}"
    if shape < 0.7:
        offset = rng.choice(("", "", " OFFSET 1"))
        return f"SELECT x, y FROM {source} ORDER BY {order} LIMIT {count}{offset}"
    call = rng.choice(
        (f"RANK() OVER ({by}ORDER BY x)", f"SUM(x) OVER ({by})", f"MAX(y) OVER ({by}ORDER BY x)")
    )
    return f"SELECT k, x, {call} AS w FROM {source}"


def random_aggregation(rng: random.Random, rows: str, where: str) -> str:
    pool = STATES if rng.random() < 0.6 else (*STATES, *ROWS)
    calls = rng.sample(pool, rng.randint(1, 4))
    if rng.random() < 0.15:
        return f"SELECT {', '.join(calls)} FROM {rows}{where}"
    key = rng.choice(KEYS)
    having = rng.choice(("", "", "", " HAVING COUNT(*) > 1", " HAVING MAX(x) IS NOT NULL"))
    return f"SELECT {key}, {', '.join(calls)} FROM {rows}{where} GROUP BY {key}{having}"


class Bench:
    """The connections that cases run on."""

    def __init__(self) -> None:
        self.connection = runnel.connect()
        self.duckdb = duckdb.connect()
        for setting in SETTINGS:
            self.duckdb.execute(setting)

    def close(self) -> None:
        self.connection.close()
        self.duckdb.close()

    def check(self, case: Case) -> int:
        """Runs a case. AssertionError if an epoch is wrong; returns the number of epochs."""
        prefixes = Prefixes(self.duckdb, case)
        epochs = 0
        for epoch, answer in states(self._changes(case)):
            prefixes.accept(epoch, answer)
            epochs += 1
        prefixes.end()
        return epochs

    def _changes(self, case: Case) -> list[Row]:
        rng = random.Random(case.seed)
        for name, streams in case.streams.items():
            scripts = [list(with_pauses(rng, batches)) for batches in streams]
            keyed = case.logs.get(name)
            table = (
                ScriptedTable(name, SCHEMA, scripts, None)
                if keyed is None
                else log_table(name, SCHEMA, scripts, keyed=keyed)
            )
            self.connection._register(name, table)
        try:
            plan: Any = self.connection._session.prepare(case.live, ())
            options = SimulationOptions(parallelism=case.parallelism)
            simulation = Simulation(plan.dag(case.parallelism), case.seed, options)
            batches = simulation.run()
            if simulation.error is not None:
                raise simulation.error
            return rows_of(batches)
        finally:
            for name in case.streams:
                self.connection.unregister(name)


def with_pauses(rng: random.Random, batches: Sequence[pa.RecordBatch]) -> Iterator[Entry]:
    """The batches with pauses, in which epochs may end."""
    for batch in batches:
        yield from [IDLE] * rng.choice((0, 40, 150))
        yield batch
    yield from [IDLE] * rng.choice((0, 100))


def states(changes: Sequence[Row]) -> Iterator[tuple[int, Answer]]:
    """The result after each epoch: the sums of the weights. AssertionError unless the rows of an
    epoch come together, consolidated, and only rows disappear that had appeared."""
    current: Answer = Counter()
    epoch, seen = 0, set[Row]()
    for number, weight, *values in changes:
        row = comparable(values)
        if number != epoch:
            assert number > epoch, f"epoch {number} after epoch {epoch}"
            if epoch:
                yield epoch, +current
            epoch, seen = number, set()
        assert weight, f"a weight of 0 in epoch {epoch}: {row}"
        seen.add(row)
        current[row] += weight
    negative = {row: count for row, count in current.items() if count < 0}
    assert not negative, f"rows disappeared that had not appeared: {negative}"
    if epoch:
        yield epoch, +current


def comparable(values: Sequence[Any]) -> Row:
    """A row whose numbers are equal if they differ only by type or by the rounding of a sum."""
    return tuple(
        comparable(item)
        if isinstance(item, list)
        else float(f"{float(item):.9g}") + 0.0
        if isinstance(item, float | Decimal | int) and not isinstance(item, bool)
        else item
        for item in values
    )


class Prefixes:
    """The answers of DuckDB over all prefixes of the streams, by batches, and those that the last
    epoch may have been computed from."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, case: Case) -> None:
        self._duckdb = connection
        self._case = case
        self._scripts = [
            (name, script) for name, scripts in case.streams.items() for script in scripts
        ]
        self._answers: dict[tuple[int, ...], Answer] = {}
        self._possible = {(0,) * len(self._scripts)}

    def accept(self, epoch: int, answer: Answer) -> None:
        """AssertionError unless the answer is the one over a prefix that extends the prefix of the
        epoch before."""
        following = {
            lengths
            for lengths in product(*(range(len(script) + 1) for _, script in self._scripts))
            if any(all(map(int.__le__, before, lengths)) for before in self._possible)
        }
        found = {lengths for lengths in following if self._answer(lengths) == answer}
        assert found, f"epoch {epoch} is no answer over a prefix: {dict(answer)}"
        self._possible = found

    def end(self) -> None:
        """AssertionError unless the last epoch is the answer over all rows."""
        everything = tuple(len(script) for _, script in self._scripts)
        answers = [self._answer(lengths) for lengths in self._possible]
        assert self._answer(everything) in answers, (
            f"at the end {answers[:1]} instead of {self._answer(everything)}"
        )

    def _answer(self, lengths: tuple[int, ...]) -> Answer:
        answer = self._answers.get(lengths)
        if answer is None:
            parts: dict[str, list[pa.Table]] = {name: [] for name in self._case.streams}
            for (name, script), length in zip(self._scripts, lengths, strict=True):
                parts[name].append(self._rows(name, script[:length]))
            for name, tables in parts.items():
                self._duckdb.register(name, pa.concat_tables(tables))
            rows = self._duckdb.execute(self._case.sql).fetchall()
            answer = self._answers[lengths] = Counter(map(comparable, rows))
        return answer

    def _rows(self, name: str, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        keyed = self._case.logs.get(name)
        if keyed is None:
            return pa.Table.from_batches(batches, SCHEMA)
        return rows_of_log(batches, SCHEMA, keyed=keyed)


def main(seconds: float, seed: int) -> None:
    end, done, epochs, failed, bench = time.monotonic() + seconds, 0, 0, 0, Bench()
    while time.monotonic() < end:
        case = case_of(seed)
        try:
            epochs += bench.check(case)
        except (AssertionError, runnel.Error, duckdb.Error) as error:
            failed += 1
            print(f"{type(error).__name__}: {error}\n{case}", flush=True)
        done, seed = done + 1, seed + 1
    bench.close()
    print(f"{done} cases, {epochs} epochs; {failed} failed; next seed {seed}")


if __name__ == "__main__":
    if sys.argv[1] == "case":
        found = case_of(int(sys.argv[2]))
        print(found)
        Bench().check(found)
    else:
        main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000)
