"""INTERSECT and EXCEPT: groups the rows of both inputs by all columns, and counts them by input."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, from_numbers, indexes, make_batch, no_rows
from runnel.dag import ProcessorFactory
from runnel.expressions.aggregates.states import Count, filled
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.grouping.group_state import WEIGHT, GroupLayout, GroupState, Partial
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.storage.memory_budget import Reservation


class SetOperationProcessor(EmittingProcessor):
    """Accumulates the distinct rows of both inputs, and counts how often each occurs in either.

    Input 0 is the left side.
    """

    holds_snapshots = True

    def __init__(self, is_intersection: bool, is_all: bool) -> None:
        super().__init__()
        self._is_intersection = is_intersection
        self._is_all = is_all
        self._groups: GroupState | None = None
        self._schema: pa.Schema | None = None
        self._alone = False
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._alone = context.parallelism == 1

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._groups is None:
            self._groups = self._new_groups(batch.schema.types)
        if ordinal == 0 and self._schema is None:
            self._schema = batch.schema
        present = from_numbers(np.zeros(batch.num_rows, np.int8), pa.int8())
        absent = pa.nulls(batch.num_rows, pa.int8())
        sides = [present, absent] if ordinal == 0 else [absent, present]
        self._groups.add([*batch.columns, *sides], batch.num_rows)

    def _new_groups(self, types: list[pa.DataType]) -> GroupState:
        layout = GroupLayout(tuple(types), (pa.int8(), pa.int8()), (Count(), Count()), ((0,), (1,)))
        return GroupState(
            layout,
            self.check_accumulated,
            self._alone,
            Reservation(self.context.job.memory, WEIGHT),
        )

    def state(self) -> list[pa.RecordBatch]:
        """Return the distinct rows with their two counts.

        The columns have the names of the left side, if one of its batches has arrived.
        """
        if self._groups is None or self._is_done:
            return []
        saved = []
        for partial in self._groups.partials():
            columns = [
                *partial.keys,
                *(column for columns in partial.columns for column in columns),
            ]
            names = (
                [f"c{i}" for i in range(len(partial.keys))]
                if self._schema is None
                else self._schema.names
            )
            saved.append(pa.RecordBatch.from_arrays(columns, names=[*names, "left", "right"]))
        return saved

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        fields = list(batch.schema)[:-2]
        if self._groups is None:
            self._groups = self._new_groups([field.type for field in fields])
        self._schema = pa.schema(fields)
        *keys, left, right = batch.columns
        self._groups.add_partial(Partial(keys, [[left], [right]], batch.num_rows))

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            if self._groups is not None and self._schema is not None:
                self.emit_all(self._result(self._groups, self._schema))
        return self.drain()

    def _result(self, groups: GroupState, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for partial in groups.results():
            if partial is None:
                yield no_rows(schema)
                continue
            left, right = (filled(columns[0], np.int64) for columns in partial.columns)
            rows = make_batch(partial.keys, schema, partial.num_rows)
            chosen = np.repeat(np.arange(partial.num_rows), self._copies(left, right))
            for start in range(0, len(chosen), MAX_ROWS):
                yield rows.take(indexes(chosen[start : start + MAX_ROWS]))

    def _copies(self, left: Indexes, right: Indexes) -> Indexes:
        """Return how often each distinct row is in the result."""
        if self._is_all:
            copies: Indexes = (
                np.minimum(left, right) if self._is_intersection else np.maximum(left - right, 0)
            )
        else:
            copies = ((left > 0) & ((right > 0) == self._is_intersection)).astype(np.int64)
        return copies

    def close(self) -> None:
        super().close()
        if self._groups is not None:
            self._groups.close()
            self._groups = None


def set_operation(operation: str, all: bool) -> ProcessorFactory:  # noqa: A002 - as SQL calls it
    """Return a supplier of processors for INTERSECT or EXCEPT.

    Both inputs must have the same column types; NULLs are equal. With several processors both
    inputs must be partitioned by all columns.

    operation: "intersect" or "except".
    all: whether duplicates are counted (ALL) or removed.
    """
    is_intersection = operation.lower() == "intersect"
    return lambda: SetOperationProcessor(is_intersection, all)
