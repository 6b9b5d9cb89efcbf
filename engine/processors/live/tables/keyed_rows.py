"""The current rows of a table with a key: the last event of a key decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes
from runnel.columns.key_hash import keyed_state
from runnel.processors.grouping.row_identity import same
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.consolidation import EpochRows, state_name
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.slot_rows import LEAST_ROWS, SlotRows
from runnel.processors.live.tables.change_events import EventShape, rows_of_events, taken

Report = Callable[[Sequence[pa.Array], Indexes], None]
"""Is called with events and the positions of those that remove unknown rows."""


class KeyedRows:
    """The row of each key.

    shape: the columns of events.
    key: the indexes of the columns that identify a row.
    types: the types of the columns of the table, and of the location.
    report: handles events that remove unknown rows.
    """

    def __init__(
        self,
        shape: EventShape,
        key: Sequence[int],
        types: Sequence[pa.DataType],
        report: Report,
    ) -> None:
        self._shape = shape
        self._key = tuple(key)
        self._types = tuple(types)
        self._report = report
        self._added = EpochRows(types, is_changing=True)
        self._slots = self._no_slots()
        self._rows = SlotRows()

    def _no_slots(self) -> GroupSlots:
        return GroupSlots([self._types[i] for i in self._key])

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, with the events of the current epoch, and approximate bytes."""
        rows, size = self._added.size
        return self._rows.count + rows, self._rows.size + self._slots.size + size

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Adds events of the current epoch."""
        self._added.add(rows_of_events(self._shape, batch))

    def changes(self) -> Iterator[Changes]:
        """Ends the epoch and yields the rows that disappear, then the rows that appear."""
        # Example: key a has a row, and the events are [a appears, b disappears, a disappears].
        # Sorted by key: a, a, b; the row before each event exists: [yes, yes, no], so b was
        # unknown. The last events are [a disappears, b disappears]: a leaves.
        columns, weights = self._added.taken()
        if not len(weights):
            return
        slots, _ = self._slots.slots([columns[i] for i in self._key], len(weights))
        order = np.argsort(slots, kind="stable")
        by_slot, appears = slots[order], weights[order] > 0
        is_first = np.concatenate(([True], by_slot[1:] != by_slot[:-1]))
        existed = np.concatenate(([False], appears[:-1]))
        existed[is_first] = self._rows.has(by_slot[is_first])
        unknown = order[~appears & ~existed]
        if len(unknown):
            self._report(columns, np.sort(unknown))
        last = order[np.concatenate((is_first[1:], [True]))]
        yield from self._replaced(columns[: self._shape.width], last, slots[last], weights[last])
        self._forget_keys()

    def _replaced(
        self, columns: Sequence[pa.Array], events: Indexes, slots: Indexes, weights: Indexes
    ) -> Iterator[Changes]:
        """Replaces the rows of different slots by the ones of their last events."""
        had, has = self._rows.has(slots), weights > 0
        old = self._rows.get(slots[had]) if had.any() else []
        new = taken(columns, events[has])
        gone, came = np.ones(int(had.sum()), np.bool_), np.ones(int(has.sum()), np.bool_)
        both = had & has
        if both.any():
            in_old, in_new = (np.flatnonzero(both[mask]) for mask in (had, has))
            unchanged = same(old, in_old, new, in_new)
            gone[in_old[unchanged]] = came[in_new[unchanged]] = False
        self._rows.remove(slots[had & ~has])
        self._rows.put(slots[has], new)
        if gone.any():
            yield taken(old, gone), np.full(int(gone.sum()), -1, np.int64)
        if came.any():
            yield taken(new, came), np.ones(int(came.sum()), np.int64)

    def _forget_keys(self) -> None:
        """Leaves only the keys of rows, if most have none."""
        if self._slots.count <= max(LEAST_ROWS, 2 * self._rows.count):
            return
        columns, rows = self._all_rows(), self._rows.count
        self._slots, self._rows = self._no_slots(), SlotRows()
        if rows:
            self._store(columns, rows)

    def _store(self, columns: Sequence[pa.Array], rows: int) -> None:
        slots, _ = self._slots.slots([columns[i] for i in self._key], rows)
        self._rows.put(slots, columns)

    def _all_rows(self) -> list[pa.Array]:
        slots = np.arange(self._slots.count)
        living = slots[self._rows.has(slots)]
        return self._rows.get(living) if len(living) else []

    def state(self) -> Iterator[pa.RecordBatch]:
        """The rows, and the events of the current epoch."""
        columns = self._all_rows()
        names = [f"row{i}" for i in range(len(columns))]
        for start in range(0, self._rows.count, MAX_ROWS):
            arrays = [column.slice(start, MAX_ROWS) for column in columns]
            batch = pa.RecordBatch.from_arrays(arrays, names=names)
            yield keyed_state(batch, *(names[i] for i in self._key))
        for batch in self._added.state("added", 0):
            yield keyed_state(batch, *(f"added{i}" for i in self._key))

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        if state_name(batch) == "added":
            self._added.restore(batch)
        else:
            self._store(batch.columns, batch.num_rows)
