"""The one Spark session of a connection: given to it, brought by a registered DataFrame, or started on first need.

What we run goes through a copy of that session (same catalog, same cached data, settings of its own), in which the same SQL
always means the same: ANSI errors, UTC, names without regard to case. The session itself is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from threading import RLock, local
from time import monotonic
from typing import Any, Protocol

import pyarrow as pa

from runnel.connectors import spark_start
from runnel.connectors.spark_errors import spark_error
from runnel.connectors.spark_start import quiet
from runnel.connectors.spark_types import travelling_schema
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError
from runnel.sqltypes import SqlType

_OWN_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.legacy.respectNullabilityInTextDatasetConversion": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.variable.substitute": "false",
}


CLOSING_SECONDS = 10.0
"""How long a connection that closes waits for what it has cancelled."""


class Running(Protocol):
    """Something that uses the session and ends when told so."""

    def close(self) -> None:
        """Has it cancelled; waits for nothing."""

    def join(self, seconds: float) -> None:
        """After `close`: waits until its threads have ended, so long at most."""


class Spark:
    """A session that runs, and our copy of it. Safe for threads."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._names = count(1)
        self._running: set[Running] = set()
        self._lock = RLock()
        self._own: Any = None
        self._known: set[str] = set()
        _leave_out_of_logs()

    @property
    def own(self) -> Any:
        """Our copy of the session."""
        with self._lock:
            if self._own is None:
                self._check_alive()
                self._own = _copy(self.session)
            return self._own

    def frame(self, text: str) -> Any:
        """The DataFrame of a query in our session. What Spark finds wrong with it is one of our errors."""
        self._check_alive()
        with spark_errors():
            own = self.own
            return _frame(own, own._jsparkSession.sql(text))

    def brought(self, frame: Any) -> Any:
        """The same DataFrame in our session."""
        return self._of_plan(frame._jdf.logicalPlan())

    def _of_plan(self, plan: Any) -> Any:
        own = self.own
        dataset = own._jvm.org.apache.spark.sql.classic.Dataset
        return _frame(own, dataset.ofRows(own._jsparkSession, plan))

    def first_rows(self, frame: Any, count: int) -> Any:
        """A DataFrame of our session cut to `count` rows *in each partition*: whoever reads it stops when he has enough, so
        that Spark needn't run them all, as its own LIMIT would."""
        # Spark's LIMIT is a GlobalLimit over a LocalLimit: the latter is what counts within a partition.
        return self._of_plan(frame.limit(min(count, 2**31 - 1))._jdf.logicalPlan().child())

    def made(self, table: pa.Table, types: Sequence[SqlType]) -> Any:
        """A DataFrame of our session with the rows of a table, whose columns are of these canonical types: c0, c1…."""
        from pyspark.sql.types import StructType

        columns = [item.cast(pa.int64()) if pa.types.is_duration(item.type) else item for item in table.columns]
        names = [f"c{i}" for i in range(len(columns))]
        with spark_errors(), quiet():
            schema = StructType.fromDDL(travelling_schema(types))
            return self.own.createDataFrame(pa.Table.from_arrays(columns, names=names), schema=schema)

    def view(self, frame: Any) -> str:
        """Names a DataFrame of our session, for queries in it."""
        name = f"runnel_view_{next(self._names)}"
        frame._jdf.createOrReplaceTempView(name)
        return name

    def drop_view(self, name: str) -> None:
        with suppress(Exception):  # the session may be gone
            self.own._jsparkSession.catalog().dropTempView(name)

    def register_function(self, name: str, make: Callable[[], Any]) -> None:
        """Makes a function known to our session, once."""
        with self._lock:
            if name not in self._known:
                with spark_errors(), quiet():
                    self.own.udf.register(name, make())
                self._known.add(name)

    def name(self, kind: str) -> str:
        """A name that is used once."""
        return f"runnel-{kind}-{id(self):x}-{next(self._names)}"

    @property
    def context(self) -> Any:
        return self.session.sparkContext

    def began(self, running: Running) -> None:
        with self._lock:
            self._running.add(running)

    def ended(self, running: Running) -> None:
        with self._lock:
            self._running.discard(running)

    def close(self) -> None:
        """Ends what runs; the session goes on."""
        with self._lock:
            running = list(self._running)
        for item in running:
            item.close()
        until = monotonic() + CLOSING_SECONDS
        for item in running:
            item.join(until - monotonic())

    def _check_alive(self) -> None:
        if self.session.sparkContext._jsc is None:
            raise OperationalError(
                "the Spark session of this connection was stopped",
                code=ErrorCode.CONNECTION_PROBLEM,
                hint="open a new connection, and register its DataFrames there",
            )


