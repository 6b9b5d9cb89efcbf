"""Aggregations by the time windows below them: which operators may be between the two, and where
they are moved.

An operator that groups rows without making a row per window needs the windows directly below it.
Therefore:

- A condition that reads no window bound moves below windows of a fixed size, which are assigned row
  by row.
- A condition that reads only window bounds and group keys moves above the groups: it has the same
  result for all rows of a group. That also holds for keys of sessions.
- A join of a stream's windows with a table that reads no window bound moves below windows of a
  fixed size. A join that reads only keys of sessions moves below them, because it treats all rows
  of a session alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Column, Expression, columns_of, conjuncts
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.event_time.expressions import moved_column
from runnel.planner.rewriting import conjunction, renumber, substitute
from runnel.relation.nodes import Aggregate, Filter, Join, JoinKind, Project, Relation, references
from runnel.relation.streams import AssignWindows, WindowKind

_KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


class GroupedWindows(NamedTuple):
    """An aggregation by windows, over the windows' input.

    windows: the windows.
    source: their input, with the conditions that moved below them.
    keys: the keys that are not window bounds.
    columns: for each key of the aggregation −1, −2 or −3, as in FramedAggregate, or the index of
        one of `keys`.
    moved: the aggregation over the columns of the windows.
    of_groups: the conditions that move above the aggregation, over the same columns.
    is_direct: whether nothing else is between the windows and the groups.
    """

    windows: AssignWindows
    source: Relation
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    moved: Aggregate
    of_groups: tuple[Expression, ...]
    is_direct: bool


def grouped_windows(node: Aggregate) -> GroupedWindows | None:
    """Finds the windows of an aggregation; None if there are none below it, or if their bounds are
    used other than as keys."""
    below, conditions, columns = down_to_windows(_with_joins_below(node.input))
    if not isinstance(below, AssignWindows):
        return None
    moved = Aggregate(
        input=below,
        keys=tuple(substitute(key, columns) for key in node.keys),
        aggregates=tuple(
            call.map_expressions(lambda item: substitute(item, columns)) for call in node.aggregates
        ),
        names=node.names,
        emission=None
        if node.emission is None
        else node.emission.map_expressions(lambda item: substitute(item, columns)),
    )
    width = len(below.input.fields)
    keys: list[Expression] = []
    positions: list[int] = []
    for key in moved.keys:
        if isinstance(key, Column) and key.index >= width:
            positions.append(key.index - len(below.fields))
        else:
            positions.append(len(keys))
            keys.append(key)
    rest = (*keys, *moved.own_expressions[len(moved.keys) :])
    if all(position >= 0 for position in positions) or any(
        _reads_bounds(item, width) for item in rest
    ):
        return None
    times = time_bounds(below.input)
    if any(column is not None and column[0].index in times for column in map(moved_column, keys)):
        return None
    inside, of_groups, others = _divided(conditions, moved, below)
    source = below.input
    for condition in inside:
        source = Filter(input=source, condition=condition)
    return GroupedWindows(
        below, source, tuple(keys), tuple(positions), moved, of_groups, not others
    )


def _reads_bounds(expression: Expression, width: int) -> bool:
    return any(index >= width for index in columns_of(expression))


def _divided(
    conditions: list[Expression], moved: Aggregate, windows: AssignWindows
) -> tuple[list[Expression], tuple[Expression, ...], list[Expression]]:
    """The conditions that move below the windows, the conditions that move above the groups, and
    the rest. No condition moves above if there are late rows, which would include rows that the
    condition drops, or if groups are emitted repeatedly, which moves their bounds; or above
    sessions of a table, whose rows are needed then."""
    width = len(windows.input.fields)
    emission = moved.emission
    comes_once = emission is None or (
        emission.every is None and not emission.lateness.value and emission.late_table is None
    )
    is_session = windows.shape.kind is WindowKind.SESSION
    may_follow = comes_once and (windows.never_ends or not is_session)
    keys = {key.index for key in moved.keys if isinstance(key, Column)} | set(
        range(width, width + 3)
    )
    inside: list[Expression] = []
    of_groups: list[Expression] = []
    others: list[Expression] = []
    for condition in conditions:
        below: list[Expression] = []
        for conjunct in conjuncts(condition):
            if not is_session and not _reads_bounds(conjunct, width):
                below.append(conjunct)
            elif may_follow and columns_of(conjunct) <= keys and not can_fail(conjunct):
                of_groups.append(conjunct)
            else:
                others.append(conjunct)
        found = conjunction(below)
        if found is not None:
            inside.append(condition if len(below) == len(conjuncts(condition)) else found)
    return inside, tuple(of_groups), others


def down_to_windows(node: Relation) -> tuple[Relation, list[Expression], tuple[Expression, ...]]:
    """The node below the projections and filters of a relation, their conditions, and the columns
    of the relation, both over that node."""
    columns: tuple[Expression, ...] = references(node.fields)
    conditions: list[Expression] = []
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            if is_volatile(node.condition):
                break
            conditions.append(node.condition)
        elif any(is_volatile(item) for item in node.expressions):
            break
        else:
            columns = tuple(substitute(item, node.expressions) for item in columns)
            conditions = [substitute(item, node.expressions) for item in conditions]
        node = node.input
    return node, conditions, columns


def _keys(windows: AssignWindows) -> set[int]:
    """The columns by which sessions are partitioned, except DOUBLE columns: 0 and −0 are one key,
    but a join can distinguish them."""
    return {
        key.index
        for key in windows.partition
        if isinstance(key, Column) and not key.type.is_approximate
    }


def _with_joins_below(node: Relation) -> Relation:
    """The relation with joins of its windows with tables moved below the windows where possible."""
    if isinstance(node, Project | Filter):
        below = _with_joins_below(node.input)
        return node if below is node.input else node.with_inputs((below,))
    if not isinstance(node, Join) or node.kind not in _KINDS or node.late is not None:
        return node
    if not node.left.never_ends or node.right.never_ends:
        return node
    return _below_windows(node, _with_joins_below(node.left)) or node


def _below_windows(node: Join, left: Relation) -> Relation | None:
    """A join, whose left side is `left`, moved below the windows of the left side; None if that is
    not possible."""
    windows, conditions, columns = down_to_windows(left)
    if not isinstance(windows, AssignWindows):
        return None
    width, right = len(windows.input.fields), references(node.right.fields)
    over = (
        *columns,
        *(replace(column, index=width + number) for number, column in enumerate(right)),
    )
    left_keys = tuple(substitute(key, columns) for key in node.left_keys)
    rest = node.own_expressions[len(node.left_keys) + len(node.right_keys) :]
    read = (
        *left_keys,
        *(columns[index] for item in rest for index in columns_of(item) if index < len(columns)),
    )
    may_read = _keys(windows) if windows.shape.kind is WindowKind.SESSION else set(range(width))
    if not all(columns_of(item) <= may_read for item in read):
        return None
    if any(is_volatile(item) or (conditions and can_fail(item)) for item in node.own_expressions):
        return None  # a fallible expression would be computed for rows that the conditions drop
    condition = None if node.condition is None else substitute(node.condition, over)
    joined = replace(node, left=windows.input, left_keys=left_keys, condition=condition)
    moved: Relation = replace(windows, input=joined)
    added = len(joined.fields) - width
    positions = {number: number + added * (number >= width) for number in range(width + 3)}
    found = conjunction(renumber(item, positions) for item in conditions)
    if found is not None:
        moved = Filter(input=moved, condition=found)
    expressions = (
        *(renumber(item, positions) for item in columns),
        *references(joined.fields)[width:],
    )
    return Project(
        input=moved, expressions=expressions, names=tuple(field.name for field in node.fields)
    )
