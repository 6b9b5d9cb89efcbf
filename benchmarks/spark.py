"""Spark beside Spark: a million rows out of a DataFrame, and an aggregate that Spark runs. Needs pyspark and Java."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

ROWS = 1_000_000
GROUPS = 1_000


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, one after the other, in one session; none where there is no Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = _session()
        with runnel.connect(spark=session) as connection:
            yield _rows_out(session, connection, rounds)
            yield _aggregate(session, connection, rounds)
        session.stop()


def _session() -> Any:
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
    frame = session.range(0, ROWS, 1, 8).selectExpr("id", f"id % {GROUPS} AS k", "CAST(id AS DOUBLE) / 3 AS v")
    connection.register("numbers", frame)
    cursor = connection.cursor()

    def ours() -> None:
        assert cursor.execute("SELECT * FROM numbers").fetch_arrow_table().num_rows == ROWS

    def native() -> None:
        assert frame.toArrow().num_rows == ROWS

    for _ in range(5):  # Java's compiler takes a while to be done
        ours()
        native()
    return measure(
        "rows out of Spark",
        [Contestant("Runnel", ours), Contestant("Spark, toArrow()", native)],
        rounds=rounds,
        note=f"`SELECT * FROM numbers`, a DataFrame of {ROWS:,} rows, three columns and eight partitions, as an Arrow table",
        budget=Budget("Spark, toArrow()", 1.3),
    )


def _aggregate(session: Any, connection: runnel.Connection, rounds: int) -> Result:
    frame = session.range(0, 10 * ROWS, 1, 8).selectExpr(f"id % {GROUPS} AS k", "id AS v")
    frame.createOrReplaceTempView("wide")
    connection.register("wide", frame)
    cursor = connection.cursor()
    sql = "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM wide WHERE v > 10 GROUP BY k"

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
        rounds=rounds,
        note=f"`{sql}` over {10 * ROWS:,} rows of a DataFrame",
        budget=Budget("Spark SQL", 1.2),
    )
