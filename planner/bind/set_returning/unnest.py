"""Binding of UNNEST in FROM and in a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Literal
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import (
    BoundRelation,
    Scope,
    ScopeColumn,
    table_alias,
    with_other_names,
)
from runnel.planner.parse.query.set_functions import OWN_COLUMNS
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.unnest import Unnest
from runnel.sqltypes import VARCHAR, Kind

if TYPE_CHECKING:
    from runnel.planner.bind.binders import FromItems


def is_unnest(tree: Any) -> bool:
    """Whether an item of FROM is UNNEST, with or without LATERAL."""
    return isinstance(tree.this if isinstance(tree, exp.Lateral) else tree, exp.Unnest)


def bind_unnest(
    items: FromItems, left: BoundRelation, tree: Any, is_left: bool = False
) -> BoundRelation:
    """The items before UNNEST, with the elements as further columns; `is_left`: whether UNNEST is
    the right side of a LEFT JOIN."""
    position = items.at(tree)
    binder = ExpressionBinder(items.binder, left.scope, "UNNEST")
    alias, column_names = table_alias(tree)
    arrays = tuple(binder.bind(item) for item in tree.expressions)
    if len(arrays) == 1 and arrays[0].type.kind is Kind.MAP:
        # The rows of a map are its keys and values.
        arrays = (build.call("map_entries", [arrays[0]], position),)
        column_names = column_names or ("key", "value")
    for array in arrays:
        if array.type.kind is not Kind.ARRAY:
            raise ProgrammingError(
                f"UNNEST needs an ARRAY or one MAP, not {array.type}",
                position=array.position or position,
            )
    has_ordinality = bool(tree.args.get("offset"))
    number_name = column_names[len(arrays)] if len(column_names) > len(arrays) else "ordinality"
    relation: Relation = Unnest(
        input=left.relation,
        arrays=arrays,
        names=_element_names(column_names[: len(arrays)], alias, len(arrays)),
        outer=is_left,
        ordinality=number_name if has_ordinality else None,
        position=position,
    )
    if len(column_names) > len(arrays) + has_ordinality:
        if len(arrays) > 1:
            raise _too_many_names(f"{len(arrays)} columns", column_names, position)
        relation = _fields_of(relation, column_names, has_ordinality, position)
    width = len(left.relation.fields)
    added = [
        ScopeColumn(field.name, field.type, width + i, alias)
        for i, field in enumerate(relation.fields[width:])
    ]
    if len(arrays) == 1 and len(added) == 1 + has_ordinality:
        if not column_names:
            added[:1] = with_other_names(added[0], "unnest")
        elif tree.meta.get(OWN_COLUMNS):
            added[:1] = with_other_names(added[0], alias)
    return BoundRelation(relation, Scope((*left.scope.columns, *added), items.outer))


def _element_names(declared: tuple[str, ...], alias: str | None, count: int) -> tuple[str, ...]:
    if not declared and count == 1:
        return (alias or "unnest",)
    return (*declared, *(f"unnest_{i + 1}" for i in range(len(declared), count)))


def _fields_of(
    relation: Relation, names: tuple[str, ...], has_ordinality: bool, position: Position | None
) -> Relation:
    """The rows of UNNEST with the fields of each element as columns, if the alias has a name for
    each field."""
    columns = references(relation.fields)
    row = columns[-1 - has_ordinality]
    count = len(names) - has_ordinality
    if row.type.kind is not Kind.ROW or len(row.type.fields) != count:
        what = f"{len(row.type.fields)} fields" if row.type.kind is Kind.ROW else "one column"
        raise _too_many_names(what, names, position)
    fields = [
        build.call("field", [row, Literal(value=item[0], type=VARCHAR)], position)
        for item in row.type.fields
    ]
    first = len(columns) - 1 - has_ordinality
    return Project(
        input=relation,
        expressions=(*columns[:first], *fields, *columns[first + 1 :]),
        names=(*(item.name for item in columns[:first]), *names),
        position=position,
    )


def _too_many_names(
    what: str, names: tuple[str, ...], position: Position | None
) -> ProgrammingError:
    return ProgrammingError(
        f"UNNEST returns {what}, but {len(names)} names are given", position=position
    )
