"""Window functions (OVER) as a relational node.

A window call computes one value for each row from the rows of its partition, in an order, within a
frame. The semantics are PostgreSQL's, except that NULL is the smallest value in an order unless the
sort key specifies otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Change, Expression, SortKey, mapped
from runnel.relation.nodes import Field, Relation, Single

if TYPE_CHECKING:
    from runnel.relation.emission import Emission


class FrameUnit(Enum):
    """The unit of a frame's bounds.

    ROWS: rows.
    RANGE: values of the only ORDER BY key.
    GROUPS: groups of peers, the rows that are equal in the order.
    """

    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


class BoundKind(Enum):
    """The kind of a frame's start or end."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


class Exclusion(Enum):
    """The rows that a frame excludes: none, the current row, its peers and itself, or its peers."""

    NO_OTHERS = "NO OTHERS"
    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@frozen
class FrameBound:
    """One end of a frame.

    kind: the kind of the bound.
    offset: for PRECEDING and FOLLOWING, an expression that refers to no columns; else None.
    """

    kind: BoundKind
    offset: Expression | None = None

    def mapped(self, change: Change) -> FrameBound:
        """Return the bound with `change` applied to its offset."""
        return self if self.offset is None else replace(self, offset=change(self.offset))

    def __str__(self) -> str:
        return self.kind.value if self.offset is None else f"{self.offset} {self.kind.value}"


@frozen
class WindowFrame:
    """The rows around a row from which a call computes the row's value.

    unit: ROWS, RANGE or GROUPS: what the offsets of the bounds count.
    start, end: the first and the last bound, both inclusive.
    exclusion: rows around the current row that do not count.
    """

    unit: FrameUnit
    start: FrameBound
    end: FrameBound
    exclusion: Exclusion = Exclusion.NO_OTHERS

    @property
    def offsets(self) -> tuple[Expression, ...]:
        """The offsets of the bounds that have one."""
        return tuple(bound.offset for bound in (self.start, self.end) if bound.offset is not None)

    def mapped(self, change: Change) -> WindowFrame:
        """Return the frame with `change` applied to its offsets."""
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


WHOLE_PARTITION = WindowFrame(
    FrameUnit.ROWS,
    FrameBound(BoundKind.UNBOUNDED_PRECEDING),
    FrameBound(BoundKind.UNBOUNDED_FOLLOWING),
)
"""The default frame without ORDER BY."""

UP_TO_PEERS = WindowFrame(
    FrameUnit.RANGE, FrameBound(BoundKind.UNBOUNDED_PRECEDING), FrameBound(BoundKind.CURRENT_ROW)
)
"""The default frame with ORDER BY: all rows up to the peers of the current row."""


@frozen(kw_only=True)
class WindowCall:
    """One `f(…) OVER (…)`.

    call: the function and its arguments; `call.function` is a key of
        `window_functions.WINDOW_FUNCTIONS` or of `registry.AGGREGATES`.
    partition: the PARTITION BY expressions.
    order: the ORDER BY keys.
    frame: the frame, explicit or default.
    ignore_nulls: IGNORE NULLS of LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE.
    """

    call: AggregateCall
    partition: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: WindowFrame = WHOLE_PARTITION
    ignore_nulls: bool = False

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions, in the order of `map_expressions`.

        The offsets of the frame, which refer to no columns, are last.
        """
        keys = (key.expression for key in self.order)
        return (*self.call.expressions, *self.partition, *keys, *self.frame.offsets)

    def map_expressions(self, change: Change) -> WindowCall:
        """Return the call with `change` applied to each of its expressions as a whole."""
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
    """The columns of the input, then one column per call. The rows come in any order.

    calls: the window calls.
    names: the names of the calls' columns.
    emission: the output for late rows of an unbounded input; None if the SELECT has none.
    """

    family = "over"
    combines_rows = True
    is_computed_once = True

    calls: tuple[WindowCall, ...]
    names: tuple[str, ...]
    emission: Emission | None = None

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
