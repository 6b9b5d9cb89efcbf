"""Shares equal subplans of a query on tables: a common table that is used twice, a text file that
would be parsed twice. (For queries on streams see `planner/physical/sharing/streams.py`.)

A join reads one of its inputs to the end before the other input. If both came from one producer,
the full queue of the waiting input would block the producer. A reader that may have to wait
therefore reads through a `Spool`, which accepts all rows at once and stores them, in a file if they
are many. Because a spool has a cost as well, a subplan that is as quick to run twice is not shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from runnel.deadline import check_time
from runnel.expressions.nodes import Expression
from runnel.planner.operators.passes import READS_ALL, TABLE_SHARING, WORTH_SHARING
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, Shared, SourceScan, Spool
from runnel.planner.physical.sharing.merged_scans import merged_scans
from runnel.planner.physical.sharing.streams import VolatileError, key_of


def share_tables(plan: Physical, commons: Mapping[int, Physical] | None = None) -> Physical:
    """The plan of a query on tables, in which each use of a repeated subplan is a `Shared`, if
    sharing it saves work. `commons`: the plans of the common tables that run once, by number."""
    commons = commons or {}
    plan, *common_plans = _with_merged_scans([plan, *commons.values()])
    sharing = _TableSharing(dict(zip(commons, common_plans, strict=True)))
    sharing.note(plan)
    return sharing.built(plan, False) if sharing.finds_any() else plan


def _scans(node: Physical) -> Iterator[SourceScan]:
    if isinstance(node, SourceScan):
        yield node
    if not isinstance(node, physical.PhysicalRecursion):
        for item in node.inputs:
            yield from _scans(item)


def _with_merged_scans(plans: list[Physical]) -> list[Physical]:
    """The plans, with scans of the same file merged: they read the same columns."""
    groups: dict[tuple[int, Expression | None], list[SourceScan]] = {}
    for scan in (scan for plan in plans for scan in _scans(plan)):
        if type(scan) is SourceScan and scan.table.reads_slowly and scan.request.limit is None:
            groups.setdefault((id(scan.table), scan.request.predicate), []).append(scan)
    merged: dict[int, Physical] = {}
    for group in groups.values():
        if len(group) > 1:
            merged |= merged_scans(group)
    return [_replaced(plan, merged) for plan in plans] if merged else plans


def _replaced(node: Physical, by_id: dict[int, Physical]) -> Physical:
    if id(node) in by_id:
        return by_id[id(node)]
    if isinstance(node, physical.PhysicalRecursion):
        return node
    return with_inputs(node, [_replaced(item, by_id) for item in node.inputs])


def with_inputs(node: Physical, inputs: list[Physical]) -> Physical:
    """The node over other inputs, in the order of `inputs`."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    if isinstance(node, physical.PhysicalUnion):
        return replace(node, parts=tuple(inputs))
    indexes = {id(old): index for index, old in enumerate(node.inputs)}
    changed = {name: inputs[indexes[id(old)]] for name, old in _inputs_by_name(node).items()}
    return replace(node, **changed)  # type: ignore[arg-type]


def _inputs_by_name(node: Physical) -> dict[str, Physical]:
    values = {item.name: getattr(node, item.name) for item in fields(node)}
    return {name: value for name, value in values.items() if isinstance(value, Physical)}


class _TableSubplan:
    """A subplan that occurs once or several times in the plan.

    uses: number of its readers.
    is_worth: whether sharing it saves work.
    number: its number among the shared subplans, from 1; 0: not shared yet.
    made: the shared plan; None until it is built.
    """

    def __init__(self, is_worth: bool) -> None:
        self.uses = 0
        self.is_worth = is_worth
        self.number = 0
        self.made: Physical | None = None

    @property
    def is_shared(self) -> bool:
        return self.uses > 1 and self.is_worth


