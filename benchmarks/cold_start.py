"""A new process until its first answer: import, connect, SELECT 1."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Contestant, Result, measure

SCRIPTS = {
    "Runnel": "import runnel; print(runnel.connect().cursor().execute('SELECT 1').fetchone())",
    "DuckDB": "import duckdb; print(duckdb.connect().execute('SELECT 1').fetchone())",
    "sqlite3": "import sqlite3; print(sqlite3.connect(':memory:').execute('SELECT 1').fetchone())",
    "Polars": "import polars; print(polars.sql('SELECT 1', eager=True).row(0))",
    "import pyarrow, numpy alone": "import pyarrow, pyarrow.compute, numpy; print((1,))",
    "python -c pass": "print((1,))",
}
MOST_SECONDS = 0.4


def results(rounds: int) -> Iterator[Result]:
    """The benchmark of this file."""

    def process(script: str) -> None:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "(1,)", done.stdout

    yield measure(
        "cold start",
        [Contestant(name, lambda script=script: process(script)) for name, script in SCRIPTS.items()],  # type: ignore[misc]
        rounds=rounds,
        note=f"`SELECT 1` in a new process; at most {MOST_SECONDS} s",
    )
