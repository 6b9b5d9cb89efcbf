"""Finding the build rows whose key equals that of a probe row.

All indexes have one shape: the build rows are grouped into buckets, `rows` lists them bucket by
bucket, and bucket i is `rows[starts[i]:starts[i + 1]]`. Dense integer keys are their own bucket
numbers; other keys are hashed into at least twice as many buckets as there are rows. A candidate
from a hashed bucket must be confirmed. NULL keys are in no bucket, but for those that are
null-safe, where NULL is a value like others.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, Numbers, numbers, validity
from runnel.columns.key_hash import hash_columns
from runnel.processors.grouping.row_identity import same

DENSE_ROOM = 1 << 16
"""Integer keys are their own buckets if they span at most this many, or four times as many as there
are rows."""

_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class JoinIndex:
    """The base: without keys every build row is a candidate for every probe row."""

    is_exact = True
    """Whether candidates needn't be confirmed."""

    def __init__(self, num_rows: int) -> None:
        self.rows: Indexes = np.arange(num_rows)

    def find(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Indexes]:
        """For each probe row where its candidates start in `rows`, and how many there are."""
        return np.zeros(num_rows, np.int64), np.full(num_rows, len(self.rows))

    def find_only(self, keys: Sequence[pa.Array]) -> Indexes | None:
        """For each probe row its one candidate, or -1; None where there may be more than one."""
        return None

    def confirm(
        self, keys: Sequence[pa.Array], probe_rows: Indexes, build_rows: Indexes
    ) -> Mask | None:
        """Which candidates have equal keys; None for all."""
        return None


class _Bucketed(JoinIndex):
    """An index by bucket numbers."""

    def __init__(self, buckets: Indexes, rows: Indexes, count: int) -> None:
        """`buckets[i]` (below `count`) is the bucket of build row `rows[i]`."""
        sizes = np.bincount(buckets, minlength=count)
        self.starts = np.zeros(count + 1, np.int64)
        np.cumsum(sizes, out=self.starts[1:])
        self.row_of: Indexes | None = None
        if len(buckets) and sizes.max() > 1:
            self.rows = rows[np.argsort(buckets, kind="stable")]
        else:
            self.row_of = np.full(count, -1, np.int64)
            self.row_of[buckets] = rows
            self.rows = self.row_of[sizes > 0]

    def bucket_ranges(self, buckets: Indexes, valid: Mask | None) -> tuple[Indexes, Indexes]:
        starts = self.starts[buckets]
        counts = self.starts[buckets + 1] - starts
        if valid is not None:
            counts *= valid
        return starts, counts


class DenseIndex(_Bucketed):
    """Over one integer (or date, time, …) key whose values lie close together."""

    def __init__(self, values: Numbers, rows: Indexes, low: int, span: int) -> None:
        self._low = low
        self._span = span
        super().__init__(values - low, rows, span)

    def find(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Indexes]:
        buckets, inside = self._buckets(keys[0])
        return self.bucket_ranges(
            buckets if inside is None else np.where(inside, buckets, 0), inside
        )

    def find_only(self, keys: Sequence[pa.Array]) -> Indexes | None:
        if self.row_of is None:
            return None
        buckets, inside = self._buckets(keys[0])
        if inside is None:
            return self.row_of[buckets]
        return np.where(inside, self.row_of[np.where(inside, buckets, 0)], -1)

    def _buckets(self, key: pa.Array) -> tuple[Indexes, Mask | None]:
        """The bucket numbers, and which of them there are; None for all."""
        # The difference may wrap around; as an unsigned number it is then too large, as it should
        # be.
        buckets = integers(key) - np.int64(self._low)
        inside: Mask = buckets.view(np.uint64) < self._span
        valid = validity(key)
        if valid is not None:
            inside &= valid
        return buckets, None if inside.all() else inside


class HashIndex(_Bucketed):
    """Over keys of any types."""

    is_exact = False

    def __init__(self, keys: Sequence[pa.Array], rows: Indexes, null_safe: Set[int]) -> None:
        self._keys = keys
        self._null_safe = null_safe
        self._hashes = hash_columns(keys)
        size = 1 << max(4, (2 * len(rows) - 1).bit_length())
        self._mask = np.uint64(size - 1)
        # The hash of one integer is a bijection: equal hashes are equal keys. (But one of them has
        # that of NULL.)
        self._needs_keys = len(keys) > 1 or bool(null_safe) or not is_integer_like(keys[0].type)
        super().__init__((self._hashes[rows] & self._mask).view(np.int64), rows, size)

    def find(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Indexes]:
        self._probed = hash_columns(keys)
        return self.bucket_ranges(
            (self._probed & self._mask).view(np.int64), all_valid(keys, self._null_safe)
        )

    def confirm(self, keys: Sequence[pa.Array], probe_rows: Indexes, build_rows: Indexes) -> Mask:
        equal: Mask = self._probed[probe_rows] == self._hashes[build_rows]
        if self._needs_keys:
            hits = np.flatnonzero(equal)
            equal[hits] = same(keys, probe_rows[hits], self._keys, build_rows[hits])
        return equal


def make_index(
    keys: Sequence[pa.Array], num_rows: int, null_safe: Set[int] = frozenset()
) -> JoinIndex:
    """The index over the build side's key columns, of which those at `null_safe` match NULL with
    NULL."""
    if not keys:
        return JoinIndex(num_rows)
    null_safe = {i for i in null_safe if keys[i].null_count}
    valid = all_valid(keys, null_safe)
    rows = np.arange(num_rows) if valid is None else np.flatnonzero(valid)
    if len(keys) == 1 and is_integer_like(keys[0].type) and not null_safe:
        values = integers(keys[0])
        if valid is not None:
            values = values[rows]
        if not len(values):
            return DenseIndex(values, rows, 0, 1)
        low = int(values.min())
        span = int(values.max()) - low + 1
        if span <= max(DENSE_ROOM, 4 * len(values)):
            return DenseIndex(values, rows, low, span)
    return HashIndex(keys, rows, null_safe)


def is_integer_like(arrow: pa.DataType) -> bool:
    """Whether the type's values are integers in memory, equal if and only if those are."""
    return bool(pa.types.is_integer(arrow) or pa.types.is_temporal(arrow))


def integers(array: pa.Array) -> Numbers:
    """The values of an integer-like column as 64-bit integers; arbitrary under NULL."""
    values: Numbers = numbers(array, _WIDTHS[array.type.bit_width])
    return values.astype(np.int64, copy=False)


def all_valid(keys: Sequence[pa.Array], besides: Set[int] = frozenset()) -> Mask | None:
    """The rows without a NULL among the keys, but for those at `besides`; None for all."""
    result: Mask | None = None
    for place, key in enumerate(keys):
        valid = None if place in besides else validity(key)
        if valid is not None:
            result = valid if result is None else result & valid
    return result
