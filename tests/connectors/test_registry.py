"""Finding connectors by type name: our own, and those of other packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from runnel.catalog import Table
from runnel.connector import Connector, MappingDefinition
from runnel.connectors import registry
from runnel.connectors.registry import CONNECTORS, Registry
from runnel.errors import ErrorCode, OperationalError, ProgrammingError


class Outside(Connector):
    name = "Outside"
    closed = 0

    def open(self, definition: MappingDefinition) -> Table:
        raise NotImplementedError

    def close(self) -> None:
        Outside.closed += 1
        raise OSError("the other end is gone")


def not_a_connector() -> int:
    return 3


def broken() -> Connector:
    raise RuntimeError("no licence")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    points = [
        EntryPoint(name, f"{__name__}:{name}", registry.ENTRY_POINTS) for name in ("Outside", "not_a_connector", "broken")
    ]

    def entry_points(*, group: str) -> list[EntryPoint]:
        return points if group == registry.ENTRY_POINTS else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_listed_connector_is_there(name: str, tmp_path: Path) -> None:
    connectors = Registry()
    made = connectors.get(name.upper())
    assert made.name == name
    assert connectors.get(name.lower()) is made
    assert connectors.made() == (made,)
    connectors.close()
    assert connectors.made() == ()


def test_an_unknown_name_has_the_nearest_as_hint(outside: None) -> None:
    with pytest.raises(ProgrammingError) as caught:
        Registry().get("Fil")
    assert caught.value.message == 'connector type "Fil" not found'
    assert caught.value.hint == 'did you mean "File"?'
    assert caught.value.code == ErrorCode.OBJECT_NOT_FOUND


def test_a_connector_of_another_package(outside: None) -> None:
    connectors = Registry()
    assert isinstance(connectors.get("OUTSIDE"), Outside)


def test_closing_closes_all_and_then_reports(outside: None) -> None:
    connectors = Registry()
    connectors.get("outside")
    connectors.get("file")
    before = Outside.closed
    with pytest.raises(OSError, match="the other end is gone"):
        connectors.close()
    assert Outside.closed == before + 1
    connectors.close()


def test_a_broken_connector_of_another_package(outside: None) -> None:
    with pytest.raises(OperationalError) as caught:
        Registry().get("broken")
    assert caught.value.message == 'connector "broken" of another package can\'t be loaded'
    assert caught.value.detail == "RuntimeError: no licence"
    with pytest.raises(OperationalError, match="gives a int, not a Connector"):
        Registry().get("not_a_connector")


def test_connectors_are_imported_when_used() -> None:
    code = (
        "import sys, runnel.connectors.registry as r; r.Registry(); "
        "assert not {'runnel.connectors.file', 'runnel.connectors.imap', 'importlib.metadata'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
