"""Fragments: replaces the largest subplans that another engine can run by scans of their results.

Subplans are offered from the root down, first to the engines that have their tables, then to
DuckDB. An engine that can read all tables of a subplan and prefers to run it either renders it or
names the construct that it cannot render; then the smaller subplans below are offered, and Runnel's
operators do the rest. Small queries over Runnel's own tables are not offered. If the tables of a
join belong to two engines, the smaller side moves (`staying`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.connector import IndexedTable
from runnel.deadline import check_time
from runnel.foreign.fragment import Fragment, FragmentEngine, Unrenderable, engine_of
from runnel.planner.estimates import estimate
from runnel.planner.operators.passes import FRAGMENT_INPUTS
from runnel.planner.physical.index_choice import choose_index
from runnel.planner.pushdown.memory_need import too_large
from runnel.planner.pushdown.partial_aggregation import partial_groups
from runnel.planner.pushdown.split_plans import split_plan, with_top_below
from runnel.planner.rules.group_reduction import reduce_groups
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Project,
    Relation,
    Scan,
    walk,
)

if TYPE_CHECKING:
    from runnel.planner.environment import Pushdown


def with_fragments(
    relation: Relation, snapshot: Snapshot, pushdown: Pushdown
) -> tuple[Relation, str]:
    """The plan with fragments in it, itself where there are none; and why an engine that would have
    run more of it doesn't, if that is for want of memory."""
    engines = list(_engines(relation, pushdown))
    if not engines:
        return relation, ""
    places = {id(node.table.engine) for node in walk(relation) if isinstance(node, Scan)}
    # Groups are reduced by the rows of another table, which must be where the groups are.
    placement = FragmentPlacement(snapshot, engines)
    return placement.with_fragments(
        reduce_groups(relation) if len(places) == 1 else relation
    ), placement.left_out


def _engines(relation: Relation, pushdown: Pushdown) -> Iterator[FragmentEngine]:
    scans = [
        node for node in walk(relation) if isinstance(node, Scan) and not node.table.is_unbounded
    ]
    own = {id(engine): engine for scan in scans if (engine := engine_of(scan.table)) is not None}
    yield from own.values()
    if any(_is_large(scan, pushdown.rows) for scan in scans) or pushdown.rows == 0:
        yield pushdown.duckdb()


FEWEST = 10
"""DuckDB is not considered for fewer than 1/FEWEST of the rows from which on it is worthwhile."""


def _is_large(scan: Scan, rows: int) -> bool:
    return hasattr(scan.table, "duckdb_relation") or (scan.table.row_count() or 0) >= rows // FEWEST


class FragmentPlacement:
    """Replaces subplans by fragments.

    _stopped: the reason why the plan above the current node is not in a fragment; "" if there is
        none.
    left_out: the reason why an engine has too little memory for a subplan.
    """

    def __init__(self, snapshot: Snapshot, engines: list[FragmentEngine]) -> None:
        self._snapshot = snapshot
        self._engines = engines
        self._stopped = ""
        self.left_out = ""

    def with_fragments(self, node: Relation) -> Relation:
        """The plan with fragments in it; the same plan if there are none."""
        check_time()
        if isinstance(node, Fragment):
            return node
        outside = self._stopped
        fragment = self._fragment(node)
        if fragment is not None:
            self._stopped = outside
            return fragment
        apart = [engine for engine in self._engines if engine.is_apart]
        if apart:
            changed = self._in_parts(node, apart)
            if changed is not None:
                self._stopped = outside
                return changed
        if node in FRAGMENT_INPUTS:
            inputs = tuple(self.with_fragments(item) for item in node.inputs)
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                node = node.with_inputs(inputs)
        self._stopped = outside
        return node

    def _in_parts(self, node: Relation, engines: Sequence[FragmentEngine]) -> Relation | None:
        """The plan divided so that engines do more of it: an aggregation is one of their groups, a
        condition is two."""
        if isinstance(node, Aggregate):
            found = partial_groups(node, engines)
            if found is not None:
                above, final = found
                return above.with_inputs((final.with_inputs((self.with_fragments(final.input),)),))
        for engine in engines:
            plan = split_plan(engine, node)
            if plan is not None:
                return self._below_top(plan)
            top = with_top_below(engine, node)
            if top is not None:
                return top.with_inputs(
                    (top.input.with_inputs(tuple(map(self.with_fragments, top.input.inputs))),)
                )
        return None

    def _below_top(self, node: Relation) -> Relation:
        """The plan with fragments in what is below its topmost filters and projections."""
        fragment = self._fragment(node)
        if fragment is not None or not isinstance(node, Filter | Project):
            return self.with_fragments(node) if fragment is None else fragment
        return node.with_inputs((self._below_top(node.input),))

    def _fragment(self, node: Relation) -> Fragment | None:
        if node.is_unbounded:
            return None
        scans = [item for item in walk(node) if isinstance(item, Scan)]
        for engine in self._engines:
            if not self._gets(engine, node, scans) or not engine.prefers(node):
                continue
            if any(self._uses_index(scan) for scan in scans) or self._is_too_large(engine, node):
                continue
            try:
                source = engine.fragment(node)
            except Unrenderable as refused:
                self._stopped = refused.what
                continue
            return Fragment(
                source=source, relation=node, stopped=self._stopped, position=node.position
            )
        return None

    def _gets(self, engine: FragmentEngine, node: Relation, scans: list[Scan]) -> bool:
        """Whether the engine has the tables of a subplan, or the missing ones should be copied to
        it."""
        strangers = [scan for scan in scans if not engine.can_read(scan.table)]
        if not strangers or not any(scan.table.engine is engine for scan in scans):
            return not strangers
        reason = staying(engine, node, strangers)
        if reason is not None:
            self._stopped = reason
        return reason is None

    def _is_too_large(self, engine: FragmentEngine, node: Relation) -> bool:
        """Whether the subplan needs more memory than the engine has. Runnel's operators spill."""
        room = engine.memory
        reason = None if room is None else too_large(node, room)
        if reason is None:
            return False
        self._stopped = reason
        self.left_out = self.left_out or f"not on {engine.name}: {reason}"
        return True

    def _uses_index(self, scan: Scan) -> bool:
        """Whether an index finds the scan's few rows."""
        table = scan.table
        return (
            scan.predicate is not None
            and isinstance(table, IndexedTable)
            and bool(self._snapshot.indexes_on(table.name))
            and choose_index(scan, self._snapshot) is not None
        )


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
