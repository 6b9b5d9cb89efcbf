"""Record batches and numpy: views of Arrow columns as numpy arrays and back, without a copy and
without pandas.

pyarrow imports pandas, where it is installed, in its own conversions (`to_numpy`,
`pa.array(ndarray)`); these don't.

A batch without columns still has a number of rows (`SELECT COUNT(*)` needs nothing else).
`RecordBatch.from_arrays([])` would lose it; a batch made of a struct array keeps it, also through
`filter`, `take`, `slice`, `select` and `concat_batches`. So batches are made by `make_batch`, which
takes care of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_ROWS = 65_536
"""The most rows that an operator puts in one batch."""

Numbers: TypeAlias = "npt.NDArray[Any]"
Indexes: TypeAlias = "npt.NDArray[np.int64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"

_NO_COLUMNS = pa.struct([])


def make_batch(columns: Sequence[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """A batch of `num_rows` rows; the columns have the schema's types."""
    if not columns:
        return empty_columns(num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty_columns(num_rows: int) -> pa.RecordBatch:
    """A batch of rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(_NO_COLUMNS, num_rows, [None]))


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    return make_batch([pa.nulls(0, field.type) for field in schema], schema, 0)


def slices(batch: pa.RecordBatch, size: int = MAX_ROWS) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most `size` rows, nothing copied."""
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of one or more batches of one schema in one batch."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def join_arrays(arrays: Sequence[pa.Array]) -> pa.Array:
    """One or more arrays of one type in one array."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def validity(array: pa.Array) -> Mask | None:
    """Which values are not NULL; None where all are."""
    if not array.null_count:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    return bits(array.buffers()[0], array.offset, len(array))


def bits(buffer: pa.Buffer, offset: int, length: int) -> Mask:
    """A bitmap as one byte per bit."""
    start = offset // 8
    packed = np.frombuffer(buffer, np.uint8)[start : (offset + length + 7) // 8]
    unpacked = np.unpackbits(packed, bitorder="little")[offset - 8 * start :]
    return unpacked[:length].view(np.bool_)


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """The values of a fixed-width column as they lie in memory, read-only; what stands under a NULL
    is arbitrary."""
    item = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), item)
    return np.frombuffer(buffer, item, len(array), array.offset * item.itemsize)


def flags(array: pa.Array) -> Mask:
    """The values of a BOOLEAN column; arbitrary under a NULL."""
    return bits(array.buffers()[1], array.offset, len(array))


def true_flags(array: pa.Array) -> Mask:
    """Where a BOOLEAN column is true; NULL is not."""
    values = flags(array)
    valid = validity(array)
    return values if valid is None else values & valid


def from_numbers(values: Numbers, arrow: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """A fixed-width column over numpy values (shared, not copied): `values` must have the width of
    `arrow`."""
    contiguous = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow, len(contiguous), [_bitmap(valid), pa.py_buffer(contiguous)])


def from_flags(values: Mask, valid: Mask | None = None) -> pa.Array:
    """A BOOLEAN column."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [_bitmap(valid), _bitmap(values)])


def indexes(values: npt.NDArray[np.integer[Any]], valid: Mask | None = None) -> pa.Array:
    """Row numbers for `take`; those not valid take NULL."""
    return from_numbers(values.astype(np.int64, copy=False), pa.int64(), valid)


def _bitmap(values: Mask | None) -> pa.Buffer | None:
    return None if values is None else pa.py_buffer(np.packbits(values, bitorder="little"))


def one_value(scalar: pa.Scalar) -> pa.Array:
    """A column of one row."""
    return repeated(scalar, 1)


def repeated(scalar: pa.Scalar, count: int) -> pa.Array:
    """A column of one value, `count` times."""
    if not scalar.is_valid or count == 0:
        return pa.nulls(count, scalar.type)
    return pa.repeat(scalar, count)
