"""Aggregation by sessions without their rows, against the rows with the bounds of their
sessions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.errors import OperationalError
from runnel.expressions.nodes import WINDOW_FINAL, AggregateCall
from runnel.processor import Watermark
from runnel.processors.sessions import (
    session_aggregate,
    session_merge,
    session_rows,
    session_states,
)
from runnel.processors.sessions.session_aggregate import SessionEmission, SessionKeys
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BOOLEAN
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.processors.random_tables import duckdb_rows
from tests.processors.time_windows.test_timed_aggregate import (
    CALLS,
    COLUMNS,
    DISTINCT,
    ORDERED,
    as_numbers,
    batches_in,
    feed,
    made_of,
)
from tests.streams.eager_memory import spill_eagerly, with_memory
from tests.streams.random_streams import Items, batch_of, cut, random_rows, schema_of

SCHEMA = schema_of(pa.int64())
GAP = 4
BOUND = TimeBound(1)
ALL = CALLS | ORDERED | DISTINCT


def supplier(calls: dict[str, Any], partition: tuple[int, ...] = (0,), **emission: Any) -> Any:
    keys = SessionKeys(
        gap=GAP,
        time=COLUMNS["t"],
        keys=(COLUMNS["k"], COLUMNS["s"]),
        partition=partition,
        columns=(-3, 0, -2, -1, 1),
        bound=BOUND,
    )
    names = ("a", "k", "e", "w", "s", *(f"c{i}" for i in range(len(calls))))
    return session_aggregate.session_aggregate(
        keys, tuple(calls.values()), names, SessionEmission(**emission)
    )


def expected(
    items: Items, calls: dict[str, Any], partition: tuple[int, ...]
) -> tuple[list[tuple[Any, ...]], int]:
    """What comes of the rows with their sessions' bounds, and how many rows are late."""
    names = (*SCHEMA.names, "a", "e", "w")
    columns = tuple((1, 3)[i] for i in partition)
    processor, outbox = made_of(
        session_rows.session_rows(GAP, COLUMNS["t"], columns, 5, names, BOUND)
    )
    feed(processor, items)
    while not processor.complete():
        pass
    fields = [*SCHEMA, *(pa.field(name, pa.int64()) for name in "aew")]
    table = pa.Table.from_batches(batches_in(outbox), pa.schema(fields))
    sql = f"SELECT a, k, e, w, s, {', '.join(calls)} FROM t GROUP BY a, k, e, w, s"
    return as_numbers(rows_of(duckdb_rows(sql, t=table))), processor.late_rows


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_states, "BUFFERED_ROWS", 7)
    monkeypatch.setattr(session_states, "MOST_RUNS", 3)


@pytest.mark.parametrize("seed", some(range(12), 3))
def test_gives_what_the_rows_of_sessions_give(seed: int) -> None:
    rng = random.Random(seed)
    partition = rng.choice(((0,), (0, 1), ()))
    items = cut(
        rng,
        random_rows(rng, 120, disorder=rng.choice((0, 8, 40)), step=rng.choice((1, 4))),
        SCHEMA,
        rng.choice((0, 8)),
    )
    wanted, late = expected(items, ALL, partition)
    processor, outbox = made_of(supplier(ALL, partition))
    feed(processor, items)
    while not processor.complete():
        pass
    assert_rows(batches_in(outbox), wanted, ordered=False)
    assert processor.late_rows == late


@pytest.mark.parametrize("partition", [(0,), (0, 1), ()])
def test_under_all_conditions(partition: tuple[int, ...]) -> None:
    rng = random.Random(5)
    items = cut(rng, random_rows(rng, 18, disorder=8, step=4), SCHEMA, lag=8)
    wanted, late = expected(items, ALL, partition)
    assert late == 0

    def check(found: list[Any]) -> None:
        watermark = -(1 << 60)
        for item in found:
            if isinstance(item, Watermark):
                watermark = item.time
            else:
                assert all(end is None or end >= watermark for end in item.column(2).to_pylist())
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    verify_processor(supplier(ALL, partition), [items], check)