class SessionOwner:
    """Which session a connection has. Asking for it starts it, nothing else does."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._master: str | None = None
        self._spark: Spark | None = None
        self._is_acquired = False
        self._is_closed = False

    def use(self, given: Any) -> None:
        """What `connect(spark=…)` was given: a session, or a master URL that is started when Spark is first needed."""
        if isinstance(given, str):
            master = spark_start.check_master(given)
            if master.startswith("sc://"):
                refuse_connect()
            self._master = master
            return
        self.adopt(given, "connect(spark=…)")

    def adopt(self, session: Any, what: str) -> Spark:
        """Makes `session` the connection's, or checks that it is; `what` brought it."""
        _check_session(session, what)
        with self._lock:
            self._check_open()
            if self._spark is None:
                if self._master is not None and session.sparkContext.master != self._master:
                    raise ProgrammingError(
                        f'{what} belongs to a Spark session on "{session.sparkContext.master}", but this connection was '
                        f'opened with spark="{self._master}"',
                        hint="open the connection with that session: runnel.connect(spark=session)",
                    )
                self._spark = Spark(session)
            elif not _is_same(self._spark.session, session):
                raise ProgrammingError(
                    f"{what} belongs to another Spark session than the one that this connection has",
                    detail=f"it has application {self._spark.context.applicationId}, on {self._spark.context.master}",
                    hint="make all DataFrames with one session, or open a second connection for the other",
                )
            return self._spark

    def get(self) -> Spark:
        """The connection's session, started if need be."""
        with self._lock:
            self._check_open()
            if self._spark is None:
                session = spark_start.acquire(self._master)
                self._is_acquired = True
                self._spark = Spark(session)
            return self._spark

    @property
    def running(self) -> Spark | None:
        """The session, if there is one by now."""
        return self._spark

    def close(self) -> None:
        """Ends what runs on the session, and the session too if it was started for this connection alone."""
        with self._lock:
            self._is_closed = True
            spark, self._spark = self._spark, None
        if spark is None:
            return
        spark.close()
        if self._is_acquired:
            spark_start.release(spark.session)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the connection is closed", hint="open a new one with runnel.connect()")


_inside = local()
"""Its `depth` is above 0 where pyspark runs for us."""


class _NotOurs(logging.Filter):
    """Keeps pyspark from writing to the program's standard error what we raise."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_inside, "depth", 0)


_NOT_OURS = _NotOurs()


def _leave_out_of_logs() -> None:
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # By way of pyspark's own class: it would fail on a logger of another.
        PySparkLogger.getLogger(name).addFilter(_NOT_OURS)


class spark_errors:  # noqa: N801 - reads as a statement, like contextlib.suppress
    """Turns what pyspark raises inside into our errors."""

    def __enter__(self) -> None:
        _inside.depth = getattr(_inside, "depth", 0) + 1

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _inside.depth -= 1
        if error is not None:
            found = spark_error(error)
            if found is not error:
                raise found from error


def session_of(frame: Any) -> Any:
    """The session of a DataFrame."""
    if not hasattr(frame, "_jdf"):
        refuse_connect()
    return frame.sparkSession


def refuse_connect() -> None:
    """Spark Connect has no Arrow path that gives partitions as they come under a job of ours."""
    raise InterfaceError(
        "Spark Connect sessions (sc://…) are not supported",
        hint="use a classic session: runnel.connect(spark='local[4]'), or 'spark://host:7077'",
    )


def _check_session(session: Any, what: str) -> None:
    module = type(session).__module__
    if not (module.startswith("pyspark.sql") and type(session).__name__ == "SparkSession"):
        raise InterfaceError(
            f"{what} takes a SparkSession or a master URL, not a value of class {type(session).__name__}",
            hint="write connect(spark='local[4]') or connect(spark=session)",
        )
    if "connect" in module.split("."):
        refuse_connect()
    if session.sparkContext._jsc is None:
        raise OperationalError(
            f"the Spark session of {what} is stopped", code=ErrorCode.CONNECTION_PROBLEM, hint="make a new one"
        )


def _is_same(one: Any, other: Any) -> bool:
    return one is other or bool(one._jsparkSession.equals(other._jsparkSession))


def _copy(session: Any) -> Any:
    with quiet():
        own = type(session)(session.sparkContext, session._jsparkSession.cloneSession())
        for name, value in _OWN_SETTINGS.items():
            with suppress(Exception):  # a name that this version of Spark doesn't know
                own.conf.set(name, value)
    return own


def _frame(session: Any, java_frame: Any) -> Any:
    from pyspark.sql.classic.dataframe import DataFrame

    return DataFrame(java_frame, session)
