"""Reading sources: partitions, pauses, filter and projection, large batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from runnel.connector import END, End, Pause, Source, SourcePartition
from runnel.errors import OperationalError
from runnel.expressions import build
from runnel.expressions.nodes import Literal
from runnel.processor import JobContext
from runnel.processors.sources.scan import scan
from runnel.sqltypes import BIGINT
from runnel.testing import ABORT, PAUSE, ManualClock, ScriptedSource, verify_processor
from tests.processors.places import CollectingOutbox, Wakes, job_context, place
from tests.processors.random_tables import columns_of, random_table


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def test_filter_and_projection_are_applied() -> None:
    table = random_table(1, 40, "isn")
    columns = columns_of(table)
    condition = build.call("gt", [columns["i"], Literal(value=1, type=BIGINT)])
    doubled = build.call("add", [columns["n"], columns["n"]])
    source = ScriptedSource(
        table.slice(0, 25).to_batches(max_chunksize=10), table.slice(25).to_batches()
    )
    supplier = scan(source, condition, (columns["s"], doubled), ("text", "twice"))
    rows = table.to_pylist()
    wanted = [(row["s"], 2 * row["n"]) for row in rows if row["i"] is not None and row["i"] > 1]

    verify_processor(supplier, [], wanted, ordered=False, snapshots=False)
    assert source.opened == source.closed > 0


def test_without_projection_columns_are_only_renamed() -> None:
    def check(items: list[Any]) -> None:
        assert [item.schema.names for item in items] == [["m"], ["m"]]

    verify_processor(
        scan(ScriptedSource([numbers(1), numbers(2)]), None, None, ("m",)),
        [],
        check,
        snapshots=False,
    )


def test_no_columns_at_all() -> None:
    source = ScriptedSource([numbers(1, 2), numbers(3)])
    verify_processor(scan(source, None, (), ()), [], [()] * 3, snapshots=False)


def test_large_batches_are_sliced() -> None:
    def check(items: list[Any]) -> None:
        assert [item.num_rows for item in items] == [65_536, 34_464]

    big = pa.RecordBatch.from_arrays([pa.arange(0, 100_000)], names=["n"])
    verify_processor(scan(ScriptedSource([big]), None, None, ("n",)), [], check, snapshots=False)


def test_partitions_are_dealt_to_members_and_processors_once() -> None:
    batches = [numbers(i) for i in range(7)]
    source = ScriptedSource(*[[batch] for batch in batches])
    meta = scan(source, None, None, ("n",))
    job = job_context()
    assert meta.preferred_parallelism(job) == 7
    suppliers = meta.get(job, 2, 2)
    assert [len(supplier.get(2)) for supplier in suppliers] == [2, 2]
    seen = []
    for supplier in suppliers:
        for processor in supplier.get(2):
            outbox, context = place(job)
            processor.init(outbox, context)
            while not processor.complete():
                pass
            seen.append(outbox.values)
    assert sorted(value for part in seen for value in part) == list(range(7))
    assert sorted(map(len, seen)) == [1, 2, 2, 2]


class CountingSource(Source):
    """Counts how often it is split."""

    def __init__(self) -> None:
        self.splits = 0

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        self.splits += 1
        return ()


def test_one_split_per_execution() -> None:
    source = CountingSource()
    meta = scan(source, None, None, ("n",))
    first, second = job_context(), job_context()
    assert meta.preferred_parallelism(first) == 1
    assert meta.preferred_parallelism(second) == 1
    meta.get(first, 1, 1)
    meta.get(second, 1, 1)
    assert source.splits == 2
    meta.get(second, 1, 1)
    assert source.splits == 3


def test_a_source_that_blocks_makes_the_scan_uncooperative() -> None:
    for cooperative in (True, False):
        meta = scan(ScriptedSource([numbers(1)], cooperative=cooperative), None, None, ("n",))
        (supplier,) = meta.get(job_context(), 1, 1)
        assert supplier.get(1)[0].cooperative is cooperative


def test_a_pause_is_waited_out_without_reading() -> None:
    source = ScriptedSource([numbers(1), PAUSE, numbers(2)], [numbers(3)])
    (supplier,) = scan(source, None, None, ("n",)).get(job_context(), 1, 1)
    (processor,) = supplier.get(1)
    wakes = Wakes()
    outbox, context = place(wakes=wakes)
    processor.init(outbox, context)
    for _ in range(5):
        assert not processor.complete()
    assert sorted(outbox.values) == [1, 3]
    woken = wakes.count
    assert not processor.complete()
    assert wakes.count == woken, "a scan that waits must not wake itself"
    source.resume()
    assert wakes.count > woken
    while not processor.complete():
        pass
    assert sorted(outbox.values) == [1, 2, 3]


class TimedPartition(SourcePartition):
    """Has a row at each full second."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.reads = 0
        self.given = 0

    def read(self) -> pa.RecordBatch | Pause | End:
        self.reads += 1
        if self.given == 3:
            return END
        due = (self.given + 1) * 1_000_000_000
        if self.clock.monotonic() < due:
            return Pause(due)
        self.given += 1
        return numbers(self.given)


