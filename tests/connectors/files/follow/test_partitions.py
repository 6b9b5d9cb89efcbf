"""A followed folder has a partition for each file that grows; finished files hold back nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.connector import Pause
from runnel.connectors.files.follow import listing as listings
from runnel.connectors.files.follow.listing import FollowedPath
from runnel.errors import ProgrammingError
from tests.connectors.files.cases import mapping, written
from tests.connectors.files.follow.followers import COLUMNS, Execution

NONE: dict[str, list[int]] = {}


def append(path: Path, *ids: int) -> None:
    with path.open("a") as stream:
        stream.write("".join(f"{number},x\n" for number in ids))


def begun(path: Path, *ids: int) -> Path:
    written(path, "id,name\n")
    append(path, *ids)
    return path


@pytest.fixture(params=[True, False], ids=["with birth times", "without"])
def births(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system stores when a file was created."""
    if not request.param:
        monkeypatch.setattr(listings, "birth_of", lambda path: None)
    return bool(request.param)


def test_each_growing_file_has_a_partition(tmp_path: Path, births: bool) -> None:
    files = [begun(tmp_path / f"{name}.csv", 10 * i) for i, name in enumerate("abcd")]
    job = Execution(tmp_path)
    assert job.look() == {"0": [0], "files 1": [10], "files 2": [20], "files 3": [30]}
    for number in range(1, 4):
        for i, file in enumerate(files):
            append(file, 10 * i + number)
        assert [*job.look().values()] == [[number], [10 + number], [20 + number], [30 + number]]
        # A file that grows holds back the watermark, also at its end; the other partitions don't.
        assert job.held() == ["0", "files 1", "files 2", "files 3"]
    assert job.parts["files 2"].data_name == str(files[2])


def test_a_file_with_a_newer_file_after_it_is_finished(tmp_path: Path, births: bool) -> None:
    begun(tmp_path / "2024-05-01.csv", 1)
    job = Execution(tmp_path)
    assert job.look() == {"0": [1]}
    assert job.look() == NONE
    assert job.held() == ["0"]
    append(tmp_path / "2024-05-01.csv", 2)
    begun(tmp_path / "2024-05-02.csv", 3)
    assert job.look() == {"0": [2], "files 1": [3]}
    assert job.held() == ["0", "files 1"]
    assert job.look() == NONE
    assert job.held() == ["files 1"], "the first file was not changed since"
    begun(tmp_path / "2024-05-03.csv", 4)
    assert job.look() == {"0": [4]}, "its partition receives the next file"
    assert job.look() == NONE
    assert job.held() == ["0"]


def test_a_file_that_grows_although_there_is_a_newer_one(tmp_path: Path, births: bool) -> None:
    old = begun(tmp_path / "a.csv", 1)
    job = Execution(tmp_path)
    job.look()
    begun(tmp_path / "b.csv", 2)
    job.look()
    job.look()
    assert job.held() == ["files 1"]
    append(old, 3)
    assert job.look() == {"0": [3]}
    assert job.held() == ["0", "files 1"]
    assert job.look() == NONE
    assert job.held() == ["0", "files 1"], "it was changed after the newer file had been created"


def test_renamed_files_are_finished(tmp_path: Path) -> None:
    log = begun(tmp_path / "app.csv", 1)
    job = Execution(tmp_path)
    assert job.look() == {"0": [1]}
    for number in range(2, 12):
        append(log, number)
        for old in range(number, 0, -1):
            source = tmp_path / (f"app.{old - 1}.csv" if old > 1 else "app.csv")
            if source.exists():
                source.rename(tmp_path / f"app.{old}.csv")
        begun(log, 100 + number)
        found = job.look()
        assert sorted(row for rows in found.values() for row in rows) == [number, 100 + number]
        assert job.look() == NONE
        (holder,) = job.held()
        assert job.parts[holder].data_name == str(log)


