"""Changes of rows by their numbers: INSERT, UPDATE and DELETE of one statement in one
transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.connector import SinkRequest, WriteMode
from runnel.connectors.duckdb.location import ROW_ID, ChangedTable
from runnel.connectors.duckdb.sink import change_statement, written_value
from runnel.connectors.duckdb.types import quoted
from runnel.duckdb.errors import translated
from runnel.expressions.kernels.canonical import canonical
from runnel.sqltypes import Kind, SqlType, to_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS = "runnel_changed"
_INSERTED, _UPDATED, _DELETED = range(3)


def unique_keys(table: ChangedTable) -> list[tuple[str, ...]]:
    """The columns of each key and unique index of a table, as the mapping calls them; the primary
    key first."""
    names = {item.name.lower(): item.column.name for item in table.duck_columns}
    location = table.location
    of_table = (
        "WHERE '\"' || replace(database_name, '\"', '\"\"') || '\"' = ? "
        "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) "
    )
    query = (
        f"SELECT constraint_column_names FROM duckdb_constraints() {of_table}"
        "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type"
    )
    indexes = (
        f"SELECT expressions FROM duckdb_indexes() {of_table}AND is_unique ORDER BY index_name"
    )
    place = [location.database, location.schema, location.table]
    try:
        with location.cursor() as cursor:
            found = [columns for (columns,) in cursor.execute(query, place).fetchall()]
            texts = [text for (text,) in cursor.execute(indexes, place).fetchall()]
    except Exception as error:
        raise translated(error) from error
    found += [_columns_of(text) for text in texts]
    return [
        tuple(names[name.lower()] for name in columns)
        for columns in found
        if all(name.lower() in names for name in columns)
    ]


def _columns_of(expressions: str) -> list[str]:
    """The columns of an index, as DuckDB lists them: `[a, '"b c"']`."""
    items = _EXPRESSION.findall(expressions.removeprefix("[").removesuffix("]"))
    words = [text or plain for text, plain in items]
    return [
        word[1:-1].replace('""', '"') if word.startswith('"') and word.endswith('"') else word
        for word in words
    ]


_EXPRESSION = re.compile(r"\s*(?:'([^']*)'|([^,']+))(?:,|$)")


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
    rule = (inserts, tuple(key))
    with closing(location.cursor()) as cursor:
        for is_narrow in (False, True):
            try:
                cursor.execute("BEGIN TRANSACTION")
                returned = apply_changes(cursor, table, rows, columns, rule, is_narrow=is_narrow)
                cursor.execute("COMMIT")
                break
            except BaseException as error:
                with suppress(Exception):
                    cursor.execute("ROLLBACK")
                if not isinstance(error, Exception):
                    raise
                if is_narrow or "foreign key" not in str(error):
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
    *,
    is_narrow: bool = False,
) -> pa.Table:
    """`change_rows` in the transaction of the cursor.

    rule: inserts and key.
    is_narrow: whether an update writes only the columns of which a value changes: DuckDB replaces
        a row whose key or list is written, which other rows may not refer to.
    """
    returned = rows.slice(0, 0).select(range(2, rows.num_columns))
    for action in (_DELETED, _UPDATED, _INSERTED):
        chosen = rows.filter(pc.equal(rows.column(0), action))
        if not chosen.num_rows:
            continue
        if action == _INSERTED:
            returned = _insert(cursor, table, chosen, columns, rule)
        else:
            _change(cursor, table, chosen, columns, (action, is_narrow))
    return returned


def _change(
    cursor: DuckDBPyConnection,
    table: ChangedTable,
    rows: pa.Table,
    columns: tuple[int, ...],
    how: tuple[int, bool],
) -> None:
    """Deletes or updates rows. `how`: the action, and `is_narrow`."""
    action, is_narrow = how
    mode = WriteMode.DELETE if action == _DELETED else WriteMode.UPDATE
    changed = columns if mode is WriteMode.UPDATE else ()
    chosen = rows.select(range(1, 2 + len(changed)))
    cursor.register(_ROWS, _numbered(chosen))
    if is_narrow and changed:
        kept = _differing(cursor, table, changed)
        cursor.unregister(_ROWS)
        if not kept:
            return
        changed = tuple(changed[n] for n in kept)
        cursor.register(_ROWS, _numbered(chosen.select([0, *(n + 1 for n in kept)])))
    cursor.execute(change_statement(table, SinkRequest(mode, (table.row_id, *changed)), _ROWS))
    cursor.unregister(_ROWS)


def _differing(
    cursor: DuckDBPyConnection, table: ChangedTable, columns: tuple[int, ...]
) -> list[int]:
    """The positions in `columns` of the ones of which a registered row has another value than the
    row of the table."""
    target = table.location.qualified
    differ = ", ".join(
        f"bool_or({target}.{quoted(table.duck_columns[i].name)} IS DISTINCT FROM "
        f"{written_value(table.duck_columns[i], n)})"
        for n, i in enumerate(columns, 1)
    )
    ((*found,),) = cursor.execute(
        f"SELECT {differ} FROM {target} JOIN {_ROWS} AS s ON {target}.{ROW_ID} = s.c0"
    ).fetchall()
    return [n for n, differs in enumerate(found) if differs]


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
