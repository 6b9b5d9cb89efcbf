"""The table of a saved mapping that can't be opened now, e.g. because its file is gone. It keeps
the mapping's columns, so that views over it still bind, and says why it can't be read when it
is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot, Table, TableColumn
from runnel.connector import MappingDefinition, ReadableTable, ScanRequest, Source
from runnel.connectors.registry import ConnectorRegistry
from runnel.errors import Error, ErrorCode, OperationalError
from runnel.session.directory import SavedMapping
from runnel.session.table_options import merged, open_table

if TYPE_CHECKING:
    from runnel.access import Access


class BrokenTable(ReadableTable):
    """Stands in for a table that its connector refused to open."""

    def __init__(self, connector: str, definition: MappingDefinition, reason: Error) -> None:
        self.name = definition.name
        self.connector = connector
        self.columns = tuple(
            TableColumn(c.name, c.type, c.external_name) for c in definition.columns
        )
        self._reason = reason

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        # Bounds don't change while the connection is open; any other cause may pass.
        is_refused = self._reason.code is ErrorCode.NOT_ALLOWED
        raise OperationalError(
            f'mapping "{self.name}" can\'t be used: it could not be opened with the connection',
            code=ErrorCode.NOT_ALLOWED if is_refused else ErrorCode.CONNECTION_PROBLEM,
            detail=str(self._reason),
            hint="mend the cause and connect again, or replace the mapping",
        ) from self._reason


def open_or_explain(
    registry: ConnectorRegistry, snapshot: Snapshot, saved: SavedMapping, access: Access | None
) -> Table:
    """The table of a saved mapping, or one that says why there is none. `access`: the bounds of
    what is opened."""
    definition = saved.definition if access is None else replace(saved.definition, access=access)
    try:
        if saved.data_connection is not None:
            definition = merged(snapshot.get_connection(saved.data_connection), definition)
        return open_table(registry.get(saved.connector), definition)
    except Error as error:
        return BrokenTable(saved.connector, definition, error)
