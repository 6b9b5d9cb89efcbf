"""Records that can't be read, diverted by a job that is killed: each is diverted once, and belongs
to a snapshot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from runnel.catalog import TableColumn
from runnel.connector import (
    END,
    End,
    MalformedRecord,
    Pause,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.dag import DAG
from runnel.errors import OperationalError
from runnel.processor import Guarantee, JobContext
from runnel.processors.sinks.durable_write import ASK_AGAIN
from runnel.processors.sinks.write import settle_staged
from runnel.processors.sources.durable_malformed_records import DurableMalformedRecordPartition
from runnel.processors.sources.malformed_records import MalformedRecordSource
from runnel.processors.sources.scan import ScanMetaSupplier, ScanProcessor
from runnel.processors.sources.scan_state import SavedPartition, encode
from runnel.relation.nodes import MalformedOutput
from runnel.sqltypes import VARCHAR
from runnel.testing import ManualClock
from tests.processors.places import job_context
from tests.sinks.test_durable_write import Disk, DiskSink

RECORDS = 40


class Bad(WritableTable):
    name = "bad"
    connector = "Disk"
    columns = (TableColumn("record", VARCHAR),)

    def __init__(self) -> None:
        self.disk = Disk()
        self.owners: set[str] = set()

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset(WriteMode)

    def sink(self, request: SinkRequest) -> Sink:
        self.owners.add(request.owner)
        return DiskSink(self.disk, request.owner)


class Records(SourcePartition):
    """Numbers; every third can't be read."""

    identity = "file x"

    def __init__(self) -> None:
        self._next = 0
        self._found: list[MalformedRecord] = []

    def read(self) -> pa.RecordBatch | End:
        if self._next == RECORDS:
            return END
        number, self._next = self._next, self._next + 1
        if number % 3:
            return pa.record_batch({"n": pa.array([number], pa.int64())})
        self._found.append(MalformedRecord("here", str(number), "odd"))
        return pa.record_batch({"n": pa.array([], pa.int64())})

    def take_malformed(self) -> Sequence[MalformedRecord]:
        found, self._found = self._found, []
        return found

    def position(self) -> Token | None:
        return {"next": self._next}

    def seek(self, token: Token) -> None:
        self._next = token["next"]


class Numbers(Source):
    traits = SourceTraits(is_repeatable=True)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [Records()]

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        assert token is not None and list(token) == ["next"]
        return Records()


def opened(table: Bad, source: Source | None = None, **job: Any) -> Any:
    context = job_context(**{"owner": "7", "guarantee": Guarantee.EXACTLY_ONCE, **job})
    divert = MalformedOutput(table, SinkRequest(WriteMode.INSERT, (0,)), ("record",))
    [partition] = MalformedRecordSource(source or Numbers(), divert, "scan t").split(context)
    partition.open(lambda: None)
    return partition


def values(disk: Disk) -> list[int]:
    return sorted(map(int, disk.visible))


def test_each_record_is_diverted_once_whenever_the_job_is_killed() -> None:
    kills = 0
    for seed in range(150):
        random, table, saved = Random(seed), Bad(), None
        while True:
            partition = opened(table, request_snapshot=lambda: None)
            if saved is not None:
                partition.seek(json.loads(saved))
            killed = False
            while not killed:
                item = partition.read()
                if isinstance(item, End):
                    break
                if isinstance(item, Pause) or random.random() < 0.2:
                    killed = random.random() < 0.2
                    position = json.dumps(partition.position())
                    killed = killed or random.random() < 0.1
                    is_safe = random.random() < 0.8
                    if not killed:
                        saved = position if is_safe else saved
                        killed = random.random() < 0.1
                    if not killed:
                        partition.committed(is_safe)
                killed = killed or random.random() < 0.02
            if not killed:
                break
            kills += 1
        assert values(table.disk) == list(range(0, RECORDS, 3)), seed
        assert not table.disk.staged, seed
        assert table.owners == {"7/malformed records of scan t/file x"}
        partition.close()
    assert kills > 150


def test_the_end_waits_for_the_last_records_commit() -> None:
    clock, asked = ManualClock(), []
    table = Bad()
    partition = opened(table, clock=clock.monotonic, request_snapshot=lambda: asked.append(1))
    while not isinstance(item := partition.read(), Pause):
        assert not isinstance(item, End)
    assert item.until == clock.monotonic() + ASK_AGAIN
    assert isinstance(partition.read(), Pause)
    assert len(asked) == 1
    assert len(partition.position()["staged"]) == 1
    partition.committed(False)
    assert values(table.disk) == []
    clock.advance(ASK_AGAIN)
    assert isinstance(partition.read(), Pause)
    assert len(asked) == 2
    assert len(partition.position()["staged"]) == 1
    partition.committed(True)
    assert partition.read() is END
    assert values(table.disk) == list(range(0, RECORDS, 3))


