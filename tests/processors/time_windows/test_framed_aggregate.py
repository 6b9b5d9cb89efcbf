"""Windows that overlap, combined from frames, against DuckDB over a row for each window of each
row."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from runnel.processor import Watermark
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.time_windows import (
    framed_aggregate,
    frames,
    sparse_windows,
    timed_groups,
)
from runnel.processors.time_windows.framed_aggregate import FramedKeys
from runnel.processors.time_windows.frames import FrameTimes
from runnel.relation.streams import TimeBound, WindowKind, WindowShape
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.effort import crossed, some
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
from tests.streams.random_streams import Items, batch_of, cut, random_rows, schema_of

HOP, CUMULATE = WindowKind.HOP, WindowKind.CUMULATE
SCHEMA = schema_of(pa.int64())
SHAPES = [
    WindowShape(HOP, 10, 2),
    WindowShape(HOP, 12, 9, 4),
    WindowShape(HOP, 7, 3, 1),
    WindowShape(HOP, 10, 10),
    WindowShape(CUMULATE, 12, 3, 2),
]


@pytest.fixture(autouse=True, params=["running totals", "repeated groups"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many collapses, the stacks turned in portions, and both ways of combining frames."""
    is_sparse = request.param == "repeated groups"
    monkeypatch.setattr(framed_aggregate, "FEW_WINDOWS", 0 if is_sparse else 1 << 60)
    monkeypatch.setattr(sparse_windows, "ROWS_OF_WINDOW", 1 << 40)
    monkeypatch.setattr(sparse_windows, "MOST_REPEATED", 5)
    monkeypatch.setattr(timed_groups, "BUFFERED_ROWS", 7)
    monkeypatch.setattr(timed_groups, "EAGER_ROWS", 2)
    monkeypatch.setattr(timed_groups, "EAGER_ROWS_PER_GROUP", 1)
    monkeypatch.setattr(frames, "FEW_ROWS", 3)
    monkeypatch.setattr(framed_aggregate, "FEW_ROWS", 4)


def ends_of(shape: WindowShape, time: int) -> list[int]:
    """The ends of the windows that contain a time."""
    found = []
    for end in range(time + 1, time + shape.size + 1):
        if shape.kind is HOP and (end - shape.size - shape.offset) % shape.step == 0:
            found.append(end)
        if (
            shape.kind is CUMULATE
            and (end - shape.offset) % shape.step == 0
            and start_of(shape, end) <= time
        ):
            found.append(end)
    return found


def start_of(shape: WindowShape, end: int) -> int:
    return (
        end - shape.size
        if shape.kind is HOP
        else (end - 1 - shape.offset) // shape.size * shape.size + shape.offset
    )


def in_windows(items: Items, shape: WindowShape) -> tuple[pa.Table, int]:
    """A row for each window of each row that is on time, and how many rows are late for one of
    theirs."""
    rows, late, watermark = [], 0, -(1 << 60)
    for item in items:
        if isinstance(item, Watermark):
            watermark = item.time
            continue
        for row in item.to_pylist():
            ends = [None] if row["t"] is None else ends_of(shape, row["t"])
            open_ends = [end for end in ends if end is None or end > watermark]
            late += len(open_ends) < len(ends)
            rows += [
                {**row, "a": None if end is None else start_of(shape, end), "e": end}
                for end in open_ends
            ]
    schema = SCHEMA.append(pa.field("a", pa.int64())).append(pa.field("e", pa.int64()))
    return pa.Table.from_batches([batch_of(rows, schema)]), late


def supplier(
    shape: WindowShape,
    calls: dict[str, Any],
    stage: AggregationStage = AggregationStage.SINGLE,
    diverts: bool = False,
) -> Any:
    keys = FramedKeys(
        shape=shape,
        time=COLUMNS["t"],
        keys=(COLUMNS["k"],),
        columns=(-3, -2, 0, -1),
        bound=TimeBound(1),
    )
    names = ("a", "e", "k", "w", *(f"c{i}" for i in range(len(calls))))
    return framed_aggregate.framed_aggregate(keys, tuple(calls.values()), names, stage, diverts)


def expected(table: pa.Table, calls: dict[str, Any]) -> list[tuple[Any, ...]]:
    sql = f"SELECT a, e, k, e - 1, {', '.join(calls)} FROM t GROUP BY a, e, k"
    return as_numbers(rows_of(duckdb_rows(sql, t=table)))


@pytest.mark.parametrize(("shape", "kind"), crossed(SHAPES, ["distinct", "plain"]), ids=str)
def test_gives_what_a_row_for_each_window_gives(shape: WindowShape, kind: str) -> None:
    calls = CALLS | (DISTINCT if kind == "distinct" else ORDERED)
    rng = random.Random(str(shape.kind) + str(shape.size))
    items = cut(
        rng, random_rows(rng, 28, disorder=rng.choice((5, 30))), SCHEMA, lag=rng.choice((0, 8))
    )
    table, _ = in_windows(items, shape)
    wanted = expected(table, calls)

    def check(found: list[Any]) -> None:
        watermark = -(1 << 60)
        for item in found:
            if isinstance(item, Watermark):
                watermark = item.time
            else:
                assert all(end is None or end > watermark for end in item.column(1).to_pylist()), (
                    "late behind its watermark"
                )
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    verify_processor(supplier(shape, calls), [items], check, row_by_row=False)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_two_stages_give_what_one_gives(shape: WindowShape) -> None:
    rng = random.Random(7)
    items = cut(rng, random_rows(rng, 20, disorder=15), SCHEMA, lag=5)
    wanted = expected(in_windows(items, shape)[0], CALLS)
    between: list[list[Any]] = []
    first = supplier(shape, CALLS, AggregationStage.ACCUMULATE)
    verify_processor(first, [items], lambda found: between.append(list(found)), row_by_row=False)

    def check(found: list[Any]) -> None:
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    for states in between[:: len(between) - 1]:
        verify_processor(
            supplier(shape, CALLS, AggregationStage.COMBINE), [states], check, row_by_row=False
        )


