"""Watermarks at their origin: scans, and rows that don't come from one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime

import pyarrow as pa
import pytest

from runnel.connector import END, End, EventTimeMark, Pause, Source, SourcePartition
from runnel.expressions import build
from runnel.expressions.nodes import Column, Literal
from runnel.processor import ACTIVE, IDLE, Active, Idle, Item, JobContext, Watermark
from runnel.processors.sources.impose_order import impose_order
from runnel.processors.sources.partition_watermarks import GREATEST_TIME, TimeRule, event_times
from runnel.processors.sources.scan import scan
from runnel.processors.sources.watermark_scan import event_time_scan
from runnel.sqltypes import BIGINT
from runnel.testing import ManualClock, verify_processor
from runnel.testing.bench import BenchInbox
from tests.processors.places import CollectingOutbox, Wakes, job_context, place

SECOND = 1_000_000_000
TIME = Column(index=0, name="t", type=BIGINT)


def times(*values: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"t": pa.array(values, pa.int64())})


Entry = pa.RecordBatch | EventTimeMark | Pause | End


class Entries(SourcePartition):
    """Gives the entries one by one; a pause at their end."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = list(entries)

    def read(self) -> Entry:
        return self.entries.pop(0) if self.entries else Pause()


class Partitions(Source):
    def __init__(self, *partitions: SourcePartition) -> None:
        self.partitions = partitions

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return self.partitions


def shown(items: Sequence[Item]) -> list[object]:
    """Batches as lists of times, watermarks as their times (a tuple with the number where it isn't
    0), the rest as it is."""
    told: list[object] = []
    for item in items:
        if isinstance(item, pa.RecordBatch):
            told.append(item.column(0).to_pylist())
        elif isinstance(item, Watermark):
            told.append(item.time if item.column == 0 else (item.time, item.column))
        else:
            assert isinstance(item, Idle | Active)
            told.append(item)
    return told


class Scanned:
    """A scan of partitions under a manual clock."""

    def __init__(
        self, rule: TimeRule, *partitions: SourcePartition, clock: ManualClock | None = None
    ) -> None:
        self.clock = clock or ManualClock(5)
        self.wakes = Wakes()
        meta = event_time_scan(Partitions(*partitions), None, None, ("t",), rule)
        job = job_context(self.clock.monotonic)
        (supplier,) = meta.get(job, 1, 1)
        (self.processor,) = supplier.get(1)
        self.outbox, context = place(job, self.wakes)
        self.processor.init(self.outbox, context)

    def run(self) -> list[object]:
        """What comes out until nothing more does."""
        while True:
            before = self.wakes.count
            if self.processor.complete() or self.wakes.count == before:
                return shown(self.outbox.items)


def test_a_watermark_follows_its_rows_and_strictly_increases() -> None:
    scanned = Scanned(
        TimeRule(TIME, None, 3, 7),
        Entries(times(10, 12), times(11), times(None), times(12, 20), END),
    )
    assert scanned.run() == [[10, 12], (9, 7), [11], [None], [12, 20], (17, 7)]


def test_the_minimum_over_the_partitions_is_passed_on() -> None:
    scanned = Scanned(TimeRule(TIME, None, 0, 0), Entries(times(50)), Entries(times(10), times(60)))
    assert scanned.run() == [[10], [50], 10, [60], 50]


def test_an_idle_partition_is_left_out_after_its_time() -> None:
    late = Entries(times(50), Pause(3 * SECOND), times(70))
    scanned = Scanned(TimeRule(TIME, None, 0, 0, idle_timeout=2_000), late, Entries(times(10)))
    assert scanned.run() == [[10], [50], 10]
    assert 2 * SECOND + 5 in scanned.wakes.times, "it must be called when the time-out is over"
    scanned.clock.advance_to(2 * SECOND + 5)
    assert scanned.run()[3:] == [50, IDLE], "then the largest promise counts"
    scanned.clock.advance_to(3 * SECOND)
    assert scanned.run()[5:] == [ACTIVE, [70], 70]


