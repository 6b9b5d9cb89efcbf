"""The query that an aggregate belongs to: the innermost query of which a column occurs in the
arguments; without columns, the query in which the aggregate is written.

An aggregate in a subquery may therefore belong to an enclosing query (SQL:2016, 6.9): `SELECT
(SELECT SUM(t.x) FROM u) FROM t` returns one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runnel.base.frozen import frozen
from runnel.errors import ProgrammingError
from runnel.expressions.nodes import Column, Expression
from runnel.planner.bind.select_parts import OuterSelectContext
from runnel.relation.subqueries import OuterColumn, OuterValue, map_outer_in


@frozen
class Level:
    """The query that an aggregate belongs to.

    depth: the number of queries outwards from the query in which the aggregate is written; 0: that
        query.
    """

    depth: int

    def lifted(self, expression: Expression) -> Expression:
        """An expression of the aggregate, rewritten for the query that the aggregate belongs to."""
        return map_outer_in(expression, self._lifted) if self.depth else expression

    def _lifted(self, item: Expression, nesting: int) -> Expression | None:
        if not isinstance(item, OuterValue) or item.depth < nesting + self.depth:
            return None
        if isinstance(item, OuterColumn) and not nesting and item.depth == self.depth:
            return Column(index=item.index, name=item.name, type=item.type, position=item.position)
        return item.at_depth(item.depth - self.depth)


def level_of(expressions: Iterable[Expression]) -> Level:
    """The level of an aggregate with these arguments; ProgrammingError if they contain another
    aggregate of the same level."""
    levels = [found for expression in expressions for found in _levels(expression)]
    level = min((number for number, _ in levels), default=0)
    for number, item in levels:
        if number == level and isinstance(item, OuterSelectContext):
            raise ProgrammingError(
                "an aggregate function can't be nested in another one of the same query",
                hint="aggregate once in a derived table, and again above it",
                position=item.position,
            )
    return Level(level)


def _levels(expression: Expression) -> Iterator[tuple[int, Expression]]:
    """Yields each column, and each aggregate of an enclosing query, with its depth outwards."""
    found: list[tuple[int, Expression]] = []

    def note(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, OuterValue) and item.depth >= nesting:
            found.append((item.depth - nesting, item))
        elif isinstance(item, Column) and not nesting:
            found.append((0, item))
        return None

    map_outer_in(expression, note)
    yield from found
