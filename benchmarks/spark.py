"""Spark through Runnel compared with PySpark alone: rows out of a DataFrame, an aggregate that
Spark runs, a job that writes, the first rows of a long scan. Needs pyspark and Java.

    python -m benchmarks.spark [rounds]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

ROWS = 1_000_000
GROUPS = 1_000
AGGREGATED = 40 * ROWS
WRITTEN = 20 * ROWS
PARTITIONS = 100
WARM_UPS = 60
JOB_WARM_UPS = 10
"""Seconds until Java's compiler has compiled the code of a short query (mostly Spark's planner),
and the code of a job (mostly the writing of files)."""


def has_java() -> bool:
    """Whether Spark can run here."""
    return shutil.which("java") is not None or "JAVA_HOME" in os.environ


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, in sequence, in one session; none without Java."""
    if not has_java():
        return
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        warnings.simplefilter("ignore")
        session = new_session()
        with runnel.connect(Path(scratch) / "db", spark=session) as connection:
            yield _rows_out(session, connection, rounds)
            yield _aggregate(session, connection, rounds)
            yield _job(session, connection, Path(scratch), rounds)
            yield _first_rows(session, connection, rounds)
        session.stop()


def new_session() -> Any:
    """A Spark session with the memory that a benchmark needs, without log lines."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master("local[*]").appName("benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _rows_out(session: Any, connection: runnel.Connection, rounds: int) -> Result:
    frame = session.range(0, ROWS, 1, 8).selectExpr(
        "id", f"id % {GROUPS} AS k", "CAST(id AS DOUBLE) / 3 AS v"
    )
    connection.register("numbers", frame)
    cursor = connection.cursor()

    def ours() -> None:
        assert cursor.execute("SELECT * FROM numbers").fetch_arrow_table().num_rows == ROWS

    def native() -> None:
        assert frame.toArrow().num_rows == ROWS

    for _ in range(WARM_UPS):
        ours()
        native()
    return measure(
        "rows out of Spark",
        [Contestant("Runnel", ours), Contestant("Spark, toArrow()", native)],
        rounds=2 * rounds,
        note=(
            f"`SELECT * FROM numbers`, a DataFrame of {ROWS:,} rows, "
            "three columns and eight partitions, as an Arrow table"
        ),
        budget=Budget("Spark, toArrow()", 1.3),
    )


def _aggregate(session: Any, connection: runnel.Connection, rounds: int) -> Result:
    frame = session.range(0, AGGREGATED, 1, 8).selectExpr(f"id % {GROUPS} AS k", "id AS v")
    frame.createOrReplaceTempView("wide")
    connection.register("wide", frame)
    cursor = connection.cursor()
    sql = (
        "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM wide WHERE v > 10 GROUP BY k"
    )

    def ours() -> None:
        assert cursor.execute(sql).fetch_arrow_table().num_rows == GROUPS

    def native() -> None:
        assert session.sql(sql).toArrow().num_rows == GROUPS

    for _ in range(3):
        ours()
        native()
    return measure(
        "aggregate in Spark",
        [Contestant("Runnel", ours), Contestant("Spark SQL", native)],
        rounds=2 * rounds,
        note=f"`{sql}` over {AGGREGATED:,} rows of a DataFrame",
        budget=Budget("Spark SQL", 1.2),
    )


def _job(session: Any, connection: runnel.Connection, scratch: Path, rounds: int) -> Result:
    """A job from the statement to its end. The time includes the removal of its output, for both
    contestants."""
    source, out = scratch / "source", scratch / "out"
    rows = session.range(0, WRITTEN, 1, 8).selectExpr(
        "id", f"id % {GROUPS} AS k", "CAST(id AS DOUBLE) / 3 AS v"
    )
    rows.write.parquet(str(source))
    session.read.parquet(str(source)).createOrReplaceTempView("source")
    for name, folder in (("source", source), ("sink", out)):
        connection.execute(f"""CREATE MAPPING {name} (id BIGINT, k BIGINT, v DOUBLE) TYPE Spark
            OPTIONS ('format' = 'parquet', 'path' = '{folder}')""")
    sql = "SELECT id, k, v + k AS v FROM source WHERE k < 900"

    def ours() -> None:
        connection.execute(
            f"CREATE JOB j OPTIONS ('runtime' = 'spark') AS INSERT INTO sink (id, k, v) {sql}"
        )
        connection.job("j").join(600)
        connection.execute("DROP JOB j")
        assert list(out.glob("*.parquet"))
        shutil.rmtree(out)

    def native() -> None:
        session.sql(sql).write.mode("append").parquet(str(out))
        assert list(out.glob("*.parquet"))
        shutil.rmtree(out)

    for _ in range(JOB_WARM_UPS):
        ours()
        native()
    return measure(
        "job on Spark",
        [
            Contestant("Runnel, CREATE JOB … 'runtime' = 'spark'", ours),
            Contestant("Spark, DataFrame.write", native),
        ],
        rounds=rounds,
        note=f"`{sql}`, {WRITTEN:,} rows of Parquet, into Parquet",
        budget=Budget("Spark, DataFrame.write", 1.2),
    )


def _first_rows(session: Any, connection: runnel.Connection, rounds: int) -> Result:
    count = 5 * ROWS
    frame = session.range(0, count, 1, PARTITIONS).selectExpr(
        "id", "sha2(CAST(id AS STRING), 256) AS hash"
    )
    connection.register("hashes", frame)
    sql = "SELECT * FROM hashes"

    def first() -> None:
        with connection.cursor() as cursor:
            assert cursor.execute(sql).fetchone() is not None

    def last() -> None:
        with connection.cursor() as cursor:
            rows = 0
            for batch in cursor.execute(sql).fetch_record_batch():
                rows += batch.num_rows
            assert rows == count

    def native() -> None:
        assert frame.toArrow().num_rows == count

    contestants = [
        Contestant("Runnel, the first row, and the rest is cancelled", first),
        Contestant("Runnel, all rows", last),
        Contestant("Spark, toArrow()", native),
    ]
    return measure(
        f"first row of {PARTITIONS} partitions",
        contestants,
        rounds=rounds,
        note=f"`{sql}`, {count:,} rows that Spark computes, in {PARTITIONS} partitions",
        budget=Budget("Runnel, all rows", 0.2),
    )


if __name__ == "__main__":
    for result in results(max(5, int(sys.argv[1])) if len(sys.argv) > 1 else 7):
        print(result.title, "—", result.note)
        for timing in result.timings:
            print(
                f"  {timing.median:8.3f} s ({timing.fastest:.3f}–{timing.slowest:.3f})  "
                f"{timing.name}"
            )
        print(" ", result.verdict, flush=True)
