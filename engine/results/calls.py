"""Statements that are written as calls of a connection: `Calls`, a part of `Connection`, and the
queries of the relations that they return."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import ref

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError, NotSupportedError, short_errors, shorten
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.sqltypes import BIGINT

if TYPE_CHECKING:
    from runnel.results.duckdb_api.statements import ExtractedStatement

_Cursor = TypeVar("_Cursor")

OF_CURSORS = frozenset(
    "fetchone fetchmany fetchall fetchdf fetch_df fetchnumpy fetch_arrow_table fetch_record_batch "
    "to_arrow_table to_arrow_reader fetch_arrow_reader fetch_df_chunk df pl arrow show".split()
)
"""The methods of cursors that a connection has for the result of its last `execute`."""

REMEDIES = {
    "appender": "con.executemany('INSERT INTO t VALUES (?, ?)', rows), or con.append('t', frame)",
    "query_appender": "con.executemany('MERGE INTO …', rows)",
    "array_type": "con.list_type('INTEGER'): lists of a fixed size are lists",
    "enum_type": "'VARCHAR', and CHECK (x IN (…)) in a table",
    "union_type": "'VARCHAR' or 'JSON': a column has one type",
    "tf": "con.sql('FROM t').fetchnumpy(), whose arrays become tensors",
    "torch": "con.sql('FROM t').fetchnumpy(), whose arrays become tensors",
    "checkpoint": "nothing: a statement stores its changes when it ends",
    "complete": "con.fetchall()",
    "abort": "cursor.close() of the cursor that execute returned",
    "duplicate": "con.cursor()",
    "query_progress": "cursor.progress() of the cursor that execute returned",
    "enable_profiling": "con.sql('EXPLAIN ANALYZE SELECT …')",
    "disable_profiling": "con.sql('EXPLAIN ANALYZE SELECT …') for one query",
    "get_profiling_information": "con.sql('EXPLAIN ANALYZE SELECT …')",
    "register_filesystem": "a path such as 's3://…': pip install 'runnel[fsspec]'",
    "unregister_filesystem": "a path such as 's3://…': pip install 'runnel[fsspec]'",
    "list_filesystems": "a path such as 's3://…': pip install 'runnel[fsspec]'",
    "filesystem_is_registered": "a path such as 's3://…': pip install 'runnel[fsspec]'",
}
"""The remedy for each call of DuckDB that a connection does not have."""

_TYPES = frozenset(
    "sqltype dtype type string_type list_type map_type struct_type row_type decimal_type".split()
)
"""The names in `duckdb_api.types`."""

_CSV_OPTIONS = {
    "dtype": "types",
    "escapechar": "escape",
    "lineterminator": "new_line",
    "na_values": "nullstr",
    "quotechar": "quote",
    "skiprows": "skip",
}
"""The options of read_csv in SQL, by their names in Python."""


CAPTURED: ContextVar[dict[str, Any] | None] = ContextVar("captured", default=None)
"""The data frames that the running query of a relation reads by the names of variables. Statements
look here first, and add the ones that they find: a relation that runs again reads the same ones."""


@frozen
class RelationQuery:
    """The query of a relation.

    sql: its text.
    args: the values of its parameters.
    frames: the data frames and relations that it reads by the names of variables.
    alias: the name of the relation in conditions and joins; "": none was set.
    source: the items of FROM whose names expressions may use; None: the query itself.
    condition: the condition over `source`; "": none.
    table: the name of the table if the relation is one; "": it is not.
    """

    sql: str
    args: Any = ()
    frames: dict[str, Any] = field(default_factory=dict)
    alias: str = ""
    source: str | None = None
    condition: str = ""
    table: str = ""


class LastResult(local):
    """The outcome of the last `execute` of a connection, for each thread.

    outcome: the result, the text, the number of written rows, and that number as a result; None:
        there is none. A result that ends is stored itself. Of a stream there is a weak reference:
        its job ends with the cursor. The cursor is not stored, which refers to the connection.
    """

    outcome: tuple[Any, str | None, int, Result | None] | None = None

    def remember(self, cursor: Any) -> None:
        """Stores the outcome of a cursor's statement. A statement without a result gets one for the
        fetches that DuckDB's programs call: the number of written rows, or no row."""
        result = cursor._result
        if result is not None and result.is_unbounded:
            result = ref(result)
        if result is None:
            count = cursor._rowcount
            cursor._written = Result(_COUNT, [(count,)] if count >= 0 else [])
        self.outcome = result, cursor._sql, cursor._rowcount, cursor._written


_COUNT = (Field("Count", BIGINT),)
_numbers = count(1)


def one_of(args: Any, other: Any) -> Any:
    """The arguments of a statement, which may be passed under two names, but only under one."""
    if other is None:
        return args
    if args:
        raise InterfaceError(
            "the arguments of a statement are passed twice", hint="pass them once: sql(query, args)"
        )
    return other


