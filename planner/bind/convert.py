"""Conversion of relations to other types and names: for set operations, IN, INSERT and column
aliases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression
from runnel.relation.nodes import Aggregate, Field, Project, Relation, Values, references
from runnel.sqltypes import VARCHAR, SqlType, common_type


def converted(relation: Relation, types: tuple[SqlType, ...]) -> Relation:
    """The relation with its columns cast to `types`, by position."""
    fields = relation.fields
    if all(item.type == target for item, target in zip(fields, types, strict=True)):
        return relation
    if isinstance(relation, Values):
        rows = tuple(
            tuple(
                item if item.type == target else build.cast(item, target, implicit=True)
                for item, target in zip(row, types, strict=True)
            )
            for row in relation.rows
        )
        columns = tuple(
            Field(item.name, target) for item, target in zip(fields, types, strict=True)
        )
        return replace(relation, rows=rows, columns=columns)
    columns_as_are = references(fields)
    expressions = tuple(
        column if column.type == target else build.cast(column, target, implicit=True)
        for column, target in zip(columns_as_are, types, strict=True)
    )
    return Project(
        input=relation, expressions=expressions, names=tuple(item.name for item in fields)
    )


def changed(
    relation: Relation, changes: Mapping[int, Callable[[Expression], Expression]]
) -> Relation:
    """The relation with a function applied to some of its columns, by position."""
    if not changes:
        return relation
    fields = relation.fields
    expressions = tuple(
        changes[number](column) if number in changes else column
        for number, column in enumerate(references(fields))
    )
    return Project(
        input=relation, expressions=expressions, names=tuple(item.name for item in fields)
    )


def common_types(
    left: Relation, right: Relation, operation: str, position: Position | None
) -> tuple[SqlType, ...]:
    """The common types of the columns of two relations, by position; ProgrammingError if the
    numbers of columns differ or a pair has no common type."""
    if len(left.fields) != len(right.fields):
        raise ProgrammingError(
            f"the sides of {operation} have {len(left.fields)} and {len(right.fields)} columns",
            hint="select the same number of columns on both sides",
            position=position,
        )
    types = []
    for number, (first, second) in enumerate(zip(left.fields, right.fields, strict=True), 1):
        shared = common_type(first.type, second.type)
        if shared is None:
            raise ProgrammingError(
                f"column {number} of {operation} is {first.type} on one side and {second.type} on "
                "the other",
                hint="CAST one of them",
                position=position,
            )
        types.append(shared)
    return tuple(types)


def decimal_key(operand: Expression) -> Expression:
    """A VARCHAR for an exact number. Equal numbers have equal texts, whatever the types of the
    numbers."""
    return Call(
        function="decimal_key", arguments=(operand,), type=VARCHAR, position=operand.position
    )


def exact_cast(operand: Expression, target: SqlType) -> Expression:
    """Casts an exact number to the DECIMAL `target`; DataError if the cast would round."""
    return Call(function="exact_cast", arguments=(operand,), type=target, position=operand.position)


def renamed(
    relation: Relation, names: tuple[str, ...], what: str, position: Position | None
) -> Relation:
    """The relation with `names` for its first columns, as in a list of column aliases."""
    fields = relation.fields
    if len(names) > len(fields):
        raise ProgrammingError(
            f"{what} has {len(fields)} columns, but {len(names)} names are given", position=position
        )
    if not names:
        return relation
    all_names = names + tuple(item.name for item in fields[len(names) :])
    if isinstance(relation, Project):
        return replace(relation, names=all_names)
    if isinstance(relation, Values):
        return replace(
            relation,
            columns=tuple(Field(n, f.type) for n, f in zip(all_names, fields, strict=True)),
        )
    return Project(input=relation, expressions=references(fields), names=all_names)


def distinct_rows(relation: Relation) -> Relation:
    """The distinct rows of a relation."""
    fields = relation.fields
    return Aggregate(
        input=relation,
        keys=references(fields),
        aggregates=(),
        names=tuple(item.name for item in fields),
        position=relation.position,
    )