def rows(*times: int, key: int = 1) -> pa.RecordBatch:
    return batch_of([{"t": t, "k": key, "v": 1, "s": "s", "f": 0.0} for t in times], SCHEMA)


COUNT = {"count(*)": CALLS["count(*)"]}


def test_a_session_is_not_split_by_a_batch_boundary() -> None:
    processor, outbox = made_of(supplier(COUNT))
    feed(processor, [rows(0), rows(8), rows(4), Watermark(12, 1)])
    assert batches_in(outbox) == [], "it closes when the watermark is beyond its end"
    feed(processor, [Watermark(13, 1)])
    assert rows_of(batches_in(outbox)) == [(0, 1, 12, 11, "s", 3)]


def test_late_rows_are_counted_and_diverted() -> None:
    processor, outbox = made_of(supplier(COUNT, diverts=True))
    outbox.outputs.append([])
    feed(processor, [rows(0, 20), Watermark(15, 1), rows(1, 17)])
    while not processor.complete():
        pass
    assert processor.late_rows == 1
    assert [
        item[:1]
        for item in rows_of([i for i in outbox.outputs[1] if isinstance(i, pa.RecordBatch)])
    ] == [(1,)]
    assert rows_of(batches_in(outbox)) == [(0, 1, 4, 3, "s", 1), (17, 1, 24, 23, "s", 2)]


def test_sessions_that_are_given_take_no_memory() -> None:
    processor, _ = made_of(supplier(ALL))
    for time in range(0, 200, 10):
        feed(processor, [rows(time), rows(time + 1, key=2), Watermark(time, 1)])
        assert sum(batch.num_rows for batch in processor.state()) <= 2 + 2 + 3 * 2 * 2
    feed(processor, [Watermark(4000, 1)])
    assert [batch.schema.names for batch in processor.state()] == [
        ["$watermark"],
        ["$ended_watermark"],
    ]
    assert processor._sessions.count == 0


