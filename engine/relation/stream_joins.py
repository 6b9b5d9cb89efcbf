"""Joins of streams: the time bounds of a join condition, and how long buffered rows wait.

All times are in units of event time (see `runnel.relation.streams`). A pair of rows matches a
`JoinTimeBounds` if `low <= right time - left time <= high`. From this and the bounds of the columns
follows the watermark of the other side after which a row can't find a match (`BufferedSide`).
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Column, Expression
from runnel.relation.streams import TimeBound


@frozen
class JoinTimeBounds:
    """The time bounds of a join: low ≤ value of `right` − value of `left` ≤ high for each pair.

    left: the index of a column of the left side.
    right: the index of a column of the right side, numbered from 0.
    low: the lower limit in units of event time; None: no limit.
    high: the upper limit in units of event time; None: no limit.
    """

    left: int
    right: int
    low: int | None
    high: int | None


@frozen(kw_only=True)
class BufferedSide:
    """How long the rows of one side wait for rows of the other side.

    A row waits until the watermark of the *other* side exceeds one of the row's expiry times.

    watermark: the number of that watermark; None: the row waits indefinitely.
    expiry: pairs of a column index and an offset; the sum of the column's event time and the offset
        is an expiry time of the row.
    bounds: the bounds of the side's own columns, as pairs of a column index and a bound. Waiting
        rows hold back the watermarks that the join emits for them.
    """

    watermark: int | None = None
    expiry: tuple[tuple[int, int], ...] = ()
    bounds: tuple[tuple[int, TimeBound], ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the side's own watermarks."""
        return tuple(sorted({bound.watermark for _, bound in self.bounds}))


@frozen(kw_only=True)
class IntervalShape:
    """How an interval join searches and waits.

    time_bounds: the time bounds by which matches are searched; None: the condition has none.
    condition: the same time bounds as an expression over the columns of both sides, for times that
        are too large for the search; None without `time_bounds`.
    left: how long left rows wait.
    right: how long right rows wait.
    emits_late: for each side, whether its late rows are emitted too, on the outputs from 1 on.
    tie: the number of a watermark of the right side, and the number of a watermark of the left
        side: the join emits the lesser of the two as the left one. None: no such pair.
    """

    time_bounds: JoinTimeBounds | None
    condition: Expression | None
    left: BufferedSide
    right: BufferedSide
    emits_late: tuple[bool, bool] = (False, False)
    tie: tuple[int, int] | None = None


@frozen(kw_only=True)
class WindowJoinShape:
    """A join by right column = left column + a constant, where both columns are bounded.

    The rows of a value are complete when both watermarks have passed it.

    time_bounds: the two columns; `low` and `high` are equal.
    bounds: for each side, pairs of a column index and its bound, for all bounded columns.
    """

    time_bounds: JoinTimeBounds
    bounds: tuple[tuple[tuple[int, TimeBound], ...], tuple[tuple[int, TimeBound], ...]]


@frozen(kw_only=True)
class AsOfShape:
    """How an as-of join chooses the right row and waits.

    outer, strict, forward: as in `streams.AsOfJoin`.
    version: the bound of the right time; None: the right side ends and is read first.
    due: the bound of the left time, below which versions are removed and left rows are late; None:
        versions are never removed and left rows are never late.
    bounds: pairs of a column index and its bound, for all bounded columns of the left side.
    emits_late: as in IntervalShape.
    """

    outer: bool
    strict: bool
    forward: bool
    version: TimeBound | None = None
    due: TimeBound | None = None
    bounds: tuple[tuple[int, TimeBound], ...] = ()
    emits_late: tuple[bool, bool] = (False, False)


def partition_columns(
    left_keys: Sequence[Expression], right_keys: Sequence[Expression]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the columns of each side by whose hash rows can be partitioned among processors.

    These are the keys that are plain columns on both sides.
    """
    pairs = [
        (first.index, second.index)
        for first, second in zip(left_keys, right_keys, strict=True)
        if isinstance(first, Column) and isinstance(second, Column)
    ]
    return tuple(first for first, _ in pairs), tuple(second for _, second in pairs)
