"""One client of a database: its rights, its settings, and all that its statements use of the
database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import get_ident
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.base.clock import SYSTEM_CLOCK
from runnel.base.frozen import frozen
from runnel.deadline import current
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError
from runnel.planner.cache import PlanCache, PlanKey
from runnel.planner.planner import plan_job
from runnel.runtime.tasklets.failures import timed_out
from runnel.settings import LATENCY_TARGET, SettingScope, find, nanoseconds

logger = logging.getLogger("runnel.catalog")

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.catalog import CatalogObject, NamedText, Registration, Snapshot
    from runnel.connector import WritableTable
    from runnel.connectors.duckdb.own_tables import OwnTables
    from runnel.connectors.duckdb.table import DuckDBTable
    from runnel.connectors.duckdb.transactions import DuckDBTransaction
    from runnel.database import Database
    from runnel.expressions.nodes import Literal
    from runnel.expressions.python.function import PythonFunction
    from runnel.named_jobs.registry import NamedJobs
    from runnel.planner.environment import Environment
    from runnel.planner.plans import Plan, WritePlan
    from runnel.session.backup import BackupSize
    from runnel.session.writers import WriterNumbers
    from runnel.settings import SessionSettings, Value
    from runnel.sqltypes import SqlType


@frozen
class Caller:
    """On whose behalf a statement runs.

    is_owner: whether it may change settings and the objects of other callers.
    access: its bounds; None: none.
    """

    is_owner: bool = True
    access: Access | None = None

    @property
    def is_confined(self) -> bool:
        return self.access is not None

    def require_owner(self, what: str) -> None:
        """ProgrammingError if it isn't the owner: `what` (a plural) are the owner's."""
        if not self.is_owner:
            raise ProgrammingError(
                f"{what} are the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint="connect with the owner's token",
            )

    def require_no_bounds(self, what: str) -> None:
        """ProgrammingError if it has bounds, which `what` (a plural) cannot observe."""
        if self.is_confined:
            raise ProgrammingError(
                f"{what} are for callers without bounds",
                code=ErrorCode.NOT_ALLOWED,
                hint=(
                    "the owner does it: with the owner's token, "
                    "or on a connection without allowed_paths"
                ),
            )

    def require_own(self, what: str, *, is_confined: bool) -> None:
        """ProgrammingError if a caller without bounds has defined `what`, and this one isn't the
        owner."""
        if not self.is_owner and not is_confined:
            raise ProgrammingError(
                f"{what} is the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint="you may read and write it; the owner may change it",
            )


OWNER = Caller()


@frozen
class PreparedStatement:
    """A statement of PREPARE.

    sql: its text.
    types: the types of its parameters; (): the types of each execution's arguments.
    """

    sql: str
    types: tuple[SqlType, ...]


class StatementVariables:
    """The variables that one statement may name; see `Variables`."""

    def __init__(self, values: Mapping[str, Literal], *, has_frames: bool) -> None:
        """`values`: of SET VARIABLE, by names in lower case; `has_frames`: whether the statement
        may name data frames of the code around it."""
        self.is_used = False
        self._values = values
        self._has_frames = has_frames
        self._found: dict[str, Registration | None] = {}

    def value(self, name: str) -> Literal | None:
        """The value of SET VARIABLE; None if the variable is not set."""
        self.is_used = True
        return self._values.get(name.lower())

    def find(self, name: str) -> Registration | None:
        """The data frame of the caller's variable of that name; None if there is none."""
        if not self._has_frames:
            return None
        if name not in self._found:
            # Loaded on first use: most statements name objects of the catalog.
            from runnel.session.python_scan import variable_table

            found = self._found[name] = variable_table(name)
            self.is_used = self.is_used or found is not None
        return self._found[name]

    def hint(self, name: str) -> str | None:
        """The hint for a name that was not found, if a variable is similar."""
        if not self._has_frames:
            return None
        from runnel.session.python_scan import variable_hint

        return variable_hint(name)


