"""Binding of ARRAY(SELECT …): the values of a one-column query, including NULLs, in the query's
order; an empty array if there are no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, SortKey
from runnel.planner.bind.scope import Scope
from runnel.relation.nodes import Aggregate, Limit, Project, Relation, Sort, references
from runnel.relation.subqueries import ScalarSubquery
from runnel.sqltypes import NULL, VARCHAR, array

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder


def query_of(tree: Any) -> Any | None:
    """The query of an exp.Array that has one in parentheses; None for ARRAY[…]."""
    if (
        tree.args.get("value_constructor") is not None
        or tree.args.get("bracket_notation")
        or len(tree.expressions) != 1
    ):
        return None
    only = tree.expressions[0]
    return only if isinstance(only, exp.Query | exp.Values) else None


def array_of_query(
    query: QueryBinder, scope: Scope, tree: Any, position: Position | None
) -> Expression:
    """The ARRAY of all values of a query, which may refer to `scope`."""
    # Loaded on first use: most statements have no aggregate.
    from runnel.expressions.aggregates.registry import aggregate_call

    relation = query.subquery(tree, scope)
    if len(relation.fields) != 1:
        raise ProgrammingError(
            f"the query of ARRAY must have one column, not {len(relation.fields)}",
            position=position,
        )
    rows, value, order = _in_order(relation)
    if value.type == NULL:
        value = build.cast(value, VARCHAR, implicit=True)
    gathered = aggregate_call("array_agg", [value], position=position, order=order)
    groups = Aggregate(
        input=rows, keys=(), aggregates=(gathered,), names=("values",), position=position
    )
    found = references(groups.fields)[0]
    empty = build.cast(build.call("array", [], position), array(value.type), implicit=True)
    filled = build.coalesce([found, empty], position)
    one = Project(input=groups, expressions=(filled,), names=("values",), position=position)
    return ScalarSubquery(relation=one, type=filled.type, position=position)


def _in_order(relation: Relation) -> tuple[Relation, Expression, list[SortKey]]:
    """Returns the rows with all columns that their sort keys need, the expression of a row's value,
    and the sort keys."""
    limit = relation if isinstance(relation, Limit) else None
    inner = relation if limit is None else limit.input
    index = 0
    if (
        isinstance(inner, Project)
        and isinstance(inner.input, Sort)
        and isinstance(inner.expressions[0], Column)
    ):
        index, inner = inner.expressions[0].index, inner.input
    if not isinstance(inner, Sort):
        return relation, references(relation.fields)[0], []
    rows = inner if limit is None else limit.with_inputs((inner,))
    return rows, references(rows.fields)[index], list(inner.keys)
