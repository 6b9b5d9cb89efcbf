"""Statements that are written as calls of a connection: `Calls`, a part of `Connection`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runnel.errors import InterfaceError, short_errors

_Cursor = TypeVar("_Cursor")

_OF_CURSORS = frozenset(
    "fetchone fetchmany fetchall fetchdf fetch_df fetchnumpy fetch_arrow_table fetch_record_batch "
    "df pl arrow show description rowcount".split()
)
"""The methods that DuckDB's connections have, and cursors have here."""

_STATEMENTS = {
    "begin": "con.execute('BEGIN')",
    "checkpoint": "nothing: a statement stores its changes when it ends",
    "duplicate": "con.cursor()",
    "from_df": "con.sql('FROM df')",
    "from_arrow": "con.sql('FROM table')",
    "from_query": "con.sql(query)",
    "install_extension": "nothing: connectors and formats are extras of the package",
    "load_extension": "nothing: connectors and formats are extras of the package",
    "interrupt": "cursor.cancel()",
    "query": "con.sql(query)",
    "values": "con.sql('VALUES (1, 2)')",
    "view": "con.table(name)",
}


class Calls(Generic[_Cursor]):
    """The part of a connection with calls that run a statement on a new cursor."""

    if TYPE_CHECKING:

        def cursor(self) -> Any: ...
        def sql(self, query: str, args: Any = (), *, timeout: float | None = None) -> _Cursor: ...

    @short_errors
    def executemany(
        self, sql: str, seq_of_args: Iterable[Any], *, timeout: float | None = None
    ) -> _Cursor:
        """`Cursor.executemany` on a new cursor, which it returns."""
        cursor: _Cursor = self.cursor().executemany(sql, seq_of_args, timeout=timeout)
        return cursor

    @short_errors
    def table(self, name: str) -> _Cursor:
        """The rows of a table, a view or another object with that name, as `sql` returns them."""
        return self.sql("FROM " + ".".join(map(_quoted, name.split("."))))

    @short_errors
    def read_csv(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of CSV files: the table function of that name, with its options."""
        return self._read("read_csv", path, options)

    @short_errors
    def read_json(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of JSON files: the table function of that name, with its options."""
        return self._read("read_json", path, options)

    @short_errors
    def read_parquet(self, path: str | Path | list[str], **options: Any) -> _Cursor:
        """The rows of Parquet files: the table function of that name, with its options."""
        return self._read("read_parquet", path, options)

    def _read(self, function: str, path: Any, options: dict[str, Any]) -> _Cursor:
        arguments = [_literal(path)]
        arguments += [
            f"{name} = {_literal(value)}" for name, value in options.items() if value is not None
        ]
        return self.sql(f"FROM {function}({', '.join(arguments)})")

    def __getattr__(self, name: str) -> Any:
        remedy = ""
        if name in _OF_CURSORS:
            remedy = f"; execute returns a cursor, which has it: con.execute(sql).{name}"
        elif name in _STATEMENTS:
            remedy = f"; write {_STATEMENTS[name]}"
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
