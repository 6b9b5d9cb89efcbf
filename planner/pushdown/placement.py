"""Join placement: if the tables of a join belong to two engines, the smaller side moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runnel.foreign.fragment import FragmentEngine
from runnel.planner.estimates import estimate
from runnel.relation.nodes import Relation, Scan, walk

FEWEST_ROWS = 50_000
"""Up to this number of rows of an engine are read directly: another query of the engine, over rows
copied to it, takes longer."""
FACTOR = 50
"""The least ratio of rows read from the engine to rows copied to it at which copying is chosen;
copying a row costs about 30 times as much as reading one."""


def staying(engine: FragmentEngine, node: Relation, strangers: Sequence[Scan]) -> str | None:
    """The reason why the tables of `strangers`, which an engine cannot read, are not copied to it
    for the subplan `node`, which also reads tables of the engine; None if they should be copied."""
    for scan in strangers:
        if not engine.can_take(scan.table):
            return f"{scan.table.name}, which isn't on {engine.name}"
    going = sum(scan.table.row_count() or 0 for scan in strangers)
    there = list(_only_there(engine, node))
    if not there:
        return f"no table of {engine.name}"
    coming = [estimate(part) for part in there]
    total = sum(rows or 0 for rows in coming)
    names = " and ".join(sorted({scan.table.name for scan in strangers}))
    if None not in coming and total < max(FEWEST_ROWS, FACTOR * going):
        return (
            f"{names}: reading about {total} rows from {engine.name} costs less than copying "
            f"{going} to it"
        )
    out = estimate(node)
    if out is not None and None not in coming and out > FACTOR * total:
        return f"{names}: the result has more rows than the tables"
    return None


def _only_there(engine: FragmentEngine, node: Relation) -> Iterator[Relation]:
    """The largest sub-plans all of whose tables the engine has."""
    scans = [item for item in walk(node) if isinstance(item, Scan)]
    if scans and all(engine.can_read(scan.table) for scan in scans):
        yield node
        return
    for item in node.inputs:
        yield from _only_there(engine, item)
