"""What a query on streams would do twice is done once: the scan of a stream that occurs several
times, and what is the same above it.

Two references to a stream see the same rows and the same watermark then, and a common table that is
used twice is worked out once. Parts are the same where they differ in the numbers of their
watermarks only, which the edges to those who use them rename; nothing in them may be volatile.

Not shared is what stands on a side of a join that is read to its end before the other side is
touched: if both came from one scan it would be stopped by the queue of the other side, and the
first side would never end. Such a scan is one of its own.
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
from runnel.planner.physical.sharing.merged_scans import UNWANTED, merged_scans
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
    """The inputs, by the names of their fields, that nothing has to wait for; those of a Union by
    their numbers."""
    if isinstance(node, physical.PhysicalUnion):
        return {str(number): part for number, part in enumerate(node.parts)}
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
    """Something that occurs in a plan, once or more often; `uses` counts those who read it."""

    def __init__(self) -> None:
        self.uses = 0
        self.number = 0
        self.numbers: tuple[int, ...] = ()
        self.built: Physical | None = None


@frozen
class _Occurrence:
    """A place of the plan where a part stands; its watermarks have `numbers` there."""

    part: _Subplan
    numbers: tuple[int, ...]


class VolatileError(Exception):
    """What was looked at gives something else each time."""


class _StreamSharing:
    """The parts of one plan."""

    def __init__(self) -> None:
        self._parts: dict[Any, _Subplan] = {}
        self._places: dict[int, _Occurrence] = {}
        self._shared = 0

    def count_root(self, node: Physical) -> None:
        found = self._count(node)
        if found is not None:
            found.part.uses += 1

    def _count(self, node: Physical) -> _Occurrence | None:
        """Finds what occurs where; the part that `node` is, None if it is none."""
        below = {name: self._count(item) for name, item in _free_inputs(node).items()}
        found = self._occurrence(node, next(iter(below.values()), None))
        if found is None:
            for item in below.values():
                if item is not None:
                    item.part.uses += 1
        else:
            self._places[id(node)] = found
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
            key = (None if below is None else id(below.part), _key_of_node(node, numbers))
        except VolatileError:
            return None
        part = self._parts.get(key)
        if part is None:
            self._parts[key] = part = _Subplan()
            if below is not None:
                below.part.uses += 1
        return _Occurrence(part, tuple(numbers))

    def built(self, node: Physical) -> Physical:
        found = self._places.get(id(node))
        if found is None or found.part.uses < 2:
            return self._with_built_inputs(node)
        part = found.part
        is_first = part.built is None
        if part.built is None:
            part.built = self._with_built_inputs(node)
            part.numbers = found.numbers
            self._shared += 1
            part.number = self._shared
        renamed = {
            own: number
            for own, number in zip(part.numbers, found.numbers, strict=True)
            if number != UNWANTED
        }
        return Shared(
            fields=part.built.fields,
            rows=node.rows,
            shared=part.built,
            number=part.number,
            is_first=is_first,
            watermarks=tuple(renamed.items()),
        )

    def _with_built_inputs(self, node: Physical) -> Physical:
        return _with_inputs(
            node, {name: self.built(item) for name, item in _free_inputs(node).items()}
        )


def _key_of_node(node: Physical, numbers: list[int]) -> Any:
    """What two nodes have in common that do the same with the same input, whatever they call its
    result. `numbers` are those of the watermarks so far."""
    left_out = ("input", "rows", "fields")
    parts = [
        key_of(getattr(node, item.name), numbers)
        for item in fields(node)
        if item.name not in left_out
    ]
    return (type(node), *(item.type for item in node.fields), *parts)


def key_of(value: Any, numbers: list[int]) -> Any:
    """What equal parts of two nodes have in common, whatever they are: numbers of watermarks by
    where they occur first. Raises VolatileError for what gives something else each time."""
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
    # Tables, connectors' and users' functions, members of an Enum: the same where they are one.
    return id(value)


def _index_of(number: int, numbers: list[int]) -> int:
    if number not in numbers:
        numbers.append(number)
    return numbers.index(number)
