"""Groups that are maintained by computing them again: the rows of the groups that an epoch touched
pass through the operator of bounded queries, and the difference to the previous results is the
change.

This is right for every aggregate, and for rows that change. It costs the rows of the touched
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, indexes, join_batches, make_batch, no_rows, numbers
from runnel.columns.key_hash import hash_columns
from runnel.errors import DataError
from runnel.processors.grouping.row_identity import same
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import weights_of
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.slot_rows import SlotRows

Compute = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Aggregates all rows of some groups: the keys and the values, a row for each group."""


class RecomputedGroups:
    """The groups of an aggregation, by their rows.

    keys: the types of the keys, which are the first columns of the input.
    schema: the columns of the input, without weights.
    is_changing: whether the last column of the input is the weight; otherwise each row has 1.
    compute: the aggregation.
    is_ordered: whether the result depends on the order of the rows.
    """

    def __init__(
        self,
        keys: Sequence[pa.DataType],
        schema: pa.Schema,
        is_changing: bool,
        compute: Compute,
        *,
        is_ordered: bool,
    ) -> None:
        self._keys = len(keys)
        self._schema = schema
        self._is_changing = is_changing
        self._compute = compute
        self._is_ordered = is_ordered
        self._added: list[pa.RecordBatch] = []
        self._rows = Arrangement(len(keys))
        self._slots = GroupSlots(keys)
        self._results = SlotRows()
        self._is_begun = False

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, and approximate bytes."""
        return self._rows.rows, self._rows.size + self._slots.size + self._results.size

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows of the current epoch."""
        self._added.append(batch)

    def changes(self) -> Iterator[Changes]:
        """As `AccumulatedGroups.changes`."""
        is_first = not self._is_begun and not self._keys
        self._is_begun = True
        if not self._added and not is_first:
            return
        rows, touched = self._taken_in()
        yield from self._differences(self._compute(rows), touched)

    def _taken_in(self) -> tuple[pa.RecordBatch, Indexes]:
        """Moves the rows of the epoch to the arrangement; returns all rows of the touched groups,
        each as often as it occurs, and the slots of these groups."""
        if not self._added:
            return no_rows(self._schema), _NONE
        batch = join_batches(self._added)
        self._added = []
        columns, weights = batch.columns, np.ones(batch.num_rows, np.int64)
        if self._is_changing:
            columns, weights = columns[:-1], weights_of(batch)
        keys = columns[: self._keys]
        slots, _ = self._slots.slots(keys, batch.num_rows)
        self._rows.add(columns, weights)
        found = self._rows.rows_with(self._rows.hashes_of(keys, batch.num_rows))
        if found is None:
            return no_rows(self._schema), np.unique(slots)
        rows, counts = found
        if (counts < 0).any():
            raise DataError(
                "a row was retracted that is not in the input of an aggregation",
                hint="compare the source with the rows that it retracts",
            )
        order = _order(rows) if self._is_ordered and rows else np.arange(len(counts))
        taken = indexes(np.repeat(order, counts[order]))
        repeated = [column.take(taken) for column in rows]
        return make_batch(repeated, self._schema, len(taken)), np.unique(slots)

    def _differences(self, computed: pa.RecordBatch, touched: Indexes) -> Iterator[Changes]:
        """The changes from the previous results to the computed ones."""
        # Example: the slots [3, 4, 5] are touched, 3 and 4 have a result, and 4 and 5 are computed:
        # 3 disappears, 4 is compared, 5 appears.
        new = computed.columns
        slots, _ = self._slots.slots(new[: self._keys], computed.num_rows)
        had = self._results.has(slots)
        compared = np.flatnonzero(had)
        appears = ~had
        gone = touched[self._results.has(touched) & ~np.isin(touched, slots)]
        replaced = _NONE
        if len(compared):
            old = self._results.get(slots[compared])
            differs = ~same(old, np.arange(len(compared)), new, compared)
            replaced = slots[compared[differs]]
            appears[compared[differs]] = True
        leaving = np.concatenate((gone, replaced))
        if len(leaving):
            yield self._results.get(leaving), np.full(len(leaving), -1, np.int64)
        self._results.remove(gone)
        came = np.flatnonzero(appears)
        if len(came):
            rows = indexes(came)
            columns = [column.take(rows) for column in new]
            self._results.put(slots[came], columns)
            yield columns, np.ones(len(came), np.int64)


def _order(columns: Sequence[pa.Array]) -> Indexes:
    """An order of rows that depends only on the rows, so that a value that depends on the order is
    the same whenever it is computed."""
    if not all(_is_sortable(column.type) for column in columns):
        return np.argsort(hash_columns(columns), kind="stable")
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table(list(columns), names=names)
    found = pc.sort_indices(table, [(name, "ascending") for name in names])
    return numbers(found, np.uint64).astype(np.int64)


def _is_sortable(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow)
        or pa.types.is_floating(arrow)
        or pa.types.is_decimal(arrow)
        or pa.types.is_boolean(arrow)
        or pa.types.is_string(arrow)
        or pa.types.is_binary(arrow)
        or pa.types.is_date(arrow)
        or pa.types.is_time(arrow)
        or pa.types.is_timestamp(arrow)
    )


_NONE = np.zeros(0, np.int64)