def test_new_files_with_the_inodes_of_deleted_ones_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system gives the inode number of a deleted file to the next new one. Here files are
    renamed and written again, and d.csv and e.csv are said to be created later."""
    born = {"a.csv": 1, "b.csv": 2, "c.csv": 3, "d.csv": 4, "e.csv": 5}
    monkeypatch.setattr(listings, "birth_of", lambda path: born[Path(path).name])
    first = begun(tmp_path / "a.csv", 1)
    job = Execution(tmp_path)
    assert job.look() == {"0": [1]}
    second = begun(tmp_path / "b.csv", 2)
    assert job.look() == {"files 1": [2]} and job.look() == NONE
    third = begun(tmp_path / "c.csv", 3)
    assert job.look() == {"0": [3]}, "one partition has read two of the files"
    second.unlink()
    begun(first.rename(tmp_path / "d.csv"), 4)
    begun(third.rename(tmp_path / "e.csv"), 5)
    looks = [job.look() for _ in range(3)]
    found = [rows for look in looks for rows in look.values()]
    assert sorted(found) == [[4], [5]], "each is in a partition of its own"


def test_existing_rotated_files_hold_back_nothing(tmp_path: Path) -> None:
    """At the first listing too: by when they were created and changed."""
    for number in range(100):
        begun(tmp_path / f"{number:03}.csv", number)
    job = Execution(tmp_path)
    assert sorted(row for rows in job.look().values() for row in rows) == list(range(100))
    job.look()
    assert len(job.held()) == 1


def test_read_whole_files_are_finished(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"id": [number], "name": ["x"]}), tmp_path / f"{number}.parquet")
    job = Execution(tmp_path, format="parquet")
    assert job.look() == NONE
    assert job.held() == ["0", "files 1", "files 2"], "they may not be complete"
    assert job.look() == {"0": [0], "files 1": [1], "files 2": [2]}
    job.look()
    assert job.held() == []


def test_more_files_than_partitions(tmp_path: Path) -> None:
    files = [begun(tmp_path / f"{number:03}.csv", number) for number in range(150)]
    job = Execution(tmp_path)
    found = job.look()
    assert len(found) == 64
    # Each partition reads its files by name.
    assert found["0"] == [0, 64, 128]
    assert found["files 63"] == [63, 127]
    for number, file in enumerate(files):
        append(file, 1000 + number)
    found = job.look()
    assert sorted(row for rows in found.values() for row in rows) == list(range(1000, 1150))
    other = Execution(tmp_path, job.clock, job.positions(), partitions="3")
    append(files[77], 5000)
    begun(tmp_path / "new.csv", 6000)
    assert other.look() == {"0": [6000], "files 13": [5000]}


@pytest.mark.parametrize("partitions", ["1", "2", "64"])
def test_the_position_of_an_earlier_version(tmp_path: Path, partitions: str) -> None:
    """Of one partition, named by its number, with all files."""
    for number in range(3):
        begun(tmp_path / f"{number}.csv", number)
    positions = {
        str(tmp_path / f"{number}.csv"): {
            "start": 12,
            "line": 3,
            "rows": 0,
            "before": f"id,name\n{number},x\n".encode().hex(),
            "size": 12,
            "number": (tmp_path / f"{number}.csv").stat().st_ino,
        }
        for number in range(3)
    }
    append(tmp_path / "1.csv", 10)
    begun(tmp_path / "3.csv", 3)
    job = Execution(tmp_path, tokens={"0": {"files": positions}}, partitions=partitions)
    found = job.look()
    assert sorted(row for rows in found.values() for row in rows) == [3, 10]
    assert found["0"][0] == 10


def test_the_position_has_no_files_that_were_deleted(tmp_path: Path) -> None:
    job = Execution(tmp_path, partitions="4")
    for number in range(40):
        begun(tmp_path / f"{number:02}.csv", number)
        assert [*job.look().values()] == [[number]]
        if number >= 2:
            (tmp_path / f"{number - 2:02}.csv").unlink()
            job.look()
    assert len(json.dumps(job.positions())) < 1000


def test_no_partition_reads_before_all_are_at_their_positions(tmp_path: Path) -> None:
    """Files in the position of a partition that is restored later are not new."""
    for number in range(2):
        begun(tmp_path / f"{number}.csv", number)
    first = Execution(tmp_path, partitions="2")
    assert first.look() == {"0": [0], "files 1": [1]}
    tokens: dict[str, Any] = first.positions()
    job = Execution(tmp_path, first.clock, partitions="2")
    # The same, opened one after the other.
    parts = job.source.split(job.context)
    parts[0].seek(tokens["0"])
    parts[0].open(lambda: None)
    pause = parts[0].read()
    assert isinstance(pause, Pause) and not pause.is_finished
    woken = []
    parts[0].open(lambda: woken.append(0))
    parts[1].seek(tokens["files 1"])
    parts[1].open(lambda: woken.append(1))
    assert woken == [0]
    job.parts = {"0": parts[0], "files 1": parts[1]}
    assert job.look() == NONE


def test_partitions_that_have_rows_wait_for_each_other(tmp_path: Path) -> None:
    """The rows of one may not advance the watermark beyond rows of another that exist already."""
    files = [begun(tmp_path / f"{name}.csv", i) for i, name in enumerate("ab")]
    job = Execution(tmp_path, partitions="3")
    job.look()
    for file in (*files, begun(tmp_path / "c.csv")):
        append(file, 9)
    job.clock.advance(listings.MILLISECOND * 100)
    assert [job.read("0"), job.read("0")] == [[], []]
    assert not job.pauses["0"].is_idle, "it waits"
    assert [job.read("files 1"), job.read("files 1")] == [[], []]
    assert [job.read("files 2"), job.read("files 2")] == [[], [9]]
    assert [job.read("0"), job.read("files 1")] == [[9], [9]]
    append(files[0], 10)
    append(files[1], 11)
    job.clock.advance(listings.MILLISECOND * 100)
    assert [job.read("0"), job.read("0")] == [[], []]
    # Partition 1 has had no turn when the path is listed again: its rows are awaited still.
    job.clock.advance(listings.MILLISECOND * 100)
    append(tmp_path / "c.csv", 12)
    assert [job.read("0"), job.read("0")] == [[], []]
    assert [job.read("files 2"), job.read("files 2")] == [[], []]
    job.clock.advance(listings.PATIENCE - 100 * listings.MILLISECOND)
    assert [job.read("0"), job.read("files 2")] == [[], []]
    assert [job.read("0"), job.read("0")] == [[], [10]], "but not for one that is blocked"


def test_a_closed_partition_is_not_awaited(tmp_path: Path) -> None:
    files = [begun(tmp_path / f"{name}.csv", i) for i, name in enumerate("ab")]
    job = Execution(tmp_path, partitions="2")
    job.look()
    for file in files:
        append(file, 9)
    job.clock.advance(listings.MILLISECOND * 100)
    assert [job.read("0"), job.read("0")] == [[], []]
    job.parts["files 1"].close()
    assert job.read("0") == [9]


def test_a_listing_is_repeated_to_miss_no_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may list b.csv, created meanwhile, and not a.csv, created before it."""
    begun(tmp_path / "a.csv", 1)
    begun(tmp_path / "b.csv", 2)
    whole, listed = listings.files_now, []

    def first_incomplete(path: Any) -> Any:
        files = whole(path)
        listed.append(len(files))
        return files[1:] if len(listed) == 1 else files

    monkeypatch.setattr(listings, "files_now", first_incomplete)
    job = Execution(tmp_path, partitions="2")
    assert job.look() == {"files 1": [2]}
    assert len(listed) == 2
    assert job.held() == ["0", "files 1"], "a.csv had no size yet, but holds back the watermark"
    assert job.look() == {"0": [1]}
    assert len(listed) == 3, "without changes once"


