"""A filter directly above a scan becomes the scan's predicate, over the table's columns.

So the table may use it to read less, an index may answer it, and the columns that only it reads
need not come out of the scan. A volatile conjunct stays above: the table would apply it once, and
the scan once more.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression, conjuncts
from runnel.planner.rewriting import conjunction, renumber
from runnel.relation.nodes import Filter, Relation, Scan, transform


def filter_into_scan(relation: Relation) -> Relation:
    """The relation with filters above scans made predicates of the scans."""
    return transform(relation, _absorb)


def _absorb(node: Relation) -> Relation:
    if (
        not isinstance(node, Filter)
        or not isinstance(node.input, Scan)
        or node.input.limit is not None
    ):
        return node
    scan = node.input
    moving: list[Expression] = []
    staying: list[Expression] = []
    for part in conjuncts(node.condition):
        stays = is_volatile(part) or (bool(staying) and can_fail(part))
        (staying if stays else moving).append(part)
    if not moving:
        return node
    places = dict(enumerate(scan.columns))
    added = [renumber(part, places) for part in moving]
    absorbed = replace(scan, predicate=conjunction([*conjuncts(scan.predicate), *added]))
    rest = conjunction(staying)
    return absorbed if rest is None else replace(node, input=absorbed, condition=rest)
