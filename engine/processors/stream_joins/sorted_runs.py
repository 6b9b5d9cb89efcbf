"""The buffered rows of one side of a join of streams, in runs that are sorted by key and time.

A run is searched for many rows at once: a 64-bit word has the first bits of the key's hash above
the bits of the event time, so that two binary searches find the rows of (nearly) one key within an
interval of time. When batches arrive, runs of similar size are merged, so that there are few runs.
Merging drops rows that can no longer match, and a run is removed when all its rows have expired.

If the runs exceed the memory limit, they are spilled: all their immutable data is memory-mapped.

A row expires at a time of the other side's watermark, after which no later row can match it.
`holds` has, for each watermark of the row's own side, its limit while the row is buffered: the join
must not emit a watermark that is later than the row's own times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    Indexes,
    Mask,
    from_flags,
    from_numbers,
    join_arrays,
    join_batches,
    make_batch,
    numbers,
    validity,
)
from runnel.columns.key_hash import Hashes
from runnel.processors.sources.partition_watermarks import GREATEST_TIME, event_times
from runnel.storage.memory_budget import Memory

LARGEST_RUN = 1 << 20
"""Maximum number of rows of a merged run."""

MERGED_SHARE = 4
"""Runs in files are merged up to 1/MERGED_SHARE of the bytes that operators may hold."""

TIME_BITS = 40
"""Number of bits of a word for the time.

Times of a larger range are truncated, and the pairs are compared by their exact times afterwards.
"""

TAME_TIME = GREATEST_TIME >> 1
"""Greatest absolute event time that is searched by time, so that additions don't overflow."""

_BYTES_PER_ROW = 64
"""Approximate bytes per row of the computed data: hashes, times, limits and orders."""

NEVER = np.iinfo(np.int64).max
"""A time that no watermark reaches."""


def times_of(column: pa.Array) -> tuple[Indexes, Mask | None]:
    """Return event times, and a mask of those that aren't NULL (None: all)."""
    times = event_times(column)
    return numbers(times, np.int64), validity(times)


@dataclass(slots=True)
class JoinRows:
    """Rows of one side, and the data that is computed for each row.

    batch: the rows.
    hashes: the hash of each row's key; None if the join has no keys.
    keys: the key columns.
    times: the time by which each row is searched; None if rows aren't searched by time.
    expiry: the last watermark of the other side at which a row can match; None if rows never
        expire.
    holds: for each watermark of this side, its limit while each row is buffered.
    matched: whether each row was matched.
    """

    batch: pa.RecordBatch
    hashes: Hashes | None
    keys: Sequence[pa.Array]
    times: Indexes | None
    expiry: Indexes | None
    holds: Sequence[Indexes]
    matched: Mask

    @property
    def count(self) -> int:
        return len(self.matched)

    def filtered(self, mask: Mask) -> JoinRows:
        """Return the rows for which `mask` is true."""
        chosen = from_flags(mask)
        return JoinRows(
            self.batch.filter(chosen),
            None if self.hashes is None else self.hashes[mask],
            [key.filter(chosen) for key in self.keys],
            None if self.times is None else self.times[mask],
            None if self.expiry is None else self.expiry[mask],
            [hold[mask] for hold in self.holds],
            self.matched[mask],
        )


def joined(parts: Sequence[JoinRows]) -> JoinRows:
    """Concatenate rows of the same side."""
    first = parts[0]
    return JoinRows(
        join_batches([part.batch for part in parts]),
        None if first.hashes is None else np.concatenate([part.hashes for part in parts]),
        [join_arrays([part.keys[i] for part in parts]) for i in range(len(first.keys))],
        None if first.times is None else np.concatenate([part.times for part in parts]),
        None if first.expiry is None else np.concatenate([part.expiry for part in parts]),
        [np.concatenate([part.holds[i] for part in parts]) for i in range(len(first.holds))],
        np.concatenate([part.matched for part in parts]),
    )


@dataclass(slots=True)
class Probe:
    """A probe: the rows whose matches are searched.

    count: the number of rows.
    hashes: the hash of each row's key; None: any key matches.
    earliest: the earliest event time that matches each row; None: no limit.
    latest: the latest event time that matches each row; None: no limit.
    """

    count: int
    hashes: Hashes | None
    earliest: Indexes | None
    latest: Indexes | None


