"""What nodes of event time say of themselves in EXPLAIN: as in `describe`."""

from __future__ import annotations

from runnel.planner.explain.parts import (
    Description,
    Properties,
    field_names,
    join_title,
    optional,
    pairs,
    time_bounds,
)
from runnel.planner.operators.passes import EXPLAIN
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.relation.streams import AsOfJoin


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


EXPLAIN.add_all(
    {
        physical_streams.IntervalJoin: _stream_join,
        physical_streams.WindowJoin: _stream_join,
        AsOfJoin: _as_of_join,
        physical_streams.PhysicalAsOfJoin: _as_of_join,
    }
)
