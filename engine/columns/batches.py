"""Record batches, and views of Arrow columns as numpy arrays and back, without a copy.

The conversions of pyarrow itself (`to_numpy`, `pa.array(ndarray)`) import pandas if it is
installed. The functions of this module do not.

A batch without columns still has a number of rows (`SELECT COUNT(*)` needs nothing else).
`RecordBatch.from_arrays([])` loses that number. A batch that is made from a struct array keeps it,
also through `filter`, `take`, `slice`, `select` and `concat_batches`. Therefore all batches are
made by `make_batch`, which handles this case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_ROWS = 65_536
"""Maximum number of rows that an operator puts into one batch."""

Numbers: TypeAlias = "npt.NDArray[Any]"
Indexes: TypeAlias = "npt.NDArray[np.int64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"

_NO_COLUMNS = pa.struct([])


def make_batch(columns: Sequence[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """Make a batch of `num_rows` rows; the columns must have the types of `schema`."""
    if not columns:
        return empty_columns(num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty_columns(num_rows: int) -> pa.RecordBatch:
    """Make a batch of `num_rows` rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(_NO_COLUMNS, num_rows, [None]))


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    return make_batch([pa.nulls(0, field.type) for field in schema], schema, 0)


def slices(batch: pa.RecordBatch, size: int = MAX_ROWS) -> Iterator[pa.RecordBatch]:
    """Divide the batch into slices of at most `size` rows, without copying."""
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate one or more batches of the same schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def join_arrays(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate one or more arrays of the same type."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def validity(array: pa.Array) -> Mask | None:
    """Return a mask of the values that are not NULL; None if there is no NULL."""
    if not array.null_count:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    return bits(array.buffers()[0], array.offset, len(array))


def bits(buffer: pa.Buffer, offset: int, length: int) -> Mask:
    """Expand `length` bits of a bitmap, from bit `offset` on, to one byte per bit."""
    # Example: offset 10, length 3. The bits 10 to 12 lie in byte 1, which is unpacked to the bits
    # 8 to 15; 10 - 8 * 1 = 2 of these are skipped, and three remain.
    start = offset // 8
    packed = np.frombuffer(buffer, np.uint8)[start : (offset + length + 7) // 8]
    unpacked = np.unpackbits(packed, bitorder="little")[offset - 8 * start :]
    return unpacked[:length].view(np.bool_)


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """View the values of a fixed-width column, read-only. The value under a NULL is arbitrary."""
    item = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), item)
    return np.frombuffer(buffer, item, len(array), array.offset * item.itemsize)


def flags(array: pa.Array) -> Mask:
    """Return the values of a BOOLEAN column. The value under a NULL is arbitrary."""
    return bits(array.buffers()[1], array.offset, len(array))


def true_flags(array: pa.Array) -> Mask:
    """Return a mask of the rows where a BOOLEAN column is true; NULL counts as false."""
    values = flags(array)
    valid = validity(array)
    return values if valid is None else values & valid


def from_numbers(values: Numbers, arrow: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Make a fixed-width column that shares the memory of `values`.

    values: its items must have the width of `arrow`.
    arrow: the type of the column.
    valid: False for the rows that are NULL; None if no row is.
    """
    contiguous = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow, len(contiguous), [_bitmap(valid), pa.py_buffer(contiguous)])


def from_flags(values: Mask, valid: Mask | None = None) -> pa.Array:
    """Make a BOOLEAN column; `valid` is False for the rows that are NULL."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [_bitmap(valid), _bitmap(values)])


def indexes(values: npt.NDArray[np.integer[Any]], valid: Mask | None = None) -> pa.Array:
    """Make the argument of `take` from row numbers; rows that are not `valid` become NULL."""
    return from_numbers(values.astype(np.int64, copy=False), pa.int64(), valid)


def _bitmap(values: Mask | None) -> pa.Buffer | None:
    return None if values is None else pa.py_buffer(np.packbits(values, bitorder="little"))


def one_value(scalar: pa.Scalar) -> pa.Array:
    """Make a column of one row."""
    return repeated(scalar, 1)


def repeated(scalar: pa.Scalar, count: int) -> pa.Array:
    """Make a column of `count` rows with the same value."""
    if not scalar.is_valid or count == 0:
        return pa.nulls(count, scalar.type)
    return pa.repeat(scalar, count)
