"""The forms of a cursor's rows besides tuples, and its columns: `Forms`, a part of `Cursor`.

Methods that write a file run COPY, so they have its formats and its errors. The cursor of `sql` is
also a relation: a query that can run again, with the methods of `results.relational.methods`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runnel.errors import InterfaceError, NotSupportedError, as_written, fail, short_errors
from runnel.results.calls import CAPTURED, RelationQuery
from runnel.results.rows import rows_as_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from runnel.results.rows import ColumnDescription, Result

_ALL = 1 << 62
"""More rows than there are."""

_OTHER_NAMES = {
    "fetchdf": "fetch_df",
    "to_df": "fetch_df",
    "to_arrow_table": "fetch_arrow_table",
    "to_arrow_reader": "fetch_record_batch",
    "fetch_arrow_reader": "fetch_record_batch",
    "to_parquet": "write_parquet",
    "to_csv": "write_csv",
    "dtypes": "types",
}
"""The names that DuckDB has for methods of a cursor."""


class _Connection(Protocol):
    """The connection of a cursor, as far as writing a file needs it."""

    def cursor(self) -> Any: ...
    def register(self, name: str, data: Any) -> None: ...
    def unregister(self, name: str) -> None: ...


class Forms:
    """The part of a cursor with the forms of its rows. Every method but `columns` and `types`
    consumes the remaining rows."""

    _connection: Any
    _database: Any
    _result: Result | None
    _sql: str | None
    _query: RelationQuery | None = None
    _written: Result | None = None
    """The number of written rows as a result, of a statement that a connection has executed."""
    """The query of a relation; None: the cursor is none."""
    _schema: pa.Schema | None = None
    """The schema of the relation's rows once it has run."""
    _shared: tuple[Result, pa.RecordBatchReader] | None = None
    """The result that statements read through the variable of this cursor, and its one reader."""

    if TYPE_CHECKING:
        # The methods of `Cursor` on which these are built.
        @property
        def description(self) -> Sequence[ColumnDescription] | None: ...
        def fetch_arrow_table(self, timeout: float | None = None) -> pa.Table: ...
        def fetch_record_batch(self, timeout: float | None = None) -> pa.RecordBatchReader: ...
        def fetch_df(self, timeout: float | None = None) -> Any: ...
        def fetchmany(self, size: int | None = None, timeout: float | None = None) -> Any: ...
        def fetch_polars(self, timeout: float | None = None) -> Any: ...
        def execute(self, sql: str, args: Any = (), *, timeout: float | None = None) -> Any: ...
        def _gather(self, count: int) -> None: ...
        def _watch(self, running: Any) -> None: ...

    @property
    def columns(self) -> list[str]:
        """The names of the columns; [] if the statement has no rows."""
        return [item.name for item in self.description or ()]

    @property
    def types(self) -> list[Any]:
        """The SQL types of the columns, whose `str` is the name in SQL."""
        return [item.type_code for item in self.description or ()]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, with the fetched ones, and of columns. It waits for all rows, which
        remain to be fetched; NotSupportedError for a query that never ends."""
        self._begin()
        result = self._result
        if result is None:
            return 0, 0
        if result.is_unbounded:
            raise NotSupportedError(
                "a stream has no number of rows", hint="count a window of it, or add a LIMIT"
            )
        self._gather(_ALL)
        fetched = result.fetched
        _, left = result.peek(0)
        return fetched + (left or 0), len(result.fields)

    @short_errors
    def df(self, timeout: float | None = None) -> Any:
        """Short for `fetch_df`."""
        return self.fetch_df(timeout)

    @short_errors
    def pl(self, timeout: float | None = None, *, lazy: bool = False) -> Any:
        """Short for `fetch_polars`; with `lazy` a LazyFrame of the rows."""
        frame = self.fetch_polars(timeout)
        return frame.lazy() if lazy else frame

    @short_errors
    def arrow(self, timeout: float | None = None) -> pa.Table:
        """Short for `fetch_arrow_table`."""
        return self.fetch_arrow_table(timeout)

    @short_errors
    def fetchnumpy(self, timeout: float | None = None) -> dict[str, Any]:
        """All remaining rows as one NumPy array for each column, by its name. A column with NULLs
        is a masked array; of several columns of one name the last one remains."""
        import numpy as np

        table = self.fetch_arrow_table(timeout)
        found: dict[str, Any] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count:
                mask = column.is_null().to_numpy()
                values = column.to_numpy()
                if values.dtype.kind == "f" and not str(column.type).startswith(
                    ("float", "double")
                ):
                    # Arrow returns whole numbers with NULLs as floats.
                    values = column.fill_null(0).to_numpy()
                found[name] = np.ma.masked_array(values, mask)
            else:
                found[name] = column.to_numpy()
        return found

    @short_errors
    def fetch_df_chunk(self, vectors_per_chunk: int = 1) -> Any:
        """The next rows as a pandas DataFrame, at most 2,048 for each vector; an empty one after
        the last row. `fetch_record_batch` is faster."""
        required("pandas")
        rows = self.fetchmany(2048 * vectors_per_chunk)
        assert self._result is not None
        return rows_as_batch(rows, self._result.fields).to_pandas()

    @short_errors
    def write_parquet(self, path: str | Path, **options: Any) -> int:
        """Writes all remaining rows to a Parquet file as COPY does, with its options or their names
        in DuckDB's package (`compression`, `row_group_size`, `partition_by` …), and returns their
        number."""
        return self._copy(path, "parquet", options)

    @short_errors
    def write_csv(self, path: str | Path, **options: Any) -> int:
        """Writes all remaining rows to a CSV file as COPY does, with its options or their names in
        DuckDB's package (`sep`, `na_rep`, `header`, `quotechar` …), and returns their number."""
        return self._copy(path, "csv", options)

    def _copy(self, path: str | Path, file_format: str, options: dict[str, Any]) -> int:
        # Loaded on first use: most rows are fetched.
        from runnel.results.duckdb_api.copy_options import copy_options

        connection: _Connection = self._connection
        name = f"rows of cursor {id(self)}"
        target = str(path).replace("'", "''")
        text = ", ".join([f"FORMAT {file_format}", *copy_options(options)])
        connection.register(name, self.fetch_record_batch())
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"COPY \"{name}\" TO '{target}' ({text})")
                return int(cursor.rowcount)
        finally:
            connection.unregister(name)

    def _no_rows_hint(self) -> str:
        if self._sql is None or self._rowcount < 0:
            return "execute a query first"
        return "the statement wrote `rowcount` rows; INSERT … RETURNING returns them"

    def _forget_last(self) -> None:
        """Lets the connection forget a result that failed, which refers to the error."""
        last = self._connection._last
        if last.outcome is not None and last.outcome[0] is self._result:
            last.outcome = None

    def _script(self, sql: str, args: Any, timeout: float | None) -> Any:
        """Runs a text that may have several statements, and returns the outcome of the last one,
        which becomes the cursor's statement."""
        # Loaded on first use: few texts have a semicolon.
        from runnel.results.scripts import run_script

        self._sql, outcome = run_script(self._database.run, sql, args, timeout, self._watch)
        return outcome

    def _run(self, query: RelationQuery, timeout: float | None = None) -> None:
        """Runs the query of a relation, from its first row. A statement without rows makes no
        relation."""
        before = self._query
        token = CAPTURED.set(query.frames)
        try:
            self.execute(query.sql, query.args, timeout=timeout)
            if self._result is not None:
                # Of several statements the relation is the last one.
                last = self._sql if ";" in query.sql else None
                self._query = query if last is None else replace(query, sql=last)
        finally:
            CAPTURED.reset(token)
            if before is query:
                self._query = query

    def _callable_text(self) -> str:
        from runnel.results.relational.methods import callable_text

        return callable_text(self)

    def _plan(self, query: RelationQuery, prepare: Callable[[str, Any], object]) -> None:
        """Plans the query of a relation, which raises what is wrong in it."""
        token = CAPTURED.set(query.frames)
        try:
            prepare(query.sql, query.args)
        except BaseException as error:
            fail(error, query.sql)
        finally:
            CAPTURED.reset(token)

    def _begin(self) -> None:
        """Runs the query of a relation that does not run yet."""
        if self._result is None and self._query is not None:
            self._run(self._query)

    def _begin_again(self) -> None:
        """Runs the query of a relation again whose rows were all fetched, or does nothing."""
        result, query = self._result, self._query
        if result is None or query is None or result.is_unbounded:
            return
        if result.total > 0 and result.fetched >= result.total:
            from runnel.results.relational.compose import repeatable

            if repeatable(query):
                self._run(query)

    def rows_in_sql(self, name: str) -> pa.RecordBatchReader | None:
        """The reader through which a statement reads the rows of this cursor by the name of its
        variable; None if it has no rows. Each statement reads all rows of a relation. Statements
        can read other rows once; InterfaceError if some were fetched."""
        if self._query is not None:
            from runnel.results.relational.compose import repeatable
            from runnel.results.relational.methods import reader_of

            if repeatable(self._query):
                return reader_of(self, name)
        result = self._result
        if result is None:
            return None
        if self._shared is None or self._shared[0] is not result:
            if result.fetched:
                raise InterfaceError(
                    f'rows of the cursor "{name}" were fetched already',
                    hint=f"keep them in a table, to read them again: {name} = {name}.arrow()",
                )
            self._shared = result, self.fetch_record_batch()
        return self._shared[1]

    def __len__(self) -> int:
        """The number of rows of a relation that ends, which it counts by running; TypeError for
        another cursor, so that `list(cursor)` counts nothing."""
        if self._query is not None:
            self._begin()
            if self._result is not None and not self._result.is_unbounded:
                return self.shape[0]
        raise TypeError("a cursor has no len(): fetch its rows, or count them in SQL")

    def __getitem__(self, name: str) -> Any:
        """The relation of one column of a relation."""
        if self._query is None or not isinstance(name, str):
            raise TypeError("a cursor is not subscriptable: fetch its rows")
        return self.project(as_written(name))

    def __contains__(self, item: object) -> bool:
        """Whether a relation has a column of that name; of another cursor, whether one of its rows
        is equal, which fetches them."""
        if self._query is not None and isinstance(item, str):
            return item in self.columns
        return any(row == item for row in self)  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        other = _OTHER_NAMES.get(name)
        if other is not None:
            return getattr(self, other)
        if not name.startswith("_"):
            # Loaded on first use: most cursors only have rows.
            from runnel.results.relational.methods import method_of

            return method_of(self, name)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
        )


def required(package: str) -> Any:
    """A package that is an extra of Runnel; InterfaceError if it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InterfaceError(
            f'the package "{package}" is not installed',
            hint=f"install it with: pip install runnel[{package}]",
        ) from error
