"""Adjacent filters and projections are merged; a projection that changes nothing is dropped.

Two projections are merged only if nothing is computed twice: an expression that is not a column or
a constant may be used at most once. A projection over literal rows is computed into the rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from runnel.deadline import check_time
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Column, Expression, conjuncts, walk
from runnel.planner.rewriting import conjunction, is_trivial, substitute
from runnel.relation.nodes import Filter, Project, Relation, Values, transform


def merge_adjacent(relation: Relation) -> Relation:
    """The relation with chains of filters and projections merged."""
    return transform(relation, _merge)


def _merge(node: Relation) -> Relation:
    check_time()
    if isinstance(node, Filter):
        return _merge_filters(node)
    if isinstance(node, Project):
        return _merge_projects(node)
    return node


def _merge_filters(node: Filter) -> Relation:
    if not isinstance(node.input, Filter):
        return node
    condition = conjunction(conjuncts(node.input.condition) + conjuncts(node.condition))
    assert condition is not None
    return replace(node.input, condition=condition)


def _merge_projects(node: Project) -> Relation:
    if isinstance(node.input, Project) and _can_merge(node.expressions, node.input.expressions):
        expressions = tuple(substitute(item, node.input.expressions) for item in node.expressions)
        return _merge_projects(replace(node, input=node.input.input, expressions=expressions))
    if isinstance(node.input, Values) and _fits_rows(node, node.input):
        rows = tuple(
            tuple(substitute(item, row) for item in node.expressions) for row in node.input.rows
        )
        return Values(rows=rows, columns=node.fields, position=node.position)
    return node.input if _is_identity(node) else node


def _can_merge(upper: tuple[Expression, ...], lower: tuple[Expression, ...]) -> bool:
    uses = Counter(leaf.index for item in upper for leaf in walk(item) if isinstance(leaf, Column))
    return all(uses[i] <= 1 or is_trivial(item) for i, item in enumerate(lower))


def _fits_rows(node: Project, values: Values) -> bool:
    """Whether a projection may be computed into literal rows: each volatile or fallible value must
    be used at most once, and the rows must stay few."""
    cells = [cell for row in values.rows for cell in row]
    if any(is_volatile(cell) or can_fail(cell) for cell in cells):
        return all(_can_merge(node.expressions, row) for row in values.rows)
    return len(values.rows) * len(node.expressions) <= MAX_CELLS


MAX_CELLS = 10_000
"""Literal rows with more values than this are left to the operators, which compute by column."""


def _is_identity(node: Project) -> bool:
    if len(node.expressions) != len(node.input.fields) or node.fields != node.input.fields:
        return False
    return all(
        isinstance(item, Column) and item.index == i for i, item in enumerate(node.expressions)
    )
