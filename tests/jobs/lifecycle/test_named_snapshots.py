"""Named snapshots, beside a job that goes on taking its own, and beside each other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest

from runnel.errors import OperationalError
from runnel.named_jobs import named_snapshots
from runnel.named_jobs.named_snapshots import NamedSnapshots
from runnel.named_jobs.record.options import NamedJobOptions
from runnel.named_jobs.record.record import JobRecord
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.snapshots.store import MemorySnapshotStore, Outcome, SnapshotStore
from runnel.storage.durable_files import sync_folder
from runnel.testing import ManualClock
from tests.jobs.named import PATIENCE, numbers

RECORD = JobRecord(id=1, name="j", query="q", text="t", options=NamedJobOptions(), created=0)
CLOCK = ManualClock(wall_start=1)


def take(store: SnapshotStore, number: int) -> None:
    assert store.write(number, "v", numbers(number))
    outcomes: list[Outcome] = []
    store.complete(number, (), outcomes.append)
    store.close()
    assert not isinstance(outcomes[0], Exception)


def values(store: SnapshotStore, number: int = 1) -> list[int]:
    return [value for batch in store.read(number, "v") for value in batch.column(0).to_pylist()]


@pytest.fixture(params=["files", "memory"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SnapshotStore]:
    store: SnapshotStore = (
        MemorySnapshotStore() if request.param == "memory" else FileSnapshotStore(tmp_path / "job")
    )
    yield store
    store.close()


def test_a_snapshot_that_is_held_stays_however_many_come(source: SnapshotStore) -> None:
    take(source, 1)
    with source.pin():
        with source.pin():
            take(source, 2)
        for number in range(3, 6):
            take(source, number)
        assert values(source, 1) == [1] and source.vertices(1) == ["v"] and values(source, 3) == [3]
        assert source.completed == 5
    source.close()
    with pytest.raises(OperationalError, match="there is no snapshot 1"):
        source.read(1, "v")
    assert values(source, 5) == [5]


def test_two_at_once_don_t_take_each_other_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    take(store, 7)
    snapshots = NamedSnapshots(tmp_path / "snapshots", CLOCK)
    both = Barrier(2)

    def synced_together(path: Path) -> None:
        both.wait(PATIENCE)
        sync_folder(path)

    monkeypatch.setattr(named_snapshots, "sync_folder", synced_together)
    (tmp_path / "snapshots").mkdir()
    threads = [
        Thread(target=lambda name=name: snapshots.export(name, RECORD, store, 7))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    store.close()
    again = NamedSnapshots(tmp_path / "snapshots", CLOCK)
    assert [(item.name, values(item.store)) for item in again.all()] == [("a", [7]), ("b", [7])]


def test_a_copy_shares_its_files_with_the_snapshot(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    take(store, 7)
    snapshots = NamedSnapshots(tmp_path / "snapshots", CLOCK)
    snapshots.export("s", RECORD, store, 7)
    copied = tmp_path / "snapshots" / "1" / "1" / "state.arrows"
    assert copied.samefile(tmp_path / "job" / "7" / "state.arrows")
    with pytest.raises(OperationalError, match="there is no snapshot 6"):
        snapshots.export("t", RECORD, store, 6)
    assert [item.name for item in (tmp_path / "snapshots").iterdir()] == ["1"]
    store.close()


def test_what_is_left_of_a_copy_that_was_cut_short_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "1" / ".1").mkdir(parents=True)
    (tmp_path / "2").mkdir()
    (tmp_path / ".3" / "1").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert NamedSnapshots(tmp_path, CLOCK).all() == []
    assert list(tmp_path.iterdir()) == [] and caplog.messages == []


def test_one_that_was_dropped_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    take(store, 7)
    snapshots = NamedSnapshots(tmp_path / "snapshots", CLOCK)
    snapshots.export("s", RECORD, store, 7)
    store.close()
    with monkeypatch.context() as patched:
        patched.setattr(named_snapshots.shutil, "rmtree", _nothing_removed)
        snapshots.drop("s")
    assert snapshots.find("s") is None
    assert NamedSnapshots(tmp_path / "snapshots", CLOCK).all() == []
    assert list((tmp_path / "snapshots").iterdir()) == []


def _nothing_removed(path: Path, ignore_errors: bool) -> None:
    """The process is killed before it removes anything."""
    assert ignore_errors and path.name.startswith(".")


def test_one_that_can_t_be_removed_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    take(store, 7)
    snapshots = NamedSnapshots(tmp_path / "snapshots", CLOCK)
    snapshots.export("s", RECORD, store, 7)
    store.close()

    def refused(path: Path, target: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OperationalError, match='snapshot "s" can\'t be removed'):
        snapshots.drop("s")
    assert values(snapshots.get("s").store) == [7]