def test_a_session_that_never_closes_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row out of order opens a session, which the next one brings together with the one that
    stays open."""
    monkeypatch.setattr(session_merge, "_RENUMBERED", 4)
    first, last = range(0, 800, 8), range(4, 804, 8)
    aggregating, outbox = made_of(supplier(COUNT))
    bounds = (*SCHEMA.names, "a", "e", "w")
    holding, held = made_of(session_rows.session_rows(GAP, COLUMNS["t"], (1,), 5, bounds, BOUND))
    for one, other in zip(first, last, strict=True):
        for processor in (aggregating, holding):
            feed(processor, [rows(one + 8), rows(one), rows(other), Watermark(one, 1)])
            assert len(processor._sessions.root) <= 8
    for processor in (aggregating, holding):
        while not processor.complete():
            pass
    assert rows_of(batches_in(outbox)) == [(0, 1, 804, 803, "s", 300)]
    assert {row[5:] for row in rows_of(batches_in(held))} == {(0, 804, 803)}


def test_keys_that_share_a_hash_fail_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    processor, _ = made_of(supplier(COUNT))
    monkeypatch.setattr(
        processor,
        "_hashes",
        lambda keys, num_rows: pa.array([0] * num_rows).to_numpy().astype("uint64"),
    )
    feed(processor, [rows(0), rows(1, key=2)])
    with pytest.raises(OperationalError, match="have the same hash"):
        processor.complete()


def early(processor: Any, outbox: Any) -> list[tuple[Any, ...]]:
    before = sum(item.num_rows for item in batches_in(outbox))
    while processor.alarm:
        processor.on_alarm()
    while not processor.flush():
        pass
    return (
        rows_of(batches_in(outbox))[before:]
        if sum(item.num_rows for item in batches_in(outbox)) > before
        else []
    )


FINAL = {"final": AggregateCall(function=WINDOW_FINAL, arguments=(), type=BOOLEAN)}


@pytest.fixture(params=[False, True], ids=["", "in files"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """A processor and where it puts its rows; with what it keeps in files."""
    if not request.param:
        return made_of
    memory = spill_eagerly(monkeypatch)
    return lambda factory: with_memory(made_of(factory), memory)


def test_early_results_are_of_open_sessions_that_changed(made: Callable[[Any], Any]) -> None:
    processor, outbox = made(supplier(COUNT | FINAL, every=1))
    feed(processor, [rows(0), rows(8), rows(0, key=2)])
    assert processor.alarm
    expected = [
        (0, 1, 4, 3, "s", 1, False),
        (0, 2, 4, 3, "s", 1, False),
        (8, 1, 12, 11, "s", 1, False),
    ]
    assert sorted(early(processor, outbox)) == expected
    assert not processor.alarm, "nothing to tell until rows come"
    feed(processor, [rows(4)])
    assert early(processor, outbox) == [(0, 1, 12, 11, "s", 3, False)], (
        "it brings two sessions together"
    )
    feed(processor, [rows(6)])
    feed(processor, [Watermark(13, 1)])
    assert sorted(rows_of(batches_in(outbox))[-2:]) == [
        (0, 1, 12, 11, "s", 4, True),
        (0, 2, 4, 3, "s", 1, True),
    ]
    assert early(processor, outbox) == [], "what is final comes no more"


@pytest.mark.parametrize("seed", some(range(10), 3))
def test_early_results_are_what_rows_so_far_give(
    seed: int, made: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of sessions to which no row came are left out; sessions are renumbered in between."""
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(OpenSessions, "is_crowded", property(lambda self: True))
    partition = rng.choice(((0,), (0, 1), ()))
    calls = {name: ALL[name] for name in ("count(*)", "sum(v)", "count(distinct s)")}
    items = cut(rng, random_rows(rng, 120, disorder=0, step=4), SCHEMA, 0)
    processor, outbox = made(supplier(calls | FINAL, partition, every=1))
    other, other_outbox = made_of(supplier(calls | FINAL, partition))
    known: set[tuple[Any, ...]] = set()
    for number, item in enumerate(items):
        feed(processor, [item])
        feed(other, [item])
        if number % 3:
            continue
        found = early(processor, outbox)
        # All that is open, given to another processor that is then asked to finish.
        asked, asked_outbox = made_of(supplier(calls | FINAL, partition))
        for state in other.state():
            asked.restore_snapshot(state)
        while not asked.complete():
            pass
        everything = (
            {row[:-1] for row in rows_of(batches_in(asked_outbox))}
            if batches_in(asked_outbox)
            else set()
        )
        assert {row[:-1] for row in found} <= everything
        assert everything - known <= {row[:-1] for row in found}, "those that changed"
        assert len(found) == len(set(found)) and not any(row[-1] for row in found)
        known = everything
    for one in (processor, other):
        while not one.complete():
            pass
    finals = [row for row in rows_of(batches_in(outbox)) if row[-1]]
    assert sorted(finals, key=str) == sorted(rows_of(batches_in(other_outbox)), key=str)


def test_early_results_of_sessions_of_a_stream() -> None:
    with runnel.connect() as connection:
        connection.execute("SET query_parallelism = 2")
        schema = pa.schema([("t", pa.int64()), ("k", pa.int64())])
        writer = connection.register_stream("events", schema, time_column="t", max_disorder=0)
        cursor = connection.cursor()
        cursor.execute(
            "SELECT window_start, window_end, k, COUNT(*), window_final "
            "FROM TABLE(SESSION(TABLE events PARTITION BY k, "
            "DESCRIPTOR(t), 5)) GROUP BY window_start, window_end, k "
            "EMIT EVERY INTERVAL '1' MILLISECOND"
        )
        writer.write([(1, 1)])
        assert cursor.fetchone() == (1, 6, 1, 1, False)
        writer.write([(4, 1)])
        assert cursor.fetchone() == (1, 9, 1, 2, False)
        writer.close()
        assert cursor.fetchall() == [(1, 9, 1, 2, True)]


