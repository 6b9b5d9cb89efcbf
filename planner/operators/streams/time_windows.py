"""The home of watermarks and windows of event time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, columns_of
from runnel.planner.estimates import Of, estimate
from runnel.planner.lower.dag_builder import IMPOSE_ORDER, SESSION, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.appending import origin_in_input
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import Physical, SourceScan, column_names
from runnel.planner.physical.stream_nodes import (
    LateFilter,
    PhysicalAssignWindows,
    PhysicalImposeOrder,
    SessionRows,
)
from runnel.planner.rewriting import divide, reads_only
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow, prune
from runnel.planner.rules.empty_relations import empty_if_input_is
from runnel.planner.rules.predicate_pushdown import Conjuncts, plain_columns, pushed
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.streams import (
    WINDOW_COLUMNS,
    AssignWindows,
    ImposeOrder,
    TimeBound,
    WindowKind,
)

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.vertices import StateForm
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.processors.recursion import StageDefinition


@passes.PRUNING.of(ImposeOrder)
def _prune_impose_order(node: ImposeOrder, needed: set[int]) -> Pruned:
    below, places = prune(node.input, needed | {node.time})
    return replace(node, input=below, time=places[node.time]), places


@passes.PRUNING.of(AssignWindows)
def _prune_assign_windows(node: AssignWindows, needed: set[int]) -> Pruned:
    width = len(node.input.fields)
    below = {i for i in needed if i < width}
    if len(below) == len(needed) and node.shape.kind in (WindowKind.TUMBLE, WindowKind.SESSION):
        # Each row is in one window, and no column of the window is needed.
        return prune(node.input, below)
    pruned, places = narrow(node.input, below | columns_read(node.own_expressions))
    windows = node.map_expressions(moved(places)).with_inputs((pruned,))
    return windows, places | {width + i: len(pruned.fields) + i for i in range(len(WINDOW_COLUMNS))}


@passes.PREDICATES.of(AssignWindows)
def _push_assign_windows(node: AssignWindows, parts: Conjuncts) -> Relation:
    """Every row is in at least one window, so no row is dropped. But a session depends on all rows
    of its partition."""
    width = len(node.input.fields)
    if node.shape.kind is WindowKind.SESSION:
        keys = plain_columns(node.partition)
        moving, staying = divide(
            parts, lambda part: bool(columns_of(part)) and columns_of(part) <= keys, False
        )
    else:
        moving, staying = divide(parts, lambda part: reads_only(part, 0, width), True)
    return pushed(node, moving, staying)


passes.EMPTY.add(empty_if_input_is, AssignWindows, ImposeOrder)


@passes.CORRELATION.of(AssignWindows)
def _pull_assign_windows(to: Anchoring, node: AssignWindows) -> Pulled:
    """Sessions are separate for each outer row; other windows are the same for all outer rows."""
    from runnel.planner.rules.decorrelation.pulled import pair_of

    below, moved = to.input_of(node)
    time, *partition = (moved(item) for item in node.own_expressions)
    relation = below.relation
    if not isinstance(time, Column):
        names = (*(item.name for item in relation.fields), "$time")
        relation = Project(
            input=relation, expressions=(*references(relation.fields), time), names=names
        )
        time = references(relation.fields)[-1]
    if node.shape.kind is WindowKind.SESSION:
        partition = [pair[1] for pair in map(pair_of, below.parts) if pair is not None] + partition
    windows = replace(node, input=relation, time=time, partition=tuple(partition))
    added = references(windows.fields)[len(relation.fields) :]
    return replace(below, relation=windows, columns=(*below.columns, *added))


@passes.HOISTING.of(AssignWindows)
def _hoist_assign_windows(node: AssignWindows, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.hoisting import hoist_below

    return hoist_below(node, rewrite)


@passes.ESTIMATES.of(AssignWindows)
def _estimate_assign_windows(node: AssignWindows, of: Of) -> int | None:
    """Multiplies by the number of windows that contain a row, on average."""
    rows, shape = of(node.input), node.shape
    if rows is None or not shape.step:
        return rows
    windows = shape.size / shape.step
    return round(rows * (windows if shape.kind is WindowKind.HOP else (windows + 1) / 2))


@passes.BOUNDS.of(ImposeOrder)
def _bounds_of_impose_order(node: ImposeOrder) -> Bounds:
    return {node.time: TimeBound(node.watermark)}


@passes.BOUNDS.of(AssignWindows)
def _bounds_of_assign_windows(node: AssignWindows) -> Bounds:
    from runnel.planner.event_time.bounds import time_bounds

    below = time_bounds(node.input)
    time = below.get(node.time.index)
    width = len(node.input.fields)
    if time is None:
        return below
    if node.shape.kind is WindowKind.SESSION:
        # Rows wait until their session is complete, so only its end is bounded.
        return {width + 1: time, width + 2: time.moved(-1)}
    ends = {width: time.moved(1 - node.shape.size), width + 1: time.moved(1), width + 2: time}
    return {**below, **ends}


passes.ORIGINS.add(origin_in_input, ImposeOrder)


@passes.ORIGINS.of(AssignWindows)
def _origin_in_assign_windows(
    node: AssignWindows, index: int
) -> tuple[Relation, Expression] | None:
    from runnel.planner.event_time.over_streams import from_input

    return None if index == node.time.index else from_input(node, index)


@passes.STREAM_CHECKS.of(AssignWindows)
def _check_assign_windows(node: AssignWindows, unbounded_state: bool) -> None:
    from runnel.planner.event_time.bounds import time_bounds

    if node.shape.kind is not WindowKind.SESSION or not node.input.never_ends:
        return
    if node.time.index not in time_bounds(node.input):
        raise NotSupportedError(
            "SESSION over a stream needs an order imposed on its time column",
            detail="without a watermark no session would ever be complete",
            hint=(
                "add WATERMARK FOR to the mapping, or put TABLE(IMPOSE_ORDER(TABLE t, "
                "DESCRIPTOR(time), lag)) into SESSION"
            ),
            position=node.position,
        )


passes.STATE_NAMES.add(lambda node: node.shape.kind is WindowKind.SESSION, AssignWindows)


passes.REPLAY.add(lambda node, replay: node.input, ImposeOrder)


passes.FINAL_ROWS.add(lambda node: node.shape.kind is not WindowKind.SESSION, AssignWindows)


passes.FINAL_ROWS.add(lambda node: True, ImposeOrder)


@passes.CHOICES.of(ImposeOrder)
def _choose_impose_order(node: ImposeOrder, snapshot: Snapshot) -> Physical:
    """Watermarks per partition of the source if the input is a scan, else an operator that makes
    them; only the input if its rows end."""
    below = choose(node.input, snapshot)
    if not node.input.is_unbounded:
        return below
    if type(below) is SourceScan and below.time is None:
        columns = _columns_read(below) if below.projections is None else below.projections
        return replace(below, time=_time_rule(node, columns[node.time], below.condition))
    rule = _time_rule(node, references(below.fields)[node.time], None)
    return PhysicalImposeOrder(fields=node.fields, rows=below.rows, input=below, time=rule)


def _time_rule(node: ImposeOrder, time: Expression, condition: Expression | None) -> TimeRule:
    return TimeRule(time, condition, node.lag, node.watermark, node.idle_timeout)


def _columns_read(scan: SourceScan) -> tuple[Expression, ...]:
    columns = [scan.table.columns[i] for i in scan.request.columns]
    return tuple(Column(index=i, name=item.name, type=item.type) for i, item in enumerate(columns))


@passes.CHOICES.of(AssignWindows)
def _choose_assign_windows(node: AssignWindows, snapshot: Snapshot) -> Physical:
    if node.shape.kind is WindowKind.SESSION:
        return _choose_session_rows(node, snapshot)
    return PhysicalAssignWindows(
        fields=node.fields,
        rows=estimate(node),
        input=choose(node.input, snapshot),
        shape=node.shape,
        time=node.time,
    )


def _choose_session_rows(node: AssignWindows, snapshot: Snapshot) -> Physical:
    """SESSION if its rows are needed one by one. Keys that are not columns are added as columns
    after the input's, because an edge partitions rows by columns only."""
    from runnel.planner.event_time.bounds import time_bounds

    below, width = node.input, len(node.input.fields)
    computed = [key for key in node.partition if not isinstance(key, Column)]
    names = tuple(f"$partition{number}" for number in range(len(computed)))
    keys = tuple(_session_key(key, computed, names, width) for key in node.partition)
    if computed:
        below = Project(
            input=below,
            expressions=(*references(below.fields), *computed),
            names=(*(item.name for item in below.fields), *names),
        )
    return SessionRows(
        fields=node.fields,
        rows=estimate(node),
        input=choose(below, snapshot),
        gap=node.shape.size,
        time=node.time,
        keys=keys,
        bound=time_bounds(node.input).get(node.time.index),
    )


