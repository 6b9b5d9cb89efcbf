"""The rules of every node that returns the columns of its one input, each row any number
of times, and appends columns that it computes from that row alone.

Such a node needs no rules of its own in the passes that are named here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.expressions.nodes import Expression
from runnel.planner.operators import passes
from runnel.planner.operators.passes import Positions, by_default
from runnel.planner.rewriting import column, divide, reads_only
from runnel.planner.rules.column_pruning import columns_read, moved, narrow
from runnel.planner.rules.empty_relations import empty_if_input_is
from runnel.planner.rules.predicate_pushdown import pushed
from runnel.relation.nodes import Relation, Single, references

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.laterals import Grafted
    from runnel.planner.rules.decorrelation.pulled import Pulled


def appends_columns(*classes: type[Single], retains_rows: Callable[[Any], bool]) -> None:
    """Registers the rules of these classes.

    retains_rows: `retains_rows(node)`, whether the node returns each input row at least once.
    """
    passes.PRUNING.add(prune, *classes)
    passes.EMPTY.add(empty_if_input_is, *classes)
    passes.HOISTING.add(hoist, *classes)
    passes.CORRELATION.add(pull, *classes)
    passes.GRAFTING.add(graft, *classes)
    passes.BOUNDS.add(bounds_of_input, *classes)
    passes.ORIGINS.add(origin_in_input, *classes)
    passes.FINAL_ROWS.add(lambda node: True, *classes)
    passes.FRAGMENT_INPUTS.add_classes(*classes)
    by_default(
        classes,
        passes.LIMITS,
        passes.STREAM_CHECKS,
        passes.STATE_NAMES,
        passes.REPLAY,
        passes.BLOCKING,
        passes.MOST_ROWS,
    )

    def push(node: Single, conjuncts: list[Expression]) -> Relation:
        width = len(node.input.fields)
        moving, staying = divide(
            conjuncts, lambda part: reads_only(part, 0, width), retains_rows(node)
        )
        return pushed(node, moving, staying)

    passes.PREDICATES.add(push, *classes)


def prune(node: Single, needed: set[int]) -> tuple[Relation, Positions]:
    """For column pruning: all appended columns stay."""
    width = len(node.input.fields)
    below, positions = narrow(
        node.input, {i for i in needed if i < width} | columns_read(node.own_expressions)
    )
    pruned = node.map_expressions(moved(positions)).with_inputs((below,))
    appended = range(len(node.fields) - width)
    return pruned, positions | {width + i: len(below.fields) + i for i in appended}


def hoist(node: Single, rewrite: Rewrite) -> Relation:
    """For subqueries of a node: they become columns of its input."""
    from runnel.planner.rules.decorrelation.hoisting import hoist_below

    return hoist_below(node, rewrite)


def pull(to: Anchoring, node: Single) -> Pulled:
    """For correlation: the expressions read the outer values that the input provides."""
    below, change = to.input_of(node)
    relation = node.map_expressions(change).with_inputs((below.relation,))
    appended = references(relation.fields)[len(below.relation.fields) :]
    return replace(below, relation=relation, columns=(*below.columns, *appended))


def graft(node: Single, left: Relation) -> Grafted | None:
    """For LATERAL: the node on top of the left side."""
    from runnel.planner.rules.decorrelation.laterals import grafted, over_left

    below = grafted(left, node.input)
    if below is None:
        return None
    relation, columns = below
    made = node.map_expressions(lambda item: over_left(item, left, columns))
    made = made.with_inputs((relation,))
    return made, [*columns, *references(made.fields)[len(relation.fields) :]]


def bounds_of_input(node: Single) -> Bounds:
    """For bounds of event time: the columns of the input stay bounded."""
    from runnel.planner.event_time.bounds import time_bounds

    return time_bounds(node.input)


def origin_in_input(node: Single, index: int) -> tuple[Relation, Expression] | None:
    """For origins of columns: the columns of the input come first."""
    fields = node.input.fields
    return (node.input, column(fields, index)) if index < len(fields) else None


def most_rows_of_input(node: Single) -> int | None:
    """For the most rows of a node: no more than its input has."""
    from runnel.planner.pushdown.memory_need import most_rows

    return most_rows(node.input)
