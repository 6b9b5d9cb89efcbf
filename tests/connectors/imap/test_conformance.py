"""Maps, in memory and on disk, through the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel.connector import ColumnDefinition, Connector, MappingDefinition
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.table import MapTable
from runnel.sqltypes import BIGINT, VARCHAR
from tests.connectors.conformance import Columns, OptionsConformance, WritingConformance

FIELDS = {"keyFormat": "bigint", "valueFormat": "json-flat"}


def definition_of(name: str, columns: Columns) -> MappingDefinition:
    declared = tuple(
        ColumnDefinition(column, item, "__key" if column == "id" else None)
        for column, item in columns
    )
    return MappingDefinition(name, declared, FIELDS)


class TestMapInMemory(WritingConformance):
    @pytest.fixture(autouse=True)
    def _connector(self) -> Iterator[None]:
        self.connector = MapConnector(None)
        yield
        self.connector.close()

    def empty(self, path: Path, columns: Columns) -> MapTable:
        table = self.connector.open(definition_of("m", columns))
        assert isinstance(table, MapTable)
        return table


class TestMapOnDisk(TestMapInMemory):
    @pytest.fixture(autouse=True)
    def _connector(self, tmp_path: Path) -> Iterator[None]:
        self.connector = MapConnector(tmp_path)
        yield
        self.connector.close()


class TestMapOptions(OptionsConformance):
    known_option = "keyFormat"

    def connector(self, path: Path) -> Connector:
        return MapConnector(path)

    def definition(self, path: Path) -> MappingDefinition:
        return definition_of("m", [("id", BIGINT), ("name", VARCHAR)])
