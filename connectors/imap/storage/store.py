"""The rows of one map: a key index, immutable segments, and a tail with the newest rows.

The key index is a dict from key form to row number. A look-up acquires no lock: it reads the
number, then finds the row in the tail or, by bisection, in a segment. A row that moved in the
meantime (segments are merged) keeps its number, so the look-up simply repeats. Everything that
changes rows, and creating a snapshot for a scan, holds the store's lock.

A commit has these steps: checks (duplicate keys), log (of a durable map: on disk when the call
returns), rows, index. A failure comes before any change in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from runnel.base.clock import SYSTEM_CLOCK
from runnel.columns.batches import indexes
from runnel.connectors.imap.keys import Key, duplicate, key_tuple
from runnel.connectors.imap.layout import MapLayout, check_key, select_fields
from runnel.connectors.imap.storage.segment import Mask, Numbers, Segment, Tail, merge_last
from runnel.connectors.imap.storage.update import knows_all_fields, rows_at, with_unchanged_fields
from runnel.connectors.imap.values import decoder
from runnel.deadline import DeadlineLock
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.connectors.imap.storage.journal import Watch

TAIL_ROWS = 4096
"""The length at which a tail becomes a segment even without a scan."""

NO_NUMBERS: Numbers = np.empty(0, dtype=np.int64)


class ChangeLog(Protocol):
    """The log of a durable map, which gets changes before they are made. A change that cannot be
    logged is not made."""

    def rows(
        self, layout: MapLayout, batches: Sequence[pa.RecordBatch], staged: str | None
    ) -> None:
        """Logs rows that are put into the map; for rows that are in the log, staged under a
        name, only their commit."""

    def delete(
        self, layout: MapLayout, batches: Sequence[pa.RecordBatch], staged: str | None
    ) -> None:
        """Logs removed keys, in the same way."""

    def clear(self) -> None:
        """Logs that all rows are removed."""

    def changed(self) -> None:
        """Called after a logged change was made, with the store's lock held."""


class SegmentView:
    """The rows of a segment as a scan sees them: with the mask from the start of the scan."""

    __slots__ = ("mask", "segment")

    def __init__(self, segment: Segment, mask: Mask | None) -> None:
        self.segment = segment
        self.mask = mask


