"""The groups of an aggregation in progress: buffered rows and partial states.

Rows are buffered, then collapsed to partial states by one group-by, and then partial states are
combined. Both steps are amortised: rows are collapsed when they are several times as many as the
groups (and not few), and states are combined when the new ones are as many as those combined
before. A small input costs exactly one group-by. The batch size is a compromise: large group-bys
are few but long calls, and use the processor's caches badly; small group-bys find few rows of the
same group.

When memory runs out, all states are written to files, partitioned by the hash of the keys, and the
memory is empty again. At the end the files are read one by one. A file that is itself too large is
partitioned again, by further bits of the hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import join_arrays, make_batch
from runnel.expressions.aggregates.states import AggregateState, Collect, Column, GroupByRequest
from runnel.processors.grouping.grouping import group
from runnel.processors.grouping.hash_partitions import DEEPEST, HashPartitions
from runnel.storage.memory_budget import Reservation, size_of, too_large

BUFFERED_ROWS = 1 << 19
"""Minimum number of rows that are buffered before they are collapsed."""

ROWS_PER_GROUP = 2
"""Number of rows that are buffered per existing group, if that is more than the minimum."""

COMBINED_ROWS = 1 << 20
"""Minimum number of rows of new partials before they are combined."""

MOST_PARTIALS = 1024
"""Number of partials above which they are combined, however few rows they have."""

FEW_PARTIALS = 3
"""Up to this number of partials are spilled without being combined first.

If only a few partials fill the memory, they have many groups: combining them would need memory and
save little.
"""

WEIGHT = 4
"""Bytes of memory that a group-by needs per buffered byte.

It needs a hash table, and contiguous copies of its input and output.
"""

JOINED_ROWS = 1 << 16
"""Maximum number of rows that are copied into contiguous columns before they are grouped.

Kernels over many small chunks cost more than the copy.
"""

BUFFERED_ROWS_UNKEYED = 1 << 16
"""BUFFERED_ROWS without keys: rows collapse to one, and Arrow's kernels need no large batches."""


@frozen
class GroupLayout:
    """The columns of rows and of partial states.

    key_types: the Arrow types of the keys.
    argument_types: the Arrow types of all argument columns.
    states: the states that are accumulated per group.
    arguments: for each state, the indexes of its argument columns.
    """

    key_types: tuple[pa.DataType, ...]
    argument_types: tuple[pa.DataType, ...]
    states: tuple[AggregateState, ...]
    arguments: tuple[tuple[int, ...], ...]

    @property
    def state_types(self) -> list[pa.DataType]:
        return [item for state in self.states for item in state.types]

    def without_first_key(self) -> GroupLayout:
        return GroupLayout(self.key_types[1:], self.argument_types, self.states, self.arguments)

    @property
    def schema_of_rows(self) -> pa.Schema:
        """The schema of rows: keys and arguments."""
        keys = [pa.field(f"k{i}", kind) for i, kind in enumerate(self.key_types)]
        return pa.schema(
            [*keys, *(pa.field(f"a{i}", kind) for i, kind in enumerate(self.argument_types))]
        )

    @property
    def schema(self) -> pa.Schema:
        """The schema of exported partials: keys and states."""
        keys = [pa.field(f"k{i}", kind) for i, kind in enumerate(self.key_types)]
        return pa.schema(
            [*keys, *(pa.field(f"s{i}", kind) for i, kind in enumerate(self.state_types))]
        )


@dataclass(slots=True)
class Partial:
    """Partial states, one row per group.

    keys: the key columns.
    columns: the columns of each state.
    num_rows: the number of groups.
    """

    keys: list[pa.Array]
    columns: list[list[pa.Array]]
    num_rows: int

    def take(self, rows: pa.Array) -> Partial:
        """Return the groups at the indexes `rows`."""
        columns = [[column.take(rows) for column in columns] for columns in self.columns]
        return Partial([key.take(rows) for key in self.keys], columns, len(rows))

    def slice(self, start: int, length: int) -> Partial:
        """Return `length` consecutive groups from `start` on, without copying."""
        columns = [[column.slice(start, length) for column in columns] for columns in self.columns]
        return Partial([key.slice(start, length) for key in self.keys], columns, length)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum(map(size_of, self.keys)) + sum(
            size_of(column) for columns in self.columns for column in columns
        )


def exported(
    partial: Partial, layout: GroupLayout, schema: pa.Schema | None = None
) -> pa.RecordBatch:
    """Convert a partial to a batch: keys, then states in the types for edges and snapshots."""
    columns = list(partial.keys)
    for state, values in zip(layout.states, partial.columns, strict=True):
        columns += state.export(values)
    return make_batch(columns, layout.schema if schema is None else schema, partial.num_rows)


