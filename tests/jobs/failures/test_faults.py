"""Jobs in trouble: disks that are full or forget, sources and sinks that are down or slow, clocks
that go back. Whatever comes, in the end each row is committed once, and what the job says of itself
is true meanwhile."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.errors import OperationalError
from runnel.named_jobs.named_job import NamedJob
from runnel.processor import Guarantee, Inbox
from runnel.runtime.light_job import JobStatus
from runnel.snapshots.disk import Disk
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.snapshots.manifest import NAME, read_manifest
from tests.jobs.named import PATIENCE, SECOND, Bench, Keeper, World
from tests.waiting import eventually

RUNNING, SUSPENDED, COMPLETED = JobStatus.RUNNING, JobStatus.SUSPENDED, JobStatus.COMPLETED
NOT_RUNNING = JobStatus.NOT_RUNNING


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def seen(bench: Bench, job: NamedJob, limit: int) -> None:
    """The source gives the numbers below the limit, and the sink has them all."""
    first = max((row + 1 for row in bench.world.rows), default=0)
    bench.world.give(limit)
    assert eventually(lambda: last_given(job) == limit), (first, limit, job.rows_out)


def last_given(job: NamedJob) -> int:
    """One more than the last number that came to the sink."""
    execution = job.execution
    if execution is None:
        return -1
    (keeper,) = (item.processor for item in execution.execution.tasklets if item.vertex == "keep")
    assert isinstance(keeper, Keeper)
    return (
        max((*keeper.got, *keeper.staged, *keeper.world.committed.get(str(job.id), ())), default=-1)
        + 1
    )


def snapshot(bench: Bench, job: NamedJob) -> None:
    """Has the next regular snapshot taken, whatever becomes of it."""
    before = job.last_report
    bench.clock.advance(job.record.options.snapshot_interval * 1_000_000)

    def decided() -> bool:
        bench.clock.advance(
            1
        )  # the one before may just have been done, so that this one is due at once
        return job.last_report is not before

    assert eventually(decided)


def folder(bench: Bench, job: NamedJob) -> Path:
    place = bench.named.records.folder_of(job.id)
    assert place is not None
    return place / "snapshots"


def restarted(bench: Bench, job: NamedJob, seconds: float = 1) -> None:
    """The job waits for its restart, and gets it."""
    assert job.await_status(NOT_RUNNING, PATIENCE)
    bench.clock.advance(round(seconds * SECOND))
    assert job.await_status(RUNNING, PATIENCE)


def down(bench: Bench, job: NamedJob) -> None:
    """The source is away for a moment, so that the job is restarted."""
    bench.world.fail(OperationalError("the source is down"))
    restarted(bench, job)


# Disks


class FullDisk(Disk):
    """Each call of one operation fails, until there is room again."""

    def __init__(self, operation: str, number: int = errno.ENOSPC) -> None:
        self.is_full = True

        def fails(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if self.is_full:
                    raise OSError(number, os.strerror(number))
                return method(*arguments)

            return call

        setattr(self, operation, fails(getattr(self, operation)))


OPERATIONS = ("make_folder", "create", "write", "sync", "sync_folder", "rename")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("crashes", [False, True])
def test_a_full_disk_holds_back_rows_and_loses_none(
    bench: Bench, operation: str, crashes: bool
) -> None:
    job = bench.create(snapshot_interval=1000)
    seen(bench, job, 2)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1])
    assert isinstance(job.store, FileSnapshotStore)
    job.store._disk = disk = FullDisk(operation)
    for limit in (4, 6):
        seen(bench, job, limit)
        snapshot(bench, job)
        assert job.status is RUNNING and bench.world.rows == [0, 1]
        assert "can't be written" in (job.last_trouble or "") and "No space left on device" in (
            job.last_trouble or ""
        )
        assert job.last_snapshot is not None and job.last_snapshot.snapshot_id == 1
    if crashes:
        down(bench, job)
        assert eventually(lambda: bench.world.starts == [2] and last_given(job) == 6)
        assert job.record.restarts == 1
    disk.is_full = False
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3, 4, 5])
    assert job.last_snapshot is not None and job.last_snapshot.snapshot_id > 1
    if not crashes:
        assert job.last_trouble is None


def test_old_snapshots_that_cant_be_removed_harm_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    job = bench.create(snapshot_interval=1000)
    assert isinstance(job.store, FileSnapshotStore)
    job.store._disk = FullDisk("remove", errno.EACCES)
    for limit in range(1, 6):
        seen(bench, job, limit)
        snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3, 4])
    assert "can't be removed: " in "\n".join(caplog.messages)
    down(bench, job)
    assert bench.world.starts == [5]


class Records:
    """Records of jobs can't be written while `is_full`."""

    def __init__(self, bench: Bench, number: int = errno.ENOSPC) -> None:
        self.is_full = True
        write = bench.named.records._write

        def full(place: Path, text: str) -> None:
            if self.is_full:
                raise OSError(number, os.strerror(number))
            write(place, text)

        bench.named.records._write = full  # type: ignore[method-assign]


