"""The home of OVER."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.errors import NotSupportedError
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Change, Column, Expression, columns_of
from runnel.planner.estimates import estimate
from runnel.planner.lower.dag_builder import WINDOW, Lowering, VertexOutput, key_names
from runnel.planner.operators import passes
from runnel.planner.operators.appending import most_rows_of_input, origin_in_input
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose, fuse
from runnel.planner.physical.nodes import Physical, PhysicalWindow, column_names
from runnel.planner.physical.stream_nodes import EventTimeWindow
from runnel.planner.rewriting import divide
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow, prune
from runnel.planner.rules.empty_relations import empty_if_input_is
from runnel.planner.rules.predicate_pushdown import Conjuncts, plain_columns, pushed
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.over import Window, WindowCall

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.vertices import StateForm
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.planner.verify.replay import Replay
    from runnel.processors.recursion import StageDefinition


@passes.PRUNING.of(Window)
def _prune_window(node: Window, needed: set[int]) -> Pruned:
    width = len(node.input.fields)
    kept = [i for i in range(len(node.calls)) if width + i in needed]
    if not kept:
        return prune(node.input, needed)
    window = replace(
        node, calls=tuple(node.calls[i] for i in kept), names=tuple(node.names[i] for i in kept)
    )
    below, places = narrow(
        node.input, {i for i in needed if i < width} | columns_read(window.own_expressions)
    )
    window_below = window.map_expressions(moved(places)).with_inputs((below,))
    return window_below, places | {
        width + i: len(below.fields) + place for place, i in enumerate(kept)
    }


@passes.MAINTENANCE.of(Window)
def _maintain_window(node: Window, maintain: Maintain) -> Maintained:
    """Values that a watermark makes final are appended as without EMIT CHANGES."""
    from runnel.planner.event_time.check import check_streaming
    from runnel.planner.live.maintained import Maintained
    from runnel.planner.live.partitions import live_partitions

    below = maintain(node.input)
    if not below.is_changing:
        stays = replace(node, input=below.relation)
        try:
            check_streaming(stays)
        except NotSupportedError:
            pass
        else:
            return Maintained(stays)
    first, *others = (call.partition for call in node.calls)
    keys = tuple(key for key in dict.fromkeys(first) if all(key in item for item in others))

    def over(rows: Relation, moved: Change) -> Relation:
        calls = tuple(call.map_expressions(moved) for call in node.calls)
        return replace(node, input=rows, calls=calls, emission=None)

    return live_partitions(node, below, keys, over)


@passes.PREDICATES.of(Window)
def _push_window(node: Window, parts: Conjuncts) -> Relation:
    """Moves conjuncts over the partition columns, except DOUBLE columns: 0 and −0 are in one
    partition, but a condition can distinguish them."""
    shared = set.intersection(*(plain_columns(call.partition) for call in node.calls))
    moving, staying = divide(parts, lambda part: columns_of(part) <= shared, True)
    return pushed(node, moving, staying)


passes.EMPTY.add(empty_if_input_is, Window)


@passes.CORRELATION.of(Window)
def _pull_window(to: Anchoring, node: Window) -> Pulled:
    from runnel.planner.rules.decorrelation.pulled import pair_of

    below, moved = to.input_of(node)
    keys = tuple(pair[1] for pair in map(pair_of, below.parts) if pair is not None)
    mapped = [call.map_expressions(moved) for call in node.calls]
    calls = tuple(replace(call, partition=(*keys, *call.partition)) for call in mapped)
    relation = replace(node, input=below.relation, calls=calls)
    added = references(relation.fields)[len(below.relation.fields) :]
    return replace(below, relation=relation, columns=(*below.columns, *added))


@passes.HOISTING.of(Window)
def _hoist_window(node: Window, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.hoisting import hoist_below

    return hoist_below(node, rewrite)


@passes.BOUNDS.of(Window)
def _bounds_of_window(node: Window) -> Bounds:
    from runnel.planner.event_time.bounds import time_bounds

    if not node.input.never_ends:
        # The rows are emitted at the end of this input, possibly long before the watermark's
        # other inputs end.
        return {}
    # Loaded on first use: few queries have OVER on a stream.
    from runnel.planner.event_time.over_streams import bounds_above

    return bounds_above(node, time_bounds(node.input))


passes.ORIGINS.add(origin_in_input, Window)


@passes.STREAM_CHECKS.of(Window)
def _check_window(node: Window, unbounded_state: bool) -> None:
    if node.input.never_ends:
        # Loaded on first use: few statements have OVER on a stream.
        from runnel.planner.event_time.refusals import check_window

        check_window(node, unbounded_state)


passes.STATE_NAMES.add(lambda node: True, Window)


@passes.REPLAY.of(Window)
def _replay_window(node: Window, replay: Replay) -> Relation:
    from runnel.planner.verify.replay import without_emission

    return without_emission(node, replay)


passes.FRAGMENT_INPUTS.add_classes(Window)


passes.BLOCKING.add(lambda node: "sort for OVER", Window)


passes.MOST_ROWS.add(most_rows_of_input, Window)


@passes.CHOICES.of(Window)
def _choose_window(node: Window, snapshot: Snapshot) -> Physical:
    if node.input.is_unbounded and node.input.never_ends:
        # Loaded on first use: few statements read streams.
        from runnel.planner.physical.stream_windows import choose_event_time_window

        return choose_event_time_window(
            node, lambda item, below: _one_window(item, below, snapshot)
        )
    return _one_window(node, None, snapshot)


def _one_window(node: Window, chosen: Physical | None, snapshot: Snapshot) -> PhysicalWindow:
    """The window over `chosen`, or over the operator chosen for its input."""
    shared = [
        key for key in node.calls[0].partition if all(key in call.partition for call in node.calls)
    ]
    keys = tuple(key for key in shared if isinstance(key, Column))
    below, calls = node.input, node.calls
    width = len(below.fields)
    if shared and not keys and not is_volatile(shared[0]):
        # An edge partitions rows by columns only.
        names = (*(item.name for item in below.fields), "$partition")
        below = Project(
            input=below, expressions=(*references(below.fields), shared[0]), names=names
        )
        if chosen is not None:
            chosen = fuse(chosen, None, below.expressions, below)
        keys = (Column(index=width, name="$partition", type=shared[0].type),)
        calls = tuple(_partitioned(call, shared[0], keys[0]) for call in calls)
    chosen = choose(below, snapshot) if chosen is None else chosen
    return PhysicalWindow(
        fields=node.fields, rows=estimate(node), input=chosen, calls=calls, width=width, keys=keys
    )


def _partitioned(call: WindowCall, key: Expression, column: Column) -> WindowCall:
    return replace(
        call, partition=tuple(column if item == key else item for item in call.partition)
    )


@passes.EXPLAIN.of(Window, PhysicalWindow)
def _describe_window(node: Window | PhysicalWindow) -> Description:
    from runnel.planner.explain.parts import window

    return window(node)


@passes.EXPLAIN.of(EventTimeWindow)
def _describe_event_time_window(node: EventTimeWindow) -> Description:
    from runnel.planner.explain.parts import late_property, listed, time_span, window

    title, properties = window(node)
    lead = max((reach.lead for reach in node.reaches), default=0)
    order = {"in order of" if node.reaches else "until": listed(item for item, _ in node.bounded)}
    behind = {"behind": time_span(lead, node.bounded[0][0].type)} if lead else {}
    return title, properties | order | behind | late_property(node.late)


passes.STATE_TEXTS.add(
    lambda node: "all rows of a partition" if node.keys else "all rows", PhysicalWindow
)


@passes.STATE_TEXTS.of(EventTimeWindow)
def _state_of_event_time_window(node: EventTimeWindow) -> str:
    from runnel.planner.explain.nodes import WITHOUT_BOUND
    from runnel.planner.explain.parts import time_span
    from runnel.relation.window_reach import furthest

    if not node.reaches:
        return "the rows of each partition, until the watermark completes it"
    reach, time = furthest(node.reaches), node.bounded[0][0].type
    kept = [
        f"rows until the watermark is {time_span(reach.lead, time)} past them"
        if reach.lead
        else "rows until the watermark"
    ]
    if reach.span > 0:
        kept.append(f"rows of the last {time_span(reach.span, time)}")
    ever = f" of each partition, {WITHOUT_BOUND}" if node.calls[0].partition else ""
    if reach.rows or reach.groups:
        kept.append(
            f"the last {max(reach.rows, reach.groups)} "
            f"{'rows' if reach.rows >= reach.groups else 'groups of peers'}{ever}"
        )
    if reach.is_running:
        kept.append(f"a row{ever}")
    return "; ".join(kept)


@passes.LOWERING.of(PhysicalWindow)
def _lower_window(to: Lowering, node: PhysicalWindow) -> VertexOutput:
    from runnel.processors.over.window import window

    rows = to.lower(node.input)
    names = column_names(node.fields)
    most = None if node.most is None else (node.most.call, node.most.number)
    supplier = window(node.calls, node.width, names, most, node.input.fields)
    return to.by_key(rows, WINDOW, supplier, key_names(node.keys, rows.names), names)


@passes.LOWERING.of(EventTimeWindow)
def _lower_event_time_window(to: Lowering, node: EventTimeWindow) -> VertexOutput:
    from runnel.planner.lower.streams import event_time_window_of

    rows = to.lower(node.input)
    names = column_names(node.fields)
    window = to.by_key(
        rows, WINDOW, event_time_window_of(node, names), key_names(node.keys, rows.names), names
    )
    return to.with_late(window, node.late)


@passes.STAGES.of(PhysicalWindow)
def _stage_of_window(node: PhysicalWindow) -> StageDefinition:
    from runnel.processors.over.window import window
    from runnel.processors.recursion import StageDefinition

    return StageDefinition(
        window(node.calls, node.width, column_names(node.fields), None, node.input.fields),
        needs_all=True,
    )


passes.STREAM_SHARING.add_classes(EventTimeWindow)


passes.TABLE_SHARING.add_classes(PhysicalWindow)


passes.WORTH_SHARING.add_classes(PhysicalWindow)


@passes.DYNAMIC_FILTERS.of(PhysicalWindow)
def _narrow_window(node: PhysicalWindow, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import columns_of_keys, narrow_input

    if not columns_of_keys(keys) <= {key.index for key in node.keys if key.index < node.width}:
        return None
    return narrow_input(node, keys, feed)


@passes.IDENTITY.of(PhysicalWindow)
def _identify_window(node: PhysicalWindow) -> Identity:
    from runnel.planner.identity.expressions import text

    names = [field.name for field in node.fields[-len(node.calls) :]]
    computed = ", ".join(
        f"{text(call)} AS {name}" for call, name in zip(node.calls, names, strict=True)
    )
    most = "" if node.most is None else f"{names[node.most.call]} <= {text(node.most.number)}"
    return "Window", {"compute": computed, "keep": most}


@passes.IDENTITY.of(EventTimeWindow)
def _identify_event_time_window(node: EventTimeWindow) -> Identity:
    from runnel.planner.identity.expressions import outer_texts, span_text
    from runnel.planner.identity.nodes import late_property

    title, properties = _identify_window(node)
    lead = max((reach.lead for reach in node.reaches), default=0)
    order = {
        "in order of" if node.reaches else "until": outer_texts(item for item, _ in node.bounded)
    }
    behind = {"behind": span_text(lead, node.bounded[0][0].type) if lead else ""}
    return title, properties | order | behind | late_property(node.late)


@passes.STATE_FORMS.of(EventTimeWindow)
def _form_of_event_time_window(node: EventTimeWindow) -> StateForm:
    """The rows are as they are; the names of the calls may change."""
    from runnel.planner.identity.expressions import outer_texts, text
    from runnel.planner.identity.nodes import LATE, node_text, types_text
    from runnel.relation.state_identity import Form

    types = types_text(node.fields[-len(node.calls) :])
    most = "" if node.most is None else f"; keep: {node.most.call} <= {text(node.most.number)}"
    whole = node_text(node, (LATE, "compute", "keep"))
    return Form.ROWS, None, {"": f"{whole}: {outer_texts(node.calls)} of {types}{most}"}


by_default(Window, passes.GRAFTING, passes.ESTIMATES, passes.FINAL_ROWS)
by_default(
    PhysicalWindow,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    EventTimeWindow,
    passes.NARROWABLE,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default(Window, passes.LIMITS)
by_default(EventTimeWindow, passes.DYNAMIC_FILTERS)
# Only streams have it.
by_default(EventTimeWindow, passes.TABLE_SHARING)
# Only streams have it, which a recursion can't read.
by_default(EventTimeWindow, passes.STAGES)
passes.RENDERED.add_classes(Window)
