"""The smaller side of a join becomes the build side (the right one), an unbounded input the probe
side.

The sides of an inner, left, right or full join may be swapped; a projection above restores the
order of the columns. If a size is unknown, the sides stay as written: the right one is built.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.deadline import check_time
from runnel.planner.estimates import Estimates
from runnel.planner.rewriting import renumber
from runnel.relation.nodes import Join, JoinKind, Project, Relation, references, transform

_SWAPPED = {
    JoinKind.INNER: JoinKind.INNER,
    JoinKind.CROSS: JoinKind.CROSS,
    JoinKind.LEFT: JoinKind.RIGHT,
    JoinKind.RIGHT: JoinKind.LEFT,
    JoinKind.FULL: JoinKind.FULL,
}


def choose_build_side(relation: Relation) -> Relation:
    """The relation with joins swapped so that the better side is built."""
    sizes = Estimates()

    def turn(node: Relation) -> Relation:
        check_time()
        return (
            _turned(node)
            if isinstance(node, Join) and node.kind in _SWAPPED and _should_swap(node, sizes)
            else node
        )

    return transform(relation, turn)


def _turned(node: Join) -> Relation:
    left, right = len(node.left.fields), len(node.right.fields)
    positions = {i: i + right if i < left else i - left for i in range(left + right)}
    swapped = replace(
        node,
        kind=_SWAPPED[node.kind],
        left=node.right,
        right=node.left,
        left_keys=node.right_keys,
        right_keys=node.left_keys,
        condition=None if node.condition is None else renumber(node.condition, positions),
        late=None if node.late is None else node.late.turned,
    )
    columns = references(swapped.fields)
    order = [*range(right, right + left), *range(right)]
    return Project(
        input=swapped,
        expressions=tuple(columns[i] for i in order),
        names=tuple(columns[i].name for i in order),
        position=node.position,
    )


def _should_swap(node: Join, sizes: Estimates) -> bool:
    left_ends, right_ends = not node.left.never_ends, not node.right.never_ends
    if left_ends != right_ends:
        return left_ends and node.kind is not JoinKind.LEFT
    if node.left.recurs or node.right.recurs:
        return not node.left.recurs and node.kind is not JoinKind.LEFT
    left, right = sizes.of(node.left), sizes.of(node.right)
    if left is None or right is None:
        return False
    return left * _WEIGHTS.get(node.kind, (1, 1))[0] < right * _WEIGHTS.get(node.kind, (1, 1))[1]


_WEIGHTS = {JoinKind.LEFT: (4, 1), JoinKind.RIGHT: (1, 4)}
"""A LEFT join is easier to distribute among processors than a RIGHT join, so a join becomes RIGHT
only if that makes the build side more than four times smaller."""
