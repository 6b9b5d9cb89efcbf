"""Which side of a join moves, where its tables are in two places: the smaller one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runnel.foreign.fragment import FragmentEngine
from runnel.planner.estimates import estimate
from runnel.relation.nodes import Relation, Scan, walk

FEWEST_ROWS = 50_000
"""No more rows than these of an engine just come over: another query there, over rows brought to
it, takes longer."""
FACTOR = 50
"""So many times more rows must come from the engine as would go to it: a row going in costs some 30
times one coming out."""


def staying(engine: FragmentEngine, node: Relation, strangers: Sequence[Scan]) -> str | None:
    """Why the tables of `strangers`, which an engine can't read, don't travel to it for the
    sub-plan `node`, in which they meet with its own tables; None where they had better do."""
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
        return f"{names}: about {total} rows come from {engine.name} sooner than {going} go to it"
    out = estimate(node)
    if out is not None and None not in coming and out > FACTOR * total:
        return f"{names}: more rows come out than there are"
    return None


def _only_there(engine: FragmentEngine, node: Relation) -> Iterator[Relation]:
    """The largest sub-plans all of whose tables the engine has."""
    scans = [item for item in walk(node) if isinstance(item, Scan)]
    if scans and all(engine.can_read(scan.table) for scan in scans):
        yield node
        return
    for item in node.inputs:
        yield from _only_there(engine, item)
