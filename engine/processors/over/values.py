"""The window functions: numberings of rows, and values of other rows of the partition or frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, from_numbers, indexes, numbers, validity
from runnel.errors import DataError, Position
from runnel.processors.over.frames import Range, Ranges
from runnel.processors.over.partitions import WindowPartitions


def row_number(rows: WindowPartitions) -> pa.Array:
    return from_numbers(np.arange(rows.rows) - rows.start + 1, pa.int64())


def rank(rows: WindowPartitions) -> pa.Array:
    return from_numbers(rows.peer_start - rows.start + 1, pa.int64())


def dense_rank(rows: WindowPartitions) -> pa.Array:
    return from_numbers(rows.group - rows.group[rows.start] + 1, pa.int64())


def percent_rank(rows: WindowPartitions) -> pa.Array:
    others = rows.end - rows.start - 1
    return from_numbers((rows.peer_start - rows.start) / np.maximum(others, 1), pa.float64())


def cume_dist(rows: WindowPartitions) -> pa.Array:
    return from_numbers((rows.peer_end - rows.start) / (rows.end - rows.start), pa.float64())


NUMBERINGS: dict[str, Callable[[WindowPartitions], pa.Array]] = {
    "row_number": row_number,
    "rank": rank,
    "dense_rank": dense_rank,
    "percent_rank": percent_rank,
    "cume_dist": cume_dist,
}


def ntile(rows: WindowPartitions, argument: pa.Array, position: Position | None) -> pa.Array:
    """NTILE: the number of buckets is the argument in the first row of the partition; larger
    buckets come first."""
    first = rows.start
    valid = validity(argument)
    buckets = numbers(argument, np.int64)
    known = np.ones(len(buckets), np.bool_) if valid is None else valid
    _check_positive(buckets[first], known[first], "NTILE", position)
    count = np.where(known, buckets, 1)[first]
    size, larger = np.divmod(rows.end - first, count)
    # 5 rows in 3 buckets: size 1, 2 larger buckets with 4 rows; offsets 0 1 2 3 4 are in buckets
    # 1 1 2 2 3.
    offset = np.arange(rows.rows) - first
    in_larger = larger * (size + 1)
    in_smaller = larger + (offset - in_larger) // np.maximum(size, 1)
    return from_numbers(
        np.where(offset < in_larger, offset // (size + 1), in_smaller) + 1,
        pa.int64(),
        _or_none(known[first]),
    )


def _or_none(valid: Mask) -> Mask | None:
    return None if valid.all() else valid


def _check_positive(arguments: Indexes, valid: Mask, name: str, position: Position | None) -> None:
    if (arguments[valid] <= 0).any():
        raise DataError(f"the argument of {name} must be greater than zero", position=position)


class Known:
    """The rows whose value is not NULL.

    rows: their indexes in window order.
    before: for each index, and for the end, the number of such rows before it.
    """

    def __init__(self, valid: Mask) -> None:
        self.rows = np.flatnonzero(valid)
        self.before = np.concatenate(([0], np.cumsum(valid)))

    def ranges(self, ranges: Ranges) -> Ranges:
        """Convert ranges of rows to ranges of indexes into `rows`."""
        return [Range(self.before[start], self.before[end]) for start, end in ranges]


def shifted(
    rows: WindowPartitions, arguments: Sequence[pa.Array], is_lead: bool, ignore_nulls: bool
) -> pa.Array:
    """LAG and LEAD of a value, with an offset (by default 1) and a default value (by default
    NULL)."""
    value = arguments[0]
    count = rows.rows
    step: Indexes = np.ones(count, np.int64)
    valid: Mask | None = None
    if len(arguments) > 1:
        step, valid = (
            np.clip(numbers(arguments[1], np.int64), -count - 1, count + 1),
            validity(arguments[1]),
        )
    step = step if is_lead else -step
    present = validity(value) if ignore_nulls else None
    if present is None:
        target = np.arange(count) + step
        inside = (target >= rows.start) & (target < rows.end)
    else:
        target, inside = _shifted_among_known(rows, Known(present), step)
    found = np.where(inside, target, 0)
    if len(arguments) > 2:
        value = pa.concat_arrays([value, arguments[2]])
        found = np.where(inside, target, count + np.arange(count))
        return value.take(indexes(found, valid))
    return value.take(indexes(found, inside if valid is None else inside & valid))


def _shifted_among_known(
    rows: WindowPartitions, known: Known, step: Indexes
) -> tuple[Indexes, Mask]:
    """The rows at `step` rows with a value from each row, and whether they are in its partition.

    A step of 0 is the row itself, also if its value is NULL.
    """
    here = np.arange(rows.rows)
    target = np.where(step > 0, known.before[here + 1] - 1 + step, known.before[here] + step)
    inside = (target >= known.before[rows.start]) & (target < known.before[rows.end])
    found = known.rows[np.where(inside, target, 0)] if len(known.rows) else here
    return np.where(step == 0, here, found), inside | (step == 0)


def nth_row(ranges: Ranges, number: Indexes, from_end: bool = False) -> tuple[Indexes, Mask]:
    """The index of the number-th row (from 0) of each frame, and whether the frame has it."""
    left = number.copy()
    row = np.zeros(len(left), np.int64)
    found = np.zeros(len(left), np.bool_)
    for start, end in reversed(ranges) if from_end else ranges:
        length = end - start
        here = ~found & (left < length)
        row = np.where(here, end - 1 - left if from_end else start + left, row)
        found |= here
        left = np.where(found, left, left - length)
    return row, found


def frame_value(
    function: str,
    arguments: Sequence[pa.Array],
    ranges: Ranges,
    ignore_nulls: bool,
    position: Position | None,
) -> pa.Array:
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE."""
    value = arguments[0]
    number = np.zeros(len(value), np.int64)
    valid: Mask | None = None
    if function == "nth_value":
        valid = validity(arguments[1])
        nth = numbers(arguments[1], np.int64)
        _check_positive(
            nth, np.ones(len(nth), np.bool_) if valid is None else valid, "NTH_VALUE", position
        )
        number = np.minimum(nth, len(value) + 1) - 1
        number = number if valid is None else np.where(valid, number, 0)
    present = validity(value) if ignore_nulls else None
    known = None if present is None else Known(present)
    row, found = nth_row(
        ranges if known is None else known.ranges(ranges), number, function == "last_value"
    )
    if known is not None and len(known.rows):
        row = known.rows[np.where(found, row, 0)]
    return value.take(indexes(np.where(found, row, 0), found if valid is None else found & valid))