def test_what_is_chosen_for_sessions() -> None:
    with runnel.connect() as connection:
        connection.register_stream("events", pa.schema([("t", pa.int64()), ("k", pa.int64())]))
        source = (
            "TABLE(SESSION(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), 1)) PARTITION BY k, "
            "DESCRIPTOR(t), 5))"
        )
        for rest, wanted in (
            ("GROUP BY window_end, k", "Aggregate by sessions"),
            (
                "GROUP BY window_end, k EMIT EVERY INTERVAL '2' SECOND",
                "early results every: 0:00:02",
            ),
            ("GROUP BY window_end, k ALLOWED LATENESS 3", "allowed lateness: 3"),
            ("GROUP BY window_end", "Session windows"),  # sessions of different keys come together
        ):
            lines = connection.execute(
                f"EXPLAIN SELECT window_end, COUNT(*) FROM {source} {rest}"
            ).fetchall()
            assert any(wanted in line for (line,) in lines), rest


def test_allowed_lateness_needs_the_sessions_right_below() -> None:
    with runnel.connect() as connection:
        connection.register_stream("events", pa.schema([("t", pa.int64()), ("k", pa.int64())]))
        source = (
            "TABLE(SESSION(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), 1)) PARTITION BY k, "
            "DESCRIPTOR(t), 5))"
        )
        for clause in ("EMIT EVERY INTERVAL '1' SECOND ALLOWED LATENESS 3", "ALLOWED LATENESS 3"):
            with pytest.raises(
                runnel.NotSupportedError, match="not supported over the rows of SESSION"
            ):
                connection.execute(
                    f"SELECT window_end, COUNT(*) FROM {source} GROUP BY window_end {clause}"
                )
            sql = (
                f"EXPLAIN (STATE) SELECT window_end, k, COUNT(*) FROM {source} "
                f"GROUP BY window_end, k {clause}"
            )
            assert (
                "until the watermark is 3 past its end" in connection.execute(sql).fetchall()[0][0]
            )
        with pytest.raises(runnel.ProgrammingError, match="ALLOWED LATENESS is of type INTERVAL"):
            connection.execute(
                f"SELECT window_end, k FROM {source} GROUP BY window_end, "
                "k ALLOWED LATENESS INTERVAL '3' SECOND"
            )


def last_given(found: list[Any]) -> list[Any]:
    """Without the sessions that later ones of the same key took the place of."""
    left: list[Any] = []
    for row in found:
        start, key, end = row[:3]
        left = [
            old
            for old in left
            if start is None or old[0] is None or old[1] != key or old[2] < start or end < old[0]
        ]
        left.append(row)
    return left


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_allowed_lateness_comes_to_what_all_rows_give(
    seed: int, made: Callable[[Any], Any]
) -> None:
    """The last results, those that they took the place of left out, are what the same rows give in
    order; nothing is late."""
    rng = random.Random(f"lateness {seed}")
    rows_ = random_rows(rng, 150, disorder=40, step=rng.choice((1, 4)))
    rows_ = [{**row, "s": "s"} for row in rows_]
    items = cut(rng, rows_, SCHEMA, rng.choice((0, 8)))
    in_order = [item for item in items if not isinstance(item, Watermark)]
    wanted, late = expected(in_order, ALL, (0,))
    assert late == 0
    processor, outbox = made(supplier(ALL, (0,), lateness=100))
    feed(processor, items)
    while not processor.complete():
        pass
    assert processor.late_rows == 0
    found = as_numbers(rows_of(batches_in(outbox)))
    assert_rows(last_given(found), wanted, ordered=False)
    assert len(found) >= len(wanted)


def test_results_are_given_again_by_late_rows() -> None:
    seeds = some(range(20), 3)
    given = sum(1 for seed in seeds if _given_again(seed))
    assert given > len(seeds) // 2


