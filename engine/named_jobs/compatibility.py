"""What becomes of the state in a snapshot when a query that may be another one starts from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from runnel.errors import ErrorCode, OperationalError
from runnel.frozen import frozen


class Fate(Enum):
    """KEPT: the vertex goes on with its state. EMPTY: it is new. DROPPED: the query has no such vertex. REFUSED: it has one,
    which is for something else."""

    KEPT = "kept"
    EMPTY = "starts empty"
    DROPPED = "dropped"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


@frozen
class VertexFate:
    """What becomes of the state of one vertex; `before` and `after` are its meanings, where they are known."""

    vertex: str
    fate: Fate
    before: str | None = None
    after: str | None = None

    def __str__(self) -> str:
        if self.fate is Fate.REFUSED:
            return f"{self.vertex}: refused, as it was {self.before or 'unknown'}, and is {self.after or 'unknown'}"
        return f"{self.vertex}: {self.fate}"


def fates(with_state: Collection[str], before: Mapping[str, str], after: Mapping[str, str]) -> list[VertexFate]:
    """For each vertex that has state, and each that is new. `before` and `after` are the meanings of the plan that took the
    snapshot and of that which is to go on."""
    found = []
    for vertex in sorted(with_state):
        old, new = before.get(vertex), after.get(vertex)
        fate = Fate.DROPPED if new is None else Fate.KEPT if old == new else Fate.REFUSED
        found.append(VertexFate(vertex, fate, old, new))
    added = sorted(set(after) - set(before) - set(with_state))
    return found + [VertexFate(vertex, Fate.EMPTY, None, after[vertex]) for vertex in added]


def check_fates(name: str, found: list[VertexFate], *, may_drop: bool) -> list[str]:
    """The vertices whose state is dropped; OperationalError where state is refused, or may not be dropped."""
    refused = [item for item in found if item.fate is Fate.REFUSED]
    dropped = [item.vertex for item in found if item.fate is Fate.DROPPED]
    if not refused and (may_drop or not dropped):
        return dropped
    reasons = [str(item) for item in refused] + [
        f"{vertex}: its query has no such vertex" for vertex in dropped if not may_drop
    ]
    hint = "was a view, a mapping or an index that it uses changed? Change it back, or DROP JOB and create it anew"
    if may_drop:
        hint = "EXPLAIN ALTER JOB tells what a query keeps; or DROP JOB and create it anew, which begins without state"
    raise OperationalError(
        f'job "{name}" can\'t go on from its snapshot: its plan is another one',
        code=ErrorCode.GENERIC,
        detail="; ".join(reasons),
        hint=hint,
    )