def test_without_snapshots_or_positions_records_show_at_once() -> None:
    class Forgetful(Numbers):
        traits = SourceTraits()

    for partition in (opened(Bad(), guarantee=Guarantee.NONE), opened(Bad(), Forgetful())):
        assert not isinstance(partition, DurableMalformedRecordPartition)
    table = Bad()
    partition = opened(table, guarantee=Guarantee.NONE)
    while not isinstance(partition.read(), End):
        pass
    assert values(table.disk) == list(range(0, RECORDS, 3))
    assert table.owners == {""}


def test_a_partition_that_is_reopened_is_given_its_own_position() -> None:
    table = Bad()
    source = MalformedRecordSource(
        Numbers(),
        MalformedOutput(table, SinkRequest(WriteMode.INSERT, (0,)), ("record",)),
        "scan t",
    )
    context = job_context(owner="7", guarantee=Guarantee.EXACTLY_ONCE)
    token = {"place": {"next": 39}, "staged": [], "epoch": 3}
    partition = source.reopen("file x", token, context)
    partition.seek(token)
    partition.open(lambda: None)
    partition.read()
    assert partition.position() is not None
    partition.committed(True)
    assert values(table.disk) == [39]


def test_what_a_job_that_is_gone_had_diverted_is_given_up() -> None:
    table = Bad()
    source = MalformedRecordSource(
        Numbers(),
        MalformedOutput(table, SinkRequest(WriteMode.INSERT, (0,)), ("record",)),
        "scan t",
    )
    partition = opened(table, request_snapshot=lambda: None)
    partition.read()
    partition.position()
    partition.close()
    assert table.disk.staged
    dag = DAG()
    dag.vertex("scan t", ScanMetaSupplier(source, ScanProcessor), 1)  # type: ignore[arg-type]
    settle_staged(dag, job_context(owner="7", guarantee=Guarantee.NONE), nothing, may_give_up=True)
    settle_staged(
        dag, job_context(owner="8", guarantee=Guarantee.EXACTLY_ONCE), nothing, may_give_up=True
    )
    assert table.disk.staged
    settle_staged(
        dag, job_context(owner="7", guarantee=Guarantee.EXACTLY_ONCE), nothing, may_give_up=True
    )
    assert not table.disk.staged and not table.disk.visible


@pytest.mark.parametrize("may_give_up", [True, False])
@pytest.mark.parametrize("is_down", [True, False])
def test_what_the_last_snapshot_counts_of_a_job_that_is_gone_is_committed(
    may_give_up: bool, is_down: bool
) -> None:
    """Also where its source can't be reached any more; the rest is given up."""

    class Gone(Numbers):
        def split(self, context: JobContext) -> Sequence[SourcePartition]:
            raise OperationalError("the source is down")

    table = Bad()
    partition = opened(table, request_snapshot=lambda: None)
    partition.read()
    saved = SavedPartition("file x", json.dumps(partition.position()), is_begun=True)
    for _ in range(3):
        partition.read()
    partition.position()  # of a snapshot that fails
    partition.close()
    assert len(table.disk.staged) == 2
    divert = MalformedOutput(table, SinkRequest(WriteMode.INSERT, (0,)), ("record",))
    source = MalformedRecordSource(Gone() if is_down else Numbers(), divert, "scan t")
    dag = DAG()
    dag.vertex("scan t", ScanMetaSupplier(source, ScanProcessor), 1)  # type: ignore[arg-type]
    context = job_context(owner="7", guarantee=Guarantee.EXACTLY_ONCE)
    settle_staged(dag, context, lambda vertex: [encode([saved])], may_give_up=may_give_up)
    assert values(table.disk) == [0] and not table.disk.staged


def test_what_can_t_be_committed_is_given_up_only_where_nobody_will() -> None:
    for may_give_up in (False, True):
        table = Bad()
        partition = opened(table, request_snapshot=lambda: None)
        partition.read()
        saved = SavedPartition("file x", json.dumps(partition.position()), is_begun=True)
        partition.close()
        table.disk.fails_in = "commit"
        source = MalformedRecordSource(
            Numbers(),
            MalformedOutput(table, SinkRequest(WriteMode.INSERT, (0,)), ("record",)),
            "scan t",
        )
        context = job_context(owner="7", guarantee=Guarantee.EXACTLY_ONCE)
        settled = {"file x": saved.token}
        if may_give_up:
            source.settle(context, settled, may_give_up=True)
            assert not table.disk.staged
        else:
            with pytest.raises(OperationalError, match="down"):
                source.settle(context, settled, may_give_up=False)
            assert table.disk.staged
        assert not table.disk.visible


def nothing(vertex: str) -> Sequence[pa.RecordBatch]:
    return ()


def test_sources_hear_that_a_job_is_gone() -> None:
    heard: list[str] = []

    class Keeping(Numbers):
        def forget(self, owner: str) -> None:
            heard.append(owner)

    MalformedRecordSource(
        Keeping(),
        MalformedOutput(Bad(), SinkRequest(WriteMode.INSERT, (0,)), ("record",)),
        "scan t",
    ).forget("7")
    assert heard == ["7"]
