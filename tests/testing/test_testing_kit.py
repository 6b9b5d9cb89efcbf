"""The testing kit itself: it must find what it is there to find."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from runnel.connector import END, Pause
from runnel.errors import OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.processor import Inbox, JobContext, Processor, Watermark
from runnel.testing import (
    ABORT,
    EOF,
    PAUSE,
    BenchLimits,
    ManualClock,
    ScriptedSource,
    assert_rows,
    rows_of,
    verify_processor,
)
from tests.runtime.sample_processors import (
    BuildThenProbe,
    ItemSource,
    Pass,
    ToResults,
    numbers,
    values_of,
)

BATCHES = [numbers(1, 2), numbers(3)]
ROWS = [(1,), (2,), (3,)]


def test_sound_processors_pass() -> None:
    verify_processor(Pass, [[*BATCHES, Watermark(3)]], ROWS)
    verify_processor(ToResults, [BATCHES], ROWS, outputs=0)
    verify_processor(lambda: ItemSource(BATCHES), [], ROWS)
    verify_processor(BuildThenProbe, [[numbers(2, 3)], BATCHES], [(2,), (3,)], snapshots=False)


def test_expected_may_be_a_function() -> None:
    seen: list[int] = []

    def check(items: list[Any]) -> None:
        seen.append(sum(isinstance(item, Watermark) for item in items))

    verify_processor(Pass, [[numbers(1), Watermark(2)]], check)
    assert set(seen) == {1}


def test_inputs_of_one_priority_take_turns() -> None:
    order: list[int] = []

    class Noting(Pass):
        def process(self, ordinal: int, inbox: Inbox) -> None:
            order.append(ordinal)
            super().process(ordinal, inbox)

    verify_processor(
        Noting,
        [BATCHES, BATCHES],
        [(1,), (2,), (1,), (2,), (3,), (3,)],
        priorities=(0, 0),
        snapshots=False,
        row_by_row=False,
    )
    assert order[:2] == [0, 1]


def test_satisfied_processor_gets_no_more_input() -> None:
    class First(Pass):
        def process(self, ordinal: int, inbox: Inbox) -> None:
            assert not self.is_satisfied
            batch = inbox.peek()
            if batch is not None and self.outbox.offer(batch.slice(0, 1)):
                self.is_satisfied = True

    verify_processor(First, [BATCHES], [(1,)], snapshots=False)


class DropsWhenFull(Pass):
    """Forgets what the outbox refuses."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.outbox.offer(batch)


class Forgetful(Pass):
    """Gives everything at the end, but has no state to restore it from."""

    def __init__(self) -> None:
        self.kept: list[pa.RecordBatch] = []

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.kept.append(batch)

    def complete(self) -> bool:
        while self.kept and self.outbox.offer(self.kept[0]):
            self.kept.pop(0)
        return not self.kept


