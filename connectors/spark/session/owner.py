"""The Spark session of a connection: passed to it, adopted from a registered DataFrame, or
started on first use."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runnel.base.forks import closed_error, here
from runnel.connectors.spark.session import start as spark_start
from runnel.connectors.spark.session.connect_client import RemoteSpark, started
from runnel.connectors.spark.session.session import Spark
from runnel.deadline import DeadlineLock
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError


class SessionOwner:
    """The session of a connection. Only `get` starts it."""

    def __init__(self) -> None:
        self._lock = DeadlineLock("the start of Spark")
        self._master: str | None = None
        self._settings: Mapping[str, str] = {}
        self._spark: Spark | None = None
        self._is_acquired = False
        self._is_closed = False
        self._may_start = True
        self._origin = here()

    def use(self, target: Any) -> None:
        """Adopts the argument of `connect(spark=…)`.

        It is a session; or a master URL or settings of Spark, with which a session is started when
        it is needed; or False: no session is started.
        """
        if target is False:
            self._may_start = False
            return
        if isinstance(target, str | Mapping):
            self._master, self._settings = spark_start.read_target(target)
            return
        self.adopt(target, "connect(spark=…)")

    def adopt(self, session: Any, what: str) -> Spark:
        """Makes `session` the connection's session, or checks that it is; `what` names its
        origin in errors."""
        _check_session(session, what)
        with self._lock:
            self._check_open()
            if self._spark is None:
                spark = _spark_of(session)
                if self._master is not None and spark.description != spark_start.shown(
                    self._master
                ):
                    raise ProgrammingError(
                        f'{what} belongs to a Spark session on "{spark.description}", '
                        "but this connection was "
                        f'opened with spark="{spark_start.shown(self._master)}"',
                        hint="open the connection with that session: runnel.connect(spark=session)",
                    )
                self._spark = spark
            elif not _is_same_kind(self._spark, session) or not self._spark.is_same(session):
                raise ProgrammingError(
                    f"{what} belongs to another Spark session than the one that this connection "
                    "has",
                    detail=f"it has one on {self._spark.description}",
                    hint=(
                        "make all DataFrames with one session, "
                        "or open a second connection for the other"
                    ),
                )
            return self._spark

    def get(self) -> Spark:
        """The connection's session, started if necessary; started again if a session of Runnel's
        has ended."""
        with self._lock:
            self._check_open()
            if self._spark is not None and self._is_acquired and self._spark.is_gone:
                ended, self._spark = self._spark, None
                with suppress(Exception):  # it has ended in any case
                    ended.stop()
            if self._spark is None and not self._may_start:
                raise ProgrammingError(
                    "Spark may not be started here",
                    code=ErrorCode.NOT_ALLOWED,
                    hint=(
                        "the owner configures one: runnel serve … --spark URL, or connect(spark=…)"
                    ),
                )
            if self._spark is None:
                if self.is_remote:
                    self._spark = started(str(self._master), self._settings)
                else:
                    self._spark = Spark(spark_start.acquire(self._master, self._settings))
                self._is_acquired = True
            return self._spark

    @property
    def is_remote(self) -> bool:
        """Whether its session is, or will be, a session of Spark Connect."""
        spark = self._spark
        return spark_start.is_remote(self._master) if spark is None else spark.is_remote

    @property
    def running(self) -> Spark | None:
        """The session, if there is one already."""
        return self._spark

    def close(self) -> None:
        """Ends the queries on the session, and the session too if it was started for this
        connection alone."""
        with self._lock:
            self._is_closed = True
            spark, self._spark = self._spark, None
        if spark is None:
            return
        spark.close()
        if self._is_acquired:
            spark.stop()

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed_error(self._origin)


def session_of(frame: Any) -> Any:
    """The session of a DataFrame."""
    return frame.sparkSession


def is_connect(session: Any) -> bool:
    """Whether it is a session of Spark Connect."""
    return "connect" in type(session).__module__.split(".")


def _spark_of(session: Any) -> Spark:
    if is_connect(session):
        return RemoteSpark(session)
    return Spark(session)


def _check_session(session: Any, what: str) -> None:
    module = type(session).__module__
    if not (module.startswith("pyspark.sql") and type(session).__name__ == "SparkSession"):
        raise InterfaceError(
            f"{what} accepts a SparkSession or a master URL, not a value of class "
            f"{type(session).__name__}",
            hint="write connect(spark='local[4]') or connect(spark=session)",
        )
    if session.is_stopped if is_connect(session) else session.sparkContext._jsc is None:
        raise OperationalError(
            f"the Spark session of {what} is stopped",
            code=ErrorCode.CONNECTION_PROBLEM,
            hint="create a new one",
        )


def _is_same_kind(spark: Spark, session: Any) -> bool:
    return spark.is_remote == is_connect(session)
