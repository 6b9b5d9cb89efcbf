"""Files written by jobs that are killed: seen only when committed, and nothing is left of those
that never were."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runnel.connector import ColumnDefinition as Definition
from runnel.connector import MappingDefinition, SinkRequest, WriteMode
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.connector import FileConnector
from runnel.errors import OperationalError, ProgrammingError
from tests.connectors.conformance import PEOPLE, read_rows
from tests.sinks.durable_conformance import BATCHES, OWNER, ROWS, DurableConformance


def opened(path: Path | str, **options: str) -> Any:
    definitions = tuple(Definition(name, item) for name, item in PEOPLE)
    given = {"path": str(path), "ignoreFileNotFound": "true", **options}
    return FileConnector().open(MappingDefinition("t", definitions, given))


class FileConformance(DurableConformance):
    options: ClassVar[Mapping[str, str]] = {}

    def reopened(self, path: Path) -> Any:
        return opened(path / "rows", **self.options)

    def traces(self, path: Path) -> list[str]:
        return [str(item) for item in path.rglob(".*")]


class TestParquet(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "parquet"}


class TestCsv(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "csv"}


class TestJson(FileConformance):
    options: ClassVar[Mapping[str, str]] = {"format": "json", "compression": "gz"}


class TestPartitionedFiles(FileConformance):
    seeds = 6
    options: ClassVar[Mapping[str, str]] = {"format": "parquet", "partitionBy": "name"}


class TestRemoteFiles(DurableConformance):
    """A file system that moves a file by copying it."""

    @pytest.fixture(autouse=True)
    def _empty(self) -> None:
        fsspec = pytest.importorskip("fsspec")
        system = fsspec.filesystem("memory")
        if system.exists("/sinks"):
            system.rm("/sinks", recursive=True)
        self.system = system

    def reopened(self, path: Path) -> Any:
        return opened(f"memory://sinks/{path.name}/rows", format="parquet")

    def traces(self, path: Path) -> list[str]:
        return [name for name in self.system.find(f"/sinks/{path.name}") if "/.runnel-" in name]

    def test_a_copy_that_was_not_followed_by_the_removal_is_no_second_file(
        self, tmp_path: Path
    ) -> None:
        token = self.staged(self.reopened(tmp_path), BATCHES[0])
        [[unfinished, final]] = token["renames"]
        self.system.copy(unfinished.removeprefix("memory:/"), final.removeprefix("memory:/"))
        sink = self.sink(self.reopened(tmp_path))
        sink.recover([token])
        sink.close()
        assert sorted(read_rows(self.reopened(tmp_path))) == ROWS[:3]
        assert self.traces(tmp_path) == []


def durable(path: Path, owner: str = OWNER) -> Any:
    return opened(path, format="parquet").sink(SinkRequest(WriteMode.SINK, (0, 1, 2), owner))


def test_a_job_is_refused_one_file() -> None:
    with pytest.raises(
        ProgrammingError, match=r'a job can\'t write to the one file ".*/out.csv"'
    ) as caught:
        opened("/nowhere/out.csv", format="csv").sink(SinkRequest(WriteMode.SINK, (0, 1, 2), OWNER))
    assert caught.value.hint == "create the mapping on a folder"


def test_a_link_made_before_the_crash_is_no_second_file(tmp_path: Path) -> None:
    sink = durable(tmp_path)
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    [[unfinished, final]] = token["renames"]
    os.link(unfinished, final)
    again = durable(tmp_path)
    again.recover([token])
    assert [item.name for item in tmp_path.iterdir()] == [Path(final).name]


def test_a_file_taken_away_after_its_commit_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = durable(tmp_path)
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    sink.commit(token)
    [[_, final]] = token["renames"]
    Path(final).unlink()
    with caplog.at_level(logging.WARNING, "runnel.connectors.files.connector"):
        again = durable(tmp_path)
        again.recover([token])
    assert caplog.messages == [f'file "{final}" was written by a job and has been taken away since']
    again.write(BATCHES[1])
    again.commit(again.stage(2))
    assert sorted(read_rows(opened(tmp_path, format="parquet"))) == ROWS[3:6]


def test_a_folder_that_is_gone_is_no_reason_to_go_on(tmp_path: Path) -> None:
    sink = durable(tmp_path / "rows")
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    sink.close()
    (tmp_path / "rows").rename(tmp_path / "unmounted")
    with pytest.raises(OperationalError, match=r'folder ".*/rows" is gone') as caught:
        durable(tmp_path / "rows").recover([token])
    assert "mount it again" in (caught.value.hint or "")
    (tmp_path / "unmounted").rename(tmp_path / "rows")
    durable(tmp_path / "rows").recover([token])
    assert sorted(read_rows(opened(tmp_path / "rows", format="parquet"))) == ROWS[:3]


def test_staged_names_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(file_system, "sync_folder", lambda path: synced.append(str(path)))
    sink = durable(tmp_path / "rows")
    sink.recover(())
    sink.write(BATCHES[0])
    sink.stage(1)
    assert synced == [str(tmp_path), str(tmp_path / "rows"), str(tmp_path)], (
        "the new folder, then what is in it"
    )


def test_each_new_folder_s_name_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(file_system, "sync_folder", lambda path: synced.append(Path(path)))
    file_system.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert sorted(synced) == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    file_system.make_folder(str(tmp_path / "a" / "b" / "c"))
    assert len(synced) == 3


def test_light_statements_leave_the_unfinished_files_of_jobs(tmp_path: Path) -> None:
    sink = durable(tmp_path)
    sink.recover(())
    sink.write(BATCHES[0])
    token = sink.stage(1)
    light = durable(tmp_path, "")
    light.write(BATCHES[1])
    light.commit(light.stage(0))
    light.close()
    sink.commit(token)
    assert sorted(read_rows(opened(tmp_path, format="parquet"))) == ROWS[:6]


def test_no_room_for_the_staged_file_is_an_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    sink = durable(tmp_path)
    sink.recover(())
    sink.write(BATCHES[0])
    with monkeypatch.context() as patch:
        patch.setattr(file_system, "sync_folder", full)
        with pytest.raises(OperationalError, match="can't be written") as caught:
            sink.stage(1)
    assert caught.value.hint == "free some space, or write elsewhere"
    sink.close()
    again = durable(tmp_path)
    again.recover(())
    again.write(BATCHES[0])
    again.commit(again.stage(1))
    assert sorted(read_rows(opened(tmp_path, format="parquet"))) == ROWS[:3]
    assert [item for item in tmp_path.iterdir() if item.name.startswith(".")] == []