def partial_of(batch: pa.RecordBatch, layout: GroupLayout) -> Partial:
    """Convert a batch of `exported` back to a partial."""
    columns = batch.columns
    start = len(layout.key_types)
    states = []
    for state in layout.states:
        states.append(columns[start : start + len(state.types)])
        start += len(state.types)
    return Partial(columns[: len(layout.key_types)], states, batch.num_rows)


class GroupState:
    """The groups of one processor.

    layout: the keys, arguments and states.
    check: is called with the number of groups whenever it may have grown.
    use_threads: whether a large group-by may use Arrow's threads.
    reservation: is notified of the size of the groups; they are spilled if it requires that.
    level: how often the rows were partitioned to files before.
    """

    def __init__(
        self,
        layout: GroupLayout,
        check: Callable[[int], None],
        use_threads: bool = False,
        reservation: Reservation | None = None,
        level: int = 0,
    ) -> None:
        self._layout = layout
        self._check = check
        self._use_threads = use_threads
        self._reservation = reservation or Reservation(None)
        self._level = level
        self.can_spill = bool(layout.key_types) and level < DEEPEST
        self._files: HashPartitions | None = None
        self._row_bytes = 0
        self._partial_bytes = 0
        self._rows: list[Sequence[pa.Array]] = []
        self._row_count = 0
        self._least = BUFFERED_ROWS if layout.key_types else BUFFERED_ROWS_UNKEYED
        self._threshold = self._least
        self._partials: list[Partial] = []
        self._fresh = 0
        self._collapsed = 0

    @property
    def is_empty(self) -> bool:
        return not self._row_count and not self._partials and self._files is None

    @property
    def is_spilled(self) -> bool:
        """Whether some of the states are in files; then only `results` returns the groups."""
        return self._files is not None

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Add rows: the key columns, then the argument columns."""
        if not num_rows:
            return
        self._rows.append(columns)
        self._row_count += num_rows
        if self._reservation.is_limited:
            self._row_bytes += sum(map(size_of, columns))
            self._account()
        if self._row_count >= self._threshold:
            self.add_partial(self.collapse())

    def add_partial(self, partial: Partial) -> None:
        """Add partial states."""
        self._partials.append(partial)
        if self._reservation.is_limited:
            self._partial_bytes += partial.size
        if len(self._partials) > 1:
            self._fresh += partial.num_rows
        if (
            self._fresh >= max(COMBINED_ROWS, self._partials[0].num_rows)
            or len(self._partials) > MOST_PARTIALS
        ):
            self.combined()
        self._threshold = max(self._least, ROWS_PER_GROUP * self._partials[0].num_rows)
        self._check(self._partials[0].num_rows)
        if self._reservation.is_limited:
            self._account()

    def _account(self) -> None:
        """Report the size of the groups, and spill them if that is too much."""
        size = self._row_bytes + self._partial_bytes
        if self._reservation.is_trifle(size):
            return
        self._reservation.set(size)
        if self._reservation.must_spill and self.can_spill:
            self.spill()

    @property
    def must_spill(self) -> bool:
        return self._reservation.must_spill

    def take_if_sparse(self, share: float) -> list[Partial]:
        """Remove and return the partials if their groups exceed a share of the collapsed rows.

        share: the maximum ratio of groups to rows; up to that, the partials remain and the result
            is empty.
        """
        partials = self._partials
        if not partials or sum(item.num_rows for item in partials) <= share * self._collapsed:
            return []
        return self._taken()

    def take_all(self) -> list[Partial]:
        """Remove and return all groups in memory, as partials."""
        if self._row_count:
            self._partials.append(self.collapse())
        return self._taken()

    def _taken(self) -> list[Partial]:
        partials = self._partials
        self._partials, self._collapsed, self._fresh, self._partial_bytes = [], 0, 0, 0
        self._reservation.set(self._row_bytes)
        return partials

    def spill(self) -> None:
        """Free memory: combine the partials, and if that isn't enough, write them to files."""
        if self._row_count:
            self._partials.append(self.collapse())
        if len(self._partials) > (1 if self._level else FEW_PARTIALS):
            self._partials = [self.combine(self._partials)]
        self._partial_bytes = sum(item.size for item in self._partials)
        self._fresh = 0
        self._reservation.set(self._partial_bytes)
        if sum(item.num_rows for item in self._partials) <= 1:
            self._check_size()
        elif self._reservation.must_spill:
            self._write()

    def _write(self) -> None:
        if self._files is None:
            self._files = HashPartitions(self._reservation.memory, self._level)
        keys = len(self._layout.key_types)
        for partial in self._taken():
            batch = exported(partial, self._layout)
            self._files.write(batch, batch.columns[:keys])
        self._threshold = self._least

    def results(self) -> Iterator[Partial | None]:
        """Remove and yield all groups, as one partial or as several with different groups.

        None is a point where the cooperative call may end.
        """
        if self._files is None:
            yield self.combined()
            self.close()
            return
        if self._row_count:
            self._partials.append(self.collapse())
        self._write()
        memory = self._reservation.memory
        for file in self._files:
            part = GroupState(
                self._layout,
                self._check,
                self._use_threads,
                Reservation(memory, WEIGHT),
                self._level + 1,
            )
            try:
                for batch in file.read():
                    part.add_partial(partial_of(batch, self._layout))
                    yield None
                file.close()
                yield from part.results()
            finally:
                part.close()
        self.close()

    def _check_size(self) -> None:
        """Raise OperationalError if a group, which can't be partitioned, exceeds the limit."""
        if self._partial_bytes > self._reservation.memory.limit > 0:
            raise too_large("the values of one group", self._reservation.memory)

    def partials(self) -> Iterator[Partial]:
        """Yield all groups as partials, without removing them; a group may occur several times."""
        yield self.combined()
        if self._files is not None:
            for file in self._files:
                for batch in file.read():
                    yield partial_of(batch, self._layout)

    def close(self) -> None:
        """Release memory and files."""
        self._rows, self._partials, self._row_count = [], [], 0
        self._row_bytes = self._partial_bytes = 0
        self._reservation.release()
        if self._files is not None:
            self._files.close()
            self._files = None

    def collapse(self) -> Partial:
        """Remove the buffered rows and return them as one partial."""
        rows, count = self._rows, self._row_count
        self._rows, self._row_count, self._row_bytes = [], 0, 0
        self._collapsed += count
        return self.collapse_rows(rows, count)

    def collapse_rows(self, rows: Sequence[Sequence[pa.Array]], count: int) -> Partial:
        """Group rows into one partial.

        rows: batches of rows: each the key columns, then the argument columns.
        count: the total number of rows.
        """
        layout = self._layout
        types = (*layout.key_types, *layout.argument_types)
        columns: list[Column]
        if len(rows) == 1:
            columns = list(rows[0])
        elif rows:
            columns = [
                join_arrays(chunks) if count <= JOINED_ROWS else _column(chunks, kind)
                for chunks, kind in zip(zip(*rows, strict=True), types, strict=False)
            ]
        else:
            columns = [pa.nulls(0, kind) for kind in types]
        keys, arguments = columns[: len(layout.key_types)], columns[len(layout.key_types) :]
        works = [
            state.accumulate([arguments[i] for i in own], count)
            for state, own in zip(layout.states, layout.arguments, strict=True)
        ]
        return self._group(keys, works, count)

    def combined(self) -> Partial:
        """Combine all groups in memory into one partial and return it, without removing it."""
        if self._row_count or not self._partials:
            self._partials.append(self.collapse())
        if len(self._partials) > 1:
            self._partials = [self.combine(self._partials)]
            self._partial_bytes = self._partials[0].size if self._reservation.is_limited else 0
        self._check(self._partials[0].num_rows)
        self._fresh = 0
        return self._partials[0]

    def combine(self, partials: Sequence[Partial]) -> Partial:
        keys = [join_arrays(parts) for parts in zip(*(item.keys for item in partials), strict=True)]
        works = []
        for i, state in enumerate(self._layout.states):
            parts = [item.columns[i] for item in partials]
            works.append(
                state.combine([join_states(columns) for columns in zip(*parts, strict=True)])
            )
        return self._group(keys, works, sum(item.num_rows for item in partials))

    def _group(
        self,
        keys: Sequence[Column],
        works: Sequence[tuple[list[GroupByRequest], Collect]],
        num_rows: int,
    ) -> Partial:
        requests = [request for work in works for request in work[0]]
        grouped, results = group(keys, requests, num_rows, self._use_threads)
        columns = []
        start = 0
        for own, collect in works:
            columns.append(collect(results[start : start + len(own)]))
            start += len(own)
        return Partial(grouped, columns, len(grouped[0]) if grouped else 1)


def appended(parts: Sequence[Partial]) -> Partial:
    """Concatenate the groups of several partials."""
    if len(parts) == 1:
        return parts[0]
    keys = [join_arrays(columns) for columns in zip(*(part.keys for part in parts), strict=True)]
    states = zip(*(part.columns for part in parts), strict=True)
    columns = [[join_states(same) for same in zip(*state, strict=True)] for state in states]
    return Partial(keys, columns, sum(part.num_rows for part in parts))


def join_states(columns: Sequence[pa.Array]) -> pa.Array:
    """Concatenate columns of one state.

    The result has the widest type, as the columns of some partials may be wider than others.
    """
    widest = max((column.type for column in columns), key=_width)
    return join_arrays(
        [column if column.type == widest else pc.cast(column, widest) for column in columns]
    )


def _width(arrow: pa.DataType) -> int:
    return arrow.bit_width if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow) else 0


def _column(parts: Sequence[pa.Array], kind: pa.DataType) -> Column:
    return parts[0] if len(parts) == 1 else pa.chunked_array(parts, type=kind)
