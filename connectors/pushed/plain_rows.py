"""Rows that a program writes a few at a time, kept as tuples until a reader takes them.

A program that writes a row at a time would create an Arrow batch for each, which takes fifty times
as long as the check that the values fit. So rows of few values are only checked when they are
written, and a reader converts all rows that have come since its last look, and only the columns
that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns
from runnel.expressions.kernels.buffers import pack
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType

MOST_PACKED = 256
"""The largest number of values that are packed one by one."""

FEW_ROWS = 64
"""The largest number of rows of a write that are kept as tuples. Arrow converts more at once."""

Check = tuple[type, Callable[[Any], bool] | None]
"""The class of a column's values, and a test that those that fit pass; None: all fit."""


def _is_naive(value: datetime) -> bool:
    return value.tzinfo is None


_CHECKS: dict[Kind, Check] = {
    kind: (int, range(-(1 << (width - 1)), 1 << (width - 1)).__contains__)
    for kind, width in INTEGER_WIDTHS.items()
} | {
    Kind.BOOLEAN: (bool, None),
    Kind.DOUBLE: (float, None),
    # Other text may have lone surrogates, which aren't UTF-8.
    Kind.VARCHAR: (str, str.isascii),
    Kind.DATE: (date, None),
    Kind.TIMESTAMP: (datetime, _is_naive),
}


@frozen
class RowForm:
    """The classes and ranges of values with which a row of a stream is stored as a tuple.

    names: the names of the columns.
    types: their types.
    checks: a check for each column.
    """

    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    checks: tuple[Check, ...]

    @staticmethod
    def of(columns: Sequence[TableColumn]) -> RowForm | None:
        """The form of the rows of these columns; None if a column has a type whose values are
        converted when they are written."""
        checks = [_CHECKS.get(column.type.kind) for column in columns]
        if None in checks:
            return None
        return RowForm(
            tuple(column.name for column in columns),
            tuple(column.type for column in columns),
            tuple(check for check in checks if check is not None),
        )

    def few(self, data: Any) -> PlainRows | None:
        """The written data, if it is a list of few rows that fit without a conversion; None: it has
        to be converted, which may raise an error."""
        if type(data) is dict:
            data = (data,)
        elif type(data) is not list and type(data) is not tuple:
            return None
        if not 0 < len(data) <= FEW_ROWS:
            return None
        rows = []
        are_dicts = type(data[0]) is dict
        for item in data:
            row = self._fitting(item) if (type(item) is dict) is are_dicts else None
            if row is None:
                return None
            rows.append(row)
        return PlainRows(self, rows)

    def _fitting(self, item: Any) -> tuple[Any, ...] | None:
        if type(item) is dict:
            row = tuple(map(item.get, self.names))
            if not item.keys() <= set(self.names):
                return None
        elif type(item) is tuple or type(item) is list:
            row = tuple(item)
        else:
            return None
        if len(row) != len(self.checks):
            return None
        for value, (cls, test) in zip(row, self.checks, strict=True):
            if value is not None and (
                type(value) is not cls or (test is not None and not test(value))
            ):
                return None
        return row

    def batch(self, rows: Sequence[tuple[Any, ...]], columns: Sequence[int]) -> pa.RecordBatch:
        """The values of some columns of rows of this form."""
        if not columns:
            return empty_columns(len(rows))
        # The values were checked when they were written. Arrow converts many of them faster.
        make = pack if len(rows) <= MOST_PACKED else array_of
        arrays = [make([row[i] for row in rows], self.types[i]) for i in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[self.names[i] for i in columns])


class PlainRows:
    """Some rows of a stream as tuples.

    form: the form of the rows.
    rows: the rows. They are not changed after they are shared by readers.
    """

    __slots__ = ("form", "rows")

    def __init__(self, form: RowForm, rows: list[tuple[Any, ...]]) -> None:
        self.form = form
        self.rows = rows

    @property
    def num_rows(self) -> int:
        return len(self.rows)
