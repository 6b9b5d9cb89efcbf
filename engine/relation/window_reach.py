"""The reach of a window call: how far the rows are that the value of a row depends on.

It applies to OVER on streams, where rows are processed in order of event time.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.base.frozen import frozen


@frozen
class Reach:
    """The rows, in addition to the row itself, that the value of a call depends on.

    span: the preceding rows within this distance in event time; −1: none.
    rows: the number of preceding rows.
    groups: the number of preceding groups of peers.
    lead: the following rows within this distance in event time.
    is_running: whether it depends on all preceding rows.
    """

    span: int = -1
    rows: int = 0
    groups: int = 0
    lead: int = 0
    is_running: bool = False

    @property
    def is_bounded_in_time(self) -> bool:
        """Whether the watermark bounds the state: rows are removed as event time advances."""
        return not (self.is_running or self.rows or self.groups)


def furthest(reaches: Sequence[Reach]) -> Reach:
    """Return the reach that covers all of several reaches."""
    return Reach(
        max(item.span for item in reaches),
        max(item.rows for item in reaches),
        max(item.groups for item in reaches),
        max(item.lead for item in reaches),
        any(item.is_running for item in reaches),
    )
