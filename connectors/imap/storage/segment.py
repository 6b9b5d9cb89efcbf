"""Rows of a map in the form for scans: immutable Arrow batches with a mask of the live rows.

Every row that was ever written has a *number*; numbers only increase. A segment has rows in
increasing order of their numbers, with no row of another segment in between. Writing a key again,
or removing it, kills the row in its segment. The mask is copied before a change if a scan may use
it, so a scan continues to see the rows of its start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_flags
from runnel.connectors.imap.layout import MapLayout, select_fields, union
from runnel.connectors.imap.values import Decoder, decoder

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

MOST_ROWS = 1 << 20
"""The size in rows beyond which segments are not merged."""
SMALL_ROWS = 4096
"""Neighbours with at most this total number of rows are always merged."""

FEW = 256
"""The number of dead rows that are listed before the mask is changed."""


class Segment:
    """A batch of rows. Its rows never change; `live` is the number of rows that are alive.

    The rows have the numbers `first`, `first + 1`, …, or those in `numbers` if rows in between were
    dropped. A segment is changed only under the lock of its store; `row` and `position` may be
    called by any thread.
    """

    __slots__ = (
        "_dead",
        "_mask",
        "_readers",
        "_rows",
        "_view",
        "batch",
        "first",
        "layout",
        "live",
        "numbers",
        "orders",
    )

    def __init__(
        self, batch: pa.RecordBatch, layout: MapLayout, first: int, numbers: Numbers | None = None
    ) -> None:
        self.batch = batch
        self.layout = layout
        self.first = first
        self.numbers = numbers
        self._rows: int = batch.num_rows
        self.live = self._rows
        self.orders: dict[tuple[MapLayout, tuple[int, ...]], Any] = {}
        """Secondary indexes of these rows, by layout and columns; created on first use."""
        self._view: memoryview[int] | None = (
            None if numbers is None else np.ascontiguousarray(numbers).data
        )
        self._mask: Mask | None = None
        self._dead: list[int] = []
        self._readers: dict[MapLayout, Callable[[int], tuple[Any, ...]]] = {}

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"<Segment of {self._rows} rows from number {self.first}, {self.live} live>"

    def position(self, number: int) -> int:
        """The index of the row with a number; -1 if it was dropped."""
        if self._view is None:
            offset = number - self.first
            return offset if offset < self._rows else -1
        index = bisect_left(self._view, number)
        return int(index) if index < self._rows and self._view[index] == number else -1

    def positions(self, numbers: Numbers) -> Numbers:
        """The indexes of the rows with these numbers, all of which exist."""
        return (
            numbers - self.first if self.numbers is None else np.searchsorted(self.numbers, numbers)
        )

    def find(self, number: int, layout: MapLayout) -> tuple[Any, ...] | None:
        """The row with a number, in a layout; None if it was dropped."""
        position = number - self.first if self._view is None else self.position(number)
        if not 0 <= position < self._rows:
            return None
        read = self._readers.get(layout)
        if read is None:
            columns = select_fields(self.batch, self.layout, layout, range(len(layout.paths)))
            read = _reader(
                [decoder(array, item) for array, item in zip(columns, layout.types, strict=True)]
            )
            self._readers[layout] = read
        return read(position)

    def kill(self, position: int) -> None:
        """Marks one row dead."""
        self._dead.append(position)
        self.live -= 1

    def kill_all(self, positions: Numbers) -> None:
        """Marks rows dead, all of which are alive."""
        if len(positions) < FEW:
            self._dead.extend(positions.tolist())
        else:
            mask = self.mask()
            self._mask = np.ones(self._rows, dtype=np.bool_) if mask is None else mask.copy()
            self._mask[positions] = False
        self.live -= len(positions)

    def mask(self) -> Mask | None:
        """The mask of the live rows; None if all are alive. The array is never changed
        afterwards."""
        if self._dead:
            mask = np.ones(self._rows, dtype=np.bool_) if self._mask is None else self._mask.copy()
            mask[self._dead] = False
            self._mask = mask
            self._dead = []
        return self._mask

    @property
    def is_worn(self) -> bool:
        """Whether at least half of the rows are dead, so that dropping them pays off."""
        return bool(self.live * 2 <= self._rows)

    def compacted(self) -> Segment:
        """A segment of the live rows only."""
        batch, numbers = self._live_rows()
        return Segment(batch, self.layout, self.first, numbers)

    def _live_rows(self) -> tuple[pa.RecordBatch, Numbers]:
        mask = self.mask()
        numbers = (
            np.arange(self.first, self.first + self._rows) if self.numbers is None else self.numbers
        )
        if mask is None:
            return self.batch, numbers
        return self.batch.filter(from_flags(mask)), numbers[mask]


def _reader(decoders: Sequence[Decoder]) -> Callable[[int], tuple[Any, ...]]:
    """A function that reads a row. Short rows need no loop, since a look-up should take a
    microsecond."""
    if len(decoders) == 1:
        only = decoders[0]
        return lambda i: (only(i),)
    if len(decoders) == 2:
        first, second = decoders
        return lambda i: (first(i), second(i))
    if len(decoders) == 3:
        one, two, three = decoders
        return lambda i: (one(i), two(i), three(i))
    return lambda i: tuple([decode(i) for decode in decoders])


def merged(first: Segment, second: Segment) -> Segment | None:
    """The live rows of two neighbours as one segment; None if a field has different types."""
    layout = union(first.layout, second.layout)
    if layout is None:
        return None
    (one, one_numbers), (two, two_numbers) = first._live_rows(), second._live_rows()
    batch = pa.concat_batches(
        [_widened(one, first.layout, layout), _widened(two, second.layout, layout)]
    )
    numbers = np.concatenate([one_numbers, two_numbers])
    if batch.num_rows and numbers[-1] - numbers[0] == batch.num_rows - 1:
        return Segment(batch, layout, int(numbers[0]))
    return Segment(batch, layout, first.first, numbers)


def _widened(batch: pa.RecordBatch, stored: MapLayout, target: MapLayout) -> pa.RecordBatch:
    if stored is target:
        return batch
    return pa.RecordBatch.from_arrays(
        select_fields(batch, stored, target, range(len(target.paths))), schema=target.schema
    )


def merge_last(segments: list[Segment], intern: Callable[[MapLayout], MapLayout]) -> None:
    """Merges the last segments of a list, in place, until their sizes decrease geometrically.

    So the number of segments stays logarithmic, and each row is copied a logarithmic number of
    times. Example with live rows: [40000, 9000, 5000, 3000]. 5000 <= 2 * 3000: merged to [40000,
    9000, 8000]. 9000 <= 2 * 8000: merged to [40000, 17000]. 40000 > 2 * 17000: done.
    """
    while len(segments) > 1:
        first, second = segments[-2:]
        rows = first.live + second.live
        if rows > SMALL_ROWS and (first.live > 2 * second.live or rows > MOST_ROWS):
            return
        both = merged(first, second)
        if both is None:
            return
        both.layout = intern(both.layout)
        segments[-2:] = [both]


class Tail:
    """The newest rows of a map as Python tuples, until they become a segment.

    Rows are only appended; `dead` has the positions of the dead rows.
    """

    __slots__ = ("dead", "first", "layout", "rows")

    def __init__(self, first: int, layout: MapLayout) -> None:
        self.first = first
        self.layout = layout
        self.rows: list[tuple[Any, ...]] = []
        self.dead: set[int] = set()

    @property
    def next(self) -> int:
        """The number of the next row."""
        return self.first + len(self.rows)

    def live_rows(self) -> tuple[Sequence[tuple[Any, ...]], Numbers | None]:
        """The live rows, with their numbers; None instead of the numbers if they count up from
        `first`."""
        if not self.dead:
            return self.rows, None
        live = [i for i in range(len(self.rows)) if i not in self.dead]
        return [self.rows[i] for i in live], np.array(live, dtype=np.int64) + self.first
