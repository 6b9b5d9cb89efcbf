"""The home of joins of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.planner.lower.dag_builder import Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import LateOutput, Physical
from runnel.planner.physical.stream_nodes import (
    IntervalJoin,
    PhysicalAsOfJoin,
    PhysicalStreamJoin,
    WindowJoin,
)
from runnel.planner.rewriting import renumber
from runnel.planner.rules.column_pruning import Pruned, columns_read, late_sides, moved, narrow
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.streams import AsOfJoin
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description, Properties
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.state_columns import Side
    from runnel.planner.identity.vertices import StateForm
    from runnel.planner.verify.replay import Replay
    from runnel.relation.nodes import Relation
    from runnel.relation.stream_joins import BufferedSide, JoinTimeBounds


@passes.PRUNING.of(AsOfJoin)
def _prune_as_of_join(node: AsOfJoin, needed: set[int]) -> Pruned:
    width = len(node.left.fields)
    late_left, late_right = late_sides(node)
    read_left, read_right = (
        (*node.left_keys, node.left_time, *late_left),
        (*node.right_keys, node.right_time, *late_right),
    )
    left, left_places = narrow(
        node.left, {i for i in needed if i < width} | columns_read(read_left)
    )
    right_needed = {i - width for i in needed if i >= width} | columns_read(read_right)
    right, right_places = narrow(node.right, right_needed)
    joined = replace(
        node,
        left=left,
        right=right,
        left_keys=tuple(map(moved(left_places), node.left_keys)),
        right_keys=tuple(map(moved(right_places), node.right_keys)),
        left_time=renumber(node.left_time, left_places),
        right_time=renumber(node.right_time, right_places),
        late=None
        if node.late is None
        else node.late.mapped(moved(left_places), moved(right_places)),
    )
    return joined, left_places | {
        width + old: len(left.fields) + new for old, new in right_places.items()
    }


@passes.BOUNDS.of(AsOfJoin)
def _bounds_of_as_of_join(node: AsOfJoin) -> Bounds:
    """Rows of the right side can have any age, so only the left side's columns are bounded."""
    from runnel.planner.event_time.bounds import time_bounds

    return time_bounds(node.left)


@passes.STREAM_CHECKS.of(AsOfJoin)
def _check_as_of_join(node: AsOfJoin, unbounded_state: bool) -> None:
    from runnel.planner.event_time.check import check_stream_join

    check_stream_join(node, unbounded_state)


passes.STATE_NAMES.add(lambda node: True, AsOfJoin)


@passes.REPLAY.of(AsOfJoin)
def _replay_as_of_join(node: AsOfJoin, replay: Replay) -> Relation:
    from runnel.planner.verify.replay import without_late

    return without_late(node, replay)


@passes.CHOICES.of(AsOfJoin)
def _choose_as_of_join(node: AsOfJoin, snapshot: Snapshot) -> Physical:
    # Loaded on first use: few statements have an as-of join.
    from runnel.planner.event_time.joins import choose_as_of_join

    return choose_as_of_join(node, lambda below: choose(below, snapshot))


passes.NARROWABLE.add_classes(IntervalJoin, PhysicalAsOfJoin, WindowJoin)


@passes.EXPLAIN.of(IntervalJoin, WindowJoin)
def _describe_stream_join(node: IntervalJoin | WindowJoin) -> Description:
    from runnel.planner.explain.parts import field_names, join_title, optional, pairs, time_bounds

    link = node.times.time_bounds
    how = " of streams" if isinstance(node, IntervalJoin) else " of streams, when complete"
    return join_title(node.kind, how), {
        "on": pairs(node.left_keys, node.right_keys, node.null_safe),
        "times": "" if link is None else time_bounds(link, node.left.fields, node.right.fields),
        "where": optional(node.condition),
        "columns": "" if node.columns is None else ", ".join(field_names(node.fields)) or "none",
    } | _late_sides(node.late)


@passes.EXPLAIN.of(AsOfJoin, PhysicalAsOfJoin)
def _describe_as_of_join(node: AsOfJoin | PhysicalAsOfJoin) -> Description:
    from runnel.planner.explain.parts import field_names, pairs

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


def _late_sides(
    late: tuple[LateOutput | None, LateOutput | None],
) -> Properties:
    from runnel.planner.explain.parts import late_property

    return late_property(late[0] or late[1])


@passes.STATE_TEXTS.of(IntervalJoin)
def _state_of_interval_join(node: IntervalJoin) -> str:
    left = _waiting("left", node.times.left, node.left.fields, node.right.fields)
    return f"{left}; {_waiting('right', node.times.right, node.right.fields, node.left.fields)}"


@passes.STATE_TEXTS.of(WindowJoin)
def _state_of_window_join(node: WindowJoin) -> str:
    link = node.times.time_bounds
    left, right = node.left.fields[link.left].name, node.right.fields[link.right].name
    return (
        "the rows of both sides until both watermarks are past their "
        f"{left if left == right else f'{left} and {right}'}"
    )


@passes.STATE_TEXTS.of(PhysicalAsOfJoin)
def _state_of_as_of_join(node: PhysicalAsOfJoin) -> str:
    from runnel.planner.explain.nodes import WITHOUT_BOUND

    if node.shape.version is None:
        return "all rows of the right side"
    versions = "the versions of each key from the last one before the left watermark on"
    if node.shape.due is None:
        versions = f"all versions, {WITHOUT_BOUND}"
    return f"left rows until the versions' watermark is past {node.left_time}; {versions}"


