"""Views of the latest row of each key, as the right side of FOR SYSTEM_TIME AS OF.

`SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t)
WHERE n = 1` as of an instant has the latest row of each key among the rows up to that instant. So
the rows of `t` are its versions, and the numbering is left out.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Call, Column, Expression, Literal
from runnel.relation.nodes import Filter, Project, Relation, references
from runnel.relation.over import Window, WindowCall


@frozen
class KeyedVersions:
    """The rows of which a view shows the latest one of each key.

    relation: all rows, with the columns of the view.
    time: the index of the column by which a row is the latest one.
    keys: the indexes of the columns of the key.
    """

    relation: Relation
    time: int
    keys: frozenset[int]


def versions_of(relation: Relation) -> KeyedVersions | None:
    """The versions of a view of latest rows; None for any other relation, and for a view without
    its time or its keys among its columns."""
    projects: list[Project] = []
    filters = 0
    at = relation
    while isinstance(at, Project | Filter):
        if isinstance(at, Filter):
            if not _selects_first(at):
                return None
            filters += 1
        else:
            projects.append(at)
        at = at.input
    if filters != 1 or not isinstance(at, Window) or len(at.calls) != 1:
        return None
    needed = _latest_by(at.calls[0])
    if needed is None:
        return None
    number = Literal(value=1, type=at.calls[0].call.type)
    built: Relation = Project(
        input=at.input,
        expressions=(*references(at.input.fields), number),
        names=tuple(field.name for field in at.fields),
    )
    for project in reversed(projects):
        built = replace(project, input=built)
    origins = [_origin(projects, index) for index in range(len(built.fields))]
    if any(index not in origins for index in needed):
        return None
    *keys, time = (origins.index(index) for index in needed)
    return KeyedVersions(built, time, frozenset(keys))


def _latest_by(call: WindowCall) -> list[int] | None:
    """The indexes of the keys, then of the time, of ROW_NUMBER() OVER (PARTITION BY keys ORDER BY
    time DESC); None for another call."""
    if call.call.function != "row_number" or not call.partition or len(call.order) != 1:
        return None
    key = call.order[0]
    if not key.descending or key.nulls_first:
        return None
    columns = [item for item in (*call.partition, key.expression) if isinstance(item, Column)]
    return [item.index for item in columns] if len(columns) == len(call.partition) + 1 else None


def _selects_first(node: Filter) -> bool:
    """Whether the condition is n = 1 or n <= 1, where n is the number of the row."""
    condition = node.condition
    if not isinstance(condition, Call) or condition.function not in ("eq", "le"):
        return False
    number, one = condition.arguments
    return (
        isinstance(number, Column)
        and isinstance(one, Literal)
        and one.value == 1
        and _is_number(node.input, number)
    )


def _is_number(relation: Relation, expression: Expression) -> bool:
    """Whether an expression over the relation is the column of the only window call."""
    while isinstance(relation, Project) and isinstance(expression, Column):
        expression, relation = relation.expressions[expression.index], relation.input
    return (
        isinstance(relation, Window)
        and isinstance(expression, Column)
        and expression.index == len(relation.input.fields)
    )


def _origin(projects: list[Project], index: int) -> int | None:
    """The index below all projections of a column above them; None for a computed column."""
    for project in projects:
        expression = project.expressions[index]
        if not isinstance(expression, Column):
            return None
        index = expression.index
    return index
