"""Runnel: a SQL engine that you import. This package is the PEP 249 module.

    import runnel

    con = runnel.connect()
    for row in con.execute("SELECT 1 + 1"):
        print(row)

Begin with `connection` and `cursor`, the public face, then `database`: the composition root and
the path of one statement. `statements` has a handler per kind of plan, `planner` makes plans,
`runtime` runs them on `processors`, and `connectors` read and write data. The contracts between
them are `processor`, `connector`, `dag`, `catalog` and `access`; other folders' rules say "the
contracts" for these files.

Imports point to lower levels only; tests/test_layout.py lists the levels. Every file may import
the basics: `errors`, `sqltypes`, `deadline` and the folder `base`. A folder that an import rule
names includes its subfolders. Public names are loaded on first use, so that importing one
module never loads another.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ != "runnel":
    raise ImportError(
        'this package is imported as "runnel": install it, then write "import runnel"'
    )

from runnel.errors import (
    BinderException,
    CatalogException,
    ConnectionException,
    ConstraintException,
    ConversionException,
    DatabaseError,
    DataError,
    DependencyException,
    Error,
    ErrorCode,
    FetchTimeoutError,
    IntegrityError,
    InterfaceError,
    InternalError,
    InternalException,
    InterruptException,
    InvalidInputException,
    IOException,
    NotImplementedException,
    NotSupportedError,
    OperationalError,
    OutOfMemoryException,
    OutOfRangeException,
    ParserException,
    PermissionException,
    Position,
    ProgrammingError,
    SyntaxException,
    TransactionException,
    Warning,  # noqa: A004 - PEP 249 names it so
    set_debug,
    short_errors,
)

if TYPE_CHECKING:
    from runnel.base.clock import Clock
    from runnel.connection import Connection
    from runnel.cursor import Cursor
    from runnel.dag import DAG, Edge, Routing, Vertex, between
    from runnel.dbapi20 import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from runnel.expressions.kernels.python_values import Interval
    from runnel.named_jobs.named_job import NamedJob
    from runnel.processors import library
    from runnel.results.duckdb_api.statements import StatementType
    from runnel.results.relational.expressions import (
        CaseExpression,
        CoalesceOperator,
        ColumnExpression,
        ConstantExpression,
        Expression,
        FunctionExpression,
        LambdaExpression,
        SQLExpression,
        StarExpression,
        coalesce,
        col,
        lit,
        sql_expr,
        star,
    )
    from runnel.runtime.light_job import Job, JobStatus

apilevel = "2.0"
"""The supported version of the DB-API."""
threadsafety = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle = "qmark"
"""Parameters are written `?`; `$1` and `:name` are accepted, too."""
__version__ = "0.1.0"

__all__ = [
    "BINARY",
    "DAG",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BinderException",
    "CaseExpression",
    "CatalogException",
    "Clock",
    "CoalesceOperator",
    "ColumnExpression",
    "Connection",
    "ConnectionException",
    "ConstantExpression",
    "ConstraintException",
    "ConversionException",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "DependencyException",
    "Edge",
    "Error",
    "ErrorCode",
    "Expression",
    "FetchTimeoutError",
    "FunctionExpression",
    "IOException",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "InternalException",
    "InterruptException",
    "Interval",
    "InvalidInputException",
    "Job",
    "JobStatus",
    "LambdaExpression",
    "NamedJob",
    "NotImplementedException",
    "NotSupportedError",
    "OperationalError",
    "OutOfMemoryException",
    "OutOfRangeException",
    "ParserException",
    "PermissionException",
    "Position",
    "ProgrammingError",
    "Routing",
    "SQLExpression",
    "StarExpression",
    "StatementType",
    "SyntaxException",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionException",
    "Vertex",
    "Warning",
    "__version__",
    "apilevel",
    "between",
    "coalesce",
    "col",
    "connect",
    "default_connection",
    "library",
    "lit",
    "paramstyle",
    "set_debug",
    "sql",
    "sql_expr",
    "star",
    "threadsafety",
]

_HOMES = {
    "connection": ("Connection",),
    "cursor": ("Cursor",),
    "dag": ("DAG", "Edge", "Routing", "Vertex", "between"),
    "dbapi20": (
        *("BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Date", "DateFromTicks"),
        *("Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks"),
    ),
    "runtime.light_job": ("Job", "JobStatus"),
    "base.clock": ("Clock",),
    "expressions.kernels.python_values": ("Interval",),
    "named_jobs.named_job": ("NamedJob",),
    "processors": ("library",),
    "results.duckdb_api.statements": ("StatementType",),
    "results.relational.expressions": (
        *("CaseExpression", "CoalesceOperator", "ColumnExpression", "ConstantExpression"),
        *("Expression", "FunctionExpression", "LambdaExpression", "SQLExpression"),
        *("StarExpression", "coalesce", "col", "lit", "sql_expr", "star"),
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_CALLS = frozenset(
    "execute executemany query read_csv read_json read_parquet from_csv_auto from_parquet "
    "table view values from_query from_arrow from_df table_function create_function "
    "remove_function register unregister begin commit rollback append close cursor fetchone "
    "fetchmany fetchall fetchdf fetch_df fetch_df_chunk fetchnumpy fetch_arrow_table df pl "
    "arrow fetch_record_batch fetch_arrow_reader to_arrow_table to_arrow_reader description "
    "rowcount get_table_names extract_statements install_extension load_extension interrupt "
    "sqltype dtype type string_type list_type map_type struct_type row_type decimal_type".split()
)
"""Calls of the default connection that the module has as well, as it has `sql`."""

for _name in (
    "ErrorCode",
    "Position",
    "Warning",
    *(name for name in __all__ if name.endswith(("Error", "Exception"))),
):
    globals()[_name].__module__ = "runnel"


@short_errors
def connect(
    path: str | Path | None = None,
    *,
    spark: Any = None,
    allowed_paths: Iterable[str | Path] | None = None,
    clock: Clock | None = None,
    paramstyle: str = "qmark",
    **settings: Any,
) -> Connection:
    """Opens a connection to a directory, which stores maps and the catalog; without `path`, to
    memory only; or to a server (`runnel serve`) at an address such as "runnel://127.0.0.1:4711",
    with its `token`.

    path: directory, created if it does not exist, or address of a server; ":memory:": memory only;
        ":default:": the connection of `sql`.
        A directory has one owner at a time: a second connection is an OperationalError. Or a DuckDB
        file, an existing one or a new name with the extension .duckdb or .db, which has the tables.
    spark: a SparkSession, which remains the caller's; or where to start one when a statement first
        needs it: a master URL, such as 'local[4]', the address of a Spark Connect server, such as
        'sc://host:15002', or Spark settings that include spark.master or spark.remote. False: none
        is ever started.
    allowed_paths: folders, files and URLs ('s3://bucket/folder') that statements of the connection
        may reach; None: all that the process can. With bounds, nothing below `path` is reachable.
        Existing objects of the directory may use what they name (docs/security.md).
    clock: the time of the connection, for tests: a runnel.testing.ManualClock, or another Clock;
        None: the computer's (docs/testing.md).
    paramstyle: "format" or "pyformat": the parameters of statements with arguments are written %s
        or %(name)s, and a percent sign %%. Otherwise they are written ?, $1 or :name.
    settings: settings as in SET, and `cooperative_threads`. As in DuckDB's `connect` there are also
        `database`, another name of `path`; `config`, a dictionary of settings; and
        `read_only=True` for a DuckDB file: the connection is in memory, with the file attached.
    """
    is_percent = False
    if paramstyle != "qmark":
        # Loaded on first use: few programs use another style.
        from runnel.statements.parameters.percent import is_percent_style

        is_percent = is_percent_style(paramstyle)
    connection = _open(path, settings, spark=spark, allowed_paths=allowed_paths, clock=clock)
    if is_percent:
        from runnel.statements.parameters.percent import PercentEngine

        connection._engine = PercentEngine(connection._engine)
    return connection


def _open(
    path: str | Path | None,
    settings: dict[str, Any],
    *,
    spark: Any,
    allowed_paths: Iterable[str | Path] | None,
    clock: Clock | None,
) -> Connection:
    """Opens a connection of this process, or to a server."""
    if "database" in settings and path is None:
        path = settings.pop("database")
    config = settings.pop("config", None)
    is_read_only = settings.pop("read_only", False)
    if config:
        # Loaded on first use: few programs pass the settings of another engine.
        from runnel.base.foreign_settings import at_start

        settings = {**at_start(config), **settings}
        is_read_only = is_read_only or settings.pop("access_mode", "") == "READ_ONLY"
    if path == ":memory:":
        path = None
    elif path == ":default:" and not settings:
        return default_connection()
    elif isinstance(path, str) and path.startswith((":memory:", ":default:")):
        raise NotSupportedError(
            f"there is no database '{path}'",
            hint="connect(':memory:') opens a new database, and connect(':default:') without "
            "settings is the connection of runnel.sql; to share a database, share its connection",
        )
    if isinstance(path, str) and "://" in path:
        # Loaded on first use: Flight takes a while.
        from runnel.serving.remote_connection import connect_remote

        local = {"spark": spark, "allowed_paths": allowed_paths, "clock": clock}
        return connect_remote(
            path, settings | {name: value for name, value in local.items() if value is not None}
        )
    with _without_collector():
        from runnel.connection import open_connection

    if is_read_only:
        # Loaded on first use: most connections write.
        from runnel.results.duckdb_api.read_only import attach_read_only

        connection = open_connection(
            None, settings, spark=spark, allowed_paths=allowed_paths, clock=clock
        )
        attach_read_only(connection, path)
        return connection
    return open_connection(path, settings, spark=spark, allowed_paths=allowed_paths, clock=clock)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pauses the cyclic garbage collector while modules are loaded. Their objects remain for as
    long as the process; to search them for garbage is 6 % of a cold start. To freeze and
    unfreeze moves it to the oldest generation, so that the next collection of young objects
    doesn't search it either; objects that the program froze itself remain frozen."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@short_errors
def default_connection() -> Connection:
    """The connection in memory that `sql` uses. It is opened on first use."""
    with _without_collector():
        from runnel.connection import default_connection

    return default_connection()


@short_errors
def sql(
    query: str,
    args: Sequence[Any] | Mapping[str, Any] = (),
    *,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Cursor:
    """Runs one statement on the default connection, which is in memory, and returns the cursor:
    print it, `show()` it, or fetch its rows. `params`: another name of `args`."""
    return default_connection().sql(query, args, params=params, timeout=timeout)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if name in _CALLS:
        return getattr(default_connection(), name)
    if home is None:
        remedy = ""
        if not name.startswith("_"):
            from runnel.results.duckdb_api.left_out import remedy as remedy_of

            remedy = remedy_of(name)
        raise AttributeError(f"module 'runnel' has no attribute {name!r}{remedy}")
    module = import_module(f"runnel.{home}")
    value = (
        getattr(module, name) if hasattr(module, name) else import_module(f"runnel.{home}.{name}")
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