class Session:
    """One client of a database. A local connection is one session; the clients of a server share
    the settings of the server's connection.

    The handlers of statements use the attributes and methods below and not `database`, which is for
    connections and servers. A TEMPORARY view is one of the database, so a session has no state
    besides its settings, its prepared statements, its variables and its transaction.

    caller: the rights of its statements, to files among others.
    settings: the values of all settings as its statements see them.
    has_variables: whether its statements are executed by code of this process, whose variables they
        may name.
    prepared: the statements of PREPARE by their names in lower case; None: the session ends with
        its statement.
    values: the values of SET VARIABLE by names in lower case.
    search_path: the keys of the schemas in which unqualified names are looked up; (): public.
    transaction: the session of the statements between BEGIN and COMMIT; None: each statement is a
        transaction by itself.
    connectors: the connectors by the name of their type.
    definitions: the lock of the catalog. A statement that changes the catalog holds it from its
        first look at the catalog to `change_catalog`.
    light_jobs: starts statements as jobs, and lists the running ones; it also has the clock and the
        number of workers.
    plans: the cached plans.
    statements: the running statements, which closing the database cancels.
    origin: the process that has opened the database.
    check_open: InterfaceError if the database is closed.
    check_directory: OperationalError if the directory of a durable database was removed.
    """

    __slots__ = (
        "_seen",
        "caller",
        "change_catalog",
        "check_directory",
        "check_open",
        "connectors",
        "database",
        "definitions",
        "has_variables",
        "light_jobs",
        "origin",
        "plans",
        "prepared",
        "search_path",
        "settings",
        "statements",
        "transaction",
        "values",
    )

    def __init__(self, database: Database, caller: Caller, settings: SessionSettings) -> None:
        self.database = database
        self.caller = caller
        self.settings = settings
        self.has_variables = False
        self.prepared: dict[str, PreparedStatement] | None = None
        self.values: dict[str, Literal] = {}
        self.search_path: tuple[str, ...] = ()
        self._seen: tuple[Snapshot, tuple[str, ...], Snapshot] | None = None
        self.transaction: TransactionSession | None = None
        self.connectors = database.connectors
        self.definitions = database.definitions
        self.light_jobs = database.jobs
        self.plans = database.plans
        self.statements = database.statements
        self.change_catalog: Callable[..., None] = database.change
        self.origin = database.origin
        self.check_open = database.check_open
        self.check_directory = database.check_directory

    @classmethod
    def of_owner(cls, database: Database) -> Session:
        """The session of the database's owner, with the bounds of the connection."""
        access = database.access
        caller = OWNER if access is None else Caller(True, access)
        return cls(database, caller, database.owner_settings)

    @property
    def is_closed(self) -> bool:
        return self.database.is_closed

    @property
    def catalog(self) -> Snapshot:
        """The catalog as it is now, with the search path of the session."""
        snapshot = self.database.catalog.snapshot
        return self._with_path(snapshot) if self.search_path else snapshot

    @property
    def common_catalog(self) -> Snapshot:
        """The catalog as it is now for all sessions, without a transaction's changes."""
        return self.database.catalog.snapshot

    def _with_path(self, snapshot: Snapshot) -> Snapshot:
        if self._seen is None or self._seen[0] is not snapshot or self._seen[1] != self.search_path:
            self._seen = snapshot, self.search_path, replace(snapshot, path=self.search_path)
        return self._seen[2]

    @property
    def bounds(self) -> Access:
        """The bounds of objects that were defined within bounds."""
        return self.database.bounds

    @property
    def path(self) -> str | None:
        """The DuckDB file or the directory of the database; None: it is in memory."""
        directory = self.database.directory
        found = self.database.file if directory is None else directory.path
        return None if found is None else str(found)

    def warn_if_lost(self, kind: str, name: str) -> None:
        """Logs that an object ends with the connection, if the database is a DuckDB file."""
        if self.database.file is not None:
            logger.warning(
                '%s "%s" ends with the connection: a DuckDB file stores tables and sequences; '
                "connect to a directory to keep it",
                kind,
                name,
            )

    @property
    def own_tables(self) -> OwnTables:
        """The DuckDB tables of CREATE TABLE."""
        return self.database.own_tables

    def tables_of(self, key: str, *, is_temporary: bool = False) -> OwnTables:
        """The DuckDB tables of CREATE TABLE in the schema of that key."""
        return self.database.tables_of(key, is_temporary=is_temporary)

    def as_written(self, table: DuckDBTable) -> WritableTable:
        """A new table as the session's statements write it."""
        return table

    def table_locations(self) -> list[str]:
        """The external names of the tables of CREATE TABLE."""
        return self.database.table_locations()

    @property
    def named_jobs(self) -> NamedJobs:
        """The named jobs, and the snapshots that users have named."""
        return self.database.named_jobs

    @property
    def linger(self) -> int:
        """The maximum time, in ns, that rows of a stream wait in a source for larger batches: half
        of latency_target; the rest is for the work, and for the watermark to reach the windows.

        Without another latency_target than the default, rows wait only by the computer's clock. By
        a clock that moves on command they would wait for a command.
        """
        target = self.settings.latency_target
        if self.light_jobs.clock is not SYSTEM_CLOCK and target == nanoseconds(LATENCY_TARGET):
            return 0
        return target // 2

    @property
    def has_named_jobs(self) -> bool:
        """Whether there may be named jobs. Does not load their modules."""
        return self.database.has_named_jobs

    @property
    def writer_numbers(self) -> WriterNumbers:
        """The numbers of the batches that external writers have committed."""
        return self.database.writer_numbers

    def set(self, name: str, value: Value | None) -> None:
        """Changes a setting, None to its default: of this session, or of the database, by the scope
        of the setting."""
        setting = find(name)
        if setting.scope is SettingScope.SESSION:
            self.settings.set(setting, value)
        else:
            self.database.set(setting, value)

    def plan_key(self, sql: str, types: tuple[SqlType, ...]) -> PlanKey:
        """The key of a statement's plan for arguments of these types."""
        is_confined = self.caller.access is not None
        return PlanKey(sql, self.search_path, types, is_confined, self.settings.of_plans)

    def prepare(
        self, sql: str, types: tuple[SqlType, ...], check: Callable[[], None] | None = None
    ) -> Plan:
        """The plan of a statement: the cached one while the objects that it names are unchanged.

        `check` raises when planning should end.
        """
        key, snapshot = self.plan_key(sql, types), self.catalog
        return self.plans.get(key, snapshot) or self.new_plan(key, snapshot, check)

    def new_plan(
        self,
        key: PlanKey,
        snapshot: Snapshot,
        check: Callable[[], None] | None = None,
        arguments: Sequence[Any] | None = None,
    ) -> Plan:
        """A new plan of a statement, which is added to the cache. Only a plan that is not cached
        depends on the values of `arguments`."""
        has_frames = self.has_variables and not key.is_confined
        variables = StatementVariables(
            self.values, has_frames=has_frames and bool(self.settings.get("python_scan"))
        )
        return self.database.new_plan(key, snapshot, check, variables, arguments, self.plans)

    def planning_environment(self, zone: str) -> Environment:
        """The planner's view of the database, for a plan with that time zone."""
        return self.database.environment(self.settings.of_plans._replace(zone=zone))

    def plan_job(
        self,
        query: str,
        types: tuple[SqlType, ...],
        zone: str,
        *,
        is_confined: bool,
        path: tuple[str, ...] = (),
        functions: Mapping[str, PythonFunction] | None = None,
    ) -> WritePlan:
        """The plan of a named job's query with the current catalog. If this thread runs a
        statement, its timeout applies: some statements plan the job again.

        is_confined: the files that the query names have bounds.
        path: the search path of the job's creator.
        functions: the functions of the job's modules, by lower-case name; None: none.
        """
        environment = replace(
            self.planning_environment(zone), check=statement_check(), is_confined=is_confined
        )
        snapshot = replace(self.database.catalog.snapshot, path=path)
        return plan_job(query, snapshot.with_functions(functions or {}), types, environment)

    def back_up(self, target: str) -> BackupSize:
        """Makes a backup of the directory in the folder `target`; NotSupportedError if the
        database is in memory."""
        return self.database.back_up(target)

    def put_function(self, function: Any) -> None:
        """Adds a function to the catalog. Called under `definitions`."""
        self.database.catalog.put_function(function)

    def remove_function(self, name: str) -> None:
        """Removes a function from the catalog. Called under `definitions`."""
        self.database.catalog.remove_function(name)


