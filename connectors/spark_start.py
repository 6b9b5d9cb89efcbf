"""Starting Spark in this process, once for all connections that need it, and stopping it after the last of them.

Spark has one context per process. A context that the program made itself is used as it is, and never stopped. One that we
started is shared by the connections that asked for it, and stopped when the last of them closes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any

from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError

DEFAULT_MASTER = "local[*]"

_SETTINGS = {
    "spark.app.name": "runnel",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Faster to the first row on a small heap; an executor has its own options.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
}
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Nothing of a local Spark is to be seen from outside."""

_lock = RLock()
_ours: dict[Any, int] = {}
"""The contexts that we started, with the number of connections that use each."""


@contextmanager
def quiet() -> Iterator[None]:
    """Leaves out pyspark's warnings, such as those on the version of pandas, through which nothing goes here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def require_pyspark() -> Any:
    """The package pyspark; InterfaceError where it isn't installed."""
    try:
        with quiet():
            return import_module("pyspark")
    except ImportError as error:
        raise InterfaceError(
            'the package "pyspark" is not installed', detail=str(error), hint="install it with: pip install 'runnel[spark]'"
        ) from error


def acquire(master: str | None) -> Any:
    """The session of this process's Spark, started if there is none; `release` gives it back. OperationalError where the
    one that runs has another master than `master`."""
    with _lock:
        pyspark = require_pyspark()
        context = pyspark.SparkContext._active_spark_context
        if context is None or context._jsc is None:
            context = _start(pyspark, master or DEFAULT_MASTER)
            _ours[context] = 0
        elif master is not None and context.master != master:
            raise OperationalError(
                f'Spark can\'t be started on "{master}": this process runs one on "{context.master}" already',
                hint="stop that session first, or hand it over: runnel.connect(spark=session)",
            )
        if context in _ours:
            _ours[context] += 1
        with quiet():
            return import_module("pyspark.sql").SparkSession.builder.getOrCreate()


def release(session: Any) -> None:
    """Gives back what `acquire` gave; the last one out stops what we started."""
    with _lock:
        context = session.sparkContext
        if context not in _ours:
            return
        _ours[context] -= 1
        if not _ours[context]:
            del _ours[context]
            with quiet(), suppress(Exception):  # it may have died, or been stopped by the program
                session.stop()


def remote(url: str) -> Any:
    """A new session of the Spark Connect server at `url` (sc://…)."""
    require_pyspark()
    try:
        with quiet():
            return import_module("pyspark.sql.connect.session").SparkSession.builder.remote(url).create()
    except ImportError as error:
        raise InterfaceError(
            "a Spark Connect session needs packages that are not installed",
            detail=str(error),
            hint="install them with: pip install 'pyspark[connect]'",
        ) from error
    except Exception as error:
        raise OperationalError(
            f'no Spark Connect server answers at "{url}"',
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=f"{type(error).__name__}: {error}",
            hint="check the address, and that the server runs",
        ) from error


def check_master(text: str) -> str:
    """A master URL as the user gave it; ProgrammingError for what can't be one."""
    if text in ("local", "yarn") or text.startswith(("local[", "local-cluster[", "spark://", "k8s://", "sc://")):
        return text
    raise ProgrammingError(
        f'"{text}" is not the master URL of a Spark',
        hint="write 'local[4]', 'spark://host:7077', 'yarn', 'k8s://…' or, for Spark Connect, 'sc://host:15002'",
    )


def _start(pyspark: Any, master: str) -> Any:
    """A new context, in a Java process of its own unless this process has one from before."""
    java = _java()
    conf = pyspark.SparkConf().setMaster(master).setAll(list(_SETTINGS.items()))
    if master.startswith("local"):
        conf.setAll(list(_LOCAL_SETTINGS.items()))
    with _worker_python(), quiet(), tempfile.TemporaryFile() as said:
        try:
            gateway = pyspark.SparkContext._gateway
            if gateway is None:
                gateway = import_module("pyspark.java_gateway").launch_gateway(conf, {"stderr": said})
            return pyspark.SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip()
            raise OperationalError(
                f'Spark can\'t be started on "{master}"',
                code=ErrorCode.CONNECTION_PROBLEM,
                detail=f"{type(error).__name__}: {error}" + (f"; its process said: {lines[-2000:]}" if lines else ""),
                hint=f"it needs Java 17 or later, and used {java}",
            ) from error


def _java() -> str:
    """The Java that Spark will run on; OperationalError where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home, "bin", "java")
        if path.is_file():
            return str(path)
        raise OperationalError(
            f'Spark needs Java, and JAVA_HOME is "{home}", where there is none',
            code=ErrorCode.CONNECTION_PROBLEM,
            hint="set JAVA_HOME to the folder of a Java 17 or later, or unset it",
        )
    found = shutil.which("java")
    if found is None:
        raise OperationalError(
            "Spark needs Java 17 or later, and there is none on the PATH",
            code=ErrorCode.CONNECTION_PROBLEM,
            hint='install one, such as "apt install openjdk-17-jre-headless" or "brew install openjdk@17", or set JAVA_HOME',
        )
    return found


@contextmanager
def _worker_python() -> Iterator[None]:
    """Spark's Python workers are to be this Python, which has pyarrow, unless the program said otherwise."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_PYTHON", None)
