"""Dynamic filters: a fragment of a join returns only rows with keys of the small side.

The small side runs once and is read twice: by the join, and by the fragment, which waits for the
keys and then requests only rows with these keys. This is done only if a row of the fragment without
a partner has no effect: not for the side that an outer join preserves, nor for the values of a NOT
IN, where a NULL counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression, columns_of
from runnel.planner.operators.passes import DYNAMIC_FILTERS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, Shared, Spool
from runnel.planner.physical.sharing.tables import with_inputs
from runnel.relation.nodes import Field, JoinKind

FEWEST_ROWS = 10_000
"""As few rows as these just come over."""
MOST_FED = 1_000_000
"""A side of more rows is no small one: the other side's engine would wait for it, and hardly leave
out a row."""
MOST_BUFFERED = 100_000
"""Where the small side has to be held meanwhile, it has no more rows than these."""

_NARROWS_PROBE = (JoinKind.INNER, JoinKind.SEMI, JoinKind.RIGHT)
_NARROWS_BUILD = (
    JoinKind.INNER,
    JoinKind.LEFT,
    JoinKind.SEMI,
    JoinKind.ANTI,
    JoinKind.SINGLE,
    JoinKind.EXISTS_MARK,
)
"""Joins in which a row of that side without a partner doesn't matter."""


Keys = tuple[Expression, ...]


def with_dynamic_filters(plan: Physical) -> Physical:
    """The plan with its fragments narrowed by the joins above them, as far as their engines do
    that."""
    return _Filters(plan).placed(plan)


class _Filters:
    def __init__(self, plan: Physical) -> None:
        self._first = self._next = 1 + max(
            (item.number for item in _all(plan) if isinstance(item, Shared)), default=0
        )

    def placed(self, node: Physical) -> Physical:
        if isinstance(node, physical.PhysicalRecursion | Shared):
            return node
        node = with_inputs(node, [self.placed(item) for item in node.inputs])
        return (
            self._joined(node) if type(node) is physical.HashJoin and node.refresh is None else node
        )

    def _joined(self, join: physical.HashJoin) -> Physical:
        numbers = [number for number in range(len(join.probe_keys)) if number not in join.null_safe]
        if not numbers:
            return join
        probe_keys = tuple(join.probe_keys[number] for number in numbers)
        build_keys = tuple(join.build_keys[number] for number in numbers)
        if join.kind in _NARROWS_PROBE and self._can_feed(join.build, build_keys):
            feed = SmallSide(join.build, build_keys, self._next)
            probe = narrow(join.probe, probe_keys, feed)
            if probe is not None:
                self._next += 1
                return replace(join, probe=probe, build=feed.shared())
        if join.kind in _NARROWS_BUILD and self._can_feed(join.probe, probe_keys):
            rows = join.probe.rows
            feed = SmallSide(join.probe, probe_keys, self._next)
            held = Spool(fields=join.probe.fields, rows=rows, input=feed.shared())
            build = (
                None
                if rows is None or rows > MOST_BUFFERED
                else narrow(join.build, build_keys, feed)
            )
            if build is not None:
                self._next += 1
                return replace(join, probe=held, build=build)
        return join

    def _can_feed(self, node: Physical, keys: Keys) -> bool:
        """Whether a side is known to be small, and can have two readers. A subplan that contains a
        shared one is not shared again, because its readers could block each other."""
        if (node.rows or 0) > MOST_FED or any(map(is_volatile, keys)):
            return False
        below = list(_all(node))
        if node.rows is None and any(isinstance(item, physical.PhysicalFragment) for item in below):
            return False
        return not any(isinstance(item, Shared) and item.number < self._first for item in below)


class SmallSide:
    """The small side of a join: its rows for the join, and their keys for fragments."""

    def __init__(self, node: Physical, keys: Keys, number: int) -> None:
        self.rows = node.rows
        self._node = node
        self._keys = keys
        self._number = number
        self._uses = 0

    def shared(self) -> Shared:
        self._uses += 1
        is_first = self._uses == 1
        node = self._node
        return Shared(
            fields=node.fields,
            rows=node.rows,
            shared=node,
            number=self._number,
            is_first=is_first,
            watermarks=(),
        )

    def keys(self) -> Physical:
        fields = tuple(Field(f"key{number}", key.type) for number, key in enumerate(self._keys))
        return physical.Calc(
            fields=fields, rows=self.rows, input=self.shared(), projections=self._keys
        )


def _all(node: Physical) -> list[Physical]:
    return [node, *(below for item in node.inputs for below in _all(item))]


def narrow(node: Physical, keys: Keys, feed: SmallSide) -> Physical | None:
    """The node over narrowed fragments; None where there are none that its `keys` can be followed
    to."""
    rule = DYNAMIC_FILTERS.find(node)
    return (
        None
        if rule is None or any(map(can_fail, keys)) or any(map(is_volatile, keys))
        else rule(node, keys, feed)
    )


def over_input(node: physical.SingleInput, below: Physical | None) -> Physical | None:
    return None if below is None else replace(node, input=below)


def narrow_input(node: physical.SingleInput, keys: Keys, feed: SmallSide) -> Physical | None:
    return over_input(node, narrow(node.input, keys, feed))


def columns_of_keys(keys: Sequence[Expression]) -> set[int]:
    """The columns that keys read; none that all of them are constant of is narrowed by."""
    return set().union(*map(columns_of, keys))
