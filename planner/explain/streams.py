"""What nodes of event time say of themselves in EXPLAIN: as in `describe`."""

from __future__ import annotations

from datetime import timedelta

from runnel.planner.explain.parts import (
    Description,
    Properties,
    aggregate,
    field_names,
    join_title,
    listed,
    optional,
    pairs,
    time_bounds,
    time_span,
)
from runnel.planner.operators.passes import EXPLAIN
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.relation.streams import WINDOW_COLUMNS, AsOfJoin


def _event_time_aggregate(node: physical_streams.EventTimeAggregate) -> Description:
    title, properties = aggregate(node)
    first = node.bounds[0][0]
    properties["until"] = listed(node.keys[number] for number, _ in node.bounds)
    if node.every is not None:
        properties["early results every"] = str(timedelta(microseconds=node.every))
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.keys[first].type)
    return title, properties | late_property(node.late)


def _session_aggregate(node: physical_streams.SessionAggregate) -> Description:
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


def late_property(late: physical_streams.LateOutput | None) -> Properties:
    return {} if late is None else {"late rows": late.table.name}


def _stream_join(node: physical_streams.IntervalJoin | physical_streams.WindowJoin) -> Description:
    link = node.times.time_bounds
    how = (
        " of streams"
        if isinstance(node, physical_streams.IntervalJoin)
        else " of streams, when complete"
    )
    return join_title(node.kind, how), {
        "on": pairs(node.left_keys, node.right_keys, node.null_safe),
        "times": "" if link is None else time_bounds(link, node.left.fields, node.right.fields),
        "where": optional(node.condition),
        "columns": "" if node.columns is None else ", ".join(field_names(node.fields)) or "none",
    } | _late_sides(node.late)


def _late_sides(
    late: tuple[physical_streams.LateOutput | None, physical_streams.LateOutput | None],
) -> Properties:
    return late_property(late[0] or late[1])


def _as_of_join(node: AsOfJoin | physical_streams.PhysicalAsOfJoin) -> Description:
    shape = node if isinstance(node, AsOfJoin) else node.shape
    sign = ("<" if shape.forward else ">") + ("" if shape.strict else "=")
    columns = (
        ""
        if isinstance(node, AsOfJoin) or node.columns is None
        else ", ".join(field_names(node.fields)) or "none"
    )
    return "Left as-of join" if shape.outer else "As-of join", {
        "on": pairs(node.left_keys, node.right_keys, ()),
        "time": f"{node.left_time} {sign} {node.right_time}",
        "columns": columns,
    } | ({} if isinstance(node, AsOfJoin) else _late_sides(node.late))


def _framed_aggregate(node: physical_streams.FramedAggregate) -> Description:
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


EXPLAIN.add_all(
    {
        physical_streams.EventTimeAggregate: _event_time_aggregate,
        physical_streams.FramedAggregate: _framed_aggregate,
        physical_streams.SessionAggregate: _session_aggregate,
        physical_streams.IntervalJoin: _stream_join,
        physical_streams.WindowJoin: _stream_join,
        AsOfJoin: _as_of_join,
        physical_streams.PhysicalAsOfJoin: _as_of_join,
    }
)