# Example of a run: rows with the times [12, 10, 11], keys hashed to [B, A, A] with A < B.
#
#   low, high  10 and 12; nothing is truncated (shift 0)
#   words      [B|2, A|0, A|1]: the first 24 bits of the hash, then 40 bits of time - low
#   order      [1, 2, 0]: the rows sorted by word
#   find       a probe for the key A with times from 11 to 12 searches the words A|1 and A|2: they
#              are at the positions 1 and 2 (the end), so there is 1 candidate at order[1], row 2
class SortedRun:
    """Rows that are searched together."""

    def __init__(
        self, rows: JoinRows, order: Indexes | None = None, by_expiry: Indexes | None = None
    ) -> None:
        """Sort rows.

        order: an almost sorted order by word, which makes sorting fast.
        by_expiry: an almost sorted order by expiry.
        """
        self.rows = rows
        self.dead = 0
        self.low = self.high = 0
        self.is_wild = False
        self._time_bits, self._shift = 0, 0
        words = self._words()
        if words is None:
            self.order: Indexes = np.arange(rows.count)
        elif self._shift and rows.times is not None:
            self.order = np.lexsort((rows.times, words))
        else:
            self.order = _sorted(words, order)
        self._sorted = None if words is None else words[self.order]
        expiry = rows.expiry
        self._first_expiry = NEVER if expiry is None or not rows.count else int(expiry.min())
        self._last_expiry = NEVER if expiry is None or not rows.count else int(expiry.max())
        self._by_expiry = by_expiry
        self._expiries: Indexes | None = None
        self._least_holds: list[Indexes] | None = None
        self.file_bytes = 0

    @property
    def is_spilled(self) -> bool:
        """Whether it is in a file."""
        return self.file_bytes > 0

    def put_into_file(self, memory: Memory) -> None:
        """Move all data to a memory-mapped file, except which rows were matched."""
        rows = self.rows
        if rows.expiry is not None and self._expiries is None:
            self._sort_by_expiry()
        holds = self._least_holds if self._expiries is not None else None
        given = [
            rows.hashes,
            rows.times,
            rows.expiry,
            *rows.holds,
            self.order,
            self._sorted,
            self._by_expiry,
            self._expiries,
        ]
        arrays = [
            item
            for item in (*given, *(holds or ()))
            if item is not None and len(item) == rows.count
        ]
        columns = [
            *rows.batch.columns,
            *(key for key in rows.keys if _is_among(key, rows.batch.columns) is None),
        ]
        width = len(columns)
        columns += [from_numbers(item.view(np.int64), pa.int64()) for item in arrays]
        names = [str(number) for number in range(len(columns))]
        mapped = memory.mapped(pa.RecordBatch.from_arrays(columns, names=names))
        found = dict(
            zip(
                map(id, arrays),
                (numbers(item, np.int64) for item in mapped.columns[width:]),
                strict=True,
            )
        )
        batch = make_batch(mapped.columns[: rows.batch.num_columns], rows.batch.schema, rows.count)
        own_keys = iter(mapped.columns[rows.batch.num_columns : width])
        key_columns = [_is_among(key, rows.batch.columns) for key in rows.keys]
        self.rows = JoinRows(
            batch,
            _words_of(found, rows.hashes),
            [next(own_keys) if index is None else batch.column(index) for index in key_columns],
            _found(found, rows.times),
            _found(found, rows.expiry),
            [found.get(id(hold), hold) for hold in rows.holds],
            rows.matched,
        )
        self.order = found[id(self.order)]
        self._sorted = _words_of(found, self._sorted)
        self._by_expiry, self._expiries = (
            _found(found, self._by_expiry),
            _found(found, self._expiries),
        )
        if holds is not None:
            self._least_holds = [found.get(id(hold), hold) for hold in holds]
        self.file_bytes = mapped.nbytes

    def _words(self) -> Hashes | None:
        """Return the words by which the rows are sorted; None if there are no keys and no times."""
        times, hashes = self.rows.times, self.rows.hashes
        if times is not None and len(times):
            self.low, self.high = int(times.min()), int(times.max())
            self.is_wild = self.low < -TAME_TIME or self.high > TAME_TIME
        if times is not None and not self.is_wild:
            self._time_bits = TIME_BITS
            self._shift = max((self.high - self.low).bit_length() - TIME_BITS, 0)
            return self._word(hashes, (times - self.low) >> self._shift)
        return None if hashes is None else hashes

    def _word(self, hashes: Hashes | None, times: Indexes) -> Hashes:
        words = times.astype(np.uint64)
        if hashes is not None:
            bits = np.uint64(self._time_bits)
            words |= (hashes >> bits) << bits
        return words

    @property
    def is_rounded(self) -> bool:
        """Whether times are truncated, so that candidates of `find` must be compared by time."""
        return self._shift > 0

    @property
    def size(self) -> int:
        """The approximate size in bytes, in memory or in a file."""
        if self.is_spilled:
            return self.file_bytes + self.rows.count
        return int(self.rows.batch.nbytes) + _BYTES_PER_ROW * self.rows.count

    def find(self, probe: Probe) -> tuple[Indexes, Indexes]:
        """Return for each probe row the start of its candidates in `order`, and their number."""
        count, hashes = probe.count, probe.hashes
        if self._sorted is None:
            return np.zeros(count, np.int64), np.full(count, self.rows.count)
        if not self._time_bits:
            assert hashes is not None
            first = np.searchsorted(self._sorted, hashes)
            return first, np.searchsorted(self._sorted, hashes, side="right") - first
        span = self.high - self.low
        begin, end = np.zeros(count, np.int64), np.full(count, span)
        if probe.earliest is not None:
            begin = np.clip(probe.earliest - self.low, 0, span)
        if probe.latest is not None:
            end = np.clip(probe.latest - self.low, 0, span)
        first = np.searchsorted(self._sorted, self._word(hashes, begin >> self._shift))
        found = (
            np.searchsorted(self._sorted, self._word(hashes, end >> self._shift), side="right")
            - first
        )
        if probe.earliest is not None:
            found[probe.earliest > self.high] = 0
        if probe.latest is not None:
            found[probe.latest < self.low] = 0
        np.maximum(found, 0, out=found)
        return first, found

    def expire(self, horizon: int) -> Indexes:
        """Return the rows that expire before `horizon` and that no earlier call has returned."""
        if self._expiries is None:
            if horizon <= self._first_expiry or not self.living:
                return np.zeros(0, np.int64)
            if horizon > self._last_expiry:
                self.dead = self.rows.count
                return np.arange(self.dead)
            self._sort_by_expiry()
        assert self._by_expiry is not None and self._expiries is not None
        before, self.dead = self.dead, max(self.dead, int(np.searchsorted(self._expiries, horizon)))
        return self._by_expiry[before : self.dead]

    def expiries_before(self, horizon: int) -> Indexes:
        """Return the expiry times before `horizon` of rows that haven't expired yet."""
        if self.rows.expiry is None or self.dead == self.rows.count:
            return np.zeros(0, np.int64)
        if self._expiries is None:
            return self.rows.expiry[self.rows.expiry < horizon]
        return self._expiries[
            self.dead : max(self.dead, int(np.searchsorted(self._expiries, horizon)))
        ]

    def _sort_by_expiry(self) -> None:
        assert self.rows.expiry is not None
        order = _sorted(self.rows.expiry, self._by_expiry)
        self._by_expiry, self._expiries = order, self.rows.expiry[order]
        self._least_holds = [
            np.minimum.accumulate(hold[order][::-1])[::-1] for hold in self.rows.holds
        ]

    @property
    def living(self) -> int:
        return self.rows.count - self.dead

    def least_hold(self, index: int) -> int:
        """Return the limit of a watermark of this side while the living rows are buffered.

        index: the index of the watermark among the side's watermarks.
        """
        if not self.living:
            return NEVER
        if self._least_holds is None:
            # The least limit of all rows; `_sort_by_expiry` refines it when the first rows expire.
            self._least_holds = [np.full(1, hold.min()) for hold in self.rows.holds]
        return int(self._least_holds[index][self.dead])

    def least_time(self, horizon: int | None) -> int:
        """Return the least time of the living rows."""
        assert self.rows.times is not None
        mask = self._living(horizon)
        return int((self.rows.times if mask is None else self.rows.times[mask]).min(initial=NEVER))

    def living_rows(self, horizon: int | None) -> JoinRows:
        mask = self._living(horizon)
        return self.rows if mask is None else self.rows.filtered(mask)

    def _living(self, horizon: int | None) -> Mask | None:
        """Return a mask of the rows that haven't expired; None if that is all rows."""
        if not self.dead or horizon is None or self.rows.expiry is None:
            return None
        living: Mask = self.rows.expiry >= horizon
        return living


