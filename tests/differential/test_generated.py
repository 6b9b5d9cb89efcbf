"""Generated queries give what DuckDB gives, however the tables are stored and however many
processors work.

`python -m tests.differential.test_generated SECONDS [SEED]` goes on for as long as told and prints
what it finds.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import isnan
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from tests.differential.generator import Generator
from tests.differential.kinds import make_map
from tests.differential.tables import in_disguise, tables
from tests.effort import some
from tests.slt.oracle import SETTINGS, same, translated

SEEDS = range(6)
QUERIES_PER_SEED = 30
LEAST_SHARE = 0.8
"""Of the queries at least so many must run on both engines and agree."""
TIMEOUT = 20.0
Rows = list[tuple[Any, ...]]


class Tally:
    """How many queries both engines answered alike, and why the others weren't compared."""

    def __init__(self) -> None:
        self.agreed = 0
        self.failed_alike = 0
        self.unknown_to_duckdb = 0

    @property
    def all(self) -> int:
        return self.agreed + self.failed_alike + self.unknown_to_duckdb

    def __str__(self) -> str:
        return (
            f"{self.agreed} of {self.all} ran and agreed, {self.failed_alike} failed on both, "
            f"{self.unknown_to_duckdb} DuckDB refused"
        )


def differences(
    seed: int,
    count: int,
    make: Callable[[random.Random], Any] = Generator,
    tally: Tally | None = None,
    settings: Sequence[str] = (),
) -> Iterator[str]:
    """What the engines disagree on in `count` queries of the generator that `make` makes; `tally`
    counts the others.

    `settings` are SET statements for Runnel's connection.
    """
    tally = Tally() if tally is None else tally
    source = random.Random(seed)
    plain = tables(source)
    with runnel.connect() as ours, duckdb.connect() as theirs:
        for setting in SETTINGS:
            theirs.execute(setting)
        for setting in settings:
            ours.execute(setting)
        for name, table in plain.items():
            theirs.register(name, table)
            if source.random() < 0.5:
                ours.register(name, in_disguise(table, source))
            else:
                make_map(ours, name, table, source)
        generator = make(source)
        for _ in range(count):
            sql, is_ordered = generator.query()
            difference = _difference(ours.cursor(), theirs, sql, is_ordered, tally)
            if difference is not None:
                yield f"{difference}\n  seed {seed}: {sql}"


def _difference(
    ours: runnel.Cursor, theirs: Any, sql: str, is_ordered: bool, tally: Tally
) -> str | None:
    try:
        expected = theirs.execute(translated(sql)).fetchall()
    except duckdb.Error as error:
        failure = str(error)
        if "Binder Error" in failure or "not implemented" in failure.lower():
            tally.unknown_to_duckdb += 1
            return None
        expected = None
    for parallelism in (1, 3):
        ours.execute(f"SET query_parallelism = {parallelism}")
        try:
            rows = ours.execute(sql, timeout=TIMEOUT).fetchall()
        except runnel.Error as error:
            if isinstance(error, runnel.DataError) and expected is None:
                tally.failed_alike += 1
                return None
            return f"parallelism {parallelism}: {error!r}"
        if expected is None:
            return f"DuckDB failed: {failure}"
        if not _agree(rows, expected, is_ordered):
            return (
                f"parallelism {parallelism}: {_sorted(rows)[:12]}\n  not {_sorted(expected)[:12]}"
            )
    tally.agreed += 1
    return None


def _agree(ours: Rows, theirs: Rows, is_ordered: bool) -> bool:
    if not is_ordered:
        ours, theirs = _sorted(ours), _sorted(theirs)
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: tuple(map(_rank, row)))


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, float) and isnan(value):
        return (2, 0)
    if isinstance(value, bool | int | float | Decimal):
        return (1, round(float(value), 9) + 0.0)
    return (1, str(value))


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_generated_queries(seed: int) -> None:
    tally = Tally()
    assert list(differences(seed, QUERIES_PER_SEED, tally=tally)) == []
    assert tally.all == QUERIES_PER_SEED
    assert tally.agreed >= LEAST_SHARE * QUERIES_PER_SEED, str(tally)


@pytest.mark.parametrize("rows", [[1, 2, 3], [1, 2, 2, 2], [2, 1], [None, 1, 2]])
def test_a_wrong_answer_is_seen(cursor: runnel.Cursor, rows: list[int | None]) -> None:
    cursor.connection.register("a", pa.table({"k": rows}))
    with duckdb.connect() as theirs:
        theirs.execute("CREATE TABLE a AS SELECT UNNEST([1, 2, 2]) AS k")
        assert (
            _difference(cursor, theirs, "SELECT k FROM a", is_ordered=False, tally=Tally())
            is not None
        )
    assert not _agree([(1,), (2,)], [(2,), (1,)], is_ordered=True)
    assert _agree([(1,), (2,)], [(2,), (1,)], is_ordered=False)


def main(seconds: float, seed: int, make: Callable[[random.Random], Any] = Generator) -> None:
    end, done, found, tally = time.monotonic() + seconds, 0, 0, Tally()
    while time.monotonic() < end:
        for difference in differences(seed, 50, make, tally):
            found += 1
            print(difference, flush=True)
        done, seed = done + 50, seed + 1
    print(f"{done} queries, {found} differences; {tally}; next seed {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
