"""The DB-API connection: cursors, registrations, hand-built jobs."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, overload

import runnel.errors as errors
from runnel.base.forks import finalizer
from runnel.catalog import Mapping, Registration, Table, View
from runnel.cursor import Cursor, fail
from runnel.dag import DAG
from runnel.database import Database
from runnel.errors import ErrorCode, InterfaceError, NotSupportedError, ProgrammingError, suggest
from runnel.expressions.context import EvaluationContext
from runnel.runtime.light_job import Job, JobOptions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from types import FrameType, TracebackType

    from runnel.connector import Connector
    from runnel.connectors.pushed.table import StreamWriter
    from runnel.connectors.spark.connector import SparkConnector
    from runnel.named_jobs.named_job import NamedJob
    from runnel.statements.call import Caller


def connect(
    path: str | Path | None = None,
    *,
    spark: Any = None,
    allowed_paths: Iterable[str | Path] | None = None,
    **settings: Any,
) -> Connection:
    """Opens a connection: to a directory that keeps maps and the catalog, or, without `path`, to
    memory only; or to a server (`runnel serve`), whose address is given as the path, such as
    "runnel://127.0.0.1:4711", with its `token`.

    A directory is made if there is none, and has one owner at a time: a second connection is an
    OperationalError. `spark` is a SparkSession, which stays the caller's, or where one is started
    when a statement first needs it: a master URL, such as 'local[4]', the address of a Spark
    Connect server, such as 'sc://host:15002', or settings of Spark's, of which spark.master or
    spark.remote says the same; False: none is ever started. Settings are those of SET, and
    `cooperative_threads`.

    `allowed_paths` are the folders, files and URLs ('s3://bucket/folder') that statements of the
    connection may reach; None: all that the process can. Nothing below `path` itself is reached
    then. What the directory has already keeps what it names (docs/security.md).
    """
    if isinstance(path, str) and "://" in path:
        # Loaded on first use: Flight takes a while.
        from runnel.serving.remote_connection import connect_remote

        local = {"spark": spark, "allowed_paths": allowed_paths}
        return connect_remote(
            path, settings | {name: value for name, value in local.items() if value is not None}
        )
    try:
        access = None
        if allowed_paths is not None:
            # Loaded on first use: most connections have no bounds.
            from runnel.access import access_of

            access = access_of(allowed_paths, () if path is None else (path,))
        return Connection(Database(path, settings, spark, access))
    except BaseException as error:
        fail(error, None)


class Connection:
    """A connection. Threads may share it, each with cursors of its own; there are no
    transactions."""

    __module__ = "runnel"

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, database: Database) -> None:
        self._database = database
        # Closes a connection that was forgotten.
        finalizer(self, _close_quietly, database)
        _open_databases.add(database)

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._database.check_open()
        return Cursor(self, self._database)

    def execute(
        self, sql: str, args: Sequence[Any] = (), *, timeout: float | None = None
    ) -> Cursor:
        """Runs one statement on a new cursor, and gives that."""
        return self.cursor().execute(sql, args, timeout=timeout)

    def commit(self) -> None:
        """Does nothing: every statement is complete, and durable where the connection is, when it
        returns."""
        self._database.check_open()

    def rollback(self) -> None:
        """There are no transactions: NotSupportedError."""
        self._database.check_open()
        raise NotSupportedError(
            "there are no transactions to roll back", hint="each statement stands for itself"
        )

    def register(self, name: str, data: Any) -> None:
        """Gives data a name that queries can use: a pyarrow Table, RecordBatch, reader or dataset,
        a pandas or Polars frame, anything with `__arrow_c_stream__`, or a Spark DataFrame, whose
        session becomes the connection's. Nothing is copied. An earlier registration of that name is
        replaced."""
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

    def add_connector(self, connector: Connector) -> None:
        """Makes a connector known to this connection, for `CREATE MAPPING … TYPE name`; the
        connection closes it. A connector for all connections is declared by its package as an entry
        point of the group "runnel.connectors"."""
        self._database.check_open()
        self._database.connectors.add(connector)

    def register_stream(
        self,
        name: str,
        schema: Any,
        *,
        time_column: str | None = None,
        max_disorder: timedelta | int | None = None,
        idle_timeout: timedelta | None = None,
    ) -> StreamWriter:
        """Makes a stream that queries can read, and gives its writer: `writer.write(rows)`, and
        `writer.close()` at the end. `schema` is a pyarrow Schema, or names with SQL types. A query
        sees what is written after its `execute`.

        `time_column` holds the event time of the rows, as WATERMARK FOR says of a mapping; a row
        may be older by up to `max_disorder` (a timedelta, or an int where the column is an integer)
        than the newest before it. A stream that gets no rows for `idle_timeout` (a second if not
        given, timedelta(0): never) doesn't hold back what a query reads beside it.
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

    def unregister(self, name: str) -> None:
        """Takes a registration back. Queries that run go on with the data; a stream can be written
        to until they have ended."""
        self._unregister(name, self._database.owner)

    def _unregister(self, name: str, caller: Caller) -> None:
        """As `unregister`, on a caller's behalf."""
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
                raise ProgrammingError(
                    f'registration "{name}" not found',
                    code=ErrorCode.OBJECT_NOT_FOUND,
                    hint=suggest(name, known),
                )
            caller.require_own(f'registration "{found.name}"', is_confined=found.is_confined)
            database.change(drop=found)
        found.table.withdraw()

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        *,
        scalar: bool = False,
        nulls: str = "pass",
        deterministic: bool = True,
        replace: bool = False,
    ) -> None:
        """Makes a Python function one that SQL can call, anywhere where an expression can stand, on
        this connection.

        It takes one Arrow array per parameter, all of one length, and gives an array (or what
        `pyarrow.array` makes one of) of that length; with `scalar` it takes and gives Python values
        and is called once per row, which is far slower. Types are names as in SQL, Arrow types, or
        int, float, str, bool, bytes. With `nulls="skip"` it sees no row in which an argument is
        NULL, whose value is NULL. Say so if it isn't `deterministic`: its value may differ for
        equal arguments. What it raises becomes a DataError. Several threads may call it at once. It
        isn't kept in a directory: create it after each `connect`. A name that is taken is a
        ProgrammingError; `replace` takes another function's place.
        """
        from runnel.session.functions import FunctionOptions, create_function

        self._database.check_open()
        options = FunctionOptions(scalar, nulls, deterministic, replace)
        try:
            create_function(self._database, name, function, parameter_types, return_type, options)
        except BaseException as error:
            fail(error, None)

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
        """Makes a Python function an aggregate function of this connection, which stands wherever
        one of SQL can: with DISTINCT, FILTER and ORDER BY in the brackets, with GROUP BY over
        tables and windows of streams, with OVER.

        For each group it takes one Arrow array per parameter (with `scalar` a list of Python
        values), all with the values of the group's rows, and gives one value: a Python one, or a
        scalar of Arrow or NumPy. The rows come in the order of ORDER BY in the brackets, without
        one in any. Of a group without rows the value is NULL. With `nulls="skip"` rows in which an
        argument is NULL are left out. Everything else is as in `create_function`.
        """
        from runnel.session.functions import FunctionOptions, create_function

        self._database.check_open()
        options = FunctionOptions(scalar, nulls, True, replace, is_aggregate=True)
        try:
            create_function(self._database, name, function, parameter_types, return_type, options)
        except BaseException as error:
            fail(error, None)

    def drop_function(self, name: str) -> None:
        """Takes back what `create_function` made. Statements that run go on with it."""
        from runnel.session.functions import drop_function

        self._database.check_open()
        drop_function(self._database, name)

    def submit(self, dag: DAG, *, name: str = "") -> Job:
        """Starts a hand-built DAG as a light job on the worker threads; the same DAG may be
        submitted many times. What a `result_sink` in it takes is read from `job.results`."""
        database = self._database
        database.check_open()
        if not isinstance(dag, DAG):
            raise InterfaceError(f"submit takes a DAG, not a value of class {type(dag).__name__}")
        try:
            return database.jobs.start(
                dag,
                evaluation=EvaluationContext(zone=database.settings.time_zone),
                options=JobOptions(name=name, is_hand_built=True),
            )
        except BaseException as error:
            fail(error, None)

    def jobs(self) -> list[Job | NamedJob]:
        """The named jobs that have not ended, and the light jobs that run now."""
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
    def job(self, job: str | int) -> NamedJob | Job:
        """The named job of that name or id, one that has ended too, or the light job with that id,
        which runs; ProgrammingError where there is none."""
        database = self._database
        database.check_open()
        if isinstance(job, str):
            return database.named_jobs.get(job)
        named = database.named_jobs.by_id(job) if database.has_named_jobs else None
        return database.jobs.get(job) if named is None else named

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
        directory = self._database.directory
        where = "in memory" if directory is None else f"to {str(directory.path)!r}"
        return f"<runnel.Connection {where}{', closed' if self.is_closed else ''}>"

    def _register(self, name: str, table: Table, caller: Caller | None = None) -> None:
        """Gives a table a name, on a caller's behalf; None: the connection's owner's."""
        database = self._database
        caller = caller or database.owner
        database.check_open()
        with database.definitions:
            found = database.catalog.snapshot.find(name)
            if isinstance(found, Mapping | View):
                kind = "mapping" if isinstance(found, Mapping) else "view"
                raise ProgrammingError(
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
    """InterfaceError for what no statement could name."""
    if not isinstance(name, str):
        raise InterfaceError(
            f"the name of a registration is a str, not a value of class {type(name).__name__}"
        )
    if not name or not name.isprintable():
        raise InterfaceError(
            f"{name!a} can't be the name of a registration",
            hint="take one or more printable characters",
        )


def _close_quietly(database: Database) -> None:
    with suppress(Exception):
        database.close()


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()

LEAVING = 1.0
"""Seconds that threads of the user have to come out of our calls when the interpreter ends."""
LOOKS = 10
"""So many times in a row nobody must be seen in one: who is on the way through Arrow's code
isn't."""


@atexit.register
def _leave() -> None:
    """At the end of the interpreter what is open is closed, and threads that are within a call of
    ours come out of it: one that returned from Arrow's code to an interpreter that is gone would
    end the process by a fault."""
    for database in list(_open_databases):
        _close_quietly(database)
    until, looks = monotonic() + LEAVING, 0
    while looks < LOOKS and len(sys._current_frames()) > 1 and monotonic() < until:
        looks = 0 if _is_somebody_inside() else looks + 1
        sleep(0.002)


def _is_somebody_inside() -> bool:
    own = get_ident()
    for thread, found in sys._current_frames().items():
        frame: FrameType | None = None if thread == own else found
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "runnel":
                return True
            frame = frame.f_back
    return False
