"""The home of aggregations that a watermark completes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from runnel.expressions.nodes import WINDOW_FINAL, Expression
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.planner.lower.dag_builder import Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.stream_nodes import (
    EventTimeAggregate,
    FramedAggregate,
    SessionAggregate,
    WindowedKeys,
)
from runnel.relation.streams import WINDOW_COLUMNS, WindowKind, WindowShape
from runnel.sqltypes import TIMESTAMP, Kind, to_arrow

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity, Properties
    from runnel.planner.identity.vertices import StateForm
    from runnel.relation.state_identity import StateWindows
    from runnel.sqltypes import SqlType


@passes.EXPLAIN.of(EventTimeAggregate)
def _describe_event_time_aggregate(node: EventTimeAggregate) -> Description:
    from runnel.planner.explain.parts import aggregate, late_property, listed, time_span

    title, properties = aggregate(node)
    first = node.bounds[0][0]
    properties["until"] = listed(node.keys[number] for number, _ in node.bounds)
    if node.every is not None:
        properties["early results every"] = str(timedelta(microseconds=node.every))
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.keys[first].type)
    return title, properties | late_property(node.late)


@passes.EXPLAIN.of(FramedAggregate)
def _describe_framed_aggregate(node: FramedAggregate) -> Description:
    from runnel.planner.explain.parts import late_property, listed, time_span

    shape, time = node.shape, node.time.type
    by = ", ".join(
        WINDOW_COLUMNS[place] if place < 0 else str(node.keys[place]) for place in node.columns
    )
    properties = {
        "by": by,
        "compute": listed(node.aggregates),
        "time": str(node.time),
        "size": time_span(shape.size, time),
    }
    properties |= {"step": time_span(shape.step, time)}
    if shape.offset:
        properties["offset"] = time_span(shape.offset, time)
    properties["complete"] = "by the watermark" if node.bound is not None else "at the end"
    properties |= late_property(node.late)
    return f"Aggregate in frames of {shape.kind.value.capitalize()} windows", properties


@passes.EXPLAIN.of(SessionAggregate)
def _describe_session_aggregate(node: SessionAggregate) -> Description:
    from runnel.planner.explain.parts import late_property, listed, time_span

    by = ", ".join(
        WINDOW_COLUMNS[place] if place < 0 else str(node.keys[place]) for place in node.columns
    )
    properties = {"by": by, "compute": listed(node.aggregates), "time": str(node.time)}
    properties["gap"] = time_span(node.gap, node.time.type)
    properties["of"] = listed(node.keys[i] for i in node.partition)
    if node.every is not None:
        properties["early results every"] = str(timedelta(microseconds=node.every))
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.time.type)
    return "Aggregate by sessions", properties | late_property(node.late)


@passes.STATE_TEXTS.of(EventTimeAggregate)
def _state_of_event_time_aggregate(node: EventTimeAggregate) -> str:
    from runnel.planner.explain.parts import time_span

    bounds = ", ".join(str(node.keys[number]) for number, _ in node.bounds)
    until = f"until the watermark completes its {bounds}"
    if node.lateness:
        until = (
            f"until the watermark is {time_span(node.lateness, node.keys[node.bounds[0][0]].type)} "
            f"past its {bounds}"
        )
    return f"a row for each group, {until}"


@passes.STATE_TEXTS.of(FramedAggregate)
def _state_of_framed_aggregate(node: FramedAggregate) -> str:
    from runnel.planner.explain.parts import time_span

    span = time_span(node.shape.size, node.time.type)
    until = "until the watermark is past them" if node.bound is not None else "until the input ends"
    return f"a row for each group and frame of the last {span}, {until}"


@passes.STATE_TEXTS.of(SessionAggregate)
def _state_of_session_aggregate(node: SessionAggregate) -> str:
    from runnel.planner.explain.parts import time_span

    past = f"{time_span(node.lateness, node.time.type)} past" if node.lateness else "past"
    return f"a row for each session, until the watermark is {past} its end"


@passes.LOWERING.of(EventTimeAggregate, FramedAggregate, SessionAggregate)
def _lower_stream_aggregate(
    to: Lowering,
    node: EventTimeAggregate | FramedAggregate | SessionAggregate,
) -> VertexOutput:
    from runnel.planner.lower.aggregates import lower_stream_aggregate

    expressions = (*node.keys, *(item for call in node.aggregates for item in call.expressions))
    rows = to.in_chunks(to.lower(node.input), expressions)
    return lower_stream_aggregate(to, node, rows)


passes.STREAM_SHARING.add_classes(EventTimeAggregate, FramedAggregate, SessionAggregate)


passes.TABLE_SHARING.add_classes(FramedAggregate, SessionAggregate)


passes.WORTH_SHARING.add_classes(FramedAggregate, SessionAggregate)


passes.READS_ALL.add_classes(FramedAggregate, SessionAggregate)


_BOUNDS = ("window_start", "window_end", "window_time")
"""The columns of a window that the indexes −3, −2 and −1 stand for."""


@passes.IDENTITY.of(FramedAggregate)
def _identify_framed_aggregate(node: FramedAggregate) -> Identity:
    from runnel.planner.identity.expressions import outer_texts, span_text, text
    from runnel.planner.identity.nodes import WINDOWS, late_property

    shape, time = node.shape, node.time.type
    properties = {
        "by": _window_keys(node.keys, node.columns),
        "compute": outer_texts(node.aggregates),
        "time": text(node.time),
        "size": span_text(shape.size, time),
        "step": span_text(shape.step, time),
        "offset": span_text(shape.offset, time) if shape.offset else "",
        "complete": "by the watermark" if node.bound is not None else "at the end",
    }
    return f"Aggregate in frames of {WINDOWS[shape.kind]}", properties | late_property(node.late)


@passes.IDENTITY.of(SessionAggregate)
def _identify_session_aggregate(node: SessionAggregate) -> Identity:
    from runnel.planner.identity.expressions import outer_texts, span_text, text
    from runnel.planner.identity.nodes import late_property

    properties = {
        "by": _window_keys(node.keys, node.columns),
        "compute": outer_texts(node.aggregates),
        "time": text(node.time),
        "gap": span_text(node.gap, node.time.type),
        "of": outer_texts(node.keys[place] for place in node.partition),
    }
    emission = _emission(node.every, node.lateness, node.time.type)
    return "Aggregate by sessions", properties | emission | late_property(node.late)


@passes.IDENTITY.of(EventTimeAggregate)
def _identify_event_time_aggregate(node: EventTimeAggregate) -> Identity:
    from runnel.planner.identity.expressions import outer_texts
    from runnel.planner.identity.nodes import aggregate, late_property

    title, properties = aggregate(node)
    until = {"until": outer_texts(node.keys[number] for number, _ in node.bounds)}
    emission = _emission(node.every, node.lateness, node.keys[node.bounds[0][0]].type)
    return title, properties | until | emission | late_property(node.late)


def _window_keys(keys: Sequence[Expression], columns: Iterable[int]) -> str:
    from runnel.planner.identity.expressions import text

    return ", ".join(_BOUNDS[place] if place < 0 else text(keys[place]) for place in columns)


def _emission(every: int | None, lateness: int, time: SqlType) -> Properties:
    from runnel.planner.identity.expressions import span_text

    early = "" if every is None else str(timedelta(microseconds=every))
    return {
        "early results every": early,
        "allowed lateness": span_text(lateness, time) if lateness else "",
    }


@passes.STATE_FORMS.of(SessionAggregate)
def _form_of_session_aggregate(node: SessionAggregate) -> StateForm:
    from runnel.planner.identity.expressions import outer_texts
    from runnel.planner.identity.vertices import sessions
    from runnel.relation.state_identity import Form

    partition = outer_texts(node.keys[place] for place in node.partition)
    same = {**_grouped(node.keys, node.aggregates, node.time), "of": partition}
    return Form.SESSIONS, sessions(node.gap, node.time.type, node.every, node.lateness), same


@passes.STATE_FORMS.of(FramedAggregate)
def _form_of_framed_aggregate(node: FramedAggregate) -> StateForm:
    from runnel.relation.state_identity import Form

    same = _grouped((), node.aggregates, node.time)
    return Form.FRAMES, _windows(node, node.columns), same


@passes.STATE_FORMS.of(EventTimeAggregate)
def _form_of_event_time_aggregate(node: EventTimeAggregate) -> StateForm:
    from runnel.relation.state_identity import Form

    found = node.windowed
    if found is None:
        bounded = node.keys[node.bounds[0][0]]
        return Form.GROUPS, _without_windows(node), _grouped(node.keys, node.aggregates, bounded)
    is_overlapping = (
        found.shape.kind is not WindowKind.TUMBLE and found.shape.size > found.shape.step
    )
    windows = _windows(found, found.columns, node.every, node.lateness)
    form = Form.WINDOWS if is_overlapping else Form.GROUPS
    return form, windows, _grouped((), found.aggregates, found.time)


def _grouped(
    keys: tuple[Expression, ...], aggregates: tuple[AggregateCall, ...], time: Expression
) -> dict[str, str]:
    """The properties that must not change for groups of aggregate states. `WINDOW_FINAL` is not
    among them, because it is computed when a result is emitted."""
    from runnel.columns.type_records import type_spelling
    from runnel.planner.identity.expressions import outer_texts

    calls = [call for call in aggregates if call.function != WINDOW_FINAL]
    arguments = [item for call in calls for item in call.expressions]
    return {
        "time": _typed(time),
        "by": ", ".join(map(_typed, keys)),
        "compute": outer_texts(calls),
        "types": ", ".join(
            [
                *(type_spelling(call.type) for call in calls),
                *(type_spelling(item.type) for item in arguments),
            ]
        ),
    }


def _windows(
    found: FramedAggregate | WindowedKeys,
    columns: tuple[int, ...],
    every: int | None = None,
    lateness: int = 0,
) -> StateWindows:
    from runnel.relation.state_identity import StateWindows

    time = found.time.type
    return StateWindows(
        shape=_plain_shape(found.shape),
        is_integer=time.is_integer,
        keys=tuple(_typed(key) for key in found.keys),
        key_indexes=columns,
        bound=str(to_arrow(TIMESTAMP if time.kind is Kind.DATE else time)),
        every=every,
        lateness=lateness,
    )


def _without_windows(node: EventTimeAggregate) -> StateWindows:
    """Of groups by times as they are, or by windows further down: of these there are no others."""
    from runnel.relation.state_identity import StateWindows

    keys = tuple(_typed(key) for key in node.keys)
    return StateWindows(
        shape=WindowShape(WindowKind.TUMBLE, 1),
        is_integer=node.keys[node.bounds[0][0]].type.is_integer,
        keys=keys,
        key_indexes=tuple(range(len(keys))),
        every=node.every,
        lateness=node.lateness,
    )


def _typed(expression: Expression) -> str:
    from runnel.columns.type_records import type_spelling
    from runnel.planner.identity.expressions import outer_text

    return f"{outer_text(expression)} {type_spelling(expression.type)}"


def _plain_shape(shape: WindowShape) -> WindowShape:
    """The offset of a window only counts within one period."""
    period = shape.size if shape.kind is not WindowKind.HOP else shape.step
    return WindowShape(shape.kind, shape.size, shape.step, shape.offset % period)


by_default(
    EventTimeAggregate,
    passes.NARROWABLE,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_COLUMNS,
)
by_default(
    (FramedAggregate, SessionAggregate),
    passes.NARROWABLE,
    passes.STAGES,
    passes.LATE_ROWS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default((EventTimeAggregate, FramedAggregate, SessionAggregate), passes.DYNAMIC_FILTERS)
# Only streams have it.
by_default(EventTimeAggregate, passes.TABLE_SHARING)
# Only streams have it, which a recursion can't read.
by_default(EventTimeAggregate, passes.STAGES)
