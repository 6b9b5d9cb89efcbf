"""SESSION: rows wait for the end of their session; against sessions found by sorting all rows."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.errors import DataError, OperationalError
from runnel.expressions.nodes import Column
from runnel.processor import Item, Watermark
from runnel.processors.sessions import session_output as module
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sessions.session_rows import session_rows
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT, TINYINT, SqlType
from runnel.storage.memory_budget import Memory
from runnel.testing import verify_processor
from tests.effort import some

NAMES = ("k", "t", "i", "window_start", "window_end", "window_time")
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("i", pa.int64())])
Rows = list[tuple[Any, ...]]
BOUND = TimeBound(3)


def supplier(
    gap: int, bound: TimeBound | None = BOUND, keys: tuple[int, ...] = (0,), kind: SqlType = BIGINT
) -> Any:
    return session_rows(gap, Column(index=1, name="t", type=kind), keys, 3, NAMES, bound)


def batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip("kti", row, strict=True)) for row in rows], schema=schema
    )


def sessions(rows: Rows, gap: int) -> Rows:
    """Each row with its session's bounds."""
    found: Rows = [(*row, None, None, None) for row in rows if row[1] is None]
    timed = sorted(
        (row for row in rows if row[1] is not None),
        key=lambda row: (row[0] is not None, row[0] or 0, row[1]),
    )
    for _, members in groupby(timed, key=lambda row: row[0]):
        current: Rows = []
        for row in [*members, None]:
            if current and (row is None or row[1] - current[-1][1] > gap):
                start, end = current[0][1], current[-1][1] + gap
                found += [(*item, start, end, end - 1) for item in current]
                current = []
            if row is not None:
                current.append(row)
    return found


def disordered(random_: random.Random, lag: int) -> tuple[Rows, list[pa.RecordBatch | Watermark]]:
    """Rows of which none is further than `lag` behind the latest one before its batch, with
    watermarks here and there."""
    items: list[pa.RecordBatch | Watermark] = []
    rows: Rows = []
    now = latest = random_.randrange(-100, 100)
    for _ in range(random_.randrange(12)):
        part: Rows = []
        for _ in range(random_.randrange(1, 14)):
            now += random_.choice([0, 0, 1, 2, 6])
            time = max(now - random_.randrange(lag + 1), latest - lag)
            part.append(
                (
                    random_.choice([None, 0, 1, 2]),
                    None if random_.random() < 0.05 else time,
                    len(rows) + len(part),
                )
            )
        rows += part
        items.append(batch(part))
        latest = max([latest, *(row[1] for row in part if row[1] is not None)])
        if random_.random() < 0.7:
            items.append(Watermark(latest - lag, 3))
    return rows, items


@pytest.mark.parametrize("seed", some(range(14), 2))
def test_sessions_of_disordered_rows(seed: int) -> None:
    random_ = random.Random(seed)
    gap, lag = random_.choice([1, 2, 5, 10]), random_.choice([0, 3, 15])
    rows, items = disordered(random_, lag)
    verify_processor(supplier(gap), [items], sessions(rows, gap), ordered=False)


@pytest.mark.parametrize("seed", range(4))
def test_without_a_watermark_they_come_at_the_end(seed: int) -> None:
    rows, items = disordered(random.Random(seed), 20)
    batches = [item for item in items if isinstance(item, pa.RecordBatch)]
    verify_processor(supplier(4, None), [batches], sessions(rows, 4), ordered=False)


def test_rows_that_memory_has_no_room_for_go_to_files() -> None:
    random_ = random.Random(1)
    rows: Rows = [(random_.randrange(500), random_.randrange(4000), i) for i in range(20_000)]
    batches = [batch(rows[at : at + 1000]) for at in range(0, len(rows), 1000)]
    memory = Memory(limit=400_000)
    options: dict[str, Any] = {
        "ordered": False,
        "row_by_row": False,
        "snapshots": False,
        "memory": memory,
    }
    verify_processor(supplier(4, None), [batches], sessions(rows, 4), **options)
    assert memory.spilled_bytes
    assert not memory.used


def test_one_key_with_more_rows_than_there_is_memory_for_is_an_error() -> None:
    rows: Rows = [(1, i, i) for i in range(20_000)]
    batches = [batch(rows[at : at + 1000]) for at in range(0, len(rows), 1000)]
    for keys in ((), (0,)):
        options: dict[str, Any] = {
            "row_by_row": False,
            "snapshots": False,
            "memory": Memory(limit=300_000),
        }
        with pytest.raises(OperationalError, match="need more than the memory_limit"):
            verify_processor(supplier(4, None, keys), [batches], [], **options)


def test_without_keys_all_rows_share_their_sessions() -> None:
    rows: Rows = [(1, 10, 0), (2, 14, 1), (1, 30, 2), (None, 19, 3)]
    expected = sessions([(0, *row[1:]) for row in rows], 5)
    wanted = [(rows[row[2]][0], *row[1:]) for row in expected]
    verify_processor(
        supplier(5, keys=()), [[batch(rows), Watermark(100, 3)]], wanted, ordered=False
    )


