"""OVER: window functions as a relational node.

A window call computes one value for each row from the rows of its partition, in an order, within a
frame. The semantics are PostgreSQL's; NULL is the smallest value in an order unless the key says
otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Change, Expression, SortKey, mapped
from runnel.relation.nodes import Field, Relation, Single

if TYPE_CHECKING:
    from runnel.relation.emission import Emission


class FrameUnit(Enum):
    """What the bounds of a frame count: rows, values of the one ORDER BY key, or groups of equal
    rows."""

    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


class BoundKind(Enum):
    """Where a frame begins or ends."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


class Exclusion(Enum):
    """Which rows of a frame are left out."""

    NO_OTHERS = "NO OTHERS"
    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@frozen
class Bound:
    """One end of a frame; `offset` (free of columns) for PRECEDING and FOLLOWING."""

    kind: BoundKind
    offset: Expression | None = None

    def mapped(self, change: Change) -> Bound:
        """The bound with `change` applied to its offset."""
        return self if self.offset is None else replace(self, offset=change(self.offset))

    def __str__(self) -> str:
        return self.kind.value if self.offset is None else f"{self.offset} {self.kind.value}"


@frozen
class Frame:
    """The rows around a row that a call sees."""

    unit: FrameUnit
    start: Bound
    end: Bound
    exclusion: Exclusion = Exclusion.NO_OTHERS

    @property
    def offsets(self) -> tuple[Expression, ...]:
        """The offsets that there are."""
        return tuple(bound.offset for bound in (self.start, self.end) if bound.offset is not None)

    def mapped(self, change: Change) -> Frame:
        """The frame with `change` applied to its offsets."""
        return (
            replace(self, start=self.start.mapped(change), end=self.end.mapped(change))
            if self.offsets
            else self
        )

    def __str__(self) -> str:
        text = f"{self.unit.value} BETWEEN {self.start} AND {self.end}"
        return (
            text
            if self.exclusion is Exclusion.NO_OTHERS
            else f"{text} EXCLUDE {self.exclusion.value}"
        )


WHOLE_PARTITION = Frame(
    FrameUnit.ROWS, Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING)
)
UP_TO_PEERS = Frame(
    FrameUnit.RANGE, Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.CURRENT_ROW)
)
"""What a call without a frame sees: the whole partition without ORDER BY, else all rows up to the
current one's peers."""


@frozen(kw_only=True)
class WindowCall:
    """One `f(…) OVER (…)`. `call.function` is a key of `window_functions.WINDOW_FUNCTIONS` or of
    `aggregates.AGGREGATES`; `frame` is always given. `ignore_nulls` is for LAG, LEAD, FIRST_VALUE,
    LAST_VALUE and NTH_VALUE."""

    call: AggregateCall
    partition: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: Frame = WHOLE_PARTITION
    ignore_nulls: bool = False

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions, in the order in which `map_expressions` visits them; the frame's offsets
        are free of columns."""
        keys = (key.expression for key in self.order)
        return (*self.call.expressions, *self.partition, *keys, *self.frame.offsets)

    def map_expressions(self, change: Change) -> WindowCall:
        """The call with `change` applied to each of its expressions as a whole."""
        return replace(
            self,
            call=self.call.map_expressions(change),
            partition=mapped(self.partition, change),
            order=tuple(key.mapped(change) for key in self.order),
            frame=self.frame.mapped(change),
        )

    def __str__(self) -> str:
        parts = []
        if self.partition:
            parts.append("PARTITION BY " + ", ".join(map(str, self.partition)))
        if self.order:
            parts.append("ORDER BY " + ", ".join(map(str, self.order)))
        usual = UP_TO_PEERS if self.order else WHOLE_PARTITION
        if self.frame != usual:
            parts.append(str(self.frame))
        nulls = " IGNORE NULLS" if self.ignore_nulls else ""
        return f"{self.call}{nulls} OVER ({' '.join(parts)})"


@frozen(kw_only=True)
class Window(Single):
    """The input's columns, then one per call, called by `names`. Rows come in any order."""

    calls: tuple[WindowCall, ...]
    names: tuple[str, ...]
    emission: Emission | None = None
    """Where late rows of an input without end go, where the SELECT says so."""

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        late = () if self.emission is None else self.emission.late
        return (*(item for call in self.calls for item in call.expressions), *late)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            calls=tuple(call.map_expressions(change) for call in self.calls),
            emission=None if self.emission is None else self.emission.map_expressions(change),
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        added = tuple(
            Field(name, item.call.type) for name, item in zip(self.names, self.calls, strict=True)
        )
        return (*self.input.fields, *added)
