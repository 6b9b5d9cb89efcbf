"""Vertices of operators that only queries on streams have. A join of a stream with a table that is
read again and again is one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.connector import Source
from runnel.dag import Supplier, between
from runnel.errors import internal
from runnel.planner.lower.dag_builder import (
    AS_OF_JOIN,
    JOIN,
    LATE_FILTER,
    REFRESHED_JOIN,
    Lowering,
    VertexOutput,
    source_of,
)
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical, column_names
from runnel.relation.stream_joins import partition_columns

if TYPE_CHECKING:
    from runnel.processors.joins.refreshed import Calculation

LEFT, RIGHT = 0, 1


def lower_interval_join(to: Lowering, node: physical_streams.IntervalJoin) -> VertexOutput:
    """Adds the vertex of an interval join. It is parallel if a join key is a column of both sides;
    the rows are partitioned by such keys."""
    from runnel.processors.joins.build_side import JoinShape
    from runnel.processors.stream_joins.interval_join import interval_join

    left, right = to.lower(node.left), to.lower(node.right)
    names = column_names(node.fields)
    keys = partition_columns(node.left_keys, node.right_keys)
    is_parallel = to.parallelism > 1 and bool(keys[LEFT])
    supplier = interval_join(
        (JoinShape(node.kind, node.condition, node.columns, node.null_safe), node.times),
        (node.left_keys, node.right_keys),
        (node.left.fields, node.right.fields),
        names,
    )
    vertex = to.vertex(JOIN, supplier, to.parallelism if is_parallel else 1)
    for ordinal, (rows, side) in enumerate(((left, node.times.left), (right, node.times.right))):
        edge = (
            between(rows.vertex, vertex)
            .to_input(ordinal)
            .with_watermarks({number: number for number in side.numbers})
        )
        to.dag.edge(
            edge.partitioned(*(rows.names[index] for index in keys[ordinal]))
            if is_parallel
            else edge
        )
    return to.with_late(VertexOutput(vertex, is_parallel, names), *node.late)


def lower_window_join(to: Lowering, node: physical_streams.WindowJoin) -> VertexOutput:
    """Adds the vertex of a window join. It is parallel if the event times of both sides have the
    same type; the rows are partitioned by the event time."""
    from runnel.processors.joins.build_side import JoinShape
    from runnel.processors.stream_joins.window_join import window_join

    left, right = to.lower(node.left), to.lower(node.right)
    names = column_names(node.fields)
    link = node.times.time_bounds
    is_same = (
        not link.low and node.left.fields[link.left].type == node.right.fields[link.right].type
    )
    is_parallel = to.parallelism > 1 and is_same
    supplier = window_join(
        (JoinShape(node.kind, node.condition, node.columns, node.null_safe), node.times),
        (node.left_keys, node.right_keys),
        (node.left.fields, node.right.fields),
        names,
    )
    vertex = to.vertex(JOIN, supplier, to.parallelism if is_parallel else 1)
    for ordinal, (rows, column) in enumerate(((left, link.left), (right, link.right))):
        numbers = {bound.watermark: bound.watermark for _, bound in node.times.bounds[ordinal]}
        edge = between(rows.vertex, vertex).to_input(ordinal).with_watermarks(numbers)
        to.dag.edge(edge.partitioned(rows.names[column]) if is_parallel else edge)
    return VertexOutput(vertex, is_parallel, names)


def lower_as_of_join(to: Lowering, node: physical_streams.PhysicalAsOfJoin) -> VertexOutput:
    """Adds the vertex of an as-of join. The rows are partitioned as in `lower_interval_join`.
    Without keys to partition by, the vertex is parallel only if the right side ends: then each
    processor reads the whole right side."""
    from runnel.processors.stream_joins.as_of_join import as_of_join

    left, right = to.lower(node.left), to.lower(node.right)
    names = column_names(node.fields)
    keys = partition_columns(node.left_keys, node.right_keys)
    version = node.shape.version
    is_divided = (
        to.parallelism > 1
        and bool(keys[LEFT])
        and (version is not None or left.is_parallel or right.is_parallel)
    )
    is_parallel = is_divided or (to.parallelism > 1 and version is None and left.is_parallel)
    supplier = as_of_join(
        node.shape,
        (node.left_keys, node.right_keys),
        (node.left_time, node.right_time),
        (node.left.fields, node.right.fields),
        names,
        node.columns,
    )
    vertex = to.vertex(AS_OF_JOIN, supplier, to.parallelism if is_parallel else 1)
    edges = [between(left.vertex, vertex), between(right.vertex, vertex).to_input(RIGHT)]
    if version is None:
        # The right side ends, so it is read to its end before the left side.
        edges[LEFT] = edges[LEFT].with_priority(1)
    numbers = {bound.watermark: bound.watermark for _, bound in node.shape.bounds}
    edges[LEFT] = edges[LEFT].with_watermarks(numbers)
    edges[RIGHT] = edges[RIGHT].with_watermarks(
        {} if version is None else {version.watermark: version.watermark}
    )
    for ordinal, rows in enumerate((left, right)):
        if is_divided:
            edges[ordinal] = edges[ordinal].partitioned(
                *(rows.names[index] for index in keys[ordinal])
            )
        elif is_parallel:
            edges[ordinal] = (
                edges[ordinal].isolated() if ordinal == LEFT else edges[ordinal].broadcast()
            )
        to.dag.edge(edges[ordinal])
    return to.with_late(VertexOutput(vertex, is_parallel, names), *node.late)


def lower_late_filter(to: Lowering, node: physical_streams.LateFilter) -> VertexOutput:
    """Adds the vertex of a late filter; the operator above writes its late rows.

    If each of its processors reads one processor of the input (`is_aligned`), it compares rows with
    the watermark of that processor; otherwise all of them have the watermark of the whole input.
    """
    from runnel.processors.stateful.late_filter import late_filter
    from runnel.processors.stateful.row_buffer import Buffering

    rows = to.lower(node.input)
    supplier = late_filter(Buffering(node.bounded), node.lateness)
    if node.is_aligned or not rows.is_parallel:
        made = to.follow(rows, LATE_FILTER, supplier, to.parallelism_of(rows))
    else:
        vertex = to.vertex(LATE_FILTER, supplier, to.parallelism)
        to.dag.edge(between(rows.vertex, vertex))
        made = VertexOutput(vertex, True, rows.names)
    to.late_filters.append((made, node.late))
    return made


def event_time_window_of(
    node: physical_streams.EventTimeWindow, names: tuple[str, ...]
) -> Supplier:
    """The supplier of OVER on a stream."""
    from runnel.processors.stateful.row_buffer import Buffering

    writes_late = node.late is not None
    if node.reaches:
        from runnel.processors.over.streamed import ordered_window

        first = node.calls[0]
        waits_for_end = all(reach.is_bounded_in_time for reach in node.reaches)
        lead = max(reach.lead for reach in node.reaches)
        buffering = Buffering(node.bounded, lead, first.order[0].nulls_first and not waits_for_end)
        keys = tuple((first.partition.index(key), key.index) for key in node.keys)
        return ordered_window(
            node.calls, node.reaches, (node.width, names), buffering, keys, writes_late
        )
    from runnel.processors.over.by_watermark import event_time_window

    most = None if node.most is None else (node.most.call, node.most.number)
    partition = tuple(dict.fromkeys(key.index for key in node.keys))
    return event_time_window(
        node.calls, (node.width, names), Buffering(node.bounded), most, partition, writes_late
    )


def event_time_sort_of(node: physical_streams.EventTimeSort) -> Supplier:
    """The supplier of ORDER BY on a stream."""
    from runnel.processors.sorting.event_time_sort import event_time_sort
    from runnel.processors.stateful.row_buffer import Buffering

    first = node.keys[0]
    return event_time_sort(
        node.keys, Buffering(((first.expression, node.bound),)), node.late is not None
    )


def lower_refreshed_join(to: Lowering, node: physical.HashJoin) -> VertexOutput:
    """Adds a vertex that reads the table itself, and runs in the processors of the stream."""
    from runnel.processors.joins.build_side import JoinShape
    from runnel.processors.joins.refreshed import RefreshedTable, refreshed_join

    assert node.refresh is not None
    source, calculations = _reading(node.build)
    table = RefreshedTable(source, calculations, node.refresh * 1_000_000)
    expressions = (*node.probe_keys, *(() if node.condition is None else (node.condition,)))
    rows = to.in_chunks(to.lower(node.probe), expressions)
    names = column_names(node.fields)
    supplier = refreshed_join(
        table,
        JoinShape(node.kind, node.condition, node.columns, node.null_safe, position=node.position),
        (node.probe_keys, node.build_keys),
        (node.probe.fields, node.build.fields),
        names,
    )
    return to.follow(rows, REFRESHED_JOIN, supplier, to.parallelism_of(rows), names)


def _reading(node: Physical) -> tuple[Source, tuple[Calculation, ...]]:
    """The source of a build side, and the filters and projections to apply to its rows."""
    from runnel.processors.joins.refreshed import Calculation

    names = column_names(node.fields)
    if isinstance(node, physical.SourceScan):
        return source_of(node), (Calculation(node.condition, node.projections, names),)
    if isinstance(node, physical.PhysicalFragment):
        return node.source, (Calculation(None, None, names),)
    if isinstance(node, physical.Calc):
        source, calculations = _reading(node.input)
        return source, (*calculations, Calculation(node.condition, node.projections, names))
    raise internal(f"a {type(node).__name__} can't be read again")
