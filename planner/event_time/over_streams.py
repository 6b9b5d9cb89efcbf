"""OVER on streams: when the values of calls are known, and which columns stay bounded above them.

The value of a call is known when the row's partition is complete, which a bounded column among the
partition columns determines. Or the rows are in order of a bounded column, and the value depends on
no row later than the call's reach (`ordered_windows`). Calls that share neither are computed one
after another, in stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Column, Expression
from runnel.planner.event_time.expressions import Bounds, bound_of, moved_column
from runnel.planner.event_time.ordered_windows import reach_of
from runnel.planner.operators.passes import ORIGINS
from runnel.planner.rewriting import column
from runnel.relation.nodes import (
    Relation,
    Single,
    Sort,
)
from runnel.relation.over import Window, WindowCall
from runnel.relation.streams import AssignWindows, TimeBound, WindowKind
from runnel.relation.window_reach import Reach

BoundedExpressions = tuple[tuple[Expression, TimeBound], ...]
"""The bounded expressions by which rows wait, each with its bound."""


@frozen
class WindowStage:
    """Calls that are computed together.

    calls: their positions in the window.
    bounded: the bounded expressions by which their rows wait.
    reaches: one per call if `bounded` is the expression that the calls are ordered by; () if it is
        among the expressions by which they partition.
    """

    calls: tuple[int, ...]
    bounded: BoundedExpressions
    reaches: tuple[Reach, ...] = ()

    @property
    def lead(self) -> int:
        """The additional time for which rows wait, in event time."""
        return max((reach.lead for reach in self.reaches), default=0)

    def after(self) -> BoundedExpressions:
        """The bounds of the expressions after this stage."""
        return tuple((item, bound.moved(-self.lead)) for item, bound in self.bounded)


def stages_of(node: Window, bounds: Bounds) -> list[WindowStage] | None:
    """The stages in which the calls of a window can be computed on a stream; None if one of the
    calls can't be computed."""
    found = []
    for stage in _together(node, bounds) or ():
        # Rows that waited in earlier stages are later relative to the watermark.
        bounded = tuple(
            (item, bound)
            for item, _ in stage.bounded
            if (bound := bound_of(item, bounds)) is not None
        )
        if not bounded:
            return None
        found.append(WindowStage(stage.calls, bounded, stage.reaches))
        bounds = _bounds_after(node.input, bounds, found[-1].after())
    return found or None


def _together(node: Window, bounds: Bounds) -> list[WindowStage] | None:
    """Groups the calls that can be computed together; None if one of them can't be computed."""
    whole: list[WindowStage] = []
    ordered: dict[object, WindowStage] = {}
    for position, call in enumerate(node.calls):
        bounded = _partition_bounds(call, bounds)
        if bounded:
            _join_stage(whole, position, bounded)
            continue
        stage = _in_order(position, call, bounds)
        if stage is None:
            return None
        key = (call.partition, call.order)
        earlier = ordered.get(key)
        if earlier is not None:
            stage = WindowStage(
                (*earlier.calls, position), stage.bounded, (*earlier.reaches, *stage.reaches)
            )
        ordered[key] = stage
    return [*ordered.values(), *whole]


def _partition_bounds(call: WindowCall, bounds: Bounds) -> BoundedExpressions:
    found = ((item, bound_of(item, bounds)) for item in call.partition)
    return tuple((item, bound) for item, bound in found if bound is not None)


def _join_stage(stages: list[WindowStage], position: int, bounded: BoundedExpressions) -> None:
    """Adds a call to the first stage with which it shares a bounded expression, or to a new
    stage."""
    for number, stage in enumerate(stages):
        shared = tuple(item for item in stage.bounded if item in bounded)
        if shared:
            stages[number] = WindowStage((*stage.calls, position), shared)
            return
    stages.append(WindowStage((position,), bounded))


def _in_order(position: int, call: WindowCall, bounds: Bounds) -> WindowStage | None:
    if not call.order or call.order[0].descending:
        return None
    key = call.order[0].expression
    bound = bound_of(key, bounds)
    reach = None if bound is None else reach_of(call)
    return (
        WindowStage((position,), ((key, bound),), (reach,))
        if bound is not None and isinstance(reach, Reach)
        else None
    )


def bounds_above(node: Window, below: Bounds) -> Bounds:
    """The bounds of a window's columns on a stream. Because rows wait, only the expressions by
    which they wait stay bounded, and columns that are known to be at least such an expression plus
    a constant."""
    bounds = below
    for stage in stages_of(node, below) or ():
        bounds = _bounds_after(node.input, bounds, stage.after())
    return bounds


