"""OVER on streams: when the values of its calls are known, and which columns stay bounded above it.

A call is known for the rows of a partition when that is complete, which a bounded column among
those it partitions by tells. Or rows are in order of a bounded column, and a row's value depends on
none that is later (`window_order`). Calls that have nothing of it in common are computed one after
the other, in stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Column, Expression
from runnel.planner.event_time.expressions import Bounds, bound_of, moved_column
from runnel.planner.event_time.ordered_windows import reach_of
from runnel.relation.emission import Emission
from runnel.relation.nodes import Aggregate, Filter, Join, Limit, Project, Relation, Sort, Unnest
from runnel.relation.over import Window, WindowCall
from runnel.relation.streams import AssignWindows, ImposeOrder, TimeBound, WindowKind
from runnel.relation.window_reach import Reach

Held = tuple[tuple[Expression, TimeBound], ...]


@frozen
class Stage:
    """Calls, by their places, that are computed together: `held` are the bounded expressions by
    which their rows wait. With `reaches`, one per call, it is the one that they are ordered by, and
    not one of their partitions."""

    calls: tuple[int, ...]
    held: Held
    reaches: tuple[Reach, ...] = ()

    @property
    def lead(self) -> int:
        """How much longer rows wait, in event time."""
        return max((reach.lead for reach in self.reaches), default=0)

    def after(self) -> Held:
        """The bounds of the held expressions above."""
        return tuple((item, bound.moved(-self.lead)) for item, bound in self.held)


def stages_of(node: Window, bounds: Bounds) -> list[Stage] | None:
    """The stages in which the calls of a window can be computed on a stream; None where one of them
    can't be."""
    found = []
    for stage in _together(node, bounds) or ():
        # Rows that waited in the stages before are behind the watermark by more.
        held = tuple(
            (item, bound) for item, _ in stage.held if (bound := bound_of(item, bounds)) is not None
        )
        if not held:
            return None
        found.append(Stage(stage.calls, held, stage.reaches))
        bounds = _kept(node.input, bounds, found[-1].after())
    return found or None


def _together(node: Window, bounds: Bounds) -> list[Stage] | None:
    """Which calls are computed together."""
    whole: list[Stage] = []
    ordered: dict[object, Stage] = {}
    for place, call in enumerate(node.calls):
        held = _partition_bounds(call, bounds)
        if held:
            _join_stage(whole, place, held)
            continue
        stage = _in_order(place, call, bounds)
        if stage is None:
            return None
        key = (call.partition, call.order)
        earlier = ordered.get(key)
        if earlier is not None:
            stage = Stage((*earlier.calls, place), stage.held, (*earlier.reaches, *stage.reaches))
        ordered[key] = stage
    return [*ordered.values(), *whole]


def _partition_bounds(call: WindowCall, bounds: Bounds) -> Held:
    found = ((item, bound_of(item, bounds)) for item in call.partition)
    return tuple((item, bound) for item, bound in found if bound is not None)


def _join_stage(stages: list[Stage], place: int, held: Held) -> None:
    """Puts a call into the first stage with which it has a bounded expression in common, or into a
    new one."""
    for number, stage in enumerate(stages):
        shared = tuple(item for item in stage.held if item in held)
        if shared:
            stages[number] = Stage((*stage.calls, place), shared)
            return
    stages.append(Stage((place,), held))


def _in_order(place: int, call: WindowCall, bounds: Bounds) -> Stage | None:
    if not call.order or call.order[0].descending:
        return None
    key = call.order[0].expression
    bound = bound_of(key, bounds)
    reach = None if bound is None else reach_of(call)
    return (
        Stage((place,), ((key, bound),), (reach,))
        if bound is not None and isinstance(reach, Reach)
        else None
    )


def bounds_above(node: Window, below: Bounds) -> Bounds:
    """The bounds of the columns of a window on a stream. Rows that wait keep the watermark from
    bounding what isn't among the expressions by which they wait, or known to be no less than one of
    these and a constant."""
    bounds = below
    for stage in stages_of(node, below) or ():
        bounds = _kept(node.input, bounds, stage.after())
    return bounds


def sort_bound(node: Sort, below: Bounds) -> TimeBound | None:
    """The bound of the first key of ORDER BY; None where rows don't come in the order of event
    time."""
    first = node.keys[0]
    return None if first.descending else bound_of(first.expression, below)


def bounds_above_sort(node: Sort, below: Bounds) -> Bounds:
    """The bounds of the columns of ORDER BY on a stream."""
    bound = sort_bound(node, below)
    return {} if bound is None else _kept(node.input, below, ((node.keys[0].expression, bound),))


def _kept(relation: Relation, bounds: Bounds, held: Held) -> Bounds:
    origins = [(_origin(relation, item), bound) for item, bound in held]
    kept: dict[int, TimeBound] = {}
    for index, bound in bounds.items():
        field = relation.fields[index]
        origin = _origin(relation, Column(index=index, name=field.name, type=field.type))
        offsets = []
        for other, held_bound in origins:
            distance = (
                _least_distance(origin, other) if held_bound.watermark == bound.watermark else None
            )
            if distance is not None:
                offsets.append(held_bound.offset + distance)
        if offsets:
            kept[index] = TimeBound(bound.watermark, min(bound.offset, max(offsets)))
    return kept


@frozen
class _Origin:
    """Where the values of a column come from: a column of `node`, and what is added to it."""

    node: Relation
    column: int
    added: int


def _origin(relation: Relation, expression: Expression, added: int = 0) -> _Origin | None:
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
    """The input that gives a column, and the expression over it that it is; None where it begins
    here."""
    if isinstance(node, Project):
        return node.input, node.expressions[index]
    if isinstance(node, Aggregate):
        return (node.input, node.keys[index]) if index < len(node.keys) else None
    if isinstance(node, Join):
        width = len(node.left.fields)
        side, place = (node.left, index) if index < width else (node.right, index - width)
        return (side, _column(side, place)) if place < len(side.fields) else None
    if isinstance(node, AssignWindows) and index == node.time.index:
        return None
    if isinstance(
        node, Filter | Limit | Sort | Unnest | Window | ImposeOrder | AssignWindows | Emission
    ):
        return (node.input, _column(node.input, index)) if index < len(node.input.fields) else None
    return None


def _column(relation: Relation, index: int) -> Column:
    field = relation.fields[index]
    return Column(index=index, name=field.name, type=field.type)


_TIME, _START, _END, _LAST = -1, 0, 1, 2


def _least_distance(column: _Origin | None, other: _Origin | None) -> int | None:
    """By how much the value of one column is above that of another at least, in each row; None if
    nothing is known."""
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
    """How far the columns of windows, and their time, are from each other at least."""
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


def places_of(stages: Sequence[Stage]) -> list[int]:
    """For each call, by its place in the window, which it is among the calls of all stages."""
    order = [place for stage in stages for place in stage.calls]
    return [order.index(place) for place in range(len(order))]
