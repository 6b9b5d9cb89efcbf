"""The home of conditions, projections and GROUPING SETS: operators that compute with each row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Column, Expression, Literal, columns_of, conjuncts
from runnel.planner.estimates import Of, filtered_rows
from runnel.planner.lower.dag_builder import CALC, EXPAND
from runnel.planner.operators import passes
from runnel.planner.operators.appending import bounds_of_input, most_rows_of_input, origin_in_input
from runnel.planner.operators.passes import by_default
from runnel.planner.operators.row_by_row import row_by_row
from runnel.planner.physical.choose import choose, choose_as, fuse
from runnel.planner.physical.nodes import (
    Calc,
    Physical,
    PhysicalExpand,
    PhysicalWindow,
    column_names,
)
from runnel.planner.rewriting import conjunction, divide, is_trivial, renumber, substitute
from runnel.planner.rules.column_pruning import Pruned, columns_read, moved, narrow, prune
from runnel.planner.rules.empty_relations import emptied, empty_if_input_is, is_empty
from runnel.planner.rules.predicate_pushdown import Conjuncts, push, retained
from runnel.relation.nodes import Expand, Field, Filter, Limit, Project, Relation, references
from runnel.relation.over import Window

if TYPE_CHECKING:
    from runnel.dag import ProcessorFactory
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.state_columns import Side
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.laterals import Grafted
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.relation.streams import TimeBound


@passes.PRUNING.of(Project)
def _prune_project(node: Project, needed: set[int]) -> Pruned:
    kept = sorted(needed)
    expressions = [node.expressions[i] for i in kept]
    below, places = prune(node.input, columns_read(expressions))
    project = replace(
        node,
        input=below,
        expressions=tuple(map(moved(places), expressions)),
        names=tuple(node.names[i] for i in kept),
    )
    return project, {index: place for place, index in enumerate(kept)}


@passes.MAINTENANCE.of(Project)
def _maintain_project(node: Project, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import computed_per_row, unchanged_columns
    from runnel.relation.live import WEIGHT

    below = maintain(node.input)
    relation = replace(node, input=below.relation)
    if below.is_changing:
        relation = replace(
            relation,
            expressions=(*node.expressions, below.weight),
            names=(*node.names, WEIGHT),
        )
    unique = unchanged_columns(node.expressions, below.unique)
    return computed_per_row(node, below, relation, unique)


@passes.MAINTENANCE.of(Filter)
def _maintain_filter(node: Filter, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import computed_per_row

    below = maintain(node.input)
    return computed_per_row(node, below, replace(node, input=below.relation), below.unique)


@passes.MAINTENANCE.of(Expand)
def _maintain_expand(node: Expand, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import computed_per_row
    from runnel.relation.live import WEIGHT

    below = maintain(node.input)
    relation = replace(node, input=below.relation)
    if below.is_changing:
        relation = replace(
            relation,
            projections=tuple((*expressions, below.weight) for expressions in node.projections),
            names=(*node.names, WEIGHT),
            of_sets=False,
        )
    return computed_per_row(node, below, relation, None)


@passes.PRUNING.of(Filter)
def _prune_filter(node: Filter, needed: set[int]) -> Pruned:
    below, places = prune(node.input, needed | columns_of(node.condition))
    return replace(node, input=below, condition=renumber(node.condition, places)), places


@passes.PRUNING.of(Expand)
def _prune_expand(node: Expand, needed: set[int]) -> Pruned:
    kept = sorted(needed)
    projections = [[expressions[i] for i in kept] for expressions in node.projections]
    below, places = narrow(
        node.input, columns_read(item for expressions in projections for item in expressions)
    )
    expanded = replace(
        node,
        input=below,
        projections=tuple(tuple(map(moved(places), expressions)) for expressions in projections),
        names=tuple(node.names[i] for i in kept),
    )
    return expanded, {index: place for place, index in enumerate(kept)}


@passes.PREDICATES.of(Filter)
def _push_filter(node: Filter, parts: Conjuncts) -> Relation:
    return push(node.input, conjuncts(node.condition) + parts)


@passes.PREDICATES.of(Project)
def _push_project(node: Project, parts: Conjuncts) -> Relation:
    volatile = {i for i, item in enumerate(node.expressions) if is_volatile(item)}
    moving, staying = divide(parts, lambda part: not columns_of(part) & volatile, True)
    below = push(node.input, [substitute(part, node.expressions) for part in moving])
    return retained(node if below is node.input else replace(node, input=below), staying)


passes.EMPTY.add(empty_if_input_is, Project, Expand)


@passes.EMPTY.of(Filter)
def _empty_filter(node: Filter) -> Relation:
    is_false = isinstance(node.condition, Literal) and node.condition.value is not True
    return emptied(node) if is_false or is_empty(node.input) else node


@passes.LIMITS.of(Project)
def _limit_project(node: Project, limit: Limit) -> Relation:
    return replace(node, input=replace(limit, input=node.input))


@passes.CORRELATION.of(Filter)
def _pull_filter(to: Anchoring, node: Filter) -> Pulled:
    """A conjunct that can fail after a correlated one moves up with it."""
    from runnel.planner.rules.decorrelation.pulled import Pulled, fails, outer_indexes

    below = to.rows(node.input)
    parts, staying = list(below.parts), []
    for part in conjuncts(node.condition):
        moved = substitute(part, below.columns)
        if outer_indexes([moved]) or (parts and not below.is_reached and fails(moved)):
            parts.append(moved)
        else:
            staying.append(moved)
    condition = conjunction(staying)
    relation = (
        below.relation
        if condition is None
        else replace(node, input=below.relation, condition=condition)
    )
    is_reached = below.is_reached and len(parts) == len(below.parts)
    return Pulled(relation, below.columns, tuple(parts), None, is_reached)


@passes.CORRELATION.of(Project)
def _pull_project(to: Anchoring, node: Project) -> Pulled:
    from runnel.planner.rules.decorrelation.correlation import project_pulled

    return project_pulled(to, to.pull(node.input), node)


@passes.CORRELATION.of(Expand)
def _pull_expand(to: Anchoring, node: Expand) -> Pulled:
    from runnel.planner.rules.decorrelation.pulled import Pulled, pair_of, with_inner

    below, moved = to.input_of(node)
    count = len(node.names)
    passed = [pair[1] for pair in map(pair_of, below.parts) if pair is not None]
    projections = tuple((*(moved(item) for item in listed), *passed) for listed in node.projections)
    names = (*node.names, *(f"$outer{i}" for i in range(len(passed))))
    relation = replace(node, input=below.relation, projections=projections, names=names)
    positions = iter(references(relation.fields)[count:])
    parts = tuple(
        part if pair_of(part) is None else with_inner(part, next(positions)) for part in below.parts
    )
    return Pulled(relation, references(relation.fields)[:count], parts, None, below.is_reached)


@passes.GRAFTING.of(Project)
def _graft_project(node: Project, left: Relation) -> Grafted | None:
    from runnel.planner.rules.decorrelation.laterals import grafted, over_left

    below = grafted(left, node.input)
    if below is None:
        return None
    relation, columns = _settled(*below)
    return relation, [over_left(item, left, columns) for item in node.expressions]


@passes.GRAFTING.of(Filter)
def _graft_filter(node: Filter, left: Relation) -> Grafted | None:
    from runnel.planner.rules.decorrelation.laterals import grafted, over_left

    below = grafted(left, node.input)
    if below is None:
        return None
    relation, columns = below
    condition = over_left(node.condition, left, columns)
    return Filter(input=relation, condition=condition, position=node.position), columns


def _settled(relation: Relation, columns: list[Expression]) -> Grafted:
    """The same with all columns computed in the relation, so that each can be used more than
    once."""
    if all(map(is_trivial, columns)):
        return relation, columns
    fields: tuple[Field, ...] = relation.fields
    names = (*(item.name for item in fields), *(f"$value{i}" for i in range(len(columns))))
    project = Project(input=relation, expressions=(*references(fields), *columns), names=names)
    return project, list(references(project.fields)[len(fields) :])


@passes.HOISTING.of(Filter)
def _hoist_filter(node: Filter, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.subquery_nodes import filter_with_subqueries

    return filter_with_subqueries(node.input, conjuncts(node.condition), len(node.fields), rewrite)


@passes.HOISTING.of(Project)
def _hoist_project(node: Project, rewrite: Rewrite) -> Relation:
    from runnel.planner.rules.decorrelation.subquery_nodes import project_with_subqueries

    return project_with_subqueries(node, rewrite)


passes.ESTIMATES.add(lambda node, of: filtered_rows(of(node.input), node.condition), Filter)


@passes.ESTIMATES.of(Expand)
def _estimate_expand(node: Expand, of: Of) -> int | None:
    rows = of(node.input)
    return None if rows is None else rows * len(node.projections)


passes.BOUNDS.add(bounds_of_input, Filter)


@passes.BOUNDS.of(Project)
def _bounds_of_project(node: Project) -> Bounds:
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of

    below = time_bounds(node.input)
    found = ((index, bound_of(item, below)) for index, item in enumerate(node.expressions))
    return {index: bound for index, bound in found if bound is not None}


@passes.BOUNDS.of(Expand)
def _bounds_of_expand(node: Expand) -> Bounds:
    """A column is bounded if it is bounded in all the rows that are made from one."""
    from runnel.planner.event_time.bounds import time_bounds
    from runnel.planner.event_time.expressions import bound_of, least_bound

    below = time_bounds(node.input)
    bounds: dict[int, TimeBound] = {}
    for index, items in enumerate(zip(*node.projections, strict=True)):
        found = least_bound(bound_of(item, below) for item in items)
        if found is not None:
            bounds[index] = found
    return bounds


passes.ORIGINS.add(origin_in_input, Filter)


@passes.ORIGINS.of(Project)
def _origin_in_project(node: Project, index: int) -> tuple[Relation, Expression]:
    return node.input, node.expressions[index]


passes.FINAL_ROWS.add(lambda node: True, Filter, Project, Expand)


passes.FRAGMENT_INPUTS.add_classes(Expand, Filter, Project)


passes.MOST_ROWS.add(most_rows_of_input, Filter, Project)


@passes.MOST_ROWS.of(Expand)
def _most_rows_of_expand(node: Expand) -> int | None:
    from runnel.planner.pushdown.memory_need import most_rows

    rows = most_rows(node.input)
    return None if rows is None else rows * len(node.projections)


@passes.CHOICES.of(Filter, Project)
def _choose_calc(node: Relation, snapshot: Snapshot) -> Physical:
    projections = None
    below = node
    if isinstance(below, Project):
        projections = below.expressions
        below = below.input
    parts: list[Expression] = []
    while isinstance(below, Filter):
        parts = conjuncts(below.condition) + parts
        below = below.input
    chosen = choose(below, snapshot)
    if isinstance(below, Window) and isinstance(chosen, PhysicalWindow) and parts:
        from runnel.planner.physical.rank_limits import most_rows

        chosen = replace(chosen, most=most_rows(parts, below))
    return fuse(chosen, conjunction(parts), projections, node)


passes.CHOICES.add(choose_as(PhysicalExpand), Expand)


@passes.EXPLAIN.of(Filter)
def _describe_filter(node: Filter) -> Description:
    from runnel.planner.explain.parts import plain

    return "Filter", {"where": plain(node.condition)}


@passes.EXPLAIN.of(Project)
def _describe_project(node: Project) -> Description:
    from runnel.planner.explain.parts import field_names, named

    return "Project", {"columns": named(node.expressions, field_names(node.fields))}


@passes.EXPLAIN.of(Calc)
def _describe_calc(node: Calc) -> Description:
    from runnel.planner.explain.parts import field_names, named, optional

    columns = (
        ""
        if node.projections is None
        else named(node.projections, field_names(node.fields)) or "none"
    )
    return "Calc", {"where": optional(node.condition), "columns": columns}


@passes.EXPLAIN.of(Expand, PhysicalExpand)
def _describe_expand(node: Expand | PhysicalExpand) -> Description:
    """Of each list only what isn't the same in all of them."""
    differing = [
        i for i, items in enumerate(zip(*node.projections, strict=True)) if len(set(items)) > 1
    ]
    lists = "; ".join(", ".join(str(items[i]) for i in differing) for items in node.projections)
    columns = ", ".join(node.fields[i].name for i in differing)
    return f"Expand, {len(node.projections)} times", {"columns": columns, "lists": lists}


