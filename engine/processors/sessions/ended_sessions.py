"""The sessions that were emitted last, by key: a later row that touches one of them is late.

A row at time t whose interval [t, t + gap] reaches the watermark isn't late by its time. But it may
touch a session that ended before the watermark, and the session that it would make then overlaps an
emitted one. So the last emitted session of each key is remembered until the watermark is two gaps
past its last event, and as long as a session of the key is open: a row that is late by its time may
touch an open session, and bring its start nearer to the emitted one.

The sessions before the last one of a key don't matter: what touches one of these and not the last
one is late by its time.

Example, gap 10: the session of the events 0 and 5 is emitted at watermark 16. A row at 14 touches
it (14 - 5 <= 10) and is late, a row at 16 isn't. At watermark 26 the session is forgotten, for a
row that touches it would end before that; `forgotten` is 15 then. A session that is opened later
must not be continued back to 15 or before: its key may have had an emitted session there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, from_numbers, numbers
from runnel.columns.key_hash import Hashes

LEAST = -(2**63)
GREATEST = 2**63 - 1
FORGOTTEN = "$ended_watermark"
"""The column of their state that holds `forgotten`."""

SCHEMA = pa.schema([pa.field(name, pa.int64()) for name in ("$ended", "first", "end")])
"""The schema of their state: the hash of the key as a signed number, the first event, and the end,
which stays what was emitted where another gap goes on with it."""

MOST_CHUNKS = 32
"""With more chunks than these they are put together, and what isn't needed any more is
forgotten."""

IsOpen = Callable[[Hashes], Mask]
"""Returns which keys have an open session."""


@frozen
class _Chunk:
    """One session of each of some keys, in the order of the hashes."""

    hashes: Hashes
    first: Indexes
    last: Indexes


class EndedSessions:
    """The last emitted session of each key of one processor. `gap` is that of the sessions."""

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._chunks: list[_Chunk] = []
        self._until = LEAST
        """No row after this time touches any of them."""
        self.forgotten = LEAST
        """No row after this time touches one that was forgotten."""

    def add(self, hashes: Hashes, first: Indexes, last: Indexes) -> None:
        """Takes in sessions in the order of the hashes of their keys, then of time."""
        if not len(hashes):
            return
        newest = np.append(hashes[1:] != hashes[:-1], True)
        self._chunks.append(_Chunk(hashes[newest], first[newest], last[newest]))
        self._until = max(self._until, min(int(last.max()) + self._gap, GREATEST))

    def may_touch(self, times: Indexes) -> bool:
        """Whether any of these rows, at least one, may be late: cheap, and False for rows ahead of
        the watermark."""
        return int(times.min()) <= max(self._until, self.forgotten)

    def touched(self, hashes: Hashes, times: Indexes, floors: Callable[[Hashes], Indexes]) -> Mask:
        """Which rows are late. `floors` returns for keys without a remembered session the time up
        to which one may have been forgotten."""
        late: Mask = times <= max(self._until, self.forgotten)
        rows = np.flatnonzero(late)
        hashes, times = hashes[rows], times[rows]
        _, last = self._newest(hashes)
        unknown = last == LEAST
        late[rows] = ~unknown & ~_apart(last, times, self._gap)
        if self.forgotten > LEAST and unknown.any():
            late[rows[unknown]] = times[unknown] <= floors(hashes[unknown])
        return late

    def of(self, hashes: Hashes, times: Indexes) -> tuple[Mask, Indexes, Indexes]:
        """Which rows aren't after the last emitted session of their key and the gap behind it; for
        each of these the first and the last event of that session."""
        first, last = self._newest(hashes)
        return (last > LEAST) & ~_apart(last, times, self._gap), first, last

    def _newest(self, hashes: Hashes) -> tuple[Indexes, Indexes]:
        """The first and the last event of the session of each key; LEAST for none."""
        first, last = np.full(len(hashes), LEAST), np.full(len(hashes), LEAST)
        for chunk in self._chunks:
            at = np.minimum(np.searchsorted(chunk.hashes, hashes), len(chunk.hashes) - 1)
            newer = (chunk.hashes[at] == hashes) & (chunk.last[at] > last)
            first[newer], last[newer] = chunk.first[at[newer]], chunk.last[at[newer]]
        return first, last

    def forget(self, before: int, is_open: IsOpen) -> None:
        """Lets go of what no row can touch that is in time, now and then; rows that end before
        `before` are late."""
        if len(self._chunks) > MOST_CHUNKS:
            self.settle(before, is_open)

    def settle(self, before: int, is_open: IsOpen) -> None:
        """As `forget`, at once."""
        self._chunks = [
            chunk
            for chunk in (self._needed(item, before, is_open) for item in self._chunks)
            if len(chunk.hashes)
        ]
        together = self._together()
        self._chunks = [] if together is None else [together]
        self._until = (
            LEAST if together is None else min(int(together.last.max()) + self._gap, GREATEST)
        )

    def _needed(self, chunk: _Chunk, before: int, is_open: IsOpen) -> _Chunk:
        """Those of the sessions that a row in time may touch."""
        needed = chunk.last >= max(before - 2 * self._gap, LEAST)
        old = np.flatnonzero(~needed)
        if not len(old):
            return chunk
        needed[old] = is_open(chunk.hashes[old])
        gone = old[~needed[old]]
        if len(gone):
            self.forgotten = max(
                self.forgotten, min(int(chunk.last[gone].max()) + self._gap, GREATEST)
            )
        return _Chunk(chunk.hashes[needed], chunk.first[needed], chunk.last[needed])

    def _together(self) -> _Chunk | None:
        """All of them as one chunk; None for none."""
        if not self._chunks:
            return None
        if len(self._chunks) == 1:
            return self._chunks[0]
        hashes = np.concatenate([chunk.hashes for chunk in self._chunks])
        first = np.concatenate([chunk.first for chunk in self._chunks])
        last = np.concatenate([chunk.last for chunk in self._chunks])
        order = np.lexsort((last, hashes))
        hashes = hashes[order]
        newest = order[np.append(hashes[1:] != hashes[:-1], True)]
        return _Chunk(
            hashes[np.append(hashes[1:] != hashes[:-1], True)], first[newest], last[newest]
        )

    def state(self, floors: tuple[Hashes, Indexes]) -> Iterator[pa.RecordBatch]:
        """They as state, and for each of the keys `floors[0]` the time `floors[1]` up to which one
        may have been forgotten."""
        if self.forgotten > LEAST:
            yield pa.RecordBatch.from_arrays(
                [from_numbers(np.array([self.forgotten]), pa.int64())], names=[FORGOTTEN]
            )
        keys, times = floors
        known = EndedSessions(self._gap)
        known._chunks = list(self._chunks)
        unknown = self._newest(keys)[1] == LEAST
        last = _less(times[unknown], self._gap)
        known.add(keys[unknown], last, last)
        together = known._together()
        if together is not None:
            end = np.minimum(together.last, GREATEST - self._gap) + self._gap
            yield ended_state(together.hashes, together.first, end)

    def restore(self, batch: pa.RecordBatch, index: int, parallelism: int) -> None:
        """Takes in the state of any processor, as far as its keys belong to processor `index` of
        `parallelism`."""
        if batch.schema.names[0] == FORGOTTEN:
            self.forgotten = max(self.forgotten, int(numbers(batch.column(0), np.int64)[0]))
            return
        hashes, first, end = (numbers(column, np.int64) for column in batch.columns)
        last = _less(end, self._gap)
        keys = hashes.view(np.uint64)
        mine = keys % np.uint64(parallelism) == index
        order = np.argsort(keys[mine], kind="stable")
        self.add(keys[mine][order], first[mine][order], last[mine][order])


def _less(times: Indexes, gap: int) -> Indexes:
    """The times less a gap, at least one more than LEAST, which stands for none."""
    return np.maximum(times, LEAST + 1 + gap) - gap


def ended_state(hashes: Hashes, first: Indexes, end: Indexes) -> pa.RecordBatch:
    """Sessions that were emitted, by the hashes of their keys, as state."""
    columns = (hashes.view(np.int64), first, end)
    return pa.RecordBatch.from_arrays(
        [from_numbers(item, pa.int64()) for item in columns], schema=SCHEMA
    )


def _apart(before: Indexes, after: Indexes, gap: int) -> Mask:
    """Whether the second time is more than a gap behind the first."""
    # The difference of two numbers of which the second is larger fits into 64 bits without a sign.
    apart: Mask = (after > before) & (
        after.view(np.uint64) - before.view(np.uint64) > np.uint64(gap)
    )
    return apart


def is_ended_state(batch: pa.RecordBatch) -> bool:
    """Whether a batch of state is that of ended sessions."""
    return batch.schema.names[0] in (SCHEMA.names[0], FORGOTTEN)
