"""Finding connectors by type name: our own, and those of other packages."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import resolve_name

import pytest

import runnel
from runnel.catalog import Table, TableColumn
from runnel.connector import Connector, MappingDefinition, ReadableTable, ScanRequest
from runnel.connectors import registry
from runnel.connectors.iterators import IteratorSource, batches_of_rows
from runnel.connectors.registry import CONNECTORS, ConnectorRegistry
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError
from runnel.sqltypes import BIGINT


class Outside(Connector):
    name = "Outside"
    closed = 0

    def open(self, definition: MappingDefinition) -> Table:
        raise NotImplementedError

    def close(self) -> None:
        Outside.closed += 1
        raise OSError("the other end is gone")


class Numbers(ReadableTable):
    name = "numbers"
    connector = "Quiet"
    columns = (TableColumn("n", BIGINT),)

    def row_count(self) -> int:
        return 5

    def scan(self, request: ScanRequest) -> IteratorSource:
        columns = [self.columns[i] for i in request.columns]
        return IteratorSource(
            lambda context: batches_of_rows([(i,)[: len(columns)] for i in range(5)], columns)
        )


class Quiet(Connector):
    name = "Quiet"
    is_closed = False

    def open(self, definition: MappingDefinition) -> Table:
        return Numbers()

    def close(self) -> None:
        self.is_closed = True


class OldTraits(Numbers):
    """The sources of this table have a trait as an attribute of the source."""

    def scan(self, request: ScanRequest) -> IteratorSource:
        source = super().scan(request)
        source.is_repeatable = True  # type: ignore[attr-defined]
        return source


class Old(Quiet):
    name = "Old"

    def open(self, definition: MappingDefinition) -> Table:
        return OldTraits()


def not_a_connector() -> int:
    return 3


def broken() -> Connector:
    raise RuntimeError("no licence")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    points = [
        EntryPoint(name, f"{__name__}:{name}", registry.ENTRY_POINTS)
        for name in ("Outside", "not_a_connector", "broken")
    ]

    def entry_points(*, group: str) -> list[EntryPoint]:
        return points if group == registry.ENTRY_POINTS else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_listed_connector_is_there(name: str, tmp_path: Path) -> None:
    connectors = ConnectorRegistry()
    made = connectors.get(name.upper())
    assert made.name == name
    assert connectors.get(name.lower()) is made
    assert connectors.made() == (made,)
    connectors.close()
    assert connectors.made() == ()


def test_an_unknown_name_has_the_nearest_as_hint(outside: None) -> None:
    with pytest.raises(ProgrammingError) as caught:
        ConnectorRegistry().get("Fil")
    assert caught.value.message == 'connector type "Fil" not found'
    assert caught.value.hint == 'did you mean "File"?'
    assert caught.value.code == ErrorCode.OBJECT_NOT_FOUND


def test_a_connector_of_another_package(outside: None) -> None:
    connectors = ConnectorRegistry()
    assert isinstance(connectors.get("OUTSIDE"), Outside)


def test_closing_closes_all_and_then_reports(outside: None) -> None:
    connectors = ConnectorRegistry()
    connectors.get("outside")
    connectors.get("file")
    before = Outside.closed
    with pytest.raises(OSError, match="the other end is gone"):
        connectors.close()
    assert Outside.closed == before + 1
    connectors.close()


def test_a_broken_connector_of_another_package(outside: None) -> None:
    with pytest.raises(OperationalError) as caught:
        ConnectorRegistry().get("broken")
    assert caught.value.message == 'connector "broken" of another package can\'t be loaded'
    assert caught.value.detail == "RuntimeError: no licence"
    with pytest.raises(OperationalError, match="returns a int, not a Connector"):
        ConnectorRegistry().get("not_a_connector")


def test_connectors_are_imported_when_used() -> None:
    code = (
        "import sys, runnel.connectors.registry; runnel.connectors.registry.ConnectorRegistry(); "
        "loaded = set(sys.modules); "
        "assert 'runnel.connectors.files.connector' not in loaded; "
        "assert 'runnel.connectors.imap.connector' not in loaded; "
        "assert 'importlib.metadata' not in loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_connector_is_added_to_one_registry() -> None:
    connectors = ConnectorRegistry()
    mine = Quiet()
    connectors.add(mine)
    assert connectors.get("QUIET") is mine
    with pytest.raises(ProgrammingError, match='connector type "Quiet" exists already'):
        connectors.add(Quiet())
    with pytest.raises(ProgrammingError, match='connector type "Quiet" not found'):
        ConnectorRegistry().get("Quiet")
    connectors.close()
    assert mine.is_closed


def test_what_can_not_be_added() -> None:
    connectors = ConnectorRegistry()
    own = Quiet()
    own.name = "duckdb"
    with pytest.raises(ProgrammingError, match='connector type "duckdb" exists already'):
        connectors.add(own)
    for wrong in (None, Quiet, "Quiet"):
        with pytest.raises(InterfaceError, match="is no Connector with a name"):
            connectors.add(wrong)  # type: ignore[arg-type]


def test_a_statement_uses_an_added_connector(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        connection.add_connector(Quiet())
        connection.execute("CREATE MAPPING numbers TYPE quiet OPTIONS ('anything' = 'goes')")
        assert connection.execute("SELECT SUM(n) FROM numbers WHERE n > ?", [2]).fetchall() == [
            (7,)
        ]
    with runnel.connect(tmp_path) as connection:
        with pytest.raises(OperationalError, match="could not be opened with the connection"):
            connection.execute("SELECT n FROM numbers").fetchall()
        connection.add_connector(Quiet())
        connection.execute("CREATE OR REPLACE MAPPING numbers TYPE Quiet")
        assert connection.execute("SELECT COUNT(*) FROM numbers").fetchall() == [(5,)]


def test_the_page_for_authors_names_what_there_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing_a_connector.md").read_text("utf-8")
    names = re.findall(r"`(runnel(?:\.\w+)+)`", page)
    assert len(names) >= 15
    for name in names:
        assert resolve_name(name) is not None


def test_a_trait_as_an_attribute_of_the_source_is_refused() -> None:
    with runnel.connect() as connection:
        connection.add_connector(Old())
        connection.execute("CREATE MAPPING numbers TYPE Old")
        with pytest.raises(InterfaceError, match="is_repeatable of IteratorSource") as error:
            connection.execute("SELECT n FROM numbers")
        assert "traits = SourceTraits(is_repeatable=True)" in str(error.value)
