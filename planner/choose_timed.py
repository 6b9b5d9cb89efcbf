"""How aggregations over inputs without end are run."""

from __future__ import annotations

from collections.abc import Callable

from runnel.connector import SinkRequest, WritableTable, WriteMode
from runnel.errors import ProgrammingError
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Column, Expression, columns_of
from runnel.planner import physical
from runnel.planner.estimates import estimate, never_ends
from runnel.planner.event_time import bound_of, constant_of, time_bounds
from runnel.planner.physical import Physical
from runnel.planner.rules.rewriting import substitute
from runnel.relation import Aggregate, Filter, Project, Relation, references
from runnel.streams import AssignWindows, WindowKind

Choose = Callable[[Relation], Physical]


def choose_timed_aggregate(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by keys that watermarks bound; None where the input ends, or no key has a bound."""
    framed = None if _gives_again(node) else _framed(node, choose)
    if framed is not None:
        return framed
    if not never_ends(node.input):
        return None
    below = time_bounds(node.input)
    found = ((number, bound_of(key, below)) for number, key in enumerate(node.keys))
    bounds = tuple((number, bound) for number, bound in found if bound is not None)
    if not bounds:
        return None
    late = _late_rows(node)
    return physical.TimedAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=choose(node.input),
        keys=node.keys,
        aggregates=node.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates) and late is None,
        bounds=bounds,
        every=None if node.emission is None else node.emission.every,
        lateness=_lateness(node, bounds[0][0]),
        late=late,
    )


def _gives_again(node: Aggregate) -> bool:
    """Whether groups come out more than once: frames don't do that."""
    return node.emission is not None and (node.emission.every is not None or bool(node.emission.lateness.value))


def _lateness(node: Aggregate, key: int) -> int:
    """The lateness in units of event time, which are those of a bounded key."""
    if node.emission is None or not node.emission.lateness.value:
        return 0
    lateness, time = node.emission.lateness, node.keys[key].type
    if lateness.type.is_integer is not time.is_integer:
        raise ProgrammingError(
            f"ALLOWED LATENESS is of type {lateness.type}, but the windows are of type {time}",
            hint="write a number" if time.is_integer else "write INTERVAL '10' SECOND",
            position=node.emission.position,
        )
    found = constant_of(lateness)
    assert found is not None
    return found


def _late_rows(node: Aggregate) -> physical.LateRows | None:
    if node.emission is None or node.emission.late_table is None:
        return None
    table, columns = node.emission.late_table, node.emission.late_columns
    assert isinstance(table, WritableTable)
    mode = WriteMode.SINK if WriteMode.SINK in table.write_modes else WriteMode.INSERT
    return physical.LateRows(table=table, request=SinkRequest(mode, columns), expressions=node.emission.late)


def _framed(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by the windows of a HOP or CUMULATE that stand right below, where it is by nothing of them but their
    bounds, and only by these bounded."""
    below, conditions, columns = _down_to_windows(node.input)
    if not isinstance(below, AssignWindows) or below.shape.kind not in (WindowKind.HOP, WindowKind.CUMULATE):
        return None
    moved = Aggregate(
        input=below,
        keys=tuple(substitute(key, columns) for key in node.keys),
        aggregates=tuple(call.map_expressions(lambda item: substitute(item, columns)) for call in node.aggregates),
        names=node.names,
        emission=None if node.emission is None else node.emission.map_expressions(lambda item: substitute(item, columns)),
    )
    source = below.input
    width = len(source.fields)
    keys: list[Expression] = []
    places: list[int] = []
    for key in moved.keys:
        if isinstance(key, Column) and key.index >= width:
            places.append(key.index - len(below.fields))
        else:
            places.append(len(keys))
            keys.append(key)
    rest = (*keys, *conditions, *moved.own_expressions[len(moved.keys) :])
    bounds = time_bounds(source)
    bound = bounds.get(below.time.index)
    if all(place >= 0 for place in places) or any(columns_of(item) & {width, width + 1, width + 2} for item in rest):
        return None
    if any(bound_of(key, bounds) is not None for key in keys) or (bound is None and never_ends(source)):
        return None
    late = None if bound is None else _late_rows(moved)
    for condition in conditions:
        source = Filter(input=source, condition=condition)
    return physical.FramedAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=choose(source),
        shape=below.shape,
        time=below.time,
        keys=tuple(keys),
        columns=tuple(places),
        aggregates=moved.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates) and late is None,
        bound=bound,
        late=late,
    )


def _down_to_windows(node: Relation) -> tuple[Relation, list[Expression], tuple[Expression, ...]]:
    """What is below the projections and filters of a relation, the conditions, and the columns of the relation over it."""
    columns: tuple[Expression, ...] = references(node.fields)
    conditions: list[Expression] = []
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            conditions.append(node.condition)
        elif any(is_volatile(item) for item in node.expressions):
            break
        else:
            columns = tuple(substitute(item, node.expressions) for item in columns)
            conditions = [substitute(item, node.expressions) for item in conditions]
        node = node.input
    return node, conditions, columns
