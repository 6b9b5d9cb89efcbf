"""Groups under construction: rows are buffered, collapsed to partial states by one group-by, and the states combined.

Both steps are amortised: rows are collapsed when there are several times as many as groups (and not few), and states are
combined when the new ones are as many as those combined before. A small input costs exactly one group-by. Large group-bys
are few calls, but long ones, and worse for the processor's caches; small ones find few rows of a group together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import join_arrays
from runnel.expressions.aggregate_states import Collect, Column, Request, State
from runnel.frozen import frozen
from runnel.processors.grouping import group

BUFFERED_ROWS = 1 << 19
"""How many rows are buffered before they are collapsed, at least."""

ROWS_PER_GROUP = 2
"""How many rows are buffered per group that there is already."""

COMBINED_ROWS = 1 << 20
"""How many rows of new states are gathered before they are combined, at least."""

MOST_PARTIALS = 1024
"""With more states of parts than these they are combined, however few rows they have."""

BUFFERED_ROWS_UNKEYED = 1 << 16
"""The same without keys, where rows collapse to one and Arrow's kernels need no large batches."""


@frozen
class Layout:
    """What is kept per group. `states[i]` is over the argument columns at `arguments[i]`; `argument_types` are the Arrow
    types of all argument columns."""

    key_types: tuple[pa.DataType, ...]
    argument_types: tuple[pa.DataType, ...]
    states: tuple[State, ...]
    arguments: tuple[tuple[int, ...], ...]

    @property
    def state_types(self) -> list[pa.DataType]:
        return [item for state in self.states for item in state.types]


@dataclass(slots=True)
class Partial:
    """One row per group: the keys, and the columns of each state."""

    keys: list[pa.Array]
    columns: list[list[pa.Array]]
    num_rows: int


class GroupState:
    """The groups of one processor. `check` is called with the number of groups whenever it may have grown."""

    def __init__(self, layout: Layout, check: Callable[[int], None], use_threads: bool = False) -> None:
        self._layout = layout
        self._check = check
        self._use_threads = use_threads
        self._rows: list[Sequence[pa.Array]] = []
        self._row_count = 0
        self._least = BUFFERED_ROWS if layout.key_types else BUFFERED_ROWS_UNKEYED
        self._threshold = self._least
        self._partials: list[Partial] = []
        self._fresh = 0
        self._collapsed = 0

    @property
    def is_empty(self) -> bool:
        return not self._row_count and not self._partials

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Takes rows: the key columns, then the argument columns."""
        if not num_rows:
            return
        self._rows.append(columns)
        self._row_count += num_rows
        if self._row_count >= self._threshold:
            self.add_partial(self.collapse())

    def add_partial(self, partial: Partial) -> None:
        """Takes states of parts of the rows."""
        self._partials.append(partial)
        if len(self._partials) > 1:
            self._fresh += partial.num_rows
        if self._fresh >= max(COMBINED_ROWS, self._partials[0].num_rows) or len(self._partials) > MOST_PARTIALS:
            self.combined()
        self._threshold = max(self._least, ROWS_PER_GROUP * self._partials[0].num_rows)
        self._check(self._partials[0].num_rows)

    def take_if_sparse(self, share: float) -> list[Partial]:
        """The partials, which are then forgotten, if they have more groups than `share` of the rows they stand for."""
        partials = self._partials
        if not partials or sum(item.num_rows for item in partials) <= share * self._collapsed:
            return []
        self._partials, self._collapsed, self._fresh = [], 0, 0
        return partials

    def collapse(self) -> Partial:
        """The buffered rows as one partial; they are forgotten."""
        layout, count = self._layout, self._row_count
        types = (*layout.key_types, *layout.argument_types)
        columns: list[Column] = [
            _column(parts, kind) for parts, kind in zip(zip(*self._rows, strict=True), types, strict=False)
        ]
        if not self._rows:
            columns = [pa.nulls(0, kind) for kind in types]
        self._rows, self._row_count = [], 0
        self._collapsed += count
        keys, arguments = columns[: len(layout.key_types)], columns[len(layout.key_types) :]
        works = [
            state.accumulate([arguments[i] for i in places], count)
            for state, places in zip(layout.states, layout.arguments, strict=True)
        ]
        return self._group(keys, works, count)

    def combined(self) -> Partial:
        """All that was taken, as one partial, which stays."""
        if self._row_count or not self._partials:
            self._partials.append(self.collapse())
        if len(self._partials) > 1:
            self._partials = [self.combine(self._partials)]
        self._check(self._partials[0].num_rows)
        self._fresh = 0
        return self._partials[0]

    def combine(self, partials: Sequence[Partial]) -> Partial:
        keys = [join_arrays(parts) for parts in zip(*(item.keys for item in partials), strict=True)]
        works = []
        for i, state in enumerate(self._layout.states):
            parts = [item.columns[i] for item in partials]
            works.append(state.combine([join_states(columns) for columns in zip(*parts, strict=True)]))
        return self._group(keys, works, sum(item.num_rows for item in partials))

    def _group(self, keys: Sequence[Column], works: Sequence[tuple[list[Request], Collect]], num_rows: int) -> Partial:
        requests = [request for work in works for request in work[0]]
        grouped, results = group(keys, requests, num_rows, self._use_threads)
        columns = []
        start = 0
        for wanted, collect in works:
            columns.append(collect(results[start : start + len(wanted)]))
            start += len(wanted)
        return Partial(grouped, columns, len(grouped[0]) if grouped else 1)


def join_states(columns: Sequence[pa.Array]) -> pa.Array:
    """The columns of one state in one column: of the widest type, where some parts needed more than others."""
    widest = max((column.type for column in columns), key=_width)
    return join_arrays([column if column.type == widest else pc.cast(column, widest) for column in columns])


def _width(arrow: pa.DataType) -> int:
    return arrow.bit_width if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow) else 0


def _column(parts: Sequence[pa.Array], kind: pa.DataType) -> Column:
    return parts[0] if len(parts) == 1 else pa.chunked_array(parts, type=kind)
