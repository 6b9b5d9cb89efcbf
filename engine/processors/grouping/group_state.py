"""Groups under construction: rows are buffered, collapsed to partial states by one group-by, and
the states combined.

Both steps are amortised: rows are collapsed when there are several times as many as groups (and not
few), and states are combined when the new ones are as many as those combined before. A small input
costs exactly one group-by. Large group-bys are few calls, but long ones, and worse for the
processor's caches; small ones find few rows of a group together.

When memory runs out, all states go to files, divided by the hash of the keys, and the next ones
start anew. In the end the files are read one by one; one that is too large in its turn is divided
again, by further bits of the hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import join_arrays, make_batch
from runnel.expressions.aggregates.states import Collect, Column, Request, State
from runnel.processors.grouping.grouping import group
from runnel.processors.grouping.hash_partitions import DEEPEST, Partitions
from runnel.storage.memory_budget import Reservation, size_of, too_large

BUFFERED_ROWS = 1 << 19
"""How many rows are buffered before they are collapsed, at least."""

ROWS_PER_GROUP = 2
"""How many rows are buffered per group that there is already."""

COMBINED_ROWS = 1 << 20
"""How many rows of new states are gathered before they are combined, at least."""

MOST_PARTIALS = 1024
"""With more states of parts than these they are combined, however few rows they have."""

FEW_PARTIALS = 3
"""When memory is full of so few partials, their groups are many, and to combine them would need
memory and save little."""

WEIGHT = 4
"""How much memory a group-by needs for each byte that is held: its hash table, and its input and
output in one piece."""

JOINED_ROWS = 1 << 16
"""So many rows are put in one piece before they are grouped: kernels over many small pieces cost
more than the copy."""

BUFFERED_ROWS_UNKEYED = 1 << 16
"""The same without keys, where rows collapse to one and Arrow's kernels need no large batches."""


@frozen
class Layout:
    """What is kept per group. `states[i]` is over the argument columns at `arguments[i]`;
    `argument_types` are the Arrow types of all argument columns."""

    key_types: tuple[pa.DataType, ...]
    argument_types: tuple[pa.DataType, ...]
    states: tuple[State, ...]
    arguments: tuple[tuple[int, ...], ...]

    @property
    def state_types(self) -> list[pa.DataType]:
        return [item for state in self.states for item in state.types]

    def without_first_key(self) -> Layout:
        return Layout(self.key_types[1:], self.argument_types, self.states, self.arguments)

    @property
    def schema_of_rows(self) -> pa.Schema:
        """Of keys and arguments."""
        keys = [pa.field(f"k{i}", kind) for i, kind in enumerate(self.key_types)]
        return pa.schema(
            [*keys, *(pa.field(f"a{i}", kind) for i, kind in enumerate(self.argument_types))]
        )

    @property
    def schema(self) -> pa.Schema:
        """Of keys and states as they travel."""
        keys = [pa.field(f"k{i}", kind) for i, kind in enumerate(self.key_types)]
        return pa.schema(
            [*keys, *(pa.field(f"s{i}", kind) for i, kind in enumerate(self.state_types))]
        )


@dataclass(slots=True)
class Partial:
    """One row per group: the keys, and the columns of each state."""

    keys: list[pa.Array]
    columns: list[list[pa.Array]]
    num_rows: int

    def take(self, rows: pa.Array) -> Partial:
        """The groups at some places."""
        columns = [[column.take(rows) for column in columns] for columns in self.columns]
        return Partial([key.take(rows) for key in self.keys], columns, len(rows))

    def slice(self, start: int, length: int) -> Partial:
        """Some groups that follow each other, nothing copied."""
        columns = [[column.slice(start, length) for column in columns] for columns in self.columns]
        return Partial([key.slice(start, length) for key in self.keys], columns, length)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(map(size_of, self.keys)) + sum(
            size_of(column) for columns in self.columns for column in columns
        )


