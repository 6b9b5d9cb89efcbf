"""A filter directly above a scan becomes the scan's predicate, over the table's columns.

The table can then use it to read less, an index can answer it, and columns that only the filter
reads are not returned by the scan. A volatile conjunct stays above: the table would evaluate it
once, and the scan a second time.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression, conjuncts
from runnel.planner.rewriting import conjunction, renumber
from runnel.relation.nodes import Filter, Relation, Scan, transform


def filter_into_scan(relation: Relation) -> Relation:
    """The relation with filters above scans turned into predicates of the scans."""
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
    for conjunct in conjuncts(node.condition):
        stays = is_volatile(conjunct) or (bool(staying) and can_fail(conjunct))
        (staying if stays else moving).append(conjunct)
    if not moving:
        return node
    positions = dict(enumerate(scan.columns))
    added = [renumber(conjunct, positions) for conjunct in moving]
    absorbed = replace(scan, predicate=conjunction([*conjuncts(scan.predicate), *added]))
    rest = conjunction(staying)
    return absorbed if rest is None else replace(node, input=absorbed, condition=rest)
