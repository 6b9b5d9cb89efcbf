"""EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.nodes import WINDOW_FINAL, AggregateCall
from runnel.processor import Watermark
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.time_windows import timed_groups
from runnel.processors.time_windows.timed_aggregate import Timing, timed_aggregate
from runnel.sqltypes import BOOLEAN
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.processors.time_windows.test_timed_aggregate import (
    CALLS,
    COLUMNS,
    DISTINCT,
    ONE,
    SCHEMA,
    batches_in,
    feed,
    made_of,
    windowed,
)
from tests.streams.eager_memory import spill_eagerly, with_memory
from tests.streams.random_streams import Items, batch_of, cut, random_rows

FINAL = AggregateCall(function=WINDOW_FINAL, arguments=(), type=BOOLEAN)
COUNTS = {name: (CALLS | DISTINCT)[name] for name in ("count(*)", "sum(v)", "count(distinct s)")}
SOURCE = "TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE clicks, DESCRIPTOR(ts), 0)), DESCRIPTOR(ts), 10))"


def supplier(
    stage: AggregationStage = AggregationStage.SINGLE,
    calls: dict[str, AggregateCall] = COUNTS,
    **options: Any,
) -> Any:
    names = ("e", "k", *(f"c{i}" for i in range(len(calls))), "final")
    timing = Timing(((0, ONE),), **options)
    return timed_aggregate(
        (COLUMNS["e"], COLUMNS["k"]), (*calls.values(), FINAL), names, stage, timing
    )


def groups_of(items: Items, lateness: int, distinct: bool = True) -> tuple[dict[Any, Any], int]:
    """What each group must be in the end, and how many rows are too late."""
    rows: dict[Any, list[dict[str, Any]]] = {}
    late, time = 0, -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            time = item.time
            continue
        for row in item.to_pylist():
            if row["e"] is not None and row["e"] + lateness < time + 1:
                late += 1
            else:
                rows.setdefault((row["e"], row["k"]), []).append(row)
    found = {}
    for key, members in rows.items():
        values = [row["v"] for row in members if row["v"] is not None]
        counts = (len(members), sum(values) if values else None)
        found[key] = (*counts, len({row["s"] for row in members})) if distinct else counts
    return found, late


def last_results(items: list[Any]) -> dict[Any, Any]:
    batches = [item for item in items if isinstance(item, pa.RecordBatch)]
    return {row[:2]: row[2:-1] for row in rows_of(batches)} if batches else {}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_groups, "BUFFERED_ROWS", 7)
    monkeypatch.setattr(timed_groups, "MERGED_ROWS", 9)


@pytest.fixture(params=[False, True], ids=["", "in files"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """A processor and where it puts its rows; with what it keeps in files."""
    if not request.param:
        return made_of
    memory = spill_eagerly(monkeypatch)
    return lambda factory: with_memory(made_of(factory), memory)


@pytest.mark.parametrize("seed", some(range(15), 2))
def test_late_rows_change_the_result_without_distinct_arguments(
    seed: int, made: Callable[[Any], Any]
) -> None:
    rng = random.Random(seed)
    lateness = rng.choice((3, 10, 25))
    items = cut(rng, windowed(random_rows(rng, 100, disorder=40)), SCHEMA, lag=rng.choice((0, 5)))
    wanted, late = groups_of(items, lateness, distinct=False)
    calls = {name: CALLS[name] for name in ("count(*)", "sum(v)")}
    processor, outbox = made(supplier(calls=calls, lateness=lateness))
    feed(processor, items)
    while not processor.complete():
        pass
    assert last_results(outbox.outputs[0]) == wanted
    assert processor.late_rows == late
    memory = processor.context.job.memory
    assert memory is None or memory.spilled_bytes


@pytest.mark.parametrize("seed", some(range(15), 2))
def test_late_rows_within_the_lateness_change_the_result(seed: int) -> None:
    rng = random.Random(seed)
    lateness = rng.choice((3, 10, 25))
    items = cut(rng, windowed(random_rows(rng, 100, disorder=40)), SCHEMA, lag=rng.choice((0, 5)))
    wanted, late = groups_of(items, lateness)
    processor, outbox = made_of(supplier(lateness=lateness))
    feed(processor, items)
    while not processor.complete():
        pass
    assert last_results(outbox.outputs[0]) == wanted
    assert processor.late_rows == late
    assert all(row[-1] for row in rows_of(batches_in(outbox)))


def test_lateness_under_all_conditions() -> None:
    rng = random.Random(11)
    items = cut(rng, windowed(random_rows(rng, 40, disorder=40)), SCHEMA, lag=0)
    wanted, _ = groups_of(items, 15)

    def check(found: list[Any]) -> None:
        assert last_results(found) == wanted

    verify_processor(supplier(lateness=15), [items], check)


def test_lateness_in_two_stages() -> None:
    rng = random.Random(12)
    calls = {name: CALLS[name] for name in ("count(*)", "sum(v)")}
    items = cut(rng, windowed(random_rows(rng, 50, disorder=40)), SCHEMA, lag=0)
    wanted, _ = groups_of(items, 15, distinct=False)
    between: list[list[Any]] = []
    first = supplier(AggregationStage.ACCUMULATE, calls, lateness=15)
    verify_processor(first, [items], lambda found: between.append(list(found)), row_by_row=False)

    def check(found: list[Any]) -> None:
        assert last_results(found) == wanted

    for states in between[:: len(between) - 1]:
        verify_processor(
            supplier(AggregationStage.COMBINE, calls, lateness=15),
            [states],
            check,
            row_by_row=False,
        )


def row(time: int, value: int = 1) -> dict[str, Any]:
    return {"t": time, "k": 1, "v": value, "s": "s", "f": 0.0}


def put(processor: Any, *rows: dict[str, Any]) -> None:
    feed(processor, [batch_of(windowed(list(rows)), SCHEMA)])


def test_only_groups_that_changed_are_given_again() -> None:
    processor, outbox = made_of(supplier(lateness=10))
    put(processor, row(5), row(15))
    feed(processor, [Watermark(20, 1)])
    assert [item[:3] for item in rows_of(batches_in(outbox))] == [(10, 1, 1), (20, 1, 1)]
    put(processor, row(6))
    assert processor.flush()
    assert [item[:3] for item in rows_of(batches_in(outbox))][2:] == [], (
        "10 + 10 is behind the watermark"
    )
    put(processor, row(16, 4))
    assert processor.flush()
    assert [item[:4] for item in rows_of(batches_in(outbox))][2:] == [(20, 1, 2, 5)]
    assert processor.late_rows == 1


def test_states_are_forgotten_when_lateness_is_over() -> None:
    processor, _ = made_of(supplier(lateness=10))
    for time in range(0, 500, 10):
        put(processor, row(time))
        feed(processor, [Watermark(time, 1)])
        assert sum(batch.num_rows for batch in processor.state()) <= 1 + 2 * 4
    feed(processor, [Watermark(1000, 1)])
    assert sum(batch.num_rows for batch in processor.state()) == 1


def test_early_results_come_at_alarms_and_only_after_rows() -> None:
    processor, outbox = made_of(supplier(every=1_000_000))
    assert processor.alarm == 0
    put(processor, row(5))
    now = processor.context.job.clock()
    assert processor.alarm == now + 1_000_000_000
    put(processor, row(15))
    assert processor.on_alarm()
    assert processor.alarm == 0, "nothing to tell until rows come"
    assert [(item[0], item[2], item[-1]) for item in rows_of(batches_in(outbox))] == [
        (10, 1, False),
        (20, 1, False),
    ]
    put(processor, row(6))
    assert processor.alarm
    feed(processor, [Watermark(10, 1)])
    assert rows_of(batches_in(outbox))[2:] == [(10, 1, 2, 2, 1, True)]


def early(processor: Any, outbox: Any) -> list[tuple[Any, ...]]:
    before = len(rows_of(batches_in(outbox))) if batches_in(outbox) else 0
    assert processor.on_alarm()
    return sorted(rows_of(batches_in(outbox))[before:], key=str)


def test_only_groups_that_changed_come_early_again(made: Callable[[Any], Any]) -> None:
    processor, outbox = made(supplier(every=1))
    put(processor, row(5), row(15), row(25))
    assert [item[:3] for item in early(processor, outbox)] == [(10, 1, 1), (20, 1, 1), (30, 1, 1)]
    put(processor, row(16, 7), {**row(16), "k": None})
    assert set(early(processor, outbox)) == {(20, None, 1, 1, 1, False), (20, 1, 2, 8, 1, False)}
    put(processor, {**row(17), "k": None, "s": "t"})
    assert early(processor, outbox) == [(20, None, 2, 2, 2, False)]
    put(processor, row(26), row(6))
    feed(processor, [Watermark(10, 1)])
    assert rows_of(batches_in(outbox))[-1] == (10, 1, 2, 2, 1, True)
    assert early(processor, outbox) == [(30, 1, 2, 2, 1, False)], "what is final comes no more"


@pytest.mark.parametrize("seed", some(range(8), 4))
def test_early_results_of_changed_groups_are_what_rows_so_far_give(
    seed: int, made: Callable[[Any], Any]
) -> None:
    rng = random.Random(seed)
    processor, outbox = made(supplier(every=1))
    seen: list[dict[str, Any]] = []
    for _ in range(12):
        rows = windowed(random_rows(rng, rng.randrange(1, 30), disorder=40))
        for part in (rows[::2], rows[1::2]):
            if part:
                feed(processor, [batch_of(part, SCHEMA)])
        seen += rows
        before = sum(item.num_rows for item in batches_in(outbox))
        while processor.alarm:
            processor.on_alarm()
        while not processor.flush():
            pass
        wanted, _ = groups_of([batch_of(seen, SCHEMA)], 0)
        changed = {(item["e"], item["k"]) for item in rows}
        found = rows_of(batches_in(outbox))[before:]
        assert len(found) == len(changed)
        assert {item[:2]: item[2:-1] for item in found} == {key: wanted[key] for key in changed}
        assert not any(item[-1] for item in found)


def test_accumulators_pass_their_states_on_for_early_results() -> None:
    calls = {"count(*)": CALLS["count(*)"]}
    first, between = made_of(supplier(AggregationStage.ACCUMULATE, calls, every=1))
    last, outbox = made_of(supplier(AggregationStage.COMBINE, calls, every=1))
    put(first, row(5))
    assert first.on_alarm()
    feed(last, batches_in(between))
    assert last.on_alarm()
    assert rows_of(batches_in(outbox)) == [(10, 1, 1, False)]


@pytest.fixture
def clicks() -> Any:
    with runnel.connect() as connection:
        schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
        yield connection, connection.register_stream("clicks", schema)


def run(clicks: Any, sql: str, rows: list[tuple[int | None, int, int]]) -> list[tuple[Any, ...]]:
    """The result for rows that are written one by one, each with the word that time goes on from
    there."""
    connection, writer = clicks
    cursor = connection.cursor()
    cursor.execute(sql)

    def write() -> None:
        latest = 0
        for item in rows:
            writer.write([item])
            if item[0] is not None:
                latest = max(latest, item[0])
                writer.watermark(latest)
        writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    found: list[tuple[Any, ...]] = cursor.fetchall()
    thread.join()
    return found


ROWS: list[tuple[int | None, int, int]] = [
    (1, 1, 10),
    (2, 2, 20),
    (25, 1, 1),
    (3, 1, 5),
    (40, 1, 2),
    (4, 2, 6),
]


@pytest.mark.parametrize("shape", ["TUMBLE", "HOP"])
@pytest.mark.parametrize("columns", ["v BIGINT, ts BIGINT", "x BIGINT, y BIGINT, z BIGINT"])
def test_late_rows_go_to_the_mapping(clicks: Any, tmp_path: Path, columns: str, shape: str) -> None:
    cursor = clicks[0].cursor()
    cursor.execute(
        f"CREATE MAPPING late ({columns}) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/late', 'format' = 'csv')"
    )
    source = (
        SOURCE
        if shape == "TUMBLE"
        else SOURCE.replace("TUMBLE", "HOP").replace(", 10))", ", 10, 10))")
    )
    sql = f"SELECT window_end, k, COUNT(*) FROM {source} GROUP BY window_end, k LATE DATA INTO late"
    assert sorted(run(clicks, sql, ROWS)) == [(10, 1, 1), (10, 2, 1), (30, 1, 1), (50, 1, 1)]
    cursor.execute("SELECT * FROM late")
    late = [(5, 3), (6, 4)] if columns.startswith("v") else [(3, 1, 5), (4, 2, 6)]
    assert sorted(cursor.fetchall()) == late


ORDERED = SOURCE[len("TABLE(TUMBLE(") : SOURCE.index(", DESCRIPTOR(ts), 10))")]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT ts, k FROM {ORDERED} ORDER BY ts", [(1, 1), (2, 2), (25, 1), (40, 1)]),
        (f"SELECT k FROM {ORDERED} ORDER BY ts", [(1,), (1,), (1,), (2,)]),
        (
            f"SELECT -v AS v, ts AS k FROM {ORDERED} ORDER BY ts LIMIT 9",
            [(-20, 2), (-10, 1), (-2, 40), (-1, 25)],
        ),
        (
            f"SELECT window_end, k FROM {SOURCE} ORDER BY window_end, v DESC",
            [(10, 1), (10, 2), (30, 1), (50, 1)],
        ),
        (
            (
                "SELECT ts, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE 10 PRECEDING) "
                f"FROM {ORDERED}"
            ),
            [(1, 10), (2, 20), (25, 1), (40, 2)],
        ),
        (
            f"SELECT ts, SUM(v) OVER (ORDER BY ts) FROM {ORDERED}",
            [(1, 10), (2, 30), (25, 31), (40, 33)],
        ),
        (
            (
                f"SELECT ts FROM {SOURCE} QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end "
                "ORDER BY v DESC) = 1"
            ),
            [(2,), (25,), (40,)],
        ),
        (
            (
                "SELECT ts FROM (SELECT ts, RANK() OVER (PARTITION BY window_end, k "
                f"ORDER BY v) AS r FROM {SOURCE}) WHERE r <= 1"
            ),
            [(1,), (2,), (25,), (40,)],
        ),
        (
            f"SELECT DISTINCT ON (window_end) window_end, v + 1 AS v FROM {SOURCE}",
            [(10, 11), (30, 2), (50, 3)],
        ),
        (
            (
                "SELECT ts, SUM(v) OVER (PARTITION BY window_end), "
                "COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE 30 PRECEDING) "
                f"FROM {SOURCE} ORDER BY ts"
            ),
            [(1, 30, 1), (2, 30, 1), (25, 1, 2), (40, 2, 2)],
        ),
        (
            f"SELECT window_end, SUM(v) FROM {SOURCE} GROUP BY window_end ORDER BY window_end",
            [(10, 30), (30, 1), (50, 2)],
        ),
        (
            f"SELECT ts FROM TABLE(SESSION({ORDERED}, DESCRIPTOR(ts), 5)) ORDER BY window_end",
            [(1,), (2,), (25,), (40,)],
        ),
    ],
)
@pytest.mark.parametrize("columns", ["v BIGINT, ts BIGINT", "x BIGINT, y BIGINT, z BIGINT"])
def test_late_rows_of_other_operators_go_to_the_mapping(
    clicks: Any, tmp_path: Path, columns: str, sql: str, wanted: list[tuple[int, ...]]
) -> None:
    cursor = clicks[0].cursor()
    cursor.execute(
        f"CREATE MAPPING late ({columns}) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/late', 'format' = 'csv')"
    )
    options = " OPTIONS ('allowUnboundedState' = 'true')" if "OVER (ORDER" in sql else ""
    assert sorted(run(clicks, f"{sql} LATE DATA INTO late{options}", ROWS)) == wanted
    cursor.execute("SELECT * FROM late")
    late = [(5, 3), (6, 4)] if columns.startswith("v") else [(3, 1, 5), (4, 2, 6)]
    assert sorted(cursor.fetchall()) == late


FOR_EVER = " OPTIONS ('allowUnboundedState' = 'true')"
FIRST, SECOND, THIRD = (None, 1), (None, 3), (None, 5)


@pytest.mark.parametrize(
    ("sql", "wanted", "late"),
    [
        (
            f"SELECT ts, k, ROW_NUMBER() OVER (ORDER BY ts) AS r FROM {ORDERED}",
            [(*FIRST, 1), (1, 2, 2), (9, 4, 3)],
            [3, 5],
        ),
        (
            f"SELECT ts, k, ROW_NUMBER() OVER (ORDER BY ts NULLS LAST, k) AS r FROM {ORDERED}",
            [(1, 2, 1), (9, 4, 2), (*FIRST, 3), (*SECOND, 4), (*THIRD, 5)],
            [],
        ),
        (
            f"SELECT ts, k, COUNT(*) OVER (ORDER BY ts RANGE 4 PRECEDING) AS r FROM {ORDERED}",
            [(*FIRST, 3), (*SECOND, 3), (*THIRD, 3), (1, 2, 1), (9, 4, 1)],
            [],
        ),
        (
            f"SELECT ts, k, COUNT(*) OVER (PARTITION BY ts) AS r FROM {ORDERED}",
            [(*FIRST, 3), (*SECOND, 3), (*THIRD, 3), (1, 2, 1), (9, 4, 1)],
            [],
        ),
        (f"SELECT ts, k FROM {ORDERED} ORDER BY ts, k", [(1, 2), FIRST, SECOND, THIRD, (9, 4)], []),
        (
            f"SELECT ts, k FROM {ORDERED} ORDER BY ts NULLS LAST, k",
            [(1, 2), (9, 4), FIRST, SECOND, THIRD],
            [],
        ),
    ],
)
def test_rows_without_a_time(
    clicks: Any, tmp_path: Path, sql: str, wanted: list[Any], late: list[int]
) -> None:
    """They are late where they come before all others, and a result was given."""
    cursor = clicks[0].cursor()
    cursor.execute(
        "CREATE MAPPING late (k BIGINT) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/late', 'format' = 'csv')"
    )
    rows = [FIRST, (1, 2), SECOND, (9, 4), THIRD]
    found = run(clicks, f"{sql} LATE DATA INTO late{FOR_EVER}", [(*row, 0) for row in rows])
    is_ordered = "ts, k FROM" in sql
    assert (found if is_ordered else sorted(found, key=str)) == (
        wanted if is_ordered else sorted(wanted, key=str)
    )
    written = (
        cursor.execute("SELECT * FROM late").fetchall() if (tmp_path / "late").exists() else []
    )
    assert sorted(row[0] for row in written) == late


def test_rows_that_the_query_does_not_want_are_not_late(clicks: Any, tmp_path: Path) -> None:
    cursor = clicks[0].cursor()
    cursor.execute(
        "CREATE MAPPING late (ts BIGINT) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/late', 'format' = 'csv')"
    )
    sql = f"SELECT ts FROM {ORDERED} WHERE v > 5 ORDER BY ts LATE DATA INTO late"
    assert run(clicks, sql, ROWS) == [(1,), (2,)]
    assert cursor.execute("SELECT * FROM late").fetchall() == [(4,)]


def test_allowed_lateness_gives_results_again(clicks: Any) -> None:
    sql = (
        f"SELECT window_end, k, SUM(v), window_final FROM {SOURCE} "
        "GROUP BY window_end, k ALLOWED LATENESS 20"
    )
    found = run(clicks, sql, ROWS)
    assert {item[:2]: item[2:] for item in found} == {
        (10, 1): (15, True),
        (10, 2): (20, True),
        (30, 1): (1, True),
        (50, 1): (2, True),
    }
    assert len(found) == 5, "window 10 of key 1 comes twice; for key 2 the last row is too late"


def test_over_a_table_that_ends_the_clauses_mean_nothing() -> None:
    with runnel.connect() as connection:
        connection.register("clicks", pa.table({"ts": [1, 2, 13], "k": [1, 1, 1]}))
        cursor = connection.cursor()
        cursor.execute(
            "SELECT window_end, COUNT(*), window_final "
            "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) "
            "GROUP BY window_end EMIT EVERY INTERVAL '1' SECOND ALLOWED LATENESS 5"
        )
        assert sorted(cursor.fetchall()) == [(10, 2, True), (20, 1, True)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT ts FROM clicks EMIT EVERY INTERVAL '1' SECOND", "need GROUP BY over windows"),
        (
            f"SELECT ts FROM {SOURCE} LATE DATA INTO clicks",
            "LATE DATA INTO is supported for GROUP BY over windows, joins",
        ),
        (
            f"SELECT ts FROM {SOURCE} ORDER BY ts EMIT EVERY INTERVAL '1' SECOND",
            "need GROUP BY over windows",
        ),
        (
            f"SELECT COUNT(*) OVER (PARTITION BY window_end) FROM {SOURCE} ALLOWED LATENESS 5",
            "need GROUP BY over windows",
        ),
        (f"SELECT ts FROM {SOURCE} ORDER BY ts LATE DATA INTO clicks", "clicks"),
        (
            (
                f"SELECT window_end FROM {SOURCE} GROUP BY window_end ALLOWED LATENESS INTERVAL "
                "'1' SECOND"
            ),
            "windows are of type",
        ),
        (
            f"SELECT window_end FROM {SOURCE} GROUP BY window_end ALLOWED LATENESS -1",
            "can't be negative",
        ),
        (
            f"SELECT window_end FROM {SOURCE} GROUP BY window_end EMIT EVERY INTERVAL '0' SECOND",
            "a positive interval",
        ),
        (f"SELECT window_end FROM {SOURCE} GROUP BY window_end EMIT EVERY ts", "ts"),
        (
            f"SELECT window_end FROM {SOURCE} GROUP BY window_end LATE DATA INTO nowhere",
            '"nowhere" not found',
        ),
        (f"SELECT window_end FROM {SOURCE} GROUP BY window_end LATE DATA INTO clicks", "clicks"),
        (
            (
                f"SELECT window_end FROM {SOURCE} GROUP BY window_end ALLOWED LATENESS 1 "
                "EMIT EVERY INTERVAL '1' SECOND"
            ),
            "is in the wrong position",
        ),
        (
            (
                f"CREATE VIEW w AS SELECT window_end FROM {SOURCE} "
                "GROUP BY window_end ALLOWED LATENESS 1"
            ),
            "a view can't have",
        ),
        (f"SELECT window_end, window_final FROM {SOURCE} GROUP BY window_end", "window_final"),
    ],
)
def test_what_is_refused(clicks: Any, sql: str, message: str) -> None:
    with pytest.raises(runnel.Error, match=message) as caught:
        clicks[0].cursor().execute(sql)
    assert not isinstance(caught.value, runnel.InternalError)


def test_a_mapping_that_does_not_fit_is_refused(clicks: Any, tmp_path: Path) -> None:
    cursor = clicks[0].cursor()
    cursor.execute(
        "CREATE MAPPING late (v BIGINT, w BIGINT) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/late', 'format' = 'csv')"
    )
    with pytest.raises(runnel.ProgrammingError, match='they have no column "w"') as caught:
        cursor.execute(f"SELECT window_end FROM {SOURCE} GROUP BY window_end LATE DATA INTO late")
    assert '"ts"' in str(caught.value)


def test_the_words_are_still_names() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            "SELECT late data, emit every, allowed lateness "
            "FROM (VALUES (1, 2, 3)) AS t(late, emit, allowed)"
        )
        assert [item[0] for item in cursor.description] == ["data", "every", "lateness"]
        assert cursor.fetchall() == [(1, 2, 3)]
