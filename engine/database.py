"""The database of one connection: the components that its sessions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from runnel.base.clock import SYSTEM_CLOCK, Clock
from runnel.base.forks import closed_error, here, watch
from runnel.catalog import (
    Catalog,
    CatalogObject,
    DataConnection,
    Index,
    NamedText,
    Registration,
    Snapshot,
    Table,
)
from runnel.catalog import Mapping as TableMapping
from runnel.connectors.registry import ConnectorRegistry
from runnel.deadline import DeadlineLock, RunningStatements
from runnel.errors import Error, InterfaceError, NotSupportedError
from runnel.planner.cache import PlanCache, PlanKey
from runnel.planner.environment import Environment, PlanSettings, Pushdown, Variables
from runnel.planner.planner import plan as make_plan
from runnel.planner.plans import Plan
from runnel.runtime.light_job import CLOSING, Jobs
from runnel.settings import DatabaseSettings, SessionSettings, Setting, Value, read_settings
from runnel.storage.memory_budget import Memory

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.connectors.duckdb.own_tables import OwnTables
    from runnel.connectors.files.functions.opened_tables import OpenedTables
    from runnel.duckdb.kernel import DuckDBKernel
    from runnel.errors import Position
    from runnel.expressions.python.function import PythonFunction
    from runnel.foreign.fragment import FragmentEngine
    from runnel.named_jobs.record.record import JobRecord
    from runnel.named_jobs.registry import NamedJobs
    from runnel.named_jobs.run import PreparedJob
    from runnel.runtime.threads.guarded_clock import GuardedClock
    from runnel.session.backup import BackupSize
    from runnel.session.directory import Directory
    from runnel.session.writers import WriterNumbers

LEAST_FOR_DUCKDB = 32 << 20
"""Minimum memory of DuckDB in bytes, whatever the limit: with a megabyte it does not open, with ten
it runs hardly any large query."""

ABANDON_AFTER = 5.0
"""Seconds that connectors have to close if a job that does not end may still use them."""


class PrepareJob(Protocol):
    """Plans a named job of a database as the catalog is now."""

    def __call__(self, database: Database, record: JobRecord, /) -> PreparedJob: ...


class Database:
    """Catalog, connectors, plan cache and jobs, which sessions share. Thread-safe."""

    _guarded_clock: GuardedClock | None = None

    def __init__(
        self,
        path: str | Path | None,
        options: Mapping[str, Any],
        spark: Any = None,
        access: Access | None = None,
        bounds: Access | None = None,
        *,
        clock: Clock | None = None,
        prepare_job: PrepareJob,
    ) -> None:
        """Opens the database.

        path: directory; None: in memory.
        options: settings by name.
        spark: see `connect`.
        access: bounds of the connection's own statements; None: none.
        bounds: bounds of a server's users, and of objects that were defined within bounds; None:
            `access`, or bounds that permit nothing.
        clock: the time of everything but waits of threads; None: the system's.
        prepare_job: plans a named job.
        """
        self.access = access
        self._bounds = bounds or access
        self._prepare_job = prepare_job
        values = read_settings(options)
        self.settings = DatabaseSettings(values)
        self.owner_settings = SessionSettings(self.settings, values)
        """The settings of the owner's session, by which the named jobs run as well."""
        self.catalog = Catalog()
        self.plans = PlanCache(self.settings.integer("plan_cache_size"))
        self.memory = Memory(is_shared=lambda: self._kernel is not None and self._kernel.is_open)
        self.jobs = self._new_jobs(clock)
        self.file = None if path is None else _database_file(path)
        """The DuckDB file that has the tables of the connection; None: it is not one to a file."""
        self.directory = None if path is None or self.file is not None else _directory(path)
        self.connectors = ConnectorRegistry(
            None if self.directory is None else self.directory.path,
            self.kernel,
            self.jobs.clock.wall,
        )
        self._kernel: DuckDBKernel | None = None
        self._opened_tables: OpenedTables | None = None
        self._set_memory()
        self.definitions = DeadlineLock("the catalog")
        """Locked by a statement that changes the catalog."""
        self.statements = RunningStatements()
        self.is_closed = False
        self._closing = Lock()
        self.origin = here()
        watch(self)
        self._named_jobs: NamedJobs | None = None
        self._writer_numbers: WriterNumbers | None = None
        if spark is not None:
            # Before the jobs of a directory are started, which may need it.
            self._use_spark(spark)
        self._open_stored()

    def _new_jobs(self, clock: Clock | None) -> Jobs:
        if clock is None:
            return self._jobs_by(SYSTEM_CLOCK)
        # Loaded on first use: only tests have another clock than the system's.
        from runnel.runtime.threads.guarded_clock import GuardedClock, clock_of

        jobs = self._jobs_by(clock_of(clock))
        if isinstance(jobs.clock, GuardedClock):
            self._guarded_clock = jobs.clock
            jobs.clock.on_failure = self._clock_failed
        return jobs

    def _clock_failed(self, error: InterfaceError) -> None:
        """All running statements and jobs fail with that error."""
        for job in self.jobs.running():
            job.execution.cancel(error)

    def _jobs_by(self, clock: Clock) -> Jobs:
        threads = self.settings.integer("cooperative_threads")
        return Jobs(
            threads, clock, kernel=self.kernel, memory=self.memory, deadline_clock=SYSTEM_CLOCK
        )

    @property
    def bounds(self) -> Access:
        """The bounds of a server's users, and of objects that were defined within bounds."""
        if self._bounds is None:
            # Loaded on first use: most connections have no bounds.
            from runnel.access import Access

            self._bounds = Access()
        return self._bounds

    def new_plan(
        self,
        key: PlanKey,
        snapshot: Snapshot,
        check: Callable[[], None] | None = None,
        variables: Variables | None = None,
        arguments: Sequence[Any] | None = None,
        plans: PlanCache | None = None,
    ) -> Plan:
        """A new plan of a statement, which is added to a cache unless it reads variables.

        check: raises when planning should stop.
        variables: the data frames of the caller; None: the statement can name none.
        arguments: the values of the parameters; only a plan that is not cached depends on them.
        plans: the cache; None: the one of the database.
        """
        environment = replace(
            self.environment(key.settings), is_confined=key.is_confined, arguments=arguments
        )
        if check is not None:
            environment = replace(environment, check=check)
        if variables is not None:
            environment = replace(environment, variables=variables)
        plan = make_plan(key.sql, snapshot, key.types, environment)
        if variables is None or not variables.is_used:
            (self.plans if plans is None else plans).put(key, plan, snapshot)
        return plan

    @property
    def named_jobs(self) -> NamedJobs:
        """The named jobs."""
        if self._named_jobs is None:
            # Loaded on first use: most connections have none.
            from runnel.named_jobs.registry import NamedJobs

            with self.definitions:
                if self._named_jobs is None:
                    directory = None if self.directory is None else self.directory.path
                    prepare = partial(self._prepare_job, self)
                    self._named_jobs = NamedJobs(
                        self.jobs, prepare, directory, self.check_directory
                    )
        return self._named_jobs

    @property
    def writer_numbers(self) -> WriterNumbers:
        """The numbers of the batches that external writers have committed."""
        with self.definitions:
            if self._writer_numbers is None:
                # Loaded on first use: few clients write with numbers.
                from runnel.session.writers import WriterNumbers

                directory = None if self.directory is None else self.directory.path
                self._writer_numbers = WriterNumbers(directory)
            return self._writer_numbers

    @property
    def has_named_jobs(self) -> bool:
        """Whether there may be named jobs. Does not load their modules."""
        return self._named_jobs is not None

    def busy_part(self) -> str | None:
        """A named job that is not at rest, in words; None: all are."""
        return None if self._named_jobs is None else self._named_jobs.busy_part()

    def _use_spark(self, spark: Any) -> None:
        try:
            self.connectors.get("Spark").use(spark)  # type: ignore[attr-defined]
        except BaseException:
            self.close()
            raise

    def _open_jobs(self) -> None:
        assert self.directory is not None
        if self.directory.record.origin is not None:
            from runnel.session.backup import warn_of_original

            warn_of_original(self.directory)
        try:
            self.named_jobs.open()
        except BaseException:
            self.close()
            raise

    def change(
        self,
        *,
        put: CatalogObject | tuple[CatalogObject, ...] = (),
        drop: CatalogObject | None = None,
        put_index: Index | None = None,
        drop_indexes: tuple[Index, ...] = (),
        put_connection: DataConnection | None = None,
        drop_connection: DataConnection | None = None,
        definitions: Mapping[tuple[str, str], NamedText] | None = None,
    ) -> None:
        """Changes the catalog, on disk first if the connection is durable. Called under
        `self.definitions`. `definitions`: all definitions after the change; None: the same."""
        added = put if isinstance(put, tuple) else (put,)
        if self.directory is not None:
            snapshot = self.catalog.snapshot
            objects = dict(snapshot.objects)
            gone = {index.name.lower() for index in drop_indexes}
            if drop is not None:
                del objects[drop.name.lower()]
                gone |= {index.name.lower() for index in snapshot.indexes_on(drop.name)}
            objects |= {item.name.lower(): item for item in added}
            indexes = [index for name, index in snapshot.indexes.items() if name not in gone]
            if put_index is not None:
                indexes.append(put_index)
            connections = dict(snapshot.connections)
            if drop_connection is not None:
                del connections[drop_connection.name.lower()]
            if put_connection is not None:
                connections[put_connection.name.lower()] = put_connection
            known = snapshot.definitions if definitions is None else definitions
            self.directory.save(objects.values(), indexes, connections.values(), known.values())
        for index in drop_indexes:
            self.catalog.remove_index(index.name)
        if drop is not None:
            self.catalog.remove(drop.name)
        for item in added:
            self.catalog.put(item)
        if put_index is not None:
            self.catalog.put_index(put_index)
        if drop_connection is not None:
            self.catalog.remove_connection(drop_connection.name)
        if put_connection is not None:
            self.catalog.put_connection(put_connection)
        if definitions is not None:
            self.catalog.put_definitions(definitions)

    def kernel(self) -> DuckDBKernel:
        """The connection's DuckDB, which is opened at its first cursor."""
        if self._kernel is None:
            # Loaded on first use: many connections never need it.
            from runnel.duckdb.kernel import DuckDBKernel

            with self.definitions:
                if self._kernel is None:
                    tables = self.file
                    if self.directory is not None:
                        tables = self.directory.path / "tables.duckdb"
                    limit = _share_of_duckdb(self.memory.limit)
                    self._kernel = DuckDBKernel(
                        self.jobs.workers, limit, self.memory.directory, tables=tables
                    )
        return self._kernel

    @property
    def own_tables(self) -> OwnTables:
        """The DuckDB tables of CREATE TABLE."""
        return self.connectors.get("DuckDB").own_tables  # type: ignore[attr-defined,no-any-return]

    def tables_of(self, key: str, *, is_temporary: bool = False) -> OwnTables:
        """The DuckDB tables of CREATE TABLE in the schema of that key."""
        connector = self.connectors.get("DuckDB")
        return connector.tables_of(key, is_temporary=is_temporary)  # type: ignore[attr-defined,no-any-return]

    def table_locations(self) -> list[str]:
        """The external names of the tables of CREATE TABLE in the catalog."""
        return [
            item.external_name or ""
            for item in self.catalog.snapshot
            if isinstance(item, TableMapping) and item.definition is not None
        ]

    def _set_memory(self) -> None:
        """Applies the settings to the memory budget."""
        memory = self.memory
        memory.limit = self.settings.integer("memory_limit")
        directory = self.settings.text("temp_directory")
        memory.owned = not directory and self.directory is not None
        memory.directory = directory or (
            None if self.directory is None else str(self.directory.path / "temp")
        )
        if self._kernel is not None:
            self._kernel.configure(_share_of_duckdb(memory.limit), memory.directory)

    def set(self, setting: Setting, value: Value | None) -> None:
        """Changes a setting of the database, None to its default, and applies it."""
        self.settings.set(setting, value)
        if setting.name in ("memory_limit", "temp_directory"):
            self._set_memory()
        if setting.name == "plan_cache_size":
            self.plans.resize(self.settings.integer(setting.name))

    def check_open(self) -> None:
        """InterfaceError if the connection is closed, or its clock has failed."""
        if self.is_closed:
            raise closed_error(self.origin)
        if self._guarded_clock is not None and self._guarded_clock.failure is not None:
            raise self._guarded_clock.failure

    def check_directory(self) -> None:
        """OperationalError if the directory of a durable connection was removed or renamed."""
        if self.directory is not None:
            self.directory.check()

    def back_up(self, target: str) -> BackupSize:
        """Makes a backup of the directory in the folder `target`; NotSupportedError in memory."""
        # Loaded on first use: few connections make one.
        from runnel.session.backup import back_up

        if self.directory is None:
            raise NotSupportedError(
                "a connection in memory has no directory to back up",
                hint="connect to a directory: runnel.connect('some/dir')",
            )
        self.directory.check()
        return back_up(self.directory.path, target, self.bounds, self.kernel)

    def leave(self) -> None:
        """In a forked child the connection is closed; its components are notified themselves."""
        self.is_closed = True

    def close(self) -> None:
        """Cancels all statements, then all jobs and waits for their end, closes the connectors, and
        releases the directory. Closing twice is no error. Does nothing in a forked child: the
        components are the parent's."""
        if self.origin.is_left:
            return
        with self._closing:
            if self.is_closed:
                return
            self.is_closed = True
        # First: a job that is to stop may wait for a table that a statement holds.
        self.statements.cancel_all()
        have_ended = self.definitions.acquire(timeout=CLOSING)
        if have_ended:
            self.definitions.release()
        try:
            if self._named_jobs is not None:
                self._named_jobs.close()
            have_ended = self.jobs.close() and have_ended
            for item in self.catalog.snapshot:
                if isinstance(item, Registration):
                    item.table.close()
        finally:
            if have_ended:
                self._close_connectors()
            else:
                # An abandoned job may use what is to be closed. Until it stops, the directory
                # remains locked.
                thread = Thread(target=self._close_connectors, name="runnel closing", daemon=True)
                thread.start()
                thread.join(ABANDON_AFTER)

    def _close_connectors(self) -> None:
        try:
            self.connectors.close()
        finally:
            if self._kernel is not None:
                self._kernel.close()
            if self.directory is not None:
                self.directory.close()

    def environment(self, settings: PlanSettings) -> Environment:
        """The planner's view of the database, for a statement with these settings."""
        pushdown = None
        if settings.pushdown:
            rows = settings.fragment_rows
            pushdown = Pushdown(lambda: self._duckdb_engine(rows), rows)
        return Environment(
            file_table=self._function_table,
            zone=settings.zone,
            pushdown=pushdown,
            job_functions=self._job_functions,
            with_options=self._with_options,
            sequences=lambda: self.connectors.get("DuckDB").own_tables.sequences,  # type: ignore[attr-defined]
            is_at_rest=settings.is_at_rest,
            null_order=settings.null_order,
        )

    def _job_functions(
        self,
        name: str | None,
        options: Sequence[tuple[str, str, Position | None]],
        is_confined: bool,
    ) -> Mapping[str, PythonFunction]:
        """The functions of a job's modules: of the job with that name, or named by options."""
        if name is not None:
            job = self.named_jobs.find(name)
            sources = {} if job is None else job.record.modules
        elif any(option.lower() == "modules" for option, _, _ in options):
            from runnel.named_jobs.record.options import read_options
            from runnel.session.job_code.sources import read_sources

            paths = read_options(options).modules
            sources = read_sources(paths, self.bounds if is_confined else None)
        else:
            return {}
        if not sources:
            return {}
        from runnel.session.job_code.isolated import JobCode

        return JobCode(sources).functions()

    def _function_table(
        self, name: str, positional: list[Any], named: dict[str, Any], is_confined: bool
    ) -> Table:
        """The table that a table function opens, within bounds if the caller has bounds."""
        # Loaded on first use: most connections never name a file, or the state of a job.
        if name in ("job_state", "snapshot_state"):
            from runnel.session.state_tables import state_table

            return state_table(self.named_jobs, name, positional, named, is_confined=is_confined)
        from runnel.connectors.files.functions.opened_tables import OpenedTables
        from runnel.connectors.files.functions.table_functions import file_table

        if self._opened_tables is None:
            self._opened_tables = OpenedTables()
        access = self.bounds if is_confined else None
        return file_table(name, positional, named, access, self._opened_tables)

    def _with_options(
        self, found: TableMapping, options: Mapping[str, str], is_confined: bool
    ) -> Table:
        """The table of a mapping, opened with further options; within bounds if the mapping or the
        caller has bounds."""
        # Loaded on first use: few queries have options of their own.
        from runnel.session.table_options import with_options

        access = self.bounds if is_confined or found.is_confined else None
        return with_options(self.connectors, self.catalog.snapshot, found, options, access)

    def _duckdb_engine(self, rows: int) -> FragmentEngine:
        # Loaded on first use: most statements have no fragment.
        from runnel.connectors.duckdb.fragments import DuckDBEngine

        return DuckDBEngine(self.kernel(), rows)

    def _open_stored(self) -> None:
        """Opens what the DuckDB file or the directory of the connection has."""
        if self.file is not None:
            self._open_file(self.file)
        if self.directory is not None:
            self._open_saved(self.directory)
            if (self.directory.path / "jobs").exists():
                self._open_jobs()

    def _open_file(self, file: Path) -> None:
        """Names the tables and views of the file. A broken one raises the reason when used."""
        from runnel.session.file_objects import open_objects

        try:
            objects, indexes, texts = open_objects(self.connectors, file)
            for item in objects:
                self.catalog.put(item)
            for index in indexes:
                self.catalog.put_index(index)
            self.catalog.put_definitions(texts)
        except BaseException:
            self.close()
            raise

    def _open_saved(self, directory: Directory) -> None:
        """Loads the saved catalog. A mapping that can't be opened raises the reason when used."""
        from runnel.session.directory import NEXT
        from runnel.session.table_options import open_or_explain

        try:
            if (directory.path / NEXT).exists():
                # Loaded on first use: only a crash leaves the file.
                from runnel.session.commits import recover

                recover(self, directory)
            saved = directory.load()
            for connection in saved.connections:
                self.catalog.put_connection(connection)
            for item in saved.mappings:
                definition = item.definition
                bounds = self.bounds if item.is_confined else None
                table = open_or_explain(self.connectors, self.catalog.snapshot, item, bounds)
                self.catalog.put(
                    TableMapping(
                        definition.name,
                        item.connector,
                        table,
                        definition.options,
                        definition.external_name,
                        object_type=definition.object_type,
                        data_connection=item.data_connection,
                        watermark=definition.watermark,
                        is_confined=item.is_confined,
                        definition=definition.table,
                        flink_text=item.flink_text,
                        not_null=item.not_null,
                        schema=definition.schema,
                    )
                )
            for view in saved.views:
                self.catalog.put(view)
            for index in saved.indexes:
                self.catalog.put_index(index)
            self.catalog.put_definitions({item.key: item for item in saved.definitions})
            if any(item.definition.table is not None for item in saved.mappings):
                # A damaged file of tables is reported when one of them is used.
                with suppress(Error):
                    self.own_tables.clean(self.table_locations())
        except BaseException:
            directory.close()
            raise


def _share_of_duckdb(limit: int) -> int | None:
    """DuckDB's share of the memory limit: half of it, but at least LEAST_FOR_DUCKDB. None: no
    limit."""
    return max(limit // 2, LEAST_FOR_DUCKDB) if limit else None


def _database_file(path: object) -> Path | None:
    """The path if it is the one of a DuckDB file."""
    if not isinstance(path, str | Path) or "\0" in str(path) or path == "":
        return None
    file = Path(path).expanduser()
    if not file.is_file() and (file.is_dir() or not file.suffix):
        return None
    # Loaded on first use: most connections are to a directory, or in memory.
    from runnel.connectors.duckdb.file_tables import is_database_file

    return file if is_database_file(file) else None


def _directory(path: object) -> Directory:
    # Loaded on first use: most connections are in memory.
    from runnel.session.directory import Directory

    if not isinstance(path, str | Path):
        raise InterfaceError(
            "the directory of a connection is a str or Path, not a value of class "
            f"{type(path).__name__}"
        )
    if path == "" or "\0" in str(path):
        raise InterfaceError(
            f"{str(path)!a} can't be the directory of a connection",
            hint="leave it out to work in memory",
        )
    return Directory(Path(path))
