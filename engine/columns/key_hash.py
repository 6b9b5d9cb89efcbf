"""The hash of keys: which partition a row belongs to. Stable for ever, because snapshots depend on
it.

The rule, all arithmetic modulo 2^64:

- `mix(x)` is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): x ^= x >> 30; x *=
  0xBF58476D1CE4E5B9; x ^= x >> 27; x *= 0x94D049BB133111EB; x ^= x >> 31.
- NULL hashes to 0x9E3779B97F4A7C15, whatever its type.
- Integers, intervals and temporal values: mix(value as a signed 64-bit number + NULL's hash).
  BOOLEAN: as 0 or 1.
- REAL and DOUBLE: as the 64 bits of the DOUBLE, −0 as 0 and every NaN as 0x7FF8000000000000.
- DECIMAL: the unscaled value as two 64-bit words w0 (low) and w1: mix(mix(w0 + NULL's hash) ^ w1).
- VARCHAR, JSON, VARBINARY of at most 64 bytes: h = mix(length + NULL's hash); then for each 8
  bytes, little-endian, the last padded with zeros: h = mix(h ^ word). Longer ones: BLAKE2b with an
  8-byte digest, little-endian.
- ARRAY and MAP: mix(Σ mix(hash of item i + i) + length + NULL's hash); a MAP's items are ROWs of
  key and value.
- ROW and several columns: h = 0; for each field h = mix(h ^ hash). A key of one column is the
  column's own hash.

Values that are equal as keys of one SQL type hash equal. A partition is the hash modulo the number
of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from runnel.columns.batches import flags, indexes, numbers, validity

if TYPE_CHECKING:
    import numpy.typing as npt

Hashes: TypeAlias = "npt.NDArray[np.uint64]"

NULL_HASH = 0x9E3779B97F4A7C15
LONG_TEXT = 64

KEY_METADATA = b"runnel.state.key"
"""The metadata of a batch of state that names its key columns, one per line."""

SAVER_METADATA = b"runnel.state.saver"
"""The metadata of a batch of state that says which processor has saved it, as in "0/2"."""

RUN_METADATA = b"runnel.state.run"
"""The metadata of a batch of groups that names what it is a part of: all of that together has each
group at most once."""

RECOMBINED = b"runnel.state.recombined"
"""The metadata of a batch of state that was made of state for other windows: it may have several
rows of one group, and groups that are over."""

_NULL = np.uint64(NULL_HASH)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_CANONICAL_NAN = np.uint64(0x7FF8000000000000)
_WIDTHS: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def mix(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64; a bijection of 64-bit numbers. Works in place on `values`."""
    values ^= values >> _SHIFT_1
    values *= _MULTIPLY_1
    values ^= values >> _SHIFT_2
    values *= _MULTIPLY_2
    values ^= values >> _SHIFT_3
    return values


def hash_columns(arrays: Sequence[pa.Array]) -> Hashes:
    """One hash per row of the key columns (at least one), which have equal lengths and canonical
    Arrow types."""
    if len(arrays) == 1:
        return hash_column(arrays[0])
    result = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        result ^= hash_column(array)
        mix(result)
    return result


def hash_column(array: pa.Array) -> Hashes:
    """One hash per value."""
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
    """The values of a numeric, boolean or temporal column as 64-bit words."""
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
    # Every 8 bytes of the data, wherever they begin, as one word; the end is padded so that the
    # last ones exist.
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
    # Loaded on first use: hashlib brings OpenSSL with it, which a process without long keys has no
    # need of.
    from hashlib import blake2b

    return np.frombuffer(
        b"".join(blake2b(text, digest_size=8).digest() for text in texts), "<u8"
    ).astype(np.uint64)


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
    places = np.arange(end - start, dtype=np.int64) - np.repeat(
        offsets[:-1].astype(np.int64) - start, lengths
    )
    hashes = mix(hash_column(items.slice(start, end - start)) + places.view(np.uint64))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)))
    edges = offsets - start
    return mix(sums[edges[1:]] - sums[edges[:-1]] + lengths.astype(np.uint64) + _NULL)


def partition(
    batch: pa.RecordBatch, key_columns: Sequence[int], count: int
) -> list[pa.RecordBatch]:
    """The rows of `batch` divided over `count` partitions by the hash of the key columns; rows keep
    their order."""
    if count == 1:
        return [batch]
    hashes = hash_columns([batch.column(i) for i in key_columns])
    places = (hashes % np.uint64(count)).astype(np.uint16 if count <= 0xFFFF else np.int64)
    order = np.argsort(places, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=count))))
    if batch.num_rows in (bounds[1:] - bounds[:-1]):
        return [batch if size == batch.num_rows else batch.slice(0, 0) for size in np.diff(bounds)]
    rows = batch.take(indexes(order))
    return [rows.slice(bounds[i], bounds[i + 1] - bounds[i]) for i in range(count)]


def keyed_state(batch: pa.RecordBatch, *keys: str) -> pa.RecordBatch:
    """Rows of state that belong to keys: marks the columns that hold them."""
    return batch.replace_schema_metadata({KEY_METADATA: "\n".join(keys).encode()})