def merged(runs: Sequence[SortedRun], horizon: int | None) -> SortedRun:
    """Merge the living rows of several runs into one run."""
    parts, orders, by_expiry = [], [], []
    first = 0
    for run in runs:
        mask = run._living(horizon)
        rows = run.rows if mask is None else run.rows.filtered(mask)
        parts.append(rows)
        orders.append(first + _left(run.order, mask))
        by_expiry.append(
            first
            + (np.arange(rows.count) if run._by_expiry is None else _left(run._by_expiry, mask))
        )
        first += rows.count
    made = SortedRun(joined(parts), np.concatenate(orders), np.concatenate(by_expiry))
    if horizon is not None:
        made.expire(horizon)
    return made


def _left(order: Indexes, mask: Mask | None) -> Indexes:
    """Return an order of rows after a filter, with the rows renumbered."""
    if mask is None:
        return order
    # Example: order [2, 0, 1] and mask [True, False, True]. cumsum(mask) - 1 = [0, 0, 1] are the
    # new numbers of the remaining rows 0 and 2, and the result is [1, 0].
    new_numbers: Indexes = np.cumsum(mask) - 1
    return new_numbers[order[mask[order]]]


def _sorted(values: Indexes | Hashes, order: Indexes | None) -> Indexes:
    """Return the stable order of the values; fast if `order` is almost sorted."""
    if order is None:
        return np.argsort(values, kind="stable")
    return order[np.argsort(values[order], kind="stable")]


