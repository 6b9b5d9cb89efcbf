"""UNION BY NAME: columns of both sides with the same name form one column."""

from __future__ import annotations

from runnel.errors import Position, ProgrammingError
from runnel.expressions.nodes import Expression, Literal
from runnel.relation.nodes import Project, Relation, references
from runnel.sqltypes import NULL


def by_name(
    left: Relation, right: Relation, position: Position | None
) -> tuple[Relation, Relation]:
    """The two sides with the same columns in the same order: the columns of the left side, then the
    columns that only the right side has. A column that a side does not have is NULL."""
    mine, theirs = (_indexes(side, position) for side in (left, right))
    names = [field.name for field in left.fields]
    names += [field.name for field in right.fields if field.name.lower() not in mine]
    return _arranged(left, names, mine), _arranged(right, names, theirs)


def _indexes(side: Relation, position: Position | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, field in enumerate(side.fields):
        if found.setdefault(field.name.lower(), number) != number:
            raise ProgrammingError(
                f'UNION BY NAME needs different names, but two columns are called "{field.name}"',
                hint="give one of them an alias",
                position=position,
            )
    return found


def _arranged(side: Relation, names: list[str], indexes: dict[str, int]) -> Relation:
    columns = references(side.fields)
    expressions: list[Expression] = []
    for name in names:
        index = indexes.get(name.lower())
        expressions.append(Literal(value=None, type=NULL) if index is None else columns[index])
    return Project(
        input=side, expressions=tuple(expressions), names=tuple(names), position=side.position
    )
