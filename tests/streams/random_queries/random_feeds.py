"""Random streams: rows out of order by no more than a lag, cut into batches, with promises of their
source between them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from runnel.connector import EventTimeMark
from tests.streams.scripted_table import IDLE, Entry

SECOND = 1_000_000
DAY = 86_400 * SECOND
TIME_TYPES = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
}
COLUMNS = ("t", "k", "s", "v", "f", "b", "d", "id")
Row = tuple[Any, ...]


def unit_of(kind: str) -> int:
    """A step of time, in event time."""
    return {"date": DAY, "timestamp": SECOND, "instant": SECOND}.get(kind, 1)


def schema_of(kind: str) -> pa.Schema:
    types = (
        TIME_TYPES[kind],
        pa.int64(),
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.decimal128(9, 2),
        pa.int64(),
    )
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


def batch_of(rows: Sequence[Row], kind: str) -> pa.RecordBatch:
    """Rows whose times are in event time."""
    schema = schema_of(kind)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    times = (
        [None if time is None or kind != "date" else time // DAY for time in columns[0]]
        if kind == "date"
        else columns[0]
    )
    first = pa.array(times, pa.int32() if kind == "date" else pa.int64()).cast(schema[0].type)
    rest = [
        pa.array(column, field.type)
        for column, field in zip(columns[1:], list(schema)[1:], strict=True)
    ]
    return pa.RecordBatch.from_arrays([first, *rest], schema=schema)


@dataclass(frozen=True)
class Feed:
    """A stream: what each of its partitions gives, in order. `lag` in event time."""

    kind: str
    lag: int
    scripts: tuple[tuple[Entry, ...], ...]

    @property
    def table(self) -> pa.Table:
        """All of its rows."""
        batches = [
            item for script in self.scripts for item in script if isinstance(item, pa.RecordBatch)
        ]
        return pa.Table.from_batches(batches, schema_of(self.kind))


@dataclass(frozen=True)
class FeedOptions:
    """`rows` at most; `lag` in units; `nulls`: whether times may be NULL; `unique`: no time comes
    twice."""

    kind: str
    rows: int
    lag: int
    partitions: int = 1
    nulls: bool = True
    unique: bool = False


def random_feed(rng: random.Random, options: FeedOptions, first_id: int = 0) -> Feed:
    """Each partition has a time of its own, that may be far from that of the others."""
    count = 0 if rng.random() < 0.06 else rng.randint(1, options.rows)
    taken: set[int] = set()
    scripts = []
    for _ in range(options.partitions):
        number = count // options.partitions if rng.random() < 0.9 else 0
        rows = _rows(rng, options, number, first_id)
        if options.unique:
            rows = [
                row for row in rows if row[0] is None or not (row[0] in taken or taken.add(row[0]))
            ]  # type: ignore[func-returns-value]
        scripts.append(_cut(rng, rows, options.kind))
        first_id += number
    return Feed(options.kind, options.lag * unit_of(options.kind), tuple(scripts))


def _rows(rng: random.Random, options: FeedOptions, count: int, first_id: int) -> list[Row]:
    unit = unit_of(options.kind)
    steps = rng.choice(((0,), (0, 0, 0, 1), (0, 1, 2), (1,), (0, 0, 1, 30), (1, 5)))
    base = rng.choice((-60, -60, 0, -5, 40, 1000))
    fine = options.kind in ("timestamp", "instant") and rng.random() < 0.7
    null_share = rng.choice((0, 0, 0.04, 0.5)) if options.nulls else 0
    keys = rng.choice(((1,), (None, 1, 2, 3), tuple(range(40)), (None,)))
    rows = []
    for number in range(count):
        base = min(base + rng.choice(steps), 32_000)
        time = (base - rng.randint(0, options.lag)) * unit
        if fine and options.lag:
            time = min(time + rng.choice((0, 1, 250_000, 999_999)), base * unit)
        value = None if rng.random() < 0.1 else rng.randint(-100, 100)
        rows.append(
            (
                None if rng.random() < null_share else time,
                rng.choice(keys),
                rng.choice((None, "", "x", "y", "é")),
                value,
                None if value is None else value / 8,
                rng.choice((True, False, None)),
                None if rng.random() < 0.1 else Decimal(rng.randint(-9999, 9999)) / 100,
                first_id + number,
            )
        )
    return rows


def _cut(rng: random.Random, rows: list[Row], kind: str) -> tuple[Entry, ...]:
    """In batches of random sizes; between them now and then what the source knows: no later row is
    older than that."""
    sizes = rng.choice(((1,), (1, 2, 5), (0, 3, 17), (64, 200), (5_000,)))
    marks = rng.choice((0, 0, 0.3))
    idles = rng.choice((0, 0, 0.2))
    least = _least_after(rows)
    all_rows = batch_of(rows, kind)
    entries: list[Entry] = []
    at = 0
    while at < len(rows):
        size = rng.choice(sizes) * (1 if len(rows) < 500 else 10)
        entries.append(all_rows.slice(at, size))
        at += size
        if rng.random() < marks and at < len(rows) and least[at] is not None:
            entries.append(EventTimeMark(least[at] - rng.choice((0, 0, 1, 100))))
    if rng.random() < idles:
        entries += [IDLE] * rng.randint(1, 5)
    return tuple(entries)


def _least_after(rows: Sequence[Row]) -> list[Any]:
    """For each place the least time from there on."""
    least: Any = None
    found = []
    for row in reversed(rows):
        least = row[0] if least is None or (row[0] is not None and row[0] < least) else least
        found.append(least)
    return found[::-1]
