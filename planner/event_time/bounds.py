"""The columns of a relation that a watermark bounds.

`ImposeOrder` and windows make bounds. Bounds pass nodes that return columns unchanged, or compute
them as `expressions` knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from runnel.planner.event_time.expressions import Bounds
from runnel.planner.operators.passes import BOUNDS
from runnel.relation.nodes import (
    Join,
    Relation,
    Union,
)
from runnel.relation.streams import TimeBound


def time_bounds(relation: Relation) -> Bounds:
    """The bounds of a relation's columns; empty if no column has a watermark."""
    rule = BOUNDS.find(relation)
    return {} if rule is None else rule(relation)


def side_bounds(join: Join) -> tuple[Bounds, Bounds]:
    """The bounds of both sides of a join, each over its own columns."""
    return time_bounds(join.left), time_bounds(join.right)


def as_tied(right: Bounds, tie: tuple[int, int] | None) -> Bounds:
    """The bounds of the right side above a join that merges one of its watermarks with a watermark
    of the left side. `tie`: the numbers of the right and the left watermark, if any."""
    if tie is None:
        return right
    return {
        index: TimeBound(tie[1], b.offset) if b.watermark == tie[0] else b
        for index, b in right.items()
    }


def union_watermarks(node: Union) -> tuple[Bounds, tuple[Mapping[int, int], ...]]:
    """The bounds of a UNION ALL, and for each branch a map from its watermarks to the result's.

    A column that is bounded in all branches gets the watermark that it has in the first one. A
    branch that ends has no watermark of its own: its map contains all of the result's watermarks,
    so that they do not advance before it has ended.

    For example, if column 0 has watermark 1 in the first branch and watermark 2 in the second, the
    result has bounds {0: TimeBound(1, …)} and the maps {1: 1} and {2: 1}.
    """
    branches = [time_bounds(branch) for branch in node.parts]
    endless = [number for number, branch in enumerate(node.parts) if branch.is_unbounded]
    bounds: dict[int, TimeBound] = {}
    renamed: list[dict[int, int]] = [{} for _ in branches]
    for index in sorted(
        set.intersection(*(set(branches[number]) for number in endless)) if endless else ()
    ):
        target = branches[endless[0]][index].watermark
        old = [branches[number][index].watermark for number in endless]
        if all(
            _may_become(target, renamed[number], name)
            for number, name in zip(endless, old, strict=True)
        ):
            for number, name in zip(endless, old, strict=True):
                renamed[number][name] = target
            bounds[index] = TimeBound(
                target, min(branches[number][index].offset for number in endless)
            )
    targets = {bound.watermark: bound.watermark for bound in bounds.values()}
    return bounds, tuple(
        renamed[number] if number in endless else targets for number in range(len(branches))
    )


def _may_become(target: int, renamed: Mapping[int, int], number: int) -> bool:
    """Whether the watermark `target` can be mapped to `number`: it must not be mapped to another
    number, and no second watermark of the branch may be mapped to `number`, because watermarks of
    one branch advance independently."""
    return renamed.get(number, target) == target and all(
        of == number for of, to in renamed.items() if to == target
    )
