"""The life of named jobs, without SQL: states, snapshots, failures, restarts, what a directory
keeps."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import (
    DataError,
    Error,
    ErrorCode,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from runnel.named_jobs.listeners import StatusChange
from runnel.named_jobs.named_job import NamedJob
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import ENDED, TRANSITIONS
from runnel.named_jobs.run import PreparedJob
from runnel.processor import Guarantee
from runnel.runtime.light_job import JobStatus
from tests.jobs.named import PATIENCE, SECOND, Bench, World
from tests.waiting import eventually

RUNNING, SUSPENDED, FAILED, COMPLETED = (
    JobStatus.RUNNING,
    JobStatus.SUSPENDED,
    JobStatus.FAILED,
    JobStatus.COMPLETED,
)


@pytest.fixture
def bench() -> Iterator[Bench]:
    before = threading.active_count()
    made = Bench()
    yield made
    made.close()
    assert threading.active_count() <= before, "a thread was left running"


def snapshot(bench: Bench, job: NamedJob) -> None:
    """Has the next regular snapshot taken."""
    before = job.last_snapshot
    bench.clock.advance(job.record.options.snapshot_interval * 1_000_000)
    assert eventually(lambda: job.last_snapshot is not before)


def restarted_after(bench: Bench, job: NamedJob, seconds: float) -> None:
    """The job waits for its restart, and is restarted after so long, and no sooner."""
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    before = job.record.restarts
    bench.clock.advance(round(seconds * SECOND) - 1)
    assert job.status is JobStatus.NOT_RUNNING
    bench.clock.advance(1)
    assert job.await_status(RUNNING, PATIENCE)
    assert job.record.restarts == before + 1


def test_a_job_with_an_end_completes(bench: Bench) -> None:
    bench.world.give(5, ends=True)
    job = bench.create(query="bounded")
    job.join(PATIENCE)
    assert bench.world.rows == [0, 1, 2, 3, 4]
    assert job.status is COMPLETED and job.is_done and job.error is None
    assert (job.rows_in, job.rows_out) == (5, 5)


def test_snapshots_are_taken_at_intervals_and_commit(bench: Bench) -> None:
    job = bench.create(snapshot_interval=5000)
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    bench.clock.advance(4_999_999_999)
    assert job.last_snapshot is None and bench.world.rows == []
    bench.clock.advance(1)
    assert eventually(lambda: bench.world.rows == [0, 1, 2])
    bench.world.give(4)
    assert eventually(lambda: job.rows_out == 4)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3])
    assert job.last_snapshot is not None and job.last_snapshot.is_safe


def test_where_nothing_came_no_snapshot_is_taken(bench: Bench) -> None:
    job = bench.create(snapshot_interval=1000)
    bench.clock.advance(SECOND)
    assert eventually(lambda: job.last_snapshot is not None and job.last_snapshot.snapshot_id == 1)
    for _ in range(5):
        bench.clock.advance(SECOND)
    bench.world.give(2)
    assert eventually(lambda: job.rows_out == 2)
    bench.clock.advance(SECOND)
    assert eventually(lambda: bench.world.rows == [0, 1])
    assert job.last_snapshot is not None and job.last_snapshot.snapshot_id == 2


def test_no_snapshots_without_a_guarantee(bench: Bench) -> None:
    job = bench.create(guarantee=Guarantee.NONE)
    bench.world.give(2)
    assert eventually(lambda: job.rows_out == 2)
    bench.clock.advance(3600 * SECOND)
    assert job.last_snapshot is None
    bench.world.give(3, ends=True)
    job.join(PATIENCE)
    assert bench.world.rows == [0, 1, 2]


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_suspended_and_resumed_nothing_is_lost(bench: Bench, guarantee: Guarantee) -> None:
    job = bench.create(guarantee=guarantee)
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    job.suspend(PATIENCE)
    assert job.status is SUSPENDED and job.execution is None
    assert job.metrics()["keep"].rows_in == 3, "the metrics of the last execution remain"
    assert bench.world.rows == [0, 1, 2]
    bench.world.give(6, ends=True)
    job.resume()
    job.join(PATIENCE)
    assert bench.world.starts == [3]
    assert bench.world.rows == [0, 1, 2, 3, 4, 5]


def test_a_listener_that_waits_holds_up_no_job(bench: Bench) -> None:
    """Jobs go on while it stands still; it hears of what came meanwhile when it is done."""
    raised: list[Error] = []
    heard: list[Any] = []
    job, other = bench.create(), bench.create("k")

    def waiting(change: StatusChange) -> None:
        heard.append(change.new)
        try:
            job.join()
        except Error as error:
            raised.append(error)

    job.add_listener(waiting)
    job.restart(PATIENCE)
    other.suspend(PATIENCE)
    assert len(heard) <= 1 and not raised
    job.cancel(PATIENCE)
    assert eventually(lambda: bool(heard) and heard[-1] is FAILED and len(raised) == len(heard))
    assert all("was cancelled" in str(error) for error in raised)


def test_a_listener_that_never_returns_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.named_jobs.registry.LISTENING", 0.01)
    stands, free = threading.Event(), threading.Event()
    bench = Bench(tmp_path)
    job = bench.create()
    job.add_listener(lambda change: stands.set() or free.wait())
    job.suspend(PATIENCE)
    assert stands.wait(PATIENCE)
    bench.close()
    free.set()


def test_a_restart_that_the_connection_s_end_overtakes_starts_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    job = bench.create()
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    go_on = threading.Event()
    bench.named.executor.post(lambda: go_on.wait(PATIENCE))
    raised: list[Error] = []

    def restart() -> None:
        try:
            job.restart(PATIENCE)
        except Error as error:
            raised.append(error)

    restarting = threading.Thread(target=restart)
    restarting.start()
    assert eventually(lambda: job.status is JobStatus.COMPLETING)
    closing = threading.Thread(target=bench.close)
    closing.start()
    assert eventually(lambda: bench.named.is_closing)
    go_on.set()
    closing.join(PATIENCE)
    restarting.join(PATIENCE)
    assert [str(error) for error in raised] and isinstance(raised[0], InterfaceError)
    assert job.record.restarts == 0 and bench.world.rows == [0, 1, 2]
    again = Bench(tmp_path, bench.world)
    (job,) = again.named.all()
    assert job.status is RUNNING and bench.world.starts == [3]
    again.close()


def test_a_job_takes_the_name_of_one_that_is_being_cleaned_up(bench: Bench) -> None:
    job = bench.create()
    planning, go_on = threading.Event(), threading.Event()
    prepare = bench.named.prepare

    def slow(record: JobRecord) -> PreparedJob:
        if record.id == job.id:
            planning.set()
            assert go_on.wait(PATIENCE)
            assert job in bench.named.all()
        return prepare(record)

    bench.named.prepare = slow
    job.cancel(PATIENCE)
    assert planning.wait(PATIENCE)
    made: list[NamedJob] = []
    creating = threading.Thread(target=lambda: made.append(bench.create()))
    creating.start()
    assert eventually(lambda: bool(bench.world.wakes)), "it runs"
    go_on.set()
    creating.join(PATIENCE)
    assert not creating.is_alive()
    assert bench.named.all() == made


def test_restart_goes_on_from_a_last_snapshot(bench: Bench) -> None:
    job = bench.create()
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    job.restart(PATIENCE)
    assert job.status is RUNNING and job.record.restarts == 1
    assert bench.world.rows == [0, 1, 2]
    assert eventually(lambda: bench.world.starts == [3])


def test_cancelled_it_has_failed_and_says_by_whom(bench: Bench) -> None:
    job = bench.create()
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    job.cancel(PATIENCE)
    assert job.status is FAILED and job.record.is_user_cancelled
    assert bench.world.rows == []
    with pytest.raises(OperationalError, match="was cancelled"):
        job.join(PATIENCE)


def test_a_failure_that_may_pass_is_tried_again_from_the_last_snapshot(bench: Bench) -> None:
    job = bench.create()
    bench.world.give(3)
    assert eventually(lambda: job.rows_out == 3)
    snapshot(bench, job)
    bench.world.give(5)
    assert eventually(lambda: job.rows_out == 5)
    bench.world.fail(OperationalError("the source is down"))
    restarted_after(bench, job, 1)
    assert eventually(lambda: bench.world.starts == [3])
    assert job.error is not None and job.error.message == "the source is down"
    assert eventually(lambda: job.rows_out == 2)
    snapshot(bench, job)
    assert eventually(lambda: bench.world.rows == [0, 1, 2, 3, 4])


def test_the_delay_doubles_until_a_snapshot_succeeds(bench: Bench) -> None:
    job = bench.create(snapshot_interval=3_600_000)
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        bench.world.fail(OperationalError("the source is down"))
        restarted_after(bench, job, seconds)
    snapshot(bench, job)
    bench.world.fail(OperationalError("the source is down"))
    restarted_after(bench, job, 1)


def test_a_job_with_an_end_is_not_tried_for_ever(bench: Bench) -> None:
    job = bench.create(query="bounded")
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60, 60):
        bench.world.fail(OperationalError("the source is down"))
        restarted_after(bench, job, seconds)
    bench.world.fail(OperationalError("the source is down"))
    with pytest.raises(OperationalError, match="the source is down"):
        job.join(PATIENCE)
    assert job.status is FAILED and not job.record.is_user_cancelled


def test_without_a_guarantee_a_job_with_an_end_is_not_tried_again(bench: Bench) -> None:
    job = bench.create(query="bounded", guarantee=Guarantee.NONE)
    bench.world.fail(OperationalError("the source is down"))
    assert job.wait(PATIENCE) and job.status is FAILED


@pytest.mark.parametrize(
    ("query", "option", "status"),
    [
        ("endless", None, SUSPENDED),
        ("endless", False, FAILED),
        ("bounded", None, FAILED),
        ("bounded", True, SUSPENDED),
    ],
)
def test_a_failure_that_would_come_again(
    bench: Bench, query: str, option: bool | None, status: JobStatus
) -> None:
    job = bench.create(query=query, suspend_on_failure=option)
    bench.world.fail(DataError("division by zero"))
    assert job.await_status(status, PATIENCE)
    assert isinstance(job.error, DataError) and job.error.message == "division by zero"
    assert job.error.detail == 'in vertex "count"'
    assert job.record.restarts == 0
    if status is SUSPENDED:
        bench.world.give(2, ends=True)
        job.resume()
        job.join(PATIENCE)
        assert bench.world.rows == [0, 1]


def test_suspended_while_it_waits_for_a_restart(bench: Bench) -> None:
    job = bench.create()
    bench.world.fail(OperationalError("the source is down"))
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    job.suspend(PATIENCE)
    assert job.status is SUSPENDED
    bench.clock.advance(100 * SECOND)
    assert job.status is SUSPENDED


def test_restarted_by_hand_while_it_waits_for_a_restart(bench: Bench) -> None:
    job = bench.create()
    bench.world.fail(OperationalError("the source is down"))
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    job.restart(PATIENCE)
    assert job.status is RUNNING


def test_a_job_that_cannot_be_resumed_stays_suspended(bench: Bench) -> None:
    job = bench.create()
    job.suspend(PATIENCE)
    bench.refusals.append(ProgrammingError('mapping "m" not found'))
    with pytest.raises(ProgrammingError, match='mapping "m" not found'):
        job.resume()
    assert job.status is SUSPENDED and isinstance(job.error, ProgrammingError)
    job.resume()
    assert job.status is RUNNING


def test_one_that_cannot_be_started_is_not_there(bench: Bench) -> None:
    bench.refusals.append(ProgrammingError('mapping "m" not found'))
    with pytest.raises(ProgrammingError, match='mapping "m" not found'):
        bench.create()
    assert bench.named.all() == []


def test_names_are_of_one_job_that_has_not_ended(bench: Bench) -> None:
    first = bench.create("Night")
    with pytest.raises(ProgrammingError, match='job "Night" exists already'):
        bench.create("night")
    first.cancel(PATIENCE)
    second = bench.create("night")
    assert bench.named.all() == [second]
    with pytest.raises(ProgrammingError, match='job "nigth" not found') as caught:
        bench.named.get("nigth")
    assert (
        caught.value.hint == 'did you mean "night"?'
        and caught.value.code is ErrorCode.OBJECT_NOT_FOUND
    )


ACTIONS = {
    "suspend": lambda job: job.suspend(PATIENCE),
    "resume": lambda job: job.resume(),
    "restart": lambda job: job.restart(PATIENCE),
    "cancel": lambda job: job.cancel(PATIENCE),
    "export": lambda job: job.export_snapshot("s", PATIENCE),
    "change": lambda job: job.change(zone="CET"),
}
REFUSED = {
    SUSPENDED: {"suspend", "restart"},
    RUNNING: {"change"},
    FAILED: set(ACTIONS),
    COMPLETED: set(ACTIONS),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", REFUSED)
def test_each_action_in_each_state(bench: Bench, action: str, status: JobStatus) -> None:
    job = bench.create()
    if status is SUSPENDED:
        job.suspend(PATIENCE)
    elif status is FAILED:
        job.cancel(PATIENCE)
    elif status is COMPLETED:
        bench.world.give(0, ends=True)
        job.join(PATIENCE)
    before = job.record
    if action in REFUSED[status]:
        with pytest.raises(OperationalError) as caught:
            ACTIONS[action](job)
        assert str(status) in f"{caught.value.message} {caught.value.detail}"
        assert job.record == before
    else:
        ACTIONS[action](job)


def test_nothing_leads_out_of_the_end() -> None:
    assert all(not TRANSITIONS[status] for status in ENDED)
    assert set(TRANSITIONS) == set(JobStatus)


def test_listeners_hear_all_changes_in_order(bench: Bench) -> None:
    heard: list[StatusChange] = []
    job = bench.create()
    job.add_listener(heard.append)
    job.suspend(PATIENCE)
    job.resume()
    bench.world.give(1, ends=True)
    job.join(PATIENCE)
    assert eventually(lambda: bool(heard) and heard[-1].new is COMPLETED)
    assert [str(change.new) for change in heard] == [
        *("COMPLETING", "SUSPENDED", "NOT_RUNNING", "STARTING", "RUNNING", "COMPLETED")
    ]
    assert [change.old for change in heard[1:]] == [change.new for change in heard[:-1]]
    assert [change.is_user_requested for change in heard] == [
        True,
        False,
        True,
        False,
        False,
        False,
    ]


def test_a_listener_that_fails_harms_nobody(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def bad(change: StatusChange) -> None:
        raise ValueError("boom")

    heard: list[Any] = []
    job = bench.create()
    job.add_listener(bad)
    job.add_listener(heard.append)
    job.suspend(PATIENCE)
    assert eventually(lambda: len(heard) == 2)
    assert 'a listener of job "j" failed' in "\n".join(caplog.messages)


def test_a_listener_may_act_on_the_job(bench: Bench) -> None:
    job = bench.create()
    job.add_listener(lambda change: job.resume() if change.new is SUSPENDED else None)
    bench.world.give(2)
    assert eventually(lambda: job.rows_out == 2)
    job.suspend(PATIENCE)
    assert eventually(lambda: bench.world.starts == [2])
    assert job.await_status(RUNNING, PATIENCE)


def test_exported_snapshots_begin_other_jobs(bench: Bench) -> None:
    job = bench.create()
    bench.world.give(4)
    assert eventually(lambda: job.rows_out == 4)
    job.export_snapshot("four", PATIENCE)
    assert job.status is RUNNING and bench.world.rows == [0, 1, 2, 3]
    (found,) = bench.named.snapshots.all()
    assert (found.name, found.job, found.query, found.rows) == ("four", "j", "endless", 6)
    other = bench.create("k", initial_snapshot="Four", guarantee=Guarantee.NONE)
    assert eventually(lambda: bench.world.starts == [4])
    other.cancel(PATIENCE)
    bench.named.snapshots.drop("FOUR")
    with pytest.raises(ProgrammingError, match='snapshot "four" not found'):
        bench.create("l", initial_snapshot="four")


def test_cancel_and_export(bench: Bench) -> None:
    job = bench.create()
    bench.world.give(2)
    assert eventually(lambda: job.rows_out == 2)
    job.cancel_and_export_snapshot("last", PATIENCE)
    assert job.status is FAILED and job.record.is_user_cancelled
    assert bench.world.rows == [0, 1]
    assert bench.named.snapshots.get("last").rows == 4


def test_a_directory_keeps_jobs(tmp_path: Path) -> None:
    world = World()
    first = Bench(tmp_path, world)
    running = first.create("running", snapshot_interval=1000)
    world.give(3)
    assert eventually(lambda: running.rows_out == 3)
    first.create("stopped").suspend(PATIENCE)
    first.create("gone").cancel(PATIENCE)
    first.close()
    assert set(world.rows) == {0, 1, 2}
    world.starts.clear()
    second = Bench(tmp_path, world)
    try:
        statuses = {job.name: job.status for job in second.named.all()}
        assert statuses == {"running": RUNNING, "stopped": SUSPENDED, "gone": FAILED}
        assert eventually(lambda: world.starts == [3])
        assert second.named.get("gone").record.is_user_cancelled
        assert second.named.get("running").record.options.snapshot_interval == 1000
        assert second.named.get("running").id == running.id
    finally:
        second.close()


def test_a_job_that_cannot_start_when_reopened_says_why(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.create()
    first.close()
    record = next((tmp_path / "jobs").glob("*/job.json"))
    assert json.loads(record.read_text())["status"] == "NOT_RUNNING"
    second = Bench(tmp_path, refusals=[ProgrammingError('stream "s" not found')])
    try:
        (job,) = second.named.all()
        assert (
            job.status is SUSPENDED
            and job.error is not None
            and job.error.message == 'stream "s" not found'
        )
        job.resume()
        assert job.status is RUNNING
    finally:
        second.close()


def test_what_a_crash_left_half_made_goes(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "17" / "snapshots").mkdir(parents=True)
    bench = Bench(tmp_path)
    assert bench.named.all() == [] and list((tmp_path / "jobs").iterdir()) == []
    bench.close()


def test_a_record_that_is_damaged_is_told_and_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "jobs" / "17" / "job.json"
    place.parent.mkdir(parents=True)
    place.write_text("{")
    bench = Bench(tmp_path)
    assert bench.named.all() == [] and place.exists()
    assert str(place) in "\n".join(caplog.messages)
    bench.close()


def test_removed_it_leaves_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    job = bench.create()
    job.cancel(PATIENCE)
    bench.named.remove(job)
    assert list((tmp_path / "jobs").iterdir()) == []
    bench.close()


def test_ended_jobs_are_forgotten_after_a_while(bench: Bench) -> None:
    bench.create("old", retention=1000).cancel(PATIENCE)
    bench.create("kept", retention=3000).cancel(PATIENCE)
    bench.clock.advance(2 * SECOND)
    bench.create("new")
    assert [job.name for job in bench.named.all()] == ["kept", "new"]


def test_what_keeps_a_job_from_starting_again_suspends_it(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.create(query="bounded")
    first.close()
    second = Bench(tmp_path, refusals=[ProgrammingError('table "t" not found')])
    try:
        assert second.named.get("j").status is SUSPENDED
    finally:
        second.close()


def test_a_restart_by_hand_that_cannot_be_leaves_no_job_in_between(bench: Bench) -> None:
    job = bench.create()
    bench.world.fail(OperationalError("the source is down"))
    assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    bench.refusals.append(ProgrammingError('mapping "m" not found'))
    with pytest.raises(ProgrammingError):
        job.restart(PATIENCE)
    assert job.status is SUSPENDED


def test_whoever_waits_for_a_job_hears_of_the_end_of_its_connection() -> None:
    bench = Bench()
    job = bench.create()
    heard: list[Error] = []

    def wait() -> None:
        try:
            job.join()
        except Error as error:
            heard.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    bench.close()
    waiting.join(PATIENCE)
    assert [error.message for error in heard] == ["the connection is closed"]
    with pytest.raises(InterfaceError, match="the connection is closed"):
        job.suspend()


def test_many_threads_at_one_job(bench: Bench) -> None:
    job = bench.create(snapshot_interval=1)
    actions = [*list(ACTIONS.values())[:3], lambda job: bench.clock.advance(1_000_000)]

    def act(number: int) -> None:
        for step in range(30):
            bench.world.give(number * 30 + step if number == 0 else bench.world.limit)
            with suppress(OperationalError):
                actions[(step + number) % len(actions)](job)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if job.status is SUSPENDED:
        job.resume()
    bench.world.give(40, ends=True)
    job.join(PATIENCE)
    assert bench.world.rows == list(range(40))


def test_a_disk_that_is_full_is_told_and_the_job_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    try:
        job = bench.create()
        place = bench.named.records.folder_of(job.id)
        assert place is not None

        def full(place: Path, text: str) -> None:
            raise OSError(28, "No space left on device")

        write, bench.named.records._write = bench.named.records._write, full  # type: ignore[method-assign]
        bench.world.give(2)
        assert eventually(lambda: job.rows_out == 2)
        job.suspend(PATIENCE)
        assert job.status is SUSPENDED and "No space left on device" in "\n".join(caplog.messages)
        with pytest.raises(OperationalError, match="record of job") as caught:
            job.change(zone="CET")
        assert caught.value.detail == "No space left on device" and job.record.zone == "UTC"
        with pytest.raises(OperationalError):
            bench.create("k")
        assert [item.name for item in bench.named.all()] == ["j"]
        bench.named.records._write = write  # type: ignore[method-assign]
        job.change(zone="CET")
        assert json.loads((place / "job.json").read_text())["status"] == "SUSPENDED"
    finally:
        bench.close()


def test_snapshots_that_fail_are_told_and_what_they_hold_comes_with_the_next(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    try:
        job = bench.create(snapshot_interval=1000)
        place = bench.named.records.folder_of(job.id)
        assert place is not None
        (place / "snapshots").write_text("no folder")
        bench.world.give(2)
        assert eventually(lambda: job.rows_out == 2)
        bench.clock.advance(SECOND)
        assert eventually(lambda: job.last_report is not None)
        assert job.status is RUNNING and job.last_snapshot is None and bench.world.rows == []
        assert (job.last_trouble or "").startswith("snapshot 1 failed: ")
        (place / "snapshots").unlink()
        bench.clock.advance(SECOND)
        assert eventually(lambda: bench.world.rows == [0, 1])
        assert job.last_trouble is None
    finally:
        bench.close()


def test_a_last_snapshot_that_fails_is_told_and_the_one_before_is_used(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        job = bench.create()
        place = bench.named.records.folder_of(job.id)
        assert place is not None
        bench.world.give(2)
        assert eventually(lambda: job.rows_out == 2)
        (place / "snapshots").write_text("no folder")
        job.suspend(PATIENCE)
        assert job.status is SUSPENDED
        assert (job.last_trouble or "").startswith(
            "the last snapshot failed, so the one before it is used"
        )
        (place / "snapshots").unlink()
        job.resume()
        assert eventually(lambda: job.rows_out == 2)
        job.suspend(PATIENCE)
        assert bench.world.rows == [0, 1]
    finally:
        bench.close()