class OneSource(Source):
    def __init__(self, partition: SourcePartition) -> None:
        self.partition = partition

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [self.partition]


def test_a_pause_until_a_time() -> None:
    clock = ManualClock()
    partition = TimedPartition(clock)
    (supplier,) = scan(OneSource(partition), None, None, ("n",)).get(
        job_context(clock.monotonic), 1, 1
    )
    (processor,) = supplier.get(1)
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic), wakes)
    processor.init(outbox, context)
    for second in range(3):
        for _ in range(4):
            assert not processor.complete()
        assert partition.reads == 2 * second + 1, "it is read once, and not again before its time"
        assert wakes.times[-1] == (second + 1) * 1_000_000_000
        clock.advance(1_000_000_000)
    assert processor.complete()
    assert outbox.values == [1, 2, 3]


class EagerPartition(SourcePartition):
    """Wakes its reader while it is being read, and then pauses all the same."""

    def __init__(self) -> None:
        self.reads = 0

    def open(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def read(self) -> pa.RecordBatch | Pause | End:
        self.reads += 1
        if self.reads > 1:
            return END
        self.wake()
        return Pause()


def test_a_wake_up_during_a_read_is_not_lost() -> None:
    (supplier,) = scan(OneSource(EagerPartition()), None, None, ("n",)).get(job_context(), 1, 1)
    (processor,) = supplier.get(1)
    processor.init(*place())
    assert any(processor.complete() for _ in range(3))


def test_a_filter_that_drops_everything_keeps_going() -> None:
    (n,) = columns_of(random_table(0, 0, "n")).values()
    condition = build.call("lt", [n, Literal(value=0, type=BIGINT)])
    source = ScriptedSource([numbers(i) for i in range(100)])
    (supplier,) = scan(source, condition, None, ("n",)).get(job_context(), 1, 1)
    (processor,) = supplier.get(1)
    wakes = Wakes()
    outbox, context = place(wakes=wakes)
    processor.init(outbox, context)
    calls = 1
    while not processor.complete():
        assert wakes.count >= calls, "without an offer it must ask to be called again"
        calls += 1
    assert outbox.items == []
    assert calls > 3


def test_a_full_outbox_stops_the_reading() -> None:
    source = ScriptedSource([numbers(i) for i in range(10)])
    (supplier,) = scan(source, None, None, ("n",)).get(job_context(), 1, 1)
    (processor,) = supplier.get(1)
    outbox, context = CollectingOutbox(room=2), place()[1]
    processor.init(outbox, context)
    assert not processor.complete()
    assert outbox.values == [0, 1]
    outbox.room = None
    while not processor.complete():
        pass
    assert outbox.values == list(range(10))


def test_a_failure_comes_through_and_partitions_are_closed() -> None:
    source = ScriptedSource([numbers(1), ABORT])
    with pytest.raises(OperationalError, match="ABORT"):
        verify_processor(scan(source, None, None, ("n",)), [], [], snapshots=False)
    assert source.closed == source.opened == 1


def test_close_without_init() -> None:
    source = ScriptedSource([numbers(1)])
    (supplier,) = scan(source, None, None, ("n",)).get(job_context(), 1, 1)
    supplier.get(1)[0].close()
    assert source.closed == 1
