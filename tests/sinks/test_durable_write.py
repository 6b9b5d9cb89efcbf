"""Writing at snapshots: whatever is killed when, each row is there once."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.dag import DAG
from runnel.errors import OperationalError
from runnel.processor import Guarantee
from runnel.processors.sinks import durable_write
from runnel.processors.sinks.durable_write import DurableWrite
from runnel.processors.sinks.stream_write import StreamWrite
from runnel.processors.sinks.write import WriteProcessor, late_write, settle_staged, write
from runnel.sqltypes import BIGINT
from runnel.testing import ManualClock, verify_processor
from tests.processors.places import Wakes, job_context, place
from tests.sinks.crashing_job import CrashingJob, Inbox, SavingOutbox

ROWS = [
    pa.RecordBatch.from_pydict({"n": pa.array([3 * i, 3 * i + 1, 3 * i + 2], pa.int64())})
    for i in range(12)
]
VALUES = list(range(36))
REQUEST = SinkRequest(WriteMode.SINK, (0,))


class Disk:
    """What outlives a process: rows staged, by owner and name, and rows to be seen."""

    def __init__(self) -> None:
        self.staged: dict[tuple[str, str], list[int]] = {}
        self.visible: list[int] = []
        self.commits: list[int] = []
        self.fails_in = ""


class DiskSink(Sink):
    """The contract, word by word."""

    def __init__(self, disk: Disk, owner: str) -> None:
        self._disk = disk
        self._owner = owner
        self._rows: list[int] = []
        self._is_recovered = not owner
        self._names = 0

    def recover(self, tokens: Any) -> None:
        assert not self._is_recovered, "once"
        self._is_recovered = True
        names = [token["name"] for token in tokens]
        for token in tokens:
            self.commit(token)
        for owner, name in list(self._disk.staged):
            assert name not in names
            if owner == self._owner:
                del self._disk.staged[owner, name]

    def write(self, batch: pa.RecordBatch) -> None:
        assert self._is_recovered
        self._rows += batch.column(0).to_pylist()

    def stage(self, epoch: int) -> Token:
        assert (epoch > 0) == bool(self._owner)
        self._names += 1
        name = f"{epoch} of sink {id(self)} {self._names}"
        self._disk.staged[self._owner, name], self._rows = self._rows, []
        return {"name": name, "owner": self._owner, "epoch": epoch}

    def commit(self, token: Token) -> None:
        if self._disk.fails_in == "commit":
            raise OperationalError("the sink is down")
        rows = self._disk.staged.pop((token["owner"], token["name"]), None)
        if rows is not None:
            self._disk.visible += rows
            self._disk.commits.append(token["epoch"])

    def abort(self, token: Token | None) -> None:
        self._rows = []


class DiskTable(WritableTable):
    name = "t"
    connector = "Disk"
    columns = (TableColumn("n", BIGINT),)
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self) -> None:
        self.disk = Disk()
        self.requests: list[SinkRequest] = []

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset(WriteMode)

    def sink(self, request: SinkRequest) -> Sink:
        self.requests.append(request)
        return DiskSink(self.disk, request.owner)


def started(disk: Disk, **job: Any) -> tuple[DurableWrite, SavingOutbox, Wakes]:
    writer, outbox, wakes = (
        DurableWrite(DiskSink(disk, "j/t"), counts=True),
        SavingOutbox(),
        Wakes(),
    )
    writer.init(outbox, place(job_context(**job), wakes)[1])
    return writer, outbox, wakes


def test_rows_are_written_once_however_they_come() -> None:
    disks: list[Disk] = []

    def factory() -> DurableWrite:
        # An instance after a restore has the disk of the one before it.
        return DurableWrite(DiskSink(disks[-1], "j/t"), counts=True)

    def counted(items: list[Any]) -> None:
        assert [item.column(0).to_pylist() for item in items] == [[36]]
        assert sorted(disks[-1].visible) == VALUES
        assert not disks[-1].staged
        disks.append(Disk())

    disks.append(Disk())
    verify_processor(factory, [ROWS], counted)
    assert len(disks) == 13


@pytest.mark.parametrize("part", range(4))
def test_crashes_neither_lose_nor_repeat_rows(part: int) -> None:
    crashes = 0
    for seed in range(part * 60, part * 60 + 60):
        disk = Disk()
        job = CrashingJob(seed, ROWS, lambda disk=disk: DiskSink(disk, "j/t"))  # type: ignore[misc]
        job.run()
        assert sorted(disk.visible) == VALUES, seed
        assert not disk.staged, seed
        assert job.counted == 36, seed
        assert disk.commits == sorted(disk.commits), seed
        crashes += job.crashes
    assert crashes > 100


def test_a_sink_that_forgets_its_owner_is_found_out() -> None:
    class Forgetful(DiskSink):
        def recover(self, tokens: Any) -> None:
            super().recover(())

    def loses(seed: int) -> bool:
        disk = Disk()
        CrashingJob(seed, ROWS, lambda: Forgetful(disk, "j/t")).run()
        return sorted(disk.visible) != VALUES

    assert any(map(loses, range(30)))


def test_rows_show_when_the_snapshot_is_safe() -> None:
    disk = Disk()
    writer, outbox, _ = started(disk)
    writer.process(0, Inbox(ROWS[:1]))
    assert writer.flush()
    assert disk.visible == []
    assert writer.save_snapshot()
    assert writer.prepare_commit(1)
    assert disk.visible == []
    assert len(disk.staged) == 1
    assert json.loads(outbox.state[0].column(3)[1].as_py())["epoch"] == 1
    assert writer.commit(1, True)
    assert disk.visible == [0, 1, 2]


def test_a_failed_snapshot_leaves_its_rows_to_the_next() -> None:
    disk = Disk()
    writer, outbox, _ = started(disk)
    writer.process(0, Inbox(ROWS[:1]))
    assert writer.save_snapshot()
    assert writer.commit(1, False)
    assert disk.visible == []
    writer.process(0, Inbox(ROWS[1:2]))
    assert writer.save_snapshot()
    assert outbox.state[-1].column(2).to_pylist() == [-1, 0, 1]
    assert writer.commit(2, True)
    assert disk.visible == [0, 1, 2, 3, 4, 5]


def test_an_empty_epoch_stages_nothing() -> None:
    disk = Disk()
    writer, outbox, _ = started(disk)
    for _ in range(3):
        assert writer.save_snapshot()
        assert writer.commit(1, True)
    assert disk.commits == []
    assert [batch.num_rows for batch in outbox.state] == [1, 1, 1]


def test_leftovers_of_a_job_that_starts_anew_are_given_up_before_its_first_row() -> None:
    disk = Disk()
    disk.staged["j/t", "1 of a dead process"] = [99]
    disk.staged["k/t", "another job's"] = [100]
    writer, _, _ = started(disk)
    writer.process(0, Inbox(ROWS[:1]))
    assert list(disk.staged) == [("k/t", "another job's")]


def test_the_end_waits_for_a_snapshot_and_asks_again_when_one_fails() -> None:
    disk, clock, asked = Disk(), ManualClock(), []
    writer, outbox, wakes = started(
        disk, clock=clock.monotonic, request_snapshot=lambda: asked.append(clock.monotonic())
    )
    writer.process(0, Inbox(ROWS[:1]))
    assert not writer.complete()
    assert not writer.complete()
    clock.advance(2 * durable_write.ASK_AGAIN)
    assert not writer.complete()
    assert len(asked) == 1, "a slow snapshot isn't asked for again"
    assert wakes.times[-1] == clock.monotonic() + durable_write.ASK_AGAIN
    assert writer.save_snapshot()
    assert writer.commit(1, False)
    assert not writer.complete()
    clock.advance(durable_write.ASK_AGAIN)
    assert not writer.complete()
    assert len(asked) == 2
    assert writer.save_snapshot()
    assert not writer.complete()
    assert writer.commit(2, True)
    assert writer.complete()
    assert outbox.values == [3]
    assert disk.visible == [0, 1, 2]


def test_a_commit_that_fails_is_made_good_at_the_restart() -> None:
    disk = Disk()
    writer, outbox, _ = started(disk)
    writer.process(0, Inbox(ROWS[:1]))
    assert writer.save_snapshot()
    disk.fails_in = "commit"
    with pytest.raises(OperationalError, match="the sink is down"):
        writer.commit(1, True)
    writer.close()
    disk.fails_in = ""
    again, _, _ = started(disk)
    for batch in outbox.state:
        again.restore_snapshot(batch)
    assert again.finish_restore()
    assert disk.visible == [0, 1, 2]


def test_a_token_longer_than_a_piece_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_write, "TOKEN_CHUNK", 7)
    for seed in range(10):
        disk = Disk()
        CrashingJob(seed, ROWS, lambda disk=disk: DiskSink(disk, "j/ü"), crashes=0.4).run()  # type: ignore[misc]
        assert sorted(disk.visible) == VALUES, seed


def made(supplier: Any, **job: Any) -> Any:
    return supplier.get(job_context(**job), 1, 1)[0].get(1)[0]


def test_the_guarantee_of_the_job_chooses_the_processor() -> None:
    table = DiskTable()
    rows = write(table, REQUEST)
    late = late_write(table, REQUEST, "late rows of window")
    assert isinstance(made(rows), WriteProcessor)
    assert isinstance(made(rows, is_unbounded=True), WriteProcessor)
    assert isinstance(made(rows, owner="7"), WriteProcessor)
    assert isinstance(made(rows, owner="7", is_unbounded=True), StreamWrite)
    assert isinstance(made(late), StreamWrite)
    assert {request.owner for request in table.requests} == {""}
    table.requests.clear()
    for guarantee in (Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE):
        assert isinstance(made(rows, owner="7", guarantee=guarantee), DurableWrite)
        assert isinstance(made(late, owner="7", guarantee=guarantee), DurableWrite)
    assert [request.owner for request in table.requests] == [
        "7/write t",
        "7/late rows of window",
    ] * 2


def test_a_stream_without_snapshots_is_committed_within_the_interval() -> None:
    disk, clock = Disk(), ManualClock()
    writer = StreamWrite(DiskSink(disk, ""), delay=1000)
    writer.init(*place(job_context(clock=clock.monotonic)))
    start = clock.monotonic()
    writer.process(0, Inbox(ROWS[:1]))
    clock.advance(500)
    writer.process(0, Inbox(ROWS[1:2]))
    assert writer.flush()
    assert disk.visible == []
    assert writer.alarm == start + 1000
    assert writer.on_alarm()
    assert disk.visible == [0, 1, 2, 3, 4, 5]
    assert writer.alarm == 0
    writer.process(0, Inbox(ROWS[2:3]))
    assert writer.complete()
    assert disk.visible == [*range(9)]
    assert disk.commits == [0, 0]


def test_late_rows_of_a_light_job_show_when_nothing_more_comes() -> None:
    disk = Disk()
    writer = StreamWrite(DiskSink(disk, ""))
    writer.init(*place())
    writer.process(0, Inbox(ROWS[:1]))
    assert disk.visible == []
    assert writer.flush()
    assert disk.visible == [0, 1, 2]
    writer.process(0, Inbox(ROWS[1:2]))
    writer.close()
    assert disk.visible == [0, 1, 2]


def test_what_a_dropped_job_had_staged_is_given_up() -> None:
    table = DiskTable()
    dag = DAG()
    dag.vertex("write t", write(table, REQUEST), 1)
    dag.vertex("write t 2", late_write(table, REQUEST, "late rows of window"), 1)
    table.disk.staged = {
        ("7/write t", "a"): [1],
        ("7/late rows of window", "b"): [2],
        ("8/write t", "c"): [3],
    }
    settle_staged(
        dag, job_context(owner="7", guarantee=Guarantee.NONE), lambda vertex: (), may_give_up=True
    )
    assert len(table.disk.staged) == 3
    settle_staged(
        dag,
        job_context(owner="7", guarantee=Guarantee.EXACTLY_ONCE),
        lambda vertex: (),
        may_give_up=True,
    )
    assert list(table.disk.staged) == [("8/write t", "c")]
    assert table.disk.visible == []
