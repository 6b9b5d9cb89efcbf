"""A row that touches a session that was emitted is late, though a session of its own would still be
open."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.columns.key_hash import hash_columns
from runnel.expressions.nodes import AggregateCall
from runnel.processor import Item, Watermark
from runnel.processors.sessions.ended_sessions import EndedSessions
from runnel.processors.sessions.session_aggregate import (
    SessionEmission,
    SessionKeys,
    session_aggregate,
)
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sessions.session_rows import session_rows
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.processors.sessions.test_session_rows import batch, sessions, supplier
from tests.processors.time_windows.test_timed_aggregate import COLUMNS, batches_in, feed, made_of
from tests.streams.scripted_table import ScriptedTable

GAP = 4
COUNT = AggregateCall(function="count_star", arguments=(), type=BIGINT)
Rows = list[tuple[Any, ...]]


def aggregate(**emission: Any) -> Any:
    """Counts the rows of the sessions of k."""
    k, t = COLUMNS["k"], COLUMNS["t"]
    keys = SessionKeys(
        gap=GAP,
        time=type(t)(index=1, name="t", type=BIGINT),
        keys=(type(k)(index=0, name="k", type=BIGINT),),
        partition=(0,),
        columns=(-3, -2, 0),
        bound=TimeBound(3),
    )
    return session_aggregate(keys, (COUNT,), ("a", "e", "k", "n"), SessionEmission(**emission))


def very_late(rng: random.Random) -> tuple[Rows, list[pa.RecordBatch | Watermark]]:
    """Rows (k, t, number) that come up to 40 behind the watermark."""
    rows: Rows = []
    items: list[pa.RecordBatch | Watermark] = []
    now = 0
    for _ in range(rng.randrange(5, 25)):
        part = []
        for _ in range(rng.randrange(1, 6)):
            now += rng.choice((0, 1, 2, 6))
            part.append(
                (
                    rng.choice((None, 1, 2)),
                    now - rng.choice((0, 0, 0, 5, 9, 40)),
                    len(rows) + len(part),
                )
            )
        rows += part
        items += [batch(part), Watermark(now, 3)]
    return rows, items


@pytest.mark.parametrize("seed", some(range(40), 14))
def test_sessions_are_those_of_the_rows_that_are_not_late(seed: int) -> None:
    rows, items = very_late(random.Random(f"ended {seed}"))
    counts: list[int] = []

    def check(found: list[Item]) -> None:
        given = rows_of([item for item in found if isinstance(item, pa.RecordBatch)])
        in_time = [row for row in rows if row[2] in {row[2] for row in given}]
        counts.append(len(in_time))
        assert sorted(given, key=str) == sorted(sessions(in_time, GAP), key=str)

    def check_counts(found: list[Item]) -> None:
        given = rows_of([item for item in found if isinstance(item, pa.RecordBatch)])
        assert len(given) <= len(rows)
        for key in (None, 1, 2):
            spans = sorted(row[:2] for row in given if row[2] == key)
            assert all(before[1] < after[0] for before, after in pairwise(spans)), (
                "they don't overlap"
            )

    verify_processor(supplier(GAP), [items], check, row_by_row=False)
    verify_processor(aggregate(), [items], check_counts, row_by_row=False)
    assert min(counts) < len(rows)


@pytest.fixture(params=["states", "rows"])
def made(request: pytest.FixtureRequest) -> Callable[[], Any]:
    """A processor of either kind, and where it puts its rows."""
    return lambda: made_of(aggregate() if request.param == "states" else supplier(GAP))


def test_a_row_that_touches_an_emitted_session_is_late(made: Callable[[], Any]) -> None:
    processor, outbox = made()
    feed(
        processor,
        [
            batch([(1, 0, 0), (2, 6, 1)]),
            Watermark(6, 3),
            batch([(1, 4, 2), (1, 5, 3), (2, 3, 4), (3, 3, 5)]),
        ],
    )
    assert processor.late_rows == 1, (
        "4 touches 0, but 5 doesn't, and the other keys have no session that was emitted"
    )
    while not processor.complete():
        pass
    starts = [
        batch.schema.names.index("a" if "a" in batch.schema.names else "window_start")
        for batch in batches_in(outbox)
    ]
    found = {row[starts[0]] for row in rows_of(batches_in(outbox))}
    assert found == {0, 5, 3}


def test_a_row_between_an_emitted_and_an_open_session_is_late(made: Callable[[], Any]) -> None:
    """It would touch both; the watermark is far on, as the open one is long."""
    processor, _ = made()
    feed(processor, [batch([(1, 0, 0)]), Watermark(5, 3)])
    for time in range(8, 40, 4):
        feed(processor, [batch([(1, time, 1)]), Watermark(time, 3)])
    assert sum(item.num_rows for item in processor.state() if item.schema.names[0] == "$ended") == 1
    feed(processor, [batch([(1, 4, 2)])])
    assert processor.late_rows == 1
    feed(processor, [batch([(1, 5, 2), (1, 3, 3)])])
    assert processor.late_rows == 2, "5 goes to the open one"


def test_with_lateness_a_session_is_over_later() -> None:
    processor, outbox = made_of(aggregate(lateness=10))
    feed(processor, [batch([(1, 0, 0)]), Watermark(6, 3), batch([(1, 4, 1)]), Watermark(7, 3)])
    assert rows_of(batches_in(outbox)) == [(0, 4, 1, 1)]
    feed(processor, [Watermark(9, 3), Watermark(19, 3), batch([(1, 7, 2), (1, 9, 3)])])
    assert rows_of(batches_in(outbox)) == [(0, 4, 1, 1), (0, 8, 1, 2)]
    assert processor.late_rows == 1, "7 touches what can't come again"


def test_late_rows_pass_with_the_bounds_of_the_session_that_they_miss() -> None:
    time = type(COLUMNS["t"])(index=1, name="t", type=BIGINT)
    names = ("k", "t", "i", "a", "e", "w")
    processor, outbox = made_of(session_rows(GAP, time, (0,), 3, names, TimeBound(3), True))
    feed(
        processor,
        [
            batch([(1, 0, 0), (1, 2, 1)]),
            Watermark(7, 3),
            batch([(1, 5, 2), (1, -9, 3), (1, -10, 4)]),
        ],
    )
    found = [row for row in rows_of(batches_in(outbox)) if row[2] > 1]
    assert sorted(found) == [(1, -10, 4, -10, -5, -6), (1, -9, 3, -10, -5, -6), (1, 5, 2, 0, 6, 5)]
    assert processor.late_rows == 0, "a filter counts them"


def none_open(hashes: Any) -> Any:
    return np.zeros(len(hashes), np.bool_)


NO_FLOORS = (np.zeros(0, np.uint64), np.zeros(0, np.int64))


def test_what_no_row_can_touch_is_forgotten() -> None:
    ended = EndedSessions(GAP)
    for time in range(1000):
        ended.add(np.array([7], np.uint64), np.array([10 * time]), np.array([10 * time]))
        ended.forget(10 * time + GAP + 1, none_open)
        assert [item.num_rows for item in ended.state(NO_FLOORS) if item.num_columns > 1] == [1], (
            "the last of the key"
        )
        assert len(ended._chunks) <= 33
    ended.settle(20_000, none_open)
    assert [item.schema.names for item in ended.state(NO_FLOORS)] == [["$ended_watermark"]]
    assert ended.forgotten == 9_990 + GAP


def test_a_session_is_not_continued_back_to_what_was_forgotten() -> None:
    """The emitted one of key 1 is forgotten when another one of it begins, which a row can't bring
    back to it."""
    sessions = OpenSessions(GAP)
    one, two = np.array([1], np.uint64), np.array([2], np.uint64)

    def late(keys: Any, time: int, before: int) -> bool:
        return bool(sessions.add(keys, np.array([time]), before)[1][0])

    sessions.add(one, np.array([0]), None)
    sessions.add(two, np.array([20]), None)
    sessions.close(10)
    sessions.forget(20, at_once=True)
    assert sessions.ended.forgotten == GAP
    assert [late(one, time, 20) for time in (17, 13, 9, 5, 4)] == [False, False, False, False, True]
    assert [late(two, time, 20) for time in (16, 12, 8, 4, 0)] == [False] * 5, (
        "this one was open all the time"
    )
    (forgotten, state) = sessions.ended_state(20)
    assert forgotten.num_rows == 1
    assert [row[1:] for row in rows_of([state])] == [(0, GAP)], (
        "the key whose session began when one had been forgotten"
    )


def test_another_gap_goes_on_with_the_ends_that_were_emitted() -> None:
    saved = EndedSessions(GAP)
    one = np.array([1], np.uint64)
    saved.add(one, np.array([0]), np.array([6]))
    for gap in (1, 4, 9):
        restored = EndedSessions(gap)
        for state in saved.state(NO_FLOORS):
            restored.restore(state, 0, 1)
        assert [bool(restored.of(one, np.array([time]))[0][0]) for time in (10, 11)] == [
            True,
            False,
        ]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_processor_restores_those_of_its_keys(parallelism: int) -> None:
    keys = pa.array(range(50), pa.int64())
    hashes = np.sort(hash_columns([keys]))
    saved = EndedSessions(GAP)
    saved.add(hashes, np.zeros(50, np.int64), np.arange(50))
    (state,) = saved.state(NO_FLOORS)
    rows = []
    for index in range(parallelism):
        restored = EndedSessions(GAP)
        restored.restore(state, index, parallelism)
        (found,) = restored.state(NO_FLOORS)
        of = found.column(0).to_numpy().view(np.uint64)
        assert {int(value) % parallelism for value in of} == {index}
        rows += rows_of([found])
    assert sorted(rows) == sorted(rows_of([state]))


@pytest.mark.parametrize("kind", ["BIGINT", "TIMESTAMP"])
@pytest.mark.parametrize("group", ["window_start, window_end, k, s", "window_end, k"])
def test_through_sql(kind: str, group: str) -> None:
    """By two keys, one of them NULL. What comes out is what the rows in time give."""
    with runnel.connect() as connection:
        size = "4" if kind == "BIGINT" else "INTERVAL '4' SECOND"
        connection.execute("CREATE MAPPING late (n BIGINT) TYPE DuckDB")
        rows = [(0, 1, None), (6, 2, "x"), (4, 1, None), (5, 1, "y"), (20, 2, "x")]
        schema = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
        script = [
            pa.RecordBatch.from_pylist([dict(zip("nks", row, strict=True))], schema) for row in rows
        ]
        connection._register("raw", ScriptedTable("raw", schema, [script], None))
        time = "n" if kind == "BIGINT" else "TIMESTAMP '2000-01-01' + n * INTERVAL '1' SECOND"
        source = f"(SELECT {time} AS t, n, k, s FROM raw)"
        ordered = f"TABLE(IMPOSE_ORDER({source}, DESCRIPTOR(t), {size.replace('4', '0')}))"
        sql = (
            f"SELECT COUNT(*), SUM(n) FROM TABLE(SESSION({ordered} PARTITION BY k, s, "
            f"DESCRIPTOR(t), {size})) GROUP BY {group}"
        )
        cursor = connection.cursor().execute(f"{sql} LATE DATA INTO late", timeout=60)
        assert sorted(cursor.fetchall()) == [(1, 0), (1, 5), (1, 6), (1, 20)]
        assert connection.execute("SELECT n FROM late").fetchall() == [(4,)]