def _session_key(
    key: Expression, computed: list[Expression], names: tuple[str, ...], width: int
) -> Column:
    if isinstance(key, Column):
        return key
    number = computed.index(key)
    return Column(index=width + number, name=names[number], type=key.type)


passes.NARROWABLE.add_classes(PhysicalAssignWindows)


@passes.EXPLAIN.of(ImposeOrder)
def _describe_impose_order(node: ImposeOrder) -> Description:
    from runnel.planner.explain.parts import time_span

    column = node.fields[node.time]
    return "Impose order", {"watermark": f"{column.name} - {time_span(node.lag, column.type)}"}


@passes.EXPLAIN.of(PhysicalImposeOrder)
def _describe_physical_impose_order(node: PhysicalImposeOrder) -> Description:
    from runnel.planner.explain.parts import watermark_of

    return "Impose order", {"watermark": watermark_of(node.time)}


@passes.EXPLAIN.of(AssignWindows, PhysicalAssignWindows)
def _describe_assign_windows(node: AssignWindows | PhysicalAssignWindows) -> Description:
    from runnel.planner.explain.parts import field_names, listed, time_span

    shape, time = node.shape, node.time.type
    spans = {"step": shape.step, "offset": shape.offset}
    properties = {
        "time": str(node.time),
        "gap" if shape.kind is WindowKind.SESSION else "size": time_span(shape.size, time),
    }
    properties |= {name: time_span(value, time) for name, value in spans.items() if value}
    if isinstance(node, AssignWindows):
        properties["of"] = listed(node.partition)
    elif node.columns is not None:
        properties["columns"] = ", ".join(field_names(node.fields)) or "none"
    return f"{shape.kind.value.capitalize()} windows", properties


