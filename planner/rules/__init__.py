"""The rewrites of a query, as a tuple that can be printed.

A rule is a pure function from relation to relation that preserves the result: the same rows and
the same columns in the same order. RULES are applied in their order, and all of them again until
nothing changes, at most MAX_ROUNDS times.

Imports its folders `decorrelation` and `join_order`, `planner/rewriting.py`,
`planner/estimates.py`, `join_bounds` of `planner/event_time`, `engine/relation` and
`engine/expressions`. Begin with RULES below, then a small rule such as `merging` or
`limit_pushdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runnel.errors import internal
from runnel.planner.rules.build_side import choose_build_side
from runnel.planner.rules.column_pruning import prune_columns
from runnel.planner.rules.constant_folding import fold_constants
from runnel.planner.rules.decorrelation.subqueries import subqueries_to_joins
from runnel.planner.rules.empty_relations import prune_empty
from runnel.planner.rules.join_keys import find_join_keys
from runnel.planner.rules.limit_pushdown import push_limits
from runnel.planner.rules.merging import merge_adjacent
from runnel.planner.rules.outer_joins import strengthen_outer_joins
from runnel.planner.rules.predicate_pushdown import push_predicates
from runnel.planner.rules.scan_filters import filter_into_scan
from runnel.relation.nodes import Join, Project, Relation, references, walk

MAX_ROUNDS = 5


class Rule(NamedTuple):
    """A rewrite and its name.

    name: the text of the rule where RULES is printed.
    rewrite: returns an equivalent tree, or the same object if the rule does not apply.
    is_necessary: whether some queries can't run without it; the other rules only make them faster.
    """

    name: str
    rewrite: Callable[[Relation], Relation]
    is_necessary: bool = False

    def __repr__(self) -> str:
        return self.name


def simplify_conditions(relation: Relation) -> Relation:
    """Calls `conditions.simplify_conditions`, which is loaded when a condition has a computed
    operand or an OR."""
    if not any(
        part.children
        for node in walk(relation)
        for item in node.own_expressions
        for part in item.children
    ):
        return relation
    from runnel.planner.rules.conditions import simplify_conditions

    return simplify_conditions(relation)


def interval_keys(relation: Relation) -> Relation:
    """Calls `interval_keys.interval_keys`, which is loaded when an expression is an interval or
    may contain one."""
    if not any(
        item.type.is_interval or item.type.is_nested
        for node in walk(relation)
        for item in node.own_expressions
    ):
        return relation
    from runnel.planner.rules.interval_keys import interval_keys

    return interval_keys(relation)


def order_joins(relation: Relation) -> Relation:
    """Calls `order.order_joins` of `join_order`; a relation with fewer than two joins is returned
    as it is."""
    if sum(isinstance(node, Join) for node in walk(relation)) < 2:
        return relation
    # Loaded on first use, so that a process without joins starts sooner.
    from runnel.planner.rules.join_order.order import order_joins

    return order_joins(relation)


RULES: tuple[Rule, ...] = (
    Rule("subqueries to joins", subqueries_to_joins, is_necessary=True),
    Rule("interval keys", interval_keys, is_necessary=True),
    Rule("constant folding", fold_constants),
    Rule("simpler conditions", simplify_conditions),
    Rule("outer joins to inner", strengthen_outer_joins),
    Rule("predicate push-down", push_predicates),
    Rule("empty relations", prune_empty),
    Rule("join order", order_joins),
    Rule("join keys", find_join_keys),
    Rule("build side", choose_build_side, is_necessary=True),
    Rule("filter into scan", filter_into_scan),
    Rule("column pruning", prune_columns),
    Rule("merging", merge_adjacent),
    Rule("limit push-down", push_limits),
)
"""All rewrites in their order. "build side" is necessary for streams: an unbounded input can't be
the build side, and "interval keys" as operators don't compare INTERVALs."""

NECESSARY_RULES = tuple(rule for rule in RULES if rule.is_necessary)


def apply(
    relation: Relation, rules: Iterable[Rule] = RULES, check: Callable[[], None] = lambda: None
) -> Relation:
    """Applies the rules; the result has the same fields. `check` is called between them."""
    fields = relation.fields
    ordered = tuple(rules)
    for _ in range(MAX_ROUNDS):
        before = relation
        for rule in ordered:
            check()
            relation = rule.rewrite(relation)
            if [item.type for item in relation.fields] != [item.type for item in fields]:
                raise internal(f'rule "{rule.name}" changed the columns of the result')
        if relation == before:
            break
    if relation.fields != fields:
        names = tuple(item.name for item in fields)
        relation = Project(input=relation, expressions=references(relation.fields), names=names)
    return relation