class TransactionSession(Session):
    """The statements of a session between BEGIN and COMMIT or ROLLBACK. Its catalog has the tables
    of CREATE TABLE as the transaction sees them, and its plans are not cached.

    duckdb: the transaction of the tables.
    pending: its changes of the catalog.
    """

    __slots__ = ("_check_commit", "_checked", "_opened", "_outer", "_thread", "duckdb", "pending")

    def __init__(
        self,
        outer: Session,
        duckdb: DuckDBTransaction,
        checked: Callable[[TransactionSession, Plan], Plan],
        check_commit: Callable[[TransactionSession], None],
    ) -> None:
        """`checked` returns a plan that takes part in the transaction, or raises; `check_commit`
        raises if its changes of the catalog can't be applied."""
        super().__init__(outer.database, outer.caller, outer.settings)
        self.has_variables = outer.has_variables
        self.prepared = outer.prepared
        self.values = outer.values
        self.search_path = outer.search_path
        self.plans = PlanCache(0)
        self.duckdb = duckdb
        # Loaded on first use: few sessions have a transaction.
        from runnel.session.pending_catalog import PendingCatalog

        self.pending = PendingCatalog()
        self.change_catalog = self._change
        self._opened: dict[int, tuple[OwnTables, OwnTables]] = {}
        self._checked = checked
        self._check_commit = check_commit
        self._outer = outer
        self._thread = get_ident()

    @property
    def catalog(self) -> Snapshot:
        snapshot = self.duckdb.catalog(self.pending.applied(self.database.catalog.snapshot))
        return self._with_path(snapshot) if self.search_path else snapshot

    def new_plan(
        self,
        key: PlanKey,
        snapshot: Snapshot,
        check: Callable[[], None] | None = None,
        arguments: Sequence[Any] | None = None,
    ) -> Plan:
        # A transaction reads no streams.
        key = key._replace(settings=key.settings._replace(is_at_rest=True))
        return self._checked(self, super().new_plan(key, snapshot, check, arguments))

    def enter(self) -> None:
        """Called before each statement. OperationalError in a thread that has not called BEGIN."""
        if get_ident() != self._thread:
            raise OperationalError(
                "another thread has a transaction open on this connection",
                hint="wait until it has called COMMIT or ROLLBACK",
            )

    def end(self, *, is_commit: bool) -> None:
        """Ends the transaction, also if this raises."""
        self.enter()
        self._outer.transaction = None
        self._outer.search_path = self.search_path
        if not is_commit:
            self.duckdb.roll_back()
        elif self.pending.is_empty or self.duckdb.is_aborted:
            self.duckdb.commit()
        else:
            # Loaded on first use: few transactions change the catalog.
            from runnel.session.commits import commit

            with ExitStack() as locks:
                copied = self._copied()
                try:
                    for table in copied:
                        locks.enter_context(table.exclusive())
                    locks.enter_context(self.definitions)
                    for table in copied:
                        self.duckdb.check_unchanged(table)
                    self.pending.check(self.common_catalog)
                    self._check_commit(self)
                except BaseException:
                    self.duckdb.roll_back()
                    raise
                commit(self.database, self.pending.changes, self.duckdb)
            for step in self.duckdb.after_commit:
                with suppress(Error):  # the next opening of a directory makes up for it
                    step()

    def _copied(self) -> list[DuckDBTable]:
        """The tables that the transaction has copied or dropped, in the order of their names."""
        after = map(_rows_of, self.pending.changes.objects.values())
        kept = {table.location.qualified for table in after if table is not None}
        replaced = sorted(self.pending.replaced.items())
        before = [_rows_of(item) for _, item in replaced]
        return [t for t in before if t is not None and t.location.qualified not in kept]

    @property
    def own_tables(self) -> OwnTables:
        return self._joined(super().own_tables)

    def tables_of(self, key: str, *, is_temporary: bool = False) -> OwnTables:
        return self._joined(super().tables_of(key, is_temporary=is_temporary))

    def _joined(self, base: OwnTables) -> OwnTables:
        """The tables as the transaction creates and drops them."""
        # Loaded on first use: few transactions define tables.
        from runnel.connectors.duckdb.transaction_tables import TransactionTables

        if id(base) not in self._opened:
            self._opened[id(base)] = base, TransactionTables(base, self.duckdb)
        return self._opened[id(base)][1]

    def as_written(self, table: DuckDBTable) -> WritableTable:
        return self.duckdb.joined(table)

    def _change(
        self,
        *,
        put: CatalogObject | tuple[CatalogObject, ...] = (),
        drop: CatalogObject | None = None,
        definitions: Mapping[tuple[str, str], NamedText] | None = None,
    ) -> None:
        """Notes a change of the catalog, which COMMIT applies."""
        items = put if isinstance(put, tuple) else (put,)
        found = tuple(self.duckdb.parted(item) for item in items)
        self.pending.change(self.database.catalog.snapshot, found, drop, definitions)


def _rows_of(item: CatalogObject | None) -> DuckDBTable | None:
    """The DuckDB table of a table of CREATE TABLE."""
    from runnel.connectors.duckdb.table import DuckDBTable

    table = getattr(item, "table", None)
    return table if isinstance(table, DuckDBTable) and hasattr(item, "definition") else None


def statement_check() -> Callable[[], None]:
    """A function that raises when this thread's statement has timed out or was cancelled."""
    deadline = current()

    def check() -> None:
        deadline.check()
        if deadline.timeout is None:
            deadline.check_time()
        elif deadline.deadline is not None and monotonic_ns() >= deadline.deadline:
            raise timed_out(round(deadline.timeout * 1e9))

    return check
