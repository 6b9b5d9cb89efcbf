"""Snapshots on disk: what was completed is there, also when the process is killed, the disk is
full, or files are damaged."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO
from zlib import crc32

import pyarrow as pa
import pytest

from runnel.columns.key_hash import keyed_state
from runnel.errors import OperationalError
from runnel.snapshots.background import Background
from runnel.snapshots.disk import Disk
from runnel.snapshots.file_store import FileSnapshotStore, copy_snapshot
from runnel.snapshots.manifest import FORMAT, NAME, DamagedError, encode_manifest, read_manifest
from runnel.snapshots.store import Outcome, SnapshotSize
from tests.effort import drawn


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["x"])


def take(store: FileSnapshotStore, number: int, **state: list[pa.RecordBatch]) -> Outcome:
    """A snapshot with the state of each vertex; what became of it."""
    for vertex, batches in state.items():
        for batch in batches:
            assert store.write(number, vertex, batch)
    done, outcomes = Event(), []

    def on_done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        done.set()

    store.complete(number, (), on_done)
    assert done.wait(20)
    store.close()
    (outcome,) = outcomes
    return outcome


def values(store: FileSnapshotStore, vertex: str = "v") -> list[int]:
    assert store.completed is not None
    return [
        value
        for batch in store.read(store.completed, vertex)
        for value in batch.column(0).to_pylist()
    ]


def test_state_is_read_back_by_another_store(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path / "s", {"job": "j"})
    assert store.completed is None
    keyed = keyed_state(pa.record_batch([pa.array(["a", None])], names=["k"]), "k")
    size = take(store, 1, v=[rows(1, 2), rows(3)], w=[keyed, rows(9)], nothing=[])
    assert isinstance(size, SnapshotSize)
    assert size.rows == 6
    assert 0 < size.bytes <= size.bytes_written
    for opened in (store, FileSnapshotStore(tmp_path / "s")):
        assert opened.completed == 1
        assert values(opened) == [1, 2, 3]
        first, second = opened.read(1, "w")
        assert first.equals(keyed, check_metadata=True)
        assert second.equals(rows(9))
        assert opened.read(1, "nothing") == []
        assert opened.vertices(1) == ["v", "w"]
        (manifest,) = opened.infos()
        assert (manifest.snapshot_id, manifest.about, manifest.rows) == (1, {"job": "j"}, 6)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["1"]


def test_the_last_two_are_kept_and_numbers_are_not_used_again(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    for number in (1, 2, 4, 7):
        take(store, number, v=[rows(number)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "7"]
    (tmp_path / ".9").mkdir()
    again = FileSnapshotStore(tmp_path)
    assert (again.completed, again.last_id) == (7, 9)
    assert not (tmp_path / ".9").exists()
    assert values(again) == [7]
    with pytest.raises(OperationalError, match="there is no snapshot 1"):
        again.read(1, "v")


def test_one_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    take(store, 1, v=[rows(1)])
    store.write(2, "v", rows(2))
    store.give_up(2)
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1"]
    assert values(store) == [1]
    take(store, 3, v=[rows(3)])
    assert values(store) == [3]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit of state": (
        lambda folder: flip(folder / "state.arrows", 300),
        "the checksum of the state of",
    ),
    "a bit of the manifest": (
        lambda folder: flip(folder / "manifest.json", 30),
        "its checksum is wrong",
    ),
    "state cut short": (lambda folder: cut(folder / "state.arrows"), "is cut short"),
    "an empty file": (
        lambda folder: os.truncate(folder / "state.arrows", 0),
        "is cut short: it has 0 bytes",
    ),
    "manifest cut short": (lambda folder: cut(folder / "manifest.json"), "cut short"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "is missing"),
    "no state": (lambda folder: (folder / "state.arrows").unlink(), "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_one_is_told_and_the_one_before_used(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileSnapshotStore(tmp_path)
    for number in (1, 2):
        take(store, number, v=[rows(*range(number * 100, number * 100 + 50))], w=[rows(number)])
    spoil, reason = DAMAGES[damage]
    spoil(tmp_path / "2")
    again = FileSnapshotStore(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert again.completed == 1
    assert "snapshot 2 can't be used" in "\n".join(caplog.messages)
    assert reason in "\n".join(caplog.messages)
    assert "snapshot 1 is used instead" in "\n".join(caplog.messages)
    assert values(again) == list(range(100, 150))
    assert again.last_id == 2
    # A sound predecessor is kept for as long as it is needed.
    take(again, 3, v=[rows(3)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]
    take(again, 4, v=[rows(4)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]
    with pytest.raises(OperationalError):
        again.read(2, "v")


def test_no_sound_one_is_an_error(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    for number in (1, 2):
        take(store, number, v=[rows(number)])
        cut(tmp_path / str(number) / "manifest.json")
    with pytest.raises(
        OperationalError, match=r"none of the 2 snapshots in .* can be used: all are damaged"
    ):
        FileSnapshotStore(tmp_path).completed  # noqa: B018


def test_every_bit_of_a_snapshot_counts(tmp_path: Path) -> None:
    take(FileSnapshotStore(tmp_path), 1, v=[rows(1, 2, 3)])
    sections = read_manifest(tmp_path / "1").sections
    (section,) = sections
    for name, length in (
        ("state.arrows", section.bytes),
        ("manifest.json", (tmp_path / "1/manifest.json").stat().st_size),
    ):
        sound = (tmp_path / "1" / name).read_bytes()
        for place in range(0, length, 7):
            flip(tmp_path / "1" / name, place)
            with pytest.raises(OperationalError):
                FileSnapshotStore(tmp_path).completed  # noqa: B018
            (tmp_path / "1" / name).write_bytes(sound)
    assert values(FileSnapshotStore(tmp_path)) == [1, 2, 3]


def test_later_format_is_not_taken_for_damage(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    take(store, 1, v=[rows(1)])
    take(store, 2, v=[rows(2)])
    later = replace(store.manifest(2), format=FORMAT + 1)
    (tmp_path / "2" / NAME).write_bytes(encode_manifest(later))
    with pytest.raises(
        OperationalError, match="was written by a later version of Runnel"
    ) as caught:
        FileSnapshotStore(tmp_path).completed  # noqa: B018
    assert not isinstance(caught.value, DamagedError)


def test_first_format_is_read_and_copied(tmp_path: Path) -> None:
    """Its checksums were CRC-32."""
    store = FileSnapshotStore(tmp_path / "s")
    take(store, 1, v=[rows(1, 2)], w=[rows(3)])
    data = (tmp_path / "s" / "1" / "state.arrows").read_bytes()
    manifest = store.manifest(1)
    sections = [
        replace(item, checksum=crc32(data[item.start : item.start + item.bytes]))
        for item in manifest.sections
    ]
    first = replace(manifest, sections=tuple(sections), format=1)
    (tmp_path / "s" / "1" / NAME).write_bytes(encode_manifest(first))
    again = FileSnapshotStore(tmp_path / "s")
    assert values(again) == [1, 2]
    copy_snapshot(tmp_path / "s" / "1", first, tmp_path / "copy", Disk())
    assert values(FileSnapshotStore(tmp_path / "copy")) == [1, 2]
    flip(tmp_path / "copy" / "1" / "state.arrows", first.sections[0].bytes - 100)
    with pytest.raises(OperationalError, match="all are damaged"):
        FileSnapshotStore(tmp_path / "copy").completed  # noqa: B018


# State that stays the same


def test_kept_state_is_written_once(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    large, small = rows(*range(20_000)), rows(1)
    written = []
    for number in range(1, 6):
        outcome = take(store, number, v=[small, large, rows(number)])
        assert isinstance(outcome, SnapshotSize)
        assert outcome.bytes > 160_000
        written.append(outcome.bytes_written > 100_000)
        assert FileSnapshotStore(tmp_path).completed == number
    assert written == [True, False, False, False, False]
    assert values(FileSnapshotStore(tmp_path)) == [1, *range(20_000), 5]
    assert (tmp_path / "5" / "state-1.arrows").stat().st_nlink == 2
    flip(tmp_path / "5" / "state-1.arrows", 1000)
    del large
    take(store, 6, v=[rows(6)])
    assert sorted(path.name for path in (tmp_path / "6").iterdir()) == [
        "manifest.json",
        "state.arrows",
    ]


def test_file_that_is_kept_for_little_is_written_anew(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    parts = [rows(*range(start, start + 10_000)) for start in range(0, 50_000, 10_000)]
    written = []
    for number in range(1, 9):
        outcome = take(store, number, v=[*parts, rows(number)], w=[parts[0]])
        assert isinstance(outcome, SnapshotSize)
        written.append(outcome.bytes_written // 80_000)
        assert values(FileSnapshotStore(tmp_path)) == [
            *(value for part in parts for value in part["x"].to_pylist()),
            number,
        ]
        assert values(FileSnapshotStore(tmp_path), "w") == parts[0]["x"].to_pylist()
        if len(parts) > 1:
            parts.pop()
    # Five parts and one for another vertex. The file stays while at least half of it is state; two
    # parts are then written anew.
    assert written == [6, 0, 0, 0, 2, 0, 0, 0]


def test_kept_state_of_a_snapshot_that_failed_is_written_again(tmp_path: Path) -> None:
    disk = Failing(at=-1)
    store = FileSnapshotStore(tmp_path, disk=disk)
    large = rows(*range(20_000))
    take(store, 1, v=[large])
    disk.left = 6
    assert isinstance(take(store, 2, v=[large]), OperationalError)
    disk.left = -1
    assert isinstance(take(store, 3, v=[large]), SnapshotSize)
    assert isinstance(take(store, 4, v=[large]), SnapshotSize)
    assert values(FileSnapshotStore(tmp_path)) == list(range(20_000))


# Copies


def export(
    store: FileSnapshotStore, number: int, folder: Path, about: dict[str, str]
) -> Exception | None:
    outcomes: list[Exception | None] = []
    store.export(number, folder, about, outcomes.append)
    store.close()
    return outcomes[0]


def test_copy_outlives_its_job_and_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    target = tmp_path / "named" / "s"
    for number in range(1, 6):
        take(store, number, v=[rows(number)])
        if number % 2:
            assert export(store, number, target, {"name": f"s{number}"}) is None
    copy = FileSnapshotStore(target)
    assert values(copy) == [5]
    (manifest,) = copy.infos()
    assert (manifest.snapshot_id, manifest.about) == (5, {"name": "s5"})
    assert isinstance(export(store, 1, target, {}), OperationalError)
    assert values(FileSnapshotStore(target)) == [5]


def test_snapshots_of_a_completed_job_are_removed_after_their_copy(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path / "job")
    for number in (1, 2, 3):
        take(store, number, v=[rows(number)])
    with store.pin(), store.pin():
        store.remove_all()
        assert export(store, 3, tmp_path / "copy", {}) is None
    assert not (tmp_path / "job").exists()
    assert values(FileSnapshotStore(tmp_path / "copy")) == [3]
    other = FileSnapshotStore(tmp_path / "other")
    take(other, 1, v=[rows(1)])
    other.remove_all()
    assert not (tmp_path / "other").exists()


# Failures of the disk


class Failing(Disk):
    """Fails at one of its operations and at all after it, as a full disk does; `at` −1: never."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.calls: list[str] = []

    def _count(self, name: str) -> None:
        self.calls.append(name)
        if self.left == 0:
            self.fail()
        self.left -= self.left > 0

    def fail(self) -> None:
        raise OSError(28, "No space left on device")

    def make_folder(self, path: Path) -> None:
        self._count("make_folder")
        super().make_folder(path)

    def create(self, path: Path) -> Any:
        self._count("create")
        return super().create(path)

    def write(self, file: BinaryIO, data: memoryview) -> None:
        self._count("write")
        super().write(file, data[: len(data) // 2])
        self._count("write on")
        super().write(file, data[len(data) // 2 :])

    def sync(self, file: BinaryIO) -> None:
        self._count("sync")
        super().sync(file)

    def link(self, source: Path, target: Path) -> None:
        self._count("link")
        super().link(source, target)

    def sync_folder(self, path: Path) -> None:
        self._count("sync_folder")
        super().sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._count("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._count("remove")
        super().remove(path)


LARGE = rows(*range(10_000))


def work(folder: Path, disk: Disk, seen: Callable[[int, Outcome], None]) -> None:
    """Four snapshots with new and kept state; the last is copied."""
    store = FileSnapshotStore(folder / "job", disk=disk)
    for number in range(1, 5):
        seen(
            number,
            take(
                store,
                number,
                v=[rows(number), LARGE, *([rows(0)] if number == 4 else [])],
                w=[rows(-number)],
            ),
        )
    export(store, 4, folder / "copy", {})


def operations(tmp_path: Path) -> int:
    disk = Failing(-1)
    work(tmp_path / "count", disk, lambda number, outcome: None)
    assert {
        "make_folder",
        "create",
        "write",
        "sync",
        "link",
        "sync_folder",
        "rename",
        "remove",
    } <= set(disk.calls)
    return len(disk.calls)


def check(folder: Path, safe: int) -> None:
    """At least the snapshots that were told to be safe are there, and whole."""
    store = FileSnapshotStore(folder / "job")
    completed = store.completed
    assert (completed or 0) >= safe
    if completed is not None:
        found = values(store)
        assert found[0] == completed
        assert len(found) == 10_001 + (completed == 4)
        assert values(store, "w") == [-completed]
    if (folder / "copy").exists():
        copy = FileSnapshotStore(folder / "copy")
        assert copy.completed is None or values(copy)[0] == 4


def test_any_operation_may_fail(tmp_path: Path) -> None:
    for place in drawn(range(operations(tmp_path)), 3):
        folder = tmp_path / str(place)
        outcomes: dict[int, Outcome] = {}
        work(folder, Failing(place), outcomes.__setitem__)
        safe = [number for number, outcome in outcomes.items() if isinstance(outcome, SnapshotSize)]
        assert all(
            isinstance(outcome, OperationalError | SnapshotSize) for outcome in outcomes.values()
        )
        check(folder, max(safe, default=0))


class FailingOnce(Failing):
    """Goes on well after the failure."""

    def fail(self) -> None:
        self.left = -1
        super().fail()


def test_one_that_failed_after_all_does_not_count_later(tmp_path: Path) -> None:
    """What sinks staged for it may be given up by then."""
    disk = Failing(-1)
    work(tmp_path / "count", disk, lambda number, outcome: None)
    last = len(disk.calls) - 1 - disk.calls[::-1].index("sync_folder")
    renames = [place for place, call in enumerate(disk.calls) if call == "rename" and place < last]
    checked = 0
    for place in renames:
        if disk.calls[place + 1] != "sync_folder":
            continue
        folder = tmp_path / str(place)
        outcomes: dict[int, Outcome] = {}

        def seen(
            number: int,
            outcome: Outcome,
            folder: Path = folder,
            outcomes: dict[int, Outcome] = outcomes,
        ) -> None:
            outcomes[number] = outcome
            found = FileSnapshotStore(folder / "job").completed
            assert found == max(
                (n for n, item in outcomes.items() if isinstance(item, SnapshotSize)), default=None
            )

        work(folder, FailingOnce(place + 1), seen)
        checked += sum(isinstance(outcome, OperationalError) for outcome in outcomes.values())
    assert checked >= 4


def test_a_task_that_fails_does_not_stop_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    thread = Background("test")
    done: list[int] = []
    thread.post(lambda: done.append(1 // 0))
    thread.post(lambda: done.append(2))
    thread.close()
    assert done == [2] and caplog.messages == [
        "internal error while snapshots are written; the jobs continue"
    ]


class Killed(Failing):
    """Kills the process at one of the operations."""

    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def killed_at(places: Sequence[int], folder: str) -> None:
    """Runs in a process of its own, and the work in forks of it; tells each snapshot that is safe,
    and how each fork ended."""
    for place in places:
        child = os.fork()
        if not child:
            work(
                Path(folder, str(place)),
                Killed(place),
                lambda number, outcome, at=place: print(at, number, flush=True),
            )
            os._exit(0)
        print(place, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def test_process_may_be_killed_at_any_operation(tmp_path: Path) -> None:
    last = operations(tmp_path)
    places = range(0, last, max(1, last // 12))
    code = (
        f"from tests.snapshots.test_file_store import killed_at; killed_at({places!r}, "
        f"{str(tmp_path)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    told: dict[int, list[int]] = {place: [] for place in places}
    for line in done.stdout.splitlines():
        place, number = map(int, line.split())
        told[place].append(number)
    for place, (*safe, ended) in told.items():
        assert ended == -signal.SIGKILL
        check(tmp_path / str(place), max(safe, default=0))


ROOT = Path(__file__).parent.parent.parent
