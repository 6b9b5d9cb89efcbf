"""Keys in SQL's order for values that Arrow sorts in another order, or not at all.

Floats become integers, arrays and rows VARBINARY. Arrays are compared element by element, rows
field by field, and a prefix comes before a longer array. A NULL in an array or a row is larger than
any value, as in DuckDB and PostgreSQL. Arrow sorts VARBINARY by its octets, so each element becomes
octets of the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity
from runnel.expressions.kernels.buffers import null_scalar, pack_scalar
from runnel.expressions.kernels.sameness import list_items, list_lengths
from runnel.sqltypes import VARBINARY

_NEGATIVE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
"""All bits but the sign."""

_END, _VALUE, _NULL, _NOTHING = (
    pack_scalar(octets, VARBINARY) for octets in (b"\0", b"\1", b"\2", b"")
)
"""The octet after the last element of an array, before a value, and in the place of a NULL."""


# Of two IEEE 754 numbers that aren't negative, the larger one also has the larger bits. The bits of
# negative numbers, read as a signed integer, order the wrong way round, and are inverted:
#     values                −2.0                  −0.0 (+ 0.0 = 0.0)  1.5
#     bits                  0xC000000000000000    0x0000000000000000  0x3FF8000000000000
#     bits as an integer    −4611686018427387904  0                   4609434218613702656
#     result                −4611686018427387905  0                   4609434218613702656
# NaN, made one positive bit pattern, is above infinity.
def ordered_integers(array: pa.Array) -> pa.Array:
    """BIGINT values in the same order as the values of a REAL or DOUBLE column."""
    values: Numbers = numbers(array, np.float32 if pa.types.is_float32(array.type) else np.float64)
    wide = np.add(values, 0.0, dtype=np.float64)
    wide[np.isnan(wide)] = np.nan
    integers = wide.view(np.int64)
    # The integers of negative floats are in reverse order, so all bits but the sign are inverted.
    # `integers >> 63` is −1 (all bits set) for a negative number and 0 for any other.
    integers ^= (integers >> 63) & _NEGATIVE
    return from_numbers(integers, pa.int64(), validity(array))


# For BIGINT[], of which the eight octets of a number are shortened to its last one:
#     [1, 3]     01 81  01 83  00
#     [1]        01 81  00           00 < 01: a prefix comes first
#     [1, NULL]  01 81  02  00       02 > 01: NULL comes last
def nested_keys(array: pa.Array) -> pa.Array:
    """A VARBINARY for each array or row, in the same order; NULL where the value is NULL."""
    keys = _octets(array)
    return pc.if_else(array.is_valid(), keys, null_scalar(VARBINARY)) if array.null_count else keys


def _octets(array: pa.Array) -> pa.Array:
    """The octets of each value, so that none is a prefix of another; arbitrary for NULL."""
    arrow = array.type
    if pa.types.is_struct(arrow):
        fields = [_marked(array.field(i)) for i in range(arrow.num_fields)]
        return _joined(*fields)
    if pa.types.is_list(arrow):
        offsets = np.zeros(len(array) + 1, np.int32)
        np.cumsum(list_lengths(array), out=offsets[1:])
        lists = pa.ListArray.from_arrays(
            from_numbers(offsets, pa.int32()), _marked(list_items(array))
        )
        return _joined(pc.binary_join(lists, _NOTHING), _END)
    if _is_text(arrow):
        octets = pc.fill_null(array.cast(pa.binary()), _NOTHING)
        # 00 within a text is 00 FF, since 00 alone ends it.
        return _joined(pc.replace_substring(octets, b"\0", b"\0\xff"), _END)
    return _binary(_big_endian(array))


def _marked(array: pa.Array) -> pa.Array:
    """The octets of each value after 01, or 02 for NULL."""
    arrow = array.type
    if pa.types.is_null(arrow):
        return pa.repeat(_NULL, len(array))
    if pa.types.is_nested(arrow) or _is_text(arrow):
        octets = _joined(_VALUE, _octets(array))
        return pc.if_else(array.is_valid(), octets, _NULL) if array.null_count else octets
    # NULL is as long as a value, which saves the selection: 02 alone decides.
    body = _big_endian(array)
    valid = validity(array)
    marked = np.empty((len(array), body.shape[1] + 1), np.uint8)
    marked[:, 0] = 1 if valid is None else np.where(valid, 1, 2)
    marked[:, 1:] = body if valid is None else body * valid[:, None]
    return _binary(marked)


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _joined(*parts: Any) -> pa.Array:
    """The octets of the operands one after the other."""
    return pc.binary_join_element_wise(*parts, _NOTHING)


# The sign is inverted, so that −1 (FF…FF) as 7F…FF comes before 0, which is 80…00.
def _big_endian(array: pa.Array) -> Any:
    """The octets of fixed-width values, most significant first, as a matrix with a row each."""
    arrow = array.type
    if pa.types.is_boolean(arrow):
        array = array.cast(pa.int8())
    elif pa.types.is_floating(arrow):
        array = ordered_integers(array)
    width = array.type.bit_width // 8
    octets = numbers(array, np.dtype((np.void, width))).view(np.uint8).reshape(len(array), width)
    reversed_octets = octets[:, ::-1].copy()
    reversed_octets[:, 0] ^= 0x80
    return reversed_octets


def _binary(octets: Any) -> pa.Array:
    """The rows of a matrix of octets as VARBINARY."""
    count, width = octets.shape
    offsets = from_numbers(np.arange(0, (count + 1) * width, width, dtype=np.int32), pa.int32())
    data = pa.py_buffer(np.ascontiguousarray(octets))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], data])
