"""Aggregation that gives groups away at watermarks, against DuckDB over the rows that are not
late."""

from __future__ import annotations

import logging
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall, Column, Expression, Literal, SortKey
from runnel.processor import JobContext, ProcessorContext, Watermark
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.sources.partition_watermarks import EARLIEST, GREATEST_TIME, LATEST, less
from runnel.processors.time_windows import timed_groups
from runnel.processors.time_windows.timed_aggregate import (
    TimedAggregateProcessor,
    Timing,
    timed_aggregate,
)
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR
from runnel.testing import assert_rows, verify_processor
from runnel.testing.bench import BenchInbox, BenchOutbox
from runnel.testing.clock import ManualClock
from runnel.testing.rows import rows_of
from tests.processors.random_tables import duckdb_rows
from tests.streams.random_streams import Items, batch_of, cut, random_rows, schema_of

SIZE = 10
SCHEMA = schema_of(pa.int64()).append(pa.field("e", pa.int64()))
"""`e` is the end of the row's window."""
COLUMNS = {
    "t": Column(index=0, name="t", type=BIGINT),
    "k": Column(index=1, name="k", type=BIGINT),
    "v": Column(index=2, name="v", type=BIGINT),
    "s": Column(index=3, name="s", type=VARCHAR),
    "f": Column(index=4, name="f", type=DOUBLE),
    "e": Column(index=5, name="e", type=BIGINT),
}
ONE = TimeBound(1, 1)
CALLS: dict[str, AggregateCall] = {
    "count(*)": aggregate_call("count", []),
    "count(v)": aggregate_call("count", [COLUMNS["v"]]),
    "sum(v)": aggregate_call("sum", [COLUMNS["v"]]),
    "avg(v)": aggregate_call("avg", [COLUMNS["v"]]),
    "min(f)": aggregate_call("min", [COLUMNS["f"]]),
    "max(s)": aggregate_call("max", [COLUMNS["s"]]),
    "stddev_samp(f)": aggregate_call("stddev_samp", [COLUMNS["f"]]),
    "sum(v) filter (where s = 's1')": aggregate_call(
        "sum",
        [COLUMNS["v"]],
        False,
        build.call("eq", [COLUMNS["s"], Literal(value="s1", type=VARCHAR)]),
    ),
}
"""By the SQL that DuckDB runs as the oracle; `v` and `f` may be negative, zero or NULL."""
ORDERED = {
    "array_agg(v order by v, s)": aggregate_call(
        "array_agg",
        [COLUMNS["v"]],
        order=[SortKey(COLUMNS["v"], False, True), SortKey(COLUMNS["s"], False, True)],
    ),
}
DISTINCT = {
    "count(distinct s)": aggregate_call("count", [COLUMNS["s"]], True),
    "sum(distinct v)": aggregate_call("sum", [COLUMNS["v"]], True),
}


def windowed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**row, "e": None if row["t"] is None else row["t"] // SIZE * SIZE + SIZE} for row in rows
    ]


def on_time(items: Items, offset: int = 1) -> tuple[list[pa.RecordBatch], int]:
    """The batches without the rows that are late, and how many those are."""
    kept, late, time = [], 0, -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            time = item.time
        else:
            rows = [
                row for row in item.to_pylist() if row["e"] is None or row["e"] >= time + offset
            ]
            late += item.num_rows - len(rows)
            kept.append(batch_of(rows, item.schema))
    return kept, late


def supplier(
    calls: dict[str, AggregateCall],
    stage: AggregationStage = AggregationStage.SINGLE,
    **options: Any,
) -> Any:
    keys = (COLUMNS["e"], COLUMNS["k"])
    names = tuple(f"c{i}" for i in range(2 + len(calls)))
    return timed_aggregate(
        keys, tuple(calls.values()), names, stage, Timing(((0, ONE),), **options)
    )


def expected(
    batches: list[pa.RecordBatch], calls: dict[str, AggregateCall]
) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(batches, SCHEMA)
    return as_numbers(
        rows_of(duckdb_rows(f"SELECT e, k, {', '.join(calls)} FROM t GROUP BY e, k", t=table))
    )


