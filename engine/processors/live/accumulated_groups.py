"""Groups that are maintained by their states: the states of an epoch's rows are combined with the
states so far.

Only for rows that appear, and for states whose size does not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes, numbers
from runnel.columns.key_hash import keyed_state
from runnel.expressions.context import EvaluationContext
from runnel.processors.grouping.aggregation import Aggregation
from runnel.processors.grouping.group_state import (
    GroupLayout,
    GroupState,
    Partial,
    exported,
    partial_of,
)
from runnel.processors.grouping.row_identity import same
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.slot_rows import SlotRows

Changes = tuple[list[pa.Array], Indexes]
"""Rows, and the weight of each."""


class AccumulatedGroups:
    """The groups of an aggregation, by their states.

    aggregation: the keys and aggregates, in one stage.
    evaluation: the context in which expressions are evaluated.
    check: is called with the number of groups when it may have grown.
    """

    def __init__(
        self, aggregation: Aggregation, evaluation: EvaluationContext, check: Callable[[int], None]
    ) -> None:
        layout = aggregation.layout
        self._aggregation = aggregation
        self._evaluation = evaluation
        self._check = check
        self._added = GroupState(layout, check)
        # The groups of an epoch are numbered, and their states combined by number.
        numbered = GroupLayout(
            (pa.int64(),), layout.argument_types, layout.states, layout.arguments
        )
        self._by_number = GroupState(numbered, check)
        self._widths = [len(state.types) for state in layout.states]
        self._slots = GroupSlots(layout.key_types)
        self._states = SlotRows()

    @property
    def size(self) -> tuple[int, int]:
        """Number of groups, and approximate bytes."""
        return self._states.count, self._slots.size + self._states.size

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Adds rows of the current epoch."""
        self._added.add(self._aggregation.inputs_of(batch, self._evaluation), batch.num_rows)

    def changes(self) -> Iterator[Changes]:
        """Ends the epoch and yields the changes of the groups that it touched: the rows that
        disappear, then the rows that appear. A group without keys exists from the first call on."""
        added = self._added.combined()
        self._added.close()
        if not added.num_rows:
            return
        slots, is_new = self._slots.slots(added.keys, added.num_rows)
        self._check(self._slots.count)
        known = np.flatnonzero(~is_new)
        if not len(known):
            self._put(slots, added)
            yield self._results(added), np.ones(added.num_rows, np.int64)
            return
        before = self._known(slots[known], [key.take(indexes(known)) for key in added.keys])
        after = self._combined(before, known, added)
        self._put(slots, after)
        yield from self._differences(before, after, known, is_new)

    def state(self) -> Iterator[pa.RecordBatch]:
        """The groups, and the groups of the rows of the current epoch."""
        for start in range(0, self._slots.count, MAX_ROWS):
            slots = np.arange(start, min(start + MAX_ROWS, self._slots.count))
            yield self._saved("group", self._known(slots, self._slots.keys_of(slots)))
        if not self._added.is_empty:
            for partial in self._added.partials():
                yield self._saved("added", partial)

    def _saved(self, name: str, groups: Partial) -> pa.RecordBatch:
        batch = exported(groups, self._aggregation.layout)
        names = [f"{name}{i}" for i in range(batch.num_columns)]
        keys = names[: len(groups.keys)]
        batch = batch.rename_columns(names)
        return keyed_state(batch, *keys) if keys else batch

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        groups = partial_of(batch, self._aggregation.layout)
        if batch.schema.names[0].startswith("added"):
            self._added.add_partial(groups)
            return
        slots, _ = self._slots.slots(groups.keys, groups.num_rows)
        self._put(slots, groups)

    def _put(self, slots: Indexes, groups: Partial) -> None:
        self._states.put(slots, [column for columns in groups.columns for column in columns])

    def _known(self, slots: Indexes, keys: list[pa.Array]) -> Partial:
        """The states of groups so far."""
        rows = iter(self._states.get(slots))
        columns = [[next(rows) for _ in range(width)] for width in self._widths]
        return Partial(keys, columns, len(slots))

    def _combined(self, before: Partial, known: Indexes, added: Partial) -> Partial:
        """The states of the groups in `added`, combined with the states of the known ones."""
        # Example: added = [x, y, z], known = [1]: y existed before. The numbers of `before`
        # are [1], of `added` [0, 1, 2]; combined by number, in any order, and then sorted.
        if not self._widths:
            return added
        numbered = indexes(np.arange(added.num_rows))
        combined = self._by_number.combine(
            [
                Partial([indexes(known)], before.columns, before.num_rows),
                Partial([numbered], added.columns, added.num_rows),
            ]
        )
        found = combined.keys[0]
        if not found.equals(numbered):
            combined = combined.take(indexes(np.argsort(numbers(found, np.int64))))
        return Partial(added.keys, combined.columns, added.num_rows)

    def _results(self, groups: Partial) -> list[pa.Array]:
        found: list[pa.Array] = self._aggregation.result_of(groups, self._evaluation).columns
        return found

    def _differences(
        self, before: Partial, after: Partial, known: Indexes, is_new: Mask
    ) -> Iterator[Changes]:
        keys = len(before.keys)
        old, new = self._results(before), self._results(after)
        unchanged = same(old[keys:], np.arange(len(known)), new[keys:], known)
        gone = indexes(np.flatnonzero(~unchanged))
        appears = is_new.copy()
        appears[known[~unchanged]] = True
        if len(gone):
            yield [column.take(gone) for column in old], np.full(len(gone), -1, np.int64)
        came = indexes(np.flatnonzero(appears))
        if len(came):
            yield [column.take(came) for column in new], np.ones(len(came), np.int64)
