"""TYPE Nexmark: the events of the NEXMark benchmark as a table, computed as they are read.

    CREATE MAPPING bids TYPE Nexmark OPTIONS ('table' = 'bid', 'events' = '1000000')

The events are numbered from 0, over all tables together: of a million events 920,000 are bids.
Without 'events' the table is an unbounded stream. `nexmark/events.py` defines the events,
`nexmark/source.py` their order and rate.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from runnel.catalog import EventTime, Table, TableColumn
from runnel.connector import (
    ColumnDefinition,
    Connector,
    MappingDefinition,
    ReadableTable,
    ScanRequest,
    Source,
)
from runnel.connectors.nexmark.events import COLUMNS, IN_TURN, OFFSETS, EventTiming
from runnel.connectors.nexmark.source import EventSchedule, NexmarkSource
from runnel.connectors.options import Option, OptionSet, boolean, choice, integer
from runnel.errors import NotSupportedError, ProgrammingError, suggest

_EPOCH = datetime(1970, 1, 1)


def _timestamp(name: str, default: str) -> Option[int]:
    """An option with a timestamp, in µs since 1970."""

    def parse(value: str) -> int:
        moment = datetime.fromisoformat(value.strip())
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return (moment - _EPOCH) // timedelta(microseconds=1)

    return Option(name, parse, "a timestamp such as '2015-07-15 00:00:00'", parse(default))


MOST = 10**12
"""The maximum number of events; times and ids stay far from the limits of BIGINT."""

TABLE = choice("table", tuple(OFFSETS), required=True)
EVENTS = integer("events", most=MOST)
RATE = integer("rate", least=1, most=10**9)
SEED = integer("seed", 1)
JITTER = integer("jitterMillis", 0, most=3_600_000)
PARTITIONS = integer("partitions", 1, least=1, most=256)
EVENT_RATE = integer("eventRate", 10_000, least=1, most=10**9)
START_TIME = _timestamp("startTime", "2015-07-15 00:00:00")
STREAM = boolean("stream", False)

OPTIONS = OptionSet(
    "Nexmark", TABLE, EVENTS, RATE, SEED, JITTER, PARTITIONS, EVENT_RATE, START_TIME, STREAM
)


class NexmarkConnector(Connector):
    """NEXMark events."""

    name = "Nexmark"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        if definition.external_name is not None:
            raise ProgrammingError(
                "a Nexmark mapping has no external name",
                hint="choose the table by OPTIONS ('table' = 'bid'), auction, person or event",
            )
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector Nexmark has no object type "{definition.object_type}"'
            )
        options = OPTIONS.read(definition.options)
        event_rate = options.require(EVENT_RATE)
        plan = EventSchedule(
            table=options.require(TABLE),
            events=options.get(EVENTS),
            rate=options.get(RATE),
            seed=options.require(SEED),
            jitter=options.require(JITTER) * event_rate // 1000,
            partitions=options.require(PARTITIONS),
            timing=EventTiming(options.require(START_TIME), event_rate),
        )
        return NexmarkTable(
            definition, plan, lag=options.require(JITTER) * 1000, is_stream=options.require(STREAM)
        )


class NexmarkTable(ReadableTable):
    """The events of one table.

    Their event time needs no WATERMARK FOR, since the jitter bounds the lateness of events.
    """

    connector = "Nexmark"

    def __init__(
        self, definition: MappingDefinition, plan: EventSchedule, *, lag: int, is_stream: bool
    ) -> None:
        self.name = definition.name
        self.columns = (
            _declared(definition.columns, plan.table) if definition.columns else COLUMNS[plan.table]
        )
        self._plan = plan
        self._is_stream = is_stream
        names = [column.external_name or column.name for column in self.columns]
        if "date_time" in names:
            self.event_time = EventTime(names.index("date_time"), lag)

    @property
    def is_unbounded(self) -> bool:
        return self._is_stream or self._plan.events is None

    @property
    def can_end(self) -> bool:
        return self._plan.events is not None

    def row_count(self) -> int | None:
        events = self._plan.events
        if events is None:
            return None
        first, after = OFFSETS[self._plan.table]
        rounds, rest = divmod(events, IN_TURN)
        return rounds * (after - first) + min(max(rest - first, 0), after - first)

    def scan(self, request: ScanRequest) -> Source:
        chosen = [self.columns[i] for i in request.columns]
        return NexmarkSource(
            self._plan,
            tuple(item.external_name or item.name for item in chosen),
            tuple(item.name for item in chosen),
        )


def _declared(declared: tuple[ColumnDefinition, ...], table: str) -> tuple[TableColumn, ...]:
    """The columns that CREATE MAPPING declares: some of the table's, possibly under other names."""
    known = {item.name.lower(): item for item in COLUMNS[table]}
    found = []
    for column in declared:
        external = column.external_name or column.name
        own = known.get(external.lower())
        if own is None:
            names = [item.name for item in COLUMNS[table]]
            raise ProgrammingError(
                f'NEXMark\'s table "{table}" has no column "{external}"',
                hint=suggest(external, names, "its columns are " + ", ".join(names)),
            )
        if own.type != column.type:
            raise ProgrammingError(
                f'column "{external}" of NEXMark\'s table "{table}" is of type {own.type}, '
                f"not {column.type}",
                hint=f"declare {column.name} {own.type}, or leave the columns out",
            )
        found.append(
            TableColumn(column.name, own.type, None if column.name == own.name else own.name)
        )
    return tuple(found)
