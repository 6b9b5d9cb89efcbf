"""POSITIONAL JOIN: the first row with the first row, the second with the second."""

from __future__ import annotations

from runnel.errors import NotSupportedError, Position
from runnel.expressions.aggregates.window_functions import window_function_call
from runnel.planner.bind.scope import BoundRelation
from runnel.relation.nodes import Join, JoinKind, Project, Relation, references
from runnel.relation.over import Window, WindowCall


def by_position(
    left: BoundRelation, right: BoundRelation, position: Position | None
) -> BoundRelation:
    """The rows of both sides, paired by their numbers; the shorter side is filled with NULLs."""
    for side in (left, right):
        if side.relation.is_unbounded:
            raise NotSupportedError(
                "POSITIONAL JOIN of a stream is not supported",
                detail="a stream has no order in which its rows could be numbered",
                hint="join by a key: JOIN … ON",
                position=position,
            )
    width = len(left.relation.fields)
    scope = left.scope.joined_with(right.scope, width, position)
    first, second = (numbered(side.relation, position) for side in (left, right))
    joined = Join(
        kind=JoinKind.FULL,
        left=first,
        right=second,
        left_keys=references(first.fields)[-1:],
        right_keys=references(second.fields)[-1:],
        position=position,
    )
    columns = references(joined.fields)
    chosen = (*columns[:width], *columns[width + 1 : -1])
    relation = Project(
        input=joined,
        expressions=chosen,
        names=tuple(column.name for column in chosen),
        position=position,
    )
    return BoundRelation(relation, scope)


def numbered(relation: Relation, position: Position | None) -> Relation:
    """The relation with the numbers of its rows, from 1, as its last column."""
    call = WindowCall(call=window_function_call("row_number", (), position))
    return Window(input=relation, calls=(call,), names=("$row",), position=position)
