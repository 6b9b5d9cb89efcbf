"""Changes of rows by their numbers: INSERT, UPDATE and DELETE of one statement in one
transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.connector import SinkRequest, WriteMode
from runnel.connectors.duckdb.location import ChangedTable
from runnel.connectors.duckdb.sink import change_statement
from runnel.connectors.duckdb.types import quoted
from runnel.duckdb.errors import translated
from runnel.expressions.kernels.canonical import canonical
from runnel.sqltypes import Kind, SqlType, to_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS = "runnel_changed"
_INSERTED, _UPDATED, _DELETED = range(3)


def unique_keys(table: ChangedTable) -> list[tuple[str, ...]]:
    """The columns of each key of a table, as the mapping calls them; the primary key first."""
    names = {item.name.lower(): item.column.name for item in table.duck_columns}
    location = table.location
    query = (
        "SELECT constraint_column_names FROM duckdb_constraints() "
        "WHERE '\"' || replace(database_name, '\"', '\"\"') || '\"' = ? "
        "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) "
        "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type"
    )
    try:
        with location.cursor() as cursor:
            found = cursor.execute(
                query, [location.database, location.schema, location.table]
            ).fetchall()
    except Exception as error:
        raise translated(error) from error
    return [
        tuple(names[name.lower()] for name in columns)
        for (columns,) in found
        if all(name.lower() in names for name in columns)
    ]


def change_rows(
    table: ChangedTable, rows: pa.Table, columns: tuple[int, ...], inserts: str, key: Sequence[str]
) -> pa.Table:
    """Deletes, updates and inserts rows in one transaction; returns the inserted rows if some may
    be ignored.

    rows: the action, the row number, and the columns.
    columns: the indexes of the columns in the table.
    inserts: "fail", "ignore" or "replace": what becomes of a new row whose key exists.
    key: with "ignore": the columns of the key; (): any key.
    """
    location = table.location
    with closing(location.cursor()) as cursor:
        try:
            cursor.execute("BEGIN TRANSACTION")
            returned = apply_changes(cursor, table, rows, columns, (inserts, tuple(key)))
            cursor.execute("COMMIT")
        except BaseException as error:
            with suppress(Exception):
                cursor.execute("ROLLBACK")
            if not isinstance(error, Exception):
                raise
            raise location.failure(error) from error
    table.changed(None if inserts == "replace" else _added(rows, inserts, returned))
    return returned


def _added(rows: pa.Table, inserts: str, returned: pa.Table) -> int:
    """The number of rows that the table has more after the change of `rows`."""
    actions = rows.column(0).to_numpy()
    inserted = np.count_nonzero(actions == _INSERTED)
    if inserts == "ignore":
        inserted = returned.num_rows
    return int(inserted - np.count_nonzero(actions == _DELETED))


def apply_changes(
    cursor: DuckDBPyConnection,
    table: ChangedTable,
    rows: pa.Table,
    columns: tuple[int, ...],
    rule: tuple[str, tuple[str, ...]],
) -> pa.Table:
    """`change_rows` in the transaction of the cursor. `rule`: inserts and key."""
    returned = rows.slice(0, 0).select(range(2, rows.num_columns))
    for action in (_DELETED, _UPDATED, _INSERTED):
        chosen = rows.filter(pc.equal(rows.column(0), action))
        if not chosen.num_rows:
            continue
        if action == _INSERTED:
            returned = _insert(cursor, table, chosen, columns, rule)
        else:
            _change(cursor, table, chosen, columns, action)
    return returned


def _change(
    cursor: DuckDBPyConnection,
    table: ChangedTable,
    rows: pa.Table,
    columns: tuple[int, ...],
    action: int,
) -> None:
    mode = WriteMode.DELETE if action == _DELETED else WriteMode.UPDATE
    changed = columns if mode is WriteMode.UPDATE else ()
    chosen = rows.select(range(1, 2 + len(changed)))
    cursor.register(_ROWS, _numbered(chosen))
    cursor.execute(change_statement(table, SinkRequest(mode, (table.row_id, *changed)), _ROWS))
    cursor.unregister(_ROWS)


def _insert(
    cursor: DuckDBPyConnection,
    table: ChangedTable,
    rows: pa.Table,
    columns: tuple[int, ...],
    rule: tuple[str, tuple[str, ...]],
) -> pa.Table:
    inserts, key = rule
    chosen = rows.select(range(2, rows.num_columns))
    cursor.register(_ROWS, _numbered(chosen))
    mode = WriteMode.SINK if inserts == "replace" else WriteMode.INSERT
    statement = change_statement(table, SinkRequest(mode, columns), _ROWS)
    returned = chosen.slice(0, 0)
    if inserts == "ignore":
        own = {item.column.name: item.name for item in table.duck_columns}
        target = f" ({', '.join(quoted(own[name]) for name in key)})" if key else ""
        shown = ", ".join(f"{table.outgoing(i)} AS c{n}" for n, i in enumerate(columns))
        found = cursor.sql(
            f"{statement} ON CONFLICT{target} DO NOTHING RETURNING {shown}"
        ).to_arrow_table()
        arrays = [
            sql_array(column, table.columns[i].type)
            for column, i in zip(found.combine_chunks().columns, columns, strict=True)
        ]
        returned = pa.Table.from_arrays(arrays, names=chosen.column_names)
    else:
        cursor.execute(statement)
    cursor.unregister(_ROWS)
    return returned


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])


def sql_array(column: pa.Array, sql_type: SqlType) -> pa.Array:
    """An array of DuckDB in the canonical form of a SQL type. INTERVALs are in microseconds."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if sql_type.kind is Kind.INTERVAL:
        return pc.cast(column, to_arrow(sql_type))
    return canonical(column, sql_type)
