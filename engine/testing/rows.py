"""Comparing rows as SQL does: NULL equals NULL, NaN equals NaN, −0 equals 0, and doubles agree to a
relative tolerance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
_MISSING = object()


def rows_of(data: Any) -> list[Row]:
    """The rows of a table, of batches, or of an iterable of tuples (or a mixture of both), as
    tuples."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        columns = [column.to_pylist() for column in data.columns]
        return list(zip(*columns, strict=True)) if columns else [()] * data.num_rows
    rows: list[Row] = []
    for item in data:
        if isinstance(item, pa.Table | pa.RecordBatch):
            rows.extend(rows_of(item))
        else:
            rows.append(tuple(item))
    return rows


def assert_rows(
    actual: Any, expected: Any, *, ordered: bool = True, tolerance: float = 1e-9
) -> None:
    """Fails with the first difference if the rows differ.

    Both sides may be a table, batches, or an iterable of tuples. With `ordered=False` they are
    compared as multisets. Floats are equal if they differ by at most `tolerance` relative to the
    larger one; all other values must be equal.
    """
    got, expected_rows = rows_of(actual), rows_of(expected)
    if _written(got, ordered) == _written(expected_rows, ordered):
        return  # the usual case, and much faster than sorting and comparing each value
    if not ordered:
        got, expected_rows = sorted(got, key=_sort_key), sorted(expected_rows, key=_sort_key)
    for number, (left, right) in enumerate(zip_longest(got, expected_rows, fillvalue=_MISSING)):
        if left is _MISSING or right is _MISSING:
            what = "missing" if left is _MISSING else "unexpected"
            row = right if left is _MISSING else left
            raise AssertionError(
                f"{len(got)} rows instead of {len(expected_rows)}; row {number} is {what}: {row!r}"
            )
        if not same_value(left, right, tolerance):
            raise AssertionError(f"row {number} is {left!r}, expected {right!r}")


def _written(rows: list[Row], ordered: bool) -> Any:
    return list(map(repr, rows)) if ordered else Counter(map(repr, rows))


def same_value(left: Any, right: Any, tolerance: float) -> bool:
    """Whether two values, also nested ones, are equal for `assert_rows`."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=tolerance)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same_value(left[k], right[k], tolerance) for k in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(
            same_value(a, b, tolerance) for a, b in zip(left, right, strict=True)
        )
    return type(left) is type(right) and bool(left == right)


def _sort_key(row: Row) -> tuple[Any, ...]:
    """Floats last: a row whose floats differ only by rounding then changes its position only among
    rows that are equal otherwise."""
    exact = [(_rank(value), value) for value in row if not isinstance(value, float)]
    floats = [
        (_rank(value), 0.0 if math.isnan(value) else value)
        for value in row
        if isinstance(value, float)
    ]
    return (*exact, *floats)


def _rank(value: Any) -> Any:
    if value is None:
        return (0, "")
    if isinstance(value, float):
        return (2, "") if math.isnan(value) else (1, "")
    if isinstance(value, Sequence | dict) and not isinstance(value, str | bytes):
        return (1, repr(value))
    return (1, type(value).__name__)