@passes.EXPLAIN.of(SessionRows)
def _describe_session_rows(node: SessionRows) -> Description:
    from runnel.planner.explain.parts import listed, time_span

    properties = {
        "time": str(node.time),
        "gap": time_span(node.gap, node.time.type),
        "of": listed(node.keys),
    }
    return "Session windows", properties | {
        "complete": "by the watermark" if node.bound is not None else "at the end"
    }


@passes.EXPLAIN.of(LateFilter)
def _describe_late_filter(node: LateFilter) -> Description:
    from runnel.planner.explain.parts import late_property, listed, time_span

    properties = {"in time by": listed(item for item, _ in node.bounded)}
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.bounded[0][0].type)
    return "Late filter", properties | late_property(node.late)


@passes.STATE_TEXTS.of(SessionRows)
def _state_of_session_rows(node: SessionRows) -> str:
    until = "the watermark is past its end" if node.bound is not None else "the input ends"
    return f"the rows of each session, until {until}"


@passes.LOWERING.of(PhysicalImposeOrder)
def _lower_impose_order(to: Lowering, node: PhysicalImposeOrder) -> VertexOutput:
    from runnel.processors.sources.impose_order import impose_order

    rows = to.lower(node.input)
    return to.follow(rows, IMPOSE_ORDER, impose_order(node.time), to.parallelism_of(rows))


@passes.LOWERING.of(PhysicalAssignWindows)
def _lower_assign_windows(to: Lowering, node: PhysicalAssignWindows) -> VertexOutput:
    from runnel.processors.time_windows.assign_windows import assign_windows

    rows = to.lower(node.input)
    names = column_names(node.fields)
    supplier = assign_windows(node.shape, node.time, names, node.columns)
    return to.follow(rows, node.shape.kind.value, supplier, to.parallelism_of(rows), names)


@passes.LOWERING.of(SessionRows)
def _lower_session_rows(to: Lowering, node: SessionRows) -> VertexOutput:
    from runnel.processors.sessions.session_rows import session_rows

    rows = to.lower(node.input)
    names = column_names(node.fields)
    width = len(node.fields) - len(WINDOW_COLUMNS)
    keys = tuple(dict.fromkeys(key.index for key in node.keys))
    supplier = session_rows(node.gap, node.time, keys, width, names, node.bound, node.passes_late)
    return to.by_key(rows, SESSION, supplier, tuple(rows.names[key] for key in keys), names)


@passes.LOWERING.of(LateFilter)
def _lower_late_filter(to: Lowering, node: LateFilter) -> VertexOutput:
    from runnel.planner.lower.streams import lower_late_filter

    return lower_late_filter(to, node)


@passes.STAGES.of(PhysicalAssignWindows)
def _stage_of_assign_windows(node: PhysicalAssignWindows) -> StageDefinition:
    from runnel.processors.recursion import StageDefinition
    from runnel.processors.time_windows.assign_windows import assign_windows

    return StageDefinition(
        assign_windows(node.shape, node.time, column_names(node.fields), node.columns)
    )


@passes.STAGES.of(SessionRows)
def _stage_of_session_rows(node: SessionRows) -> StageDefinition:
    from runnel.processors.recursion import StageDefinition
    from runnel.processors.sessions.session_rows import session_rows

    keys = tuple(dict.fromkeys(key.index for key in node.keys))
    width = len(node.fields) - len(WINDOW_COLUMNS)
    supplier = session_rows(node.gap, node.time, keys, width, column_names(node.fields), None)
    return StageDefinition(supplier, needs_all=True)


