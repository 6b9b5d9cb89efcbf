"""References to aliases of the select list in other expressions of the same SELECT.

A reference is bound as a copy of the expression that the alias names. A column has precedence over
an alias of the same name, also a column of an enclosing query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from runnel.errors import AmbiguousColumn, NotSupportedError, Position
from runnel.expressions import build
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Expression, walk
from runnel.planner.bind.grouping.aggregate import is_aggregate
from runnel.planner.parse.query.allow_list import function_call
from runnel.relation.subqueries import SUBQUERIES, everything


class SelectAliases:
    """The aliases of a select list.

    trees: for each alias in lower case, the numbers of its items with their expressions.
    limit: only items with a smaller number can be referred to.
    rows_only: whether expressions with aggregates and window functions can't be referred to, as
        in WHERE.
    """

    def __init__(self, items: list[Any]) -> None:
        self.trees: dict[str, list[tuple[int, Any]]] = {}
        self.limit = len(items)
        self.rows_only = False
        for number, item in enumerate(items):
            if isinstance(item, exp.Alias):
                self.trees.setdefault(item.alias.lower(), []).append((number, item.this))

    def bound(
        self, name: str, bind: Callable[[Any], Expression], position: Position | None
    ) -> Expression | None:
        """The expression that a name refers to, bound by `bind`; None if no alias that is visible
        has the name."""
        found = [pair for pair in self.trees.get(name.lower(), ()) if pair[0] < self.limit]
        if not found or (self.rows_only and any(_is_above_rows(tree) for _, tree in found)):
            return None
        if any(tree != found[0][1] for _, tree in found):
            raise AmbiguousColumn(
                f'column "{name}" is ambiguous',
                detail="two columns of the select list have this name",
                hint="give the columns different names",
                position=position,
            )
        before, self.limit = self.limit, found[0][0]
        try:
            expression = build.limited(bind(found[0][1]))
        finally:
            self.limit = before
        if _is_volatile(expression):
            raise NotSupportedError(
                f'a reference to "{name}", whose value differs each time it is computed, is not '
                "supported",
                hint=f"compute it in a derived table: FROM (SELECT … AS {name} …) AS d",
                position=position,
            )
        return expression


def _is_above_rows(tree: Any) -> bool:
    return any(
        isinstance(node, exp.Window) or is_aggregate((function_call(node) or ("", []))[0])
        for node in tree.walk()
    )


def _is_volatile(expression: Expression) -> bool:
    return is_volatile(expression) or any(
        is_volatile(own)
        for part in walk(expression)
        if isinstance(part, SUBQUERIES)
        for node in everything(part.relation)
        for own in node.own_expressions
    )
