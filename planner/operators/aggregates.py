"""The home of GROUP BY, DISTINCT and aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.dag import between
from runnel.errors import NotSupportedError
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Column, Expression, Literal, columns_of
from runnel.expressions.nodes import walk as expressions_in
from runnel.planner.estimates import Of, estimate
from runnel.planner.lower.dag_builder import (
    ACCUMULATE,
    AGGREGATE,
    COMBINE,
    Lowering,
    VertexOutput,
    key_names,
)
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import HashAggregate, Physical, column_names
from runnel.planner.rewriting import divide, reads_only, substitute
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow, unchanged
from runnel.planner.rules.empty_relations import emptied, is_empty
from runnel.planner.rules.predicate_pushdown import Conjuncts, push, retained
from runnel.relation.nodes import Aggregate, Filter, Project, Relation, Values, references
from runnel.relation.nodes import walk as relations_of
from runnel.relation.streams import AssignWindows, event_times
from runnel.relation.subqueries import OuterColumn, ScalarSubquery
from runnel.sqltypes import BIGINT

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.planner.verify.replay import Replay
    from runnel.processors.recursion import StageDefinition


@passes.PRUNING.of(Aggregate)
def _prune_aggregate(node: Aggregate, needed: set[int]) -> Pruned:
    count = len(node.keys)
    kept = [i for i in range(len(node.aggregates)) if count + i in needed]
    if not kept and not count and node.aggregates:
        kept = [0]
    calls = [node.aggregates[i] for i in kept]
    late = () if node.emission is None else node.emission.late
    read = columns_read([*node.keys, *(item for call in calls for item in call.expressions), *late])
    below, places = narrow(node.input, read)
    move = moved(places)
    aggregate = replace(
        node,
        emission=None if node.emission is None else node.emission.map_expressions(move),
        input=below,
        keys=tuple(map(move, node.keys)),
        aggregates=tuple(call.map_expressions(move) for call in calls),
        names=node.names[:count] + tuple(node.names[count + i] for i in kept),
    )
    return aggregate, unchanged(count) | {count + i: count + place for place, i in enumerate(kept)}


@passes.PREDICATES.of(Aggregate)
def _push_aggregate(node: Aggregate, parts: Conjuncts) -> Relation:
    count = len(node.keys) if not any(is_volatile(key) for key in node.keys) else 0
    moving, staying = divide(parts, lambda part: bool(count) and reads_only(part, 0, count), True)
    below = push(node.input, [substitute(part, node.keys) for part in moving])
    return retained(node if below is node.input else replace(node, input=below), staying)


@passes.EMPTY.of(Aggregate)
def _empty_aggregate(node: Aggregate) -> Relation:
    return emptied(node) if node.keys and is_empty(node.input) else node


@passes.CORRELATION.of(Aggregate)
def _pull_aggregate(to: Anchoring, node: Aggregate) -> Pulled:
    """The inner sides of the conditions become further keys. An aggregation without keys of its own
    also has one row for an outer row without inner rows: the defaults."""
    from runnel.planner.rules.decorrelation.pulled import Pulled, pair_of, with_inner

    below, moved = to.input_of(node)
    keys = [moved(key) for key in node.keys]
    count = len(keys)
    parts = []
    for part in below.parts:
        pair = pair_of(part)
        if pair is None:
            parts.append(part)
            continue
        if pair[1] not in keys[count:]:
            keys.append(pair[1])
        index = keys.index(pair[1], count)
        parts.append(
            with_inner(part, Column(index=index, name=f"$outer{index}", type=pair[1].type))
        )
    names = (
        *node.names[:count],
        *(f"$outer{i}" for i in range(count, len(keys))),
        *node.names[count:],
    )
    calls = tuple(call.map_expressions(moved) for call in node.aggregates)
    relation = replace(node, input=below.relation, keys=tuple(keys), aggregates=calls, names=names)
    columns = references(relation.fields)
    defaults = None if count else tuple(_value_of_no_rows(call) for call in node.aggregates)
    return Pulled(
        relation,
        (*columns[:count], *columns[len(keys) :]),
        tuple(parts),
        defaults,
        below.is_reached,
    )


def _value_of_no_rows(call: AggregateCall) -> Expression:
    from runnel.expressions.aggregates.function import NoRows
    from runnel.expressions.aggregates.registry import function_of

    value = function_of(call).no_rows
    if value is NoRows.ZERO:
        return Literal(value=0, type=BIGINT)
    if value is NoRows.NULL:
        return Literal(value=None, type=call.type)
    # A literal stays: it may be a constant of the call, such as a separator.
    without = call.map_expressions(
        lambda item: Literal(value=None, type=item.type) if _varies(item) else item
    )
    nothing = Aggregate(
        input=Values(rows=(), columns=()), keys=(), aggregates=(without,), names=("value",)
    )
    return ScalarSubquery(relation=nothing, type=call.type, position=call.position)


def _varies(item: Expression) -> bool:
    return bool(columns_of(item)) or any(
        isinstance(leaf, OuterColumn) for leaf in expressions_in(item)
    )


@passes.HOISTING.of(Aggregate)
def _hoist_aggregate(node: Aggregate, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.hoisting import Hoisting

    hoisting = Hoisting(node.input, rewrite)
    keys = tuple(hoisting.rewrite(item) for item in node.keys)
    calls = tuple(call.map_expressions(hoisting.rewrite) for call in node.aggregates)
    return replace(node, input=hoisting.relation, keys=keys, aggregates=calls)


@passes.ESTIMATES.of(Aggregate)
def _estimate_aggregate(node: Aggregate, of: Of) -> int | None:
    if not node.keys:
        return 1
    rows = of(node.input)
    return None if rows is None else max(1, rows // 4)


@passes.BOUNDS.of(Aggregate)
def _bounds_of_aggregate(node: Aggregate) -> Bounds:
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of

    if not node.input.never_ends:
        # As for a window: the groups are emitted at the end of the input.
        return {}
    below = time_bounds(node.input)
    found = ((index, bound_of(key, below)) for index, key in enumerate(node.keys))
    return {index: bound for index, bound in found if bound is not None}


@passes.ORIGINS.of(Aggregate)
def _origin_in_aggregate(node: Aggregate, index: int) -> tuple[Relation, Expression] | None:
    return (node.input, node.keys[index]) if index < len(node.keys) else None


@passes.STREAM_CHECKS.of(Aggregate)
def _check_aggregate(node: Aggregate, unbounded_state: bool) -> None:
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of

    if not node.input.never_ends:
        return
    bounds = time_bounds(node.input)
    if any(bound_of(key, bounds) is not None for key in node.keys):
        return
    what = "aggregation" if node.aggregates else "DISTINCT"
    message = (
        f"streaming {what} is supported only for window aggregation, with imposed order, grouping "
        "by a window bound"
    )
    windows = any(isinstance(item, AssignWindows) for item in relations_of(node.input))
    has_event_time = bool(event_times(node.input))
    if windows and not has_event_time:
        detail = "the windows' input has no order imposed, so no window would ever be complete"
        hint = (
            "add WATERMARK FOR to the mapping, or pass to the window function "
            "TABLE(IMPOSE_ORDER(TABLE t, DESCRIPTOR(ts), lag))"
        )
    elif windows and any(columns_of(key) & set(bounds) for key in node.keys):
        message = (
            "in window aggregation, window_start and window_end must be used directly, "
            "without any transformation"
        )
        detail, hint = (
            "a computed key is bounded by no watermark",
            "group by window_start or window_end as well",
        )
    elif windows or bounds:
        detail = (
            "an input of this query has no end, and none of the keys shows when a group is complete"
        )
        hint = "group by window_end or window_start of TUMBLE, HOP, CUMULATE or SESSION too"
        detail, hint = _windows_of_another_time(node) or (detail, hint)
    else:
        detail = "an input of this query has no end, so the groups would never be complete"
        hint = (
            "aggregate over TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '1' MINUTE)) by "
            "window_end, put a LIMIT into a subquery over the stream, "
            "or aggregate a table that has an end"
        )
    raise NotSupportedError(message, detail=detail, hint=hint, position=node.position)


def _windows_of_another_time(node: Aggregate) -> tuple[str, str] | None:
    """The detail and the hint for windows over a column that is not the one of the watermark; None
    if there are none."""
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of

    for item in relations_of(node.input):
        if not isinstance(item, AssignWindows):
            continue
        known = ", ".join(dict.fromkeys(field.name for field in event_times(item.input)))
        if known and bound_of(item.time, time_bounds(item.input)) is None:
            return (
                f"the windows are over {item.time.name}, and the watermark is the one of {known}",
                f"use windows over {known}; a column AS PROCTIME() has the watermark in a table "
                "without WATERMARK FOR: CREATE TABLE u LIKE t (EXCLUDING WATERMARKS)",
            )
    return None


@passes.MAINTENANCE.of(Aggregate)
def _maintain_aggregate(node: Aggregate, maintain: Maintain) -> Maintained:
    """An aggregation over a table, or by keys that a watermark completes, emits each group once."""
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of
    from runnel.planner.live.aggregation import live_aggregate
    from runnel.planner.live.maintained import Maintained

    below = maintain(node.input)
    if not below.is_changing:
        bounds = time_bounds(below.relation) if node.is_unbounded else {}
        is_final = any(bound_of(key, bounds) is not None for key in node.keys)
        if is_final or not node.is_unbounded:
            unique = tuple(range(len(node.keys)))
            return Maintained(replace(node, input=below.relation), unique=unique)
    return live_aggregate(node, below)


passes.STATE_NAMES.add(lambda node: True, Aggregate)


@passes.REPLAY.of(Aggregate)
def _replay_aggregate(node: Aggregate, replay: Replay) -> Relation:
    from runnel.planner.verify.replay import without_emission

    return without_emission(node, replay)


passes.FRAGMENT_INPUTS.add_classes(Aggregate)


@passes.BLOCKING.of(Aggregate)
def _blocking_group(node: Aggregate) -> str | None:
    from runnel.planner.pushdown.memory_need import is_small

    return None if all(map(is_small, node.aggregates)) else "group"


@passes.MOST_ROWS.of(Aggregate)
def _most_rows_of_aggregate(node: Aggregate) -> int | None:
    from runnel.planner.pushdown.memory_need import most_rows

    return most_rows(node.input) if node.keys else 1


@passes.CHOICES.of(Aggregate)
def _choose_aggregate(node: Aggregate, snapshot: Snapshot) -> Physical:
    if node.input.is_unbounded or _is_above_windows(node):
        # Loaded on first use: few statements read streams, or windows of tables.
        from runnel.planner.physical.stream_aggregates import choose_stream_aggregate

        timed = choose_stream_aggregate(node, lambda below: choose(below, snapshot))
        if timed is not None:
            return timed
    return HashAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=choose(node.input, snapshot),
        keys=node.keys,
        aggregates=node.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates),
    )


def _is_above_windows(node: Aggregate) -> bool:
    below = node.input
    while isinstance(below, Project | Filter):
        below = below.input
    return isinstance(below, AssignWindows)


@passes.EXPLAIN.of(Aggregate, HashAggregate)
def _describe_aggregate(node: Aggregate | HashAggregate) -> Description:
    from runnel.planner.explain.parts import aggregate

    return aggregate(node)


@passes.STATE_TEXTS.of(HashAggregate)
def _state_of_grouped(node: HashAggregate) -> str:
    return "a row for each group, until the input ends" if node.keys else "one row"


@passes.LOWERING.of(HashAggregate)
def _lower_aggregate(to: Lowering, node: HashAggregate) -> VertexOutput:
    from runnel.processors.grouping.aggregate import aggregate
    from runnel.processors.grouping.aggregation import AggregationStage

    expressions = (*node.keys, *(item for call in node.aggregates for item in call.expressions))
    rows = to.in_chunks(to.lower(node.input), expressions)
    names = column_names(node.fields)
    if not rows.is_parallel:
        supplier = aggregate(node.keys, node.aggregates, names, AggregationStage.SINGLE)
        return to.follow(rows, AGGREGATE, supplier, 1, names)
    if not node.two_stage:
        return _aggregate_by_key(to, node, rows, names)
    first = aggregate(node.keys, node.aggregates, names, AggregationStage.ACCUMULATE)
    keys = tuple(f"k{i}" for i in range(len(node.keys)))
    partial = to.follow(rows, ACCUMULATE, first, to.parallelism, keys)
    last = aggregate(node.keys, node.aggregates, names, AggregationStage.COMBINE)
    if not keys:
        return to.follow(partial, COMBINE, last, 1, names)
    combine = to.vertex(COMBINE, last, to.parallelism)
    to.dag.edge(between(partial.vertex, combine).partitioned(*keys))
    return VertexOutput(combine, True, names)


def _aggregate_by_key(
    to: Lowering, node: HashAggregate, rows: VertexOutput, names: tuple[str, ...]
) -> VertexOutput:
    """One stage: the rows of a group meet in the processor that its keys' hash names."""
    from runnel.processors.grouping.aggregate import aggregate
    from runnel.processors.grouping.aggregation import AggregationStage

    supplier = aggregate(node.keys, node.aggregates, names, AggregationStage.SINGLE)
    return to.by_key(rows, AGGREGATE, supplier, key_names(node.keys, rows.names), names)


