"""JSON records as Python values, and columns of them as Arrow arrays: the way for what Arrow's own
reader can't do.

Numbers are kept as their own text, so that a VARCHAR column shows 1.50 as it was written and a
DECIMAL loses no digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from runnel.connectors.files.conversion import converter
from runnel.errors import DataError
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import BOOLEAN, INTEGER, VARCHAR, Kind, SqlType, to_arrow


class NumberText(str):
    """The text of a JSON number."""

    __slots__ = ()


def parse_records(data: bytes, *, keep_texts: bool = True) -> list[Any]:
    """The records of a chunk, one to a line; ValueError where the text isn't JSON. With
    `keep_texts` numbers are `NumberText`, which takes four times as long."""
    joined = b",".join([line for line in data.split(b"\n") if line.strip()])
    decoder = _TEXT_DECODER if keep_texts else _PLAIN_DECODER
    return list(decoder.decode("[" + joined.decode() + "]"))


_PLAIN_DECODER = json.JSONDecoder()
_TEXT_DECODER = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=NumberText
)


def array_of_values(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    """Values as `parse_records` gives them as an array of a type; an Arrow exception or a DataError
    where one doesn't fit."""
    if sql_type.kind is Kind.ROW:
        return _rows(values, sql_type)
    if sql_type.kind is Kind.ARRAY:
        return _arrays(values, sql_type)
    if sql_type.kind is Kind.MAP:
        return _maps(values, sql_type)
    if sql_type.kind is Kind.JSON:
        return _texts([None if value is None else json_text(value) for value in values])
    texts = _texts([plain_text(value) for value in values])
    convert = converter(VARCHAR, sql_type)
    return texts if convert is None else convert(texts)


def plain_text(value: Any) -> str | None:
    """A value as VARCHAR: text and numbers are themselves, anything else is JSON."""
    if value is None:
        return None
    return str(value) if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """A value as JSON text, with numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(
                f"{json.dumps(key, ensure_ascii=False)}:{json_text(item)}"
                for key, item in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _texts(texts: Sequence[str | None]) -> pa.Array:
    try:
        return array_of(texts, VARCHAR)
    except UnicodeEncodeError as error:
        # JSON can write half of a surrogate pair, UTF-8 can't.
        raise DataError("the text has half of a surrogate pair") from error


def _rows(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    _check_class(values, dict, sql_type)
    children = [
        array_of_values([None if value is None else value.get(name) for value in values], item)
        for name, item in sql_type.fields
    ]
    return pa.StructArray.from_arrays(
        children, fields=list(to_arrow(sql_type)), mask=_nulls(values)
    )


def _arrays(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    _check_class(values, list, sql_type)
    assert sql_type.element is not None
    items = array_of_values(
        list(chain.from_iterable(value or () for value in values)), sql_type.element
    )
    return pa.ListArray.from_arrays(
        _offsets(values), items, type=to_arrow(sql_type), mask=_nulls(values)
    )


def _maps(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    _check_class(values, dict, sql_type)
    assert sql_type.key is not None and sql_type.element is not None
    keys = array_of_values(list(chain.from_iterable(value or () for value in values)), sql_type.key)
    items = array_of_values(
        [item for value in values if value for item in value.values()], sql_type.element
    )
    return pa.MapArray.from_arrays(
        _offsets(values), keys, items, type=to_arrow(sql_type), mask=_nulls(values)
    )


def _check_class(values: Iterable[Any], expected: type, sql_type: SqlType) -> None:
    for value in values:
        if value is not None and not isinstance(value, expected):
            raise DataError(f"{json_text(value)} is not a {sql_type}")


def _nulls(values: Sequence[Any]) -> pa.Array:
    return array_of([value is None for value in values], BOOLEAN)


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    return array_of(offsets, INTEGER)
