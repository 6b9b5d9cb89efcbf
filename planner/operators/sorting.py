"""The home of ORDER BY."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.connector import IndexedTable
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, SortKey, conjuncts
from runnel.planner.estimates import estimate
from runnel.planner.lower.dag_builder import SORT, TOP, TOP_PER_PROCESSOR, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.appending import most_rows_of_input, origin_in_input
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose, fuse, needed_rows, source
from runnel.planner.physical.index_choice import IndexOrderColumn, choose_index
from runnel.planner.physical.nodes import Physical, PhysicalSort, SourceScan, TopN
from runnel.planner.physical.stream_nodes import EventTimeSort
from runnel.planner.rewriting import conjunction, divide, project_columns, substitute
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow
from runnel.planner.rules.empty_relations import empty_if_input_is
from runnel.planner.rules.predicate_pushdown import Conjuncts, pushed
from runnel.relation.nodes import Filter, Project, Relation, Scan, Sort

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.vertices import StateForm
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.planner.verify.replay import Replay
    from runnel.processors.recursion import StageDefinition


@passes.PRUNING.of(Sort)
def _prune_sort(node: Sort, needed: set[int]) -> Pruned:
    below, places = narrow(node.input, needed | columns_read(node.own_expressions))
    return node.map_expressions(moved(places)).with_inputs((below,)), places


@passes.PREDICATES.of(Sort)
def _push_sort(node: Sort, parts: Conjuncts) -> Relation:
    moving, staying = divide(parts, lambda part: True, True)
    return pushed(node, moving, staying)


passes.EMPTY.add(empty_if_input_is, Sort)


@passes.CORRELATION.of(Sort)
def _pull_sort(to: Anchoring, node: Sort) -> Pulled:
    """Without a LIMIT around it, an order inside a query has no effect."""
    return to.pull(node.input)


@passes.HOISTING.of(Sort)
def _hoist_sort(node: Sort, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.hoisting import Hoisting

    hoisting = Hoisting(node.input, rewrite)
    keys = tuple(key._replace(expression=hoisting.rewrite(key.expression)) for key in node.keys)
    return project_columns(
        replace(node, input=hoisting.relation, keys=keys), range(len(node.fields))
    )


@passes.BOUNDS.of(Sort)
def _bounds_of_sort(node: Sort) -> Bounds:
    from runnel.planner.event_time.bounds import time_bounds

    if not node.input.never_ends:
        return {}
    # Loaded on first use: few queries sort a stream.
    from runnel.planner.event_time.over_streams import bounds_above_sort

    return bounds_above_sort(node, time_bounds(node.input))


passes.ORIGINS.add(origin_in_input, Sort)


@passes.STREAM_CHECKS.of(Sort)
def _check_sort(node: Sort, unbounded_state: bool) -> None:
    from runnel.planner.event_time.bounds import time_bounds

    if node.input.never_ends:
        # Loaded on first use: few statements sort a stream.
        from runnel.planner.event_time.over_streams import sort_bound

        if sort_bound(node, time_bounds(node.input)) is not None:
            return
        raise NotSupportedError(
            "sorting is not supported for a streaming query",
            detail="an input of this query has no end, so there is no last row to wait for",
            hint=(
                "leave ORDER BY out, begin it with the column that has a watermark, ascending, or "
                "put a LIMIT into a subquery over the stream and sort that"
            ),
            position=node.position,
        )


passes.STATE_NAMES.add(lambda node: True, Sort)


@passes.REPLAY.of(Sort)
def _replay_sort(node: Sort, replay: Replay) -> Relation:
    from runnel.planner.verify.replay import without_emission

    return without_emission(node, replay)


passes.FRAGMENT_INPUTS.add_classes(Sort)


passes.BLOCKING.add(lambda node: "sort", Sort)


passes.MOST_ROWS.add(most_rows_of_input, Sort)


@passes.CHOICES.of(Sort)
def _choose_sort(node: Sort, snapshot: Snapshot) -> Physical:
    if node.input.is_unbounded and node.input.never_ends:
        # Loaded on first use: few statements read streams.
        from runnel.planner.physical.stream_windows import choose_event_time_sort

        return choose_event_time_sort(node, choose(node.input, snapshot))
    ordered = scan_in_order(node, snapshot)
    if ordered is not None:
        return ordered
    return PhysicalSort(
        fields=node.fields, rows=estimate(node), input=choose(node.input, snapshot), keys=node.keys
    )


def scan_in_order(node: Sort, snapshot: Snapshot) -> SourceScan | None:
    """The input of a sort, read from an index in that order; None if there is no such index."""
    below, projections = node.input, None
    if isinstance(below, Project):
        projections, below = below.expressions, below.input
    parts: list[Expression] = []
    while isinstance(below, Filter):
        parts = conjuncts(below.condition) + parts
        below = below.input
    if not isinstance(below, Scan) or not isinstance(below.table, IndexedTable):
        return None
    order = [_order_column(key, projections, below) for key in node.keys]
    requested = [item for item in order if item is not None]
    lookup = choose_index(below, snapshot, requested) if len(requested) == len(order) else None
    if lookup is None or not lookup.ordered:
        return None
    fused = fuse(source(below, lookup), conjunction(parts), projections, node.input)
    return fused if isinstance(fused, SourceScan) else None


def _order_column(
    key: SortKey, projections: tuple[Expression, ...] | None, scan: Scan
) -> IndexOrderColumn | None:
    expression = key.expression if projections is None else substitute(key.expression, projections)
    if not isinstance(expression, Column) or key.nulls_first is key.descending:
        return None
    return IndexOrderColumn(scan.columns[expression.index], key.descending)


@passes.EXPLAIN.of(Sort, PhysicalSort)
def _describe_sort(node: Sort | PhysicalSort) -> Description:
    from runnel.planner.explain.parts import sort

    return sort(node)


@passes.EXPLAIN.of(TopN)
def _describe_top(node: TopN) -> Description:
    from runnel.planner.explain.parts import optional, plain, sort_keys

    return "Top", {
        "count": plain(node.count),
        "offset": optional(node.offset),
        "by": sort_keys(node.keys),
    }


@passes.EXPLAIN.of(EventTimeSort)
def _describe_event_time_sort(node: EventTimeSort) -> Description:
    from runnel.planner.explain.parts import late_property, sort

    title, properties = sort(node)
    return title, {**properties, "complete": "by the watermark"} | late_property(node.late)


passes.STATE_TEXTS.add(lambda node: "all rows", PhysicalSort)


passes.STATE_TEXTS.add(lambda node: "rows until the watermark", EventTimeSort)


passes.STATE_TEXTS.add(lambda node: f"the first {node.count} rows", TopN)


@passes.LOWERING.of(PhysicalSort)
def _lower_sort(to: Lowering, node: PhysicalSort) -> VertexOutput:
    from runnel.processors.sorting.sort import sort

    rows = to.lower(node.input)
    return to.follow(rows, SORT, sort(node.keys, None, None), 1)


@passes.LOWERING.of(EventTimeSort)
def _lower_event_time_sort(to: Lowering, node: EventTimeSort) -> VertexOutput:
    from runnel.planner.lower.streams import event_time_sort_of

    return to.with_late(
        to.follow(to.lower(node.input), SORT, event_time_sort_of(node), 1), node.late
    )


@passes.LOWERING.of(TopN)
def _lower_top(to: Lowering, node: TopN) -> VertexOutput:
    from runnel.processors.sorting.sort import sort

    rows = to.lower(node.input)
    if rows.is_parallel:
        first = sort(node.keys, needed_rows(node.count, node.offset), None)
        rows = to.follow(rows, TOP_PER_PROCESSOR, first, to.parallelism)
    return to.follow(rows, TOP, sort(node.keys, node.count, node.offset), 1)


@passes.STAGES.of(PhysicalSort)
def _stage_of_sort(node: PhysicalSort) -> StageDefinition:
    from runnel.processors.recursion import StageDefinition
    from runnel.processors.sorting.sort import sort

    return StageDefinition(sort(node.keys, None, None), needs_all=True)


@passes.STAGES.of(TopN)
def _stage_of_top(node: TopN) -> StageDefinition:
    from runnel.processors.recursion import StageDefinition
    from runnel.processors.sorting.sort import sort

    return StageDefinition(sort(node.keys, node.count, node.offset), needs_all=True)


passes.TABLE_SHARING.add_classes(PhysicalSort, TopN)


passes.WORTH_SHARING.add_classes(TopN)


passes.READS_ALL.add_classes(PhysicalSort, TopN)


@passes.DYNAMIC_FILTERS.of(PhysicalSort)
def _narrow_physical_sort(node: PhysicalSort, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import narrow_input

    return narrow_input(node, keys, feed)


@passes.IDENTITY.of(PhysicalSort)
def _identify_physical_sort(node: PhysicalSort) -> Identity:
    from runnel.planner.identity.expressions import outer_texts

    return ("Sort", {"by": outer_texts(node.keys)})


@passes.IDENTITY.of(TopN)
def _identify_top_n(node: TopN) -> Identity:
    from runnel.planner.identity.expressions import outer_text, outer_texts
    from runnel.planner.identity.nodes import optional_text

    return (
        "Top",
        {
            "count": outer_text(node.count),
            "offset": optional_text(node.offset),
            "by": outer_texts(node.keys),
        },
    )


@passes.IDENTITY.of(EventTimeSort)
def _identify_event_time_sort(node: EventTimeSort) -> Identity:
    from runnel.planner.identity.expressions import outer_texts
    from runnel.planner.identity.nodes import late_property

    return (
        "Sort",
        {"by": outer_texts(node.keys), "complete": "by the watermark"} | late_property(node.late),
    )


@passes.STATE_FORMS.of(EventTimeSort)
def _form_of_event_time_sort(node: EventTimeSort) -> StateForm:
    from runnel.planner.identity.vertices import buffered_rows

    return buffered_rows(node)


@passes.STATE_COLUMNS.of(EventTimeSort)
def _side_of_event_time_sort(node: EventTimeSort, index: int) -> tuple[str, Physical, int] | None:
    from runnel.planner.identity.state_columns import of_input

    return of_input(node, index)


by_default(Sort, passes.GRAFTING, passes.ESTIMATES, passes.FINAL_ROWS)
by_default(
    PhysicalSort,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    TopN,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    EventTimeSort,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
)
# Fewer input rows would change its result.
by_default(Sort, passes.LIMITS)
by_default((TopN, EventTimeSort), passes.DYNAMIC_FILTERS)
# Only streams have it.
by_default(EventTimeSort, passes.TABLE_SHARING)
# Only streams have it, which a recursion can't read.
by_default(EventTimeSort, passes.STAGES)
passes.RENDERED.add_classes(Sort)
by_default(Sort, passes.MAINTENANCE)
