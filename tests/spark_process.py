"""The one Spark that a test run has: tests take sessions of it, each with settings of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from tests.effort import ALL
from tests.spark.connect_server import QUICK_JAVA, quick_home

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark makes no code for a query, which takes longer than running it over a few rows."""
FEWER_FILES = {
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""A file of a checkpoint has no checksums, which are files, too."""

_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The code that Spark makes of queries would fill the 48 MB that there are otherwise.
    "spark.driver.extraJavaOptions": (
        f"{QUICK_JAVA} -XX:ReservedCodeCacheSize=192m -XX:MetaspaceSize=192m"
    ),
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **({} if ALL else FEWER_FILES),
}


def missing() -> str | None:
    """What Spark lacks to run here."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'runnel[spark]'"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "there is no Java: install a Java 17 or set JAVA_HOME"
    return None


@cache
def _first() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = home = quick_home()
    builder = SparkSession.builder.master("local[2]").appName("tests")
    warehouse = tempfile.mkdtemp(prefix="runnel-warehouse-")
    for name, value in {**_SETTINGS, "spark.sql.warehouse.dir": warehouse}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    if before is None:
        del os.environ["SPARK_HOME"]
    else:
        os.environ["SPARK_HOME"] = before
    atexit.register(_stop, made, warehouse, home)
    return made


def _stop(made: Any, *folders: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.stop()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def new_session(settings: Mapping[str, str]) -> Any:
    """A session of its own in the one Spark of this process, which is stopped at exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _first().newSession()
    for name, value in settings.items():
        made.conf.set(name, value)
    return made