def _calc(node: Calc) -> ProcessorFactory:
    from runnel.processors.calc import calc

    return calc(node.condition, node.projections, column_names(node.fields))


def _expand(node: PhysicalExpand) -> ProcessorFactory:
    from runnel.processors.expand import expand

    return expand(node.projections, column_names(node.fields))


row_by_row(Calc, CALC, _calc)
row_by_row(PhysicalExpand, EXPAND, _expand)


@passes.DYNAMIC_FILTERS.of(Calc)
def _narrow_calc(node: Calc, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import narrow, over_input

    if node.projections is not None:
        keys = tuple(substitute(key, node.projections) for key in keys)
    return over_input(node, narrow(node.input, keys, feed))


@passes.IDENTITY.of(Calc)
def _identify_calc(node: Calc) -> Identity:
    from runnel.planner.identity.expressions import named_texts
    from runnel.planner.identity.nodes import optional_text

    names = [field.name for field in node.fields]
    columns = "" if node.projections is None else named_texts(node.projections, names) or "none"
    return "Calc", {"where": optional_text(node.condition), "columns": columns}


@passes.IDENTITY.of(PhysicalExpand)
def _identify_expand(node: PhysicalExpand) -> Identity:
    from runnel.planner.identity.expressions import text
    from runnel.planner.identity.nodes import names_text

    differing = [
        place
        for place, items in enumerate(zip(*node.projections, strict=True))
        if len(set(items)) > 1
    ]
    lists = "; ".join(
        ", ".join(text(items[place]) for place in differing) for items in node.projections
    )
    columns = names_text(node.fields[place] for place in differing)
    return f"Expand, {len(node.projections)} times", {"columns": columns, "lists": lists}


@passes.STATE_COLUMNS.of(Calc)
def _side_of_calc(node: Calc, index: int) -> Side | None:
    if node.projections is None:
        return "", node.input, index
    item = node.projections[index]
    return ("", node.input, item.index) if isinstance(item, Column) else None


by_default(Filter, passes.STREAM_CHECKS, passes.STATE_NAMES, passes.REPLAY, passes.BLOCKING)
by_default(
    Project,
    passes.ESTIMATES,
    passes.STREAM_CHECKS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
)
by_default(
    Expand,
    passes.PREDICATES,
    passes.LIMITS,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ORIGINS,
    passes.STREAM_CHECKS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
)
by_default(Calc, passes.NARROWABLE)
by_default(PhysicalExpand, passes.NARROWABLE, passes.DYNAMIC_FILTERS, passes.STATE_COLUMNS)
# Fewer input rows would change its result.
by_default(Filter, passes.LIMITS)
passes.RENDERED.add_classes(Expand, Filter, Project)
