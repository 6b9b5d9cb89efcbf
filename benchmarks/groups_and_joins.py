"""GROUP BY and JOIN over ten million rows: fifteen questions in which the number of groups, the
types of the keys and the aggregates vary.

    python -m benchmarks.groups_and_joins [rounds] [million rows]

The questions and the distributions of the columns are the ones of the db-benchmark of H2O.ai
(https://duckdblabs.github.io/db-benchmark/), its 0.5 GB size. All contestants return Arrow. Runnel
and DuckDB read tables that they made themselves, in memory, and Arrow tables that were registered.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

MILLIONS = 10
KEYS = 100
"""The number of values of the small keys; the large keys have a value for every KEYS rows."""

THREADS = 2
ARROW = "arrow_"
"""Begins the names of the registered tables."""

TOLERANCE = 1e-6
"""Sums of DOUBLE may differ by this fraction, as their order is not defined."""

Frames = Mapping[str, pl.LazyFrame]


@dataclass(frozen=True, slots=True)
class Question:
    """One query, in SQL and for Polars.

    title: what it varies.
    sql: the query over the tables x, small, medium and large.
    lazy: the same as an expression of Polars.
    """

    title: str
    sql: str
    lazy: Callable[[Frames], pl.LazyFrame]


def _by(*keys: str) -> Callable[..., Callable[[Frames], pl.LazyFrame]]:
    """Aggregation of x by some keys, for Polars."""
    return lambda *values: lambda frames: frames["x"].group_by(*keys).agg(*values)


def _joined(table: str, key: str, how: str = "inner") -> Callable[[Frames], pl.LazyFrame]:
    def lazy(frames: Frames) -> pl.LazyFrame:
        right = frames[table].select(key, "w")
        left = frames["x"].select(key, "v1")
        rows = left.join(right, on=key, how="left" if how == "left" else "inner")
        return rows.select(pl.len(), pl.col("v1").sum(), pl.col("w").sum())

    return lazy


def _join(table: str, key: str, how: str = "JOIN") -> str:
    return (
        f"SELECT COUNT(*) AS n, SUM(x.v1) AS v1, SUM({table}.w) AS w FROM x {how} {table} "
        f"ON x.{key} = {table}.{key}"
    )


QUESTIONS = (
    Question(
        "100 groups of a text",
        "SELECT id1, SUM(v1) AS v1 FROM x GROUP BY id1",
        _by("id1")(pl.col("v1").sum()),
    ),
    Question(
        "10,000 groups of two texts",
        "SELECT id1, id2, SUM(v1) AS v1 FROM x GROUP BY id1, id2",
        _by("id1", "id2")(pl.col("v1").sum()),
    ),
    Question(
        "100,000 groups of a text",
        "SELECT id3, SUM(v1) AS v1, AVG(v3) AS v3 FROM x GROUP BY id3",
        _by("id3")(pl.col("v1").sum(), pl.col("v3").mean()),
    ),
    Question(
        "three averages, 100 groups",
        "SELECT id4, AVG(v1) AS v1, AVG(v2) AS v2, AVG(v3) AS v3 FROM x GROUP BY id4",
        _by("id4")(pl.col("v1", "v2", "v3").mean()),
    ),
    Question(
        "three sums, 100,000 groups",
        "SELECT id6, SUM(v1) AS v1, SUM(v2) AS v2, SUM(v3) AS v3 FROM x GROUP BY id6",
        _by("id6")(pl.col("v1", "v2", "v3").sum()),
    ),
    Question(
        "median and deviation, 10,000 groups",
        "SELECT id4, id5, MEDIAN(v3) AS m, STDDEV_SAMP(v3) AS s FROM x GROUP BY id4, id5",
        _by("id4", "id5")(pl.col("v3").median().alias("m"), pl.col("v3").std().alias("s")),
    ),
    Question(
        "difference of MAX and MIN, 100,000 groups",
        "SELECT id3, MAX(v1) - MIN(v2) AS d FROM x GROUP BY id3",
        _by("id3")((pl.col("v1").max() - pl.col("v2").min()).alias("d")),
    ),
    Question(
        "the two largest of each group, 100,000 groups",
        "SELECT id6, v3 FROM x QUALIFY ROW_NUMBER() OVER (PARTITION BY id6 ORDER BY v3 DESC) <= 2",
        lambda frames: frames["x"].group_by("id6").agg(pl.col("v3").top_k(2)).explode("v3"),
    ),
    Question(
        "correlation, 10,000 groups",
        "SELECT id2, id4, POWER(CORR(v1, v2), 2) AS r FROM x GROUP BY id2, id4",
        _by("id2", "id4")((pl.corr("v1", "v2") ** 2).alias("r")),
    ),
    Question(
        "a group for each row",
        "SELECT id1, id2, id3, id4, id5, id6, SUM(v3) AS v3, COUNT(*) AS n FROM x "
        "GROUP BY id1, id2, id3, id4, id5, id6",
        _by("id1", "id2", "id3", "id4", "id5", "id6")(pl.col("v3").sum(), pl.len().alias("n")),
    ),
    Question("JOIN with 100 rows", _join("small", "id4"), _joined("small", "id4")),
    Question("JOIN with 10,000 rows", _join("medium", "id7"), _joined("medium", "id7")),
    Question(
        "LEFT JOIN with 10,000 rows",
        _join("medium", "id7", "LEFT JOIN"),
        _joined("medium", "id7", "left"),
    ),
    Question("JOIN by a text", _join("medium", "id8"), _joined("medium", "id8")),
    Question("JOIN with as many rows", _join("large", "id9"), _joined("large", "id9")),
)


def _texts(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], digits: int) -> pa.Array:
    """Numbers as texts `id` with leading zeros; equal numbers share the formatting."""
    distinct, places = np.unique(numbers, return_inverse=True)
    values = pa.array([f"id{number:0{digits}d}" for number in distinct.tolist()], pa.string())
    return values.take(pa.array(places))


def tables(rows: int) -> dict[str, pa.Table]:
    """The four tables. Nine of ten keys of x occur in the tables it is joined with."""
    random = np.random.default_rng(108)
    many, medium = max(rows // KEYS, 1), max(rows // 1_000, 1)

    def key(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return random.integers(1, count + 1, rows)

    second = key(medium * 10 // 9)
    x = {
        "id1": _texts(key(KEYS), 3),
        "id2": _texts(key(KEYS), 3),
        "id3": _texts(key(many), 10),
        "id4": key(KEYS),
        "id5": key(KEYS),
        "id6": key(many),
        "id7": second,
        "id8": _texts(second, 10),
        "id9": random.permutation(rows * 10 // 9)[:rows] + 1,
        "v1": random.integers(1, 6, rows),
        "v2": random.integers(1, 16, rows),
        "v3": np.round(random.random(rows) * 100, 6),
    }
    made = {"x": pa.table(x)}
    for name, count, keys in (
        ("small", KEYS * 9 // 10, ("id4",)),
        ("medium", medium, ("id7", "id8")),
        ("large", rows, ("id9",)),
    ):
        numbers = random.permutation(count) + 1
        columns: dict[str, object] = {
            name: _texts(numbers, 10) if name == "id8" else numbers for name in keys
        }
        made[name] = pa.table({**columns, "w": random.integers(1, 100, count)})
    return made


def results(rounds: int = 7, millions: float = MILLIONS) -> Iterator[Result]:
    """The fifteen questions. The answers of all contestants are compared first."""
    made = tables(int(millions * 1e6))
    frames = {name: pl.LazyFrame(table) for name, table in made.items()}
    with (
        runnel.connect(cooperative_threads=THREADS) as connection,
        duckdb.connect(config={"threads": THREADS}) as duck,
    ):
        for name, table in made.items():
            for engine in (connection, duck):
                engine.register(f"{ARROW}{name}", table)
                engine.execute(f"CREATE TABLE {name} AS FROM {ARROW}{name}")
        cursor = connection.cursor()
        for number, question in enumerate(QUESTIONS, 1):
            yield _measured(number, question, (cursor, duck, frames), rounds)


def _measured(
    number: int,
    question: Question,
    engines: tuple[runnel.Cursor, duckdb.DuckDBPyConnection, Frames],
    rounds: int,
) -> Result:
    cursor, duck, frames = engines
    lazy = question.lazy(frames)
    registered = re.sub(r"\b(FROM|JOIN) (\w+)", rf"\1 {ARROW}\2 AS \2", question.sql)
    runs: dict[str, Callable[[], pa.Table]] = {
        "Runnel": lambda: cursor.execute(question.sql).fetch_arrow_table(),
        "DuckDB": lambda: duck.sql(question.sql).to_arrow_table(),
        "Polars, lazy": lambda: lazy.collect().to_arrow(),
        "Runnel, over Arrow": lambda: cursor.execute(registered).fetch_arrow_table(),
        "DuckDB, over Arrow": lambda: duck.sql(registered).to_arrow_table(),
    }
    _compare(question, *(run() for run in runs.values()))
    return measure(
        f"groups and joins {number}: {question.title}",
        [Contestant(name, run) for name, run in runs.items()],
        rounds=rounds,
        note=f"`{question.sql}`, {frames['x'].select(pl.len()).collect().item():,} rows of x",
        budget=Budget("DuckDB", 1.1),
    )


def _compare(question: Question, *answers: pa.Table) -> None:
    """Raises AssertionError unless all answers have as many rows and the same sums per column."""
    first, *others = map(_sums, answers)
    for other in others:
        assert len(first) == len(other), question.sql
        for seen, expected in zip(first, other, strict=True):
            assert abs(seen - expected) <= TOLERANCE * max(abs(expected), 1.0), (
                question.sql,
                first,
                other,
            )


def _sums(table: pa.Table) -> list[float]:
    """The number of rows, and the sum of each column of numbers, in the order of the columns."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    numeric = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    return [float(frame.height), *(float(frame[name].cast(pl.Float64).sum()) for name in numeric)]


if __name__ == "__main__":
    given = [float(item) for item in sys.argv[1:]]
    for result in results(int(given[0]) if given else 5, given[1] if len(given) > 1 else MILLIONS):
        print(result.title)
        for timing in result.timings:
            print(f"  {timing.name}: {timing.median:.3f} s")
        print(" ", result.verdict)