passes.STREAM_SHARING.add_classes(PhysicalImposeOrder, PhysicalAssignWindows, SessionRows)


passes.TABLE_SHARING.add_classes(PhysicalAssignWindows)


@passes.LATE_ROWS.of(SessionRows)
def _late_rows_of_session_rows(node: SessionRows) -> Physical:
    return node if node.bound is None else replace(node, passes_late=True)


@passes.IDENTITY.of(PhysicalAssignWindows)
def _identify_assign_windows(node: PhysicalAssignWindows) -> Identity:
    from runnel.planner.identity.expressions import span_text, text
    from runnel.planner.identity.nodes import WINDOWS, chosen

    shape, time = node.shape, node.time.type
    return WINDOWS[shape.kind], {
        "time": text(node.time),
        "gap" if shape.kind is WindowKind.SESSION else "size": span_text(shape.size, time),
        "step": span_text(shape.step, time) if shape.step else "",
        "offset": span_text(shape.offset, time) if shape.offset else "",
        "columns": chosen(node),
    }


@passes.IDENTITY.of(PhysicalImposeOrder)
def _identify_physical_impose_order(node: PhysicalImposeOrder) -> Identity:
    from runnel.planner.identity.nodes import watermark

    return (
        "Impose order",
        {"watermark": watermark(node.time)},
    )


@passes.IDENTITY.of(LateFilter)
def _identify_late_filter(node: LateFilter) -> Identity:
    from runnel.planner.identity.expressions import outer_texts, span_text
    from runnel.planner.identity.nodes import late_property

    bounded = [item for item, _ in node.bounded]
    lateness = span_text(node.lateness, bounded[0].type) if node.lateness else ""
    return "Late filter", {
        "in time by": outer_texts(bounded),
        "allowed lateness": lateness,
    } | late_property(node.late)


@passes.IDENTITY.of(SessionRows)
def _identify_session_rows(node: SessionRows) -> Identity:
    from runnel.planner.identity.expressions import outer_texts, span_text, text

    return "Session windows", {
        "time": text(node.time),
        "gap": span_text(node.gap, node.time.type),
        "of": outer_texts(node.keys),
        "complete": "by the watermark" if node.bound is not None else "at the end",
    }


@passes.STATE_FORMS.of(SessionRows)
def _form_of_session_rows(node: SessionRows) -> StateForm:
    from runnel.planner.identity.expressions import outer_texts, text
    from runnel.planner.identity.nodes import columns_text
    from runnel.planner.identity.vertices import sessions
    from runnel.relation.state_identity import Form

    same = {
        "time": text(node.time),
        "of": outer_texts(node.keys),
        "columns": columns_text(node.input.fields),
    }
    return Form.SESSION_ROWS, sessions(node.gap, node.time.type), same


@passes.STATE_FORMS.of(LateFilter)
def _form_of_late_filter(node: LateFilter) -> StateForm:
    from runnel.relation.state_identity import Form

    return (Form.OTHER, None, {"": "late filter"})


@passes.STATE_COLUMNS.of(PhysicalImposeOrder)
def _side_of_physical_impose_order(
    node: PhysicalImposeOrder, index: int
) -> tuple[str, Physical, int] | None:
    from runnel.planner.identity.state_columns import of_input

    return of_input(node, index)


by_default(
    ImposeOrder,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ESTIMATES,
    passes.STREAM_CHECKS,
    passes.STATE_NAMES,
    passes.FRAGMENT_INPUTS,
    passes.MOST_ROWS,
)
by_default(AssignWindows, passes.GRAFTING, passes.REPLAY, passes.FRAGMENT_INPUTS, passes.MOST_ROWS)
by_default(
    PhysicalImposeOrder,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
)
by_default(
    PhysicalAssignWindows,
    passes.STATE_TEXTS,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    SessionRows,
    passes.NARROWABLE,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.STATE_COLUMNS,
)
by_default(
    LateFilter,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default(ImposeOrder, passes.PREDICATES, passes.LIMITS)
by_default(AssignWindows, passes.LIMITS)
by_default((PhysicalImposeOrder, PhysicalAssignWindows, SessionRows), passes.DYNAMIC_FILTERS)
# It is never below a join.
by_default(LateFilter, passes.DYNAMIC_FILTERS)
# No engine with a limit of memory runs it.
by_default((ImposeOrder, AssignWindows), passes.BLOCKING)
# Only streams have it.
by_default((PhysicalImposeOrder, LateFilter), passes.TABLE_SHARING)
# Only streams have it, which a recursion can't read.
by_default((PhysicalImposeOrder, LateFilter), passes.STAGES)
passes.RENDERED.add_classes(AssignWindows, ImposeOrder)
by_default((AssignWindows, ImposeOrder), passes.MAINTENANCE)
