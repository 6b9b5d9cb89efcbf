"""OVER on streams by partitions that watermarks complete, against DuckDB over the rows that are not
late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import AggregateCall, Column, Literal, SortKey
from runnel.processor import Watermark
from runnel.processors.over import by_watermark as module
from runnel.processors.over.by_watermark import event_time_window
from runnel.processors.over.streamed import ordered_window
from runnel.processors.sorting.event_time_sort import event_time_sort
from runnel.processors.stateful.row_buffer import Buffering
from runnel.relation.over import UP_TO_PEERS, WHOLE_PARTITION, WindowCall
from runnel.relation.streams import TimeBound
from runnel.relation.window_reach import Reach
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.processors.random_tables import duckdb_rows
from tests.processors.time_windows.test_timed_aggregate import (
    check_order,
    feed,
    made_of,
    on_time,
    windowed,
)
from tests.streams.ended_streams import in_duckdb, random_table, streamed
from tests.streams.random_streams import Items, cut, random_rows, schema_of

SCHEMA = schema_of(pa.int64()).append(pa.field("e", pa.int64())).append(pa.field("i", pa.int64()))
"""`e` is the end of the row's window, `i` the row's number."""
T, K, V = (Column(index=i, name=name, type=BIGINT) for i, name in enumerate("tkv"))
S = Column(index=3, name="s", type=VARCHAR)
E, NUMBER = (Column(index=5 + i, name=name, type=BIGINT) for i, name in enumerate("ei"))
BY_V = (SortKey(V, True, False), SortKey(NUMBER, False, True))
CALLS = (
    WindowCall(
        call=AggregateCall(function="row_number", arguments=(), type=BIGINT),
        partition=(E, K),
        order=BY_V,
    ),
    WindowCall(call=aggregate_call("sum", [V]), partition=(K, E), order=BY_V, frame=UP_TO_PEERS),
    WindowCall(call=aggregate_call("count", []), partition=(E,), frame=WHOLE_PARTITION),
)
SQL = """SELECT i, row_number() OVER (PARTITION BY e, k ORDER BY v DESC NULLS LAST, i) AS r,
    sum(v) OVER (PARTITION BY k, e ORDER BY v DESC NULLS LAST, i), count(*) OVER (PARTITION BY e)
        FROM t"""
NAMES = (*SCHEMA.names, "r", "total", "n")
HOLDING = Buffering(((E, TimeBound(1, 1)),))


def stream(seed: int, disorder: int | None = None, lag: int | None = None) -> Items:
    rng = random.Random(seed)
    rows = windowed(
        random_rows(rng, 60, disorder=rng.choice((0, 8, 30)) if disorder is None else disorder)
    )
    for number, row in enumerate(rows):
        row["i"] = number
    return cut(rng, rows, SCHEMA, lag=rng.choice((0, 5, 30)) if lag is None else lag)


def wanted(items: Items, sql: str = SQL) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(on_time(items)[0], SCHEMA)
    rows = rows_of(duckdb_rows(sql, t=table))
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows
    ]


def results(found: list[Any]) -> list[pa.RecordBatch]:
    return [
        item.select(["i", "r", "total", "n"]) for item in found if isinstance(item, pa.RecordBatch)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_gives_what_duckdb_gives(seed: int) -> None:
    items = stream(seed)
    expected = wanted(items)

    def check(found: list[Any]) -> None:
        check_order([item if isinstance(item, Watermark) else item.select(["e"]) for item in found])
        assert [item for item in found if isinstance(item, Watermark)] == [
            i for i in items if isinstance(i, Watermark)
        ]
        assert_rows(results(found), expected, ordered=False)

    verify_processor(
        event_time_window(CALLS, (len(SCHEMA), NAMES), HOLDING),
        [items],
        check,
        row_by_row=seed == 0,
    )


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_cannot_be_first_are_let_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRUNE_ROWS", 8)
    items = stream(seed)
    expected = [row for row in wanted(items, SQL) if row[1] <= 2]
    names = (*SCHEMA.names, "r")
    most = (0, Literal(value=2, type=BIGINT))
    supplier = event_time_window(CALLS[:1], (len(SCHEMA), names), HOLDING, most)

    def check(found: list[Any]) -> None:
        rows = rows_of(
            [item.select(["i", "r"]) for item in found if isinstance(item, pa.RecordBatch)]
        )
        assert sorted(row for row in rows if row[1] <= 2) == sorted(row[:2] for row in expected)

    verify_processor(supplier, [items], check, row_by_row=False)


def test_only_open_partitions_take_memory() -> None:
    processor, _ = made_of(event_time_window(CALLS, (len(SCHEMA), NAMES), HOLDING))
    for window in range(30):
        rows = [
            {"t": window * 10, "k": k, "v": k, "s": "s", "f": 0.5, "e": window * 10 + 10, "i": k}
            for k in range(50)
        ]
        feed(processor, [batch(rows), Watermark(window * 10, 1)])
        assert processor.state_size()[0] == 50, "the window that is open"
    assert sum(item.num_rows for item in processor.state()) == 51
    feed(processor, [Watermark(1_000, 1)])
    assert processor.state_size()[0] == 0


def test_late_rows_are_counted() -> None:
    items = stream(11, disorder=40, lag=3)
    _, late = on_time(items)
    processor, _ = made_of(event_time_window(CALLS, (len(SCHEMA), NAMES), HOLDING))
    feed(processor, items)
    assert processor.late_rows == late > 0


@pytest.mark.parametrize("operator", ["window", "sort", "ordered"])
def test_late_rows_are_diverted(operator: str) -> None:
    items = stream(12, disorder=40, lag=3)
    _, late = on_time(items)
    in_order = WindowCall(
        call=aggregate_call("count", []),
        partition=(K,),
        order=(SortKey(E, False, False),),
        frame=UP_TO_PEERS,
    )
    supplier = {
        "window": lambda: event_time_window(CALLS, (len(SCHEMA), NAMES), HOLDING, emits_late=True),
        "sort": lambda: event_time_sort((SortKey(E, False, False),), HOLDING, emits_late=True),
        "ordered": lambda: ordered_window(
            (in_order,),
            (Reach(is_running=True),),
            (len(SCHEMA), (*SCHEMA.names, "n")),
            HOLDING,
            emits_late=True,
        ),
    }[operator]()
    everything = sorted(
        number
        for item in items
        if isinstance(item, pa.RecordBatch)
        for number in item.column("i").to_pylist()
    )

    def numbers_of(found: list[Any]) -> list[int]:
        return [
            number
            for item in found
            if isinstance(item, pa.RecordBatch)
            for number in item.column("i").to_pylist()
        ]

    given: list[int] = []

    def check_rows(found: list[Any]) -> None:
        given[:] = numbers_of(found)

    def check_late(found: list[Any]) -> None:
        assert len(numbers_of(found)) == late > 0
        assert sorted([*given, *numbers_of(found)]) == everything
        assert all(
            item.schema.names == SCHEMA.names for item in found if isinstance(item, pa.RecordBatch)
        )

    verify_processor(supplier, [items], [check_rows, check_late], outputs=2, row_by_row=False)


def test_a_watermark_of_another_column_completes_nothing() -> None:
    processor, outbox = made_of(event_time_window(CALLS, (len(SCHEMA), NAMES), HOLDING))
    feed(
        processor,
        [batch([{"t": 1, "k": 1, "v": 1, "s": "s", "f": 0.5, "e": 10, "i": 0}]), Watermark(100, 2)],
    )
    assert outbox.outputs[0] == [Watermark(100, 2)]
    assert processor.state_size()[0] == 1


def test_bounds_at_the_ends_of_the_range_do_not_wrap() -> None:
    ends = [(1 << 63) - 1, -(1 << 63), 0]
    rows = [
        {"t": 0, "k": 1, "v": 1, "s": "s", "f": 0.5, "e": end, "i": i} for i, end in enumerate(ends)
    ]
    for offset, complete in ((1, [1, 2]), (-1, [1]), (1 << 61, [1, 2])):
        processor, outbox = made_of(
            event_time_window(CALLS, (len(SCHEMA), NAMES), Buffering(((E, TimeBound(1, offset)),)))
        )
        feed(processor, [batch(rows), Watermark(1, 1)])
        batches = [item for item in outbox.outputs[0] if isinstance(item, pa.RecordBatch)]
        assert (
            sorted(value for item in batches for value in item.column("i").to_pylist()) == complete
        )


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@pytest.fixture(scope="module", params=(1, 2, 3))
def connection(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"SET query_parallelism = {request.param}")
        yield made


QUERIES = {
    "top": (
        "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY window_end, k ORDER BY v DESC) AS r FROM {w} "
        "QUALIFY r <= 2"
    ),
    "whole": "SELECT v, COUNT(*) OVER (PARTITION BY window_start) AS c FROM {w}",
    "lead": (
        "SELECT v, LEAD(v, 2) OVER (PARTITION BY window_start, k ORDER BY n DESC, v) AS c FROM {w}"
    ),
    "by the time itself": "SELECT v, n, RANK() OVER (PARTITION BY n ORDER BY v DESC) AS c FROM {a}",
    "moved": (
        "SELECT v, LAST_VALUE(v) OVER (PARTITION BY window_start + 5, s ORDER BY v) AS c FROM {w}"
    ),
    "different partitions": "SELECT v, COUNT(*) OVER (PARTITION BY window_end) AS c, "
    "SUM(v) OVER (PARTITION BY window_start, k) AS d, MAX(v) OVER (PARTITION BY n) AS e FROM {w}",
    "grouped above": (
        "SELECT window_end, COUNT(*) FROM (SELECT window_end, k, "
        "ROW_NUMBER() OVER (PARTITION BY window_end, k ORDER BY v) AS r FROM {w}) WHERE r = 1 "
        "GROUP BY window_end"
    ),
    "grouped by what is before the watermark": "SELECT n, MAX(c) FROM (SELECT n, "
    "COUNT(*) OVER (PARTITION BY window_end, k) AS c FROM {w}) GROUP BY n",
    "two deep": (
        "SELECT window_end, v, RANK() OVER (PARTITION BY window_end ORDER BY c, v) AS r "
        "FROM (SELECT window_end, v, "
        "COUNT(*) OVER (PARTITION BY window_end, k) AS c FROM {w})"
    ),
    "over groups": (
        "SELECT window_end, k, c, RANK() OVER (PARTITION BY window_end ORDER BY c DESC) AS r FROM ("
        "SELECT window_end, k, COUNT(*) AS c FROM {w} GROUP BY window_end, k)"
    ),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_that_ends_gives_what_the_table_gives(
    connection: runnel.Connection, name: str, seed: int
) -> None:
    tables = {"a": random_table(random.Random(f"{name} {seed}"), 150)}
    found = streamed(connection, QUERIES[name], tables, seed)
    assert sorted(map(repr, plain(found))) == sorted(
        map(repr, plain(in_duckdb(QUERIES[name], tables)))
    )


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sums of integers have another type in DuckDB."""
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows
    ]