class _TableSharing:
    """The subplans of one plan, and where they occur."""

    def __init__(self, commons: Mapping[int, Physical]) -> None:
        self._commons = commons
        self._subplans: dict[Any, _TableSubplan] = {}
        """Subplans by key: equal subplans have the same key."""
        self._occurrences: dict[int, _TableSubplan] = {}
        """Subplans by the `id` of the node at which they occur."""
        self._reaches: dict[int, bool] = {}
        """Results of `_reaches_shared` by the `id` of the node."""
        self._shared = 0

    def note(self, node: Physical) -> _TableSubplan | None:
        """Finds the subplans in `node` and below, and counts their readers; returns the subplan of
        `node`, None if `node` cannot be shared."""
        check_time()
        if isinstance(node, physical.PhysicalRecursion):
            return None
        if isinstance(node, physical.PhysicalCommonRows):
            return self._note_common(self._commons[node.number])
        below = [self.note(item) for item in node.inputs]
        key = self._key(node, below)
        subplan = None if key is None else self._subplans.get(key)
        if subplan is not None:
            self._occurrences[id(node)] = subplan
            return subplan
        for item in below:
            if item is not None:
                item.uses += 1
        if key is not None:
            is_worth = node in WORTH_SHARING or (
                isinstance(node, SourceScan) and node.table.reads_slowly
            )
            subplan = _TableSubplan(
                is_worth or any(item is not None and item.is_worth for item in below)
            )
            self._subplans[key] = self._occurrences[id(node)] = subplan
        return subplan

    def _note_common(self, plan: Physical) -> _TableSubplan:
        """The subplan of a common table, which is always worth sharing."""
        subplan = self._occurrences.get(id(plan)) or self.note(plan)
        if subplan is None:
            subplan = _TableSubplan(True)
            self._subplans[id(plan)] = self._occurrences[id(plan)] = subplan
        subplan.is_worth = True
        return subplan

    def _key(self, node: Physical, below: list[_TableSubplan | None]) -> Any:
        """A key that is equal for nodes that emit the same rows; None if `node` cannot be
        shared."""
        if node not in TABLE_SHARING or any(item is None for item in below):
            return None
        left_out = {"rows", "fields", "parts", *_inputs_by_name(node)}
        try:
            own = [
                key_of(getattr(node, item.name), [])
                for item in fields(node)
                if item.name not in left_out
            ]
        except VolatileError:
            return None
        return (type(node), *(item.type for item in node.fields), *own, *map(id, below))

    def finds_any(self) -> bool:
        """Whether the plan has a shared subplan."""
        return bool(self._commons) or any(item.is_shared for item in self._subplans.values())

    def _reaches_shared(self, node: Physical) -> bool:
        """Whether a shared subplan is at `node` or below."""
        if isinstance(node, physical.PhysicalCommonRows):
            return self._reaches_shared(self._commons[node.number])
        found = self._reaches.get(id(node))
        if found is None:
            subplan = self._occurrences.get(id(node))
            found = (subplan is not None and subplan.is_shared) or any(
                map(self._reaches_shared, node.inputs)
            )
            self._reaches[id(node)] = found
        return found

    def built(self, node: Physical, waits: bool) -> Physical:
        """The plan of `node`, in which each use of a shared subplan is a `Shared`. `waits`: whether
        `node` may have to wait while other readers of a shared subplan read."""
        if isinstance(node, physical.PhysicalCommonRows):
            return self.built(self._commons[node.number], waits)
        subplan = self._occurrences.get(id(node))
        if subplan is None or not subplan.is_shared:
            return self._over_built(node, waits)
        is_first = subplan.made is None
        if subplan.made is None:
            subplan.made = self._over_built(node, False)
            self._shared += 1
            subplan.number = self._shared
        shared = Shared(
            fields=node.fields,
            rows=node.rows,
            shared=subplan.made,
            number=subplan.number,
            is_first=is_first,
            watermarks=(),
        )
        return Spool(fields=node.fields, rows=node.rows, input=shared) if waits else shared

    def _over_built(self, node: Physical, waits: bool) -> Physical:
        if isinstance(node, physical.PhysicalRecursion):
            return node
        made = with_inputs(
            node, [self.built(item, self._waits(node, item, waits)) for item in node.inputs]
        )
        if isinstance(made, physical.Calc) and isinstance(made.input, Spool):
            # Spool the result of the Calc: it has fewer rows and columns than its input.
            return Spool(
                fields=made.fields, rows=made.rows, input=replace(made, input=made.input.input)
            )
        return made

    def _waits(self, node: Physical, item: Physical, waits: bool) -> bool:
        """Whether the input `item` of `node` may have to wait."""
        if node in READS_ALL:
            return False
        if isinstance(node, physical.HashJoin):
            return item is not node.build and (waits or self._reaches_shared(node.build))
        return waits or (len(node.inputs) > 1 and not isinstance(node, physical.PhysicalUnion))
