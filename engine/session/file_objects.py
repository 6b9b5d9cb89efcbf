"""The tables and views of DuckDB files, as objects of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.base.schemas import CATALOG_KIND, SCHEMA_KIND
from runnel.catalog import Index, Mapping, NamedText
from runnel.connectors.duckdb.connector import DuckDBConnector
from runnel.connectors.duckdb.file_tables import (
    definitions_in_schema,
    indexes_in_schema,
    open_file,
    sequences_in_file,
)
from runnel.session.table_options import open_definition

if TYPE_CHECKING:
    from runnel.connector import MappingDefinition
    from runnel.connectors.registry import ConnectorRegistry


def open_objects(
    registry: ConnectorRegistry, file: Path
) -> tuple[Iterator[Mapping], list[Index], dict[tuple[str, str], NamedText]]:
    """The tables and views of the file that a connection is opened to; its indexes; and its
    schemas, its sequences and its name as definitions."""
    connector = registry.get("DuckDB")
    assert isinstance(connector, DuckDBConnector)
    keys = open_file(connector, file)
    texts = [NamedText(SCHEMA_KIND, key, "") for key in keys if key]
    texts.append(NamedText(CATALOG_KIND, file.name.partition(".")[0], ""))
    objects = (
        opened(connector, definition)
        for key in keys
        for definition in definitions_in_schema(connector.tables_of(key))
    )
    indexes = [index for key in keys for index in indexes_in_schema(connector.tables_of(key))]
    return objects, indexes, {**sequences_in_file(connector), **{item.key: item for item in texts}}


def opened(
    connector: DuckDBConnector, definition: MappingDefinition, *, is_temporary: bool = False
) -> Mapping:
    """A table or view. One that cannot be opened raises the reason when it is used."""
    return Mapping(
        definition.name,
        connector.name,
        open_definition(connector, definition),
        dict(definition.options),
        definition.external_name,
        definition=definition.table,
        schema=definition.schema,
        is_temporary=is_temporary,
    )