class BatchBound(Pass):
    """Gives one row for each batch: the cut shows."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1)


class Stuck(Pass):
    def complete(self) -> bool:
        return False


class Busy(Pass):
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sum(range(3_000_000))
        return batch


class Hasty(Pass):
    def init(self, outbox: Any, context: Any) -> None:
        super().init(outbox, context)
        outbox.offer(numbers(1))


class Vague(Pass):
    def complete(self) -> bool:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            DropsWhenFull,
            "all at once, an outbox of one item, without snapshots: after a refusal the same item",
        ),
        (Forgetful, "with snapshots: "),
        (
            BatchBound,
            "row by row, room downstream, without snapshots: row 1 is (2,), expected (3,)",
        ),
        (Stuck, "complete made no progress in 100 calls and waits for nothing"),
        (Busy, "a call of process took"),
        (Hasty, "init may not offer anything"),
        (Vague, "complete returned None instead of True or False"),
    ],
)
def test_faults_are_found(kind: Callable[[], Processor], message: str) -> None:
    expected = [(1,), (3,)] if kind is BatchBound else ROWS
    with pytest.raises(AssertionError) as caught:
        verify_processor(
            kind, [BATCHES], expected, limits=BenchLimits(call_seconds=0.01 if kind is Busy else 5)
        )
    assert message in str(caught.value)


def test_time_is_virtual() -> None:
    class Later(ItemSource):
        def complete(self) -> bool:
            if self.context.job.clock() < 3_600 * 10**9:
                self.context.wake_at(3_600 * 10**9)
                return False
            return super().complete()

    verify_processor(lambda: Later(BATCHES), [], ROWS, snapshots=False)


def context() -> JobContext:
    return JobContext(1, EvaluationContext(), ManualClock().monotonic)


def test_script_with_pauses_and_end() -> None:
    source = ScriptedSource([numbers(1), PAUSE, numbers(2), EOF, numbers(3)])
    woken: list[int] = []
    (partition,) = source.split(context())
    partition.open(lambda: woken.append(1))
    assert values_of([partition.read()]) == [1]  # type: ignore[list-item]
    assert partition.read() == Pause()
    assert partition.read() == Pause()
    source.resume()
    assert woken == [1]
    assert values_of([partition.read()]) == [2]  # type: ignore[list-item]
    assert partition.read() is END
    assert partition.read() is END
    partition.close()
    (again,) = source.split(context())
    again.open(lambda: None)
    assert values_of([again.read()]) == [3]  # type: ignore[list-item]
    assert again.read() is END
    again.close()
    assert (source.opened, source.closed) == (2, 2)


def test_script_aborts_once() -> None:
    source = ScriptedSource([numbers(1), ABORT, numbers(2)])
    (partition,) = source.split(context())
    partition.read()
    with pytest.raises(OperationalError, match="ABORT"):
        partition.read()
    (again,) = source.split(context())
    assert [values_of([again.read()]) for _ in range(2)] == [[1], [2]]  # type: ignore[list-item]


def test_rows_are_compared_as_sql_does() -> None:
    assert_rows([(None, math.nan, -0.0)], [(None, math.nan, 0.0)])
    assert_rows([(1.0,)], [(1.0 + 1e-12,)])
    assert_rows([(2,), (1,)], [(1,), (2,)], ordered=False)
    assert_rows([([1.0, None], {"a": math.nan})], [([1.0, None], {"a": math.nan})])
    assert_rows(pa.table([pa.array([1, 2])], names=["x"]), numbers(1, 2))
    assert rows_of([numbers(1), (2,)]) == [(1,), (2,)]
    mixed = [(None, 1.5, "b"), ("a", math.nan, None), ("a", 1.5, "x")]
    assert_rows(mixed, reversed(mixed), ordered=False)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        ([(1,)], [(2,)], "row 0 is (1,), expected (2,)"),
        ([(1,)], [(1.0,)], "row 0 is (1,), expected (1.0,)"),
        ([(1,)], [(True,)], "row 0 is (1,), expected (True,)"),
        ([(Decimal("1.0"),)], [(1,)], "expected (1,)"),
        ([(1,)], [(1,), (2,)], "1 rows instead of 2; row 1 is missing: (2,)"),
        ([(1,), (2,)], [(1,)], "2 rows instead of 1; row 1 is unexpected: (2,)"),
        ([(1.0,)], [(1.0001,)], "expected (1.0001,)"),
        ([(None,)], [(0,)], "expected (0,)"),
    ],
)
def test_differences_are_shown(actual: Any, expected: Any, message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_rows(actual, expected)
    assert message in str(caught.value)


def test_manual_clock() -> None:
    clock = ManualClock(start=5_000, wall_start=1_000_000)
    moved: list[int] = []
    clock.subscribe(lambda: moved.append(clock.monotonic()))
    assert (clock.monotonic(), clock.wall()) == (5_000, 1_000_000)
    assert clock.timeout(5_000) == 0.0
    assert clock.timeout(5_001) is None
    clock.advance(2_000_000)
    clock.advance_to(1)
    assert moved == [2_005_000, 2_005_000]
    assert clock.wall() == 1_002_000
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
