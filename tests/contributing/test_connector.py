"""The example of docs/contributing.md: a connector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from runnel.catalog import TableColumn
from runnel.connector import Connector, MappingDefinition, ReadableTable, ScanRequest
from runnel.connectors.iterators import IteratorSource, batches_of_rows
from runnel.connectors.options import OptionSet, integer
from runnel.sqltypes import BIGINT, VARCHAR

START = integer("start", required=True, least=0)
OPTIONS = OptionSet("Countdown", START)


class CountdownConnector(Connector):
    """`TYPE Countdown OPTIONS ('start' = '3')`: the numbers from 3 down to 0."""

    name = "Countdown"

    def open(self, definition: MappingDefinition) -> CountdownTable:
        start = OPTIONS.read(definition.options).require(START)
        return CountdownTable(definition.name, start)


class CountdownTable(ReadableTable):
    connector = "Countdown"
    columns = (TableColumn("n", BIGINT), TableColumn("text", VARCHAR))

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start = name, start

    def row_count(self) -> int:
        return self.start + 1

    def scan(self, request: ScanRequest) -> IteratorSource:
        """Only the requested columns; the predicate is advice, and left to the operators above."""
        columns = [self.columns[index] for index in request.columns]

        def rows() -> Iterator[tuple[Any, ...]]:
            for n in range(self.start, -1, -1):
                row = (n, f"{n} to go")
                yield tuple(row[index] for index in request.columns)

        return IteratorSource(lambda context: batches_of_rows(rows(), columns))


def test_countdown() -> None:
    with runnel.connect() as connection:
        connection.add_connector(CountdownConnector())
        connection.execute("CREATE MAPPING c TYPE Countdown OPTIONS ('start' = '3')")
        assert connection.execute("SELECT text FROM c WHERE n < 2").fetchall() == [
            ("1 to go",),
            ("0 to go",),
        ]
        with pytest.raises(runnel.ProgrammingError, match="start"):
            connection.execute("CREATE MAPPING d TYPE Countdown OPTIONS ('start' = '-1')")
