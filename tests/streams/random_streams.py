"""Random streams: rows out of order, cut into batches, with watermarks that leave some of them
behind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runnel.processor import Watermark

Items = list["pa.RecordBatch | Watermark"]


def random_rows(
    rng: random.Random, count: int, disorder: int, step: int = 3, start: int = -50
) -> list[dict[str, Any]]:
    """Rows with an event time `t` (now and then NULL) that grows by up to `step` and jitters by up
    to `disorder`, a key `k` of few values or NULL, and values `v`, `s`."""
    rows = []
    time = start
    for number in range(count):
        time += rng.randrange(step + 1)
        moment = None if rng.random() < 0.03 else time - rng.randrange(disorder + 1)
        key = None if rng.random() < 0.1 else rng.randrange(4)
        value = None if rng.random() < 0.1 else rng.randrange(-100, 100)
        rows.append(
            {
                "t": moment,
                "k": key,
                "v": value,
                "s": f"s{number % 7}",
                "f": None if value is None else value / 8,
            }
        )
    return rows


def schema_of(time: pa.DataType) -> pa.Schema:
    return pa.schema(
        [("t", time), ("k", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("f", pa.float64())]
    )


def cut(rng: random.Random, rows: Sequence[dict[str, Any]], schema: pa.Schema, lag: int) -> Items:
    """The rows in batches of random sizes, after each of which, mostly, comes the watermark: the
    greatest time so far less `lag`."""
    items: Items = []
    greatest = last = -(1 << 40)
    at = 0
    while at < len(rows):
        part = list(rows[at : at + rng.choice((1, 2, 5, 17))])
        at += len(part)
        items.append(batch_of(part, schema))
        greatest = max([greatest, *(row["t"] for row in part if row["t"] is not None)])
        if greatest - lag > last and rng.random() < 0.7:
            last = greatest - lag
            items.append(Watermark(last, 1))
    return items


def batch_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows as one batch; times are given as integers, whatever their type."""
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        is_time = pa.types.is_timestamp(field.type)
        columns.append(
            pa.array(values, pa.int64()).cast(field.type)
            if is_time
            else pa.array(values, field.type)
        )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_of(items: Items, schema: pa.Schema) -> pa.Table:
    """All rows of a stream."""
    return pa.Table.from_batches(
        [item for item in items if isinstance(item, pa.RecordBatch)], schema
    )
