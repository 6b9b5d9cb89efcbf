"""Groups that are maintained by their states: the states of an epoch's rows are combined with the
states so far.

Only for states whose size does not depend on the number of rows. Rows that disappear are
subtracted, if all states are exact sums and counts (`is_invertible`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes, numbers
from runnel.columns.key_hash import keyed_state
from runnel.expressions.aggregates.registry import states_of
from runnel.expressions.aggregates.states import Count, SumDecimal, SumInteger
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall
from runnel.processors.grouping.aggregation import Aggregation
from runnel.processors.grouping.group_state import (
    GroupLayout,
    GroupState,
    Partial,
    exported,
    partial_of,
)
from runnel.processors.grouping.row_identity import same
from runnel.processors.live.consolidation import retracted_too_often, weights_of
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.slot_rows import LEAST_ROWS, SlotRows
from runnel.sqltypes import BIGINT

Changes = tuple[list[pa.Array], Indexes]
"""Rows, and the weight of each."""


def is_invertible(aggregates: Sequence[AggregateCall]) -> bool:
    """Whether rows can be subtracted from the states of these aggregates. Sums of DOUBLEs are
    rounded, and an infinity does not leave them again."""
    return not any(call.distinct or call.python is not None for call in aggregates) and all(
        isinstance(state, Count | SumInteger | SumDecimal)
        for call in aggregates
        for state in states_of(call)
    )


def with_counts(aggregates: Sequence[AggregateCall]) -> tuple[AggregateCall, ...]:
    """The aggregates, and for each the number of its arguments: a sum without any is NULL."""
    counts = (
        AggregateCall(
            function="count", arguments=call.arguments, predicate=call.predicate, type=BIGINT
        )
        for call in aggregates
        if call.arguments
    )
    return (*aggregates, *counts)


class AccumulatedGroups:
    """The groups of an aggregation, by their states.

    aggregation: the keys and aggregates, in one stage. If rows change, it counts rows, and its
        aggregates are `with_counts`.
    aggregates: the number of aggregates of the result.
    evaluation: the context in which expressions are evaluated.
    check: is called with the number of groups when it may have grown.
    is_changing: whether the last column of the input is the weight.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        aggregates: int,
        evaluation: EvaluationContext,
        check: Callable[[int], None],
        *,
        is_changing: bool = False,
    ) -> None:
        layout = aggregation.layout
        self._aggregation = aggregation
        self._width = len(layout.key_types) + aggregates
        self._is_changing = is_changing
        self._counts = _count_of_sums(aggregation, aggregates) if is_changing else {}
        self._removed = GroupState(layout, check)
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
        if not self._is_changing:
            self._add_to(self._added, batch)
            return
        weights = weights_of(batch)
        for part, counts in ((self._added, weights), (self._removed, -weights)):
            rows = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
            if len(rows):
                is_all = len(rows) == len(counts) and bool((counts == 1).all())
                self._add_to(part, batch if is_all else batch.take(indexes(rows)))

    def _add_to(self, groups: GroupState, batch: pa.RecordBatch) -> None:
        groups.add(self._aggregation.inputs_of(batch, self._evaluation), batch.num_rows)

    def changes(self) -> Iterator[Changes]:
        """Ends the epoch and yields the changes of the groups that it touched: the rows that
        disappear, then the rows that appear. A group without keys exists from the first call on."""
        added = self._net()
        if not added.num_rows:
            return
        slots, _ = self._slots.slots(added.keys, added.num_rows)
        self._check(self._slots.count)
        exists = self._states.has(slots)
        known = np.flatnonzero(exists)
        before, after = None, added
        if len(known):
            before = self._known(slots[known], [key.take(indexes(known)) for key in added.keys])
            after = self._combined(before, known, added)
        alive = self._alive(after)
        if alive is not None:
            self._states.remove(slots[exists & ~alive])
            rows = indexes(np.flatnonzero(alive))
            self._put(slots[alive], self._without_empty_sums(after.take(rows)))
        else:
            self._put(slots, after)
        yield from self._differences(before, after, exists, alive)
        self._forget_keys()

    def _net(self) -> Partial:
        """The states of the rows of the epoch; rows that disappear count negative."""
        if not self._removed.is_empty:
            removed = self._removed.combined()
            columns = [[pc.negate(item) for item in columns] for columns in removed.columns]
            self._added.add_partial(Partial(removed.keys, columns, removed.num_rows))
            self._removed.close()
        added = self._added.combined()
        self._added.close()
        return added

    def _alive(self, groups: Partial) -> Mask | None:
        """Whether each group has rows; None: all exist."""
        if not self._is_changing:
            return None
        [counts] = groups.columns[self._aggregation.count_slot]
        rows = numbers(counts, np.int64)
        if (rows < 0).any():
            raise retracted_too_often()
        return rows > 0 if self._aggregation.keys else np.ones(len(rows), np.bool_)

    def _without_empty_sums(self, groups: Partial) -> Partial:
        """The groups with NULL for sums without an argument."""
        columns = list(groups.columns)
        for slot, count in self._counts.items():
            is_empty = np.flatnonzero(numbers(columns[count][0], np.int64) == 0)
            if len(is_empty):
                valid = np.ones(groups.num_rows, np.bool_)
                valid[is_empty] = False
                places = indexes(np.arange(groups.num_rows), valid)
                columns[slot] = [item.take(places) for item in columns[slot]]
        return Partial(groups.keys, columns, groups.num_rows)

    def _forget_keys(self) -> None:
        """Leaves only the keys of groups that exist, if most do not."""
        if self._slots.count <= max(LEAST_ROWS, 2 * self._states.count):
            return
        slots = np.arange(self._slots.count)
        living = slots[self._states.has(slots)]
        groups = self._known(living, self._slots.keys_of(living)) if len(living) else None
        self._slots = GroupSlots(self._aggregation.layout.key_types)
        self._states = SlotRows()
        if groups is not None:
            self._put(self._slots.slots(groups.keys, groups.num_rows)[0], groups)

    def state(self) -> Iterator[pa.RecordBatch]:
        """The groups, and the groups of the rows of the current epoch."""
        for start in range(0, self._slots.count, MAX_ROWS):
            slots = np.arange(start, min(start + MAX_ROWS, self._slots.count))
            slots = slots[self._states.has(slots)]
            if len(slots):
                yield self._saved("group", self._known(slots, self._slots.keys_of(slots)))
        for name, groups in (("added", self._added), ("removed", self._removed)):
            if not groups.is_empty:
                for partial in groups.partials():
                    yield self._saved(name, partial)

    def _saved(self, name: str, groups: Partial) -> pa.RecordBatch:
        batch = exported(groups, self._aggregation.layout)
        names = [f"{name}{i}" for i in range(batch.num_columns)]
        keys = names[: len(groups.keys)]
        batch = batch.rename_columns(names)
        return keyed_state(batch, *keys) if keys else batch

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        groups = partial_of(batch, self._aggregation.layout)
        for name, part in (("added", self._added), ("removed", self._removed)):
            if batch.schema.names[0].startswith(name):
                part.add_partial(groups)
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
        return found[: self._width]

    def _differences(
        self, before: Partial | None, after: Partial, exists: Mask, alive: Mask | None
    ) -> Iterator[Changes]:
        """Yields the rows of `before`, the groups that existed, and of `after`, which are alive,
        where they differ."""
        appears = np.ones(after.num_rows, np.bool_) if alive is None else alive.copy()
        if alive is not None:
            after = self._without_empty_sums(after.take(indexes(np.flatnonzero(alive))))
        new = self._results(after)
        places = np.cumsum(appears) - 1
        if before is not None:
            keys, known = len(before.keys), np.flatnonzero(exists)
            old = self._results(before)
            lives = np.flatnonzero(appears[known])
            rows = places[known[lives]]
            unchanged = lives[same(old[keys:], lives, new[keys:], rows)]
            appears[known[unchanged]] = False
            gone = np.delete(np.arange(len(known)), unchanged)
            if len(gone):
                yield [item.take(indexes(gone)) for item in old], np.full(len(gone), -1, np.int64)
        came = places[appears]
        if len(came):
            yield [item.take(indexes(came)) for item in new], np.ones(len(came), np.int64)


def _count_of_sums(aggregation: Aggregation, aggregates: int) -> dict[int, int]:
    """For each state that is a sum, the state with the number of its arguments."""
    calls = aggregation.aggregates[:aggregates]
    counts = iter(aggregation.slots[aggregates:])
    found = {}
    for call, slots in zip(calls, aggregation.slots, strict=False):
        if call.arguments:
            [count] = next(counts)
            for slot in slots:
                if not isinstance(aggregation.layout.states[slot], Count):
                    found[slot] = count
    return found
