"""NOT IN, and IN as a value, of a live query: as joins that compare without NULL, and two facts
about the rows of the subquery."""

from __future__ import annotations

from dataclasses import replace

from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.nodes import AggregateCall, Call, Case, Expression, Literal
from runnel.planner.rewriting import project_columns
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    references,
)
from runnel.sqltypes import BIGINT, BOOLEAN


def null_aware_join(node: Join) -> Relation:
    """The join without a kind in which NULL is unknown.

    `x NOT IN (SELECT y …)` is true for a row without an equal y if there are no rows at all, or if
    neither x nor a y is NULL.
    """
    if len(node.left_keys) != 1 or node.condition is not None:
        raise NotSupportedError(
            "NOT IN and IN as a value can't be maintained with several columns or "
            "a correlated subquery",
            detail="a NULL in the rows of the subquery would change the result for other rows",
            hint="use [NOT] EXISTS with the comparison in the WHERE clause of its subquery",
            position=node.position,
        )
    is_mark = node.kind is JoinKind.MARK
    plain = replace(node, kind=JoinKind.EXISTS_MARK if is_mark else JoinKind.ANTI)
    width = len(plain.fields)
    crossed = Join(kind=JoinKind.CROSS, left=plain, right=_facts(node), position=node.position)
    columns = references(crossed.fields)
    is_empty, has_null = columns[width:]
    value_is_null = build.call("is_null", [node.left_keys[0]])
    if is_mark:
        unknown = build.call("or", [value_is_null, has_null])
        true, false = (Literal(value=value, type=BOOLEAN) for value in (True, False))
        mark = Case(
            conditions=(columns[width - 1], is_empty, unknown),
            results=(true, false, Literal(value=None, type=BOOLEAN)),
            otherwise=false,
            type=BOOLEAN,
        )
        expressions: tuple[Expression, ...] = (*columns[: width - 1], mark)
        names = tuple(field.name for field in plain.fields)
        return Project(input=crossed, expressions=expressions, names=names)
    known = build.call("and", [_negated(value_is_null), _negated(has_null)])
    condition = build.call("or", [is_empty, known])
    return project_columns(Filter(input=crossed, condition=condition), range(width))


def _negated(item: Expression) -> Expression:
    return Call(function="not", arguments=(item,), type=BOOLEAN)


def _facts(node: Join) -> Relation:
    """One row: whether the right side has no rows, and whether a key in it is NULL."""
    counts = Aggregate(
        input=node.right,
        keys=(),
        aggregates=(
            AggregateCall(function="count_star", arguments=(), type=BIGINT),
            AggregateCall(function="count", arguments=node.right_keys, type=BIGINT),
        ),
        names=("$rows", "$values"),
        position=node.position,
    )
    rows, values = references(counts.fields)
    none = build.call("eq", [rows, Literal(value=0, type=BIGINT)])
    null = build.call("ne", [rows, values])
    return Project(input=counts, expressions=(none, null), names=("$is_empty", "$has_null"))
