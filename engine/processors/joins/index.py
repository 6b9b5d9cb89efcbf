"""Indexes that find the build rows whose key equals the key of a probe row.

All indexes have the same structure: the build rows are grouped into buckets, `rows` lists them
bucket by bucket, and bucket i is `rows[starts[i]:starts[i + 1]]`. Dense integer keys are their own
bucket numbers. Other keys are hashed into at least twice as many buckets as rows, and a candidate
from such a bucket must be confirmed. NULL keys are in no bucket, except null-safe keys, for which
NULL is an ordinary value.

The matches of each probe row are a range of `rows`; `pairs_in_ranges` expands ranges to pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, Numbers, numbers, validity
from runnel.columns.key_hash import hash_columns
from runnel.processors.grouping.row_identity import same

DENSE_ROOM = 1 << 16
"""Range of integer keys up to which they are their own buckets.

They also are if their range is at most four times the number of rows.
"""

_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class JoinIndex:
    """The base class, for joins without keys: each build row is a candidate for each probe row."""

    is_exact = True
    """Whether all candidates are matches, so that `confirm` isn't needed."""

    def __init__(self, num_rows: int) -> None:
        self.rows: Indexes = np.arange(num_rows)

    def find(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Indexes]:
        """Return for each probe row the start of its candidates in `rows`, and their number."""
        return np.zeros(num_rows, np.int64), np.full(num_rows, len(self.rows))

    def find_only(self, keys: Sequence[pa.Array]) -> Indexes | None:
        """Return for each probe row its only candidate, or -1; None if there may be several."""
        return None

    def confirm(
        self, keys: Sequence[pa.Array], probe_rows: Indexes, build_rows: Indexes
    ) -> Mask | None:
        """Return a mask of the candidates that have equal keys; None if all have."""
        return None


# Example: the build rows [0, 1, 2] in the buckets [2, 0, 2] of 3.
#
#   sizes   [1, 0, 2]; starts [0, 1, 1, 3]
#   rows    [1, 0, 2]: bucket 0 is rows[0:1] = [1], bucket 1 is empty, bucket 2 is
#           rows[1:3] = [0, 2]
#
# If no bucket has two rows, as with the build rows [0, 1] in the buckets [2, 0] of 3, there is also
# row_of = [1, -1, 0]: the only row of each bucket.
class _Bucketed(JoinIndex):
    """An index by bucket numbers."""

    def __init__(self, buckets: Indexes, rows: Indexes, count: int) -> None:
        """Index rows by their buckets.

        buckets: the bucket of each of `rows`, less than `count`.
        rows: the numbers of the build rows.
        count: the number of buckets.
        """
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
    """An index over one integer key (or date, time, …) of a small range.

    values: the keys of `rows`.
    rows: the numbers of the build rows.
    low: the least key.
    span: the number of values from the least to the greatest key.
    """

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
        """Return the bucket numbers, and a mask of those that exist; None if all do."""
        # The difference may wrap around. As an unsigned number it is then too large, so the bucket
        # doesn't exist, which is right.
        buckets = integers(key) - np.int64(self._low)
        inside: Mask = buckets.view(np.uint64) < self._span
        valid = validity(key)
        if valid is not None:
            inside &= valid
        return buckets, None if inside.all() else inside


class HashIndex(_Bucketed):
    """An index over keys of any types."""

    is_exact = False

    def __init__(self, keys: Sequence[pa.Array], rows: Indexes, null_safe: Set[int]) -> None:
        self._keys = keys
        self._null_safe = null_safe
        self._hashes = hash_columns(keys)
        size = 1 << max(4, (2 * len(rows) - 1).bit_length())
        self._mask = np.uint64(size - 1)
        # The hash of a single integer is a bijection: equal hashes mean equal keys. (Except that
        # one integer has the hash of NULL.)
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
    """Make an index over the key columns of the build side.

    null_safe: the indexes of the keys for which NULL matches NULL.
    """
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
    """Whether values of the type are stored as integers and are equal if and only if these are."""
    return bool(pa.types.is_integer(arrow) or pa.types.is_temporal(arrow))


def integers(array: pa.Array) -> Numbers:
    """Return the values of an integer-like column as 64-bit integers; arbitrary for NULL."""
    values: Numbers = numbers(array, _WIDTHS[array.type.bit_width])
    return values.astype(np.int64, copy=False)


def all_valid(keys: Sequence[pa.Array], besides: Set[int] = frozenset()) -> Mask | None:
    """Return a mask of the rows without a NULL among the keys; None if that is all rows.

    besides: the indexes of keys that may be NULL.
    """
    result: Mask | None = None
    for index, key in enumerate(keys):
        valid = None if index in besides else validity(key)
        if valid is not None:
            result = valid if result is None else result & valid
    return result


def pairs_in_ranges(starts: Indexes, counts: Indexes) -> Iterator[tuple[Indexes, Indexes, bool]]:
    """Yield the pairs of each row i with the counts[i] positions from starts[i] on.

    Each item has the rows and the positions of at most MAX_ROWS pairs, in order of the rows, and a
    flag that is true for the last item. There is at least one item, possibly without pairs.
    """
    # Example: starts = [4, 0, 7] and counts = [2, 0, 1], in one item.
    #
    #   ends    [2, 2, 3]: where the pairs of each row end; begins [0, 2, 2]
    #   chosen  [0, 1, 2]: the rows that have pairs in this item, or are between such rows
    #   sizes   [2, 0, 1]: the number of their pairs in this item; rows = [0, 0, 2]
    #   within  [0, 1, 0]: the index of each pair among the pairs of its row
    #   result  the rows [0, 0, 2] with the positions [4, 5, 7], and True
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, max(total, 1), MAX_ROWS):
        last = min(first + MAX_ROWS, total)
        low, high = np.searchsorted(ends, (first, last - 1), side="right") if total else (0, 0)
        chosen = np.arange(low, min(high + 1, len(counts)))
        begins = ends[chosen] - counts[chosen]
        sizes = np.minimum(ends[chosen], last) - np.maximum(begins, first)
        rows = np.repeat(chosen, sizes)
        within = np.arange(first, last) - np.repeat(begins, sizes)
        yield rows, np.repeat(starts[chosen], sizes) + within, last == total
