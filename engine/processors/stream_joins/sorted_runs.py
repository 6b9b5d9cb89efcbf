"""The rows that one side of a join of streams keeps: in runs, each sorted by key and time.

A run is searched for many rows at once: a 64-bit word holds the first bits of the key's hash above
the event time, so two binary searches give the rows of (nearly) one key within a span of time. As
batches come in, runs of like size are put together, so that there are few; rows that can't match
any more are left out then, and a run goes when all of its rows have.

Where memory has no room for them, runs are put into files: they stay as they are, but all that
doesn't change is mapped.

A row expires at a time of the other side's watermark: beyond it nothing can match that row. `holds`
say, for each watermark of the row's own side, how far it may get while the row is kept: no further
than the row's own times.
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
"""Rows from which on runs aren't put together any more."""

MERGED_SHARE = 4
"""Runs in files are put together while they take no more than one in so many parts of what
operators may hold."""

TIME_BITS = 40
"""The bits of a word that are the time; what doesn't fit is rounded down, and pairs are looked at
once more."""

TAME_TIME = GREATEST_TIME >> 1
"""Event times beyond it, either way, aren't searched by time: adding to them might overflow."""

_BYTES_PER_ROW = 64
"""What is worked out about each row."""

NEVER = np.iinfo(np.int64).max


def times_of(column: pa.Array) -> tuple[Indexes, Mask | None]:
    """Event times, and which of them there are (None: all)."""
    times = event_times(column)
    return numbers(times, np.int64), validity(times)