def test_late_rows_are_counted_once_and_diverted() -> None:
    rng = random.Random(3)
    shape = SHAPES[0]
    items = cut(rng, random_rows(rng, 70, disorder=40), SCHEMA, lag=0)
    table, late = in_windows(items, shape)
    wanted = expected(table, CALLS)
    assert late > 8

    def check_rows(found: list[Any]) -> None:
        assert_rows(
            [item for item in found if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )

    def check_late(found: list[Any]) -> None:
        assert sum(item.num_rows for item in found if isinstance(item, pa.RecordBatch)) == late

    verify_processor(
        supplier(shape, CALLS, diverts=True),
        [items],
        [check_rows, check_late],
        outputs=2,
        row_by_row=False,
    )


def test_a_hop_window_is_not_split_into_its_slices() -> None:
    processor, outbox = made_of(supplier(WindowShape(HOP, 10, 2), {"count(*)": CALLS["count(*)"]}))
    rows = [{"t": t, "k": 1, "v": 1, "s": "s", "f": 0.0} for t in range(10)]
    feed(processor, [batch_of(rows, SCHEMA), Watermark(10, 1)])
    assert [(row[1], row[4]) for row in rows_of(batches_in(outbox))] == [
        (2, 2),
        (4, 4),
        (6, 6),
        (8, 8),
        (10, 10),
    ]


def test_windows_that_are_given_take_no_memory() -> None:
    processor, _ = made_of(supplier(WindowShape(HOP, 10, 2), CALLS))
    for time in range(0, 120, 2):
        rows = [{"t": time, "k": k, "v": k, "s": "s", "f": 0.5} for k in range(10)]
        feed(processor, [batch_of(rows, SCHEMA), Watermark(time, 1)])
        assert sum(batch.num_rows for batch in processor.state()) - 1 <= 60, (
            "six frames of ten groups"
        )
    feed(processor, [Watermark(1000, 1)])
    assert sum(batch.num_rows for batch in processor.state()) == 1


def test_a_gap_in_time_costs_nothing() -> None:
    processor, outbox = made_of(supplier(WindowShape(HOP, 10, 2), {"count(*)": CALLS["count(*)"]}))
    rows = [{"t": t, "k": 1, "v": 1, "s": "s", "f": 0.0} for t in (0, 10**15)]
    feed(processor, [batch_of(rows, SCHEMA), Watermark(10**15 + 30, 1)])
    ends = [row[1] for row in rows_of(batches_in(outbox))]
    assert ends == [2, 4, 6, 8, 10, *(10**15 + end for end in (2, 4, 6, 8, 10))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_frames_are_in_the_windows_that_contain_them(shape: WindowShape) -> None:
    times = FrameTimes(shape)
    for time in range(-40, 40):
        (frame,) = times.frame_ends(pa.array([time], pa.int64())).to_pylist()
        ends = ends_of(shape, time)
        assert frame - times.length <= time < frame
        assert (times.first_end(frame), times.last_end(frame)) == (ends[0], ends[-1])
        assert all(times.start(end) == start_of(shape, end) for end in ends)


def by_hand(table: pa.Table) -> list[tuple[Any, ...]]:
    """COUNT(*), SUM(v), COUNT(DISTINCT s) by window and key."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        groups.setdefault((row["a"], row["e"], row["k"]), []).append(row)
    found = []
    for (start, end, key), rows in groups.items():
        values = [row["v"] for row in rows if row["v"] is not None]
        counts = (len(rows), sum(values) if values else None, len({row["s"] for row in rows}))
        found.append((start, end, key, None if end is None else end - 1, *counts))
    return sorted(found, key=str)


@pytest.mark.parametrize("seed", some(range(20), 2))
def test_any_shape_disorder_and_lateness(seed: int) -> None:
    rng = random.Random(seed)
    calls = {name: (CALLS | DISTINCT)[name] for name in ("count(*)", "sum(v)", "count(distinct s)")}
    size = rng.randrange(1, 30)
    step = rng.randrange(1, size + 1)
    hop = WindowShape(HOP, size, step, rng.randrange(step))
    shape = (
        hop
        if rng.random() < 0.7
        else WindowShape(CUMULATE, step * rng.randrange(1, 6), step, hop.offset)
    )
    rows = random_rows(rng, 60, disorder=rng.choice((0, 5, 30)), step=rng.choice((1, 3, 20)))
    items = cut(rng, rows, SCHEMA, lag=rng.choice((0, 3, 8, 40)))
    processor, outbox = made_of(supplier(shape, calls))
    feed(processor, items)
    while not processor.complete():
        pass
    table, late = in_windows(items, shape)
    assert sorted(rows_of(batches_in(outbox)), key=str) == by_hand(table)
    assert processor.late_rows == late