class Calls(Generic[_Cursor]):
    """The part of a connection with calls that run a statement on a new cursor."""

    if TYPE_CHECKING:
        _last: LastResult

        def cursor(self) -> Any: ...
        def register(self, name: str, data: Any) -> Any: ...
        def unregister(self, name: str) -> None: ...
        def drop_function(self, name: str) -> None: ...

    def execute(
        self,
        sql: str,
        args: Any = (),
        *,
        parameters: Any = None,
        timeout: float | None = None,
    ) -> _Cursor:
        """Runs a statement on a new cursor, and returns the cursor. The connection has the fetches
        of its rows as well, until the next `execute` of the same thread. `parameters` is another
        name of `args`."""
        try:
            last = self._last
            last.outcome = None
            cursor: Any = self.cursor()
            cursor.execute(sql, one_of(args, parameters), timeout=timeout)
            last.remember(cursor)
        except BaseException as error:
            shorten(error)
            raise
        return cursor  # type: ignore[no-any-return]

    @short_errors
    def sql(
        self,
        query: str,
        args: Any = (),
        *,
        params: Any = None,
        alias: str = "",
        timeout: float | None = None,
    ) -> _Cursor:
        """Runs one statement on a new cursor, which a prompt and a notebook show as a table, and
        returns the cursor. It waits for the first rows of a query that ends. `params` is another
        name of `args`; `alias` names the relation in conditions."""
        cursor: Any = self.cursor().sql(query, one_of(args, params), timeout=timeout)
        return cursor.set_alias(alias) if alias else cursor  # type: ignore[no-any-return]

    query = sql

    @short_errors
    def begin(self) -> Self:
        """BEGIN of a transaction, which `commit` or `rollback` ends; returns the connection."""
        self.cursor().execute("BEGIN")
        return self

    @short_errors
    def from_arrow(self, data: Any) -> _Cursor:
        """The rows of any data that `register` accepts, as `sql` returns them."""
        return self._over("FROM", data)

    @short_errors
    def append(self, table_name: str, df: Any, *, by_name: bool = False) -> Self:
        """Inserts the rows of any data that `register` accepts into a table, by position, or
        `by_name` of the columns; returns the connection."""
        self._over(f"INSERT INTO {_path(table_name)}{' BY NAME' if by_name else ''} FROM", df)
        return self

    def _over(self, begin: str, data: Any) -> _Cursor:
        """A statement that ends with the name of a data frame."""
        name = f"__rows_of_frame_{next(_numbers)}"  # no table is called so
        self.register(name, data)
        try:
            cursor: Any = self.sql(f"{begin} {name}")
        finally:
            self.unregister(name)
        if cursor._query is not None:
            cursor._query = replace(cursor._query, frames={name: data})
        return cursor  # type: ignore[no-any-return]

    @short_errors
    def extract_statements(self, query: str) -> list[ExtractedStatement]:
        """The statements of a text, which do not run: each is a str that `execute` accepts, with
        `query`, `type` (a `runnel.StatementType`) and `named_parameters`."""
        from runnel.results.duckdb_api.statements import extracted

        return extracted(query)

    @short_errors
    def get_table_names(self, query: str, *, qualified: bool = False) -> set[str]:
        """The names of the tables, views and files that a statement reads; `qualified`: with their
        schemas, and quoted where SQL needs it."""
        from runnel.results.duckdb_api.statements import table_names

        return table_names(query, qualified=qualified)

    @short_errors
    def table_function(self, name: str, parameters: Iterable[Any] = ()) -> _Cursor:
        """The rows of a table function: `con.table_function('range', [3])`."""
        return self.sql(f"FROM {_path(name)}({', '.join(map(_literal, parameters))})")

    @short_errors
    def install_extension(self, extension: str, **options: Any) -> None:
        """Does nothing for what the package has: json, parquet, icu and core_functions. Otherwise
        NotSupportedError: connectors and formats are extras of the package."""
        if extension.lower() not in ("json", "parquet", "icu", "core_functions"):
            raise NotSupportedError(
                f"extension {extension!r} of DuckDB can't be loaded",
                hint="connectors and formats are extras of the package: pip install 'runnel[all]'; "
                "functions are written in Python: con.create_function",
            )

    @short_errors
    def load_extension(self, extension: str) -> None:
        """As `install_extension`."""
        self.install_extension(extension)

    @short_errors
    def from_df(self, df: Any) -> _Cursor:
        """The rows of a pandas or Polars frame, as `sql` returns them."""
        return self.from_arrow(df)

    @short_errors
    def remove_function(self, name: str) -> None:
        """`drop_function` by its name in DuckDB."""
        self.drop_function(name)

    @short_errors
    def executemany(
        self, sql: str, seq_of_args: Iterable[Any], *, timeout: float | None = None
    ) -> _Cursor:
        """`Cursor.executemany` on a new cursor, which it returns."""
        self._last.outcome = None
        cursor: Any = self.cursor()
        cursor.executemany(sql, seq_of_args, timeout=timeout)
        self._last.remember(cursor)
        return cursor  # type: ignore[no-any-return]

    @short_errors
    def table(self, name: str) -> _Cursor:
        """The rows of a table, a view or another object with that name, as `sql` returns them."""
        cursor: Any = self.sql(f"FROM {_path(name)}")
        if cursor._query is not None:
            alias = name.rpartition(".")[2]
            cursor._query = replace(cursor._query, alias=alias, table=name)
        return cursor  # type: ignore[no-any-return]

    @short_errors
    def view(self, name: str) -> _Cursor:
        """`table` by its name in DuckDB for a view."""
        return self.table(name)

    @short_errors
    def from_query(self, query: str, alias: str = "") -> _Cursor:
        """`sql` by another name in DuckDB; `alias` names the relation."""
        return self.sql(query, alias=alias)

    @short_errors
    def values(self, *rows: Any) -> _Cursor:
        """A relation of values: `values([1, 'a'])` and `values(1, 'a')` are one row, and
        `values((1, 'a'), (2, 'b'))` two."""
        if not rows or not isinstance(rows[0], tuple | list):
            rows = (rows,)
        marks = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
        return self.sql(f"VALUES {marks}", tuple(value for row in rows for value in row))

    @short_errors
    def read_csv(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of CSV files: the table function of that name, with its options, which may also
        have their names in DuckDB's package: dtype, na_values, skiprows, quotechar …"""
        named = {_CSV_OPTIONS.get(name, name): value for name, value in options.items()}
        header = named.get("header")
        if isinstance(header, int) and not isinstance(header, bool):
            if header != 0:
                raise InterfaceError("the header is the first line", hint="write skiprows=1")
            named["header"] = True
        return self._read("read_csv", path, named)

    @short_errors
    def read_json(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of JSON files: the table function of that name, with its options."""
        return self._read("read_json", path, options)

    @short_errors
    def read_parquet(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of Parquet files: the table function of that name, with its options."""
        return self._read("read_parquet", path, options)

    from_csv_auto, from_parquet = read_csv, read_parquet

    def _read(self, function: str, path: Any, options: dict[str, Any]) -> _Cursor:
        if hasattr(path, "read"):
            raise InterfaceError(
                f"{function} needs the path of a file, not a value of class {type(path).__name__}",
                hint="read it with pyarrow: con.from_arrow(pyarrow.csv.read_csv(file))",
            )
        arguments = [_literal(path)]
        arguments += [
            f"{name} = {_literal(value)}" for name, value in options.items() if value is not None
        ]
        return self.sql(f"FROM {function}({', '.join(arguments)})")

    def _last_cursor(self) -> Any:
        """A cursor with the result of the last `execute` of this thread."""
        outcome = self._last.outcome
        cursor = self.cursor()
        if outcome is None:
            raise InterfaceError(
                "there are no rows to fetch",
                hint="run con.execute(query) first, in the same thread; the rows of "
                "con.sql(query) are fetched from what it returns",
            )
        result, cursor._sql, cursor._rowcount, cursor._written = outcome
        if isinstance(result, ref):
            result = result()
            if result is None:
                raise InterfaceError(
                    "the query over a stream has ended, because its cursor was deleted",
                    hint="keep the cursor: cursor = con.execute(query)",
                )
        cursor._result = result
        return cursor

    @short_errors
    def _fetched(self, method: str, *args: Any, **options: Any) -> Any:
        """A method of a cursor, on the result of the last `execute`; of `df(frame)` and
        `arrow(table)`, which DuckDB has, too: the rows of the argument."""
        if method in ("df", "arrow") and args and not isinstance(args[0], int | float):
            return self.from_arrow(*args)
        return getattr(self._last_cursor(), method)(*args, **options)

    @property
    def description(self) -> Any:
        """The columns of the last `execute` of this thread; None if it has none."""
        return None if self._last.outcome is None else self._last_cursor().description

    @property
    def rowcount(self) -> int:
        """The number of rows of the last `execute` of this thread; −1 while it is unknown."""
        return -1 if self._last.outcome is None else int(self._last_cursor().rowcount)

    def __getattr__(self, name: str) -> Any:
        remedy = ""
        if name in OF_CURSORS:
            return partial(self._fetched, name)
        if name in _TYPES:
            from runnel.results.duckdb_api.types import TYPES

            return short_errors(TYPES[name])
        if name in REMEDIES:
            remedy = f"; write {REMEDIES[name]}"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self
        )


def _path(name: str) -> str:
    """The name of a table, which may have a schema, in SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _literal(value: Any) -> str:
    """A Python value as an argument of a table function."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, str | Path):
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        items = ", ".join(f"{_literal(str(k))}: {_literal(v)}" for k, v in value.items())
        return f"{{{items}}}"
    raise InterfaceError(
        f"an option of a file can't be a value of class {type(value).__name__}",
        hint="pass a bool, a number, a text, a list or a dict of these",
    )
