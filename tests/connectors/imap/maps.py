"""What the tests of maps share: mappings opened in one line."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runnel.connector import ColumnDefinition, MappingDefinition, SinkRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.table import MapTable
from runnel.sqltypes import SqlType
from tests.connectors.conformance import batch_of


def open_map(
    connector: MapConnector,
    *columns: tuple[str, SqlType] | tuple[str, SqlType, str],
    name: str = "m",
    key: str = "bigint",
    value: str | None = "bigint",
    external: str | None = None,
) -> MapTable:
    """CREATE MAPPING name (columns) TYPE IMap OPTIONS (key and value format)."""
    declared = tuple(
        ColumnDefinition(item[0], item[1], item[2] if len(item) > 2 else None) for item in columns
    )
    options = {"keyFormat": key} | ({} if value is None else {"valueFormat": value})
    table = connector.open(MappingDefinition(name, declared, options, external))
    assert isinstance(table, MapTable)
    return table


def write(
    table: MapTable,
    mode: WriteMode,
    rows: Sequence[tuple[Any, ...]],
    columns: Sequence[int] | None = None,
) -> None:
    """Runs a sink over rows, as a light job does."""
    chosen = tuple(range(len(table.columns))) if columns is None else tuple(columns)
    sink = table.sink(SinkRequest(mode, chosen))
    try:
        if rows:
            sink.write(
                batch_of([(table.columns[i].name, table.columns[i].type) for i in chosen], rows)
            )
        sink.commit(sink.stage(0))
    finally:
        sink.close()


def allocated() -> int:
    """The bytes that Arrow holds, without those of garbage that other tests left."""
    gc.collect()
    count: int = pa.total_allocated_bytes()
    return count
