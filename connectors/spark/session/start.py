"""Starting Spark in this process, once for all connections that need it, and stopping it after the
last of them.

Spark has one context per process. A context that the program made itself is used as it is, and
never stopped. One that we started is shared by the connections that asked for it, and stopped when
the last of them closes.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runnel.base.forks import SharedLock, pin, watch
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError

DEFAULT_MASTER = "local[*]"

_SETTINGS = {
    "spark.app.name": "runnel",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # On a small heap and few processors faster than what Java takes by itself; an executor has its
    # own options.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xshare:auto",
}
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Nothing of a local Spark is to be seen from outside."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

REACHING_SECONDS = 10.0
"""How long a master or server has to take a connection."""

_lock = SharedLock("the start of Spark")
_ours: dict[Any, int] = {}
"""The contexts that we started, with the number of connections that use each."""


class _Inheritance:
    """The context that this process has from the one that it was forked from: what talks to that's
    Java through the same sockets would be in its way."""

    def __init__(self) -> None:
        self.context: Any = None
        watch(self)

    def leave(self) -> None:
        known = getattr(
            sys.modules.get("pyspark"), "SparkContext", None
        )  # pyspark may be half imported
        self.context = None if known is None else known._active_spark_context
        pin(self.context)
        for context in _ours:
            pin(context)
            process = getattr(context._gateway, "proc", None)
            if process is not None and process.stdin is not None:
                # Java ends when nobody has the other end of this pipe: it is to end with the
                # parent.
                process.stdin.close()
        _ours.clear()


_inherited = _Inheritance()


@contextmanager
def quiet() -> Iterator[None]:
    """Leaves out pyspark's warnings, such as those on the version of pandas, through which nothing
    goes here."""
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
            'the package "pyspark" is not installed',
            detail=str(error),
            hint="install it with: pip install 'runnel[spark]'",
        ) from error


def acquire(master: str | None, settings: Mapping[str, str] = _NOTHING) -> Any:
    """The session of this process's Spark, started if there is none; `release` gives it back.
    OperationalError where the one that runs has another master than `master`, or other settings."""
    with _lock:
        pyspark = require_pyspark()
        context = pyspark.SparkContext._active_spark_context
        if context is not None and context is _inherited.context:
            _disown(pyspark)
            context = None
        if context is not None and has_ended(context):
            _forget(pyspark, context)
            context = None
        if context is None or context._jsc is None:
            context = _start(pyspark, master or DEFAULT_MASTER, settings)
            _ours[context] = 0
        else:
            _check_fits(context, master, settings)
        if context in _ours:
            _ours[context] += 1
        with quiet():
            return import_module("pyspark.sql").SparkSession.builder.getOrCreate()


def has_ended(context: Any) -> bool:
    """Whether the Java process of a context is no more."""
    process = getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget(pyspark: Any, context: Any) -> None:
    """Takes what is left in this process of a Java process that has ended for what it is: pyspark
    would go on asking it."""
    _ours.pop(context, None)
    with quiet(), suppress(Exception):  # there is nobody to be told
        context._gateway.shutdown()
    context._gateway = context._jvm = context._jsc = None
    _disown(pyspark)


def _disown(pyspark: Any) -> None:
    """Has pyspark start a Java process of its own the next time."""
    import_module("pyspark.sql").SparkSession._instantiatedSession = None
    pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = (
        pyspark.SparkContext._active_spark_context
    ) = None


def _check_fits(context: Any, master: str | None, settings: Mapping[str, str]) -> None:
    """OperationalError where the context isn't what is wanted."""
    hint = "stop that session first, or hand it over: runnel.connect(spark=session)"
    if master is not None and context.master != master:
        raise OperationalError(
            f'Spark can\'t be started on "{master}": '
            f'this process runs one on "{context.master}" already',
            hint=hint,
        )
    there = context.getConf()
    for name, value in settings.items():
        if there.get(name) != value:
            raise OperationalError(
                f"Spark can't be started with the setting {name}: "
                "this process runs one without it already",
                hint=hint,
            )


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


