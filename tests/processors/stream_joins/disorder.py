"""Streams with disorder for tests: rows in a shuffled order, cut into batches, with watermarks that
are true between them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pyarrow as pa

from runnel.processor import Item, Watermark
from runnel.processors.sources.partition_watermarks import event_times

StreamItem = pa.RecordBatch | Watermark


def stream_of(
    table: pa.Table,
    time: str,
    number: int,
    rng: random.Random,
    *,
    disorder: int = 0,
    largest: int = 7,
) -> list[StreamItem]:
    """The rows of `table`, each at most about `disorder` (in event time) behind others, in batches
    of at most `largest` rows, with watermarks of that number, none of which makes a row late."""
    times = event_times(table.column(time).combine_chunks()).to_pylist()
    arrival = [0 if at is None else at + rng.randint(0, disorder) for at in times]
    order = sorted(range(len(times)), key=lambda row: (arrival[row], rng.random()))
    rows = table.take(pa.array(order, pa.int64())).combine_chunks()
    left = [times[row] for row in order]
    items: list[StreamItem] = []
    start, told = 0, -(1 << 60)
    while start < len(order):
        size = rng.randint(1, largest)
        items += rows.slice(start, size).to_batches()
        start += size
        later = [at for at in left[start:] if at is not None]
        true = min(later) if later else max((at for at in left if at is not None), default=0)
        wanted = true - rng.choice((0, 0, 1, 5, 1000))
        if wanted > told and rng.random() < 0.8:
            told = wanted
            items.append(Watermark(told, number))
    return items


def check_promises(items: Iterable[Item], columns: dict[int, Sequence[int]]) -> None:
    """Fails where a row comes out behind a watermark that came before it, or a watermark isn't
    greater than the last one. `columns` has, for each number, the places of the columns that it
    bounds."""
    told: dict[int, int] = {}
    for item in items:
        if isinstance(item, Watermark):
            assert item.time > told.get(item.column, -(1 << 63)), f"{item} after {told}"
            told[item.column] = item.time
        elif isinstance(item, pa.RecordBatch):
            for number, places in columns.items():
                for place in places:
                    times = event_times(item.column(place)).drop_null().to_pylist()
                    assert not times or min(times) >= told.get(number, -(1 << 63)), (
                        f"{min(times)} is behind {told}"
                    )
