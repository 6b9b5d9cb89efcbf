"""The hand-built jobs of the stored directory. Its records name the functions of this module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.key_hash import keyed_state
from runnel.dag import DAG, ProcessorSupplier, Vertex, between
from runnel.processor import Processor
from runnel.processors.library import (
    AggregateOperation,
    accumulate_by_pane,
    aggregate_by_session,
    aggregate_by_window,
    combine_by_window,
    counting,
    distinct_rows,
    hash_join,
    map_batches,
    read_mapping,
    sliding,
    summing,
    tumbling,
    write_mapping,
)
from runnel.processors.stateful.buffered import EmittingProcessor

EVENT = pa.schema([("k", pa.string()), ("v", pa.int64())])
NAME = pa.schema([("k", pa.string()), ("name", pa.string())])
TEN, FIVE = timedelta(seconds=10), timedelta(seconds=5)


@dataclass
class Range:
    """The accumulator of `spread`."""

    least: int | None = None
    greatest: int | None = None


def widened(known: Range, rows: pa.RecordBatch) -> Range:
    found = pc.min_max(rows["v"]).as_py()
    return joined_ranges(known, Range(found["min"], found["max"]))


def joined_ranges(one: Range, other: Range) -> Range:
    if one.least is None or other.least is None:
        return other if one.least is None else one
    return Range(min(one.least, other.least), max(one.greatest or 0, other.greatest or 0))


def width(known: Range) -> int | None:
    return None if known.least is None else (known.greatest or 0) - known.least


SPREAD = AggregateOperation(
    create=Range, accumulate=widened, combine=joined_ranges, export=width, type=pa.int64()
)


def without_start(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name != "window_start"])


def by_length(keys: pa.RecordBatch, count: int) -> np.ndarray[Any, Any]:
    return pc.utf8_length(keys["k"]).to_numpy() % count


@dataclass
class Numberers(ProcessorSupplier):
    """Numbers the rows of each key, from a number on."""

    first: int = 1

    def get(self, count: int) -> list[Processor]:
        return [Numberer(self.first) for _ in range(count)]


class Numberer(EmittingProcessor):
    key_names = ("k",)

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first
        self._counts: dict[str, int] = {}

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        found = []
        for key in batch["k"].to_pylist():
            self._counts[key] = self._counts.get(key, self._first - 1) + 1
            found.append(self._counts[key])
        self.emit(batch.append_column("number", pa.array(found, pa.int64())))

    def state(self) -> Iterator[pa.RecordBatch]:
        columns = [
            pa.array(self._counts.keys(), pa.string()),
            pa.array(self._counts.values(), pa.int64()),
        ]
        yield keyed_state(pa.RecordBatch.from_arrays(columns, names=["k", "count"]), "k")

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._counts.update(zip(batch["k"].to_pylist(), batch["count"].to_pylist(), strict=True))


def windows(sink: str) -> DAG:
    """Windows with operations of SQL, and with an operation of Python."""
    dag = DAG()
    window = tumbling(TEN)
    events = dag.vertex("events", read_mapping("events"))
    plain = dag.vertex(
        "plain",
        aggregate_by_window("k", time="ts", window=window, n=counting(), total=summing("v")),
    )
    dag.edge(between(events, plain).partitioned("k"))
    return _written(dag, plain, sink)


def panes(sink: str) -> DAG:
    """Sliding windows in two stages, with accumulators of Python."""
    dag = DAG()
    window = sliding(TEN, FIVE)
    operations = {"n": counting(), "spread": SPREAD}
    events = dag.vertex("events", read_mapping("events"))
    first = dag.vertex("first", accumulate_by_pane("k", time="ts", window=window, **operations))
    last = dag.vertex("last", combine_by_window("k", time="ts", window=window, **operations))
    dag.edge(between(events, first)).edge(between(first, last).partitioned("k"))
    return _written(dag, last, sink)


def sessions(sink: str) -> DAG:
    """Sessions, on an edge with a partition function."""
    dag = DAG()
    events = dag.vertex("events", read_mapping("events"))
    found = dag.vertex("sessions", aggregate_by_session("k", time="ts", gap=FIVE, n=counting()))
    dag.edge(between(events, found).partitioned_by(by_length, "k"))
    return _written(dag, found, sink)


def joined(sink: str) -> DAG:
    """Distinct rows, joined with a table and numbered by a processor of its own."""
    dag = DAG()
    events = dag.vertex("events", read_mapping("events", columns=["k", "v"]))
    names = dag.vertex("names", read_mapping("names", columns=["k", "name"]))
    distinct = dag.vertex("distinct", distinct_rows("k", "v"))
    join = dag.vertex("join", hash_join(EVENT, NAME, {"k": "k"}, outer=True))
    number = dag.vertex("number", Numberers(first=100))
    write = dag.vertex("write", write_mapping(sink), 1)
    dag.edge(between(events, distinct).partitioned("k"))
    dag.edge(between(names, join).broadcast())
    dag.edge(between(distinct, join).to_input(1).with_priority(1))
    dag.edge(between(join, number).partitioned("k"))
    return dag.edge(between(number, write))


def _written(dag: DAG, last: Vertex, sink: str) -> DAG:
    rows = dag.vertex("rows", partial(map_batches(without_start)))
    write = dag.vertex("write", write_mapping(sink), 1)
    return dag.edge(between(last, rows)).edge(between(rows, write))