def test_an_end_that_cant_be_kept_is_not_forgotten(tmp_path: Path) -> None:
    """The next connection finds the record of a job that runs: it must find its last snapshot
    too."""
    world = World()
    bench = Bench(tmp_path, world)
    job = bench.create(query="bounded")
    records = Records(bench, errno.EROFS)
    world.give(5, ends=True)
    job.join(PATIENCE)
    assert job.status is COMPLETED and world.rows == [0, 1, 2, 3, 4]
    assert "can't be written (Read-only file system)" in (job.last_trouble or "")
    bench.close()
    world.starts.clear()
    again = Bench(tmp_path, world)
    try:
        job = again.named.get("j")
        job.join(PATIENCE)
        assert job.status is COMPLETED and world.rows == [0, 1, 2, 3, 4]
        assert records.is_full and 0 not in world.starts
    finally:
        again.close()


def test_a_record_that_couldnt_be_written_is_written_later(bench: Bench) -> None:
    job = bench.create()
    records = Records(bench)
    job.cancel(PATIENCE)
    assert "No space left on device" in (job.last_trouble or "")
    records.is_full = False
    bench.clock.advance(60 * SECOND)
    assert eventually(lambda: job.last_trouble is None)
    (kept,) = bench.named.records.load()
    assert kept == job.record and kept.is_user_cancelled


def test_what_is_left_unwritten_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    job = bench.create()
    records = Records(bench)
    job.suspend(PATIENCE)
    records.is_full = False
    bench.close()
    again = Bench(tmp_path)
    try:
        assert again.named.get("j").status is SUSPENDED
    finally:
        again.close()


# Damage


def flip(path: Path) -> None:
    """One bit of what is counted: between the sections of a file is padding."""
    data = bytearray(path.read_bytes())
    place = len(data) // 2
    if path.name != NAME:
        section = read_manifest(path.parent).sections[-1]
        place = section.start + section.bytes // 2
    data[place] ^= 4
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit of the state": lambda place: flip(place / "state.arrows"),
    "a bit of the manifest": lambda place: flip(place / "manifest.json"),
    "half of the state": lambda place: os.truncate(
        place / "state.arrows", (place / "state.arrows").stat().st_size // 2
    ),
    "half of the manifest": lambda place: os.truncate(place / "manifest.json", 30),
    "an empty state": lambda place: os.truncate(place / "state.arrows", 0),
    "no manifest": lambda place: (place / "manifest.json").unlink(),
    "no state": lambda place: (place / "state.arrows").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reopens", [False, True])
