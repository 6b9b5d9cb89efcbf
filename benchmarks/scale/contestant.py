"""Runs the query in this process; prints the figures as a line of JSON.

    python -m benchmarks.scale.contestant <name> <folder of the tables>
        <folder for spilled rows> <time of the start>

A second run of the query measures it without the start, unless the first run took long.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any

from benchmarks.scale import JAVA_HEAP, MEMORY, QUERY, TABLES

REPEATED = 5
LONG = 10.0
"""Seconds, with the start, after which a query isn't repeated."""


@dataclass
class Engine:
    """A started engine that runs the query."""

    rows: Callable[[], list[tuple[Any, ...]]]
    plan: Callable[[], str]
    java: int | None = None
    """The process of its Java."""


def ours(tables: Path, spill: Path, stack: ExitStack, *, kind: str, **settings: Any) -> Engine:
    """Runnel over mappings of a kind."""
    import runnel

    connection = stack.enter_context(
        runnel.connect(memory_limit=MEMORY, temp_directory=str(spill), **settings)
    )
    for name in TABLES:
        options = f"OPTIONS ('format' = 'parquet', 'path' = '{tables / name}')"
        connection.execute(f"CREATE MAPPING {name} TYPE {kind} {options}")
    return Engine(
        lambda: connection.execute(QUERY).fetchall(),
        lambda: "\n".join(str(row[0]) for row in connection.execute(f"EXPLAIN {QUERY}").fetchall()),
    )


def planned(tables: Path, spill: Path, stack: ExitStack) -> Engine:
    return ours(tables, spill, stack, kind="File")


def tasklets(tables: Path, spill: Path, stack: ExitStack) -> Engine:
    return ours(tables, spill, stack, kind="File", pushdown="off")


def through_spark(tables: Path, spill: Path, stack: ExitStack) -> Engine:
    engine = ours(tables, spill, stack, kind="Spark", spark="local[*]")
    engine.java = java_process()
    return engine


def duckdb(tables: Path, spill: Path, stack: ExitStack) -> Engine:
    import duckdb as package

    config = {"memory_limit": MEMORY, "temp_directory": str(spill)}
    connection = stack.enter_context(package.connect(config=config))
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{tables / name}/*.parquet'")
    return Engine(
        lambda: connection.execute(QUERY).fetchall(),
        lambda: str(connection.execute(f"EXPLAIN {QUERY}").fetchall()[0][1]),
    )


def pyspark(tables: Path, spill: Path, stack: ExitStack) -> Engine:
    """Spark with its defaults, except the level of its log."""
    import warnings

    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    builder = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    builder = builder.config("spark.ui.showConsoleProgress", "false").config(
        "spark.driver.host", "127.0.0.1"
    )
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    stack.callback(session.stop)
    for name in TABLES:
        session.read.parquet(str(tables / name)).createOrReplaceTempView(name)

    def rows() -> list[tuple[Any, ...]]:
        table = session.sql(QUERY).toArrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    return Engine(
        rows, lambda: str(session.sql(f"EXPLAIN {QUERY}").collect()[0][0]), java_process()
    )


def java_process() -> int:
    """The process of this process's JVM. AssertionError if its maximum heap is larger than
    configured."""
    from pyspark import SparkContext

    heap = int(SparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory())
    assert heap <= JAVA_HEAP << 30, f"Java may take {heap:,} bytes"
    return int(SparkContext._gateway.proc.pid)


ENGINES = {item.__name__: item for item in (planned, tasklets, duckdb, through_spark, pyspark)}


def peak(process: int | str) -> int:
    """The peak memory of a process in bytes. Not ru_maxrss, which begins with the peak of the
    parent process."""
    for line in Path(f"/proc/{process}/status").read_text("ascii").split("\n"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def processor_seconds(process: int | str) -> float:
    """CPU seconds of a process so far, which other load on the machine affects little."""
    words = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def normalized(rows: list[tuple[Any, ...]]) -> str:
    """A text that is equal for equal rows: sorted, and decimals without trailing zeros."""
    shown = sorted(
        [str(value.normalize()) if isinstance(value, Decimal) else str(value) for value in row]
        for row in rows
    )
    return f"{len(rows)} rows, {hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]}"


def run(name: str, tables: Path, spill: Path, started: float) -> dict[str, Any]:
    """Runs the query; returns the figures of the point."""
    # Spark reads the size of its heap and the folder of its shuffles from these variables, whether
    # Runnel or PySpark starts it.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {JAVA_HEAP}g pyspark-shell"
    os.environ["SPARK_LOCAL_DIRS"] = str(spill)
    with ExitStack() as stack:
        engine = ENGINES[name](tables, spill, stack)
        times = []
        began = perf_counter()
        answer = normalized(engine.rows())
        times.append(perf_counter() - began)
        cold = time() - started
        cpu = processor_seconds("self") + (
            processor_seconds(engine.java) if engine.java is not None else 0
        )
        while len(times) < REPEATED and sum(times) < LONG:
            began = perf_counter()
            assert normalized(engine.rows()) == answer
            times.append(perf_counter() - began)
        began = perf_counter()
        plan = engine.plan()
        planning = perf_counter() - began
        return {
            "cold": cold,
            "cpu": cpu,
            "warm": median(times[1:] or times),
            "planning": planning,
            "peak": peak("self"),
            "java_peak": peak(engine.java) if engine.java is not None else 0,
            "answer": answer,
            "plan": plan.replace(
                f"{tables}/", ""
            ),  # without the folder, the plan is the same in every folder
        }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))))
