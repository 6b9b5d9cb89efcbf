"""TYPE Delta: local Delta Lake tables, which can be read, followed as a stream, and appended to."""

from __future__ import annotations

import re

from runnel.access import Access
from runnel.base.passwords import without_password
from runnel.catalog import Table
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.storage import is_remote, local
from runnel.connectors.lake.delta.log import calling, delta, is_table, load, schema_of, version_at
from runnel.connectors.lake.delta.table import DeltaTable, FollowedDeltaTable
from runnel.connectors.lake.options import (
    CREATE,
    FOLLOW,
    ON_CHANGE,
    PARTITION_BY,
    POLL_MILLIS,
    LakeSchema,
    check_storable,
    instant,
    is_followed,
    names_in,
    new_columns,
)
from runnel.connectors.options import Options, OptionSet, integer, text
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.sqltypes import INTERVAL_KINDS, Kind, to_arrow

PATH = text("path", required=True)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
VERSION = integer("version")
TIMESTAMP = instant("timestamp")
OPTIONS = OptionSet(
    "Delta", PATH, VERSION, TIMESTAMP, FOLLOW, POLL_MILLIS, ON_CHANGE, CREATE, PARTITION_BY
)


class DeltaConnector(Connector):
    """Tables that the library deltalake supports."""

    name = "Delta"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        if definition.external_name is not None:
            raise ProgrammingError(
                "a Delta mapping has no external name",
                hint="name the table in OPTIONS ('path' = '…')",
            )
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector Delta has no object type "{definition.object_type}"'
            )
        options = OPTIONS.read(definition.options)
        path = _path(options, definition.access)
        delta()
        if options.require(CREATE) and not is_table(path):
            _create(path, definition, names_in(options, PARTITION_BY))
        table = load(path)
        version = _version(options, table, path)
        if version is not None:
            table = load(path, version)
        schema = LakeSchema(schema_of(table), f'the Delta table "{path}"')
        columns = schema.columns(definition.columns)
        _check_partitions(options, table.metadata().partition_columns, path)
        if is_followed(options):
            followed = FollowedDeltaTable(definition.name, path, columns, schema, version)
            followed.poll_millis = options.require(POLL_MILLIS)
            followed.on_change = options.require(ON_CHANGE)
            return followed
        return DeltaTable(definition.name, path, columns, schema, version)


def _path(options: Options, access: Access | None) -> str:
    given = options.require(PATH)
    if is_remote(given):
        raise NotSupportedError(
            f'a Delta table at "{without_password(given)}" can\'t be read: only tables of the '
            "local file system can",
            hint="read it through Spark: TYPE Spark OPTIONS ('format' = 'delta', …)",
        )
    found = file_path(given, None, ignore_missing=True, access=access).text
    if _ENCODED.search(found) is not None:
        # The library decodes it, and would open another folder.
        raise NotSupportedError(
            f'a Delta table can\'t be in "{found}": '
            "deltalake decodes % and two digits as another character",
            hint="give the folder another name",
        )
    return found


def _version(options: Options, table: object, path: str) -> int | None:

    version, stamp = options.get(VERSION), options.get(TIMESTAMP)
    if version is not None and stamp is not None:
        raise ProgrammingError(
            'options "version" and "timestamp" of connector Delta exclude each other',
            hint="leave one of them out",
        )
    return version_at(table, path, stamp) if stamp is not None else version


def _check_partitions(options: Options, columns: list[str], path: str) -> None:
    requested = names_in(options, PARTITION_BY)
    if requested and [name.lower() for name in requested] != [name.lower() for name in columns]:
        raise ProgrammingError(
            f'the Delta table "{path}" is partitioned by {", ".join(columns) or "nothing"}, not by '
            f"{', '.join(requested)}",
            hint='correct the option "partitionBy", or leave it out',
        )


def _create(path: str, definition: MappingDefinition, partition_by: tuple[str, ...]) -> None:
    """Creates a table without rows, with the declared columns."""
    import pyarrow as pa

    columns = new_columns(definition, partition_by, f'the Delta table "{path}"')
    if len(set(partition_by)) == len(columns):
        raise NotSupportedError(
            f'the Delta table "{path}" can\'t be created: all its columns are partition '
            "columns, and its files would have none",
            hint='leave one of them out of the option "partitionBy"',
        )
    check_storable(columns, (Kind.TIME, *INTERVAL_KINDS, Kind.NULL), "Delta tables")
    fields = [pa.field(name, to_arrow(kind)) for name, kind in columns]
    with calling(f'the Delta table "{path}" can\'t be created'):
        delta().DeltaTable.create(local(path), pa.schema(fields), partition_by=list(partition_by))
