"""Clauses of queries on streams that relational nodes carry: emission and late output."""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.errors import Position
from runnel.expressions.nodes import Change, Expression, Literal, mapped


@frozen(kw_only=True)
class Emission:
    """EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO of a SELECT.

    It controls when and for how long an aggregation by windows emits results. For an ORDER BY or an
    OVER only the late output applies. It has no effect over a bounded input.

    every: microseconds of processing time between early results; None: a result is emitted only
        when the watermark completes a window.
    lateness: a literal: how long in event time a completed window still accepts rows and emits its
        result again.
    late_table: the table for rows that are too late; None: they are dropped.
    late_columns: the indexes of the columns of `late_table` that are written.
    late: the values of these columns, over the input of the operator.
    position: where the clause stands in the statement.
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
    """LATE DATA INTO of a join of streams.

    table: the table for late rows.
    columns: the indexes of its columns that are written.
    left: the values for a late left row, over the columns of the left side; () to drop such rows.
    right: the values for a late right row, over the *own* columns of the right side, numbered from
        0; () to drop such rows.
    """

    table: Table
    columns: tuple[int, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.left, *self.right)

    @property
    def turned(self) -> LateSides:
        """The late output after the sides of the join were exchanged."""
        return replace(self, left=self.right, right=self.left)

    def mapped(self, left: Change, right: Change) -> LateSides:
        """Return the late output with the expressions of each side changed."""
        return replace(self, left=mapped(self.left, left), right=mapped(self.right, right))
