"""The hash of keys, which determines the partition of a row.

The hash must never change, because snapshots depend on it. Its definition, with all arithmetic
modulo 2^64:

- `mix(x)` is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): x ^= x >> 30; x *=
  0xBF58476D1CE4E5B9; x ^= x >> 27; x *= 0x94D049BB133111EB; x ^= x >> 31.
- NULL hashes to 0x9E3779B97F4A7C15, whatever its type.
- Integers, intervals and temporal values: mix(value as a signed 64-bit number + NULL's hash).
  BOOLEAN: as 0 or 1.
- REAL and DOUBLE: as the 64 bits of the DOUBLE, −0 as 0 and every NaN as 0x7FF8000000000000.
- DECIMAL: the unscaled value as two 64-bit words w0 (low) and w1: mix(mix(w0 + NULL's hash) ^ w1).
- VARCHAR, JSON, VARBINARY of at most 64 bytes: h = mix(length + NULL's hash); then for each word
  of 8 bytes, little-endian, the last word padded with zeros: h = mix(h ^ word). Of more than 64
  bytes: BLAKE2b with a digest of 8 bytes, little-endian.
- ARRAY and MAP: mix(Σ mix(hash of item i + i) + length + NULL's hash); a MAP's items are ROWs of
  key and value.
- ROW and several columns: h = 0; for each field h = mix(h ^ hash). A key of one column is the
  column's own hash.

Values of one SQL type that are equal as keys have the same hash. The partition is the hash modulo
the number of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import flags, indexes, numbers, validity
from runnel.errors import OperationalError

if TYPE_CHECKING:
    import numpy.typing as npt

    from runnel.dag import Partitioner

Hashes: TypeAlias = "npt.NDArray[np.uint64]"

NULL_HASH = 0x9E3779B97F4A7C15
LONG_TEXT = 64
"""Length in bytes above which a text is hashed by BLAKE2b."""

KEY_METADATA = b"runnel.state.key"
"""Metadata key of a batch of state: the names of its key columns, one per line."""

SAVER_METADATA = b"runnel.state.saver"
"""Metadata key of a batch of state: the processor that saved it, such as "0/2"."""

RUN_METADATA = b"runnel.state.run"
"""Metadata key of a batch of groups: the name of the run that the batch belongs to.

The batches of one run together contain each group at most once.
"""

RECOMBINED = b"runnel.state.recombined"
"""Metadata key of a batch of state that was recombined from the state of other windows.

