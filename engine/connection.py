"""The DB-API connection: cursors, registrations, hand-built jobs."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

import runnel.errors as errors
from runnel.base.forks import SharedLock, finalizer
from runnel.catalog import Mapping as CatalogMapping
from runnel.catalog import Registration, Table, View
from runnel.cursor import Cursor
from runnel.dag import DAG
from runnel.database import Database
from runnel.deadline import wait_limit
from runnel.errors import (
    DuplicateTable,
    ErrorCode,
    InterfaceError,
    ProgrammingError,
    UndefinedTable,
    fail,
    short_errors,
    shorten,
    suggest,
)
from runnel.expressions.context import EvaluationContext
from runnel.results.calls import Calls, LastResult
from runnel.runtime.light_job import Job, JobOptions
from runnel.session.session import Session
from runnel.statements.run import SessionExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from types import FrameType, TracebackType

    from runnel.base.clock import Clock
    from runnel.connector import Connector
    from runnel.connectors.pushed.table import StreamWriter
    from runnel.connectors.spark.connector import SparkConnector
    from runnel.named_jobs.named_job import NamedJob
    from runnel.named_jobs.record.record import JobRecord
    from runnel.named_jobs.run import PreparedJob
    from runnel.processor import Guarantee
    from runnel.session.function_signature import DuckDBOptions
    from runnel.session.session import Caller
    from runnel.statements.call import Engine


def open_connection(
    path: str | Path | None,
    settings: dict[str, Any],
    *,
    spark: Any = None,
    allowed_paths: Iterable[str | Path] | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Opens a connection of this process; see `runnel.connect`."""
    try:
        access = None
        if allowed_paths is not None:
            # Loaded on first use: most connections have no bounds.
            from runnel.access import access_of

            access = access_of(allowed_paths, () if path is None else (path,))
        connection = Connection(
            Database(path, settings, spark, access, clock=clock, prepare_job=prepare_job)
        )
        if "IPython" in sys.modules:
            # Loaded on first use: most processes run no notebook.
            from runnel.results.notebook_progress import watch_notebook

            watch_notebook(connection._database.jobs)
        return connection
    except BaseException as error:
        fail(error, None)


def prepare_job(database: Database, record: JobRecord, /) -> PreparedJob:
    """Plans a named job in a session of the database's owner."""
    # Loaded on first use: most connections have no named jobs.
    from runnel.statements.jobs.jobs import prepare_job

    return prepare_job(Session.of_owner(database), record)


