"""ARRAY, ROW and MAP: construction and access. Subscripts count from 1, negative ones from the end;
a subscript out of range returns NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.errors import Position, ProgrammingError, suggest
from runnel.expressions.casts.nested import list_like
from runnel.expressions.coercion import check_count, coerce, convert, takes_type
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, over_arrays
from runnel.expressions.kernels.buffers import null_scalar, pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import ARRAY, named, signature
from runnel.sqltypes import (
    BIGINT,
    INTEGER,
    NULL,
    VARCHAR,
    Kind,
    array,
    common_type,
    to_arrow,
    unnamed_row,
)

_ZERO, _ONE = pack_scalar(0, INTEGER), pack_scalar(1, BIGINT)


def _bind_array(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """ARRAY[…]: the elements in their common type."""
    if not arguments:
        return (), array(NULL)
    items = coerce(arguments, "ARRAY", position)
    return tuple(items), array(items[0].type)


def _compile_array(call: Call) -> Kernel:
    arrow = to_arrow(call.type)
    if not call.arguments:
        empty = pack_scalar([], call.type)
        return lambda: empty
    width = len(call.arguments)

    def run(*columns: pa.Array) -> pa.Array:
        rows = len(columns[0])
        offsets = pa.py_buffer(np.arange(0, width * rows + 1, width, dtype=np.int32))
        return pa.Array.from_buffers(arrow, rows, [None, offsets], children=[interleaved(columns)])

    return over_arrays(run)


# For the columns [1, 2, 3] and [4, 5, 6]:
#     order   [0, 3, 1, 4, 2, 5]  indexes into the concatenated columns
#     result  [1, 4, 2, 5, 3, 6]
def interleaved(columns: Sequence[pa.Array]) -> pa.Array:
    """The first values of all columns, then the second values, and so on."""
    rows, width = len(columns[0]), len(columns)
    order = np.arange(width * rows, dtype=np.int64).reshape(width, rows).T.reshape(-1)
    return pa.concat_arrays(columns).take(_integers(np.ascontiguousarray(order), pa.int64()))


def _integers(values: np.ndarray, arrow: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(values)])


def _bind_subscript(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 2, position)
    operand, subscript = arguments
    kind, element = operand.type.kind, operand.type.element
    if (
        kind is Kind.ARRAY
        and element is not None
        and (subscript.type.is_integer or subscript.type.kind is Kind.NULL)
    ):
        return (operand, convert(subscript, BIGINT)), element
    key = operand.type.key
    if (
        key is not None
        and element is not None
        and (takes_type(subscript, key) or common_type(subscript.type, key) == key)
    ):
        return (operand, convert(subscript, key)), element
    raise ProgrammingError(
        f"cannot take element [{subscript.type}] of {operand.type}",
        hint="an ARRAY accepts an integer, a MAP a key of its type",
        position=position,
    )


def _compile_subscript(call: Call) -> Kernel:
    return over_arrays(_element_of_map if call.arguments[0].type.kind is Kind.MAP else _element)


# For [[a, b], NULL, [c]] with the subscripts [2, 1, 2]:
#     lengths  [2, NULL, 1]
#     inside   [True, NULL, False]
#     starts   [0, 2, 2]        where each list begins in the flat values [a, b, c]
#     indices  [1, 2, 3]        starts + subscripts − 1; NULL where not inside
#     result   [b, NULL, NULL]
def _element(lists: pa.Array, subscripts: pa.Array) -> pa.Array:
    """The element at each subscript, taken from the flat values; NULL if the subscript is out of
    range.
    """
    lengths = pc.cast(pc.list_value_length(lists), pa.int64())
    from_end = pc.less(subscripts, pack_scalar(0, BIGINT))
    # The smallest BIGINT plus a length doesn't overflow.
    subscripts = pc.if_else(from_end, pc.add(pc.add(subscripts, lengths), _ONE), subscripts)
    inside = pc.and_(pc.greater_equal(subscripts, _ONE), pc.less_equal(subscripts, lengths))
    starts = numbers(lists, np.int32)
    indices = pc.add(_integers(starts.astype(np.int64), pa.int64()), pc.subtract(subscripts, _ONE))
    return lists.values.take(pc.if_else(pc.coalesce(inside, _FALSE), indices, null_scalar(BIGINT)))


_FALSE = pc.equal(_ZERO, pack_scalar(1, INTEGER))


def _element_of_map(maps: pa.Array, keys: pa.Array) -> pa.Array:
    """The value of each key: one lookup per distinct key."""
    answer: Datum = pa.nulls(len(maps), maps.type.item_type)
    for key in keys.unique().drop_null():
        chosen = pc.coalesce(pc.equal(keys, key), _FALSE)
        answer = pc.if_else(chosen, pc.map_lookup(maps, key, "first"), answer)
    return answer


def _cardinality(value: Datum) -> Datum:
    return pc.list_value_length(value)


def _length_of_dimension(value: Datum, dimension: Datum = None) -> Datum:
    """PostgreSQL's array_length: NULL for an empty array, and for a dimension that doesn't exist.

    Without a dimension it returns the number of elements, as in DuckDB.
    """
    if dimension is None:
        return pc.list_value_length(value)
    length = pc.list_value_length(value)
    exists = pc.and_(pc.equal(dimension, _ONE), pc.greater(length, _ZERO))
    return pc.if_else(exists, length, null_scalar(INTEGER))


def _join(value: Datum, separator: Datum, null_text: Datum = None) -> Datum:
    """The elements of each list as one text; NULL elements are left out, or shown as
    `null_text`.
    """
    if null_text is None:
        return over_arrays(join_lists)(value, separator)
    return over_arrays(_join_with_nulls)(value, separator, null_text)


# For [[a, NULL], [b]] with the texts ['?', '!'] for NULLs:
#     owners  [0, 0, 1]    for each element, the index of its list
#     shown   [a, '?', b]
def _join_with_nulls(lists: pa.Array, separators: pa.Array, null_texts: pa.Array) -> pa.Array:
    owners = np.repeat(
        np.arange(len(lists)), numbers(pc.coalesce(pc.list_value_length(lists), _ZERO), np.int32)
    )
    shown = pc.coalesce(
        lists.flatten(), null_texts.take(_integers(owners.astype(np.int64), pa.int64()))
    )
    return join_lists(list_like(lists, shown, array(VARCHAR)), separators)


# For [[a, NULL], NULL, [b]] the NULL elements are dropped, and the offsets adjusted:
#     counts   [2, 0, 1]        elements per list
#     flags    [1, 0, 1]        whether an element isn't NULL
#     sums     [0, 1, 1, 2]     elements that aren't NULL before each position of the flat values
#     ends     [2, 2, 3]        the end of each list in the flat values
#     offsets  [0, 1, 1, 2]     the same among elements that aren't NULL
#     compact  [[a], [], [b]]   in which the lists that are NULL become NULL again
def join_lists(lists: pa.Array, separators: pa.Array) -> pa.Array:
    """The texts of each list joined into one; NULL elements are left out."""
    lengths = pc.coalesce(pc.list_value_length(lists), _ZERO)
    flat = lists.flatten()
    present = flat.is_valid()
    if flat.null_count:
        counts = numbers(lengths, np.int32)
        flags = numbers(pc.cast(present, pa.int8()), np.int8)
        sums = np.concatenate([[0], np.cumsum(flags)])
        ends = np.cumsum(counts)
        offsets = np.concatenate([[0], sums[ends]]).astype(np.int32)
        flat = flat.drop_null()
        valid = lists.is_valid()
        compact = pa.ListArray.from_arrays(_integers(offsets, pa.int32()), flat)
        lists = pc.if_else(valid, compact, pa.nulls(1, compact.type)[0])
    return pc.binary_join(lists, separators)


def _bind_join(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Converts the elements to text."""
    if arguments and arguments[0].type.kind is Kind.ARRAY:
        arguments = (convert(arguments[0], array(VARCHAR)), *arguments[1:])
    return signature(array(VARCHAR), VARCHAR, VARCHAR, result=VARCHAR, optional=1)(
        name, arguments, position
    )


