"""DuckDB tables through the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.connector import ColumnDefinition as Definition
from runnel.connector import Connector, MappingDefinition
from runnel.connectors.duckdb.connector import DuckDBConnector
from runnel.connectors.duckdb.sink import STAGED_PREFIX
from runnel.duckdb.kernel import DuckDBKernel
from tests.connectors.conformance import (
    PEOPLE,
    VALUES,
    Columns,
    OptionsConformance,
    WritingConformance,
)


@pytest.fixture
def kernel() -> Iterator[DuckDBKernel]:
    made = DuckDBKernel(2)
    yield made
    made.close()


class DuckDBConformance(WritingConformance):
    types = tuple(VALUES)
    options: dict[str, str]

    @pytest.fixture(autouse=True)
    def _connector(self, kernel: DuckDBKernel) -> None:
        self.made = DuckDBConnector(lambda: kernel)

    def empty(self, path: Path, columns: Columns) -> Any:
        definitions = tuple(Definition(name, item) for name, item in columns)
        return self.made.open(MappingDefinition("t", definitions, self.given(path)))

    def given(self, path: Path) -> dict[str, str]:
        return {}

    def leftovers(self, path: Path, table: Any) -> list[str]:
        with table.location.kernel.cursor() as cursor:
            names = cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return [name for (name,) in names if name.startswith(STAGED_PREFIX)]


class TestOwnTables(DuckDBConformance):
    pass


class TestTablesOfAFile(DuckDBConformance):
    def given(self, path: Path) -> dict[str, str]:
        return {"path": str(path / "rows.duckdb"), "table": "Rows", "create": "true"}


class TestDuckDBOptions(OptionsConformance):
    known_option = "table"

    @pytest.fixture(autouse=True)
    def _kernel(self, kernel: DuckDBKernel) -> None:
        self.kernel = kernel

    def connector(self, path: Path) -> Connector:
        return DuckDBConnector(lambda: self.kernel)

    def definition(self, path: Path) -> MappingDefinition:
        columns = tuple(Definition(name, item) for name, item in PEOPLE)
        return MappingDefinition(
            "t", columns, {"path": str(path / "f.duckdb"), "table": "x", "create": "true"}
        )
