"""A Spark session, and the clone of it that Runnel uses.

Runnel's queries run in a clone of the session (same catalog, same cached data, settings of its
own), in which the same SQL always has the same semantics: ANSI errors, UTC, names without regard to
case. The session itself is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pyarrow as pa

from runnel.connectors.spark.errors import leave_out_of_logs, spark_errors
from runnel.connectors.spark.session import start as spark_start
from runnel.connectors.spark.session.fetch import Fetch
from runnel.connectors.spark.session.start import quiet
from runnel.connectors.spark.types import travelling_schema
from runnel.errors import ErrorCode, OperationalError
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.connectors.spark.session.fetch import Fetch

OWN_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.legacy.respectNullabilityInTextDatasetConversion": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.variable.substitute": "false",
}
CHECKED_HERE = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}
"""Runnel checks a reachable checkpoint before it starts a job. A process that ends while the
first batch is being recorded leaves a file there, because of which Spark would refuse to start."""


CHECKPOINT_ELSEWHERE = "checkpoint.txt"
"""The file in a checkpoint's folder with the path where a Spark Connect server stores the
checkpoint."""
MOST_SEQUENCES = 1024
CLOSING_SECONDS = 10.0
"""How many seconds a connection that closes waits for the operations that it has cancelled."""


class SessionUser(Protocol):
    """An operation that uses the session and can be ended."""

    def close(self) -> None:
        """Cancels it, without waiting."""

    def join(self, seconds: float) -> None:
        """After `close`: waits up to `seconds` until its threads have ended."""


class Spark:
    """A running session, and Runnel's clone of it. Safe for threads."""

    is_remote = False
    """Whether it is a session of Spark Connect: its driver is another process, possibly on
    another machine."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._names = count(1)
        self._running: set[SessionUser] = set()
        self._lock = RLock()
        self._own: Any = None
        self._known: set[str] = set()
        self._sequences: dict[tuple[str, ...], Any] = {}
        leave_out_of_logs()

    @property
    def own(self) -> Any:
        """Runnel's clone of the session."""
        with self._lock:
            if self._own is None:
                self._check_alive()
                self._own = _copy(self.session)
            return self._own

    def frame(self, text: str) -> Any:
        """The DataFrame of a query in Runnel's clone; errors of Spark are converted."""
        self._check_alive()
        with spark_errors():
            own = self.own
            return _frame(own, own._jsparkSession.sql(text))

    def selected(self, frame: Any, names: Sequence[str]) -> Any:
        """Some columns of a DataFrame, by their names; at least one."""
        # Not by its own `select`, which calls Java several times for each name.
        return _frame(
            frame.sparkSession, frame._jdf.select(names[0], self._sequence(tuple(names[1:])))
        )

    def _sequence(self, names: tuple[str, ...]) -> Any:
        """A Scala sequence, cached: scans use few different ones."""
        found = self._sequences.get(names)
        if found is None:
            if len(self._sequences) >= MOST_SEQUENCES:
                self._sequences.clear()
            found = self._sequences[names] = self.context._jvm.PythonUtils.toSeq(list(names))
        return found

    def brought(self, frame: Any) -> Any:
        """The same DataFrame in Runnel's clone."""
        return self._of_plan(frame._jdf.logicalPlan())

    def _of_plan(self, plan: Any) -> Any:
        own = self.own
        dataset = own._jvm.org.apache.spark.sql.classic.Dataset
        return _frame(own, dataset.ofRows(own._jsparkSession, plan))

    def first_rows(self, frame: Any, count: int) -> Any:
        """A DataFrame of Runnel's clone limited to `count` rows *in each partition*.

        The reader stops when it has enough, so that Spark need not run all partitions, as its own
        LIMIT would.
        """
        # Spark's LIMIT is a GlobalLimit over a LocalLimit; the LocalLimit limits each partition.
        return self._of_plan(frame.limit(min(count, 2**31 - 1))._jdf.logicalPlan().child())

    def made(self, table: pa.Table, types: Sequence[SqlType]) -> Any:
        """A DataFrame of Runnel's clone with the rows of a table, whose columns have these
        canonical types: c0, c1…."""
        from pyspark.sql.types import StructType

        columns = [
            item.cast(pa.int64()) if pa.types.is_duration(item.type) else item
            for item in table.columns
        ]
        names = [f"c{i}" for i in range(len(columns))]
        with spark_errors(), quiet():
            schema = StructType.fromDDL(travelling_schema(types))
            return self.own.createDataFrame(
                pa.Table.from_arrays(columns, names=names), schema=schema
            )

    def view(self, frame: Any) -> str:
        """Creates a view of a DataFrame of Runnel's clone, for queries in it."""
        name = f"runnel_view_{next(self._names)}"
        frame._jdf.createOrReplaceTempView(name)
        return name

    def drop_view(self, name: str) -> None:
        with suppress(Exception):  # the session may be gone
            self.own._jsparkSession.catalog().dropTempView(name)

    def register_function(
        self, name: str, make: Callable[[], tuple[Callable[..., Any], str]]
    ) -> None:
        """Registers a function of Arrow columns with Runnel's clone, once.

        `make` returns the function, and Spark's name of its type.
        """
        with self._lock:
            if name not in self._known:
                with spark_errors(), quiet():
                    self._register(name, *make())
                self._known.add(name)

    def _register(self, name: str, run: Callable[..., Any], result: str) -> None:
        functions = import_module("pyspark.sql.functions")
        self.own.udf.register(name, functions.arrow_udf(run, result, functions.ArrowUDFType.SCALAR))

    def fetch(self, frame: Any, is_ordered: bool, description: str) -> Fetch:
        """A run of a DataFrame of Runnel's clone, not started yet."""
        return Fetch(self, frame, is_ordered, description)

    def counted(self, frame: Any) -> tuple[Any, Callable[[], int]]:
        """The DataFrame, and a function that returns the number of rows that it had when it was
        written."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = Observation()
        return frame.observe(observation, f.count(f.lit(1)).alias("rows")), lambda: int(
            observation.get["rows"]
        )

    def insert(self, frame: Any, table: str) -> None:
        """Appends to a table of the catalog, by the names of the columns."""
        # In the DataFrame's own session: each batch of a streaming query has its own.
        view, session = f"runnel_rows_{uuid4().hex}", frame.sparkSession
        frame.createOrReplaceTempView(view)
        try:
            session.sql(
                f"INSERT INTO IDENTIFIER(:target) BY NAME SELECT * FROM {view}",
                args={"target": table},
            )
        finally:
            session.catalog.dropTempView(view)

    def statistics(self, frame: Any) -> tuple[int | None, int | None]:
        """Spark's estimates of the rows and the bytes of a DataFrame; None if it has none."""
        found = frame._jdf.queryExecution().optimizedPlan().stats()
        rows = int(str(found.rowCount().get())) if found.rowCount().isDefined() else None
        return rows, int(str(found.sizeInBytes()))  # py4j converts some of Scala's numbers only

    def checkpoint(self, folder: Path) -> str:
        """The path, for Spark, at which a streaming query with the folder `folder` stores its
        state."""
        return folder.resolve().as_uri()

    def start_stream(self, writer: Any, take: Callable[[Any, int], None]) -> Any:
        """Starts a streaming query that passes its batches to `take`, one after the other, on a
        thread of its own."""
        return writer.foreachBatch(take).start()

    def name(self, kind: str) -> str:
        """A unique name: Spark remembers cancelled names, and cancels later jobs with them."""
        return f"runnel-{kind}-{uuid4().hex}"

    @contextmanager
    def group(self, name: str, description: str) -> Iterator[None]:
        """Spark jobs that this thread starts inside can be cancelled by the name."""
        self.context.setJobGroup(name, description, interruptOnCancel=True)
        yield

    def computed(self, batches: Any, partitions: Sequence[int]) -> Any:
        """Runs a job that computes these partitions of an RDD of bytes, and waits for it.

        Returns where its rows are served: port, secret, and the server.
        """
        return self._run_job(self._java_context, batches, list(partitions))

    # Cached, since py4j calls Java again for each access to a name.
    @cached_property
    def _run_job(self) -> Any:
        return self.context._jvm.PythonRDD.runJob

    @cached_property
    def _java_context(self) -> Any:
        return self.context._jsc.sc()

    def cancel(self, group: str) -> None:
        """Cancels current and future jobs with that name."""
        self.context._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def rows_read(self, group: str) -> int:
        """The rows that Spark's stages with that name have read so far; 0 if unknown."""
        tracker, store = self.context.statusTracker(), self.context._jsc.sc().statusStore()
        stages: set[int] = set()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            stages.update(() if info is None else info.stageIds)
        rows = 0
        for stage in stages:
            with suppress(Exception):  # a skipped stage has no attempt
                rows += int(store.lastStageAttempt(stage).inputRecords())
        return rows

    @property
    def context(self) -> Any:
        return self.session.sparkContext

    @property
    def description(self) -> str:
        """The master URL of the session."""
        return str(self.context.master)

    @property
    def is_gone(self) -> bool:
        """Whether it was stopped, or its process has ended. Calls nothing in Java."""
        return self.context._jsc is None or spark_start.has_ended(self.context)

    def is_same(self, session: Any) -> bool:
        """Whether `session` is this session."""
        return self.session is session or bool(
            self.session._jsparkSession.equals(session._jsparkSession)
        )

    def stop(self) -> None:
        """Releases a session that Runnel started."""
        spark_start.release(self.session)

    def began(self, running: SessionUser) -> None:
        with self._lock:
            self._running.add(running)

    def ended(self, running: SessionUser) -> None:
        with self._lock:
            self._running.discard(running)

    def close(self) -> None:
        """Ends the queries; the session continues. The clone is not used afterwards."""
        with self._lock:
            running = list(self._running)
        for item in running:
            item.close()
        until = monotonic() + CLOSING_SECONDS
        for item in running:
            item.join(until - monotonic())

    def _check_alive(self) -> None:
        if self.is_gone:
            how = (
                "was stopped"
                if self.context._jsc is None
                else "is gone: its Java process has ended"
            )
            raise OperationalError(
                f"the Spark session of this connection {how}",
                # Retrying a job would not help.
                code=ErrorCode.GENERIC,
                hint=(
                    "create a new session, open a new connection with it, and register its "
                    "DataFrames there"
                ),
            )


def _copy(session: Any) -> Any:
    with quiet():
        own = type(session)(session.sparkContext, session._jsparkSession.cloneSession())
        for name, value in (OWN_SETTINGS | CHECKED_HERE).items():
            with suppress(Exception):  # a name that this version of Spark doesn't know
                own.conf.set(name, value)
    return own


def _frame(session: Any, java_frame: Any) -> Any:
    from pyspark.sql.classic.dataframe import DataFrame

    return DataFrame(java_frame, session)