@dataclass(slots=True)
class Rows:
    """Rows of one side with what is worked out about each. `hashes` and `keys` are absent without
    keys, `times` without a time to search by, `expiry` (the last watermark of the other side at
    which the row still may match) where rows never expire; `holds` has an array for each watermark
    of this side."""

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

    def kept(self, mask: Mask) -> Rows:
        """The rows for which `mask` is true."""
        chosen = from_flags(mask)
        return Rows(
            self.batch.filter(chosen),
            None if self.hashes is None else self.hashes[mask],
            [key.filter(chosen) for key in self.keys],
            None if self.times is None else self.times[mask],
            None if self.expiry is None else self.expiry[mask],
            [hold[mask] for hold in self.holds],
            self.matched[mask],
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows of several parts of the same side."""
    first = parts[0]
    return Rows(
        join_batches([part.batch for part in parts]),
        None if first.hashes is None else np.concatenate([part.hashes for part in parts]),
        [join_arrays([part.keys[i] for part in parts]) for i in range(len(first.keys))],
        None if first.times is None else np.concatenate([part.times for part in parts]),
        None if first.expiry is None else np.concatenate([part.expiry for part in parts]),
        [np.concatenate([part.holds[i] for part in parts]) for i in range(len(first.holds))],
        np.concatenate([part.matched for part in parts]),
    )


@dataclass(slots=True)
class Sought:
    """Rows whose matches are sought: the hash of each one's key (None: any key will do), and the
    first and the last event time that match it (None: however early, or late)."""

    count: int
    hashes: Hashes | None
    earliest: Indexes | None
    latest: Indexes | None


class Run:
    """Rows that are searched together."""

    def __init__(
        self, rows: Rows, order: Indexes | None = None, by_expiry: Indexes | None = None
    ) -> None:
        """`order` and `by_expiry` are orders of the rows that are nearly right: then sorting takes
        little."""
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
        """Lets go of the memory that it takes, but for the marks of rows that were matched."""
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
        places = [_is_among(key, rows.batch.columns) for key in rows.keys]
        self.rows = Rows(
            batch,
            _words_of(found, rows.hashes),
            [next(own_keys) if place is None else batch.column(place) for place in places],
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
        """The words that the rows are sorted by."""
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
        """Whether what `find` gives must be compared by time once more."""
        return self._shift > 0

    @property
    def size(self) -> int:
        """About how many bytes it takes, in memory or in a file."""
        if self.is_spilled:
            return self.file_bytes + self.rows.count
        return int(self.rows.batch.nbytes) + _BYTES_PER_ROW * self.rows.count

    def find(self, sought: Sought) -> tuple[Indexes, Indexes]:
        """For each of the rows sought where in `order` its candidates begin, and how many there
        are."""
        count, hashes = sought.count, sought.hashes
        if self._sorted is None:
            return np.zeros(count, np.int64), np.full(count, self.rows.count)
        if not self._time_bits:
            assert hashes is not None
            first = np.searchsorted(self._sorted, hashes)
            return first, np.searchsorted(self._sorted, hashes, side="right") - first
        span = self.high - self.low
        begin, end = np.zeros(count, np.int64), np.full(count, span)
        if sought.earliest is not None:
            begin = np.clip(sought.earliest - self.low, 0, span)
        if sought.latest is not None:
            end = np.clip(sought.latest - self.low, 0, span)
        first = np.searchsorted(self._sorted, self._word(hashes, begin >> self._shift))
        found = (
            np.searchsorted(self._sorted, self._word(hashes, end >> self._shift), side="right")
            - first
        )
        if sought.earliest is not None:
            found[sought.earliest > self.high] = 0
        if sought.latest is not None:
            found[sought.latest < self.low] = 0
        np.maximum(found, 0, out=found)
        return first, found

    def expire(self, horizon: int) -> Indexes:
        """The rows whose expiry is before `horizon`, but for those that a call before has given."""
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
        """When the rows expire that do so before `horizon`, but for those that were given."""
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

    def least_hold(self, place: int) -> int:
        """How far the watermark at `place` among those of this side may get while the rows that
        live are kept."""
        if not self.living:
            return NEVER
        if self._least_holds is None:
            # As if all rows expired at once; sorted anew when some do.
            self._least_holds = [np.full(1, hold.min()) for hold in self.rows.holds]
        return int(self._least_holds[place][self.dead])

    def least_time(self, horizon: int | None) -> int:
        """The smallest time of the rows that live."""
        assert self.rows.times is not None
        mask = self._living(horizon)
        return int((self.rows.times if mask is None else self.rows.times[mask]).min(initial=NEVER))

    def living_rows(self, horizon: int | None) -> Rows:
        mask = self._living(horizon)
        return self.rows if mask is None else self.rows.kept(mask)

    def _living(self, horizon: int | None) -> Mask | None:
        """Which rows live; None for all."""
        if not self.dead or horizon is None or self.rows.expiry is None:
            return None
        living: Mask = self.rows.expiry >= horizon
        return living


def merged(runs: Sequence[Run], horizon: int | None) -> Run:
    """The rows of several runs that live, in one."""
    parts, orders, by_expiry = [], [], []
    first = 0
    for run in runs:
        mask = run._living(horizon)
        rows = run.rows if mask is None else run.rows.kept(mask)
        parts.append(rows)
        orders.append(first + _left(run.order, mask))
        by_expiry.append(
            first
            + (np.arange(rows.count) if run._by_expiry is None else _left(run._by_expiry, mask))
        )
        first += rows.count
    made = Run(joined(parts), np.concatenate(orders), np.concatenate(by_expiry))
    if horizon is not None:
        made.expire(horizon)
    return made


def _left(order: Indexes, mask: Mask | None) -> Indexes:
    """An order of rows when only those of the mask are left."""
    if mask is None:
        return order
    places: Indexes = np.cumsum(mask) - 1
    return places[order[mask[order]]]


def _sorted(values: Indexes | Hashes, order: Indexes | None) -> Indexes:
    """The stable order of the values; quick where `order` is nearly it."""
    if order is None:
        return np.argsort(values, kind="stable")
    return order[np.argsort(values[order], kind="stable")]


def _found(found: dict[int, Indexes], array: Indexes | None) -> Indexes | None:
    return None if array is None else found.get(id(array), array)


def _words_of(found: dict[int, Indexes], array: Hashes | None) -> Hashes | None:
    return None if array is None else found[id(array)].view(np.uint64)


def _is_among(key: pa.Array, columns: Sequence[pa.Array]) -> int | None:
    """The place of the column whose values a key shares; None: it has values of its own."""
    for place, column in enumerate(columns):
        if (
            key.type == column.type
            and key.offset == column.offset
            and _addresses(key) == _addresses(column)
        ):
            return place
    return None


def _addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


class RunBuffer:
    """The runs of one side."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.horizon: int | None = None

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self.runs))

    @property
    def held(self) -> int:
        """How many rows are kept, those that are dead among them."""
        return sum(run.rows.count for run in self.runs)

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        return sum(run.size for run in self.runs)

    def add(self, run: Run) -> None:
        """Takes in rows, none of which is expired."""
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
        """Puts the runs that are in memory into files: those of few rows together, and with what is
        there, while runs are no larger than what may be in memory for that."""
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

    def expire(self, horizon: int) -> list[tuple[Rows, Indexes]]:
        """Lets go of the rows that expire before `horizon`, and gives them."""
        self.horizon = horizon if self.horizon is None else max(self.horizon, horizon)
        kept, expired = [], []
        for run in self.runs:
            gone = run.expire(self.horizon)
            if len(gone):
                expired.append((run.rows, gone))
            if run.living:
                is_sparse = 2 * run.dead >= run.rows.count and not run.is_spilled
                kept.append(merged((run,), self.horizon) if is_sparse else run)
        self.runs = kept
        return expired

    @property
    def is_spilled(self) -> bool:
        """Whether some rows are in files."""
        return any(run.is_spilled for run in self.runs)

    def expiries_before(self, horizon: int) -> Indexes:
        """When the rows expire that do so before `horizon`, in any order."""
        found = [run.expiries_before(horizon) for run in self.runs]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def take_all(self) -> Iterator[Rows]:
        """All rows that live, one run after the other; afterwards there are none."""
        runs, self.runs = self.runs, []
        return (run.living_rows(self.horizon) for run in runs)

    def least_hold(self, place: int) -> int:
        return min((run.least_hold(place) for run in self.runs), default=NEVER)