def as_numbers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sums of integers have another type in DuckDB."""
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows
    ]


def check_order(items: list[Any]) -> None:
    """Nothing comes behind a watermark that completed it."""
    time = -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            assert item.time > time
            time = item.time
        else:
            assert all(end is None or end >= time + 1 for end in item.column(0).to_pylist())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many collapses and merges, also of few rows."""
    monkeypatch.setattr(timed_groups, "BUFFERED_ROWS", 7)
    monkeypatch.setattr(timed_groups, "MERGED_ROWS", 9)
    monkeypatch.setattr(timed_groups, "EAGER_ROWS", 2)
    monkeypatch.setattr(timed_groups, "EAGER_ROWS_PER_GROUP", 1)


@pytest.mark.parametrize(
    "calls",
    [CALLS, CALLS | ORDERED | DISTINCT, DISTINCT, {}],
    ids=["plain", "all", "distinct", "keys"],
)
@pytest.mark.parametrize("seed", range(2))
def test_gives_what_duckdb_gives(seed: int, calls: dict[str, AggregateCall]) -> None:
    rng = random.Random(seed)
    rows = windowed(random_rows(rng, 60, disorder=rng.choice((0, 8, 30))))
    items = cut(rng, rows, SCHEMA, lag=rng.choice((0, 5, 30)))
    wanted = expected(on_time(items)[0], calls or {"count(*)": CALLS["count(*)"]})
    wanted = wanted if calls else [row[:2] for row in wanted]

    def check(found: list[Any]) -> None:
        check_order(found)
        assert [item for item in found if isinstance(item, Watermark)] == [
            i for i in items if isinstance(i, Watermark)
        ]
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    verify_processor(supplier(calls), [items], check, row_by_row=False)


def test_late_rows_are_diverted_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(5)
    items = cut(rng, windowed(random_rows(rng, 100, disorder=40)), SCHEMA, lag=3)
    kept, late = on_time(items)
    assert late > 10
    wanted = expected(kept, CALLS)

    def check_late(found: list[Any]) -> None:
        batches = [item for item in found if isinstance(item, pa.RecordBatch)]
        assert sum(batch.num_rows for batch in batches) == late
        assert all(batch.schema.names == SCHEMA.names for batch in batches)

    def check_rows(found: list[Any]) -> None:
        check_order(found)
        batches = [item for item in found if isinstance(item, pa.RecordBatch)]
        assert_rows(batches, wanted, ordered=False)

    with caplog.at_level(logging.WARNING):
        verify_processor(
            supplier(CALLS, diverts=True),
            [items],
            [check_rows, check_late],
            outputs=2,
            row_by_row=False,
        )
    assert "late event" in "\n".join(caplog.messages)


@pytest.mark.parametrize("seed", range(2))
def test_two_stages_give_what_one_gives(seed: int) -> None:
    rng = random.Random(seed)
    calls = CALLS | ORDERED
    items = cut(rng, windowed(random_rows(rng, 60, disorder=20)), SCHEMA, lag=rng.choice((0, 6)))
    between: list[list[Any]] = []
    verify_processor(
        supplier(calls, AggregationStage.ACCUMULATE),
        [items],
        lambda found: between.append(list(found)),
        row_by_row=False,
    )
    wanted = expected(on_time(items)[0], calls)

    def check(found: list[Any]) -> None:
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    for states in between[:: len(between) - 1]:
        verify_processor(
            supplier(calls, AggregationStage.COMBINE), [states], check, row_by_row=False
        )