def test_a_damaged_snapshot_is_told_and_the_one_before_used(
    tmp_path: Path, damage: str, reopens: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Both when the directory is opened and when a job is restarted by the process that wrote the
    snapshot."""
    world = World()
    bench = Bench(tmp_path, world)
    job = bench.create(snapshot_interval=1000)
    for limit in (2, 4):
        seen(bench, job, limit)
        snapshot(bench, job)
    assert eventually(lambda: world.rows == [0, 1, 2, 3])
    seen(bench, job, 5)
    if reopens:
        job.cancel = job.leave = lambda *_: None  # type: ignore[method-assign, assignment]
        job.wait_left(0)  # no last snapshot
        bench.close()
    DAMAGES[damage](folder(bench, job) / "2")
    with caplog.at_level(logging.WARNING):
        if reopens:
            bench = Bench(tmp_path, world)
            job = bench.named.get("j")
        else:
            down(bench, job)
    try:
        assert job.status is RUNNING and eventually(lambda: world.starts == [2])
        assert "snapshot 2 can't be used" in "\n".join(
            caplog.messages
        ) and "snapshot 1 is used instead" in "\n".join(caplog.messages)
        assert "snapshot 2 can't be used, so snapshot 1 is" in (job.last_trouble or "")
        assert eventually(lambda: last_given(job) == 5)
        snapshot(bench, job)
        assert eventually(lambda: world.rows == [0, 1, 2, 3, 4])
        assert job.last_snapshot is not None and job.last_snapshot.snapshot_id == 3
    finally:
        bench.close()


def test_where_all_are_damaged_the_job_waits_for_somebody(bench: Bench) -> None:
    """It neither starts anew nor tries for ever."""
    job = bench.create(snapshot_interval=1000)
    for limit in (2, 4):
        seen(bench, job, limit)
        snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3])
    sound = [(folder(bench, job) / name / "state.arrows") for name in ("1", "2")]
    backup = [path.read_bytes() for path in sound]
    for path in sound:
        flip(path)
    bench.world.fail(OperationalError("the source is down"))
    assert job.await_status(NOT_RUNNING, PATIENCE)
    bench.clock.advance(SECOND)
    assert job.await_status(SUSPENDED, PATIENCE)
    assert "none of the 2 snapshots" in (job.last_trouble or "")
    with pytest.raises(OperationalError, match="none of the 2 snapshots") as caught:
        job.resume()
    assert caught.value.hint is not None and "backup" in caught.value.hint
    assert job.status is SUSPENDED
    for path, content in zip(sound, backup, strict=True):
        path.write_bytes(content)
    bench.world.give(5)
    job.resume()
    assert eventually(lambda: bench.world.starts == [4] and last_given(job) == 5)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3, 4])


# What is away


@pytest.mark.parametrize("what", ["source", "sink"])
def test_away_for_a_minute(bench: Bench, what: str) -> None:
    """The job is tried again after 1, 2, 4, … seconds; all the time it says what it waits for."""
    job = bench.create(snapshot_interval=500)
    seen(bench, job, 3)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2])
    started = bench.clock.monotonic()
    for attempts, delay in enumerate((1, 2, 4, 8, 16, 32), 1):
        error = OperationalError(f"the {what} is down", detail=f"attempt {attempts}")
        if what == "source":
            bench.world.fail(error)
        else:
            bench.world.commit_failures.append(error)
            seen(bench, job, 4)
            bench.clock.advance(500_000_000)
        assert job.await_status(NOT_RUNNING, PATIENCE)
        assert job.last_trouble is not None and job.last_trouble.startswith(
            f"the {what} is down (attempt {attempts}"
        )
        assert job.execution is None and job.uptime is None
        bench.clock.advance((delay if what == "source" else 1) * SECOND - 1)
        assert job.status is NOT_RUNNING and job.record.restarts == attempts - 1
        bench.clock.advance(1)
        assert job.await_status(RUNNING, PATIENCE)
        assert job.record.restarts == attempts
    assert what == "sink" or bench.clock.monotonic() - started >= 60 * SECOND
    seen(bench, job, 6)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3, 4, 5])
    assert "is down" in (job.last_trouble or ""), "the last error stays to be seen"


class SlowKeeper(Keeper):
    """Takes a batch each second."""

    def init(self, outbox: Any, context: Any) -> None:
        super().init(outbox, context)
        self.ready_at = 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        now = self.context.job.clock()
        if now < self.ready_at:
            self.context.wake_at(self.ready_at)
            return
        batch = inbox.poll()
        if batch is not None:
            self.got += batch.column(0).to_pylist()
            self.ready_at = now + SECOND
            self.context.wake_at(self.ready_at)


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE])
def test_a_slow_sink_holds_the_source_back_and_snapshots_come_about(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    monkeypatch.setattr("tests.jobs.named.Keeper", SlowKeeper)
    job = bench.create(snapshot_interval=5000, guarantee=guarantee)
    rows = 1200
    bench.world.give(rows, ends=True)
    taken = set()

    def ended() -> bool:
        bench.clock.advance(SECOND)
        if job.last_snapshot is not None:
            taken.add(job.last_snapshot.snapshot_id)
        if job.rows_in == rows and bench.world.committed:
            return job.is_done
        assert job.is_done or job.rows_in - len(bench.world.rows) <= rows // 2 + len(
            bench.world.rows
        ), "nothing holds it back"
        return job.is_done

    assert eventually(ended, 60)
    assert job.status is COMPLETED and job.record.restarts == 0 and job.error is None
    assert bench.world.rows == list(range(rows))
    assert len(taken) >= 2


@pytest.mark.parametrize("reopens", [False, True])
def test_what_keeps_a_job_from_starting_and_may_pass_is_tried_again(
    tmp_path: Path, reopens: bool
) -> None:
    """A broker, or a disk, that is away when the job is to be restarted, or when its directory is
    opened."""
    world = World()
    bench = Bench(tmp_path, world)
    job = bench.create(snapshot_interval=1000)
    seen(bench, job, 2)
    snapshot(bench, job)
    assert eventually(lambda: world.rows == [0, 1])
    away = [
        OperationalError("no broker answers", detail=f"attempt {number}") for number in range(3)
    ]
    if reopens:
        bench.close()
        bench = Bench(tmp_path, world, away)
        job = bench.named.get("j")
        delays = (1, 2, 4)
    else:
        bench.refusals += away
        world.fail(OperationalError("the source is down"))
        assert job.await_status(NOT_RUNNING, PATIENCE)
        bench.clock.advance(SECOND)
        delays = (2, 4, 8)
    try:
        for number, delay in enumerate(delays):
            assert eventually(
                lambda n=number: job.last_trouble == f"no broker answers (attempt {n})"
            )  # type: ignore[misc]
            assert job.status is NOT_RUNNING and job.execution is None
            assert eventually(lambda: bool(bench.jobs.pool.timers))
            bench.clock.advance(delay * SECOND)
        assert job.await_status(RUNNING, PATIENCE)
        assert eventually(lambda: world.starts == [2])
        seen(bench, job, 4)
        snapshot(bench, job)
        assert eventually(lambda: world.rows == [0, 1, 2, 3])
    finally:
        bench.close()


def refused(message: str) -> Callable[..., None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError(message)

    return refuse


def test_a_suspension_that_can_t_be_kept_is_told_and_kept_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has failed, and now its record can't be written either."""
    job = bench.create()
    bench.world.fail(OperationalError("the source is down"))
    assert eventually(lambda: job.status is JobStatus.NOT_RUNNING)
    with monkeypatch.context() as patch:
        patch.setattr(bench.named.records, "save", refused("no room"))
        with pytest.raises(OperationalError, match="no room"):
            job.suspend(PATIENCE)
        assert job.status is JobStatus.SUSPENDED
        assert job.last_trouble == "no room"

    def kept() -> bool:
        bench.clock.advance(SECOND)
        return [record.status for record in bench.named.records.load()] == [JobStatus.SUSPENDED]

    assert eventually(kept)
    assert eventually(lambda: job.unsaved is None)
    assert job.error is not None and "the source is down" in job.error.message


def test_what_went_wrong_first_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.named.records, "save", refused("the first fault"))
    monkeypatch.setattr(bench.named.records, "remove", refused("the second fault"))
    with pytest.raises(OperationalError, match="the first fault"):
        bench.create()
    assert bench.named.all() == []


def test_a_new_query_that_fails_and_can_t_be_taken_back_tells_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with runnel.connect() as connection:
        options = "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
        connection.execute(f"CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap {options}")
        connection.execute(
            "CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(10))"
        )
        changes = [NamedJob.change, refused("the second fault")]

        def change(job: NamedJob, **given: Any) -> None:
            changes.pop(0)(job, **given)

        monkeypatch.setattr(NamedJob, "resume", refused("the first fault"))
        monkeypatch.setattr(NamedJob, "change", change)
        with pytest.raises(OperationalError, match="the first fault") as caught:
            connection.execute(
                "ALTER JOB j AS SINK INTO m SELECT v, v + 1 FROM TABLE(GENERATE_STREAM(10))"
            )
        assert "the job stays suspended, because it can't be resumed: the second fault" in (
            caught.value.detail or ""
        )
        assert connection.job("j").status is JobStatus.SUSPENDED
        monkeypatch.undo()
