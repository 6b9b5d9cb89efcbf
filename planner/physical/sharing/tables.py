"""What a query on tables would do twice is done once: a common table that is used twice, a file
whose text would be parsed twice. (Of queries on streams see `sharing`.)

A join reads one of its inputs to its end before the other one. If both came from one producer, that
would be stopped by the full queue of the input that waits. So where a use may have to wait, a
`Spool` stands between, which takes all rows at once and keeps them, in a file if they are many. To
keep rows costs something too: what is as quick to read again isn't shared.
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
    """The plan of a query on tables, in which what occurs several times, and is worth it, is a
    `Shared` each. `commons`: the plans of its common tables that run once, by number."""
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
    """The plans, in which scans of one file read the same columns."""
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
    places = {id(old): number for number, old in enumerate(node.inputs)}
    changed = {name: inputs[places[id(old)]] for name, old in _inputs_by_name(node).items()}
    return replace(node, **changed)  # type: ignore[arg-type]


def _inputs_by_name(node: Physical) -> dict[str, Physical]:
    values = {item.name: getattr(node, item.name) for item in fields(node)}
    return {name: value for name, value in values.items() if isinstance(value, Physical)}


class _TableSubplan:
    """Something that occurs in a plan; `uses` counts those who read it. `is_worth`: whether sharing
    it is worth it."""

    def __init__(self, is_worth: bool) -> None:
        self.uses = 0
        self.is_worth = is_worth
        self.number = 0
        self.made: Physical | None = None

    @property
    def is_shared(self) -> bool:
        return self.uses > 1 and self.is_worth


class _TableSharing:
    """The parts of one plan."""

    def __init__(self, commons: Mapping[int, Physical]) -> None:
        self._commons = commons
        self._parts: dict[Any, _TableSubplan] = {}
        self._places: dict[int, _TableSubplan] = {}
        self._reaches: dict[int, bool] = {}
        self._shared = 0

    def note(self, node: Physical) -> _TableSubplan | None:
        """Finds what occurs where; the part that `node` is, None if it is none."""
        check_time()
        if isinstance(node, physical.PhysicalRecursion):
            return None
        if isinstance(node, physical.PhysicalCommonRows):
            return self._note_common(self._commons[node.number])
        below = [self.note(item) for item in node.inputs]
        key = self._key(node, below)
        part = None if key is None else self._parts.get(key)
        if part is not None:
            self._places[id(node)] = part
            return part
        for item in below:
            if item is not None:
                item.uses += 1
        if key is not None:
            is_worth = node in WORTH_SHARING or (
                isinstance(node, SourceScan) and node.table.reads_slowly
            )
            part = _TableSubplan(
                is_worth or any(item is not None and item.is_worth for item in below)
            )
            self._parts[key] = self._places[id(node)] = part
        return part

    def _note_common(self, plan: Physical) -> _TableSubplan:
        """The part that the plan of a common table is: sharing it is what it is one for."""
        part = self._places.get(id(plan)) or self.note(plan)
        if part is None:
            part = self._parts[id(plan)] = self._places[id(plan)] = _TableSubplan(True)
        part.is_worth = True
        return part

    def _key(self, node: Physical, below: list[_TableSubplan | None]) -> Any:
        """What two nodes have in common that give the same rows; None for what is never shared."""
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
        return bool(self._commons) or any(part.is_shared for part in self._parts.values())

    def _reaches_shared(self, node: Physical) -> bool:
        """Whether something that is shared is at or below a node."""
        if isinstance(node, physical.PhysicalCommonRows):
            return self._reaches_shared(self._commons[node.number])
        found = self._reaches.get(id(node))
        if found is None:
            part = self._places.get(id(node))
            found = (part is not None and part.is_shared) or any(
                map(self._reaches_shared, node.inputs)
            )
            self._reaches[id(node)] = found
        return found

    def built(self, node: Physical, waits: bool) -> Physical:
        """The node over what is shared; `waits`: whether it may be left standing while others read
        what is shared."""
        if isinstance(node, physical.PhysicalCommonRows):
            return self.built(self._commons[node.number], waits)
        part = self._places.get(id(node))
        if part is None or not part.is_shared:
            return self._over_built(node, waits)
        is_first = part.made is None
        if part.made is None:
            part.made = self._over_built(node, False)
            self._shared += 1
            part.number = self._shared
        shared = Shared(
            fields=node.fields,
            rows=node.rows,
            shared=part.made,
            number=part.number,
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
            # What it leaves out needn't be kept.
            return Spool(
                fields=made.fields, rows=made.rows, input=replace(made, input=made.input.input)
            )
        return made

    def _waits(self, node: Physical, item: Physical, waits: bool) -> bool:
        """Whether an input of a node may be left standing."""
        if node in READS_ALL:
            return False
        if isinstance(node, physical.HashJoin):
            return item is not node.build and (waits or self._reaches_shared(node.build))
        return waits or (len(node.inputs) > 1 and not isinstance(node, physical.PhysicalUnion))