def _found(found: dict[int, Indexes], array: Indexes | None) -> Indexes | None:
    return None if array is None else found.get(id(array), array)


def _words_of(found: dict[int, Indexes], array: Hashes | None) -> Hashes | None:
    return None if array is None else found[id(array)].view(np.uint64)


def _is_among(key: pa.Array, columns: Sequence[pa.Array]) -> int | None:
    """Return the index of the column whose memory a key shares; None if there is none."""
    for index, column in enumerate(columns):
        if (
            key.type == column.type
            and key.offset == column.offset
            and _addresses(key) == _addresses(column)
        ):
            return index
    return None


def _addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


class RunBuffer:
    """The runs of one side."""

    def __init__(self) -> None:
        self.runs: list[SortedRun] = []
        self.horizon: int | None = None

    def __iter__(self) -> Iterator[SortedRun]:
        return iter(tuple(self.runs))

    @property
    def row_count(self) -> int:
        """The number of rows, including expired rows that are still in memory."""
        return sum(run.rows.count for run in self.runs)

    @property
    def size(self) -> int:
        """The approximate size of the runs in bytes."""
        return sum(run.size for run in self.runs)

    def add(self, run: SortedRun) -> None:
        """Add a run without expired rows, and merge it with runs of similar size in memory."""
        runs = self.runs
        runs.append(run)
        while (
            len(runs) > 1
            and 2 * runs[-1].rows.count > runs[-2].rows.count
            and not runs[-2].is_spilled
        ):
            if runs[-1].rows.count + runs[-2].rows.count > LARGEST_RUN:
                break
            newer, older = runs.pop(), runs.pop()
            runs.append(merged((older, newer), self.horizon))

    def spill(self, memory: Memory) -> None:
        """Write the runs in memory to a file.

        The new run is merged with the preceding runs in files while it is of similar size and the
        merge fits into memory.
        """
        runs = self.runs
        most = memory.allowed // MERGED_SHARE
        start = len(runs)
        while start and not runs[start - 1].is_spilled:
            start -= 1
        fresh = runs[start:]
        if not fresh:
            return
        del runs[start:]
        runs.append(
            fresh[0] if len(fresh) == 1 and not fresh[0].dead else merged(fresh, self.horizon)
        )
        runs[-1].put_into_file(memory)
        while len(runs) > 1 and 2 * runs[-1].rows.count > runs[-2].rows.count:
            older, newer = runs[-2:]
            if older.rows.count + newer.rows.count > LARGEST_RUN or older.size + newer.size > most:
                break
            both = merged((older, newer), self.horizon)
            both.put_into_file(memory)
            runs[-2:] = [both]

    def expire(self, horizon: int) -> list[tuple[JoinRows, Indexes]]:
        """Remove and return the rows that expire before `horizon`."""
        self.horizon = horizon if self.horizon is None else max(self.horizon, horizon)
        retained, expired = [], []
        for run in self.runs:
            gone = run.expire(self.horizon)
            if len(gone):
                expired.append((run.rows, gone))
            if run.living:
                is_sparse = 2 * run.dead >= run.rows.count and not run.is_spilled
                retained.append(merged((run,), self.horizon) if is_sparse else run)
        self.runs = retained
        return expired

    @property
    def is_spilled(self) -> bool:
        """Whether some rows are in files."""
        return any(run.is_spilled for run in self.runs)

    def expiries_before(self, horizon: int) -> Indexes:
        """Return the expiry times before `horizon` of the living rows, in any order."""
        found = [run.expiries_before(horizon) for run in self.runs]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def take_all(self) -> Iterator[JoinRows]:
        """Remove all runs and yield their living rows."""
        runs, self.runs = self.runs, []
        return (run.living_rows(self.horizon) for run in runs)

    def least_hold(self, index: int) -> int:
        return min((run.least_hold(index) for run in self.runs), default=NEVER)
