"""Conversion of data of any Arrow type to the one Arrow type of its SQL type, as a scan does on
entry.

An array that has the canonical type already is returned without a copy. Other arrays are cast,
recursively through lists, structs and maps.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.kernels.buffers import validity
from runnel.expressions.kernels.failure import first_failure, shown
from runnel.sqltypes import SqlType, to_arrow


def canonical(array: pa.Array | pa.ChunkedArray, sql_type: SqlType) -> pa.Array:
    """`array`, of any type that `sqltypes.from_arrow` maps to `sql_type`, in the canonical type.

    Raises DataError for a value that the canonical type can't hold: nanoseconds that aren't whole
    microseconds, a uint64 or decimal with more than 38 digits, a date out of range.
    """
    if isinstance(array, pa.ChunkedArray):
        chunks = [canonical(chunk, sql_type) for chunk in array.chunks]
        if len(chunks) == 1:
            return chunks[0]
        return pa.concat_arrays(chunks) if chunks else pa.nulls(0, to_arrow(sql_type))
    target = to_arrow(sql_type)
    if array.type == target:
        return array
    try:
        return _brought(array, target)
    except pa.ArrowException as error:
        found = first_failure(lambda part: _brought(part, target), (array,))
        shown_value = "" if found is None else f" {shown(found[0])}"
        raise DataError(
            f"value{shown_value} of Arrow type {array.type} doesn't fit {sql_type}",
            detail=str(error),
        ) from None


def _brought(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array cast to `target`, which is a canonical type."""
    source = array.type
    if source == target:
        return array
    if isinstance(source, pa.UuidType):
        from runnel.expressions.text import uuids

        return uuids.from_storage(array)
    if isinstance(source, pa.BaseExtensionType):
        return _brought(array.storage, target)
    if pa.types.is_dictionary(source):
        return _brought(array.dictionary, target).take(array.indices)
    if pa.types.is_run_end_encoded(source):
        return _brought(pc.run_end_decode(array), target)
    if pa.types.is_map(target):
        return _map(array, target)
    if pa.types.is_list(target):
        return _list(array, target)
    if pa.types.is_struct(target):
        return _struct(array, target)
    if pa.types.is_date64(source):
        return pc.cast(pc.cast(array, pa.timestamp("ms")), target)
    return pc.cast(array, target)


# For [[1, 2], NULL, [3]]:
#     lengths  [2, 0, 1]     a NULL list counts as empty
#     offsets  [0, 2, 2, 3]  0, then the running total of the lengths: list i is
#                            values[offsets[i]:offsets[i + 1]]
def _list(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Any kind of list as a list with 32-bit offsets, its items in order and without gaps."""
    values = _brought(array.flatten(), target.value_type)
    lengths = pc.fill_null(pc.cast(pc.list_value_length(array), pa.int32()), _ZERO)
    offsets = pa.concat_arrays([_FIRST, pc.cast(pc.cumulative_sum_checked(lengths), pa.int32())])
    return pa.Array.from_buffers(
        target, len(array), [validity(array), offsets.buffers()[1]], children=[values]
    )


_FIRST = pa.arange(0, 1).cast(pa.int32())
_ZERO = _FIRST[0]


def _map(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A map whose keys and items are cast; `take` first drops the entries that no map refers to."""
    compact = array.take(pa.arange(0, len(array)))
    keys, items = _brought(compact.keys, target.key_type), _brought(compact.items, target.item_type)
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[_field(target, 0), _field(target, 1)]
    )
    return pa.Array.from_buffers(
        target, len(array), [validity(array), compact.offsets.buffers()[1]], children=[entries]
    )


def _field(target: pa.DataType, index: int) -> pa.Field:
    return target.key_field if index == 0 else target.item_field


def _struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    children = [_brought(child, target.field(i).type) for i, child in enumerate(array.flatten())]
    return pa.Array.from_buffers(target, len(array), [validity(array)], children=children)
