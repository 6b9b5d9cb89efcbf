"""Encodes several sort keys as one integer per row.

Each key column is encoded as numbers from 0 in its order, NULLs included; the numbers of a row are
the digits of one integer. Rows are equal if their integers are, and numpy sorts the integers about
twenty times as fast as Arrow sorts rows by several columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, Numbers, flags, numbers, validity
from runnel.expressions.kernels.sorting import Direction, sortable, sorted_rows
from runnel.processors.grouping.row_identity import factorise, is_plain

SAMPLE_ROWS = 8192
_ROOM = 1 << 62
_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class Digits(NamedTuple):
    """A number for each row.

    values: the numbers, from 0 to span − 1.
    span: a bound, at least 1.
    """

    values: Indexes
    span: int


def digits_of(column: pa.Array, direction: Direction | None) -> Digits:
    """Encode a column: equal values have equal numbers, and numbers are ordered by `direction`
    (None: in any order)."""
    values, span = _plain_digits(column, direction is not None)
    descending, nulls_first = direction or (False, True)
    if descending:
        values = span - 1 - values
    valid = validity(column)
    if valid is None:
        return Digits(values, span)
    if nulls_first:
        return Digits(np.where(valid, values + 1, 0), span + 1)
    return Digits(np.where(valid, values, span), span + 1)


def joined(columns: Sequence[Digits], rows: int) -> Digits:
    """Combine columns into one; the first column is the most significant."""
    total = Digits(np.zeros(rows, np.int64), 1)
    for column in columns:
        fits = total.span * column.span < _ROOM
        left, right = (total, column) if fits else (_dense(total.values), _dense(column.values))
        total = Digits(left.values * right.span + right.values, left.span * right.span)
    return total


def order_of(digits: Digits) -> Indexes:
    """The indexes of the rows in order; a stable sort."""
    bits = max(len(digits.values) - 1, 1).bit_length()
    # Sorting integers that contain the row's index is several times as fast as a stable argsort.
    # Values 7 5 7 with 2 bits for the index: 28 21 30, sorted 21 28 30; the low bits 1 0 2 are the
    # order.
    values, span = digits if digits.span << bits < _ROOM else _dense(digits.values)
    assert span << bits < _ROOM
    packed = np.sort(values << bits | np.arange(len(values)))
    order: Indexes = packed & ((1 << bits) - 1)
    return order


def _plain_digits(column: pa.Array, is_ordered: bool) -> Digits:
    """Like `digits_of`, but ascending; the number of a NULL is arbitrary, from 0 to span − 1."""
    if not is_plain(column.type) and not is_ordered:
        codes, representatives = factorise([column])
        return Digits(codes, max(len(representatives), 1))
    if pa.types.is_boolean(column.type):
        return Digits(flags(column).astype(np.int64), 2)
    if _is_text(column.type) and not (is_ordered and _differ_mostly(column)):
        return _text_digits(column, is_ordered)
    known = sortable(column)
    if pa.types.is_signed_integer(known.type) or pa.types.is_temporal(known.type):
        return _whole_digits(known)
    return _ranks(known)


def _differ_mostly(column: pa.Array) -> bool:
    """Whether most values of a text column differ, by a sample: sorting the distinct values then
    costs as much as sorting all values."""
    sample = column.slice(len(column) // 2, SAMPLE_ROWS)
    return len(pc.unique(sample)) > len(sample) // 2


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _whole_digits(column: pa.Array) -> Digits:
    values: Numbers = numbers(column, _WIDTHS[column.type.bit_width]).astype(np.int64, copy=False)
    valid = validity(column)
    known = values if valid is None else values[valid]
    if not len(known):
        return Digits(np.zeros(len(values), np.int64), 1)
    low, high = int(known.min()), int(known.max())
    if valid is not None:
        values = np.where(valid, values, low)
    return _dense(values) if high - low >= _ROOM else Digits(values - low, high - low + 1)


def _dense(values: Indexes) -> Digits:
    """The same order with consecutive numbers: the span is the number of distinct values."""
    order = np.argsort(values)
    ordered = values[order]
    differs = np.zeros(len(values), np.int64)
    differs[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.cumsum(differs)
    return Digits(ranks, int(differs.sum()) + 1)


def _text_digits(column: pa.Array, is_ordered: bool) -> Digits:
    encoded = column.dictionary_encode()
    words = encoded.dictionary
    codes = numbers(encoded.indices, np.int32).astype(np.int64)
    valid = validity(column)
    if valid is not None:
        codes = np.where(valid, codes, 0)
    if is_ordered and len(words):
        ranks = np.empty(len(words), np.int64)
        ranks[numbers(pc.sort_indices(words), np.uint64).astype(np.int64)] = np.arange(len(words))
        codes = ranks[codes]
    return Digits(codes, max(len(words), 1))


def _ranks(column: pa.Array) -> Digits:
    """The rank of each value by Arrow's sort, for types that numpy cannot compare."""
    order = sorted_rows([column], [(False, True)])
    ordered = column.take(order)
    differs = np.zeros(len(column), np.int64)
    if len(column) > 1:
        differs[1:] = _differs(ordered)
    ranks = np.empty(len(column), np.int64)
    ranks[numbers(order, np.uint64).astype(np.int64)] = np.cumsum(differs)
    return Digits(ranks, int(differs.sum()) + 1)


def _differs(ordered: pa.Array) -> Indexes:
    """Flags values that differ from the preceding one. NULLs are adjacent; their numbers are
    arbitrary."""
    unequal = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))
    valid = validity(unequal)
    differs = flags(unequal)
    return (differs if valid is None else differs & valid).astype(np.int64)