def sort_bound(node: Sort, below: Bounds) -> TimeBound | None:
    """The bound of the first key of ORDER BY; None if rows are not sorted by event time."""
    first = node.keys[0]
    return None if first.descending else bound_of(first.expression, below)


def bounds_above_sort(node: Sort, below: Bounds) -> Bounds:
    """The bounds of the columns above an ORDER BY on a stream."""
    bound = sort_bound(node, below)
    return (
        {}
        if bound is None
        else _bounds_after(node.input, below, ((node.keys[0].expression, bound),))
    )


def _bounds_after(relation: Relation, bounds: Bounds, bounded: BoundedExpressions) -> Bounds:
    """The bounds above an operator whose rows wait by `bounded`.

    A column keeps a bound if it comes from the same node as such an expression and is at least the
    expression plus a known distance. For example, if rows wait by window_end with offset 0, then
    window_start of a window of 10 s stays bounded with offset −10 s.
    """
    origins = [(_origin(relation, item), bound) for item, bound in bounded]
    result: dict[int, TimeBound] = {}
    for index, bound in bounds.items():
        field = relation.fields[index]
        origin = _origin(relation, Column(index=index, name=field.name, type=field.type))
        offsets = []
        for other, other_bound in origins:
            distance = (
                _least_distance(origin, other) if other_bound.watermark == bound.watermark else None
            )
            if distance is not None:
                offsets.append(other_bound.offset + distance)
        if offsets:
            result[index] = TimeBound(bound.watermark, min(bound.offset, max(offsets)))
    return result


@frozen
class _Origin:
    """The origin of a column's values.

    node: the node in which the values originate.
    column: the index of the column in that node.
    added: the constant that was added to the values on the way, in units of event time.
    """

    node: Relation
    column: int
    added: int


def _origin(relation: Relation, expression: Expression) -> _Origin | None:
    added = 0
    while True:
        moved = moved_column(expression)
        if moved is None:
            return None
        column, by = moved
        index, added = column.index, added + by
        below = _below(relation, index)
        if below is None:
            return _Origin(relation, index, added)
        relation, expression = below


def _below(node: Relation, index: int) -> tuple[Relation, Expression] | None:
    """The input that a column comes from, and the column as an expression over it; None if the
    column originates in this node."""
    rule = ORIGINS.find(node)
    return None if rule is None else rule(node, index)


def from_input(node: Single, index: int) -> tuple[Relation, Expression] | None:
    """The origin of a column of a node that returns the columns of its input first."""
    fields = node.input.fields
    return (node.input, column(fields, index)) if index < len(fields) else None


_TIME, _START, _END, _LAST = -1, 0, 1, 2


def _least_distance(column: _Origin | None, other: _Origin | None) -> int | None:
    """The minimum of the difference of two columns in any row; None if it is unknown."""
    if column is None or other is None or column.node is not other.node:
        return None
    difference = column.added - other.added
    if column.column == other.column:
        return difference
    if not isinstance(column.node, AssignWindows):
        return None
    roles = (_role(column.node, column.column), _role(column.node, other.column))
    least = _window_distances(column.node).get(roles)
    return None if least is None else least + difference


def _role(node: AssignWindows, index: int) -> int:
    return _TIME if index == node.time.index else index - len(node.input.fields)


def _window_distances(node: AssignWindows) -> Mapping[tuple[int, int], int]:
    """The minimum differences between the columns of a window and the row's time."""
    shape = node.shape
    size = shape.size
    if shape.kind is WindowKind.SESSION:
        least = {(_END, _START): size, (_TIME, _START): 0, (_END, _TIME): size, (_END, _END): 0}
    else:
        shortest = shape.step if shape.kind is WindowKind.CUMULATE else size
        least = {
            (_START, _END): -size,
            (_TIME, _END): -size,
            (_END, _START): shortest,
            (_TIME, _START): 0,
            (_END, _TIME): 1,
            (_START, _TIME): 1 - size,
            (_END, _END): 0,
        }
    # window_time is window_end − 1.
    ends = {
        (_LAST, other): distance - 1
        for (column, other), distance in least.items()
        if column == _END
    }
    below = {
        (column, _LAST): distance + 1
        for (column, other), distance in (least | ends).items()
        if other == _END
    }
    return {**least, **ends, **below}


def call_positions(stages: Sequence[WindowStage]) -> list[int]:
    """For each call, by its position in the window, its position among the calls of all stages."""
    order = [position for stage in stages for position in stage.calls]
    return [order.index(position) for position in range(len(order))]
