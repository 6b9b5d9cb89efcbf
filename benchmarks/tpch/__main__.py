"""TPC-H over tables of a options scale: `python -m benchmarks.tpch 0.1 [--source
arrow|parquet|map|spark] [--pushdown on|off]`.

Prints the time of each query on Runnel (its second run; the first one makes the plan) and on DuckDB
over the same data, and whether the answers are equal. tpchgen-cli generates the data in a temporary
folder, or in `--folder`, where existing files are used again.
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
    """Generates the tables as Parquet files, if they do not exist."""
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
    """DuckDB over the files, with settings that match Runnel's semantics."""
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
    """Fills a map. Its key is the primary key of the table, as a text if it has two columns; its
    value has all columns of the table."""
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
    """Whether the rows are equal, in any order and except the rounding of quotients."""
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


def _measured(connection: Any, sql: str) -> tuple[Rows, float]:
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return rows, time.perf_counter() - started


def run(folder: Path, options: argparse.Namespace) -> bool:
    """Prints the table; returns whether all answers were equal."""
    wrong, total, total_theirs = [], 0.0, 0.0
    with connect(folder, options.source) as ours, oracle(folder) as theirs:
        ours.execute(f"SET pushdown = {options.pushdown}")
        for number in options.queries:
            sql = query(number)
            ours.execute(sql).fetchall()
            rows, seconds = _measured(ours, sql)
            expected, other = _measured(theirs, sql)
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
    parser.add_argument("--folder", type=Path, help="the folder of the Parquet files")
    parser.add_argument("--source", choices=("arrow", "parquet", "map", "spark"), default="arrow")
    parser.add_argument("--pushdown", choices=("on", "off"), default="off")
    parser.add_argument("--queries", type=int, nargs="*", default=list(QUERIES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        generate(folder, options.scale)
        return 0 if run(folder, options) else 1


if __name__ == "__main__":
    sys.exit(main())