def exported(partial: Partial, layout: Layout, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """The partial as a batch: keys, then states in the types that travel."""
    columns = list(partial.keys)
    for state, values in zip(layout.states, partial.columns, strict=True):
        columns += state.export(values)
    return make_batch(columns, layout.schema if schema is None else schema, partial.num_rows)


def partial_of(batch: pa.RecordBatch, layout: Layout) -> Partial:
    """The partial that was exported."""
    columns = batch.columns
    start = len(layout.key_types)
    states = []
    for state in layout.states:
        states.append(columns[start : start + len(state.types)])
        start += len(state.types)
    return Partial(columns[: len(layout.key_types)], states, batch.num_rows)


class GroupState:
    """The groups of one processor. `check` is called with the number of groups whenever it may have
    grown. With a `reservation` it says what it holds there, and spills when it must; `level` counts
    how often the rows were divided."""

    def __init__(
        self,
        layout: Layout,
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
        self._files: Partitions | None = None
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
        """Whether some of the states are in files: then only `results` gives the groups."""
        return self._files is not None

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Takes rows: the key columns, then the argument columns."""
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
        """Takes states of parts of the rows."""
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
        """Says what is held; where that is too much, lets go of it."""
        held = self._row_bytes + self._partial_bytes
        if self._reservation.is_trifle(held):
            return
        self._reservation.set(held)
        if self._reservation.must_spill and self.can_spill:
            self.spill()

    @property
    def must_spill(self) -> bool:
        return self._reservation.must_spill

    def take_if_sparse(self, share: float) -> list[Partial]:
        """The partials, which are then forgotten, if they have more groups than `share` of the rows
        they stand for."""
        partials = self._partials
        if not partials or sum(item.num_rows for item in partials) <= share * self._collapsed:
            return []
        return self._taken()

    def take_all(self) -> list[Partial]:
        """All that was taken, which is then forgotten."""
        if self._row_count:
            self._partials.append(self.collapse())
        return self._taken()

    def _taken(self) -> list[Partial]:
        partials = self._partials
        self._partials, self._collapsed, self._fresh, self._partial_bytes = [], 0, 0, 0
        self._reservation.set(self._row_bytes)
        return partials

    def spill(self) -> None:
        """Makes room: by putting together what belongs together, and if that isn't enough, by
        writing all states to files."""
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
            self._files = Partitions(self._reservation.memory, self._level)
        keys = len(self._layout.key_types)
        for partial in self._taken():
            batch = exported(partial, self._layout)
            self._files.write(batch, batch.columns[:keys])
        self._threshold = self._least

    def results(self) -> Iterator[Partial | None]:
        """All groups, as one partial, or as several of different groups; None is a pause. Nothing
        is left afterwards."""
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
        """Fails where a group, which can't be divided, is larger than the whole limit."""
        if self._partial_bytes > self._reservation.memory.limit > 0:
            raise too_large("the values of one group", self._reservation.memory)

    def partials(self) -> Iterator[Partial]:
        """All that was taken, as it lies there, and stays."""
        yield self.combined()
        if self._files is not None:
            for file in self._files:
                for batch in file.read():
                    yield partial_of(batch, self._layout)

    def close(self) -> None:
        """Gives memory and files back."""
        self._rows, self._partials, self._row_count = [], [], 0
        self._row_bytes = self._partial_bytes = 0
        self._reservation.release()
        if self._files is not None:
            self._files.close()
            self._files = None

    def collapse(self) -> Partial:
        """The buffered rows as one partial; they are forgotten."""
        rows, count = self._rows, self._row_count
        self._rows, self._row_count, self._row_bytes = [], 0, 0
        self._collapsed += count
        return self.collapse_rows(rows, count)

    def collapse_rows(self, rows: Sequence[Sequence[pa.Array]], count: int) -> Partial:
        """Rows, `count` in all, as one partial: parts of them, each the key columns, then the
        argument columns."""
        layout = self._layout
        types = (*layout.key_types, *layout.argument_types)
        columns: list[Column] = [
            join_arrays(parts) if count <= JOINED_ROWS else _column(parts, kind)
            for parts, kind in zip(zip(*rows, strict=True), types, strict=False)
        ]
        if not rows:
            columns = [pa.nulls(0, kind) for kind in types]
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
        self, keys: Sequence[Column], works: Sequence[tuple[list[Request], Collect]], num_rows: int
    ) -> Partial:
        requests = [request for work in works for request in work[0]]
        grouped, results = group(keys, requests, num_rows, self._use_threads)
        columns = []
        start = 0
        for wanted, collect in works:
            columns.append(collect(results[start : start + len(wanted)]))
            start += len(wanted)
        return Partial(grouped, columns, len(grouped[0]) if grouped else 1)


def appended(parts: Sequence[Partial]) -> Partial:
    """The groups of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    keys = [join_arrays(columns) for columns in zip(*(part.keys for part in parts), strict=True)]
    states = zip(*(part.columns for part in parts), strict=True)
    columns = [[join_states(same) for same in zip(*state, strict=True)] for state in states]
    return Partial(keys, columns, sum(part.num_rows for part in parts))


def join_states(columns: Sequence[pa.Array]) -> pa.Array:
    """The columns of one state in one column: of the widest type, where some parts needed more than
    others."""
    widest = max((column.type for column in columns), key=_width)
    return join_arrays(
        [column if column.type == widest else pc.cast(column, widest) for column in columns]
    )


def _width(arrow: pa.DataType) -> int:
    return arrow.bit_width if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow) else 0


def _column(parts: Sequence[pa.Array], kind: pa.DataType) -> Column:
    return parts[0] if len(parts) == 1 else pa.chunked_array(parts, type=kind)
