"""Binding of LATE DATA INTO for joins of streams.

A late row is a row of one side of a join. A column of the mapping gets the value of the side's
column of the same name, or NULL if the side has no such column. If a SELECT has several joins, each
join has the late output of the streams that it joins itself, so that a row is written once.
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
    """The SELECT with its subqueries rewritten as joins. The rows of a subquery retain all columns
    of its stream, because the mapping of the late rows may have these columns."""
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
    """The side with its input's columns added at the end. There they are found by name, and the
    indexes of the side's own columns are unchanged."""
    if not isinstance(side, Project):
        return side
    columns = references(side.input.fields)
    names = (*(f"${i}" for i in range(len(side.names))), *(item.name for item in columns))
    return replace(side, expressions=(*side.expressions, *columns), names=names)


def has_joins(relation: Relation) -> bool:
    """Whether a SELECT has a join, and neither groups nor sorts above it."""
    return _is_join(_below(relation))


def with_late_of_joins(relation: Relation, table: WritableTable, name: Name) -> Relation:
    """The SELECT with late outputs in its joins of streams. NotSupportedError if there is a stream
    but no join of two streams; ProgrammingError if the mapping can't store the rows."""
    targets = tuple(i for i, column in enumerate(table.columns) if not column.hidden)
    sides = _streams(relation)
    known = {field.name.lower() for side in sides for field in side.fields}
    missing = [table.columns[i].name for i in targets if table.columns[i].name.lower() not in known]
    if sides and missing:
        raise ProgrammingError(
            f'mapping "{name.text}" can\'t store the late rows: they have no column '
            + ", ".join(f'"{item}"' for item in missing),
            detail="late rows have the columns "
            + " or ".join(f"({_names(side)})" for side in sides),
            hint=("declare columns in the mapping with the names of columns of the joined streams"),
            position=name.position,
        )
    if not sides and relation.is_unbounded:
        raise NotSupportedError(
            "LATE DATA INTO is supported for joins of two streams, GROUP BY over windows, OVER, "
            "DISTINCT ON and ORDER BY",
            detail="a stream that is joined with a table has no late rows",
            hint="leave LATE DATA INTO out",
            position=name.position,
        )
    return _with_late_output(relation, table, targets, name)


def _is_join(relation: Relation) -> TypeGuard[Join | AsOfJoin]:
    return isinstance(relation, Join | AsOfJoin)


def _below(relation: Relation) -> Relation:
    while isinstance(relation, Project | Filter | Limit):
        relation = relation.input
    return relation


def _waits(join: Join | AsOfJoin) -> bool:
    return join.left.never_ends and join.right.never_ends


def _streams(relation: Relation) -> list[Relation]:
    """The sides of the joins of two streams, except sides that are such joins themselves."""
    join = _below(relation)
    if not _is_join(join):
        return []
    found: list[Relation] = []
    for side in join.inputs:
        inner = _streams(side)
        found += inner if _is_join(_below(side)) else [side] if _waits(join) else []
    return found


def _with_late_output(
    relation: Relation, table: WritableTable, targets: tuple[int, ...], name: Name
) -> Relation:
    if isinstance(relation, Project | Filter | Limit):
        return relation.with_inputs((_with_late_output(relation.input, table, targets, name),))
    if not _is_join(relation):
        return relation
    left, right = (_with_late_output(side, table, targets, name) for side in relation.inputs)
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
    """The values of the mapping's columns for a late row of a side."""
    by_name = {column.name.lower(): column for column in reversed(references(side.fields))}
    keys = set(table.key_columns) if isinstance(table, KeyedTable) else set()
    found: list[Expression] = []
    for index in targets:
        target = table.columns[index]
        source = by_name.get(target.name.lower())
        if source is not None:
            found.append(build.assign(source, target.type, target.name))
        elif index in keys:
            raise ProgrammingError(
                f'mapping "{name.text}" can\'t store the late rows of both streams: its key '
                f'"{target.name}" is a column of one '
                "only",
                detail=f"the other stream has the columns ({_names(side)})",
                hint=(
                    "use a key column that both streams have, or a connector without keys, "
                    "such as TYPE File"
                ),
                position=name.position,
            )
        else:
            found.append(Literal(value=None, type=target.type))
    return tuple(found)


def _names(side: Relation) -> str:
    return ", ".join(field.name for field in side.fields if not field.name.startswith("$"))