def test_rows_are_read_up_to_the_size_before_the_last_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is appended to a.csv while the path is listed may be later than one of b.csv,
    which the listing does not have."""
    first = begun(tmp_path / "a.csv", 1)
    job = Execution(tmp_path, partitions="2")
    assert job.look() == {"0": [1]}
    append(first, 5)
    whole, listed = listings.files_now, []

    def written_after(path: Any) -> Any:
        files = whole(path)
        listed.append(len(files))
        if len(listed) == 2:
            begun(tmp_path / "b.csv", 6)
            append(first, 7)
        return files

    monkeypatch.setattr(listings, "files_now", written_after)
    assert job.look() == {"0": [5]}
    assert listed == [1, 1]
    assert job.look() == {"0": [7], "files 1": [6]}


def test_a_listing_is_published_when_its_partitions_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread reads the listing without the lock, and must not finish a file before."""
    begun(tmp_path / "a.csv", 1)
    job = Execution(tmp_path, partitions="2")
    job.look()
    begun(tmp_path / "b.csv", 2)
    awaiting, published = FollowedPath._await, []

    def awaited(path: FollowedPath, partitions: set[int], now: int) -> None:
        assert path.listing is not None
        published.append(path.listing.number)
        awaiting(path, partitions, now)

    monkeypatch.setattr(FollowedPath, "_await", awaited)
    assert job.look() == {"files 1": [2]}
    assert published == [1]


def test_a_single_file_has_one_partition(tmp_path: Path) -> None:
    job = Execution(begun(tmp_path / "a.csv", 1))
    assert job.look() == {"0": [1]}
    assert len(job.parts) == 1
    assert job.pauses["0"].is_idle
    assert not job.pauses["0"].is_finished


def test_the_number_of_partitions_is_an_option(tmp_path: Path) -> None:
    assert len(Execution(tmp_path, partitions="5").parts) == 5
    with pytest.raises(ProgrammingError, match='option "partitions" is for followed files'):
        mapping(tmp_path, COLUMNS, format="csv", partitions="5")
    for wrong in ("0", "1025", "many"):
        with pytest.raises(ProgrammingError, match="partitions"):
            mapping(tmp_path, COLUMNS, format="csv", follow="true", partitions=wrong)