@passes.STAGES.of(HashAggregate)
def _stage_of_distinct(node: HashAggregate) -> StageDefinition:
    from runnel.processors.grouping.aggregate import aggregate
    from runnel.processors.grouping.aggregation import AggregationStage
    from runnel.processors.recursion import StageDefinition

    supplier = aggregate(
        node.keys, node.aggregates, column_names(node.fields), AggregationStage.SINGLE
    )
    return StageDefinition(supplier, needs_all=True)


passes.TABLE_SHARING.add_classes(HashAggregate)


passes.WORTH_SHARING.add_classes(HashAggregate)


passes.READS_ALL.add_classes(HashAggregate)


@passes.DYNAMIC_FILTERS.of(HashAggregate)
def _narrow_aggregate(node: HashAggregate, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import columns_of_keys, narrow, over_input

    if not columns_of_keys(keys) <= set(range(len(node.keys))):
        return None
    return over_input(
        node, narrow(node.input, tuple(substitute(key, node.keys) for key in keys), feed)
    )


@passes.IDENTITY.of(HashAggregate)
def _identify_hash_aggregate(node: HashAggregate) -> Identity:
    from runnel.planner.identity.nodes import aggregate

    return aggregate(node)


by_default(Aggregate, passes.GRAFTING, passes.FINAL_ROWS)
by_default(
    HashAggregate,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default(Aggregate, passes.LIMITS)
passes.RENDERED.add_classes(Aggregate)
