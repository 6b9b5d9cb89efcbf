"""ATTACH: the tables and views of a DuckDB file under the name of a database.

Each schema of the file is a schema of the catalog, whose key begins with the database's name
(`schemas.py`), and has an `OwnTables`: its tables are created, changed and dropped like the
connection's own. A database `:memory:` is one without a file.
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.base.frozen import frozen
from runnel.base.schemas import DATABASE_KIND, MAIN, MEMORY, SCHEMA_KIND, database_of
from runnel.catalog import Index, NamedText
from runnel.connector import MappingDefinition
from runnel.connectors.duckdb.connector import PATH, READ_ONLY, DuckDBConnector
from runnel.connectors.duckdb.file_tables import (
    definitions_in_schema,
    indexes_in_schema,
    schemas_in,
)
from runnel.connectors.duckdb.own_tables import OwnTables
from runnel.connectors.duckdb.types import quoted
from runnel.duckdb.errors import translated


@frozen
class Attachment:
    """ATTACH of a database.

    name: its name in SQL.
    path: its file, absolute, as the working directory can change; MEMORY: there is none.
    is_read_only: whether it may not be changed.
    """

    name: str
    path: str
    is_read_only: bool = False


def attach(connector: DuckDBConnector, attachment: Attachment) -> None:
    """Opens the database, and its schemas as schemas of the connector; OperationalError if the file
    can't be opened."""
    path, name = attachment.path, attachment.name
    if path == MEMORY:
        alias = connector.own_tables.kernel.attach(MEMORY + name.lower())
    else:
        alias = connector.attach_file(path, is_read_only=attachment.is_read_only)
    for schema in schemas_in(connector, alias):
        connector.schemas[f"{name}.{schema}".lower()] = _tables(
            connector, alias, f"{name}.{schema}", is_read_only=attachment.is_read_only
        )


def definitions(connector: DuckDBConnector, attachment: Attachment) -> Iterator[MappingDefinition]:
    """The tables and views of an attached database."""
    options = {PATH.name: attachment.path, READ_ONLY.name: str(attachment.is_read_only).lower()}
    for key in keys_of(connector, attachment.name):
        yield from definitions_in_schema(connector.schemas[key], options)


def indexes(connector: DuckDBConnector, attachment: Attachment) -> list[Index]:
    """The indexes of an attached database."""
    keys = keys_of(connector, attachment.name)
    return [index for key in keys for index in indexes_in_schema(connector.schemas[key])]


def texts(connector: DuckDBConnector, attachment: Attachment) -> dict[tuple[str, str], NamedText]:
    """The database and its schemas, as definitions of the catalog."""
    database = NamedText(DATABASE_KIND, attachment.name, attachment.path, is_temporary=True)
    keys = keys_of(connector, attachment.name)
    items = [database, *(NamedText(SCHEMA_KIND, key, "", is_temporary=True) for key in keys)]
    return {item.key: item for item in items}


def keys_of(connector: DuckDBConnector, name: str) -> list[str]:
    """The keys of the schemas of a database, in lower case."""
    return [key for key in connector.schemas if database_of(key) == name.lower()]


def create_schema(connector: DuckDBConnector, key: str) -> None:
    """Creates a schema in an attached database, or in the DuckDB file of the connection."""
    database, _, schema = key.rpartition(".")
    first = connector.schemas[f"{database}.{MAIN}"] if database else connector.own_tables
    first.check_writable(f'schema "{key}"', "created")
    _run(first, f"CREATE SCHEMA IF NOT EXISTS {first.alias}.{quoted(schema)}")
    connector.schemas[key] = _tables(connector, first.alias, key, is_read_only=first.is_read_only)


def drop_schema(connector: DuckDBConnector, key: str) -> None:
    """Drops a schema whose tables are dropped, with views that only DuckDB knows."""
    own = connector.schemas.pop(key)
    _run(own, f"DROP SCHEMA IF EXISTS {own.alias}.{quoted(own.schema)} CASCADE")


def detach(connector: DuckDBConnector, attachment: Attachment, *, is_in_use: bool) -> None:
    """Forgets a database, and closes its file unless mappings read it."""
    for key in keys_of(connector, attachment.name):
        del connector.schemas[key]
    if attachment.path == MEMORY:
        connector.own_tables.kernel.detach(MEMORY + attachment.name.lower())
    elif not is_in_use:
        connector.detach_file(attachment.path)


def _tables(connector: DuckDBConnector, alias: str, key: str, *, is_read_only: bool) -> OwnTables:
    kernel = connector.own_tables.kernel
    return OwnTables(lambda: kernel, key=key, alias=alias, is_read_only=is_read_only)


def _run(own: OwnTables, statement: str) -> None:
    with own.kernel.cursor() as cursor:
        try:
            cursor.execute(statement)
        except Exception as error:
            raise translated(error) from error