def test_groups_wait_for_the_first_of_two_bounds() -> None:
    """A group ends as soon as one of its bounded keys can't occur any more, whichever watermark
    says so."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    keys: tuple[Expression, ...] = (
        Column(index=0, name="a", type=BIGINT),
        Column(index=1, name="b", type=BIGINT),
    )
    timing = Timing(((0, TimeBound(1)), (1, TimeBound(2, 5))))
    made = timed_aggregate(
        keys, (CALLS["count(*)"],), ("a", "b", "n"), AggregationStage.SINGLE, timing
    )
    batch = pa.RecordBatch.from_pylist(
        [{"a": 1, "b": 20}, {"a": 5, "b": 6}, {"a": 9, "b": 9}, {"a": 1, "b": 20}], schema
    )
    later = pa.RecordBatch.from_pylist(
        [{"a": 1, "b": 90}, {"a": 90, "b": 6}, {"a": 9, "b": None}], schema
    )
    items = [batch, Watermark(2, 1), Watermark(2, 2), Watermark(9, 3), later, Watermark(3, 2)]

    def check(found: list[Any]) -> None:
        shown = [
            item if isinstance(item, Watermark) else sorted(rows_of([item]), key=str)
            for item in found
        ]
        wanted = [
            [(1, 20, 2)],
            Watermark(2, 1),
            [(5, 6, 1)],
            Watermark(2, 2),
            Watermark(9, 3),
            Watermark(3, 2),
        ]
        assert shown == [*wanted, [(9, 9, 1), (9, None, 1)]]

    verify_processor(made, [items], check, row_by_row=False)


def made(
    calls: dict[str, AggregateCall], stage: AggregationStage = AggregationStage.SINGLE
) -> tuple[TimedAggregateProcessor, BenchOutbox]:
    return made_of(supplier(calls, stage))


def made_of(factory: Any) -> tuple[Any, BenchOutbox]:
    """A processor and where it puts its rows."""
    processor = factory()
    outbox = BenchOutbox(1, tight=False)
    processor.init(outbox, context_of())
    return processor, outbox


def context_of() -> ProcessorContext:
    clock = ManualClock()
    job = JobContext(job_id=1, evaluation=EvaluationContext(), clock=clock.monotonic)
    nothing = logging.getLogger("runnel.testing")
    return ProcessorContext(job, "aggregate", 0, 1, lambda: None, lambda moment: None, nothing)


def held(processor: TimedAggregateProcessor) -> int:
    """The rows of a processor's state, but for the watermarks."""
    return sum(batch.num_rows for batch in processor.state()) - 1


def feed(processor: TimedAggregateProcessor, items: Items) -> None:
    for item in items:
        if isinstance(item, Watermark):
            while not processor.process_watermark(item):
                pass
        else:
            processor.process(0, BenchInbox([item]))


@pytest.mark.parametrize("calls", [CALLS, DISTINCT], ids=["plain", "distinct"])
@pytest.mark.parametrize("stage", [AggregationStage.SINGLE, AggregationStage.ACCUMULATE])
def test_closed_windows_take_no_memory(
    calls: dict[str, AggregateCall], stage: AggregationStage
) -> None:
    if stage is AggregationStage.ACCUMULATE and calls is DISTINCT:
        pytest.skip("DISTINCT has one stage")
    processor, _ = made(calls, stage)
    for window in range(8):
        rows = [{"t": window * 10, "k": k, "v": k, "s": "s", "f": 0.5} for k in range(30)]
        feed(processor, [batch_of(windowed(rows), SCHEMA), Watermark(window * 10, 1)])
        assert held(processor) <= 3 * 30, "only the window that is open"
    feed(processor, [Watermark(300, 1)])
    assert held(processor) == 0
    assert processor._groups.open_groups == 0


def test_a_far_future_row_does_not_make_its_own_batch_late() -> None:
    processor, outbox = made(CALLS)
    rows = [{"t": t, "k": 1, "v": 1, "s": "s", "f": 0.0} for t in (10**12, 5, 15)]
    feed(processor, [batch_of(windowed(rows), SCHEMA), Watermark(10**12, 1)])
    assert processor.late_rows == 0
    assert [row[:3] for row in rows_of(batches_in(outbox))] == [(10, 1, 1), (20, 1, 1)]


def test_times_beyond_all_watermarks_wait_for_the_end() -> None:
    """A watermark stays at 2^62, so it completes nothing beyond: else a group could come twice."""
    processor, outbox = made({"count(*)": CALLS["count(*)"]})
    far = batch_of(
        [{"t": GREATEST_TIME + 10, "k": 1, "v": 1, "s": "s", "f": 0.0, "e": GREATEST_TIME + 16}],
        SCHEMA,
    )
    feed(processor, [far, Watermark(GREATEST_TIME, 1), far])
    assert processor.complete()
    assert [row[-1] for row in rows_of(batches_in(outbox))] == [2]


