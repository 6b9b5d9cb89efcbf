"""One small Spark session for all tests of the connector. Without pyspark or Java they are skipped, and say so."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import runnel


def missing() -> str | None:
    """What Spark lacks to run here."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'runnel[spark]'"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "there is no Java: install a Java 17 or set JAVA_HOME"
    return None


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def session(warehouse: Path) -> Iterator[Any]:
    """A session that the program made, with settings that differ from ours: they must not matter."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.log.level": "OFF",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(warehouse),
        }
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.stop()


@pytest.fixture
def connection(session: Any) -> Iterator[runnel.Connection]:
    """A connection with that session."""
    with runnel.connect(spark=session) as made:
        yield made


@pytest.fixture
def query(session: Any, cursor: runnel.Cursor) -> Callable[[str], list[tuple[Any, ...]]]:
    """Makes a mapping "q" on a query in Spark's SQL, and gives its rows."""

    def run(text: str) -> list[tuple[Any, ...]]:
        quoted = text.replace("'", "''")
        cursor.execute(f"CREATE OR REPLACE MAPPING q TYPE Spark OPTIONS ('query' = '{quoted}')")
        return cursor.execute("SELECT * FROM q").fetchall()

    return run
