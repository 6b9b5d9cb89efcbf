"""TUMBLE, HOP and CUMULATE row by row, against arithmetic on Python's own integers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from runnel.columns.batches import MAX_ROWS
from runnel.errors import DataError
from runnel.expressions.nodes import Column
from runnel.processor import Item, Watermark
from runnel.processors.time_windows.assign_windows import assign_windows
from runnel.relation.streams import WindowKind, WindowShape
from runnel.sqltypes import (
    BIGINT,
    DATE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    SqlType,
    to_arrow,
)
from runnel.testing import verify_processor
from tests.effort import some

NAMES = ("t", "i", "window_start", "window_end", "window_time")
DAY = 86_400_000_000


def windows(shape: WindowShape, time: int) -> Iterator[tuple[int, int]]:
    """The windows that a time is in, the long way round."""
    step = shape.step if shape.kind is WindowKind.HOP else shape.size
    start = (time - shape.offset) // step * step + shape.offset
    while start + shape.size > time:
        if shape.kind is WindowKind.CUMULATE:
            ends = range(start + shape.step, start + shape.size + 1, shape.step)
            yield from ((start, end) for end in ends if end > time)
            return
        yield start, start + shape.size
        start -= step


def expected(shape: WindowShape, times: list[int | None]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for i, time in enumerate(times):
        if time is None:
            rows.append((None, i, None, None, None))
        else:
            rows += [(time, i, start, end, end - 1) for start, end in sorted(windows(shape, time))]
    return rows


def batch(times: list[int | None], first: int = 0, kind: SqlType = BIGINT) -> pa.RecordBatch:
    arrow = to_arrow(kind)
    column = (
        pa.array(times, pa.int64()).cast(arrow)
        if pa.types.is_integer(arrow)
        else pa.array(times, arrow)
    )
    return pa.RecordBatch.from_pydict(
        {"t": column, "i": pa.array(range(first, first + len(times)), pa.int64())}
    )


def time_column(kind: SqlType = BIGINT) -> Column:
    return Column(index=0, name="t", type=kind)


def shapes(random_: random.Random) -> WindowShape:
    kind = random_.choice([WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE])
    step = random_.choice([1, 2, 3, 7, 10])
    size = step * random_.choice([1, 2, 5])
    if kind is WindowKind.TUMBLE:
        return WindowShape(kind, size, 0, random_.randrange(size))
    if kind is WindowKind.HOP:
        size += random_.randrange(step)
        return WindowShape(kind, size, step, random_.randrange(step))
    return WindowShape(kind, size, step, random_.randrange(size))


@pytest.mark.parametrize("seed", some(range(40), 2))
def test_any_shape_over_any_times(seed: int) -> None:
    random_ = random.Random(seed)
    shape = shapes(random_)
    times = [
        random_.choice([None, random_.randrange(-60, 60), random_.randrange(-(10**12), 10**12)])
        for _ in range(30)
    ]
    cut = random_.randrange(30)
    items: list[pa.RecordBatch | Watermark] = [
        batch(times[:cut]),
        Watermark(5),
        batch(times[cut:], cut),
    ]
    verify_processor(assign_windows(shape, time_column(), NAMES), [items], expected(shape, times))


@pytest.mark.parametrize("kind", [TINYINT, SMALLINT, INTEGER, BIGINT])
def test_integers_of_every_width(kind: SqlType) -> None:
    shape = WindowShape(WindowKind.HOP, 20, 10)
    times: list[int | None] = [-100, -1, 0, 9, None, 100]
    given = batch(times, kind=kind)

    def of_that_type(items: list[Item]) -> None:
        found = pa.Table.from_batches([item for item in items if isinstance(item, pa.RecordBatch)])
        assert [field.type for field in found.schema][2:] == [to_arrow(kind)] * 3
        assert list(
            zip(*(column.to_pylist() for column in found.columns), strict=True)
        ) == expected(shape, times)

    verify_processor(
        assign_windows(shape, time_column(kind), NAMES), [[given]], of_that_type, row_by_row=False
    )


def test_a_date_has_windows_of_timestamps_and_an_instant_those_of_instants() -> None:
    shape = WindowShape(WindowKind.TUMBLE, 7 * DAY, 0, 4 * DAY)
    for kind, value in (
        (DATE, 20_513),
        (TIMESTAMP, 20_513 * DAY + 1),
        (TIMESTAMP_TZ, 20_513 * DAY + 1),
    ):
        given = pa.RecordBatch.from_pydict(
            {
                "t": pa.array([value], pa.int32() if kind == DATE else pa.int64()).cast(
                    to_arrow(kind)
                )
            }
        )
        names = ("t", "window_start", "window_end", "window_time")

        def right(items: list[Item], kind: SqlType = kind) -> None:
            (found,) = (item for item in items if isinstance(item, pa.RecordBatch))
            bound = to_arrow(TIMESTAMP if kind == DATE else kind)
            assert [field.type for field in found.schema][1:] == [bound] * 3
            start = (20_513 - 4) // 7 * 7 + 4
            wanted = [start * DAY, (start + 7) * DAY, (start + 7) * DAY - 1]
            assert [column.cast(pa.int64())[0].as_py() for column in found.columns[1:]] == wanted

        verify_processor(assign_windows(shape, time_column(kind), names), [[given]], right)


def test_a_row_in_more_windows_than_a_batch_has_rows() -> None:
    count = 2 * MAX_ROWS + 5
    shape = WindowShape(WindowKind.HOP, count, 1)

    def all_there(items: list[Item]) -> None:
        found = [item for item in items if isinstance(item, pa.RecordBatch)]
        assert max(item.num_rows for item in found) <= MAX_ROWS
        starts = [start for item in found for start in item.column(0).to_pylist()]
        assert starts == [*range(1 - count, 1), *range(11 - count, 11)]

    verify_processor(
        assign_windows(shape, time_column(), ("window_start",), (2,)),
        [[batch([0, 10])]],
        all_there,
        row_by_row=False,
    )


def test_only_the_columns_that_are_asked_for() -> None:
    shape = WindowShape(WindowKind.TUMBLE, 10)
    verify_processor(
        assign_windows(shape, time_column(), ("i", "window_end"), (1, 3)),
        [[batch([3, 13])]],
        [(0, 10), (1, 20)],
    )
    verify_processor(
        assign_windows(shape, time_column(), ("i",), (1,)), [[batch([3, 13])]], [(0,), (1,)]
    )


@pytest.mark.parametrize("time", [-(2**63), -(2**63) + 3, 2**63 - 1, 2**63 - 8])
@pytest.mark.parametrize(
    "shape",
    [
        WindowShape(WindowKind.TUMBLE, 10),
        WindowShape(WindowKind.HOP, 10, 5),
        WindowShape(WindowKind.CUMULATE, 10, 5),
    ],
)
def test_bounds_beyond_int64_are_errors(shape: WindowShape, time: int) -> None:
    with pytest.raises(DataError, match="out of the range of BIGINT"):
        verify_processor(assign_windows(shape, time_column(), NAMES), [[batch([0, time])]], [])


@pytest.mark.parametrize(
    "shape", [WindowShape(WindowKind.TUMBLE, 10), WindowShape(WindowKind.HOP, 10, 5)]
)
def test_bounds_at_the_ends_of_int64_are_none(shape: WindowShape) -> None:
    low, high = -(2**63) + 15, 2**63 - 1 - 15
    verify_processor(
        assign_windows(shape, time_column(), NAMES),
        [[batch([low, high])]],
        expected(shape, [low, high]),
    )


def test_a_null_among_small_numbers_overflows_nothing() -> None:
    shape = WindowShape(WindowKind.TUMBLE, 1000)
    verify_processor(
        assign_windows(shape, time_column(TINYINT), NAMES),
        [[batch([None], kind=TINYINT)]],
        [(None, 0, None, None, None)],
    )


def test_watermarks_follow_the_rows() -> None:
    def in_order(items: list[Item]) -> None:
        assert items[-1] == Watermark(7, 3)
        assert sum(item.num_rows for item in items[:-1] if isinstance(item, pa.RecordBatch)) == 4

    shape = WindowShape(WindowKind.HOP, 4, 2)
    verify_processor(
        assign_windows(shape, time_column(), NAMES), [[batch([1, 2]), Watermark(7, 3)]], in_order
    )
