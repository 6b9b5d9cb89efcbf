"""A group-by of rows whose keys are dense integers, in numpy.

Each group has a slot in an array, so nothing is hashed. The group-by needs a third of the time of
Acero, and a tenth of its fixed cost.

Keys are dense if their range is small, or if they come in few runs, such as the bounds of windows
when rows are in order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Numbers, from_numbers, indexes, numbers
from runnel.expressions.aggregates.states import Column, GroupByRequest, contiguous
from runnel.processors.grouping.numpy_groups import aggregated, is_simple

LEAST_ROWS = 128
"""Minimum number of rows for which this group-by is used."""
MOST_ROWS = 1 << 18
"""Maximum number of rows for which this group-by is used.

numpy holds the interpreter lock while it aggregates. For more rows Acero is better, as it uses
several cores.
"""

FEW_CODES = 1 << 15
"""Up to this number of slots, there may be four slots per row; above it, one slot per row.

Many unused slots would displace the used ones from the processor's caches.
"""

ROWS_PER_RUN = 64
"""Minimum average length of the runs by which keys of a large range are grouped."""

_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(slots=True)
class _KeyCodes:
    """The slots of one key.

    codes: the slot of each row.
    count: the number of slots.
    low: the key of slot 0; slot i has the key `low` + i.
    distinct: the key of each slot, instead of `low`; None if the keys are consecutive.
    """

    codes: Indexes
    count: int
    low: int = 0
    distinct: Numbers | None = None

    def keys(self, positions: Indexes, kind: pa.DataType) -> pa.Array:
        values = positions + self.low if self.distinct is None else self.distinct[positions]
        return from_numbers(values.astype(_WIDTHS[kind.bit_width], copy=False), kind)


# Example of `group_dense`: three rows with the keys [3, 5, 3] and [0, 1, 1].
#
#   first key   low = 3, count = 3, codes = [0, 2, 0]
#   second key  low = 0, count = 2, codes = [0, 1, 1]
#   codes       [0, 2, 0] * 2 + [0, 1, 1] = [0, 5, 1]: the slot of each row among 3 * 2
#   counts      [1, 1, 0, 0, 0, 1]: the number of rows per slot; taken = [0, 1, 5]: the used slots
#   keys        taken divided by 2: [0, 0, 2] + 3 = [3, 3, 5], remainders [0, 1, 1]
def group_dense(
    keys: Sequence[Column], requests: Sequence[GroupByRequest], num_rows: int
) -> tuple[list[pa.Array], list[pa.Array]] | None:
    """Return the keys of the groups, ascending, and for each request its value per group.

    None if the keys aren't dense integers, or a request isn't supported.
    """
    if not LEAST_ROWS <= num_rows <= MOST_ROWS or not all(_is_integer(key) for key in keys):
        return None
    if not all(is_simple(request) for request in requests):
        return None
    placed = _placed(keys, max(num_rows, min(4 * num_rows, FEW_CODES)))
    if placed is None:
        return None
    codes, count = placed[0].codes, placed[0].count
    for item in placed[1:]:
        codes = codes * item.count + item.codes if item.count > 1 else codes
        count *= item.count
    counts = np.bincount(codes, minlength=count)
    taken = np.flatnonzero(counts)
    columns = {
        id(request.column): contiguous(request.column)
        for request in requests
        if request.column is not None
    }
    results = []
    for request in requests:
        if request.column is None:
            results.append(
                from_numbers(counts if len(taken) == count else counts[taken], pa.int64())
            )
            continue
        found = aggregated(
            GroupByRequest(columns[id(request.column)], request.function), codes, count
        )
        results.append(found if len(taken) == count else found.take(indexes(taken)))
    return _keys_of(taken, placed, keys), results


def _is_integer(key: Column) -> bool:
    kind = key.type
    is_number = (
        pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    )
    return bool(is_number and not key.null_count)


def _placed(keys: Sequence[Column], most: int) -> list[_KeyCodes] | None:
    """Return the slots of each key; None if their product exceeds `most`."""
    bounds = [_bounds(key) for key in keys]
    # This check comes first, since it is cheap and mostly detects that there are too many slots.
    if prod(high - low + 1 for low, high in bounds if high - low < most) > most:
        return None
    found = []
    for key, (low, high) in zip(keys, bounds, strict=True):
        array = contiguous(key)
        positions = _key_codes(numbers(array, _WIDTHS[array.type.bit_width]), low, high, most)
        if positions is None:
            return None
        most //= positions.count
        found.append(positions)
    return found


def _bounds(key: Column) -> tuple[int, int]:
    """Return the least and the greatest value."""
    chunks = key.chunks if isinstance(key, pa.ChunkedArray) else [key]
    values = [numbers(chunk, _WIDTHS[chunk.type.bit_width]) for chunk in chunks if len(chunk)]
    return min(int(chunk.min()) for chunk in values), max(int(chunk.max()) for chunk in values)


# Example of `_key_codes` with a large range: the values [10, 10, 90, 90, 10].
#
#   changes   [2, 4]: where a run begins, except the first one; starts = [0, 2, 4]
#   distinct  [10, 90]: the keys; runs = [0, 1, 0]: the slot of each run
#   codes     [0, 0, 1, 1, 0]: the slot of each row
def _key_codes(values: Numbers, low: int, high: int, most: int) -> _KeyCodes | None:
    if high - low < most:
        codes = values.astype(np.int64, copy=False)
        return _KeyCodes(codes - low if low else codes, high - low + 1, low)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    if len(changes) * ROWS_PER_RUN > len(values):
        return None
    starts = np.concatenate(([0], changes))
    distinct, runs = np.unique(values[starts], return_inverse=True)
    if len(distinct) > most:
        return None
    return _KeyCodes(
        np.repeat(runs, np.diff(starts, append=len(values))), len(distinct), 0, distinct
    )


def _keys_of(taken: Indexes, placed: Sequence[_KeyCodes], keys: Sequence[Column]) -> list[pa.Array]:
    """Return the key columns of the groups in the slots `taken`."""
    found = []
    for item, key in zip(reversed(placed), reversed(keys), strict=True):
        taken, own = (taken, taken) if len(placed) == 1 else np.divmod(taken, item.count)
        found.append(item.keys(own, key.type))
    return found[::-1]
