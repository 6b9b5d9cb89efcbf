"""When a query on streams emits results, and where its late rows go: clauses that relational nodes
carry."""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.errors import Position
from runnel.expressions.nodes import Change, Expression, Literal, mapped


@frozen(kw_only=True)
class Emission:
    """EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO of a SELECT: when, and for how long, its
    aggregation by windows gives results. Over an input that ends it means nothing.

    `every`: microseconds of processing time between early results (None: only when the watermark
        completes a window).
    `lateness`: a literal, how long in event time a completed window still takes rows and gives its
    result again. `late_table` gets rows that are too late: the values of `late`, over the
    aggregation's input, go to its columns `late_columns`. Of an ORDER BY, or a window, only the
    late rows are told.
    """

    every: int | None
    lateness: Literal
    late_table: Table | None = None
    late_columns: tuple[int, ...] = ()
    late: tuple[Expression, ...] = ()
    position: Position | None = None

    def map_expressions(self, change: Change) -> Emission:
        return replace(self, late=mapped(self.late, change))


@frozen(kw_only=True)
class LateSides:
    """LATE DATA INTO of a join of streams: the columns `columns` of `table` get the values of
    `left`, over the left side's columns, for late rows of that side, and those of `right`, over the
    right side's *own* columns. () for a side whose late rows go nowhere."""

    table: Table
    columns: tuple[int, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.left, *self.right)

    @property
    def turned(self) -> LateSides:
        """The same where the sides have changed places."""
        return replace(self, left=self.right, right=self.left)

    def mapped(self, left: Change, right: Change) -> LateSides:
        """The same with the expressions of each side changed."""
        return replace(self, left=mapped(self.left, left), right=mapped(self.right, right))
