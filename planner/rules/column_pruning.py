"""Unused columns are dropped, from the top of the query down to the scans.

Each node is asked for some of its columns. The result is a node that has at least these, in their
old order, and the new position of each. Rows are preserved even if no column is left, because a
count needs none. All keys of an aggregation stay, because they define the groups, and so do all
columns where whole rows are compared.

For example, if columns {0, 2} of a scan of (a, b, c) are needed, the result is a scan of (a, c) and
the positions {0: 0, 2: 1}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from runnel.deadline import check_time
from runnel.expressions.nodes import Expression, columns_of
from runnel.planner.operators.passes import PRUNING
from runnel.planner.rewriting import project_columns, renumber
from runnel.relation.nodes import Join, Relation

if TYPE_CHECKING:
    from runnel.relation.streams import AsOfJoin

Positions = dict[int, int]
Pruned = tuple[Relation, Positions]


def prune_columns(relation: Relation) -> Relation:
    """The relation with the same columns, each computed from as few columns as possible."""
    return exactly(relation, range(len(relation.fields)))


def prune(node: Relation, needed: set[int]) -> Pruned:
    check_time()
    pruned: Pruned = PRUNING.rule(node)(node, needed)
    return pruned


def exactly(node: Relation, needed: Iterable[int]) -> Relation:
    """The node with exactly the needed columns, in order."""
    requested = sorted(needed)
    pruned, positions = prune(node, set(requested))
    return project_columns(pruned, [positions[i] for i in requested])


def narrow(node: Relation, needed: Iterable[int]) -> Pruned:
    """Like `prune`, but without any other columns, because the node above stores whole rows."""
    requested = sorted(needed)
    return exactly(node, requested), {index: at for at, index in enumerate(requested)}


def columns_read(expressions: Iterable[Expression | None]) -> set[int]:
    return {index for item in expressions if item is not None for index in columns_of(item)}


def moved(positions: Positions) -> Callable[[Expression], Expression]:
    return lambda expression: renumber(expression, positions)


def unchanged(count: int) -> Positions:
    return {i: i for i in range(count)}


def late_sides(node: Join | AsOfJoin) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    return ((), ()) if node.late is None else (node.late.left, node.late.right)