class Connection(Calls[Cursor]):
    """A connection. Threads may share it, but each needs its own cursors; while one thread has a
    transaction open, from BEGIN to COMMIT or ROLLBACK, the statements of others fail."""

    __module__ = "runnel"

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    FetchTimeoutError = errors.FetchTimeoutError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session = Session.of_owner(database)
        self._session.has_variables = True
        self._session.prepared = {}
        self._executor = SessionExecutor(self._session)
        self._engine: Engine = self._executor
        self._last = LastResult()
        self._cursors = weakref.WeakSet[Cursor]()
        self._cursors_lock = Lock()
        close_when_forgotten(self, database)

    def cursor(self) -> Cursor:
        """A new cursor."""
        try:
            self._database.check_open()
        except BaseException as error:
            shorten(error)
            raise
        cursor = Cursor(self, self._engine)
        with self._cursors_lock:
            self._cursors.add(cursor)
        return cursor

    @short_errors
    def interrupt(self) -> None:
        """Cancels the statements and fetches of this connection in which other threads wait: they
        raise InterruptException. Rows of other cursors can still be fetched."""
        self._database.check_open()
        with self._cursors_lock:
            cursors = self._cursors.copy()
        for cursor in cursors:
            if cursor._is_used:
                cursor.cancel()

    @short_errors
    def commit(self) -> None:
        """COMMIT of the open transaction; does nothing without one, as each statement is then
        complete when it returns, and durable if the connection is."""
        self._database.check_open()
        if self._session.transaction is not None:
            self._session.transaction.end(is_commit=True)

    @short_errors
    def rollback(self) -> None:
        """ROLLBACK of the open transaction; does nothing without one."""
        self._database.check_open()
        if self._session.transaction is not None:
            self._session.transaction.end(is_commit=False)

    @short_errors
    def register(self, name: str, data: Any) -> Connection:
        """Registers data under a name that queries can use: a pyarrow Table, RecordBatch, reader or
        dataset, a pandas or Polars frame, an object with `__arrow_c_stream__`, or a Spark
        DataFrame, whose session becomes the connection's. Nothing is copied. An earlier
        registration of that name is replaced. Returns the connection."""
        from runnel.connectors.arrow.tables import registered_table

        database = self._database
        database.check_open()
        _check_name(name)
        try:
            is_spark = type(data).__module__.startswith("pyspark.sql")
            self._register(
                name,
                _spark(database).registered(name, data)
                if is_spark
                else registered_table(name, data),
            )
        except BaseException as error:
            fail(error, None)
        return self

    @short_errors
    def add_connector(self, connector: Connector) -> None:
        """Adds a connector to this connection, for `CREATE MAPPING … TYPE name`; the connection
        closes it. A connector for all connections is declared by its package as an entry point of
        the group "runnel.connectors"."""
        self._database.check_open()
        self._database.connectors.add(connector)

    @short_errors
    def register_stream(
        self,
        name: str,
        schema: Any,
        *,
        time_column: str | None = None,
        max_disorder: timedelta | int | None = None,
        idle_timeout: timedelta | None = None,
    ) -> StreamWriter:
        """Creates a stream that queries can read, and returns its writer: `writer.write(rows)`, and
        `writer.close()` at the end. A query receives the rows written after its `execute`.

        schema: a pyarrow Schema, or names with SQL types.
        time_column: name of the column with the event time, as in WATERMARK FOR of a mapping.
        max_disorder: how far the event time of a row may be below the largest one so far; a
            timedelta, or an int for an integer column.
        idle_timeout: time without a row after which the stream no longer holds back the other
            inputs of a query; None: a second; timedelta(0): never.
        """
        from runnel.connectors.pushed.event_time import stream_event_time
        from runnel.connectors.pushed.table import StreamTable

        self._database.check_open()
        _check_name(name)
        try:
            event_time = stream_event_time(name, time_column, max_disorder, idle_timeout)
            table = StreamTable(name, schema, event_time=event_time)
            self._register(name, table)
            return table.writer()
        except BaseException as error:
            fail(error, None)

    @short_errors
    def unregister(self, name: str) -> None:
        """Removes a registration. Running queries continue with the data; a stream can be written
        until they have ended."""
        self._unregister(name, self._session.caller)

    def _unregister(self, name: str, caller: Caller) -> None:
        """`unregister` for a caller."""
        database = self._database
        database.check_open()
        _check_name(name)
        with database.definitions:
            found = database.catalog.snapshot.find(name)
            if not isinstance(found, Registration):
                known = [
                    item.name
                    for item in database.catalog.snapshot
                    if isinstance(item, Registration)
                ]
                raise UndefinedTable(
                    f'registration "{name}" not found',
                    code=ErrorCode.OBJECT_NOT_FOUND,
                    hint=suggest(name, known),
                )
            caller.require_own(f'registration "{found.name}"', is_confined=found.is_confined)
            database.change(drop=found)
        found.table.withdraw()

    @short_errors
    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any] | None = None,
        return_type: Any = None,
        *,
        scalar: bool | None = None,
        nulls: str | None = None,
        deterministic: bool = True,
        replace: bool = False,
        **duckdb: Unpack[DuckDBOptions],
    ) -> None:
        """Makes a Python function callable in SQL expressions of this connection.

        The function is called for each row with Python values, one per parameter, and returns one.
        With type="arrow", or annotated with a class of arrays, it is called for many rows, which is
        far faster: it receives one Arrow array per parameter, all of one length, and returns an
        array of that length (or an object that `pyarrow.array` converts). Several threads may call
        it at the same time. An exception in it becomes a DataError. It is not stored in a
        directory: create it after each `connect`. A name that is in use is a ProgrammingError.

        parameter_types, return_type: names as in SQL, Arrow types, or int, float, str, bool, bytes,
            Decimal, datetime, date, time, list[int] and others; None: the annotations of `function`
        scalar: whether the function receives Python values: True is type="native", but with
            nulls="pass"; False is type="arrow". None: True unless an annotation is a class of
            arrays, such as pyarrow.Array.
        nulls: with "skip", rows with a NULL argument are not passed to it, and their value is NULL;
            "pass": they are. None: "pass" for arrays, with scalar=True, and if a parameter is
            annotated with `| None`; otherwise "skip".
        deterministic: equal arguments always yield equal values.
        replace: replaces a function of that name.
        duckdb: options with DuckDB's names: type, null_handling, exception_handling, side_effects.
        """
        from runnel.session.function_signature import signature_of
        from runnel.session.functions import create_function
        from runnel.session.python_function import FunctionOptions

        self._database.check_open()
        options = FunctionOptions(scalar, nulls, deterministic, replace)
        try:
            found = signature_of(function, parameter_types, return_type, options, duckdb)
            create_function(self._session, name, function, *found)
        except BaseException as error:
            fail(error, None)

    @short_errors
    def create_aggregate(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        *,
        scalar: bool = False,
        nulls: str = "pass",
        replace: bool = False,
    ) -> None:
        """Makes a Python function an aggregate function of this connection. It can be used like a
        SQL aggregate: with DISTINCT, FILTER and ORDER BY in the parentheses, with GROUP BY over
        tables and windows of streams, with OVER.

        For each group the function receives one Arrow array per parameter (with `scalar` a list of
        Python values) with the values of the group's rows, and returns one value: a Python value,
        or a scalar of Arrow or NumPy. The rows are in the order of ORDER BY in the parentheses,
        otherwise in any order. The value of a group without rows is NULL. With `nulls="skip"`, rows
        with a NULL argument are skipped. The rest is as in `create_function`.
        """
        from runnel.session.functions import create_function
        from runnel.session.python_function import FunctionOptions

        self._database.check_open()
        options = FunctionOptions(scalar, nulls, True, replace, is_aggregate=True)
        try:
            create_function(self._session, name, function, parameter_types, return_type, options)
        except BaseException as error:
            fail(error, None)

    @short_errors
    def drop_function(self, name: str) -> None:
        """Removes a function that `create_function` or `create_aggregate` added. Running statements
        continue to use it."""
        from runnel.session.functions import drop_function

        self._database.check_open()
        drop_function(self._session, name)

    @overload
    def submit(self, dag: DAG, *, name: str = "", guarantee: None = None) -> Job: ...
    @overload
    def submit(
        self,
        dag: DAG,
        *,
        name: str,
        guarantee: Guarantee | str,
        options: Mapping[str, object] | None = None,
    ) -> NamedJob: ...
    @short_errors
    def submit(
        self,
        dag: DAG,
        *,
        name: str = "",
        guarantee: Guarantee | str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Job | NamedJob:
        """Starts a hand-built DAG on the worker threads.

        Without a guarantee it is a light job; the same DAG may be submitted many times, and the
        rows of a `result_sink` in it are read from `job.results`. With a guarantee it is a named
        job, as from CREATE JOB: it takes snapshots, restarts, and is stored in the connection's
        directory. Its suppliers are then functions or classes of importable modules,
        `functools.partial` or dataclasses of such, or results of `storable` factories;
        ProgrammingError for others, such as a lambda.

        guarantee: a Guarantee or its name: "exactlyOnce", "atLeastOnce" or "none".
        options: the other options of CREATE JOB, such as {"snapshotIntervalMillis": 1000}.
        """
        self._database.check_open()
        if not isinstance(dag, DAG):
            raise InterfaceError(f"submit needs a DAG, not a value of class {type(dag).__name__}")
        try:
            if guarantee is not None:
                return self._create_job(dag, name, guarantee, options or {})
            if options:
                raise ProgrammingError(
                    "a light job has no options",
                    hint='a named job has: submit(dag, name="…", guarantee="exactlyOnce", …)',
                )
            return self._start_light_job(dag, name)
        except BaseException as error:
            fail(error, None)

    def _start_light_job(self, dag: DAG, name: str) -> Job:
        from runnel.statements.mapping_steps import resolve_mappings

        settings = self._session.settings
        resolved, event_time = resolve_mappings(
            self._session, dag, settings.time_zone, in_job=False
        )
        return self._database.jobs.start(
            resolved,
            evaluation=EvaluationContext(
                now=self._database.jobs.clock.wall(), zone=settings.time_zone
            ),
            is_unbounded=resolved.is_unbounded,
            options=JobOptions(
                name=name,
                is_hand_built=True,
                event_time=event_time,
                linger=self._session.linger,
            ),
        )

    def _create_job(
        self, dag: DAG, name: str, guarantee: Guarantee | str, options: Mapping[str, object]
    ) -> NamedJob:
        from runnel.named_jobs.hand_built.submission import dag_record

        database = self._database
        zone = self._session.settings.time_zone
        record = dag_record(dag, name, guarantee, options, database.jobs.clock.wall(), zone)
        if record.options.modules:
            from runnel.session.job_code.sources import read_sources

            sources = read_sources(record.options.modules, self._session.caller.access)
            record = replace(record, modules=sources)
        return database.named_jobs.create(record)

    @short_errors
    def jobs(self) -> list[Job | NamedJob]:
        """The named jobs that have not ended, and the light jobs that currently run."""
        database = self._database
        database.check_open()
        named = (
            [job for job in database.named_jobs.all() if not job.is_done]
            if database.has_named_jobs
            else []
        )
        return [*named, *(job for job in database.jobs.running() if job.kind != "job")]

    @overload
    def job(self, job: str) -> NamedJob: ...
    @overload
    def job(self, job: int) -> NamedJob | Job: ...
    @short_errors
    def job(self, job: str | int) -> NamedJob | Job:
        """The named job with that name or id, also an ended one, or the running light job with that
        id; ProgrammingError if there is none."""
        database = self._database
        database.check_open()
        if isinstance(job, str):
            return database.named_jobs.get(job)
        named = database.named_jobs.by_id(job) if database.has_named_jobs else None
        return database.jobs.get(job) if named is None else named

    @short_errors
    def settle(self, timeout: float = 30.0) -> None:
        """For tests: waits until the jobs of the connection have nothing left to do until a row is
        written, rows are fetched, or the clock advances: all rows that were written are processed,
        all timers that are due have been handled, no snapshot is in progress, and no job changes
        its status. OperationalError (TIMEOUT) if that is not so within `timeout` real seconds. Work
        of other engines (Spark, DuckDB) and of brokers is not waited for."""
        from runnel.runtime.settling import wait_until_settled

        limit = wait_limit(timeout)
        self._database.check_open()
        try:
            if limit is None:
                raise InterfaceError("settle needs a timeout", hint="pass a number of seconds")
            wait_until_settled(self._database.jobs, self._database.busy_part, limit)
            self._database.check_open()
        except BaseException as error:
            fail(error, None)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._database.is_closed

    def close(self) -> None:
        """Cancels all jobs, waits for their end, and closes everything. Closing twice is no
        error."""
        self._database.close()

    def __enter__(self) -> Connection:
        self._database.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        database = self._database
        path = database.file if database.directory is None else database.directory.path
        where = "in memory" if path is None else f"to {str(path)!r}"
        return f"<runnel.Connection {where}{', closed' if self.is_closed else ''}>"

    def _register(self, name: str, table: Table, caller: Caller | None = None) -> None:
        """Registers a table for a caller; None: the connection's owner."""
        database = self._database
        caller = caller or self._session.caller
        database.check_open()
        with database.definitions:
            found = database.catalog.snapshot.find(name)
            if isinstance(found, CatalogMapping | View):
                kind = "mapping" if isinstance(found, CatalogMapping) else "view"
                raise DuplicateTable(
                    f'{kind} "{found.name}" exists already', hint="register under another name"
                )
            if found is not None:
                caller.require_own(f'registration "{found.name}"', is_confined=found.is_confined)
            database.change(put=Registration(name, table, is_confined=caller.is_confined))
        if found is not None:
            found.table.withdraw()


def _spark(database: Database) -> SparkConnector:
    return database.connectors.get("Spark")  # type: ignore[return-value]


def _check_name(name: object) -> None:
    """InterfaceError for a name that no statement could contain."""
    if not isinstance(name, str):
        raise InterfaceError(
            f"the name of a registration is a str, not a value of class {type(name).__name__}"
        )
    if not name or not name.isprintable():
        raise InterfaceError(
            f"{name!a} can't be the name of a registration",
            hint="use one or more printable characters",
        )


_default: list[Connection] = []
_default_lock = SharedLock("the default connection")


def default_connection() -> Connection:
    """The connection in memory that `runnel.sql` uses. It is opened on first use, and again after
    it was closed, and in a child of `os.fork()`."""
    with _default_lock:
        if not _default or _default[0].is_closed:
            _default[:] = [open_connection(None, {})]
        return _default[0]


class Closing(Protocol):
    """A database, here or elsewhere."""

    def close(self) -> None:
        """Closes it. Once is enough."""


def close_when_forgotten(connection: Connection, database: Closing) -> None:
    """Closes a connection that is garbage-collected without `close`, or open at exit."""
    finalizer(connection, _close_quietly, database)
    _open_databases.add(database)


def _close_quietly(database: Closing) -> None:
    with suppress(Exception):
        database.close()


_open_databases: weakref.WeakSet[Closing] = weakref.WeakSet()

LEAVING = 1.0
"""Seconds that the user's threads have to leave Runnel's functions when the interpreter ends."""
LOOKS = 10
"""Number of consecutive checks that must find no thread in Runnel's functions: a thread in Arrow's
code is not visible to a check."""


@atexit.register
def _leave() -> None:
    """Closes open connections at the end of the interpreter, and waits for threads in Runnel's
    functions: a thread that returned from Arrow's code to a finalized interpreter would crash the
    process."""
    for database in list(_open_databases):
        _close_quietly(database)
    until, looks = monotonic() + LEAVING, 0
    while looks < LOOKS and len(sys._current_frames()) > 1 and monotonic() < until:
        looks = 0 if _is_thread_inside() else looks + 1
        sleep(0.002)


def _is_thread_inside() -> bool:
    own = get_ident()
    for thread, found in sys._current_frames().items():
        frame: FrameType | None = None if thread == own else found
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "runnel":
                return True
            frame = frame.f_back
    return False
