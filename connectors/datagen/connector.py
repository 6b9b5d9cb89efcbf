"""TYPE DataGen: a table of generated rows, at a rate.

    CREATE MAPPING orders (id BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts)
    TYPE DataGen OPTIONS ('rowsPerSecond' = '100', 'fields.id.kind' = 'sequence',
                          'fields.id.start' = '1', 'fields.id.end' = '1000')

Without 'numberOfRows' and without a sequence, the table is an unbounded stream.
"""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta

from runnel.catalog import Table
from runnel.connector import (
    Connector,
    MappingDefinition,
    ReadableTable,
    ScanRequest,
    Source,
)
from runnel.connectors.datagen.fields import (
    MOST_ROWS,
    GeneratedField,
    field,
    maker,
    row_limit,
    width,
)
from runnel.connectors.datagen.source import DataGenSource, GenerationSchedule
from runnel.connectors.datagen.values import Maker
from runnel.connectors.options import Option, OptionSet, integer
from runnel.connectors.output.definitions import declared_columns

_EPOCH = datetime(1970, 1, 1)


def _timestamp(value: str) -> int:
    """µs since 1970."""
    moment = datetime.fromisoformat(value.strip())
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


RATE = integer("rowsPerSecond", 10_000, least=1, most=10**9)
ROWS = integer("numberOfRows", most=MOST_ROWS)
SEED = integer("seed", 1)
START_TIME: Option[int] = Option(
    "startTime", _timestamp, "a timestamp such as '2026-01-01 00:00:00'"
)
OPTIONS = OptionSet("DataGen", RATE, ROWS, SEED, START_TIME)
"""The options of the table; `fields` has the ones of its columns."""


class DataGenConnector(Connector):
    """Generated rows."""

    name = "DataGen"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        return DataGenTable(definition)


class DataGenTable(ReadableTable):
    """A table of generated rows."""

    connector = "DataGen"
    _is_stream = False
    _stream: DataGenTable | None = None

    def __init__(self, definition: MappingDefinition) -> None:
        self.name = definition.name
        self.columns = declared_columns(definition, self.connector)
        fields = [field(f"fields.{item.name}", item.type) for item in self.columns]
        known = OptionSet("DataGen", *OPTIONS.options, *_all_options(fields))
        options = known.read(definition.options)
        self._makers: list[Maker] = [maker(item, options) for item in fields]
        limits = [options.get(ROWS), *(row_limit(item, options) for item in fields)]
        self._schedule = GenerationSchedule(
            rows=min((limit for limit in limits if limit is not None), default=None),
            rate=options.require(RATE),
            seed=options.require(SEED),
            start=options.get(START_TIME),
            row_bytes=sum(width(item, options) for item in fields),
        )

    @property
    def is_unbounded(self) -> bool:
        return self._is_stream or self._schedule.rows is None

    @property
    def can_end(self) -> bool:
        return self._schedule.rows is not None

    @property
    def as_stream(self) -> DataGenTable | None:
        if self.is_unbounded or self.event_time is None:
            return None
        if self._stream is None:
            self._stream = copy(self)
            self._stream._is_stream = True
        return self._stream

    def row_count(self) -> int | None:
        return None if self._is_stream else self._schedule.rows

    def scan(self, request: ScanRequest) -> Source:
        columns = [(self.columns[i], self._makers[i]) for i in request.columns]
        return DataGenSource(self._schedule, columns)


def _all_options(fields: list[GeneratedField]) -> list[Option[object]]:
    return [option for item in fields for option in item.all_options()]
