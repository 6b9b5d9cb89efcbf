"""Top rows per group: how many rows of each partition a filter above a window needs.

`ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 3` needs the first three rows of a partition; the
window can drop the rest while it reads. A rank depends only on earlier rows, so dropping later
rows does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Call, Column, Expression, Literal, Parameter
from runnel.planner.physical.nodes import MostRows
from runnel.relation.over import Window

_RANKS = ("row_number", "rank", "dense_rank")
_BELOW = ("le", "lt", "eq")
_ABOVE = ("ge", "gt", "eq")


def most_rows(conjuncts: Sequence[Expression], window: Window) -> MostRows | None:
    """The bound that a conjunct above a window puts on a rank, if all calls of the window are ranks
    of one arrangement; else None."""
    first = window.calls[0]
    for call in window.calls:
        if call.call.function not in _RANKS or (call.partition, call.order) != (
            first.partition,
            first.order,
        ):
            return None
    if any(is_volatile(item) for item in first.expressions):
        return None
    width = len(window.input.fields)
    for conjunct in conjuncts:
        bound = _bound(conjunct)
        if bound is not None and bound[0] >= width:
            return MostRows(bound[0] - width, bound[1])
    return None


def _bound(conjunct: Expression) -> tuple[int, Expression] | None:
    """The column that a conjunct bounds from above, and its maximum."""
    if not isinstance(conjunct, Call) or len(conjunct.arguments) != 2:
        return None
    for functions, (rank, most) in (
        (_BELOW, conjunct.arguments),
        (_ABOVE, conjunct.arguments[::-1]),
    ):
        if (
            conjunct.function in functions
            and isinstance(rank, Column)
            and isinstance(most, Literal | Parameter)
        ):
            return (rank.index, most) if most.type.is_integer else None
    return None
