"""TPC-H over tables of a given scale: `python -m benchmarks.tpch 0.1 [--source
arrow|parquet|map|spark] [--pushdown on|off]`.

Prints each query's time (the second run, the first makes the plan) beside DuckDB's over the same
data, and whether the answers are the same. The data is made by tpchgen-cli, in a temporary folder
unless `--folder` names one; what is there is kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import runnel
from benchmarks.tpch import QUERIES, TABLES, query
from tests.slt.oracle import SETTINGS

KEYS = {
    "customer": ("c_custkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
    "nation": ("n_nationkey",),
    "orders": ("o_orderkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "region": ("r_regionkey",),
    "supplier": ("s_suppkey",),
}
Rows = list[tuple[Any, ...]]


def generate(folder: Path, scale: str) -> None:
    """Makes the tables as Parquet files, unless they are there."""
    if all((folder / f"{name}.parquet").exists() for name in TABLES):
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(Path(sys.executable).parent / "tpchgen-cli"),
        "parquet",
        "-s",
        scale,
        "--output-dir",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True)


def oracle(folder: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB over the files, under settings that mean what ours mean."""
    connection = duckdb.connect()
    for setting in SETTINGS:
        connection.execute(setting)
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
    return connection


def connect(folder: Path, source: str) -> runnel.Connection:
    """A connection with the tables registered ("arrow"), as files ("parquet"), as maps ("map") or
    as DataFrames of a Spark that the connection starts ("spark")."""
    connection = runnel.connect(spark="local[*]") if source == "spark" else runnel.connect()
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if source == "arrow":
            connection.register(name, pq.read_table(path))
        elif source == "parquet":
            options = f"'format'='parquet', 'path'='{folder}', 'glob'='{path.name}'"
            connection.execute(f"CREATE MAPPING {name} TYPE File OPTIONS ({options})")
        elif source == "spark":
            connection.execute(
                f"CREATE MAPPING {name} TYPE Spark OPTIONS ('format'='parquet', 'path'='{path}')"
            )
        else:
            _fill_map(connection, name, path)
    return connection


def _fill_map(connection: runnel.Connection, name: str, path: Path) -> None:
    """A map whose key is the table's own, as text where that is of two columns; the table's columns
    are the value's."""
    table = pq.read_table(path)
    connection.register(f"raw_{name}", table)
    columns = ", ".join(f"{field.name} {_sql_type(str(field.type))}" for field in table.schema)
    key = " || '-' || ".join(f"CAST({column} AS VARCHAR)" for column in KEYS[name])
    options = "OPTIONS ('keyFormat'='varchar', 'valueFormat'='json-flat')"
    connection.execute(f"CREATE MAPPING {name} (__key VARCHAR, {columns}) TYPE IMap {options}")
    names = ", ".join(table.column_names)
    connection.execute(f"SINK INTO {name} (__key, {names}) SELECT {key}, {names} FROM raw_{name}")


def _sql_type(arrow: str) -> str:
    if arrow.startswith("decimal"):
        return arrow.replace("decimal128", "DECIMAL")
    names = {"int32": "INTEGER", "int64": "BIGINT", "date32[day]": "DATE", "double": "DOUBLE"}
    return names.get(arrow, "VARCHAR")


def agree(ours: Rows, theirs: Rows) -> bool:
    """Whether the rows are the same, in any order, but for how a quotient is rounded."""
    first, second = sorted(ours, key=_rank), sorted(theirs, key=_rank)
    return len(first) == len(second) and all(
        len(a) == len(b) and all(map(_same, a, b)) for a, b in zip(first, second, strict=True)
    )


def _rank(row: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    return tuple(
        (0, round(float(v), 2)) if isinstance(v, int | float | Decimal) else (1, str(v))
        for v in row
    )


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, int | float | Decimal) and isinstance(second, int | float | Decimal):
        return isclose(first, second, rel_tol=1e-9, abs_tol=1e-6)
    return bool(first == second)


def _timed(connection: Any, sql: str) -> tuple[Rows, float]:
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return rows, time.perf_counter() - started


def run(folder: Path, given: argparse.Namespace) -> bool:
    """Prints the table; whether all answers were the same."""
    wrong, total, total_theirs = [], 0.0, 0.0
    with connect(folder, given.source) as ours, oracle(folder) as theirs:
        ours.execute(f"SET pushdown = {given.pushdown}")
        for number in given.queries:
            sql = query(number)
            ours.execute(sql).fetchall()
            rows, seconds = _timed(ours, sql)
            expected, other = _timed(theirs, sql)
            total, total_theirs = total + seconds, total_theirs + other
            is_same = agree(rows, expected)
            if not is_same:
                wrong.append(number)
            print(
                f"q{number:02} {seconds:8.3f} s   DuckDB {other:8.3f} s   {len(rows):6} "
                f"rows{'' if is_same else '   DIFFERENT'}"
            )
    print(
        f"all {total:8.3f} s   DuckDB {total_theirs:8.3f} s   "
        f"{'same answers' if not wrong else f'different: {wrong}'}"
    )
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch", description=__doc__)
    parser.add_argument("scale", nargs="?", default="0.1")
    parser.add_argument("--folder", type=Path, help="where the Parquet files are, or are made")
    parser.add_argument("--source", choices=("arrow", "parquet", "map", "spark"), default="arrow")
    parser.add_argument("--pushdown", choices=("on", "off"), default="off")
    parser.add_argument("--queries", type=int, nargs="*", default=list(QUERIES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        generate(folder, given.scale)
        return 0 if run(folder, given) else 1


if __name__ == "__main__":
    sys.exit(main())
