"""Binding of LATE DATA INTO for joins of streams.

A late row is a row of one side: a column of the mapping takes the side's column of that name, and
NULL where the side has none. Of several joins each is told of the streams that it joins, so that a
row is written once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from runnel.connector import KeyedTable, WritableTable
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.parse.syntax import Name
from runnel.planner.rules.decorrelation.subqueries import subqueries_to_joins
from runnel.relation.emission import LateSides
from runnel.relation.nodes import (
    LEFT_ONLY,
    MARKS,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    references,
)
from runnel.relation.streams import AsOfJoin


def with_subqueries_as_joins(relation: Relation) -> Relation:
    """The SELECT with joins in the place of subqueries. The rows of a subquery have all columns of
    its stream, as its late rows may go to a mapping that has them."""
    return _with_columns_of_streams(subqueries_to_joins(relation))


def _with_columns_of_streams(relation: Relation) -> Relation:
    if isinstance(relation, Project | Filter | Limit):
        return relation.with_inputs((_with_columns_of_streams(relation.input),))
    if isinstance(relation, Join) and relation.kind in (*LEFT_ONLY, *MARKS):
        return replace(
            relation,
            left=_with_columns_of_streams(relation.left),
            right=_with_columns(relation.right),
        )
    return relation


def _with_columns(side: Relation) -> Relation:
    """The columns of what is projected come last, so that the others stay where they are, and are
    found by their names."""
    if not isinstance(side, Project):
        return side
    columns = references(side.input.fields)
    names = (*(f"${i}" for i in range(len(side.names))), *(item.name for item in columns))
    return replace(side, expressions=(*side.expressions, *columns), names=names)


def has_joins(relation: Relation) -> bool:
    """Whether a SELECT joins, and neither groups nor sorts above that."""
    return _is_join(_below(relation))


def with_late_of_joins(relation: Relation, table: WritableTable, name: Name) -> Relation:
    """The SELECT, its joins of streams told where their late rows go. NotSupportedError where there
    is a stream, but no join of two; ProgrammingError where the mapping can't take the rows."""
    targets = tuple(i for i, column in enumerate(table.columns) if not column.hidden)
    sides = _streams(relation)
    known = {field.name.lower() for side in sides for field in side.fields}
    missing = [table.columns[i].name for i in targets if table.columns[i].name.lower() not in known]
    if sides and missing:
        raise ProgrammingError(
            f'mapping "{name.text}" can\'t take the late rows: they have no column '
            + ", ".join(f'"{item}"' for item in missing),
            detail="late rows have the columns "
            + " or ".join(f"({_names(side)})" for side in sides),
            hint=(
                "give the mapping columns with the names of columns of the streams that are joined"
            ),
            position=name.position,
        )
    if not sides and relation.is_unbounded:
        raise NotSupportedError(
            "LATE DATA INTO goes with joins of two streams, GROUP BY over windows, OVER, "
            "DISTINCT ON and ORDER BY",
            detail="a stream that is joined with a table has no late rows",
            hint="leave LATE DATA INTO out",
            position=name.position,
        )
    return _told(relation, table, targets, name)


def _is_join(relation: Relation) -> TypeGuard[Join | AsOfJoin]:
    return isinstance(relation, Join | AsOfJoin)


def _below(relation: Relation) -> Relation:
    while isinstance(relation, Project | Filter | Limit):
        relation = relation.input
    return relation


def _waits(join: Join | AsOfJoin) -> bool:
    return join.left.never_ends and join.right.never_ends


def _streams(relation: Relation) -> list[Relation]:
    """The sides of the joins of two streams that are no such joins themselves."""
    join = _below(relation)
    if not _is_join(join):
        return []
    found: list[Relation] = []
    for side in join.inputs:
        inner = _streams(side)
        found += inner if _is_join(_below(side)) else [side] if _waits(join) else []
    return found


def _told(
    relation: Relation, table: WritableTable, targets: tuple[int, ...], name: Name
) -> Relation:
    if isinstance(relation, Project | Filter | Limit):
        return relation.with_inputs((_told(relation.input, table, targets, name),))
    if not _is_join(relation):
        return relation
    left, right = (_told(side, table, targets, name) for side in relation.inputs)
    joined = replace(relation, left=left, right=right)
    if not _waits(relation):
        return joined
    values = [
        () if _is_join(_below(side)) else _values(side, table, targets, name)
        for side in (left, right)
    ]
    if not any(values):
        return joined
    return replace(
        joined, late=LateSides(table=table, columns=targets, left=values[0], right=values[1])
    )


def _values(
    side: Relation, table: WritableTable, targets: tuple[int, ...], name: Name
) -> tuple[Expression, ...]:
    """What the columns of the mapping get of a late row of a side."""
    by_name = {column.name.lower(): column for column in reversed(references(side.fields))}
    keys = set(table.key_columns) if isinstance(table, KeyedTable) else set()
    found: list[Expression] = []
    for place in targets:
        target = table.columns[place]
        source = by_name.get(target.name.lower())
        if source is not None:
            found.append(build.assign(source, target.type, target.name))
        elif place in keys:
            raise ProgrammingError(
                f'mapping "{name.text}" can\'t take the late rows of both streams: its key '
                f'"{target.name}" is a column of one '
                "only",
                detail=f"the other one has the columns ({_names(side)})",
                hint=(
                    "give the mapping a key that both have, or a connector without keys, "
                    "such as TYPE File"
                ),
                position=name.position,
            )
        else:
            found.append(Literal(value=None, type=target.type))
    return tuple(found)


def _names(side: Relation) -> str:
    return ", ".join(field.name for field in side.fields if not field.name.startswith("$"))
