"""Finding out the columns of JSON records: column by column, by the classes of the values that
occur.

Scalars of several kinds in one column make it VARCHAR, with each value's own text; nested and not
nested make it JSON. Text stays text unless all of it are ISO dates or times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import isinf
from typing import Any

from runnel.connectors.files.format import FileColumn
from runnel.connectors.files.inference import type_of_text
from runnel.connectors.files.input import split_lines
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    JSON,
    MAX_PRECISION,
    NULL,
    VARCHAR,
    SqlType,
    array,
    decimal,
    row,
)

MOST_FIELDS = 1_000
"""An object with more different fields is a dictionary rather than a row, and becomes JSON."""


def columns_of_records(records: Sequence[dict[str, Any]]) -> list[FileColumn]:
    """The columns of the records, in the order in which they are met; NULL is the type of one
    without any value."""
    names = dict.fromkeys(chain.from_iterable(records))
    return [FileColumn(name, _type_of([record.get(name) for record in records])) for name in names]


def _type_of(values: Sequence[Any]) -> SqlType:
    classes = set(map(type, values)) - {type(None)}
    if not classes:
        return NULL
    if classes == {dict}:
        return _row_of([value for value in values if value is not None])
    if classes == {list}:
        return array(_type_of(list(chain.from_iterable(value or () for value in values))))
    if classes & {dict, list}:
        return JSON
    if classes == {bool}:
        return BOOLEAN
    if classes == {int}:
        return _integer_of([value for value in values if value is not None])
    if classes <= {int, float}:
        # A number too large for a DOUBLE stays text, as in CSV.
        return (
            VARCHAR
            if any(map(isinf, (value for value in values if type(value) is float)))
            else DOUBLE
        )
    if classes == {str}:
        return _text_of([value for value in values if value is not None])
    return VARCHAR


def _row_of(values: Sequence[dict[str, Any]]) -> SqlType:
    names = dict.fromkeys(chain.from_iterable(values))
    if not names or len(names) > MOST_FIELDS:
        return JSON
    return row(*((name, _type_of([value.get(name) for value in values])) for name in names))


def _integer_of(values: Sequence[int]) -> SqlType:
    least, largest = min(values), max(values)
    if least >= -(2**63) and largest < 2**63:
        return BIGINT
    return decimal(MAX_PRECISION, 0) if max(-least, largest) < 10**MAX_PRECISION else DOUBLE


def _text_of(values: Sequence[str]) -> SqlType:
    if not values[0][:1].isdigit():
        return VARCHAR
    joined = "\n".join(values)
    if joined.count("\n") != len(values) - 1 or not joined.isascii():
        return VARCHAR
    found = type_of_text(split_lines(joined.encode() + b"\n"))
    return found if found.is_temporal else VARCHAR
