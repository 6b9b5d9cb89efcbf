"""Places in a followed table: where a job goes on, where what comes next is gone, and reading up to
a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel.connector import END, Pause, ScanRequest, SourcePartition
from runnel.connectors.lake.follow import LakeFollowPartition
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import ExpiredPosition
from tests.connectors.conformance import job_context
from tests.connectors.lake.delta.test_delta import deltalake, opened


def write(path: Path, ids: list[int]) -> None:
    deltalake.write_deltalake(str(path), pa.table({"id": ids}), mode="append")


def partition(path: Path, **options: str) -> LakeFollowPartition:
    table: Any = opened(path, (), follow="true", **options)
    [part] = table.scan(ScanRequest((0,))).split(job_context())
    assert isinstance(part, LakeFollowPartition)
    return part


def read(part: SourcePartition, most: int = 100) -> list[int]:
    """The rows up to a pause or the end, of so many batches at most."""
    found: list[int] = []
    for _ in range(most):
        batch = part.read()
        if batch is END or isinstance(batch, Pause):
            break
        found += batch.column(0).to_pylist()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of one version with two large files' worth of rows in one file, and three versions of
    one row."""
    place = tmp_path / "t"
    write(place, list(range(200_000)))
    for i in range(3):
        write(place, [-i])
    return place


def test_reading_goes_on_at_every_place(path: Path) -> None:
    whole = read(partition(path, version="0"))
    assert (len(whole), whole[-3:]) == (200_003, [0, -1, -2])
    part = partition(path, version="0")
    places = [part.position()]
    counts = [0]
    while not isinstance(batch := part.read(), Pause):
        assert isinstance(batch, pa.RecordBatch)
        counts.append(counts[-1] + batch.num_rows)
        places.append(part.position())
    for place, count in zip(places, counts, strict=True):
        assert place is not None
        other = partition(path)
        other.seek(place)
        assert other.position() == place
        assert read(other) == whole[count:], place


def test_reading_ends_at_every_place(path: Path) -> None:
    whole = read(partition(path, version="0"))
    part = partition(path, version="0")
    count = 0
    while True:
        place = part.position()
        assert place is not None
        again = partition(path)
        again.stop_at(place)
        assert read(again) == whole[:count], place
        assert again.read() is END
        batch = part.read()
        if isinstance(batch, Pause):
            break
        assert isinstance(batch, pa.RecordBatch)
        count += batch.num_rows
    cut = partition(path)
    cut.stop_at({"from": 0, "version": 0, "first": True, "file": 0, "path": None, "rows": 70_001})
    assert read(cut) == whole[:70_001]


@pytest.mark.parametrize(
    ("choice", "rows"), [(ExpiredPosition.EARLIEST, [-2]), (ExpiredPosition.LATEST, [])]
)
def test_a_job_may_go_on_behind_a_gap(path: Path, choice: ExpiredPosition, rows: list[int]) -> None:
    part = partition(path, version="0")
    place = None
    while not isinstance(part.read(), Pause):
        place = place or part.position()
    assert place is not None
    deltalake.DeltaTable(str(path)).create_checkpoint()
    for version in range(3):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    other = partition(path)
    other.seek({"from": 0, "version": 1, "first": False, "file": 0, "path": None, "rows": 0})
    with pytest.raises(OperationalError, match="no longer has version 1") as caught:
        other.read()
    assert caught.value.code is ErrorCode.POSITION_EXPIRED
    assert "version 3" in other.skip_to(choice).position
    assert read(other) == rows
    write(path, [7])
    later = partition(path)
    later.seek(other.position() or {})
    assert read(later) == [7]


@pytest.mark.parametrize(
    ("choice", "rows"), [(ExpiredPosition.EARLIEST, [-1, -2]), (ExpiredPosition.LATEST, [])]
)
def test_a_job_may_go_on_behind_a_file_that_was_cleaned_away(
    path: Path, choice: ExpiredPosition, rows: list[int]
) -> None:
    part = partition(path, version="0")
    log = (path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    [added] = [action["add"] for action in map(json.loads, log) if "add" in action]
    (path / added["path"]).unlink()
    with pytest.raises(
        OperationalError, match='of version 1 of the table of mapping "t" is gone'
    ) as caught:
        read(part)
    assert caught.value.code is ErrorCode.POSITION_EXPIRED
    part.skip_to(choice)
    assert read(part) == rows
