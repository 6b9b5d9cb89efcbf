"""TYPE Iceberg: Iceberg tables of a catalog, or by their metadata alone, which can be read,
followed as a stream, and appended to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.lake.iceberg.catalog import Catalogs, IcebergLocation, calling, iceberg
from runnel.connectors.lake.iceberg.table import FollowedIcebergTable, IcebergTable
from runnel.connectors.lake.options import (
    CREATE,
    FOLLOW,
    ON_CHANGE,
    PARTITION_BY,
    POLL_MILLIS,
    check_storable,
    instant,
    is_followed,
    names_in,
    new_columns,
)
from runnel.connectors.options import Option, Options, OptionSet, text
from runnel.errors import NotSupportedError, OperationalError, ProgrammingError, suggest
from runnel.sqltypes import INTERVAL_KINDS, Kind, SqlType, to_arrow


def _snapshot_number(value: str) -> int:
    """Like `integer`, but up to the largest number of 64 bits."""
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 2**63:
        raise ValueError(value)
    return int(value)


TABLE = text("table")
PATH = text("path")
URI = text("uri")
WAREHOUSE = text("warehouse")
CATALOG = text("catalog", "default")
SNAPSHOT = Option("snapshot", _snapshot_number, "the number of a snapshot")
TIMESTAMP = instant("timestamp")
REF = text("ref")
OPTIONS = OptionSet(
    "Iceberg",
    *(
        TABLE,
        PATH,
        URI,
        WAREHOUSE,
        CATALOG,
        SNAPSHOT,
        TIMESTAMP,
        REF,
        FOLLOW,
        POLL_MILLIS,
        ON_CHANGE,
        CREATE,
        PARTITION_BY,
    ),
)
PROPERTY = "catalog."
"""The prefix of options for the catalog."""


class IcebergConnector(Connector):
    """Tables that the library pyiceberg supports."""

    name = "Iceberg"

    def __init__(self) -> None:
        self._catalogs = Catalogs()

    def open(self, definition: MappingDefinition) -> Table:
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector Iceberg has no object type "{definition.object_type}"'
            )
        own = {
            name: value
            for name, value in definition.options.items()
            if not name.lower().startswith(PROPERTY)
        }
        options = OPTIONS.read(own)
        location = _location(definition, options)
        iceberg()
        if options.require(CREATE):
            _create(self._catalogs, location, definition, names_in(options, PARTITION_BY))
        elif options.is_set(PARTITION_BY):
            raise ProgrammingError(
                'option "partitionBy" is for tables that are created',
                hint="add 'create' = 'true', or leave it out",
            )
        table = self._catalogs.load(location)
        snapshot = _snapshot(options, table, location)
        if is_followed(options):
            followed = FollowedIcebergTable(
                definition.name, location, self._catalogs, definition.columns, (table, snapshot)
            )
            followed.poll_millis = options.require(POLL_MILLIS)
            followed.on_change = options.require(ON_CHANGE)
            return followed
        return IcebergTable(
            definition.name, location, self._catalogs, definition.columns, (table, snapshot)
        )

    def close(self) -> None:
        self._catalogs.close()


def _location(definition: MappingDefinition, options: Options) -> IcebergLocation:
    path, table = options.get(PATH), options.get(TABLE) or definition.external_name
    if (path is None) == (table is None):
        raise ProgrammingError(
            "an Iceberg mapping names a table of a catalog or the path of one, and not both",
            hint=(
                "OPTIONS ('table' = 'space.name', 'uri' = 'sqlite:///…', 'warehouse' = '…') or "
                "OPTIONS ('path' = '…')"
            ),
        )
    if path is not None:
        for option in (URI, WAREHOUSE, CATALOG):
            if options.is_set(option):
                raise ProgrammingError(
                    f'option "{option.name}" is for tables of a catalog',
                    hint="leave it or the path out",
                )
        return IcebergLocation("", path=path)
    assert table is not None
    if "\0" in table or not all(table.split(".")):
        raise ProgrammingError(
            f"wrong name {table!r} of an Iceberg table", hint="it is one such as space.name"
        )
    if "." not in table:
        table = "default." + table
    return IcebergLocation(
        table,
        options.require(CATALOG),
        tuple(sorted(_properties(definition.options, options).items())),
    )


def _properties(options_by_name: Mapping[str, str], options: Options) -> dict[str, str]:
    """The properties of the catalog; by default a catalog that SQLite stores in the warehouse's
    folder."""
    found = {
        name[len(PROPERTY) :]: value
        for name, value in options_by_name.items()
        if name.lower().startswith(PROPERTY)
    }
    warehouse, uri = options.get(WAREHOUSE), options.get(URI)
    if warehouse is not None:
        if "://" not in warehouse:
            folder = Path(warehouse).expanduser().absolute()
            if uri is None and "uri" not in found and "type" not in found:
                if options.require(CREATE):
                    with calling(f'folder "{folder}" can\'t be created'):
                        folder.mkdir(parents=True, exist_ok=True)
                odd = next((mark for mark in "%?#" if mark in str(folder)), None)
                if odd is not None:
                    raise NotSupportedError(
                        f'an Iceberg catalog can\'t be in folder "{folder}": {odd} has a special '
                        "meaning in the URL of its database",
                        hint="give the folder another name, or the option uri",
                    )
                uri = f"sqlite:///{folder}/catalog.db"
                if not folder.is_dir():
                    raise OperationalError(
                        f'folder "{folder}" not found', hint="correct the option warehouse"
                    )
            warehouse = f"file://{folder}"
        found["warehouse"] = warehouse
    if uri is not None:
        found["uri"] = uri
    return found


def _snapshot(options: Options, table: Any, location: IcebergLocation) -> int | None:
    """The snapshot that the options name; None if they name none."""
    names = [option.name for option in (SNAPSHOT, TIMESTAMP, REF) if options.is_set(option)]
    if len(names) > 1:
        raise ProgrammingError(
            f"options {' and '.join(names)} of connector Iceberg exclude each other",
            hint="leave all but one of them out",
        )
    number, stamp, ref = options.get(SNAPSHOT), options.get(TIMESTAMP), options.get(REF)
    if number is not None and table.snapshot_by_id(number) is None:
        known = [str(item.snapshot_id) for item in table.snapshots()]
        raise OperationalError(
            f"{location.what} has no snapshot {number}",
            hint="it has " + (", ".join(known[-5:]) or "none"),
        )
    if ref is not None:
        found = table.snapshot_by_name(ref)
        if found is None:
            raise OperationalError(
                f'{location.what} has no branch or tag "{ref}"',
                hint=suggest(ref, list(table.metadata.refs), "it has none"),
            )
        return int(found.snapshot_id)
    return number if stamp is None else _snapshot_at(table, location, stamp)


def _snapshot_at(table: Any, location: IcebergLocation, stamp: datetime) -> int:
    found = table.snapshot_as_of_timestamp(round(stamp.timestamp() * 1000))
    if found is None:
        raise OperationalError(
            f"{location.what} has no snapshot of {stamp.isoformat(sep=' ')}",
            hint="its history begins later",
        )
    return int(found.snapshot_id)


def _create(
    catalogs: Catalogs,
    location: IcebergLocation,
    definition: MappingDefinition,
    partition_by: tuple[str, ...],
) -> None:
    """Creates a table without rows, with the declared columns, unless it exists."""
    if location.is_static:
        raise ProgrammingError(
            "a new Iceberg table needs a catalog",
            hint="OPTIONS ('table' = 'space.name', 'warehouse' = '…')",
        )
    catalog = catalogs.get(location)
    with calling(f"{location.what} can't be looked for"):
        if catalog.table_exists(location.identifier):
            _check_partitions(catalog.load_table(location.identifier), location, partition_by)
            return
    columns = new_columns(definition, partition_by, location.what)
    check_storable(columns, (*INTERVAL_KINDS, Kind.NULL), "Iceberg tables")
    fields = [pa.field(name, to_arrow(_stored(kind))) for name, kind in columns]
    with calling(f"{location.what} can't be created"):
        catalog.create_namespace_if_not_exists(location.identifier.rpartition(".")[0])
        if not partition_by:
            catalog.create_table_if_not_exists(location.identifier, pa.schema(fields))
            return
        # In one change: a table that is not partitioned yet would be mistaken for a complete one.
        with (
            catalog.create_table_transaction(location.identifier, pa.schema(fields)) as change,
            change.update_spec() as spec,
        ):
            for name in partition_by:
                spec.add_identity(name)


def _check_partitions(table: Any, location: IcebergLocation, requested: tuple[str, ...]) -> None:
    schema = table.schema()
    found = [
        (schema.find_column_name(field.source_id), str(field.transform))
        for field in table.spec().fields
    ]
    if requested and [name.lower() for name in requested] != [
        str(name).lower() for name, how in found if how == "identity"
    ]:
        names = (
            ", ".join(f"{name}" if how == "identity" else f"{how}({name})" for name, how in found)
            or "nothing"
        )
        raise ProgrammingError(
            f"{location.what} is partitioned by {names}, not by {', '.join(requested)}",
            hint='correct the option "partitionBy", or leave it out',
        )


def _stored(kind: SqlType) -> SqlType:
    """The type with which Iceberg stores a type: small integers as INTEGER."""
    return SqlType(Kind.INTEGER) if kind.kind in (Kind.TINYINT, Kind.SMALLINT) else kind
