"""Joins of streams: what a condition says of the times of both sides, and what follows for the rows
that wait.

All times are in units of event time (see `runnel.relation.streams`). A pair of rows matches a
`TimeLink` if `low <= right time - left time <= high`. This and the bounds of the columns determine
the watermark of the other side after which a row can't find a match (`WaitingSide`).
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Column, Expression
from runnel.relation.streams import TimeBound


@frozen
class TimeLink:
    """Of each pair, low ≤ right column `right` − left column `left` ≤ high; None: no limit. The
    columns are each side's own."""

    left: int
    right: int
    low: int | None
    high: int | None


@frozen(kw_only=True)
class WaitingSide:
    """How long rows of one side wait for the other's.

    A row waits until the watermark `watermark` of the *other* side exceeds one of the row's
    `expiry`: a column's event time plus an offset each (`watermark` None: it waits for ever).
    `bounds` are the bounds of the side's own columns: what is promised of them further on is held
    back by rows that wait.
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
    """`link` is what rows are searched by; `condition` (over the columns of both sides) says
    exactly what `link` says, for times too large to search by; None where there is no link."""

    link: TimeLink | None
    condition: Expression | None
    left: WaitingSide
    right: WaitingSide
    told: tuple[bool, bool] = (False, False)
    """Of which sides late rows go on as well, by the operator's outputs from 1 on."""
    tie: tuple[int, int] | None = None
    """The number of a watermark of the right side that is promised as one of the left side, whose
    number follows: the lesser of the two."""


@frozen(kw_only=True)
class TimedShape:
    """A join whose condition has right column = left column + a constant, both bounded (`link`,
    with equal low and high): the rows of a value are complete when both watermarks have passed it.
    `bounds` are those of all columns of each side."""

    link: TimeLink
    bounds: tuple[tuple[tuple[int, TimeBound], ...], tuple[tuple[int, TimeBound], ...]]


@frozen(kw_only=True)
class AsOfShape:
    """How an as-of join picks and waits; `strict`, `forward` and `outer` as in `streams.AsOfJoin`.
    `version` is the bound of the right time (None: the right side ends, and is read first), `due`
    that of the left time, behind which versions are forgotten and left rows too late (None: neither
    is ever so), `bounds` are those of all left columns."""

    outer: bool
    strict: bool
    forward: bool
    version: TimeBound | None = None
    due: TimeBound | None = None
    bounds: tuple[tuple[int, TimeBound], ...] = ()
    told: tuple[bool, bool] = (False, False)
    """As with IntervalShape."""


def divided_by(
    left_keys: Sequence[Expression], right_keys: Sequence[Expression]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The columns of each side by whose hash rows may be divided among processors: keys that are
    columns of both sides."""
    pairs = [
        (first.index, second.index)
        for first, second in zip(left_keys, right_keys, strict=True)
        if isinstance(first, Column) and isinstance(second, Column)
    ]
    return tuple(first for first, _ in pairs), tuple(second for _, second in pairs)
