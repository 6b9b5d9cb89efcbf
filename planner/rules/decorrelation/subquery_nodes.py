"""The subqueries of each kind of relational node, rewritten as joins below or around it."""

from __future__ import annotations

from dataclasses import replace

from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Call, Expression, Literal, walk
from runnel.planner.operators.passes import HOISTING
from runnel.planner.rewriting import project_columns
from runnel.planner.rules.constant_folding import fold_constants
from runnel.planner.rules.decorrelation.hoisting import (
    Hoisting,
    Rewrite,
    exists_join,
    has_subquery,
    in_join,
)
from runnel.planner.rules.decorrelation.laterals import dependent_join
from runnel.relation.nodes import (
    Filter,
    JoinKind,
    Project,
    Relation,
    transform,
)
from runnel.relation.subqueries import (
    SUBQUERIES,
    DependentJoin,
    Exists,
    InSubquery,
    deepened,
)
from runnel.sqltypes import BOOLEAN


def without_subqueries(relation: Relation, rewrite: Rewrite) -> Relation:
    """The relation without subquery expressions and LATERAL. `rewrite` does the same to the
    relations of subqueries."""
    return transform(relation, lambda node: _rewritten(node, rewrite))


def _rewritten(node: Relation, rewrite: Rewrite) -> Relation:
    if isinstance(node, DependentJoin):
        return _dependent(node)
    if not any(has_subquery(item) for item in node.own_expressions):
        return node
    rule = HOISTING.find(node)
    if rule is None:
        raise _unsupported(node)
    return rule(node, rewrite)


def _unsupported(node: Relation) -> NotSupportedError:
    found = [item for e in node.own_expressions for item in walk(e) if isinstance(item, SUBQUERIES)]
    return NotSupportedError(
        "a subquery in this clause is not supported",
        hint="put it in the WHERE clause or the select list of a derived table",
        position=found[0].position or node.position,
    )


def filter_with_subqueries(
    relation: Relation, parts: list[Expression], width: int, rewrite: Rewrite
) -> Relation:
    """The rows for which all predicates are true, some of which contain subqueries; the result has
    the first `width` columns."""
    for part in map(_certain, parts):
        found = _as_join(relation, part, rewrite)
        if found is not None:
            relation = found
            continue
        hoisting = Hoisting(relation, rewrite)
        condition = hoisting.rewrite(part)
        relation = Filter(input=hoisting.relation, condition=condition, position=part.position)
    return project_columns(relation, range(width))


def _certain(part: Expression) -> Expression:
    """A conjunct of a filter without alternatives that are never true, such as `x AND NULL`: in a
    filter, NULL counts as false."""
    if not isinstance(part, Call) or part.function != "or":
        return part
    left = [item for item in part.arguments if not _never_true(item)]
    if not left:
        return Literal(value=False, type=BOOLEAN)
    return left[0] if len(left) == 1 else replace(part, arguments=tuple(left))


def _never_true(part: Expression) -> bool:
    if isinstance(part, Call) and part.function == "and":
        return any(map(_never_true, part.arguments))
    return isinstance(part, Literal) and not part.value


def _as_join(relation: Relation, part: Expression, rewrite: Rewrite) -> Relation | None:
    """The join for a conjunct; None if it isn't [NOT] IN or [NOT] EXISTS."""
    negated = isinstance(part, Call) and part.function == "not"
    inner = part.arguments[0] if isinstance(part, Call) and negated else part
    if isinstance(inner, Exists):
        found = exists_join(relation, inner, JoinKind.ANTI if negated else JoinKind.SEMI, rewrite)
        if found is None:
            return (
                Filter(input=relation, condition=Literal(value=False, type=BOOLEAN))
                if negated
                else relation
            )
        return found
    if isinstance(inner, InSubquery) and not any(has_subquery(item) for item in inner.operands):
        return in_join(relation, inner, JoinKind.NULL_ANTI if negated else JoinKind.SEMI, rewrite)
    return None


def project_with_subqueries(node: Project, rewrite: Rewrite) -> Relation:
    hoisting = Hoisting(node.input, rewrite)
    expressions = tuple(hoisting.rewrite(item) for item in node.expressions)
    return replace(node, input=hoisting.relation, expressions=expressions)


def _dependent(node: DependentJoin) -> Relation:
    return dependent_join(node, deepened(fold_constants(node.right), -1))
