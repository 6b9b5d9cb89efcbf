"""Casts of ARRAY, MAP and ROW: element by element and field by field; to text as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack, pack_scalar, validity
from runnel.expressions.kernels.python_values import python_values
from runnel.sqltypes import INTEGER, VARCHAR, Kind, SqlType, to_arrow

if TYPE_CHECKING:
    from json import JSONEncoder

Conversion = Callable[[Datum, EvaluationContext], Datum]
ConversionOf = Callable[[SqlType, SqlType], Conversion]


def conversion(source: SqlType, target: SqlType, conversion_of: ConversionOf) -> Conversion:
    """The conversion of a nested type; `conversion_of` returns the conversions of its elements or
    fields.
    """
    if target.kind in (Kind.VARCHAR, Kind.JSON):
        spelled = _with_texts(source)
        if spelled != source:
            to_texts = conversion(source, spelled, conversion_of)
            to_json = conversion(spelled, target, conversion_of)
            return lambda datum, context: to_json(to_texts(datum, context), context)
        return lambda datum, context: over_first(lambda array: _to_json(array, source))(datum)
    change = _CHANGES[source.kind](source, target, conversion_of)
    return lambda datum, context: over_first(lambda array: change(array, context))(datum)


def _with_texts(sql_type: SqlType) -> SqlType:
    """The type with VARCHAR in place of intervals, for which Python's JSON writer has no form."""
    if sql_type.is_interval:
        return VARCHAR
    if not sql_type.is_nested:
        return sql_type
    return replace(
        sql_type,
        element=sql_type.element and _with_texts(sql_type.element),
        key=sql_type.key and _with_texts(sql_type.key),
        fields=tuple((name, _with_texts(item)) for name, item in sql_type.fields),
    )


def _array(source: SqlType, target: SqlType, conversion_of: ConversionOf) -> Conversion:
    assert source.element is not None and target.element is not None
    inner = conversion_of(source.element, target.element)
    return lambda array, context: list_like(array, inner(array.flatten(), context), target)


def list_like(lists: pa.Array, items: pa.Array, sql_type: SqlType) -> pa.Array:
    """Lists of type `sql_type` with the lengths of `lists`.

    items: the new items, one for each item of `lists.flatten()`.
    """
    buffers = [validity(lists), _compact_offsets(lists)]
    return pa.Array.from_buffers(to_arrow(sql_type), len(lists), buffers, children=[items])


# For a slice with the lists [1, 2], NULL and [3] whose own offsets are [4, 6, 9, 10] (the slot of
# the NULL has three items, which `flatten` leaves out):
#     counts   [2, 0, 1]
#     offsets  [0, 2, 2, 3]
def _compact_offsets(array: pa.Array) -> pa.Buffer:
    """Offsets into `array.flatten()`, which omits the items of NULL lists and the items before a
    slice.
    """
    lengths = pc.fill_null(pc.list_value_length(array), _ZERO)
    counts = numbers(lengths, np.int32)
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.py_buffer(offsets)


_ZERO = pack_scalar(0, INTEGER)


def _row(source: SqlType, target: SqlType, conversion_of: ConversionOf) -> Conversion:
    inner = [
        conversion_of(first, second)
        for (_, first), (_, second) in zip(source.fields, target.fields, strict=True)
    ]
    arrow = to_arrow(target)

    def run(array: pa.Array, context: EvaluationContext) -> pa.Array:
        children = [
            change(item, context) for change, item in zip(inner, array.flatten(), strict=True)
        ]
        return pa.Array.from_buffers(arrow, len(array), [validity(array)], children=children)

    return run


def _map(source: SqlType, target: SqlType, conversion_of: ConversionOf) -> Conversion:
    assert source.element is not None and target.element is not None
    assert source.key is not None and target.key is not None
    keys, items = (
        conversion_of(source.key, target.key),
        conversion_of(source.element, target.element),
    )

    arrow = to_arrow(target)

    def run(array: pa.Array, context: EvaluationContext) -> pa.Array:
        compact = array.take(pa.arange(0, len(array)))
        columns = [keys(compact.keys, context), items(compact.items, context)]
        entries = pa.StructArray.from_arrays(columns, fields=[arrow.key_field, arrow.item_field])
        offsets = compact.offsets.buffers()[1]
        return pa.Array.from_buffers(
            arrow, len(array), [validity(compact), offsets], children=[entries]
        )

    return run


_CHANGES = {Kind.ARRAY: _array, Kind.ROW: _row, Kind.MAP: _map}


def _to_json(array: pa.Array, source: SqlType) -> pa.Array:
    """JSON texts, row by row in Python, as no Arrow kernel writes nested values."""
    write = _plain if _is_plain(source) else _written
    return pack(
        [None if value is None else write(value) for value in python_values(array, source)], VARCHAR
    )


def _is_plain(sql_type: SqlType) -> bool:
    """Whether Python's JSON writer handles all values of the type.

    It can't write DECIMALs with all their digits, nor MAP keys that are dates, times or binaries.
    """
    if sql_type.key is not None and not (sql_type.key.kind in _NAMES and _is_plain(sql_type.key)):
        return False
    inner = [
        item
        for item in (sql_type.element, *(item for _, item in sql_type.fields))
        if item is not None
    ]
    return sql_type.kind is not Kind.DECIMAL and all(map(_is_plain, inner))


_NAMES = {
    Kind.VARCHAR,
    Kind.BOOLEAN,
    Kind.TINYINT,
    Kind.SMALLINT,
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.REAL,
    Kind.DOUBLE,
}
"""The kinds that Python's JSON writer accepts as keys."""


def _plain(value: Any) -> str:
    return _encoder().encode(value)


@cache
def _encoder() -> JSONEncoder:
    from json import JSONEncoder  # a new process without nested values does not load it

    return JSONEncoder(default=_json_scalar, ensure_ascii=False, separators=(",", ":"))


def _written(value: Any) -> str:
    """JSON of values that Python's JSON writer doesn't handle; see `_is_plain`."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_name(key)}:{_written(item)}" for key, item in value.items()) + "}"
    return _plain(value)


def _name(key: Any) -> str:
    """A key of a MAP as a JSON string; for numbers and booleans the string is their JSON form."""
    return _plain(key if isinstance(key, str) else _written(key).strip('"'))


def _json_scalar(value: Any) -> Any:
    """The JSON form of a value whose class Python's JSON writer doesn't know."""
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)