def test_rows_that_come_one_by_one_do_not_ask_for_a_wake_up_each() -> None:
    pushed = Pushed()
    scanned = Scanned(TimeRule(TIME, None, 0, 0), pushed)
    scanned.run()
    for time in range(100):
        scanned.clock.advance(SECOND // 1000)
        pushed.put(times(time))
        scanned.run()
    assert scanned.wakes.times == [SECOND + 5]
    scanned.clock.advance_to(SECOND + 5)
    scanned.run()
    assert scanned.wakes.times[1:] == [SECOND + 5 + SECOND // 10], (
        "the one before asks for the next"
    )
    scanned.clock.advance_to(scanned.wakes.times[-1])
    assert scanned.run()[-1] == IDLE


def test_a_partition_at_its_end_is_idle_at_once() -> None:
    scanned = Scanned(
        TimeRule(TIME, None, 0, 0),
        Entries(times(10), Pause(is_idle=True)),
        Entries(times(50), times(60)),
    )
    assert scanned.run() == [[50], [10], 10, [60], 60]


class Busy(SourcePartition):
    """Always has a row, of the time it was read, by a clock that each read moves."""

    def __init__(self, clock: ManualClock, step: int) -> None:
        self.clock, self.step = clock, step

    def read(self) -> Entry:
        self.clock.advance(self.step)
        return times(self.clock.monotonic())


def test_a_partition_becomes_idle_beside_a_busy_one() -> None:
    clock = ManualClock(5)
    busy = Scanned(
        TimeRule(TIME, None, 0, 0), Entries(times(10)), Busy(clock, SECOND // 10), clock=clock
    )
    for _ in range(15):
        assert not busy.processor.complete()
    marks = [item for item in shown(busy.outbox.items) if not isinstance(item, list)]
    assert marks[0] == 10, "until it is idle, it holds the watermark"
    assert SECOND <= marks[1] <= SECOND + SECOND // 5, (
        "and not for longer, though the other one never pauses"
    )


def test_without_time_out_a_partition_is_never_idle() -> None:
    rule = TimeRule(TIME, None, 0, 0, idle_timeout=0)
    scanned = Scanned(rule, Entries(times(10), Pause(is_idle=True)), Entries(times(50)))
    scanned.run()
    scanned.clock.advance(1000 * SECOND)
    assert scanned.run() == [[50], [10], 10]


def test_marks_of_the_source_count_without_lag() -> None:
    scanned = Scanned(
        TimeRule(TIME, None, 5, 0),
        Entries(times(10), EventTimeMark(20), EventTimeMark(15), times(30), END),
    )
    assert scanned.run() == [[10], 5, 20, [30], 25]


def test_rows_that_a_condition_leaves_out_do_not_count() -> None:
    condition = build.call("lt", [TIME, Literal(value=100, type=BIGINT)])
    scanned = Scanned(
        TimeRule(TIME, condition, 0, 0), Entries(times(10, 5_000), times(20, 900), END)
    )
    assert scanned.run() == [[10, 5000], 10, [20, 900], 20]


def test_a_time_at_the_end_of_the_range_leaves_room_for_bounds() -> None:
    scanned = Scanned(TimeRule(TIME, None, 0, 0), Entries(times(2**63 - 1), END))
    assert scanned.run() == [[2**63 - 1], GREATEST_TIME]


def test_nothing_is_offered_past_a_full_outbox() -> None:
    scanned = Scanned(TimeRule(TIME, None, 0, 0), Entries(times(1), times(2), END))
    scanned.outbox.room = 0
    for room in range(1, 5):
        assert not scanned.processor.complete()
        scanned.outbox.room = room
    assert scanned.run() == [[1], 1, [2], 2]


def test_event_times_of_temporal_columns() -> None:
    day = 86_400_000_000
    assert event_times(pa.array([date(1969, 12, 31), None, date(1970, 1, 2)])).to_pylist() == [
        -day,
        None,
        day,
    ]
    moment = pa.array([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us"))
    assert event_times(moment).to_pylist() == [1_000_000]
    assert event_times(pa.array([7, -1], pa.int16())).to_pylist() == [7, -1]


@pytest.mark.parametrize("lag", [0, 4])
def test_imposed_order_over_other_operators(lag: int) -> None:
    def check(items: list[Item]) -> None:
        watermarks = [
            item.time for item in items if isinstance(item, Watermark) and item.column == 2
        ]
        # After a restore the last one is given again: those downstream may have lost it.
        assert watermarks == sorted(watermarks)
        assert watermarks[-1] == 30 - lag
        assert [
            item.time for item in items if isinstance(item, Watermark) and item.column == 1
        ] == [99]
        seen: int | None = None
        for item in items:
            if isinstance(item, pa.RecordBatch):
                seen = max([seen or 0, *item.column(0).to_pylist()])
            elif isinstance(item, Watermark) and item.column == 2:
                assert seen is not None and item.time == seen - lag, "it follows its rows"

    verify_processor(
        impose_order(TimeRule(TIME, None, lag, 2)),
        [[times(5, 10), Watermark(3, 2), Watermark(99, 1), times(30, 20)]],
        check,
    )


def test_imposed_order_goes_on_with_the_least_of_several_watermarks() -> None:
    processor = impose_order(TimeRule(TIME, None, 0, 0))()
    outbox, context = place(job_context(ManualClock(5).monotonic))
    processor.init(outbox, context)
    for time in (40, 10, 30):
        processor.restore_snapshot(
            pa.RecordBatch.from_pydict({"watermark": pa.array([time], pa.int64())})
        )
    assert processor.finish_restore()
    assert processor.flush()
    assert shown(outbox.items) == [10], "a row of time 20 may follow"


def test_rows_that_waited_for_room_do_not_make_an_order_idle() -> None:
    clock = ManualClock(5)
    processor = impose_order(TimeRule(TIME, None, 0, 0))()
    outbox, context = place(job_context(clock.monotonic))
    processor.init(outbox, context)
    assert isinstance(outbox, CollectingOutbox)
    processor.process(0, BenchInbox([times(5)]))
    outbox.room = 0
    processor.process(0, BenchInbox([times(6)]))
    clock.advance_to(processor.alarm)
    assert processor.on_alarm(), "else it would be called again before the rows"
    outbox.room = 9
    processor.process(0, BenchInbox([times(7)]))
    assert shown(outbox.items) == [[5], 5, [6], 6, [7], 7]
    assert processor.alarm == clock.monotonic() + SECOND


def test_imposed_order_becomes_idle() -> None:
    clock = ManualClock(5)
    processor = impose_order(TimeRule(TIME, None, 0, 0))()
    outbox, context = place(job_context(clock.monotonic))
    processor.init(outbox, context)
    assert processor.alarm == SECOND + 5
    clock.advance_to(processor.alarm)
    assert processor.on_alarm()
    assert shown(outbox.items) == [] and processor.alarm == clock.monotonic(), (
        "rows may wait that nobody looked at"
    )
    assert processor.on_alarm()
    assert shown(outbox.items) == [IDLE]
    assert processor.alarm == 0, "it sleeps until rows come"
    assert isinstance(outbox, CollectingOutbox)


class Pushed(SourcePartition):
    """Has what was put in; wakes its reader."""

    def __init__(self) -> None:
        self.entries: list[pa.RecordBatch] = []
        self.reads = 0

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def put(self, batch: pa.RecordBatch) -> None:
        self.entries.append(batch)
        self._wake()

    def read(self) -> Entry:
        self.reads += 1
        together, self.entries = self.entries, []
        return pa.concat_batches(together) if together else Pause()


def test_small_batches_are_waited_for_within_the_latency_target() -> None:
    clock = ManualClock(5)
    pushed = Pushed()
    (supplier,) = scan(Partitions(pushed), None, None, ("t",)).get(
        job_context(clock.monotonic, linger=SECOND), 1, 1
    )
    (processor,) = supplier.get(1)
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic, linger=SECOND), wakes)
    processor.init(outbox, context)
    assert not processor.complete()
    pushed.put(times(1))
    assert not processor.complete()
    assert outbox.values == [1], "the first row after a pause goes at once"
    told = wakes.count
    pushed.put(times(2))
    pushed.put(times(3))
    assert wakes.count == told, "and wake nobody, since there is a timer"
    reads = pushed.reads
    assert not processor.complete()
    assert outbox.values == [1], "those that follow wait for more"
    assert pushed.reads == reads, "and nothing is read meanwhile"
    assert SECOND + 5 in wakes.times
    clock.advance_to(SECOND + 5)
    assert not processor.complete()
    assert [shown([item]) for item in outbox.items] == [[[1]], [[2, 3]]]
    clock.advance(5 * SECOND)
    assert not processor.complete()
    pushed.put(times(4))
    assert not processor.complete()
    assert outbox.values == [1, 2, 3, 4], "after a pause longer than that nothing waits"