def read_given(given: str | Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """The master URL, or the address of a Spark Connect server, and Spark's settings, as
    `connect(spark=…)` was given them."""
    if isinstance(given, str):
        return check_master(given), _NOTHING
    settings = {str(name): _text(value) for name, value in given.items()}
    master = (
        settings.pop("spark.remote", None) or settings.pop("spark.master", None) or DEFAULT_MASTER
    )
    for name in settings:
        if not name.startswith("spark."):
            raise ProgrammingError(
                f'"{name}" is not a setting of Spark',
                hint=(
                    'its settings begin with "spark.", such as spark.master and spark.driver.memory'
                ),
            )
    return check_master(master), settings


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_master(text: str) -> str:
    """A master URL as the user gave it; ProgrammingError for what can't be one."""
    if text in ("local", "yarn") or text.startswith(
        ("local[", "local-cluster[", "spark://", "k8s://", "sc://")
    ):
        return text
    raise ProgrammingError(
        f'"{text}" is not the master URL of a Spark',
        hint="write 'local[4]', 'spark://host:7077', 'yarn', 'k8s://…' or, for Spark Connect, 'sc://host:15002'",
    )


def is_remote(master: str | None) -> bool:
    """Whether that is the address of a Spark Connect server."""
    return master is not None and master.startswith("sc://")


def shown(master: str) -> str:
    """A master URL as messages show it: what follows the address may be secret."""
    return master.partition(";")[0].rstrip("/") if is_remote(master) else master


def _start(pyspark: Any, master: str, settings: Mapping[str, str]) -> Any:
    """A new context, in a Java process of its own unless this process has one from before."""
    java = _java()
    if master.startswith("spark://"):
        check_reachable(master, master.removeprefix("spark://").split(","), "master")
    conf = pyspark.SparkConf().setMaster(master).setAll(list(_SETTINGS.items()))
    if master.startswith("local"):
        conf.setAll(list(_LOCAL_SETTINGS.items()))
    conf.setAll(list(settings.items()))
    with _worker_python(), quiet(), tempfile.TemporaryFile() as said:
        try:
            gateway = pyspark.SparkContext._gateway
            if gateway is None:
                gateway = import_module("pyspark.java_gateway").launch_gateway(
                    conf, {"stderr": said}
                )
            return pyspark.SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip()
            if "UnsupportedClassVersionError" in lines:
                raise OperationalError(
                    f"Spark needs Java 17 or later, and {java} is of an older version",
                    code=ErrorCode.CONNECTION_PROBLEM,
                    detail=lines[-2000:],
                    hint="put a newer one first on the PATH, or set JAVA_HOME to its folder",
                ) from error
            raise OperationalError(
                f'Spark can\'t be started on "{master}"',
                code=ErrorCode.CONNECTION_PROBLEM,
                detail=f"{type(error).__name__}: {error}"
                + (f"; its process said: {lines[-2000:]}" if lines else ""),
                hint=f"it needs Java 17 or later, and used {java}",
            ) from error


def check_reachable(shown_as: str, addresses: Sequence[str], what: str) -> None:
    """OperationalError where nothing listens at any of the addresses (host:port): Spark itself
    tries for minutes."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), REACHING_SECONDS):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise OperationalError(
        f'no Spark {what} answers at "{shown_as}"',
        code=ErrorCode.CONNECTION_PROBLEM,
        detail="; ".join(reasons),
        hint=f"check the address, and that the {what} runs",
    )


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
            hint=(
                'install one, such as "apt install openjdk-17-jre-headless" or "brew install '
                'openjdk@17", or set JAVA_HOME'
            ),
        )
    return found


@contextmanager
def _worker_python() -> Iterator[None]:
    """Spark's Python workers are to be this Python, which has pyarrow, unless the program said
    otherwise."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_PYTHON", None)