class MapStore:
    """A map. Keys and rows have a `MapLayout` that was interned by `intern`."""

    def __init__(self, name: str, wall: Callable[[], int] = SYSTEM_CLOCK.wall) -> None:
        """`wall` returns the time of a change, in µs since 1970."""
        self.name = name
        self.wall = wall
        self.lock = RLock()
        self.statement_lock = DeadlineLock(f'map "{name}"')
        """Held by a statement from before its scan until after its commit; never acquired while
        `lock` is held."""
        self.log: ChangeLog | None = None
        self.watch: Watch | None = None
        """Notified of changes while a query reads them as a stream."""
        self._layouts: dict[tuple[tuple[str, ...], tuple[SqlType, ...]], MapLayout] = {}
        self._reset(0)

    def _reset(self, next_number: int) -> None:
        self._index: dict[Key, int] = {}
        self._key: MapLayout | None = None
        self._locations: tuple[list[int], list[Segment], Tail] = (
            [],
            [],
            Tail(next_number, MapLayout((), ())),
        )
        self._deleted = 0

    def __len__(self) -> int:
        return len(self._index)

    def intern(self, layout: MapLayout) -> MapLayout:
        """The store's instance of a layout, so that layouts are compared by identity."""
        with self.lock:
            known = self._layouts.setdefault((layout.paths, layout.types), layout)
            if known is layout and layout.key_layout is not layout:
                layout.__dict__["key_layout"] = self.intern(layout.key_layout)
            return known

    # Reading

    def check(self, layout: MapLayout) -> None:
        """Fails if there are rows with another key than the layout's."""
        stored = self._key
        if stored is not None and stored is not layout.key_layout:
            check_key(stored, layout)

    def get(self, key: Key, layout: MapLayout) -> tuple[Any, ...] | None:
        """The row with a key, in a layout; None if there is none. Acquires no lock."""
        if self._key is not layout.key_layout:
            self.check(layout)
        while True:
            number = self._index.get(key)
            if number is None:
                return None
            firsts, segments, tail = self._locations
            if number >= tail.first:
                row = tail.rows[number - tail.first]
                return (
                    row if tail.layout is layout else self.converted_row(row, tail.layout, layout)
                )
            if segments:
                found = segments[bisect_right(firsts, number) - 1].find(number, layout)
                if found is not None:
                    return found
            # The row was rewritten or removed after the index was read. The index now has its new
            # number.

    def converted_row(
        self, row: tuple[Any, ...], stored: MapLayout, target: MapLayout
    ) -> tuple[Any, ...]:
        """A row of one layout, converted to another one."""
        if stored is target:
            return row
        arrays = select_fields(_row_batch(row, stored), stored, target, range(len(target.paths)))
        return tuple(
            decoder(array, item)(0) for array, item in zip(arrays, target.types, strict=True)
        )

    def snapshot(self) -> list[SegmentView]:
        """All current rows. Later writes do not change the snapshot."""
        with self.lock:
            if self._locations[2].rows:
                self._seal()
            return [SegmentView(segment, segment.mask()) for segment in self._locations[1]]

    def has(self, key: Key) -> bool:
        return key in self._index

    def keys(self) -> list[Key]:
        return list(self._index)

    def numbers_of(self, keys: Sequence[Key]) -> Numbers:
        """The numbers of the rows with these keys; -1 for a missing key."""
        return np.fromiter(map(self._index.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def rows_at(self, numbers: Numbers, layout: MapLayout) -> pa.RecordBatch:
        """The rows with these numbers, all alive, in a layout; NULLs for -1. With `lock` held."""
        if self._locations[2].rows:
            self._seal()
        return rows_at(self._locations[1], numbers, layout)

    # Writing

    def put(self, key: Key, row: tuple[Any, ...], layout: MapLayout) -> None:
        """Writes one row, and replaces the row with its key. With `lock` held."""
        self.check(layout)
        if self.log is not None:
            self.log.rows(layout, [_row_batch(row, layout)], None)
        made = None if self.watch is None else self.watch.put(key, row, layout)
        tail = self._locations[2]
        if tail.layout is not layout:
            if tail.rows:
                self._seal()
            tail = self._new_tail(layout)
        self._key = layout.key_layout
        old = self._index.get(key)
        number = tail.next
        tail.rows.append(row)
        self._index[key] = number
        if old is not None:
            self._kill(old)
        if len(tail.rows) >= TAIL_ROWS:
            self._seal()
        if self.log is not None:
            self.log.changed()
        if made is not None:
            made()

    def remove(self, key: Key, layout: MapLayout) -> int:
        """Removes one row; returns the number of removed rows. With `lock` held."""
        self.check(layout)
        if key not in self._index:
            return 0
        if self.log is not None:
            self.log.delete(
                layout.key_layout, [_row_batch(key_tuple(key, layout), layout.key_layout)], None
            )
        made = None if self.watch is None else self.watch.remove_many([[key]])
        self._kill(self._index.pop(key))
        self._deleted += 1
        self._after_deletes()
        if made is not None:
            made()
        return 1

    def insert_many(
        self,
        batches: Sequence[pa.RecordBatch],
        keys: Sequence[list[Key]],
        layout: MapLayout,
        staged: str | None,
    ) -> None:
        """Writes rows with distinct new keys; IntegrityError if a key exists or occurs twice.
        With `lock` held."""
        self.check(layout)
        if self._locations[2].rows:
            self._seal()
        next_number = self._locations[2].first
        fresh: dict[Key, int] = {}
        for chunk in keys:
            fresh.update(zip(chunk, range(next_number, next_number + len(chunk)), strict=True))
            next_number += len(chunk)
        if len(fresh) < sum(map(len, keys)):
            raise duplicate(
                self.name, _first_repeated(keys), layout, "comes twice in the rows to insert"
            )
        if self._index and not self._index.keys().isdisjoint(fresh):
            key = next(key for key in fresh if key in self._index)
            raise duplicate(self.name, key, layout, "exists already")
        if self.log is not None and (staged is not None or fresh):
            self.log.rows(layout, batches, staged)
        if not fresh:
            return
        made = None if self.watch is None else self.watch.put_many(batches, keys, layout)
        self._key = layout.key_layout
        for batch in batches:
            first = self._locations[2].first
            self._publish(
                [*self._locations[1], Segment(batch, layout, first)],
                Tail(first + batch.num_rows, layout),
            )
        if self._index:
            self._index.update(fresh)
        else:
            self._index = fresh
        self._merge()
        if self.log is not None:
            self.log.changed()
        if made is not None:
            made()

    def put_many(
        self,
        batches: Sequence[pa.RecordBatch],
        keys: Sequence[list[Key]],
        layout: MapLayout,
        staged: str | None,
    ) -> None:
        """Writes rows; of several rows with one key the last one remains.

        `batches` have at most MOST_ROWS rows, and the store owns them from now on. With `lock`
        held.
        """
        self.check(layout)
        if self.log is not None and (staged is not None or any(keys)):
            self.log.rows(layout, batches, staged)
        made = None if self.watch is None else self.watch.put_many(batches, keys, layout)
        self.load(batches, keys, layout)
        if self.log is not None:
            self.log.changed()
        if made is not None:
            made()

    def load(
        self, batches: Sequence[pa.RecordBatch], keys: Sequence[list[Key]], layout: MapLayout
    ) -> None:
        """`put_many` without the log."""
        if self._locations[2].rows:
            self._seal()
        for batch, chunk in zip(batches, keys, strict=True):
            if chunk:
                self._key = layout.key_layout
                self._add_batch(batch, chunk, layout)

    def _add_batch(self, batch: pa.RecordBatch, keys: list[Key], layout: MapLayout) -> None:
        index, count = self._index, len(keys)
        first = self._locations[2].first
        old = _distinct(self.numbers_of(keys)) if index else NO_NUMBERS
        before = len(index)
        self._publish(
            [*self._locations[1], Segment(batch, layout, first)], Tail(first + count, layout)
        )
        index.update(zip(keys, range(first, first + count), strict=True))
        if len(index) - before + len(old) < count:
            # A key occurred more than once: the index has its last row, the earlier rows are dead.
            # Example: the keys ["a", "b", "a"] with numbers [7, 8, 9]. The index maps "a" to 9 and
            # "b" to 8, so numbers_of(keys) = [9, 8, 9], which differs from [7, 8, 9] for number 7:
            # it is dead.
            numbers = np.arange(first, first + count)
            old = np.concatenate([old, numbers[self.numbers_of(keys) != numbers]])
        self._kill_all(old)
        self._merge()

    def update(self, key: Key, row: tuple[Any, ...], layout: MapLayout) -> None:
        """Replaces one existing row, but keeps its fields that the layout lacks. With `lock`
        held."""
        _, segments, tail = self._locations
        if tail.layout is layout and knows_all_fields(segments, layout):
            self.put(key, row, layout)
        else:
            self.replace_many([_row_batch(row, layout)], [[key]], layout, None)

    def replace_many(
        self,
        batches: Sequence[pa.RecordBatch],
        keys: Sequence[list[Key]],
        layout: MapLayout,
        staged: str | None,
    ) -> int:
        """Replaces existing rows, but keeps their fields that the layout lacks; ignores new keys.

        Returns the number of replaced rows. With `lock` held.
        """
        self.check(layout)
        if self._locations[2].rows:
            self._seal()
        segments = self._locations[1]
        known, wide = knows_all_fields(segments, layout), layout
        chosen, chosen_keys = [], []
        for batch, chunk in zip(batches, keys, strict=True):
            numbers = self.numbers_of(chunk)
            existing = np.flatnonzero(numbers >= 0)
            is_all = len(existing) == len(chunk)
            rows = batch if is_all else batch.take(indexes(existing))
            if not known:
                rows, wide = with_unchanged_fields(rows, layout, segments, numbers[existing])
            chosen.append(rows)
            chosen_keys.append(chunk if is_all else [chunk[i] for i in existing.tolist()])
        self.put_many(chosen, chosen_keys, self.intern(wide), staged)
        return sum(map(len, chosen_keys))

    def remove_many(
        self,
        batches: Sequence[pa.RecordBatch],
        keys: Sequence[list[Key]],
        layout: MapLayout,
        staged: str | None,
    ) -> int:
        """Removes the rows with these keys, as far as they exist; returns the number of removed
        rows.

        `batches` have the columns of the key. With `lock` held.
        """
        self.check(layout)
        if self.log is not None and (staged is not None or any(keys)):
            self.log.delete(layout.key_layout, batches, staged)
        made = None if self.watch is None else self.watch.remove_many(keys)
        removed = self.unload(keys)
        if self.log is not None:
            self.log.changed()
        if made is not None:
            made()
        return removed

    def unload(self, keys: Sequence[list[Key]]) -> int:
        """`remove_many` without the log."""
        removed = 0
        for chunk in keys:
            found = np.fromiter(
                map(self._index.pop, chunk, repeat(-1)), dtype=np.int64, count=len(chunk)
            )
            numbers = np.sort(found[found >= 0])
            removed += len(numbers)
            self._kill_all(numbers)
        self._deleted += removed
        self._after_deletes()
        return removed

    def clear(self) -> int:
        """Removes all rows and releases their memory; returns the number of rows. With `lock`
        held."""
        count = len(self._index)
        if self.log is not None and count:
            self.log.clear()
        made = None if self.watch is None else self.watch.clear()
        self._reset(self._locations[2].next)
        if self.log is not None:
            self.log.changed()
        if made is not None:
            made()
        return count

    def release(self) -> None:
        """Releases all memory; the store is not used afterwards."""
        with self.lock:
            self.log = None
            self._reset(self._locations[2].next)
            self._layouts.clear()

    # The order of rows

    def _publish(self, segments: list[Segment], tail: Tail) -> None:
        self._locations = ([segment.first for segment in segments], segments, tail)

    def _new_tail(self, layout: MapLayout) -> Tail:
        tail = Tail(self._locations[2].next, layout)
        self._publish(self._locations[1], tail)
        return tail

    def _seal(self) -> None:
        """Makes the tail a segment."""
        tail = self._locations[2]
        rows, numbers = tail.live_rows()
        segments = list(self._locations[1])
        if rows:
            values = zip(*rows, strict=True)
            columns = [
                array_of(list(column), item)
                for column, item in zip(values, tail.layout.types, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=tail.layout.schema)
            first = tail.first if numbers is None else int(numbers[0])
            segments.append(Segment(batch, tail.layout, first, numbers))
        self._publish(segments, Tail(tail.next, tail.layout))
        self._merge()

    def _merge(self) -> None:
        _, segments, tail = self._locations
        merged = list(segments)
        merge_last(merged, self.intern)
        if len(merged) < len(segments):
            self._publish(merged, tail)

    def _kill(self, number: int) -> None:
        firsts, segments, tail = self._locations
        if number >= tail.first:
            tail.dead.add(number - tail.first)
            return
        index = bisect_right(firsts, number) - 1
        segment = segments[index]
        segment.kill(segment.position(number))
        if segment.is_worn:
            self._drop_dead([index])

    def _kill_all(self, ordered: Numbers) -> None:
        """Marks the rows with these numbers dead; the numbers increase, and all rows are alive."""
        if not len(ordered):
            return
        # Example: segments with the numbers 0 to 9 and 10 to 19, a tail from 20 on; ordered = [3,
        # 12, 15, 21]. split = 3: the number 21 is in the tail, at its position 1. firsts = [0, 10]
        # are found in [3, 12, 15] at [0, 1], so bounds = [0, 1, 3]: the first segment loses
        # ordered[0:1] = [3], the second one ordered[1:3] = [12, 15].
        firsts, segments, tail = self._locations
        split = int(np.searchsorted(ordered, tail.first))
        tail.dead.update((ordered[split:] - tail.first).tolist())
        bounds = [
            *np.searchsorted(ordered[:split], np.array(firsts, dtype=np.int64)).tolist(),
            split,
        ]
        worn = []
        for index, segment in enumerate(segments):
            chosen = ordered[bounds[index] : bounds[index + 1]]
            if len(chosen):
                segment.kill_all(segment.positions(chosen))
                if segment.is_worn:
                    worn.append(index)
        if worn:
            self._drop_dead(worn)

    def _drop_dead(self, positions: list[int]) -> None:
        segments = list(self._locations[1])
        for index in positions:
            segments[index] = segments[index].compacted()
        self._publish([segment for segment in segments if segment.live], self._locations[2])

    def _after_deletes(self) -> None:
        """Shrinks the key index, since a dict does not shrink by itself; an empty map accepts
        any key again."""
        if not self._index:
            self._reset(self._locations[2].next)
        elif self._deleted > 100_000 and self._deleted > 3 * len(self._index):
            self._index = dict(self._index)
            self._deleted = 0


def _distinct(numbers: Numbers) -> Numbers:
    """The numbers that are not negative, in increasing order, each once. np.unique is several
    times slower."""
    # Example: [5, -1, 3, 5] is sorted to [3, 5, 5]; the mask of the first of equal numbers is
    # [True, True, False], which leaves [3, 5].
    ordered = np.sort(numbers[numbers >= 0])
    return (
        ordered
        if len(ordered) < 2
        else ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    )


def _first_repeated(keys: Sequence[list[Key]]) -> Key:
    keys_so_far: set[Key] = set()
    for key in chain.from_iterable(keys):
        if key in keys_so_far:
            return key
        keys_so_far.add(key)
    return None


def _row_batch(row: Sequence[Any], layout: MapLayout) -> pa.RecordBatch:
    columns = [array_of([value], item) for value, item in zip(row, layout.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)
