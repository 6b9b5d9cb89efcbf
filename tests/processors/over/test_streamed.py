"""OVER on streams in order of event time: a stream that ends gives what DuckDB gives for the
table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import AggregateCall, Column, Literal, SortKey
from runnel.processor import Watermark
from runnel.processors.over.streamed import OrderedWindow, ordered_window
from runnel.processors.stateful.row_buffer import Buffering
from runnel.relation.over import (
    UP_TO_PEERS,
    BoundKind,
    FrameBound,
    FrameUnit,
    WindowCall,
    WindowFrame,
)
from runnel.relation.streams import TimeBound
from runnel.relation.window_reach import Reach
from runnel.sqltypes import BIGINT
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.processors.over.test_by_watermark import plain
from tests.processors.random_tables import duckdb_rows
from tests.processors.time_windows.test_timed_aggregate import batches_in, feed, made_of
from tests.streams.ended_streams import in_duckdb, random_table, streamed
from tests.streams.random_streams import Items, batch_of, cut, random_rows, schema_of


@pytest.fixture(scope="module", params=(1, 2, 3))
def connection(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"SET query_parallelism = {request.param}")
        yield made


FOR_EVER = " OPTIONS ('allowUnboundedState'='true')"
CALLS = {
    # Bounded in event time.
    "range": "SUM(v) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 7 PRECEDING AND CURRENT ROW)",
    "range of peers": (
        "COUNT(*) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"
    ),
    "range before": "MAX(s) OVER (ORDER BY n RANGE BETWEEN 9 PRECEDING AND 3 PRECEDING)",
    "range around": (
        "STDDEV_SAMP(v) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 4 PRECEDING AND 6 FOLLOWING)"
    ),
    "range behind": (
        "COUNT(s) OVER (PARTITION BY s ORDER BY n RANGE BETWEEN 2 FOLLOWING AND 5 FOLLOWING)"
    ),
    "range without": (
        "COUNT(*) OVER (ORDER BY n RANGE BETWEEN 7 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)"
    ),
    "first in range": (
        "FIRST_VALUE(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 7 PRECEDING AND CURRENT ROW)"
    ),
    "distinct in range": (
        "COUNT(DISTINCT s) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 7 PRECEDING AND CURRENT "
        "ROW)"
    ),
    "nulls last": (
        "COUNT(*) OVER (PARTITION BY k ORDER BY n NULLS LAST RANGE BETWEEN 7 PRECEDING AND CURRENT "
        "ROW)"
    ),
    # Kept per partition.
    "rows": (
        "SUM(v) OVER (PARTITION BY k ORDER BY n NULLS LAST, "
        "v ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
    ),
    "rows before": (
        "MIN(v) OVER (PARTITION BY k, s ORDER BY n NULLS LAST, "
        "v DESC ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING)"
    ),
    "groups": (
        "COUNT(*) OVER (PARTITION BY k ORDER BY n NULLS LAST GROUPS BETWEEN 2 PRECEDING AND "
        "CURRENT ROW)"
    ),
    "lag": "LAG(v, 2, -1) OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "lag of nothing": "LAG(s) OVER (ORDER BY n NULLS LAST, v)",
    "row_number": "ROW_NUMBER() OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "rank": "RANK() OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "dense_rank": "DENSE_RANK() OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "count": "COUNT(s) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "sum": "SUM(v) OVER (PARTITION BY k, s ORDER BY n NULLS LAST)",
    "sum of doubles": "SUM(CAST(v AS DOUBLE)) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "sum of decimals": "SUM(CAST(v AS DECIMAL(12, 2))) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "sum by row": "SUM(v) OVER (ORDER BY n NULLS LAST, v ROWS UNBOUNDED PRECEDING)",
    "sum of some": "SUM(v) FILTER (WHERE s = 'x') OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "avg": "AVG(v) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "min": "MIN(s) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "max": "MAX(v * 1.5) OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "bool": "BOOL_AND(s = 'x') OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "first": "FIRST_VALUE(s) OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "first known": "FIRST_VALUE(s IGNORE NULLS) OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "last": "LAST_VALUE(v) OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "last known": "LAST_VALUE(s IGNORE NULLS) OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "computed key": "COUNT(*) OVER (PARTITION BY k + 1 ORDER BY n + 3 NULLS LAST)",
}


def rounded(rows: list[tuple[Any, ...]]) -> list[str]:
    found = (
        [round(float(item), 6) if not isinstance(item, str | None) else item for item in row]
        for row in plain(rows)
    )
    return sorted(map(repr, found))


@pytest.mark.parametrize("name", CALLS)
def test_a_call(connection: runnel.Connection, name: str) -> None:
    tables = {"a": random_table(random.Random(name), 150)}
    sql = f"SELECT v, {CALLS[name]} AS c FROM {{a}}"
    assert rounded(streamed(connection, sql + FOR_EVER, tables, len(name))) == rounded(
        in_duckdb(sql, tables)
    )


@pytest.mark.parametrize("seed", range(8))
def test_calls_together(connection: runnel.Connection, seed: int) -> None:
    """Several arrangements, and several calls in each; NULLs first among times, of which there are
    none."""
    rng = random.Random(seed)
    tables = {"a": random_table(rng, 120, nulls=0)}
    calls = [
        call.replace(" NULLS LAST", rng.choice(("", " NULLS LAST")))
        for call in rng.sample(list(CALLS.values()), 5)
    ]
    calls.append("COUNT(*) OVER (PARTITION BY n)")
    sql = (
        "SELECT v, "
        + ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
        + " FROM {a}"
    )
    assert rounded(streamed(connection, sql + FOR_EVER, tables, seed)) == rounded(
        in_duckdb(sql, tables)
    )


QUERIES = {
    "time": (
        "SELECT v, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND "
        "PRECEDING AND CURRENT ROW) "
        "AS c FROM {at}"
    ),
    "around a time": (
        "SELECT v, SUM(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND "
        "INTERVAL '3' SECOND FOLLOWING) AS c FROM {at}"
    ),
    "grouped above": (
        "SELECT n, MAX(c), COUNT(*) FROM (SELECT n, COUNT(*) OVER (PARTITION BY k ORDER BY n "
        "RANGE BETWEEN 7 PRECEDING AND 4 FOLLOWING) AS c FROM {a}) GROUP BY n"
    ),
    "over groups": (
        "SELECT window_end, k, SUM(c) OVER (PARTITION BY k "
        "ORDER BY window_end RANGE BETWEEN 30 PRECEDING AND "
        "CURRENT ROW) AS d FROM (SELECT window_end, k, COUNT(*) AS c FROM {w} "
        "GROUP BY window_end, k)"
    ),
    "filtered": (
        "SELECT v, c FROM (SELECT v, COUNT(*) OVER (PARTITION BY k "
        "ORDER BY n RANGE BETWEEN 3 PRECEDING AND "
        "CURRENT ROW) AS c FROM {a}) WHERE c > 2"
    ),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", QUERIES)
def test_a_query(connection: runnel.Connection, name: str, seed: int) -> None:
    tables = {"a": random_table(random.Random(f"{name} {seed}"), 150)}
    assert rounded(streamed(connection, QUERIES[name], tables, seed)) == rounded(
        in_duckdb(QUERIES[name], tables)
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_first_row_of_each_key(connection: runnel.Connection, seed: int) -> None:
    tables = {"a": random_table(random.Random(seed), 150)}
    sql = (
        "SELECT k, s, v FROM {a} QUALIFY ROW_NUMBER() OVER (PARTITION BY k, s "
        "ORDER BY n NULLS LAST, v) = 1"
    )
    assert rounded(streamed(connection, sql + FOR_EVER, tables, seed)) == rounded(
        in_duckdb(sql, tables)
    )


T, K, V = (Column(index=i, name=name, type=BIGINT) for i, name in enumerate("tkv"))
NUMBER = Column(index=5, name="i", type=BIGINT)
SCHEMA = schema_of(pa.int64()).append(pa.field("i", pa.int64()))
BY_TIME = (SortKey(T, False, False),)
BY_ROW = (*BY_TIME, SortKey(NUMBER, False, True))


def preceding(
    count: int, unit: FrameUnit = FrameUnit.RANGE, behind: int | None = None
) -> WindowFrame:
    end = (
        FrameBound(BoundKind.CURRENT_ROW)
        if behind is None
        else FrameBound(BoundKind.FOLLOWING, Literal(value=behind, type=BIGINT))
    )
    return WindowFrame(
        unit, FrameBound(BoundKind.PRECEDING, Literal(value=count, type=BIGINT)), end
    )


def over(
    call: AggregateCall, order: tuple[SortKey, ...], frame: WindowFrame = UP_TO_PEERS
) -> WindowCall:
    return WindowCall(call=call, partition=(K,), order=order, frame=frame)


NUMBERING = AggregateCall(function="row_number", arguments=(), type=BIGINT)
CASES: dict[str, tuple[tuple[WindowCall, ...], tuple[Reach, ...], str]] = {
    "range": (
        (
            over(aggregate_call("sum", [V]), BY_TIME, preceding(6)),
            over(aggregate_call("count", []), BY_TIME, preceding(0)),
        ),
        (Reach(span=6), Reach(span=0)),
        (
            "sum(v) OVER (PARTITION BY k ORDER BY t NULLS LAST RANGE BETWEEN 6 PRECEDING AND "
            "CURRENT ROW), count(*) OVER "
            "(PARTITION BY k ORDER BY t NULLS LAST RANGE BETWEEN 0 PRECEDING AND CURRENT ROW)"
        ),
    ),
    "behind": (
        (
            over(aggregate_call("sum", [V]), BY_TIME, preceding(6, behind=9)),
            over(NUMBERING, BY_TIME),
        ),
        (Reach(span=6, lead=9), Reach(is_running=True)),
        (
            "sum(v) OVER (PARTITION BY k ORDER BY t NULLS LAST RANGE BETWEEN 6 PRECEDING AND 9 "
            "FOLLOWING), row_number() OVER (PARTITION BY k ORDER BY t NULLS LAST)"
        ),
    ),
    "running": (
        (
            over(aggregate_call("sum", [V]), BY_ROW),
            over(aggregate_call("min", [V]), BY_ROW, preceding(3, FrameUnit.ROWS)),
        ),
        (Reach(is_running=True), Reach(rows=3)),
        (
            "sum(v) OVER (PARTITION BY k ORDER BY t NULLS LAST, i), "
            "min(v) OVER (PARTITION BY k ORDER BY t NULLS LAST, "
            "i ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
        ),
    ),
}


def supplier(name: str) -> Any:
    calls, reaches, _ = CASES[name]
    holding = Buffering(((T, TimeBound(1)),), max(reach.lead for reach in reaches))
    return ordered_window(
        calls, reaches, (len(SCHEMA), (*SCHEMA.names, "x", "y")), holding, ((0, 1),)
    )


def stream(seed: int) -> tuple[Items, list[pa.RecordBatch]]:
    """A stream, and its rows but for those that are late."""
    rng = random.Random(seed)
    rows = random_rows(rng, 60, disorder=rng.choice((0, 8, 30)))
    for number, row in enumerate(rows):
        row["i"] = number
    items = cut(rng, rows, SCHEMA, lag=rng.choice((0, 5, 30)))
    kept, time = [], -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            time = item.time
        else:
            kept.append(
                batch_of(
                    [row for row in item.to_pylist() if row["t"] is None or row["t"] >= time],
                    SCHEMA,
                )
            )
    return items, kept


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_under_all_conditions(name: str, seed: int) -> None:
    items, kept = stream(seed)
    lead = max(reach.lead for reach in CASES[name][1])
    table = pa.Table.from_batches(kept, SCHEMA)
    wanted = plain(rows_of(duckdb_rows(f"SELECT i, {CASES[name][2]} FROM t", t=table)))

    def check(found: list[Any]) -> None:
        time = -(1 << 60)
        for item in found:
            if isinstance(item, Watermark):
                assert item.time > time
                time = item.time
            else:
                assert all(
                    moment is None or moment >= time - lead
                    for moment in item.column("t").to_pylist()
                )
        assert time == max(item.time for item in items if isinstance(item, Watermark))
        batches = [
            item.select(["i", "x", "y"]) for item in found if isinstance(item, pa.RecordBatch)
        ]
        if name == "behind":
            # Which of the rows of one time comes first is open.
            numbered = [(row[0], row[2]) for row in rows_of(batches)]
            assert sorted(rank for _, rank in numbered) == sorted(row[2] for row in wanted)
            batches, expected = (
                [item.select(["i", "x"]) for item in batches],
                [row[:2] for row in wanted],
            )
        else:
            expected = wanted
        assert_rows(batches, expected, ordered=False)

    verify_processor(supplier(name), [items], check, row_by_row=seed == 0)


def rows_at(time: int, keys: int) -> pa.RecordBatch:
    rows = [{"t": time, "k": k, "v": k, "s": "s", "f": 0.5, "i": k} for k in range(keys)]
    return batch_of(rows, SCHEMA)


def made(name: str) -> OrderedWindow:
    processor: OrderedWindow = made_of(supplier(name))[0]
    return processor


def test_rows_out_of_range_are_forgotten() -> None:
    processor = made("range")
    for time in range(300):
        feed(processor, [rows_at(time, 20), Watermark(time, 1)])
        assert processor.flush()
        assert processor.state_size()[0] <= 20 * 16, (
            "about twice the rows of seven instants, and those that wait"
        )


def test_a_key_that_comes_no_more_is_forgotten() -> None:
    processor = made("range")
    for time in range(200):
        rows = [{"t": time, "k": time, "v": 1, "s": "s", "f": 0.5, "i": time}]
        feed(processor, [batch_of(rows, SCHEMA), Watermark(time, 1)])
        assert processor.flush()
        assert processor.state_size()[0] <= 30


def test_nothing_is_kept_once_the_watermark_is_out_of_reach() -> None:
    processor = made("range")
    feed(processor, [rows_at(1, 20), Watermark(2, 1)])
    assert processor.flush() and processor.state_size()[0] == 20
    rows = [{"t": 3, "k": 1, "v": 1, "s": "s", "f": 0.5, "i": 1}]
    feed(processor, [batch_of(rows, SCHEMA), Watermark(100, 1)])
    assert processor.flush()
    assert processor.state_size()[0] == 0, "also the rows of keys that did not come again"


def test_running_values_take_a_row_per_key() -> None:
    processor = made("running")
    for time in range(50):
        feed(processor, [rows_at(time, 20), Watermark(time + 1, 1)])
        assert processor.flush()
        assert processor.state_size()[0] <= 20 * (1 + 3)


def test_watermarks_wait_for_rows_but_not_for_long() -> None:
    """A watermark among many rows that are kept doesn't make the operator look through all of them,
    but an idle one does."""
    processor, outbox = made_of(supplier("range"))
    feed(processor, [*(rows_at(time, 50) for time in range(6)), Watermark(6, 1)])
    assert Watermark(6, 1) in outbox.outputs[0]
    feed(processor, [rows_at(6, 1), Watermark(7, 1)])
    assert Watermark(7, 1) not in outbox.outputs[0], "one row is few"
    assert processor.flush()
    assert outbox.outputs[0][-1] == Watermark(7, 1)
    assert sum(batch.num_rows for batch in batches_in(outbox)) == 301


def test_late_rows_are_counted_and_left_out() -> None:
    processor, outbox = made_of(supplier("range"))
    feed(processor, [rows_at(5, 3), Watermark(6, 1), rows_at(5, 2), rows_at(6, 1)])
    assert processor.late_rows == 2
    assert processor.complete()
    assert sum(batch.num_rows for batch in batches_in(outbox)) == 4


def test_a_row_without_a_time_comes_before_all_others_or_is_late() -> None:
    """By default NULL is the smallest; results that it would have come before are given already."""
    calls = (over(NUMBERING, (SortKey(T, False, True),)),)
    names = (*SCHEMA.names, "x")
    holding = Buffering(((T, TimeBound(1)),), nulls_first=True)
    processor, outbox = made_of(
        ordered_window(calls, (Reach(is_running=True),), (len(SCHEMA), names), holding, ((0, 1),))
    )
    untimed = batch_of([{"t": None, "k": 0, "v": 0, "s": "s", "f": 0.5, "i": 0}], SCHEMA)
    feed(processor, [rows_at(5, 1), untimed, Watermark(6, 1), untimed, rows_at(7, 1)])
    assert processor.late_rows == 1
    assert processor.complete()
    found = [item.select(["t", "x"]) for item in batches_in(outbox)]
    assert sorted(rows_of(found), key=str) == [(5, 2), (7, 3), (None, 1)]


TIMES = {
    "small": (pa.int16(), "1", "RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING"),
    "date": (
        pa.date32(),
        "INTERVAL '1' DAY",
        "RANGE BETWEEN INTERVAL '3' DAY PRECEDING AND INTERVAL '2' DAY FOLLOWING",
    ),
    "timestamp": (
        pa.timestamp("us"),
        "INTERVAL '1' SECOND",
        "RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW",
    ),
    "zoned": (
        pa.timestamp("us", "UTC"),
        "INTERVAL '1' SECOND",
        "RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW",
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_of_every_type_before_1970_too(name: str) -> None:
    arrow, lag, frame = TIMES[name]
    rng = random.Random(name)
    steps = [None if rng.random() < 0.05 else number - 40 for number in range(80)]
    times = pa.array(
        [
            step if step is None or not pa.types.is_timestamp(arrow) else step * 1_000_000
            for step in steps
        ]
    )
    kept = pa.int32() if arrow == pa.date32() else times.type
    table = pa.table({"t": times.cast(kept).cast(arrow), "v": pa.array(range(80))})
    sql = (
        f"SELECT v, SUM(v) OVER (ORDER BY t {frame}) AS a, COUNT(*) OVER (PARTITION BY t) AS b "
        f"FROM {{}}"
    )
    with runnel.connect() as connection:
        connection.register("a", table)
        wanted = connection.execute(sql.format("a")).fetchall()
        connection.unregister("a")
        with connection.register_stream("a", table.schema) as writer:
            cursor = connection.execute(
                sql.format(f"TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(t), {lag}))")
            )
            for at in range(0, 80, 3):
                writer.write(table.slice(at, 3))
        assert sorted(cursor.fetchall()) == sorted(wanted)


def test_explain_tells_what_is_kept() -> None:
    calls = "COUNT(*) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 7 PRECEDING AND 4 FOLLOWING)"
    source = "TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20))"
    with (
        runnel.connect() as connection,
        connection.register_stream("a", random_table(random.Random(0), 1).schema),
    ):
        in_range = str(
            connection.execute(f"EXPLAIN (STATE) SELECT {calls} FROM {source}").fetchall()
        )
        assert "rows until the watermark is 4 past them; rows of the last 7" in in_range
        running = f"SELECT SUM(v) OVER (PARTITION BY k ORDER BY n) FROM {source}{FOR_EVER}"
        assert "a row of each partition, without bound" in str(
            connection.execute(f"EXPLAIN (STATE) {running}").fetchall()
        )