Such a batch may contain several rows of one group, and groups that have ended.
"""

_NULL = np.uint64(NULL_HASH)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_CANONICAL_NAN = np.uint64(0x7FF8000000000000)
_WIDTHS: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def mix(values: Hashes) -> Hashes:
    """Apply the finaliser of SplitMix64, a bijection of 64-bit numbers, to `values` in place."""
    values ^= values >> _SHIFT_1
    values *= _MULTIPLY_1
    values ^= values >> _SHIFT_2
    values *= _MULTIPLY_2
    values ^= values >> _SHIFT_3
    return values


def hash_columns(arrays: Sequence[pa.Array]) -> Hashes:
    """Return one hash per row of one or more key columns.

    The columns must have equal lengths and canonical Arrow types.
    """
    if len(arrays) == 1:
        return hash_column(arrays[0])
    result = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        result ^= hash_column(array)
        mix(result)
    return result


def hash_column(array: pa.Array) -> Hashes:
    """Return one hash per value."""
    arrow = array.type
    if pa.types.is_null(arrow):
        return np.full(len(array), _NULL)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        hashes = _hash_texts(array)
    elif pa.types.is_struct(arrow):
        hashes = np.zeros(len(array), np.uint64)
        for i in range(arrow.num_fields):
            hashes ^= hash_column(array.field(i))
            mix(hashes)
    elif pa.types.is_list(arrow) or pa.types.is_map(arrow):
        hashes = _hash_lists(array)
    elif pa.types.is_decimal(arrow):
        words = numbers(array, np.dtype((np.uint64, 2)))
        hashes = mix(mix(words[:, 0] + _NULL) ^ words[:, 1])
    else:
        hashes = mix(_words(array) + _NULL)
    valid = validity(array)
    if valid is not None:
        hashes[~valid] = _NULL
    return hashes


def _words(array: pa.Array) -> Hashes:
    """Return the values of a numeric, boolean or temporal column as 64-bit words."""
    arrow = array.type
    if pa.types.is_boolean(arrow):
        return flags(array).astype(np.uint64)
    if pa.types.is_floating(arrow):
        values = numbers(array, np.float32 if pa.types.is_float32(arrow) else np.float64)
        wide = np.add(values, 0.0, dtype=np.float64)
        words = wide.view(np.uint64)
        words[np.isnan(wide)] = _CANONICAL_NAN
        return words
    signed = numbers(array, _WIDTHS[arrow.bit_width]).astype(np.int64, copy=False)
    return signed.view(np.uint64)


# Example of `_hash_texts`: the column ["ab", "", "abcdefghij"].
#
#   text     the bytes "ababcdefghij"; offsets [0, 2, 2, 12]; starts [0, 2, 2]; lengths [2, 0, 10]
#   words    words[i] is the 8 bytes of the text from byte i on, as one number
#   round 1  more = [0, 2]: the rows that have bytes left; at = [0, 2], left = [2, 10].
#            Row 0 uses only 2 of the 8 bytes: shifting left and right by unused = 64 - 8 * 2 = 48
#            bits clears the other 6 ("ab"); unused is 0 for row 2 ("abcdefgh").
#   round 2  at = [8, 10], left = [-6, 2], so more = [1]: only row 2 has bytes left ("ij").
#   round 3  no row has bytes left.
def _hash_texts(array: pa.Array) -> Hashes:
    count = len(array)
    offsets = (
        np.frombuffer(array.buffers()[1], np.int32, count + 1, 4 * array.offset)
        if count
        else np.zeros(1, np.int32)
    )
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    data = array.buffers()[2]
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    hashes = mix(lengths.astype(np.uint64) + _NULL)
    # `words` overlap: one begins at each byte. The padding makes the words of the last bytes
    # possible.
    first = int(offsets[0])
    padded = np.concatenate((text[first : int(offsets[-1])], np.zeros(8, np.uint8)))
    words = np.ndarray((len(padded) - 7,), np.dtype("<u8"), padded, strides=(1,))
    starts -= first
    rows: Any = slice(None)
    at, left = starts, np.where(lengths <= LONG_TEXT, lengths, 0)
    while True:
        more = np.flatnonzero(left > 0)
        if not len(more):
            break
        if len(more) < len(left):
            rows = more if isinstance(rows, slice) else rows[more]
            at, left = at[more], left[more]
        unused = np.maximum(64 - 8 * left, 0).astype(np.uint64)
        word = words[at] << unused >> unused
        hashes[rows] = mix(hashes[rows] ^ word)
        at, left = at + 8, left - 8
    long = np.flatnonzero(lengths > LONG_TEXT)
    if len(long):
        ends = starts + lengths
        hashes[long] = _hash_long_texts(
            [padded[starts[row] : ends[row]].tobytes() for row in long.tolist()]
        )
    return hashes


def _hash_long_texts(texts: list[bytes]) -> Hashes:
    # Imported on first use: hashlib loads OpenSSL, which a process without long keys doesn't need.
    from hashlib import blake2b

    return np.frombuffer(
        b"".join(blake2b(text, digest_size=8).digest() for text in texts), "<u8"
    ).astype(np.uint64)


# Example of `_hash_lists`: the column [[7, 8], [], [9]].
#
#   offsets    [0, 2, 2, 3]; lengths [2, 0, 1]
#   positions  [0, 1, 0]: the index of each item in its list
#   hashes     [h0, h1, h2]: mix(hash of the item + its index)
#   sums       [0, h0, h0 + h1, h0 + h1 + h2]: running sums modulo 2^64
#   result     mix of [sums[2] - sums[0], sums[2] - sums[2], sums[3] - sums[2]] + length + NULL's
def _hash_lists(array: pa.Array) -> Hashes:
    count = len(array)
    offsets = (
        np.frombuffer(array.buffers()[1], np.int32, count + 1, 4 * array.offset)
        if count
        else np.zeros(1, np.int32)
    )
    start, end = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        items = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    else:
        items = array.values
    lengths = np.diff(offsets)
    positions = np.arange(end - start, dtype=np.int64) - np.repeat(
        offsets[:-1].astype(np.int64) - start, lengths
    )
    hashes = mix(hash_column(items.slice(start, end - start)) + positions.view(np.uint64))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)))
    edges = offsets - start
    return mix(sums[edges[1:]] - sums[edges[:-1]] + lengths.astype(np.uint64) + _NULL)


def partition(
    batch: pa.RecordBatch, key_columns: Sequence[int], count: int
) -> list[pa.RecordBatch]:
    """Divide the rows among `count` partitions by the hash of the key columns.

    The result has one batch per partition, some of them possibly empty. The rows of a partition
    keep their order.
    """
    if count == 1:
        return [batch]
    # Example: three rows whose hashes are [5, 4, 9], and two partitions. targets = [1, 0, 1],
    # order = [1, 0, 2] (the rows by partition), bounds = [0, 1, 3]: partition 0 is the first of
    # the reordered rows, partition 1 the next two.
    hashes = hash_columns([batch.column(i) for i in key_columns])
    targets = (hashes % np.uint64(count)).astype(np.uint16 if count <= 0xFFFF else np.int64)
    return _divided(batch, targets, count)


def _divided(batch: pa.RecordBatch, targets: npt.NDArray[Any], count: int) -> list[pa.RecordBatch]:
    """Divide the rows among partitions, of which `targets` has the number for each row."""
    order = np.argsort(targets, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=count))))
    # All rows belong to one partition: nothing needs to be copied.
    if batch.num_rows in (bounds[1:] - bounds[:-1]):
        return [batch if size == batch.num_rows else batch.slice(0, 0) for size in np.diff(bounds)]
    rows = batch.take(indexes(order))
    return [rows.slice(bounds[i], bounds[i + 1] - bounds[i]) for i in range(count)]


@frozen
class Partitioning:
    """The rule by which an edge divides rows.

    keys: names of the key columns.
    function: returns the partition of each row; None: the hash of the keys.
    edge: name of the edge, for errors.
    """

    keys: tuple[str, ...]
    function: Partitioner | None = None
    edge: str = ""

    def divided(self, batch: pa.RecordBatch, count: int) -> list[pa.RecordBatch]:
        """Divide a batch that has the key columns among `count` partitions."""
        return self.divided_by_columns(batch, self._positions(batch.schema.names), count)

    def divided_by_columns(
        self, batch: pa.RecordBatch, positions: Sequence[int], count: int
    ) -> list[pa.RecordBatch]:
        """Divide a batch whose key columns have these positions, in the order of `keys`."""
        if self.function is None or count == 1:
            return partition(batch, positions, count)
        # Imported on first use: few edges have a function.
        from runnel.columns.partition_functions import partitions_of

        columns = [batch.column(position) for position in positions]
        keys = pa.RecordBatch.from_arrays(columns, names=list(self.keys))
        return _divided(batch, partitions_of(self.function, keys, count, self.edge), count)

    def _positions(self, names: Sequence[str]) -> list[int]:
        try:
            return [names.index(key) for key in self.keys]
        except ValueError:
            missing = next(key for key in self.keys if key not in names)
            raise OperationalError(
                f'the batch for a partitioned edge has no key column "{missing}"',
                detail="its columns are " + ", ".join(f'"{name}"' for name in names),
            ) from None


def keyed_state(batch: pa.RecordBatch, *keys: str) -> pa.RecordBatch:
    """Mark the columns of a batch of state that contain the keys of its rows."""
    return batch.replace_schema_metadata({KEY_METADATA: "\n".join(keys).encode()})
