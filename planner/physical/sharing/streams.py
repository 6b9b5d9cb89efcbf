"""Shares equal subplans of a query on streams: scans of the same stream, and equal operators above
them.

Several references to a stream then read the same rows with the same watermark, and a common table
that is used twice is computed once. Two subplans are equal if they differ only in the numbers of
their watermarks; the edges to the readers rename these. A volatile subplan is never shared.

A subplan is not shared if it is on a side of a join that is read to its end before the other side:
a common scan would block on the full queue of the other side, and the first side would never end.
Such a side has a scan of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Expression, Literal
from runnel.expressions.properties import is_volatile
from runnel.expressions.python.function import PythonFunction
from runnel.planner.operators.passes import STREAM_SHARING
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical, Shared, SourceScan
from runnel.planner.physical.sharing.merged_scans import UNUSED, merged_scans
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.relation.streams import TimeBound


def share(plan: Physical) -> Physical:
    """The plan, in which each use of a repeated subplan is a `Shared`."""
    scans = list(_scans(plan))
    if len({id(scan.table) for scan in scans}) == len(scans):
        return plan
    plan = _replaced(plan, merged_scans(scans))
    sharing = _StreamSharing()
    sharing.count_root(plan)
    return sharing.built(plan)


def _scans(node: Physical) -> Iterator[SourceScan]:
    """The scans that can be shared."""
    if _is_shareable_scan(node):
        yield node  # type: ignore[misc]
    for item in _free_inputs(node).values():
        yield from _scans(item)


def _is_shareable_scan(node: Physical) -> bool:
    return type(node) is SourceScan and node.table.is_unbounded


def _free_inputs(node: Physical) -> dict[str, Physical]:
    """The inputs that no other input has to wait for, by the name of their field; for a UNION, by
    their number."""
    if isinstance(node, physical.PhysicalUnion):
        return {str(number): branch for number, branch in enumerate(node.parts)}
    if isinstance(node, physical.PhysicalRecursion):
        return {}
    names: tuple[str, ...] = ("input", "left", "right", "probe")
    if isinstance(node, physical_streams.PhysicalAsOfJoin) and node.shape.version is None:
        names = ("left",)
    return {name: getattr(node, name) for name in names if hasattr(node, name)}


def _with_inputs(node: Physical, inputs: Mapping[str, Physical]) -> Physical:
    old = _free_inputs(node)
    if all(inputs[name] is old[name] for name in old):
        return node
    if isinstance(node, physical.PhysicalUnion):
        return replace(node, parts=tuple(inputs.values()))
    return replace(node, **inputs)  # type: ignore[arg-type]


def _replaced(node: Physical, by_id: Mapping[int, Physical]) -> Physical:
    if id(node) in by_id:
        return by_id[id(node)]
    return _with_inputs(
        node, {name: _replaced(item, by_id) for name, item in _free_inputs(node).items()}
    )


class _Subplan:
    """A subplan that occurs once or several times in the plan.

    uses: number of its readers.
    number: its number among the shared subplans, from 1; 0: not shared yet.
    numbers: the numbers of its watermarks in `built`.
    built: the shared plan; None until it is built.
    """

    def __init__(self) -> None:
        self.uses = 0
        self.number = 0
        self.numbers: tuple[int, ...] = ()
        self.built: Physical | None = None


@frozen
class _Occurrence:
    """An occurrence of a subplan in the plan.

    subplan: the subplan.
    numbers: the numbers of its watermarks in this occurrence.
    """

    subplan: _Subplan
    numbers: tuple[int, ...]


class VolatileError(Exception):
    """The subplan is volatile: each run may return other rows."""


class _StreamSharing:
    """The subplans of one plan, and where they occur."""

    def __init__(self) -> None:
        self._subplans: dict[Any, _Subplan] = {}
        """Subplans by key: equal subplans have the same key."""
        self._occurrences: dict[int, _Occurrence] = {}
        """Occurrences by the `id` of the node."""
        self._shared = 0

    def count_root(self, node: Physical) -> None:
        """Finds all occurrences of subplans, and counts their readers."""
        found = self._count(node)
        if found is not None:
            found.subplan.uses += 1

    def _count(self, node: Physical) -> _Occurrence | None:
        """Finds the occurrences in `node` and below; returns the one at `node`, None if `node`
        cannot be shared."""
        below = {name: self._count(item) for name, item in _free_inputs(node).items()}
        found = self._occurrence(node, next(iter(below.values()), None))
        if found is None:
            for item in below.values():
                if item is not None:
                    item.subplan.uses += 1
        else:
            self._occurrences[id(node)] = found
        return found

    def _occurrence(self, node: Physical, below: _Occurrence | None) -> _Occurrence | None:
        is_scan = _is_shareable_scan(node)
        is_link = (
            node in STREAM_SHARING and below is not None and getattr(node, "late", None) is None
        )
        if not is_scan and not is_link:
            return None
        numbers = [] if below is None else list(below.numbers)
        try:
            key = (None if below is None else id(below.subplan), _key_of_node(node, numbers))
        except VolatileError:
            return None
        subplan = self._subplans.get(key)
        if subplan is None:
            self._subplans[key] = subplan = _Subplan()
            if below is not None:
                below.subplan.uses += 1
        return _Occurrence(subplan, tuple(numbers))

    def built(self, node: Physical) -> Physical:
        """The plan of `node`, in which each use of a subplan with several readers is a `Shared`."""
        found = self._occurrences.get(id(node))
        if found is None or found.subplan.uses < 2:
            return self._with_built_inputs(node)
        subplan = found.subplan
        is_first = subplan.built is None
        if subplan.built is None:
            subplan.built = self._with_built_inputs(node)
            subplan.numbers = found.numbers
            self._shared += 1
            subplan.number = self._shared
        renamed = {
            own: number
            for own, number in zip(subplan.numbers, found.numbers, strict=True)
            if number != UNUSED
        }
        return Shared(
            fields=subplan.built.fields,
            rows=node.rows,
            shared=subplan.built,
            number=subplan.number,
            is_first=is_first,
            watermarks=tuple(renamed.items()),
        )

    def _with_built_inputs(self, node: Physical) -> Physical:
        return _with_inputs(
            node, {name: self.built(item) for name, item in _free_inputs(node).items()}
        )


def _key_of_node(node: Physical, numbers: list[int]) -> Any:
    """A key that is equal for nodes that compute the same rows from equal inputs, whatever the
    names of the result. `numbers` are the watermarks that occurred so far; new ones are added."""
    left_out = ("input", "rows", "fields")
    keys = [
        key_of(getattr(node, item.name), numbers)
        for item in fields(node)
        if item.name not in left_out
    ]
    return (type(node), *(item.type for item in node.fields), *keys)


def key_of(value: Any, numbers: list[int]) -> Any:
    """A key that is equal for equal attributes of two nodes. The number of a watermark is replaced
    by its index in `numbers`, the order of first occurrence. VolatileError if the value is
    volatile."""
    if isinstance(value, PythonFunction) and not value.is_deterministic:
        raise VolatileError
    if isinstance(value, TimeBound):
        return "bound", _index_of(value.watermark, numbers), value.offset
    if isinstance(value, TimeRule):
        rest = (value.time, value.condition, value.lag, value.idle_timeout)
        return "rule", _index_of(value.watermark, numbers), key_of(rest, numbers)
    if isinstance(value, Expression) and is_volatile(value):
        raise VolatileError
    return _plain_key(value, numbers)


def _plain_key(value: Any, numbers: list[int]) -> Any:
    if isinstance(value, Literal):
        return Literal, value.type, repr(value.value)
    if isinstance(value, tuple):
        return (type(value), *(key_of(item, numbers) for item in value))
    if is_dataclass(value) and not isinstance(value, type):
        return (
            type(value),
            *(key_of(getattr(value, item.name), numbers) for item in fields(value) if item.compare),
        )
    if value is None or isinstance(value, str | int | bytes):
        return type(value), value
    # Tables, functions of connectors and users, members of an Enum are equal only if identical.
    return id(value)


def _index_of(number: int, numbers: list[int]) -> int:
    if number not in numbers:
        numbers.append(number)
    return numbers.index(number)