def _given_again(seed: int) -> bool:
    rng = random.Random(f"lateness {seed}")
    items = cut(rng, random_rows(rng, 150, disorder=40, step=1), SCHEMA, 0)
    processor, outbox = made_of(supplier(COUNT, (0,), lateness=100))
    feed(processor, items)
    return len(rows_of(batches_in(outbox))) > len({row[:3] for row in rows_of(batches_in(outbox))})


def test_a_late_row_brings_given_sessions_together(made: Callable[[Any], Any]) -> None:
    processor, outbox = made(supplier(COUNT, lateness=20, diverts=True))
    outbox.outputs.append([])

    def given(*items: Any) -> list[Any]:
        outbox.outputs[0].clear()
        feed(processor, list(items))
        return [(row[0], row[2], row[-1]) for row in rows_of(batches_in(outbox))]

    assert given(rows(0), rows(8), Watermark(20, 1)) == [(0, 4, 1), (8, 12, 1)]
    assert given(Watermark(21, 1)) == [], "given once, as nothing came since"
    assert given(rows(4)) == [], "with the next watermark"
    assert given(Watermark(22, 1)) == [(0, 12, 3)]
    assert given(rows(15), Watermark(23, 1)) == [(15, 19, 1)], "one of its own, late as it is"
    assert given(rows(12, 22), Watermark(26, 1)) == [(0, 19, 5)], "and 22 is still open"
    assert given(rows(19, 22), Watermark(27, 1)) == [(0, 26, 8)], (
        "an open one too, which is complete now"
    )
    assert given(rows(3), Watermark(46, 1)) == [(0, 26, 9)]
    assert processor.late_rows == 0
    assert given(Watermark(47, 1), rows(0), Watermark(48, 1)) == [], (
        "the end is more than 20 behind"
    )
    assert processor.late_rows == 1
    assert [
        row[0]
        for row in rows_of([item for item in outbox.outputs[1] if isinstance(item, pa.RecordBatch)])
    ] == [0]
    assert sum(batch.num_rows for batch in processor.state()) == 2, "a row at 24 would touch it"
    assert given(Watermark(51, 1)) == []
    assert all("watermark" in batch.schema.names[0] for batch in processor.state()), (
        "nothing is kept any longer"
    )


def test_lateness_under_all_conditions() -> None:
    """Snapshots know what was given: nothing comes again because of them, nothing is forgotten."""
    rng = random.Random(11)
    items = cut(
        rng, [{**row, "s": "s"} for row in random_rows(rng, 27, disorder=30, step=4)], SCHEMA, lag=2
    )
    wanted, _ = expected([item for item in items if not isinstance(item, Watermark)], ALL, (0,))
    processor, outbox = made_of(supplier(ALL, (0,), lateness=60))
    feed(processor, items)
    while not processor.complete():
        pass
    count = len(rows_of(batches_in(outbox)))

    def check(found: list[Any]) -> None:
        given = rows_of([item for item in found if isinstance(item, pa.RecordBatch)])
        assert len(given) == count
        assert_rows(last_given(as_numbers(given)), wanted, ordered=False)

    verify_processor(supplier(ALL, (0,), lateness=60), [items], check)


def test_early_results_are_not_of_sessions_that_were_given() -> None:
    processor, outbox = made_of(supplier(FINAL | COUNT, lateness=50, every=1_000_000))
    feed(processor, [rows(0), Watermark(10, 1), rows(2), rows(30)])
    outbox.outputs[0].clear()
    processor.alarm = 1
    while not processor.on_alarm():
        pass
    assert [row[0] for row in rows_of(batches_in(outbox))] == [30]
    feed(processor, [Watermark(11, 1)])
    assert [(row[0], row[-2], row[-1]) for row in rows_of(batches_in(outbox))] == [
        (30, False, 1),
        (0, True, 2),
    ]
