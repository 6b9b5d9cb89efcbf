"""TYPE IMap: maps in memory, or on disk in a durable connection.

A map has an external name (by default the mapping's name; case does not matter) and belongs to the
connection. It outlives the mappings over it: dropping a mapping does not remove rows, and another
mapping with the same external name sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

from runnel.base.clock import SYSTEM_CLOCK
from runnel.catalog import Table
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.imap.columns import JOURNAL_CAPACITY, OPTIONS, resolve_columns
from runnel.connectors.imap.storage.durable import DurableMap, open_durable
from runnel.connectors.imap.storage.staging import MapStaging
from runnel.connectors.imap.storage.store import MapStore
from runnel.connectors.imap.table import MapTable
from runnel.errors import ProgrammingError

RESERVED = ("__jet.", "__sql.")


class MapConnector(Connector):
    """The maps of one connection.

    `directory` is the directory of a durable connection, which has the maps in its folder "maps";
    None for a connection in memory.
    """

    name = "IMap"
    keeps_bounds = True

    def __init__(
        self, directory: Path | None = None, wall: Callable[[], int] = SYSTEM_CLOCK.wall
    ) -> None:
        self._wall = wall
        self._directory = None if directory is None else directory / "maps"
        self._lock = Lock()
        self._maps: dict[str, MapStaging] = {}
        self._durable: list[DurableMap] = []

    def open(self, definition: MappingDefinition) -> Table:
        external = definition.external_name or definition.name
        if external.startswith(RESERVED):
            raise ProgrammingError(
                f'map "{external}" is reserved', hint="give the map another name"
            )
        if definition.object_type is not None:
            raise ProgrammingError(
                "connector IMap has no object types", hint="leave OBJECT TYPE out"
            )
        columns, layout = resolve_columns(definition)
        table = MapTable(definition.name, columns, layout, self._map(external))
        capacity = OPTIONS.read(definition.options).get(JOURNAL_CAPACITY)
        if capacity is not None:
            table.keep_journal(capacity)
        return table

    def _map(self, external: str) -> MapStaging:
        with self._lock:
            known = self._maps.get(external.lower())
            if known is None:
                known = MapStaging(MapStore(external, self._wall))
                if self._directory is not None:
                    self._durable.append(open_durable(known, self._directory))
                self._maps[external.lower()] = known
            return known

    def close(self) -> None:
        with self._lock:
            durable, self._durable = self._durable, []
            maps, self._maps = self._maps, {}
        try:
            for item in durable:
                item.close()
        finally:
            for staging in maps.values():
                staging.clear()
                staging.store.release()
