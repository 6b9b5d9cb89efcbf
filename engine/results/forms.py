"""The forms of a cursor's rows besides tuples, and its columns: `Forms`, a part of `Cursor`.

Methods that write a file run COPY, so they have its formats and its errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runnel.errors import InterfaceError, NotSupportedError, short_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

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

_CLAUSES = {
    "filter": "SELECT * FROM r WHERE …",
    "select": "SELECT a, b FROM r",
    "project": "SELECT a, b FROM r",
    "order": "SELECT * FROM r ORDER BY a",
    "sort": "SELECT * FROM r ORDER BY a",
    "limit": "SELECT * FROM r LIMIT 10",
    "aggregate": "SELECT k, sum(a) FROM r GROUP BY k",
    "join": "SELECT * FROM r JOIN other USING (k)",
    "union": "SELECT * FROM r UNION ALL SELECT * FROM other",
    "distinct": "SELECT DISTINCT * FROM r",
    "unique": "SELECT DISTINCT a FROM r",
    "value_counts": "SELECT a, count(*) FROM r GROUP BY a",
    "set_alias": "SELECT s.a FROM r AS s",
    "alias": "SELECT s.a FROM r AS s",
    "cross": "SELECT * FROM r CROSS JOIN other",
    "except_": "SELECT * FROM r EXCEPT SELECT * FROM other",
    "intersect": "SELECT * FROM r INTERSECT SELECT * FROM other",
    "explain": "EXPLAIN SELECT …",
    "map": "SELECT f(a) FROM r",
    "to_table": "CREATE TABLE t AS SELECT * FROM r",
    "to_view": "CREATE VIEW v AS SELECT …",
    "update": "UPDATE t SET a = 1 WHERE …",
    "row_number": "SELECT row_number() OVER (ORDER BY a) FROM r",
    **{
        name: f"SELECT {name}(a) FROM r"
        for name in (
            *("min", "max", "avg", "median", "mode", "first", "last", "list", "product"),
            *("stddev", "variance", "any_value", "string_agg", "bit_and", "bit_or", "bool_and"),
        )
    },
    "mean": "SELECT avg(a) FROM r",
    "std": "SELECT stddev(a) FROM r",
    "var": "SELECT variance(a) FROM r",
    "quantile": "SELECT quantile_cont(a, 0.5) FROM r",
    "count": "SELECT count(*) FROM r",
    "sum": "SELECT sum(a) FROM r",
    "describe": "SUMMARIZE r",
    "create": "CREATE TABLE t AS SELECT * FROM r",
    "create_view": "CREATE VIEW v AS SELECT …",
    "insert_into": "INSERT INTO t SELECT * FROM r",
}
"""The SQL to write instead of a method of DuckDB's relations; r is the variable of the cursor."""


class _Connection(Protocol):
    """The connection of a cursor, as far as writing a file needs it."""

    def cursor(self) -> Any: ...
    def register(self, name: str, data: Any) -> None: ...
    def unregister(self, name: str) -> None: ...


class Forms:
    """The part of a cursor with the forms of its rows. Every method but `columns` and `types`
    consumes the remaining rows."""

    _connection: Any
    _result: Result | None
    _sql: str | None
    _shared: tuple[Result, pa.RecordBatchReader] | None = None
    """The result that statements read through the variable of this cursor, and its one reader."""

    if TYPE_CHECKING:
        # The methods of `Cursor` on which these are built.
        @property
        def description(self) -> Sequence[ColumnDescription] | None: ...
        def fetch_arrow_table(self, timeout: float | None = None) -> pa.Table: ...
        def fetch_record_batch(self, timeout: float | None = None) -> pa.RecordBatchReader: ...
        def fetch_df(self, timeout: float | None = None) -> Any: ...
        def fetch_polars(self, timeout: float | None = None) -> Any: ...
        def _gather(self, count: int) -> None: ...

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
    def write_parquet(self, path: str | Path) -> int:
        """Writes all remaining rows to a Parquet file as COPY does, and returns their number."""
        return self._copy(path, "parquet")

    @short_errors
    def write_csv(self, path: str | Path) -> int:
        """Writes all remaining rows to a CSV file as COPY does, and returns their number."""
        return self._copy(path, "csv")

    def _copy(self, path: str | Path, file_format: str) -> int:
        connection: _Connection = self._connection
        name = f"rows of cursor {id(self)}"
        target = str(path).replace("'", "''")
        connection.register(name, self.fetch_record_batch())
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"COPY \"{name}\" TO '{target}' (FORMAT {file_format})")
                return int(cursor.rowcount)
        finally:
            connection.unregister(name)

    def rows_in_sql(self, name: str) -> pa.RecordBatchReader | None:
        """The reader through which a statement reads the rows of this cursor by the name of its
        variable; None if it has no rows. Statements can read them once; InterfaceError if some were
        fetched."""
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

    def __getattr__(self, name: str) -> Any:
        other = _OTHER_NAMES.get(name)
        if other is not None:
            return getattr(self, other)
        clause = _CLAUSES.get(name)
        remedy = "" if clause is None else f"; write it in SQL: con.sql('{clause}')"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self
        )
