"""Aggregation by key in hand-built DAGs, in one stage or in two.

In two stages, each processor accumulates its own rows, and a second stage combines the accumulators
by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes, join_arrays
from runnel.columns.key_hash import keyed_state
from runnel.dag import ProcessorFactory, storable
from runnel.errors import ProgrammingError
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.kernels.values import canonical
from runnel.expressions.nodes import Column
from runnel.processor import Inbox, Processor, Stateful
from runnel.processors.grouping.aggregate import AggregateProcessor
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.library.accumulators import AccumulatorCodec
from runnel.processors.library.aggregate_operation import LIBRARY, AggregateOperation
from runnel.processors.library.typed_rows import field_of
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import SqlType, from_arrow, to_arrow

ARGUMENTS = b"runnel.arguments"
"""The metadata key of accumulated batches: the types of keys and arguments."""

Operations = Mapping[str, AggregateOperation]


@storable(LIBRARY)
def aggregate_by_key(*keys: str, **operations: AggregateOperation) -> ProcessorFactory:
    """Return a supplier of processors that group rows by the columns `keys`.

    They emit the keys and one column per operation, with the name of its argument:
    `aggregate_by_key("word", count=counting())`. An edge to several of these processors must be
    partitioned by the keys.
    """
    return _supplier(keys, operations, AggregationStage.SINGLE)


@storable(LIBRARY)
def accumulate_by_key(*keys: str, **operations: AggregateOperation) -> ProcessorFactory:
    """Return the first of two stages: each processor groups the rows that it receives.

    It must be followed by `combine_by_key` with the same keys and operations, on an edge that is
    partitioned by the keys.
    """
    return _supplier(keys, operations, AggregationStage.ACCUMULATE)


@storable(LIBRARY)
def combine_by_key(*keys: str, **operations: AggregateOperation) -> ProcessorFactory:
    """Return the second of two stages: combines the accumulators of `accumulate_by_key`.

    It emits the same rows as `aggregate_by_key`.

    Accumulators of user-defined operations are pickled, and unpickling can run any code. Only
    connect it to `accumulate_by_key`, never to rows from a file or a network.
    """
    return _supplier(keys, operations, AggregationStage.COMBINE)


def _supplier(
    keys: tuple[str, ...], operations: Operations, stage: AggregationStage
) -> ProcessorFactory:
    if not keys:
        raise ProgrammingError("aggregation by key needs at least one key column")

    def make() -> Processor:
        if all(item.equivalent is not None for item in operations.values()):
            return KeyedAggregate(keys, operations, stage)
        return KeyedOperations(keys, operations, stage)

    return make


class KeyedAggregate(Processor, Stateful):
    """Aggregates with operations that are SQL aggregates.

    The aggregation is compiled when the first batch arrives, which has the types of the columns.
    """

    def __init__(
        self, keys: tuple[str, ...], operations: Operations, stage: AggregationStage
    ) -> None:
        self._keys = self.key_names = keys
        self._operations = operations
        self._stage = stage
        self._columns: list[str] = []
        self._types: list[SqlType] = []
        self._inner: AggregateProcessor | None = None

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while True:
            if self._inner is not None and not self._inner.drain():
                return
            batch = inbox.poll()
            if batch is None:
                return
            inner = self._aggregate_over(
                batch.schema, is_state=self._stage is AggregationStage.COMBINE
            )
            if self._stage is not AggregationStage.COMBINE:
                named = zip(self._columns, self._types, strict=True)
                arrays = [canonical(batch.column(name), kind) for name, kind in named]
                batch = pa.RecordBatch.from_arrays(arrays, names=self._columns)
            inner.take(ordinal, batch)

    def flush(self) -> bool:
        return self._inner is None or self._inner.flush()

    def complete(self) -> bool:
        return self._inner is None or self._inner.complete()

    def save_snapshot(self) -> bool:
        return self._inner is None or self._inner.save_snapshot()

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._aggregate_over(batch.schema, is_state=True).restore_snapshot(batch)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def _aggregate_over(self, schema: pa.Schema, is_state: bool) -> AggregateProcessor:
        if self._inner is None:
            self._inner = AggregateProcessor(self._compile(schema, is_state))
            self._inner.init(self.outbox, self.context)
        return self._inner

    def _compile(self, schema: pa.Schema, is_state: bool) -> Aggregation:
        """Compile the aggregation for batches of a schema.

        is_state: whether it is the schema of accumulated states, whose metadata has the types of
            the columns.
        """
        if is_state:
            schema = pa.ipc.read_schema(pa.py_buffer((schema.metadata or {})[ARGUMENTS]))
        equivalents = [
            item.equivalent for item in self._operations.values() if item.equivalent is not None
        ]
        self._columns = list(
            dict.fromkeys(
                [*self._keys, *(column for _, column in equivalents if column is not None)]
            )
        )
        self._types = [from_arrow(field_of(schema, name).type) for name in self._columns]
        known = {
            name: Column(index=i, name=name, type=kind)
            for i, (name, kind) in enumerate(zip(self._columns, self._types, strict=True))
        }
        calls = [
            aggregate_call(function, [] if name is None else [known[name]])
            for function, name in equivalents
        ]
        names = (*self._keys, *self._operations)
        aggregation = Aggregation(
            tuple(known[key] for key in self._keys), tuple(calls), names, self._stage
        )
        types = pa.schema(
            [
                pa.field(name, to_arrow(kind))
                for name, kind in zip(self._columns, self._types, strict=True)
            ]
        )
        described = {ARGUMENTS: types.serialize().to_pybytes()}
        aggregation.state_schema = aggregation.state_schema.with_metadata(described)
        if self._stage is AggregationStage.ACCUMULATE:
            accumulated = [*self._keys, *aggregation.schema.names[len(self._keys) :]]
            fields = [
                field.with_name(name)
                for field, name in zip(aggregation.schema, accumulated, strict=True)
            ]
            aggregation.schema = pa.schema(fields, described)
        return aggregation


class KeyedOperations(EmittingProcessor):
    """Aggregates with user-defined operations: one Python accumulator per group and operation."""

    def __init__(
        self, keys: tuple[str, ...], operations: Operations, stage: AggregationStage
    ) -> None:
        super().__init__()
        self._keys = self.key_names = keys
        self._operations = operations
        self._codec = AccumulatorCodec(operations.values())
        self._stage = stage
        self._numbers: dict[Any, int] = {}
        self._group_keys: list[pa.RecordBatch] = []
        self._states: list[list[Any]] = []
        self._is_done = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._stage is AggregationStage.COMBINE:
            self._combine(batch, self._codec.unpacked)
            return
        self._accumulate(batch, range(len(self._operations)))

    def _accumulate(self, batch: pa.RecordBatch, chosen: Sequence[int]) -> None:
        """Add rows to the accumulators with these numbers."""
        codes, groups = self._grouped(batch)
        order = np.argsort(codes, kind="stable")
        ordered = batch.take(indexes(order))
        ends = np.cumsum(np.bincount(codes, minlength=len(groups))).tolist()
        operations = list(self._operations.values())
        start = 0
        for group, end in zip(groups.tolist(), ends, strict=True):
            rows = ordered.slice(start, end - start)
            states = self._states[group]
            for place in chosen:
                states[place] = operations[place].accumulate(states[place], rows)
            start = end

    def _grouped(self, batch: pa.RecordBatch) -> tuple[Indexes, Indexes]:
        """Return the number of each row's key among the batch's keys, and the group of each key."""
        fields = [field_of(batch.schema, name) for name in self._keys]
        keys = [canonical(batch.column(field.name), from_arrow(field.type)) for field in fields]
        codes, representatives = factorise(keys)
        groups = self._group_numbers(keys, representatives)
        self.check_accumulated(len(self._states))
        return codes, groups

    def _group_numbers(self, keys: list[pa.Array], representatives: Indexes) -> Indexes:
        """Return the group numbers of a batch's keys; a new group gets empty accumulators."""
        rows = pa.RecordBatch.from_arrays(
            [key.take(indexes(representatives)) for key in keys], names=list(self._keys)
        )
        numbers, fresh = [], []
        for place, values in enumerate(
            zip(*(column.to_pylist() for column in rows.columns), strict=True)
        ):
            number = self._numbers.setdefault(hashable(values), len(self._states))
            if number == len(self._states):
                self._states.append([operation.create() for operation in self._operations.values()])
                fresh.append(place)
            numbers.append(number)
        if fresh:
            self._group_keys.append(rows.take(indexes(np.array(fresh))))
        return np.array(numbers, np.int64)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._combine(batch, self._codec.restored)

    def _combine(self, batch: pa.RecordBatch, read: Callable[[Any], Any]) -> None:
        """Add the accumulators of a snapshot or of a first stage."""
        codes, numbers = self._grouped(batch)
        groups = numbers[codes].tolist()
        for place, (name, operation) in enumerate(self._operations.items()):
            for group, data in zip(groups, batch.column(name).to_pylist(), strict=True):
                states = self._states[group]
                states[place] = operation.combine(states[place], read(data))

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            if self._group_keys:
                is_first = self._stage is AggregationStage.ACCUMULATE
                self.emit(self._result(self._codec.packed if is_first else None))
            self._group_keys, self._states = [], []
        return self.drain()

    def state(self) -> list[pa.RecordBatch]:
        if not self._group_keys:
            return []
        return [keyed_state(self._result(self._codec.stored(self.context.vertex)), *self._keys)]

    def _result(self, write: Callable[[Any], bytes] | None) -> pa.RecordBatch:
        """Return a row per group: its keys, and its accumulators as `write` encodes them; None: the
        values of the accumulators."""
        columns = [
            join_arrays(parts)
            for parts in zip(*(item.columns for item in self._group_keys), strict=True)
        ]
        for place, operation in enumerate(self._operations.values()):
            states = [state[place] for state in self._states]
            if write is not None:
                columns.append(pa.array([write(state) for state in states], pa.binary()))
            else:
                columns.append(
                    pa.array([operation.export(state) for state in states], operation.type)
                )
        return pa.RecordBatch.from_arrays(columns, names=[*self._keys, *self._operations])


def hashable(value: Any) -> Any:
    """Convert a value to a dictionary key, so that values that are equal in SQL are equal keys."""
    if isinstance(value, float) and value != value:
        return "NaN", None
    if isinstance(value, list | tuple):
        return tuple(hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return value
