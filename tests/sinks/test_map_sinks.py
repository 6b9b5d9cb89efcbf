"""Maps written by jobs that are killed: rows and their commit are in the map's log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runnel.connector import ColumnDefinition, MappingDefinition, SinkRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.storage import durable as map_durable
from runnel.errors import IntegrityError
from tests.connectors.conformance import PEOPLE, read_rows
from tests.sinks.durable_conformance import BATCHES, OWNER, ROWS, DurableConformance


def definition() -> MappingDefinition:
    """The column "id" is the key."""
    columns = tuple(
        ColumnDefinition(name, item, "__key" if name == "id" else f"this.{name}")
        for name, item in PEOPLE
    )
    return MappingDefinition("m", columns, {"keyFormat": "bigint", "valueFormat": "json-flat"})


def staged_in(table: Any) -> list[str]:
    return sorted(table._staging.lasting())


def crash(connector: MapConnector) -> None:
    """Leaves the files as a killed process does: nothing is written at the end."""
    for durable in connector._durable:
        if durable._log is not None:
            durable._log.close()
            durable._log = None


class TestMapInMemory(DurableConformance):
    """Executions of one connection share the map."""

    @pytest.fixture(autouse=True)
    def _connectors(self) -> Iterator[None]:
        self.connectors: dict[Path, MapConnector] = {}
        yield
        for connector in self.connectors.values():
            connector.close()

    def connector(self, path: Path) -> MapConnector:
        return self.connectors.setdefault(path, MapConnector(None))

    def reopened(self, path: Path) -> Any:
        return self.connector(path).open(definition())

    def traces(self, path: Path) -> list[str]:
        return staged_in(self.reopened(path))


class TestMapOnDisk(TestMapInMemory):
    """Each opening reads the log anew, as a new process does."""

    def connector(self, path: Path) -> MapConnector:
        if path in self.connectors:
            crash(self.connectors[path])
        self.connectors[path] = MapConnector(path)
        return self.connectors[path]


class TestMapWithCheckpoints(TestMapOnDisk):
    """A checkpoint after nearly each change."""

    seeds = 4

    @pytest.fixture(autouse=True)
    def _least_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(map_durable.open_durable, "__defaults__", (64,))


def durable(table: Any, mode: WriteMode) -> Any:
    return table.sink(SinkRequest(mode, (0, 1, 2), OWNER))


@pytest.mark.parametrize("least_log", [64, 1 << 20])
def test_rows_inserted_and_checkpointed_are_not_inserted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_log: int
) -> None:
    monkeypatch.setattr(map_durable.open_durable, "__defaults__", (least_log,))
    first = MapConnector(tmp_path)
    sink = durable(first.open(definition()), WriteMode.INSERT)
    sink.recover(())
    for batch in BATCHES:
        sink.write(batch)
    token = sink.stage(1)
    sink.commit(token)
    crash(first)
    second = MapConnector(tmp_path)
    table = second.open(definition())
    sink = durable(table, WriteMode.INSERT)
    sink.recover([token])
    assert sorted(read_rows(table)) == ROWS
    assert staged_in(table) == []
    second.close()


def test_rows_that_cant_be_inserted_stay_staged(tmp_path: Path) -> None:
    connector = MapConnector(tmp_path)
    table = connector.open(definition())
    sink = durable(table, WriteMode.INSERT)
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    table.put(ROWS[0], WriteMode.SINK)
    with pytest.raises(IntegrityError, match="exists already"):
        sink.commit(token)
    table.put(ROWS[0], WriteMode.DELETE)
    again = durable(table, WriteMode.INSERT)
    again.recover([token])
    assert sorted(read_rows(table)) == ROWS[:3]
    connector.close()


def test_a_job_waits_for_a_statement_that_reads_and_writes() -> None:
    connector = MapConnector(None)
    table = connector.open(definition())
    sink = durable(table, WriteMode.SINK)
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    committing = Thread(target=sink.commit, args=(token,))
    with table.exclusive():
        committing.start()
        committing.join(0.05)
        assert committing.is_alive()
        assert read_rows(table) == []
    committing.join()
    assert sorted(read_rows(table)) == ROWS[:3]
    connector.close()
