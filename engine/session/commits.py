"""COMMIT of a transaction that has changed the catalog, and its recovery.

The rows and the tables are in DuckDB, and the catalog is in a file. Both change as one:

    1. the new catalog is written to `catalog.next`, with the number of the transaction
    2. DuckDB commits the transaction, with that number in a table of its own
    3. `catalog.next` is renamed to `catalog.json`

After a crash between 1 and 2, DuckDB does not have the number: `catalog.next` is removed. After one
between 2 and 3, DuckDB has it: the rename is made up for when the directory is opened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from runnel.catalog import CatalogObject, Snapshot
from runnel.catalog import Mapping as TableMapping
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.storage.write_gate import durable_writes

if TYPE_CHECKING:
    from runnel.connectors.duckdb.transactions import DuckDBTransaction
    from runnel.session.directory import Directory
    from runnel.session.pending_catalog import CatalogChanges

_SCHEMA = "runnel_commits"
_TABLE = f"{_SCHEMA}.last_commit"


def commit(database: Any, changes: CatalogChanges, duckdb: DuckDBTransaction) -> None:
    """Commits the transaction, and changes the catalog. Called under the lock of the catalog. If it
    raises, nothing was changed."""
    snapshot = changes.applied(database.catalog.snapshot)
    directory = database.directory
    own = database.own_tables.alias
    if directory is None or duckdb.written_database not in (None, own):
        # In memory; or the tables are in another file, which has their definitions itself.
        duckdb.commit()
        if directory is not None:
            _save(directory, snapshot, None)
    else:
        with durable_writes:
            number = uuid4().hex
            try:
                _write_number(duckdb, own, number)
                _save(directory, snapshot, number)
            except BaseException:
                duckdb.roll_back()
                raise
            try:
                duckdb.commit()
            except BaseException:
                directory.forget_next()
                raise
            directory.publish_next()
    for name, item in changes.objects.items():
        if item is None:
            database.catalog.remove(name)
        else:
            database.catalog.put(_opened(database, item))
    database.catalog.put_definitions(snapshot.definitions)


def recover(database: Any, directory: Directory) -> None:
    """Finishes, or undoes, a commit that a crash has interrupted."""
    number = directory.next_number()
    if number is None:
        return
    alias = database.own_tables.alias
    with database.kernel().cursor() as cursor:
        known = cursor.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE '\"' || database_name || '\"' = ? "
            "AND schema_name = ?",
            [alias, _SCHEMA],
        ).fetchone()
        numbers = []
        if known is not None and known[0]:
            numbers = cursor.execute(f"SELECT number FROM {alias}.{_TABLE}").fetchall()
    if (number,) in numbers:
        directory.publish_next()
    else:
        directory.forget_next()


def _write_number(duckdb: DuckDBTransaction, own: str, number: str) -> None:
    """Adds the number of the transaction to it."""

    def work(cursor: Any) -> None:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {own}.{_SCHEMA}").fetchall()
        cursor.execute(f"CREATE OR REPLACE TABLE {own}.{_TABLE} (number VARCHAR)").fetchall()
        cursor.execute(f"INSERT INTO {own}.{_TABLE} VALUES (?)", [number]).fetchall()

    duckdb.run(work)


def _save(directory: Directory, snapshot: Snapshot, number: str | None) -> None:
    directory.save(
        snapshot.objects.values(),
        snapshot.indexes.values(),
        snapshot.connections.values(),
        snapshot.definitions.values(),
        transaction=number,
    )


def _opened(database: Any, item: CatalogObject) -> CatalogObject:
    if not isinstance(item, TableMapping) or not isinstance(item.table, DuckDBTable):
        return item
    assert item.definition is not None
    own = database.tables_of(item.schema, is_temporary=item.definition.is_temporary)
    columns = tuple(ColumnDefinition(c.name, c.type) for c in item.table.columns if not c.hidden)
    definition = MappingDefinition(
        item.name, columns, {}, item.external_name, table=item.definition, schema=item.schema
    )
    return replace(item, table=own.open(definition))