def test_less_stays_within_the_range() -> None:
    times = np.array([EARLIEST, EARLIEST + 3, 0, LATEST - 3, LATEST])
    assert less(times, 5).tolist() == [EARLIEST, EARLIEST, -5, LATEST - 8, LATEST - 5]
    assert less(times, -5).tolist() == [EARLIEST + 5, EARLIEST + 8, 5, LATEST, LATEST]


def test_late_rows_are_not_aggregated() -> None:
    processor, outbox = made(CALLS)
    rows = [{"t": t, "k": 1, "v": 1, "s": "s", "f": 0.0} for t in (5, 15)]
    feed(processor, [Watermark(9, 1), batch_of(windowed(rows), SCHEMA), Watermark(10, 1)])
    assert processor.late_rows == 0, "the window ends at 10, so 9 doesn't complete it"
    assert [row[:3] for row in rows_of(batches_in(outbox))] == [(10, 1, 1)]
    feed(processor, [batch_of(windowed(rows[:1] * 3), SCHEMA)])
    assert processor.late_rows == 3
    assert processor.complete()
    assert [row[:3] for row in rows_of(batches_in(outbox))] == [(10, 1, 1), (20, 1, 1)]


def test_all_late_rows_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Not more than a line in a second, but in the end of all of them."""
    processor, _ = made(CALLS)
    late = batch_of(windowed([{"t": 5, "k": 1, "v": 1, "s": "s", "f": 0.0}]), SCHEMA)
    with caplog.at_level(logging.WARNING, "runnel.testing"):
        feed(processor, [Watermark(50, 1), *[late] * 4])
        assert [record.args[-1] for record in caplog.records if record.args] == [1]
        processor.close()
    assert [record.args[-1] for record in caplog.records if record.args] == [1, 4]
    assert "; 2 more since the last message" in caplog.messages[-1]
    assert processor.late_rows == 4


def test_the_last_window_comes_at_the_end_of_input() -> None:
    processor, outbox = made({"count(*)": CALLS["count(*)"]})
    rows = [{"t": t, "k": 1, "v": 1, "s": "s", "f": 0.0} for t in (None, -15, 5)]
    feed(processor, [batch_of(windowed(rows), SCHEMA)])
    assert batches_in(outbox) == []
    assert processor.complete()
    assert sorted(rows_of(batches_in(outbox)), key=str) == [(-10, 1, 1), (10, 1, 1), (None, 1, 1)]


def test_no_cap_drops_keys() -> None:
    processor, outbox = made({"count(*)": CALLS["count(*)"]})
    keys = 20_000
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1] * keys, pa.int64()),
            pa.array(range(keys), pa.int64()),
            *(pa.nulls(keys, field.type) for field in list(SCHEMA)[2:5]),
            pa.array([10] * keys, pa.int64()),
        ],
        schema=SCHEMA,
    )
    feed(processor, [batch, batch, Watermark(10, 1)])
    while not processor.flush():
        pass
    counts = pa.concat_arrays([item.column(2) for item in batches_in(outbox)])
    assert counts.to_pylist() == [2] * keys


def test_a_watermark_that_completes_nothing_is_passed_on_at_once() -> None:
    processor, outbox = made(CALLS)
    rows = [{"t": 100, "k": 1, "v": 1, "s": "s", "f": 0.0}]
    feed(
        processor, [batch_of(windowed(rows), SCHEMA), *(Watermark(time, 1) for time in range(100))]
    )
    assert outbox.outputs[0] == [Watermark(time, 1) for time in range(100)]
    assert processor._groups._row_count == 1, "the rows are still buffered"


def batches_in(outbox: BenchOutbox) -> list[pa.RecordBatch]:
    return [item for item in outbox.outputs[0] if isinstance(item, pa.RecordBatch)]
