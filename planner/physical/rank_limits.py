"""The first rows of each group: how many rows a filter above a window needs of each partition.

`ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 3` needs the first three rows of a partition; the
window can forget the others while it reads. A rank depends on earlier rows only, so forgetting
later ones changes none that is kept.
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


def most_rows(parts: Sequence[Expression], window: Window) -> MostRows | None:
    """The bound that one of the conjuncts above a window puts on a rank, if all its calls number
    rows of one arrangement."""
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
    for part in parts:
        bound = _bound(part)
        if bound is not None and bound[0] >= width:
            return MostRows(bound[0] - width, bound[1])
    return None


def _bound(part: Expression) -> tuple[int, Expression] | None:
    """The column that a conjunct bounds from above, and the number that it can't exceed."""
    if not isinstance(part, Call) or len(part.arguments) != 2:
        return None
    for functions, (rank, most) in ((_BELOW, part.arguments), (_ABOVE, part.arguments[::-1])):
        if (
            part.function in functions
            and isinstance(rank, Column)
            and isinstance(most, Literal | Parameter)
        ):
            return (rank.index, most) if most.type.is_integer else None
    return None