def _waiting(name: str, side: BufferedSide, own: Sequence[Field], other: Sequence[Field]) -> str:
    from runnel.planner.explain.nodes import WITHOUT_BOUND

    if side.watermark is None:
        return f"{name} rows {WITHOUT_BOUND}"
    ends = [
        f"{own[column].name}{_moved(offset, own[column].type)}" for column, offset in side.expiry
    ]
    return f"{name} rows until the other side's watermark is past {' or '.join(ends)}"


def _moved(units: int, time: SqlType) -> str:
    from runnel.planner.explain.parts import time_span

    return "" if not units else f" {'+' if units > 0 else '-'} {time_span(abs(units), time)}"


@passes.LOWERING.of(IntervalJoin)
def _lower_interval_join(to: Lowering, node: IntervalJoin) -> VertexOutput:
    from runnel.planner.lower.streams import lower_interval_join

    return lower_interval_join(to, node)


@passes.LOWERING.of(PhysicalAsOfJoin)
def _lower_as_of_join(to: Lowering, node: PhysicalAsOfJoin) -> VertexOutput:
    from runnel.planner.lower.streams import lower_as_of_join

    return lower_as_of_join(to, node)


@passes.LOWERING.of(WindowJoin)
def _lower_window_join(to: Lowering, node: WindowJoin) -> VertexOutput:
    from runnel.planner.lower.streams import lower_window_join

    return lower_window_join(to, node)


@passes.IDENTITY.of(PhysicalAsOfJoin)
def _identify_as_of_join(node: PhysicalAsOfJoin) -> Identity:
    from runnel.planner.identity.expressions import text
    from runnel.planner.identity.nodes import chosen, late_property, pairs

    sign = ("<" if node.shape.forward else ">") + ("" if node.shape.strict else "=")
    return "Left as-of join" if node.shape.outer else "As-of join", {
        "on": pairs(node.left_keys, node.right_keys),
        "time": f"{text(node.left_time)} {sign} {text(node.right_time)}",
        "columns": chosen(node),
    } | late_property(*node.late)


@passes.IDENTITY.of(IntervalJoin, WindowJoin)
def _identify_stream_join(node: IntervalJoin | WindowJoin) -> Identity:
    from runnel.planner.identity.nodes import JOINS, chosen, late_property, optional_text, pairs

    link = node.times.time_bounds
    complete = "" if isinstance(node, IntervalJoin) else ", when complete"
    return f"{JOINS[node.kind]} of streams{complete}", {
        "on": pairs(node.left_keys, node.right_keys, node.null_safe),
        "times": "" if link is None else _link(link, node.left.fields, node.right.fields),
        "where": optional_text(node.condition),
        "columns": chosen(node),
    } | late_property(*node.late)


def _link(link: JoinTimeBounds, left: Sequence[Field], right: Sequence[Field]) -> str:
    first, second = left[link.left], right[link.right]
    low = "" if link.low is None else f"{_signed(link.low, first.type)} <= "
    high = "" if link.high is None else f" <= {_signed(link.high, first.type)}"
    return f"{low}{second.name} - {first.name}{high}"


def _signed(units: int, time: SqlType) -> str:
    from runnel.planner.identity.expressions import span_text

    return f"-{span_text(-units, time)}" if units < 0 else span_text(units, time)


@passes.STATE_FORMS.of(IntervalJoin, WindowJoin, PhysicalAsOfJoin)
def _form_of_interval_join(node: IntervalJoin | WindowJoin | PhysicalAsOfJoin) -> StateForm:
    from runnel.planner.identity.vertices import buffered_rows

    # A condition on pairs is a filter if no row is emitted without a pair.
    is_inner = isinstance(node, PhysicalStreamJoin) and node.kind is JoinKind.INNER
    return buffered_rows(node, *["where"] * is_inner)


@passes.STATE_COLUMNS.of(IntervalJoin, WindowJoin, PhysicalAsOfJoin)
def _side_of_streams(node: PhysicalStreamJoin | PhysicalAsOfJoin, index: int) -> Side | None:
    from runnel.planner.identity.state_columns import of_join

    return of_join(("left.", node.left), ("right.", node.right), node.columns, index)


by_default(
    AsOfJoin,
    passes.PREDICATES,
    passes.EMPTY,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ESTIMATES,
    passes.ORIGINS,
    passes.FINAL_ROWS,
    passes.FRAGMENT_INPUTS,
    passes.MOST_ROWS,
)
by_default(
    (IntervalJoin, WindowJoin),
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
)
by_default(
    PhysicalAsOfJoin,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
)
# Fewer input rows would change its result.
by_default(AsOfJoin, passes.LIMITS)
by_default((IntervalJoin, WindowJoin, PhysicalAsOfJoin), passes.DYNAMIC_FILTERS)
# No engine with a limit of memory runs it.
by_default(AsOfJoin, passes.BLOCKING)
# Only streams have it.
by_default((IntervalJoin, WindowJoin), passes.TABLE_SHARING)
# Only streams have it, which a recursion can't read.
by_default((IntervalJoin, WindowJoin), passes.STAGES)
by_default(AsOfJoin, passes.RENDERED)
by_default(AsOfJoin, passes.MAINTENANCE)