def outputs_of(items: Sequence[Item]) -> list[Any]:
    """The times of watermarks, and the numbers of the rows between them."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, Watermark):
            found.append(item.time)
        elif isinstance(item, pa.RecordBatch):
            before = found.pop() if found and isinstance(found[-1], list) else []
            found.append(sorted([*before, *item.column(2).to_pylist()]))
    return found


def test_a_session_comes_when_the_watermark_is_beyond_its_end() -> None:
    items = [batch([(1, 10, 0), (1, 13, 1)]), Watermark(18, 3), Watermark(19, 3)]

    def late_enough(found: list[Item]) -> None:
        assert outputs_of(found) == [18, [0, 1], 19]

    verify_processor(supplier(5), [items], late_enough, row_by_row=False)


def test_intervals_that_touch_share_a_session() -> None:
    rows: Rows = [(1, 10, 0), (1, 15, 1), (1, 21, 2)]
    verify_processor(supplier(5), [[batch(rows)]], sessions(rows, 5), ordered=False)
    assert [row[3:5] for row in sessions(rows, 5)] == [(10, 20), (10, 20), (21, 26)]


def test_a_row_brings_two_sessions_together() -> None:
    items = [
        batch([(1, 10, 0)]),
        batch([(1, 20, 1)]),
        Watermark(12, 3),
        batch([(1, 15, 2)]),
        Watermark(24, 3),
        Watermark(26, 3),
    ]

    def together(found: list[Item]) -> None:
        assert outputs_of(found) == [12, 24, [0, 1, 2], 26]

    verify_processor(supplier(5), [items], together, row_by_row=False, ordered=False)


def test_another_watermark_ends_no_session() -> None:
    def at_the_end(found: list[Item]) -> None:
        assert outputs_of(found) == [1000, [0]]

    verify_processor(supplier(5), [[batch([(1, 10, 0)]), Watermark(1000, 4)]], at_the_end)


def test_late_rows_are_left_out_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    items = [
        batch([(1, 10, 0)]),
        Watermark(30, 3),
        batch([(1, 12, 1), (1, 27, 2), (2, 20, 3)]),
        batch([(1, 23, 4)]),
    ]
    expected = [(1, 10, 0, 10, 15, 14), (1, 27, 2, 23, 32, 31), (1, 23, 4, 23, 32, 31)]
    with caplog.at_level(logging.WARNING):
        verify_processor(supplier(5), [items], expected, ordered=False, row_by_row=False)
    assert caplog.messages[-1] == (
        'late event dropped in vertex "verified", late by 18: watermark=30, eventTime=12, '
        "event=(k=1, t=12, i=1); 1 more since the last message, late by up to 18; 2 in all"
    )


def test_late_rows_that_are_passed_on_have_sessions_behind_the_watermark() -> None:
    items = [
        batch([(1, 10, 0)]),
        Watermark(30, 3),
        batch([(1, 12, 1), (1, 14, 2), (2, 27, 3), (1, 2, 4), (1, 3, 5)]),
    ]
    expected = [
        (1, 10, 0, 10, 15, 14),
        (1, 12, 1, 10, 15, 14),
        (1, 14, 2, 10, 15, 14),
        (1, 2, 4, 2, 8, 7),
        (1, 3, 5, 2, 8, 7),
    ]
    expected.append((2, 27, 3, 27, 32, 31))
    time = Column(index=1, name="t", type=BIGINT)
    passing = session_rows(5, time, (0,), 3, NAMES, BOUND, passes_late=True)
    verify_processor(passing, [items], expected, ordered=False, row_by_row=False)


def test_a_late_row_in_an_open_session_is_on_time() -> None:
    rows: Rows = [(1, 28, 0), (1, 24, 1)]
    items = [batch(rows[:1]), Watermark(30, 3), batch(rows[1:])]
    verify_processor(supplier(5), [items], sessions(rows, 5), ordered=False)


def test_keys_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_columns", lambda keys: np.zeros(len(keys[0]), np.uint64))
    rows, items = disordered(random.Random(5), 3)
    assert len({row[0] for row in rows}) > 1
    verify_processor(supplier(4), [items], sessions(rows, 4), ordered=False)


def test_numbers_of_sessions_are_dealt_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.processors.sessions.session_merge._RENUMBERED", 1)
    rows, items = disordered(random.Random(11), 3)
    verify_processor(supplier(2), [items], sessions(rows, 2), ordered=False)


def test_an_end_beyond_the_type_is_an_error() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int8()), ("i", pa.int64())])
    with pytest.raises(DataError, match="out of the range of TINYINT"):
        verify_processor(supplier(5, kind=TINYINT), [[batch([(1, 123, 0)], schema)]], [])


def test_no_more_rows_are_held_than_the_job_allows() -> None:
    with pytest.raises(OperationalError, match="would hold more than 2 rows"):
        verify_processor(
            supplier(5), [[batch([(1, 1, 0), (1, 2, 1), (1, 3, 2)])]], [], accumulation_limit=2
        )


def test_the_farthest_times_are_apart() -> None:
    low, high = -(2**63), 2**63 - 1
    open_ = OpenSessions(5)
    numbers, late = open_.add(np.zeros(3, np.uint64), np.array([high, low, low + 5]), None)
    assert not late.any()
    assert numbers[1] == numbers[2] != numbers[0]
    more, _ = open_.add(np.zeros(2, np.uint64), np.array([low + 11, high - 3]), None)
    assert open_.now(more).tolist()[1] == open_.now(numbers)[0]
    assert open_.count == 3


def test_a_key_that_is_gone_leaves_nothing_behind() -> None:
    open_ = OpenSessions(1)
    for time in range(0, 100_000, 1000):
        open_.add(np.arange(time, time + 1000).astype(np.uint64), np.full(1000, time), None)
        open_.close(time)
        if open_.is_crowded:
            open_.renumber()
    assert open_.count == 1000
    assert len(open_.root) <= 1 << 17
