"""The watermarks of a followed folder at lag 0: no row is late, whatever the order of events.

Writers append rows and rotate their files between the steps of a simulation. Each row of a series
has a later time than the one before. Each series has a folder, because a file is finished by the
next file of its folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.connector import EventTimeMark, SourcePartition
from runnel.connectors.files.follow.partition import BEGUN
from tests.connectors.files.follow.followers import Execution
from tests.connectors.files.follow.simulated import (
    Connect,
    Crowded,
    Ordered,
    Run,
    Setup,
    Timed,
    by_two_inputs,
    by_ways,
    directly,
)
from tests.effort import ALL, drawn

SEEDS = range(100) if ALL else range(6)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("connect", [directly, by_ways, by_two_inputs])
def test_no_row_of_a_rotated_series_is_late(
    tmp_path: Path, connect: Connect, parallelism: int
) -> None:
    for seed in drawn(range(100), 50):
        job = Run(tmp_path, Setup(seed, connect, parallelism))
        job.run(40)
        job.stop()
        assert job.late == [], (seed, job.late[:5])


@pytest.mark.parametrize("connect", [directly, by_ways, by_two_inputs])
def test_no_row_of_a_new_series_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    """A program begins between two checks of the folder, and its first row is earlier than rows
    that another program appends before the second check."""
    for seed in drawn(range(200), 20 if connect is directly else 60):
        job = Ordered(tmp_path, Setup(seed, connect))
        run(job, monkeypatch)
        assert job.late == [], (seed, job.late[:5])


@pytest.mark.parametrize("kind", [Run, Ordered])
def test_no_row_is_late_in_a_job_that_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Run]
) -> None:
    """From its last snapshot, each time with another number of processors."""
    restarts = 0
    for seed in SEEDS if kind is Ordered else SEEDS[::3]:
        job = kind(tmp_path, Setup(seed, snapshots=True))
        run(job, monkeypatch)
        assert job.late == [], (seed, job.late[:5])
        restarts += job.restarts
    assert restarts


def test_no_row_is_late_after_all_files_were_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in SEEDS:
        job = Ordered(tmp_path, Setup(seed))
        with monkeypatch.context() as patched:
            job.patch(patched)
            for _ in range(3):
                job.run(10)
                job.delete_all()
                job.settle(job.now)
        job.stop()
        assert job.late == [], (seed, job.late[:5])


def test_a_file_without_rows_is_left_out_after_the_idle_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in SEEDS:
        job = Timed(tmp_path, Setup(seed, idle_timeout=5_000))
        run(job, monkeypatch)
        assert job.late == [], (seed, job.late[:5])


@pytest.mark.parametrize("snapshots", [False, True])
def test_files_that_share_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: bool
) -> None:
    """Each row comes once, and in the end the watermark of the last files."""
    for seed in SEEDS:
        run(Crowded(tmp_path, Setup(seed, partitions=2, snapshots=snapshots)), monkeypatch)


def run(job: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        if isinstance(job, Ordered):
            job.patch(patched)
        job.run(60)
    job.stop()


def test_a_finished_file_is_finished_in_the_position(tmp_path: Path) -> None:
    """After a restart a new file begins in a partition whose files are finished, and the earlier
    watermark of that partition is void."""
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n{number},x\n")
    first = Execution(tmp_path, partitions="4")
    first.look()
    first.look()
    assert first.held() == ["files 2"]
    tokens = first.positions()
    finished = [
        position.get("is_finished")
        for token in tokens.values()
        for position in token["files"].values()
    ]
    assert finished == [True, True, None]
    (tmp_path / "d.csv").write_text("id,name\n3,x\n")
    (tmp_path / "e.csv").write_text("id,name\n4,x\n")
    with (tmp_path / "b.csv").open("a") as file:
        file.write("5,x\n")
    second = Execution(tmp_path, first.clock, tokens, partitions="4")
    marks = {name: _mark(part) for name, part in second.parts.items()}
    assert marks == {"0": BEGUN, "files 1": BEGUN, "files 2": None, "files 3": BEGUN}
    assert second.look() == {"0": [3], "files 1": [5], "files 3": [4]}


def _mark(part: SourcePartition) -> EventTimeMark | None:
    for _ in range(3):
        item = part.read()
        if isinstance(item, EventTimeMark):
            return item
    return None
