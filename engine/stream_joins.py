"""Joins of streams: what a condition says of the times of both sides, and what follows for the rows that wait.

All in units of event time (see `runnel.streams`). A pair of rows is within `TimeLink` where the right time less the left one is
not below `low` and not above `high`. From that and the bounds of the columns comes when a row can't be matched any
more: at a watermark of the other side (`WaitingSide`).
"""

from __future__ import annotations

from runnel.expressions.nodes import Expression
from runnel.frozen import frozen
from runnel.streams import TimeBound


@frozen
class TimeLink:
    """Of each pair, low ≤ right column `right` − left column `left` ≤ high; None: no limit. The columns are each side's own."""

    left: int
    right: int
    low: int | None
    high: int | None


@frozen(kw_only=True)
class WaitingSide:
    """How long rows of one side wait for the other's.

    A row waits until the watermark `watermark` of the *other* side exceeds one of the row's `expiry`: a column's event time
    plus an offset each (`watermark` None: it waits for ever). `bounds` are the bounds of the side's own columns: what is
    promised of them further on is held back by rows that wait.
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
    """`link` is what rows are searched by; `condition` (over the columns of both sides) says exactly what `link` says, for
    times too large to search by; None where there is no link."""

    link: TimeLink | None
    condition: Expression | None
    left: WaitingSide
    right: WaitingSide
