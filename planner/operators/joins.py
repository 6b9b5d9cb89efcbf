"""The home of joins, and of the choice of their operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression, Literal, columns_of, conjuncts
from runnel.planner.estimates import Of, estimate
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
from runnel.planner.physical.choose import PARTITION_BUILD_ROWS, choose
from runnel.planner.physical.nodes import HashJoin, Physical
from runnel.planner.rewriting import column, conjunction, divide, reads_only, renumber, shift
from runnel.planner.rules.column_pruning import Pruned, columns_read, late_sides, moved, narrow
from runnel.planner.rules.empty_relations import emptied, is_empty
from runnel.planner.rules.limit_pushdown import limited, rows_needed
from runnel.planner.rules.predicate_pushdown import Conjuncts, push, retained
from runnel.relation.nodes import LEFT_ONLY, MARKS, Join, JoinKind, Limit, Relation
from runnel.relation.subqueries import DependentJoin

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.planner.verify.replay import Replay


@passes.PRUNING.of(Join)
def _prune_join(node: Join, needed: set[int]) -> Pruned:
    width, total = len(node.left.fields), len(node.left.fields) + len(node.right.fields)
    has_mark = node.kind in MARKS
    below = needed - ({width} if has_mark else set())
    if node.condition is not None:
        below = below | columns_of(node.condition)
    late_left, late_right = late_sides(node)
    left, left_places = narrow(
        node.left, {i for i in below if i < width} | columns_read((*node.left_keys, *late_left))
    )
    right_needed = {i - width for i in below if width <= i < total} | columns_read(
        (*node.right_keys, *late_right)
    )
    right, right_places = narrow(node.right, right_needed)
    new_width = len(left.fields)
    places = left_places | {width + old: new_width + new for old, new in right_places.items()}
    joined = replace(
        node,
        left=left,
        right=right,
        left_keys=tuple(map(moved(left_places), node.left_keys)),
        right_keys=tuple(map(moved(right_places), node.right_keys)),
        condition=None if node.condition is None else renumber(node.condition, places),
        late=None
        if node.late is None
        else node.late.mapped(moved(left_places), moved(right_places)),
    )
    if node.kind in LEFT_ONLY:
        return joined, left_places
    return joined, left_places | {width: new_width} if has_mark else places


_INNER = (JoinKind.INNER, JoinKind.CROSS)


_KEEPS_EVERY_LEFT_ROW = (JoinKind.LEFT, JoinKind.SINGLE, *MARKS)


@passes.PREDICATES.of(Join)
def _push_join(node: Join, parts: Conjuncts) -> Relation:
    if node.kind in _INNER:
        return _inner_join(node, parts)
    width = len(node.left.fields)
    own = conjuncts(node.condition)
    to_left: Conjuncts = []
    to_right: Conjuncts = []
    if node.kind in LEFT_ONLY or node.kind in _KEEPS_EVERY_LEFT_ROW:
        keeps = node.kind in _KEEPS_EVERY_LEFT_ROW
        to_left, parts = divide(parts, lambda part: reads_only(part, 0, width), keeps)
        more, own = divide(
            own, lambda part: bool(columns_of(part)) and _is_right(part, width), False
        )
        to_right = [shift(part, -width) for part in more]
        if node.kind is JoinKind.SEMI:
            more, own = divide(own, lambda part: reads_only(part, 0, width), False)
            to_left += more
    elif node.kind is JoinKind.RIGHT:
        to_right, parts = divide(
            parts, lambda part: bool(columns_of(part)) and _is_right(part, width), True
        )
        to_right = [shift(part, -width) for part in to_right]
        to_left, own = divide(
            own, lambda part: bool(columns_of(part)) and reads_only(part, 0, width), False
        )
    joined = replace(
        node,
        left=push(node.left, to_left),
        right=push(node.right, to_right),
        condition=conjunction(own),
    )
    return retained(joined, parts)


def _inner_join(node: Join, parts: Conjuncts) -> Relation:
    """Moves conjuncts of the condition and from above.

    A conjunct over one side moves into that side. All other conjuncts become the join's condition,
    except a volatile conjunct and fallible conjuncts after it, which stay above the join.
    """
    width = len(node.left.fields)
    everything = conjuncts(node.condition) + parts
    to_left, rest = divide(everything, lambda part: reads_only(part, 0, width), False)
    to_right, rest = divide(rest, lambda part: _is_right(part, width), False)
    above: Conjuncts = []
    paired: Conjuncts = []
    for part in rest:
        (above if is_volatile(part) or (above and can_fail(part)) else paired).append(part)
    condition = conjunction(paired)
    joined = replace(
        node,
        kind=JoinKind.CROSS if condition is None and not node.left_keys else JoinKind.INNER,
        left=push(node.left, to_left),
        right=push(node.right, [shift(part, -width) for part in to_right]),
        condition=condition,
    )
    return retained(joined, above)


def _is_right(part: Expression, width: int) -> bool:
    return all(index >= width for index in columns_of(part))


_EMPTY_WITH_RIGHT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI, JoinKind.RIGHT)


_LEFT_WITHOUT_RIGHT = (JoinKind.ANTI, JoinKind.NULL_ANTI)


@passes.EMPTY.of(Join)
def _empty_join(node: Join) -> Relation:
    if is_empty(node.left) and node.kind not in (JoinKind.RIGHT, JoinKind.FULL):
        return emptied(node)
    impossible = is_empty(node.right) or (
        isinstance(node.condition, Literal) and node.condition.value is not True
    )
    if not impossible:
        return node
    if node.kind in _LEFT_WITHOUT_RIGHT:
        return node.left
    if node.kind in _EMPTY_WITH_RIGHT and (node.kind is not JoinKind.RIGHT or is_empty(node.right)):
        return emptied(node)
    return node


_LIMIT_KEEPS_EVERY_LEFT_ROW = (JoinKind.LEFT, *MARKS)


@passes.LIMITS.of(Join)
def _limit_join(node: Join, limit: Limit) -> Relation:
    rows = rows_needed(limit)
    if rows is None or node.kind not in _LIMIT_KEEPS_EVERY_LEFT_ROW:
        return limit
    return replace(limit, input=replace(node, left=limited(node.left, rows)))


@passes.CORRELATION.of(Join)
def _pull_join(to: Anchoring, node: Join) -> Pulled:
    from runnel.planner.rules.decorrelation.correlated_joins import pull_join

    return pull_join(to, node)


@passes.HOISTING.of(Join)
def _hoist_join(node: Join, rewrite: Rewrite) -> Relation:
    """Moves the conjuncts of an inner join's condition from the first subquery on into a filter
    above it."""
    from runnel.planner.rules.decorrelation.hoisting import has_subquery
    from runnel.planner.rules.decorrelation.outer_join_subqueries import outer_join
    from runnel.planner.rules.decorrelation.subquery_nodes import filter_with_subqueries

    if node.kind is not JoinKind.INNER:
        return outer_join(node, rewrite)
    parts = conjuncts(node.condition)
    first = next(i for i, part in enumerate(parts) if has_subquery(part))
    below = replace(node, condition=conjunction(parts[:first]))
    return filter_with_subqueries(below, parts[first:], len(node.fields), rewrite)


@passes.ESTIMATES.of(Join)
def _estimate_join(node: Join, of: Of) -> int | None:
    left, right = of(node.left), of(node.right)
    if left is None or right is None:
        return (
            left
            if node.kind not in (JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT, JoinKind.FULL)
            else None
        )
    if node.kind in LEFT_ONLY:
        return max(1, left // 2)
    if node.kind in (JoinKind.MARK, JoinKind.EXISTS_MARK, JoinKind.SINGLE):
        return left
    if node.left_keys:
        return max(left, right)
    return left * right if node.condition is None else max(left, right, left * right // 4)


@passes.BOUNDS.of(Join)
def _bounds_of_join(node: Join) -> Bounds:
    from runnel.planner.event_time.bounds import as_tied, time_bounds

    left = dict(time_bounds(node.left))
    if node.kind in LEFT_ONLY or node.kind in MARKS:
        return left
    width, right = len(node.left.fields), time_bounds(node.right)
    if node.kind is JoinKind.FULL and left and right:
        # Loaded on first use: few queries on streams have a FULL JOIN.
        from runnel.planner.event_time.join_bounds import tied

        right = as_tied(right, tied(node, left, right))
    return {**left, **{width + index: bound for index, bound in right.items()}}


@passes.ORIGINS.of(Join)
def _origin_in_join(node: Join, index: int) -> tuple[Relation, Expression] | None:
    width = len(node.left.fields)
    side, at = (node.left, index) if index < width else (node.right, index - width)
    return (side, column(side.fields, at)) if at < len(side.fields) else None


@passes.STREAM_CHECKS.of(Join)
def _check_join(node: Join, unbounded_state: bool) -> None:
    from runnel.planner.event_time.check import check_stream_join

    check_stream_join(node, unbounded_state)


passes.STATE_NAMES.add(lambda node: True, Join)


@passes.REPLAY.of(Join)
def _replay_join(node: Join, replay: Replay) -> Relation:
    from runnel.planner.verify.replay import without_late

    return without_late(node, replay)


@passes.FINAL_ROWS.of(Join)
def _is_final_join(node: Join) -> bool:
    if node.left.never_ends and node.right.never_ends:
        return False
    kept = (
        JoinKind.INNER,
        JoinKind.CROSS,
        JoinKind.LEFT if node.left.never_ends else JoinKind.RIGHT,
    )
    return node.kind in kept or (node.kind in LEFT_ONLY and node.left.never_ends)


@passes.MAINTENANCE.of(Join)
def _maintain_join(node: Join, maintain: Maintain) -> Maintained:
    from runnel.planner.live.joins import maintained_join

    return maintained_join(node, maintain)


passes.FRAGMENT_INPUTS.add_classes(Join)


passes.BLOCKING.add(lambda node: "join", Join)


@passes.MOST_ROWS.of(Join)
def _most_rows_of_pairs(node: Join) -> int | None:
    """A key of one side is taken to be unique."""
    from runnel.planner.pushdown.memory_need import most_rows

    left, right = most_rows(node.left), most_rows(node.right)
    if (
        left is None
        or right is None
        or node.kind in LEFT_ONLY
        or node.kind in MARKS
        or node.kind is JoinKind.SINGLE
    ):
        return left
    return max(left, right) if node.left_keys else left * right


_NEEDS_PARTITIONS = (JoinKind.RIGHT, JoinKind.FULL)


_NEEDS_WHOLE_BUILD = (JoinKind.MARK, JoinKind.NULL_ANTI)


@passes.CHOICES.of(Join)
def _choose_join(node: Join, snapshot: Snapshot) -> Physical:
    if node.is_unbounded:
        from runnel.planner.event_time.joins import choose_stream_join

        streaming = choose_stream_join(node, lambda below: choose(below, snapshot))
        if streaming is not None:
            return streaming
    build_rows = estimate(node.right)
    is_large = (
        build_rows is not None
        and build_rows >= PARTITION_BUILD_ROWS
        and node.kind not in _NEEDS_WHOLE_BUILD
    )
    chosen = HashJoin(
        fields=node.fields,
        rows=estimate(node),
        kind=node.kind,
        probe=choose(node.left, snapshot),
        build=choose(node.right, snapshot),
        probe_keys=node.left_keys,
        build_keys=node.right_keys,
        condition=node.condition,
        null_safe=node.null_safe,
        position=node.position,
        is_partitioned=bool(node.left_keys) and (is_large or node.kind in _NEEDS_PARTITIONS),
    )
    if not node.is_unbounded:
        return chosen
    from runnel.planner.event_time.joins import refreshed

    return refreshed(chosen, node)


@passes.EXPLAIN.of(Join)
def _describe_join(node: Join) -> Description:
    from runnel.planner.explain.parts import join_title, optional, pairs

    return join_title(node.kind), {
        "on": pairs(node.left_keys, node.right_keys, node.null_safe),
        "where": optional(node.condition),
    }


by_default(Join, passes.GRAFTING)
by_default(DependentJoin, passes.GRAFTING, passes.HOISTING, passes.ORIGINS)
# A join replaces it after names are given.
by_default(DependentJoin, passes.STATE_NAMES)
# An earlier rule replaces it.
by_default(
    DependentJoin,
    passes.PREDICATES,
    passes.EMPTY,
    passes.LIMITS,
    passes.ESTIMATES,
    passes.BOUNDS,
    passes.STREAM_CHECKS,
    passes.REPLAY,
    passes.FINAL_ROWS,
    passes.FRAGMENT_INPUTS,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
# The rule rewrites it before.
by_default(DependentJoin, passes.CORRELATION)
# An earlier rule replaces it.
not_met(DependentJoin, passes.PRUNING, passes.CHOICES, passes.EXPLAIN)
passes.RENDERED.add_classes(Join)
by_default(DependentJoin, passes.RENDERED)
# An earlier rule replaces it.
by_default(DependentJoin, passes.MAINTENANCE)
