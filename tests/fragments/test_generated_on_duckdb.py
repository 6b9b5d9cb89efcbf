"""Generated queries with all that DuckDB can run on DuckDB give what they give on our own
operators, over tables of every kind.

`python -m tests.fragments.test_generated_on_duckdb SECONDS
[SEED]` goes on for as long as told and prints what it finds.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import runnel
from tests.differential.generator import Generator
from tests.differential.kinds import KINDS, put
from tests.differential.one_sided import OneSidedGenerator
from tests.differential.tables import tables
from tests.differential.test_generated import Rows, Tally, _agree, _sorted
from tests.effort import some

SEEDS = range(100, 105)
ONE_SIDED_SEEDS = range(200, 206)
QUERIES_PER_SEED = 25
Make = Callable[[random.Random, list[Any]], Any]
GENERATORS: tuple[Make, ...] = (Generator, OneSidedGenerator)
LEAST_ON_DUCKDB = 0.5


def outcome(cursor: runnel.Cursor, sql: str, arguments: list[Any]) -> Rows | str:
    """The rows, or the kind of the error."""
    try:
        return cursor.execute(sql, arguments, timeout=20.0).fetchall()
    except runnel.DataError:
        return "DataError"
    except runnel.NotSupportedError:
        return "NotSupportedError"
    except runnel.Error as error:
        return repr(error)


def differences(
    seed: int, count: int, make: Make, folder: Path, tally: Tally | None = None
) -> Iterator[str]:
    """What differs in `count` queries of the generator; `tally.agreed` counts those that DuckDB
    took part in."""
    tally = Tally() if tally is None else tally
    source, arguments = random.Random(seed), list[Any]()
    with runnel.connect(fragment_rows=0) as pushed, runnel.connect(pushdown=False) as own:
        for name, table in tables(source).items():
            own.register(name, table)
            put(pushed, name, table, source.choice(KINDS), (folder, source))
        generator = make(source, arguments)
        for _ in range(count):
            sql, is_ordered = generator.query()
            ours, theirs = (
                outcome(own.cursor(), sql, arguments),
                outcome(pushed.cursor(), sql, arguments),
            )
            if isinstance(ours, str) or isinstance(theirs, str):
                is_alike = ours == theirs and "Error(" not in str(ours)
                tally.failed_alike += is_alike
            else:
                is_alike = _agree(theirs, ours, is_ordered)
                tally.agreed += "Fragment on DuckDB" in str(
                    pushed.execute(f"EXPLAIN (PHYSICAL) {sql}", arguments).fetchall()
                )
            if not is_alike:
                yield (
                    f"on DuckDB {_shown(theirs)}\n  not {_shown(ours)}\n"
                    f"  seed {seed}: {sql} with {arguments}"
                )


def _shown(found: Rows | str) -> Any:
    return found if isinstance(found, str) else _sorted(found)[:12]


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_generated_queries(seed: int, tmp_path: Path) -> None:
    tally = Tally()
    assert list(differences(seed, QUERIES_PER_SEED, Generator, tmp_path, tally)) == []
    assert tally.agreed > LEAST_ON_DUCKDB * QUERIES_PER_SEED


@pytest.mark.parametrize("seed", some(ONE_SIDED_SEEDS, 3))
def test_conditions_of_one_side(seed: int, tmp_path: Path) -> None:
    tally = Tally()
    assert list(differences(seed, 3 * QUERIES_PER_SEED, OneSidedGenerator, tmp_path, tally)) == []
    assert tally.agreed > LEAST_ON_DUCKDB * QUERIES_PER_SEED


def main(seconds: float, seed: int) -> None:
    end, done, found, tally = time.monotonic() + seconds, 0, 0, Tally()
    for make in cycle(GENERATORS):
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory() as folder:
            for difference in differences(seed, 50, make, Path(folder), tally):
                found += 1
                print(difference, flush=True)
        done, seed = done + 50, seed + 1
    print(f"{done} queries, {found} differences; {tally.agreed} ran on DuckDB; next seed {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
