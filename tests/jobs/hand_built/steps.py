"""Suppliers for hand-built jobs in tests, in a module that a reopened directory can import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.dag import DAG, ProcessorFactory, ProcessorSupplier, between, storable
from runnel.processor import Inbox, Processor, Stateful
from runnel.processors.library import AggregateOperation, aggregate_by_key, counting, flat_map
from tests.jobs.named import Counter, Keeper, World

WORLDS: dict[str, World] = {}


@storable()
def numbers_of(world: str) -> ProcessorFactory:
    return partial(Counter, WORLDS[world])


@storable()
def kept_in(world: str) -> ProcessorFactory:
    return partial(Keeper, WORLDS[world])


@dataclass
class Adders(ProcessorSupplier):
    """Running sums, one for each processor."""

    first: int = 0

    def get(self, count: int) -> list[Processor]:
        return [Adder(self.first) for _ in range(count)]


class Adder(Processor, Stateful):
    """Emits the running sum of its input."""

    def __init__(self, total: int) -> None:
        self.total = total

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            added = pc.sum(batch.column(0)).as_py()
            if not self.outbox.offer(one(self.total + added)):
                return
            self.total += added
            inbox.poll()

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(one(self.total))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.total = batch.column(0)[0].as_py()


class Forgetful(Processor):
    """A source without a position."""


class Subtracter(Adder):
    """Another computation with state of the same form."""


def one(value: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], pa.int64())], names=["x"])


def doubled(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield batch
    yield batch


def with_rest(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rest = pc.bit_wise_and(batch.column(0), 1)
    yield pa.record_batch([rest, batch.column(0)], names=["k", "x"])


def seen(accumulator: Any, rows: pa.RecordBatch) -> Any:
    return {**accumulator, "sum": accumulator.get("sum", 0) + pc.sum(rows.column("x")).as_py()}


def merged(one: Any, other: Any) -> Any:
    return {"sum": one.get("sum", 0) + other.get("sum", 0)}


def total(accumulator: Any) -> Any:
    return accumulator["sum"]


def opaque(accumulator: Any, rows: pa.RecordBatch) -> Any:
    return object()


SUMS = AggregateOperation(create=dict, accumulate=seen, combine=merged, export=total)
COUNTED = AggregateOperation(
    create=lambda: [0],
    accumulate=lambda known, rows: [known[0] + rows.num_rows],
    combine=lambda one, other: [one[0] + other[0]],
    export=lambda known: known[0],
)
OPAQUE = AggregateOperation(create=dict, accumulate=opaque, combine=merged, export=total)


def sums(world: str, adders: Any = None, name: str = "add") -> DAG:
    """Numbers, their running sum, and a sink that commits with snapshots."""
    dag = DAG()
    source = dag.vertex("numbers", numbers_of(world), 1)
    add = dag.vertex(name, Adders() if adders is None else adders, 1)
    sink = dag.vertex("keep", kept_in(world), 1)
    return dag.edge(between(source, add)).edge(between(add, sink))


def groups(world: str, operation: AggregateOperation, parallelism: int) -> DAG:
    """Numbers grouped by parity; the groups are emitted at the end."""
    dag = DAG()
    source = dag.vertex("numbers", numbers_of(world), 1)
    keys = dag.vertex("keys", flat_map(with_rest), 1)
    group = dag.vertex("group", aggregate_by_key("k", n=counting(), s=operation), parallelism)
    values = dag.vertex("values", flat_map(sums_of), 1)
    sink = dag.vertex("keep", kept_in(world), 1)
    dag.edge(between(source, keys)).edge(between(keys, group).partitioned("k"))
    return dag.edge(between(group, values)).edge(between(values, sink))


def sums_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    ordered = batch.sort_by("s")
    for value in pc.cast(ordered.column("s"), pa.int64()).to_pylist():
        yield one(value)
