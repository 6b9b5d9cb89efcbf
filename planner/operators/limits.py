"""The home of LIMIT, of a query and within groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, Literal, SortKey, columns_of
from runnel.planner.estimates import Of, estimate, literal_count
from runnel.planner.lower.dag_builder import (
    LIMIT,
    LIMIT_PER_GROUP,
    Lowering,
    VertexOutput,
    key_names,
)
from runnel.planner.operators import passes
from runnel.planner.operators.appending import bounds_of_input, most_rows_of_input, origin_in_input
from runnel.planner.operators.passes import by_default
from runnel.planner.operators.sorting import scan_in_order
from runnel.planner.physical.choose import choose, choose_as
from runnel.planner.physical.nodes import (
    Physical,
    SingleInput,
    SourceScan,
    TopN,
)
from runnel.planner.rewriting import divide, substitute
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow, prune
from runnel.planner.rules.empty_relations import emptied, empty_if_input_is, is_empty
from runnel.planner.rules.predicate_pushdown import Conjuncts, pushed
from runnel.relation.nodes import Limit, Project, Relation, Sort
from runnel.relation.subqueries import GroupLimit

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.processors.recursion import StageDefinition


@frozen(kw_only=True)
class PhysicalLimit(SingleInput):
    """Skips `offset` rows, then returns at most `count` rows (None: all)."""

    family = "limits"

    count: Expression | None
    offset: Expression | None


@frozen(kw_only=True)
class PhysicalGroupLimit(SingleInput):
    """Of the rows with equal keys, in order, the first ones after an offset.

    keys: the expressions by which rows are grouped.
    order: the order within a group.
    count: the number of rows per group; None: all.
    offset: the number of rows per group that are skipped first; None: none.
    """

    family = "limits"

    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    count: Expression | None
    offset: Expression | None


@passes.MAINTENANCE.of(Limit)
def _maintain_limit(node: Limit, maintain: Maintain) -> Maintained:
    """The first rows in an order; the changes themselves have no order."""
    from runnel.planner.live.maintained import refused, stays

    if not node.is_unbounded:
        return stays(node, maintain)
    projections: list[Project] = []
    below = node.input
    while isinstance(below, Project):
        projections.append(below)
        below = below.input
    if not isinstance(below, Sort):
        raise refused(node, "which rows come first is not known before all rows have arrived")
    limit: Relation = GroupLimit(
        input=below.input,
        keys=(),
        order=below.keys,
        count=node.count,
        offset=node.offset,
        position=node.position,
    )
    for projection in reversed(projections):
        limit = replace(projection, input=limit)
    return maintain(limit)


@passes.MAINTENANCE.of(GroupLimit)
def _maintain_group_limit(node: GroupLimit, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import Maintained, refused
    from runnel.planner.live.partitions import live_partitions

    below = maintain(node.input)
    if not node.is_unbounded:
        return Maintained(replace(node, input=below.relation))
    if not node.order:
        raise refused(node, "which rows come first is not known before all rows have arrived")
    return live_partitions(
        node,
        below,
        node.keys,
        lambda rows, moved: node.map_expressions(moved).with_inputs((rows,)),
    )


@passes.PRUNING.of(Limit)
def _prune_limit(node: Limit, needed: set[int]) -> Pruned:
    below, places = prune(node.input, needed)
    return replace(node, input=below), places


@passes.PRUNING.of(GroupLimit)
def _prune_group_limit(node: GroupLimit, needed: set[int]) -> Pruned:
    below, places = narrow(node.input, needed | columns_read(node.own_expressions))
    return node.map_expressions(moved(places)).with_inputs((below,)), places


@passes.PREDICATES.of(GroupLimit)
def _push_group_limit(node: GroupLimit, parts: Conjuncts) -> Relation:
    """Moves conjuncts over the keys alone, which drop only whole groups."""
    keys = {key.index for key in node.keys if isinstance(key, Column)}
    moving, staying = divide(
        parts, lambda part: bool(columns_of(part)) and columns_of(part) <= keys, False
    )
    return pushed(node, moving, staying)


passes.EMPTY.add(empty_if_input_is, GroupLimit)


@passes.EMPTY.of(Limit)
def _empty_limit(node: Limit) -> Relation:
    is_zero = isinstance(node.count, Literal) and node.count.value == 0
    return emptied(node) if is_zero or is_empty(node.input) else node


@passes.CORRELATION.of(Limit)
def _pull_limit(to: Anchoring, node: Limit) -> Pulled:
    from runnel.planner.rules.decorrelation.correlation import keeps_a_row, project_pulled

    projections: list[Project] = []
    below: Relation = node.input
    order: tuple[SortKey, ...] = ()
    while isinstance(below, Project):
        projections.append(below)
        below = below.input
    if isinstance(below, Sort):
        order = below.keys
        below = below.input
    pulled = to.pull(below)
    if pulled.defaults is None or not keeps_a_row(node):
        pulled = _limited(to, to.complete(pulled), node, order)
    for projection in reversed(projections):
        pulled = project_pulled(to, pulled, projection)
    return pulled


@passes.CORRELATION.of(GroupLimit)
def _pull_group_limit(to: Anchoring, node: GroupLimit) -> Pulled:
    pulled = to.rows(node.input)
    return _limited(
        to,
        to.ready(pulled, [substitute(key, pulled.columns) for key in node.keys]),
        node,
        node.order,
    )


def _limited(
    to: Anchoring, pulled: Pulled, node: Limit | GroupLimit, order: tuple[SortKey, ...]
) -> Pulled:
    from runnel.planner.rules.decorrelation.pulled import pair_of, provided, with_outer

    moved = tuple(key.mapped(lambda item: substitute(item, pulled.columns)) for key in order)
    pulled = to.ready(pulled, [key.expression for key in moved])
    values = provided(pulled.parts)
    keys = tuple(pair[1] for pair in map(pair_of, pulled.parts) if pair is not None)
    if isinstance(node, GroupLimit):
        keys += tuple(with_outer(substitute(key, pulled.columns), values) for key in node.keys)
    relation = GroupLimit(
        input=pulled.relation,
        keys=keys,
        order=tuple(key.mapped(lambda item: with_outer(item, values)) for key in moved),
        count=node.count,
        offset=node.offset,
        position=node.position,
    )
    return replace(pulled, relation=relation)


@passes.ESTIMATES.of(Limit)
def _estimate_limit(node: Limit, of: Of) -> int | None:
    rows, count = of(node.input), literal_count(node.count)
    if count is None:
        return rows
    return count if rows is None else min(rows, count)


@passes.ESTIMATES.of(GroupLimit)
def _estimate_group_limit(node: GroupLimit, of: Of) -> int | None:
    rows = of(node.input)
    return None if rows is None else max(1, rows // 4)


passes.BOUNDS.add(bounds_of_input, Limit)


passes.ORIGINS.add(origin_in_input, Limit)


# Its state is the numbers of rows that remain to be skipped and to be emitted.
passes.STATE_NAMES.add(lambda node: True, Limit)


@passes.STREAM_CHECKS.of(GroupLimit)
def _check_group_limit(node: GroupLimit, unbounded_state: bool) -> None:
    if node.input.never_ends:
        raise NotSupportedError(
            "a LIMIT for each outer row is not supported for a streaming query",
            detail=(
                "an input of this query has no end, so the first rows of a group are never known"
            ),
            hint="put the stream on the left side of the join",
            position=node.position,
        )


passes.FRAGMENT_INPUTS.add_classes(GroupLimit, Limit)


passes.BLOCKING.add(lambda node: "sort in groups", GroupLimit)


passes.MOST_ROWS.add(most_rows_of_input, GroupLimit)


@passes.MOST_ROWS.of(Limit)
def _most_rows_of_limit(node: Limit) -> int | None:
    from runnel.planner.pushdown.memory_need import most_rows

    rows, count = most_rows(node.input), literal_count(node.count)
    return count if rows is None else rows if count is None else min(rows, count)


@passes.CHOICES.of(Limit)
def _choose_limit(node: Limit, snapshot: Snapshot) -> Physical:
    below = node.input
    if (
        isinstance(below, Sort)
        and node.count is not None
        and not (below.is_unbounded and below.never_ends)
    ):
        ordered = scan_in_order(below, snapshot)
        if ordered is None:
            return TopN(
                fields=node.fields,
                rows=estimate(node),
                input=choose(below.input, snapshot),
                keys=below.keys,
                count=node.count,
                offset=node.offset,
            )
        return _choose_limited(node, _first_rows(ordered, node))
    return _choose_limited(node, choose(below, snapshot))


passes.CHOICES.add(choose_as(PhysicalGroupLimit), GroupLimit)


def _choose_limited(node: Limit, below: Physical) -> Physical:
    return PhysicalLimit(
        fields=node.fields, rows=estimate(node), input=below, count=node.count, offset=node.offset
    )


def _first_rows(scan: SourceScan, node: Limit) -> SourceScan:
    """The scan with the number of rows that are needed, unless a condition drops some of them."""
    count = literal_count(node.count)
    skipped = 0 if node.offset is None else literal_count(node.offset)
    if scan.condition is not None or count is None or skipped is None:
        return scan
    return replace(scan, request=replace(scan.request, limit=count + skipped))


@passes.EXPLAIN.of(Limit, PhysicalLimit)
def _describe_limit(node: Limit | PhysicalLimit) -> Description:
    from runnel.planner.explain.parts import optional

    return "Limit", {"count": optional(node.count), "offset": optional(node.offset)}


@passes.EXPLAIN.of(GroupLimit, PhysicalGroupLimit)
def _describe_group_limit(node: GroupLimit | PhysicalGroupLimit) -> Description:
    from runnel.planner.explain.parts import listed, optional, sort_keys

    return "Limit per group", {
        "of": listed(node.keys),
        "by": sort_keys(node.order),
        "count": optional(node.count),
        "offset": optional(node.offset),
    }


@passes.STATE_TEXTS.of(PhysicalGroupLimit)
def _state_of_physical_group_limit(node: PhysicalGroupLimit) -> str:
    from runnel.planner.explain.parts import listed

    return f"the first rows of each group of {listed(node.keys)}"


@passes.LOWERING.of(PhysicalLimit)
def _lower_limit(to: Lowering, node: PhysicalLimit) -> VertexOutput:
    from runnel.processors.limit import limit

    rows = to.lower(node.input)
    return to.follow(rows, LIMIT, limit(node.count, node.offset), 1)


@passes.LOWERING.of(PhysicalGroupLimit)
def _lower_group_limit(to: Lowering, node: PhysicalGroupLimit) -> VertexOutput:
    from runnel.processors.grouping.group_limit import group_limit

    rows = to.lower(node.input)
    supplier = group_limit(node.keys, node.order, node.count, node.offset)
    return to.by_key(rows, LIMIT_PER_GROUP, supplier, key_names(node.keys, rows.names))


@passes.STAGES.of(PhysicalLimit)
def _stage_of_limit(node: PhysicalLimit) -> StageDefinition:
    from runnel.processors.limit import limit
    from runnel.processors.recursion import StageDefinition

    return StageDefinition(limit(node.count, node.offset), needs_all=True)


@passes.STAGES.of(PhysicalGroupLimit)
def _stage_of_group_limit(node: PhysicalGroupLimit) -> StageDefinition:
    from runnel.processors.grouping.group_limit import group_limit
    from runnel.processors.recursion import StageDefinition

    return StageDefinition(
        group_limit(node.keys, node.order, node.count, node.offset), needs_all=True
    )


passes.TABLE_SHARING.add_classes(PhysicalLimit, PhysicalGroupLimit)


@passes.IDENTITY.of(PhysicalGroupLimit)
def _identify_physical_group_limit(node: PhysicalGroupLimit) -> Identity:
    from runnel.planner.identity.expressions import outer_texts
    from runnel.planner.identity.nodes import optional_text

    return (
        "Limit per group",
        {
            "of": outer_texts(node.keys),
            "by": outer_texts(node.order),
            "count": optional_text(node.count),
            "offset": optional_text(node.offset),
        },
    )


@passes.IDENTITY.of(PhysicalLimit)
def _identify_physical_limit(node: PhysicalLimit) -> Identity:
    from runnel.planner.identity.nodes import optional_text

    return (
        "Limit",
        {"count": optional_text(node.count), "offset": optional_text(node.offset)},
    )


by_default(
    Limit,
    passes.LIMITS,
    passes.GRAFTING,
    passes.HOISTING,
    passes.STREAM_CHECKS,
    passes.REPLAY,
    passes.BLOCKING,
)
by_default(
    GroupLimit, passes.GRAFTING, passes.HOISTING, passes.ORIGINS, passes.STATE_NAMES, passes.REPLAY
)
by_default(
    PhysicalLimit,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    PhysicalGroupLimit,
    passes.NARROWABLE,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default(Limit, passes.PREDICATES)
by_default(GroupLimit, passes.LIMITS)
by_default((PhysicalLimit, PhysicalGroupLimit), passes.DYNAMIC_FILTERS)
# It is refused on a stream.
by_default(GroupLimit, passes.BOUNDS)
# It is refused on a stream, or by VERIFY JOB.
by_default((Limit, GroupLimit), passes.FINAL_ROWS)
passes.RENDERED.add_classes(GroupLimit, Limit)
