"""A new process until its first answer: import, connect, SELECT 1.

The processes use compiled bytecode, as with any installed package; the warm-up round writes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Contestant, Result, TimeBudget, measure

SCRIPTS = {
    "Runnel": "import runnel; print(runnel.connect().cursor().execute('SELECT 1').fetchone())",
    "DuckDB": "import duckdb; print(duckdb.connect().execute('SELECT 1').fetchone())",
    "sqlite3": "import sqlite3; print(sqlite3.connect(':memory:').execute('SELECT 1').fetchone())",
    "Polars": "import polars; print(polars.sql('SELECT 1', eager=True).row(0))",
    "import pyarrow, numpy alone": "import pyarrow, pyarrow.compute, numpy; print((1,))",
    "import pyarrow, numpy, sqlglot alone": (
        "import pyarrow, pyarrow.compute, numpy, sqlglot; print((1,))"
    ),
    "python -c pass": "print((1,))",
}
MOST_SECONDS = 0.4


def process(script: str) -> None:
    """Runs a new process."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1,)", done.stdout


def results(rounds: int) -> Iterator[Result]:
    """The benchmark of this file."""
    yield measure(
        "cold start",
        [
            Contestant(name, lambda script=script: process(script))
            for name, script in SCRIPTS.items()
        ],  # type: ignore[misc]
        rounds=rounds,
        note="`SELECT 1` in a new process",
        budget=TimeBudget(MOST_SECONDS),
    )
