"""Opens the tables of mappings, and sets the event time that WATERMARK FOR declares.

'idleTimeoutMillis' is an option of every mapping whose rows have an event time, 'refreshMillis' and
'pollChangesMillis' of every bounded mapping; they are handled here and not passed to the connector.
A saved mapping that cannot be opened now, for example because its file was deleted, becomes a
BrokenTable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import (
    DataConnection,
    EventTime,
    Mapping,
    Snapshot,
    Table,
    TableColumn,
    WatermarkClause,
    readable_columns,
    visible_columns,
)
from runnel.connector import (
    ColumnDefinition,
    Connector,
    MappingDefinition,
    ReadableTable,
    ScanRequest,
    Source,
)
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError, suggest
from runnel.sqltypes import INTERVAL, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping as Items

    from runnel.access import Access
    from runnel.connectors.registry import ConnectorRegistry
    from runnel.session.directory import SavedMapping

IDLE_TIMEOUT = "idleTimeoutMillis"
REFRESH = "refreshMillis"
POLL = "pollChangesMillis"
_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)
_LONGEST = 10**12


def open_table(connector: Connector, definition: MappingDefinition) -> Table:
    """The table of a mapping; ProgrammingError if its WATERMARK FOR does not fit its columns, or if
    the mapping has bounds that the connector does not support."""
    if definition.access is not None and not connector.keeps_bounds:
        raise _unbounded(connector)
    own = {name.lower(): name for name in (IDLE_TIMEOUT, REFRESH, POLL)}
    given = {
        own[name.lower()]: value
        for name, value in definition.options.items()
        if name.lower() in own
    }
    options = {name: value for name, value in definition.options.items() if name.lower() not in own}
    table = connector.open(replace(definition, options=options) if given else definition)
    timeout = _timeout(given[IDLE_TIMEOUT]) if IDLE_TIMEOUT in given else None
    if definition.computed:
        table.computed = definition.computed
    if REFRESH in given:
        reason = "it says how often a table that a stream is joined with is read again"
        table.refresh_millis = _interval(REFRESH, given[REFRESH], table, reason)
    if POLL in given:
        reason = "it says how often a table is read again for EMIT CHANGES"
        millis = _interval(POLL, given[POLL], table, reason)
        assert isinstance(table, ReadableTable)
        table.poll_millis = millis
    if definition.watermark is not None:
        table.event_time = _event_time(definition.watermark, table, timeout)
    elif timeout is not None:
        if table.event_time is None:
            raise ProgrammingError(
                f"option '{IDLE_TIMEOUT}' is for mappings with a watermark",
                hint=(
                    "add WATERMARK FOR column AS column - INTERVAL '5' SECOND to the columns, or "
                    "leave the option out"
                ),
            )
        table.event_time = replace(table.event_time, idle_timeout=timeout)
    return table


def _unbounded(connector: Connector) -> ProgrammingError:
    return ProgrammingError(
        f"a mapping of TYPE {connector.name} can't be kept within bounds",
        code=ErrorCode.NOT_ALLOWED,
        detail="the connector opens files and addresses by itself",
        hint="the owner, without bounds, defines the mapping; then every caller may use it",
    )


def _timeout(text: str) -> int:
    number = _milliseconds(text)
    if number is None:
        raise ProgrammingError(
            f"option '{IDLE_TIMEOUT}' can't be '{text}'",
            hint="it accepts a whole number of milliseconds; with 0 an input is never idle",
        )
    return number


def _interval(option: str, text: str, table: Table, reason: str) -> int:
    """The interval at which a table at rest is read again."""
    if table.is_unbounded or not isinstance(table, ReadableTable):
        raise ProgrammingError(
            f"option '{option}' is for mappings that are read to an end",
            detail=reason,
            hint="leave the option out",
        )
    number = _milliseconds(text)
    if not number:
        raise ProgrammingError(
            f"option '{option}' can't be '{text}'",
            hint=(
                "it accepts a whole number of milliseconds, at least 1; "
                "without it the table is read once"
            ),
        )
    return number


def _milliseconds(text: str) -> int | None:
    number = (
        int(text) if text.strip().isascii() and text.strip().isdecimal() and len(text) < 20 else -1
    )
    return number if 0 <= number <= _LONGEST else None


def _event_time(clause: WatermarkClause, table: Table, timeout: int | None) -> EventTime:
    columns = readable_columns(table)
    found = [i for i, column in enumerate(columns) if column.name.lower() == clause.column.lower()]
    if not found:
        raise ProgrammingError(
            f'column "{clause.column}" of WATERMARK FOR does not exist',
            hint=suggest(clause.column, [column.name for column in visible_columns(table)]),
            position=clause.position,
        )
    time = columns[found[0]].type
    if not time.is_integer and time.kind not in _TEMPORAL:
        raise ProgrammingError(
            f"the watermark column type ({time}) is no event time",
            hint=(
                "it must be an integer, a DATE or a TIMESTAMP; cast it in a view, and use "
                "IMPOSE_ORDER over that"
            ),
            position=clause.position,
        )
    if clause.lag and clause.is_interval is time.is_integer:
        kind = INTERVAL if clause.is_interval else "an integer"
        raise ProgrammingError(
            f"the watermark column type ({time}) and the interval type ({kind}) do not match",
            hint="write ts - 5" if time.is_integer else "write ts - INTERVAL '5' SECOND",
            position=clause.position,
        )
    return EventTime(found[0], clause.lag, timeout)


def merged(connection: DataConnection, definition: MappingDefinition) -> MappingDefinition:
    """A mapping's definition with the options of its data connection."""
    taken = {name.lower(): name for name in connection.options}
    for name in definition.options:
        if name.lower() in taken:
            raise ProgrammingError(
                f'option "{name}" is given by data connection "{connection.name}"',
                hint="leave it out of the mapping",
            )
    options = {**connection.options, **definition.options}
    return replace(definition, options=options, granted=frozenset(taken))


def with_options(
    registry: ConnectorRegistry,
    snapshot: Snapshot,
    mapping: Mapping,
    options: Items[str, str],
    access: Access | None,
) -> Table:
    """The table of a mapping, opened with further options."""
    given = {name.lower() for name in options}
    kept = {name: value for name, value in mapping.options.items() if name.lower() not in given}
    definition = MappingDefinition(
        mapping.name,
        tuple(
            ColumnDefinition(item.name, item.type, item.external_name)
            for item in mapping.table.columns
            if not item.hidden
        ),
        {**kept, **options},
        mapping.external_name,
        mapping.object_type,
        mapping.watermark,
        access,
        computed=mapping.table.computed,
    )
    if mapping.data_connection is not None:
        definition = merged(snapshot.get_connection(mapping.data_connection), definition)
    return open_table(registry.get(mapping.connector), definition)


class BrokenTable(ReadableTable):
    """Stands in for a table that its connector refused to open.

    It has the columns of the mapping, so that views over it can be bound; a scan raises the reason.
    """

    def __init__(self, connector: str, definition: MappingDefinition, reason: Error) -> None:
        self.name = definition.name
        self.connector = connector
        self.columns = tuple(
            TableColumn(c.name, c.type, c.external_name) for c in definition.columns
        )
        self.computed = definition.computed
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


def open_definition(connector: Connector, definition: MappingDefinition) -> Table:
    """The table of a definition, or one that says why there is none."""
    try:
        return open_table(connector, definition)
    except Error as error:
        return BrokenTable(connector.name, definition, error)


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
