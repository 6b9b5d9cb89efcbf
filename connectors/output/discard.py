"""TYPE Discard: a sink that drops the rows. The metrics of the job count them.

CREATE MAPPING nowhere (id BIGINT, name VARCHAR) TYPE Discard
"""

from __future__ import annotations

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import (
    Connector,
    MappingDefinition,
    Sink,
    SinkRequest,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.options import OptionSet
from runnel.connectors.output.definitions import declared_columns
from runnel.processor import Guarantee

OPTIONS = OptionSet("Discard")


class DiscardConnector(Connector):
    """Sinks that drop their rows."""

    name = "Discard"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        OPTIONS.read(definition.options)
        return DiscardTable(definition)


class DiscardTable(WritableTable):
    """A table that is only written, and stays empty."""

    connector = "Discard"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: MappingDefinition) -> None:
        self.name = definition.name
        self.columns = declared_columns(definition, self.connector)

    def row_count(self) -> int | None:
        return 0

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset((WriteMode.INSERT, WriteMode.SINK, WriteMode.CHANGES))

    def sink(self, request: SinkRequest) -> Sink:
        return DiscardSink()


class DiscardSink(Sink):
    """Accepts all rows. The vertex that calls it counts them."""

    cooperative = True

    def write(self, batch: pa.RecordBatch) -> None:
        pass

    def stage(self, epoch: int) -> Token:
        return {}

    def commit(self, token: Token) -> None:
        pass

    def abort(self, token: Token | None) -> None:
        pass
