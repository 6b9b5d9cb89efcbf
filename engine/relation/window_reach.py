"""How far around a row OVER looks for the row's value, where rows come in order of event time."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.base.frozen import frozen


@frozen
class Reach:
    """What the value of a call depends on beside the row itself: rows that are up to `span` of
    event time before it (−1: none), `rows` rows or `groups` groups of peers; rows up to `lead` of
    event time behind it; or (`is_running`) all before it."""

    span: int = -1
    rows: int = 0
    groups: int = 0
    lead: int = 0
    is_running: bool = False

    @property
    def is_bounded_in_time(self) -> bool:
        """Whether what is kept for it is forgotten as time goes on."""
        return not (self.is_running or self.rows or self.groups)


def furthest(reaches: Sequence[Reach]) -> Reach:
    """As far as the furthest of several."""
    return Reach(
        max(item.span for item in reaches),
        max(item.rows for item in reaches),
        max(item.groups for item in reaches),
        max(item.lead for item in reaches),
        any(item.is_running for item in reaches),
    )