ORDERED = {
    "by time": "SELECT n, v FROM {a} ORDER BY n NULLS LAST, v DESC",
    "the first": "SELECT n, v FROM {a} ORDER BY n NULLS LAST, v LIMIT 20",
    "by temporal time": "SELECT ts, v FROM {at} ORDER BY ts NULLS LAST, v",
    "groups": (
        "SELECT window_end, k, COUNT(*) FROM {w} GROUP BY window_end, k "
        "ORDER BY window_end NULLS LAST, k"
    ),
    "computed": "SELECT n + 1, v FROM {a} ORDER BY n + 1 NULLS LAST, v",
}


@pytest.mark.parametrize("name", ORDERED)
def test_a_stream_in_order_of_its_time(connection: runnel.Connection, name: str) -> None:
    tables = {"a": random_table(random.Random(name), 150)}
    assert streamed(connection, ORDERED[name], tables, len(name)) == in_duckdb(
        ORDERED[name], tables
    )


@pytest.mark.parametrize("seed", range(3))
def test_sorting_under_all_conditions(seed: int) -> None:
    items = stream(seed)
    rows, time = [], -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            time = item.time
            continue
        rows += [
            (row["t"], row["i"]) for row in item.to_pylist() if row["t"] is None or row["t"] >= time
        ]
    wanted = sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, row[1]))
    supplier = event_time_sort(
        (SortKey(T, False, False), SortKey(NUMBER, False, True)), Buffering(((T, TimeBound(1)),))
    )

    def check(found: list[Any]) -> None:
        assert_rows(
            [item.select(["t", "i"]) for item in found if isinstance(item, pa.RecordBatch)],
            wanted,
            ordered=True,
        )

    verify_processor(supplier, [items], check, row_by_row=seed == 0)
