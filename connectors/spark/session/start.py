"""Starts Spark in this process, once for all connections that need it, and stops it after the last.

Spark has one context per process. A context that the program created is used as it is, and never
stopped. A context that Runnel started is shared by the connections that requested it, and stopped
when the last of them closes.
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
    # Faster on a small heap and few processors than Java's defaults; an executor has its own
    # options.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xshare:auto",
}
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Keeps a local Spark from being reachable from other machines."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

REACHING_SECONDS = 10.0
"""How many seconds a master or server has to accept a connection."""

_lock = SharedLock("the start of Spark")
_ours: dict[Any, int] = {}
"""The contexts that Runnel started, with the number of connections that use each."""


class _Inheritance:
    """The context that a forked process inherits. Using its sockets would disturb the parent's
    Java process."""

    def __init__(self) -> None:
        self.context: Any = None
        watch(self)

    def leave(self) -> None:
        # pyspark may be half imported.
        known = getattr(sys.modules.get("pyspark"), "SparkContext", None)
        self.context = None if known is None else known._active_spark_context
        pin(self.context)
        for context in _ours:
            pin(context)
            process = getattr(context._gateway, "proc", None)
            if process is not None and process.stdin is not None:
                # Java ends when no process has the other end of this pipe; it should end with the
                # parent.
                process.stdin.close()
        _ours.clear()


_inherited = _Inheritance()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses pyspark's warnings, for instance about the version of pandas, which Runnel does
    not use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def require_pyspark() -> Any:
    """The package pyspark; InterfaceError if it is not installed."""
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
    """The session of this process's Spark, started if there is none; `release` releases it.

    OperationalError if the running Spark has another master than `master`, or other settings.
    """
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
    """Whether the Java process of a context has ended."""
    process = getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget(pyspark: Any, context: Any) -> None:
    """Resets pyspark's state about a Java process that has ended, since pyspark would continue
    to call it."""
    _ours.pop(context, None)
    with quiet(), suppress(Exception):  # the other end is gone
        context._gateway.shutdown()
    context._gateway = context._jvm = context._jsc = None
    _disown(pyspark)


def _disown(pyspark: Any) -> None:
    """Makes pyspark start a new Java process next time."""
    import_module("pyspark.sql").SparkSession._instantiatedSession = None
    pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = (
        pyspark.SparkContext._active_spark_context
    ) = None


def _check_fits(context: Any, master: str | None, settings: Mapping[str, str]) -> None:
    """OperationalError if the context has another master or other settings."""
    hint = "stop that session first, or pass it: runnel.connect(spark=session)"
    if master is not None and context.master != master:
        raise OperationalError(
            f'Spark can\'t be started on "{master}": '
            f'this process runs one on "{context.master}" already',
            hint=hint,
        )
    conf = context.getConf()
    for name, value in settings.items():
        if conf.get(name) != value:
            raise OperationalError(
                f"Spark can't be started with the setting {name}: "
                "this process runs one without it already",
                hint=hint,
            )


def release(session: Any) -> None:
    """Releases a session of `acquire`; the last release stops a session that Runnel started."""
    with _lock:
        context = session.sparkContext
        if context not in _ours:
            return
        _ours[context] -= 1
        if not _ours[context]:
            del _ours[context]
            with quiet(), suppress(Exception):  # it may have died, or been stopped by the program
                session.stop()


def read_target(target: str | Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """The master URL (or the address of a Spark Connect server) and Spark's settings, from the
    argument of `connect(spark=…)`."""
    if isinstance(target, str):
        return check_master(target), _NOTHING
    settings = {str(name): _text(value) for name, value in target.items()}
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
    """A master URL of the user; ProgrammingError if it is invalid."""
    if text in ("local", "yarn") or text.startswith(
        ("local[", "local-cluster[", "spark://", "k8s://", "sc://")
    ):
        return text
    raise ProgrammingError(
        f'"{text}" is not the master URL of a Spark',
        hint=(
            "write 'local[4]', 'spark://host:7077', 'yarn', 'k8s://…' or, for Spark Connect, "
            "'sc://host:15002'"
        ),
    )


def is_remote(master: str | None) -> bool:
    """Whether it is the address of a Spark Connect server."""
    return master is not None and master.startswith("sc://")


def shown(master: str) -> str:
    """A master URL for messages: the options after the address may be secret."""
    return master.partition(";")[0].rstrip("/") if is_remote(master) else master


def _start(pyspark: Any, master: str, settings: Mapping[str, str]) -> Any:
    """A new context, in a new Java process unless this process already has one."""
    java = _java()
    if master.startswith("spark://"):
        check_reachable(master, master.removeprefix("spark://").split(","), "master")
    conf = pyspark.SparkConf().setMaster(master).setAll(list(_SETTINGS.items()))
    if master.startswith("local"):
        conf.setAll(list(_LOCAL_SETTINGS.items()))
    conf.setAll(list(settings.items()))
    with _worker_python(), quiet(), tempfile.TemporaryFile() as output:
        try:
            gateway = pyspark.SparkContext._gateway
            if gateway is None:
                gateway = import_module("pyspark.java_gateway").launch_gateway(
                    conf, {"stderr": output}
                )
            return pyspark.SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").strip()
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
    """OperationalError if nothing listens at any of the addresses (host:port): Spark itself
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
    """The Java that Spark will use; OperationalError if there is none."""
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
    """Makes Spark's Python workers use this Python, which has pyarrow, unless the program has
    chosen one."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_PYTHON", None)