def _bind_row(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """ROW(a, b): its fields are called f1, f2, …, as in PostgreSQL."""
    if not arguments:
        raise ProgrammingError("ROW expects at least 1 argument, not 0", position=position)
    return tuple(arguments), unnamed_row(*(item.type for item in arguments))


def _compile_row(call: Call) -> Kernel:
    fields = list(to_arrow(call.type))
    return over_arrays(lambda *columns: pa.StructArray.from_arrays(columns, fields=fields))


def _bind_field(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """row.name: field names match regardless of case."""
    check_count(name, arguments, 2, position)
    operand, field = arguments
    if not isinstance(field, Literal) or not isinstance(field.value, str):
        raise ProgrammingError("the name of a field must be a text literal", position=position)
    if operand.type.kind is not Kind.ROW:
        raise ProgrammingError(
            f'cannot take field "{field.value}" of {operand.type}', position=position
        )
    for field_name, field_type in operand.type.fields:
        if field_name.lower() == field.value.lower():
            return (
                operand,
                Literal(value=field_name, type=VARCHAR, position=field.position),
            ), field_type
    names = [field_name for field_name, _ in operand.type.fields]
    raise ProgrammingError(
        f'field "{field.value}" not found in {operand.type}',
        hint=suggest(field.value, names, f"its fields are {', '.join(names)}"),
        position=field.position or position,
    )


def _compile_field(call: Call) -> Kernel:
    names = [name for name, _ in call.arguments[0].type.fields]
    field = call.arguments[1]
    assert isinstance(field, Literal)
    index = names.index(field.value)
    return lambda value, name: pc.struct_field(value, [index])


FUNCTIONS = (
    Function(
        "array", "x ANY, …", "ARRAY of the common type", _bind_array, _compile_array, family="array"
    ),
    Function(
        "subscript",
        "x ARRAY or MAP, index BIGINT or key",
        "the element's type",
        _bind_subscript,
        _compile_subscript,
        family="array",
    ),
    Function(
        "row",
        "x ANY, …",
        "ROW of fields f1, f2, …",
        _bind_row,
        _compile_row,
        sql_names=("ROW",),
        family="array",
    ),
    Function(
        "field",
        "x ROW, name VARCHAR",
        "the field's type",
        _bind_field,
        _compile_field,
        sql_names=("STRUCT_EXTRACT",),
        family="array",
    ),
    named(
        "cardinality",
        "x ARRAY",
        "INTEGER",
        signature(ARRAY, result=INTEGER),
        kernel=_cardinality,
        sql_names=("LIST_LENGTH",),
        family="array",
    ),
    named(
        "array_length",
        "x ARRAY [, dimension BIGINT]",
        "INTEGER",
        signature(ARRAY, BIGINT, result=INTEGER, optional=1),
        kernel=_length_of_dimension,
        family="array",
    ),
    named(
        "array_to_string",
        "x ARRAY, separator VARCHAR [, null_text VARCHAR]",
        "VARCHAR",
        _bind_join,
        kernel=_join,
        sql_names=("LIST_TO_STRING",),
        can_fail=always_may_fail,
        family="array",
    ),
)
