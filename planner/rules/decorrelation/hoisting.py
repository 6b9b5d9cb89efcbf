"""A subquery as a join: the rows for which it holds, or all rows with its value as a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runnel.deadline import check_time
from runnel.expressions.nodes import Call, Case, Column, Expression, Literal, conjuncts, walk
from runnel.planner.rewriting import conjunction, project_columns
from runnel.planner.rules.constant_folding import fold_constants
from runnel.planner.rules.decorrelation.correlation import Unnesting, is_correlated, keeps_a_row
from runnel.planner.rules.decorrelation.pulled import (
    Pulled,
    as_it_is,
    fails,
    joined,
    marked,
    outer_indexes,
    where_present,
)
from runnel.relation.nodes import (
    Aggregate,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Single,
    Sort,
    Values,
    references,
)
from runnel.relation.subqueries import SUBQUERIES, Exists, InSubquery, ScalarSubquery, deepened
from runnel.sqltypes import BIGINT, BOOLEAN

Rewrite = Callable[[Relation], Relation]
"""The rule itself, for the relations of subqueries: it returns them without subqueries."""


def has_subquery(expression: Expression) -> bool:
    return any(isinstance(item, SUBQUERIES) for item in walk(expression))


def inner(relation: Relation, rewrite: Rewrite) -> Relation:
    """A subquery's relation without nested subqueries, as seen from the enclosing query, whose
    columns have depth 0."""
    return deepened(fold_constants(rewrite(relation)), -1)


def _pulled(outer: Relation, relation: Relation) -> tuple[Unnesting, Pulled]:
    unnesting = Unnesting(outer)
    return unnesting, unnesting.pull(relation) if is_correlated(relation) else as_it_is(relation)


def _condition(pulled: Pulled, width: int) -> Expression | None:
    return conjunction(joined(part, width) for part in pulled.parts)


def exists_join(
    relation: Relation,
    node: Exists,
    kind: JoinKind,
    rewrite: Rewrite,
    outer: Relation | None = None,
) -> Relation | None:
    """The join of EXISTS; None if the subquery certainly has a row.

    outer: a relation with the same rows and, first, the same columns as `relation`, for the values
      of outer columns; None: `relation`.
    """
    subquery = _existence_only(inner(node.relation, rewrite))
    if not is_correlated(subquery):
        one = Limit(input=subquery, count=Literal(value=1, type=BIGINT), offset=None)
        return Join(kind=kind, left=relation, right=one, position=node.position)
    _, pulled = _pulled(outer or relation, subquery)
    if pulled.defaults is not None:
        return None
    condition = _condition(pulled, len(relation.fields))
    return Join(
        kind=kind, left=relation, right=pulled.relation, condition=condition, position=node.position
    )


def _existence_only(relation: Relation) -> Relation:
    """The subquery of an EXISTS without the clauses that don't affect whether it has a row: the
    select list, GROUP BY, DISTINCT, ORDER BY, a LIMIT of one or more."""
    while (
        isinstance(relation, Project | Sort)
        or (isinstance(relation, Aggregate) and relation.keys)
        or (isinstance(relation, Limit) and keeps_a_row(relation))
    ):
        relation = relation.input
    return relation


def _values_only(relation: Relation) -> Relation:
    """The subquery of an IN without the clauses that don't affect the set of its rows: DISTINCT,
    ORDER BY."""
    while True:
        if isinstance(relation, Sort):
            relation = relation.input
        elif isinstance(relation, Aggregate) and relation.keys and not relation.aggregates:
            relation = Project(
                input=relation.input, expressions=relation.keys, names=relation.names
            )
        else:
            return relation


def in_join(
    relation: Relation,
    node: InSubquery,
    kind: JoinKind,
    rewrite: Rewrite,
    outer: Relation | None = None,
) -> Relation:
    """The join of IN; `outer` as of `exists_join`."""
    unnesting, pulled = _pulled(outer or relation, inner(_values_only(node.relation), rewrite))
    pulled = unnesting.complete(pulled)
    width = len(relation.fields)
    if kind is JoinKind.SEMI and _is_deferred(pulled):
        columns = [joined(item, width) for item in pulled.columns]
        equal = [
            Call(function="eq", arguments=(operand, column), type=BOOLEAN)
            for operand, column in zip(node.operands, columns, strict=True)
        ]
        condition = conjunction([*(joined(part, width) for part in pulled.parts), *equal])
        return Join(
            kind=kind,
            left=relation,
            right=pulled.relation,
            condition=condition,
            position=node.position,
        )
    pulled = unnesting.settled(pulled)
    return Join(
        kind=kind,
        left=relation,
        right=pulled.relation,
        left_keys=node.operands,
        right_keys=pulled.columns,
        condition=_condition(pulled, width),
        position=node.position,
    )


def _is_deferred(pulled: Pulled) -> bool:
    """Whether a column needs the outer row, or can fail on rows that no outer row reaches."""
    return bool(outer_indexes(pulled.columns)) or (
        bool(pulled.parts) and any(map(fails, pulled.columns))
    )


class Hoisting:
    """Joins subqueries to a relation one after another; each adds columns at the end, and preserves
    the rows. The values of outer columns are therefore read from the first relation: read from the
    joined one, they would contain the plans of all subqueries before, twice for each."""

    def __init__(self, relation: Relation, rewrite: Rewrite) -> None:
        self.relation = self._outer = relation
        self._rewrite = rewrite

    def rewrite(self, expression: Expression, guard: Expression | None = None) -> Expression:
        """The expression over `self.relation`, with its subqueries replaced by columns. Its value
        is needed only where `guard` is true."""
        check_time()
        if not has_subquery(expression):
            return expression
        if isinstance(expression, Case):
            return self._case(expression, guard)
        children = tuple(self.rewrite(child, guard) for child in expression.children)
        expression = expression.with_children(children)
        if isinstance(expression, Exists):
            found = exists_join(
                self.relation, expression, JoinKind.EXISTS_MARK, self._rewrite, self._outer
            )
            return (
                Literal(value=True, type=BOOLEAN)
                if found is None
                else self._last(found, expression)
            )
        if isinstance(expression, InSubquery):
            rows = in_join(self.relation, expression, JoinKind.MARK, self._rewrite, self._outer)
            return self._last(rows, expression)
        if isinstance(expression, ScalarSubquery):
            return self._scalar(expression, guard)
        return expression

    def _case(self, node: Case, guard: Expression | None) -> Expression:
        """A branch is needed where its condition is true and no earlier one is."""
        conditions, results = [], []
        waiting = [] if guard is None else [guard]
        for condition, result in zip(node.conditions, node.results, strict=True):
            taken = self.rewrite(condition, conjunction(waiting))
            conditions.append(taken)
            results.append(self.rewrite(result, conjunction([*waiting, taken])))
            waiting.append(Call(function="is_not_true", arguments=(taken,), type=BOOLEAN))
        otherwise = (
            None if node.otherwise is None else self.rewrite(node.otherwise, conjunction(waiting))
        )
        return replace(
            node, conditions=tuple(conditions), results=tuple(results), otherwise=otherwise
        )

    def _scalar(self, node: ScalarSubquery, guard: Expression | None) -> Expression:
        subquery = inner(node.relation, self._rewrite)
        if not is_correlated(subquery) and has_one_row(subquery):
            cross = Join(
                kind=JoinKind.CROSS, left=self.relation, right=subquery, position=node.position
            )
            return self._last(cross, node)
        _, pulled = _pulled(self._outer, subquery)
        if not pulled.parts and has_one_row(pulled.relation):
            return self._joined(pulled, JoinKind.CROSS, None, node)
        has_default = pulled.defaults is not None and not _is_null(pulled.defaults[0])
        needs_mark = has_default or not isinstance(pulled.columns[0], Column)
        if needs_mark:
            pulled = replace(pulled, relation=marked(pulled.relation))
        condition = _condition(pulled, len(self.relation.fields))
        kind = JoinKind.SINGLE if pulled.defaults is None else JoinKind.LEFT
        if kind is JoinKind.SINGLE and guard is not None:
            condition = conjunction([guard, *conjuncts(condition)])
        width = len(self.relation.fields)
        value = self._joined(pulled, kind, condition, node)
        if not needs_mark:
            return value
        default = None if pulled.defaults is None else joined(pulled.defaults[0], width)
        return where_present(references(self.relation.fields)[-1], value, default)

    def _joined(
        self, pulled: Pulled, kind: JoinKind, condition: Expression | None, node: ScalarSubquery
    ) -> Expression:
        width = len(self.relation.fields)
        self.relation = Join(
            kind=kind,
            left=self.relation,
            right=pulled.relation,
            condition=condition,
            position=node.position,
        )
        return joined(pulled.columns[0], width)

    def _last(self, joined: Relation, expression: Expression) -> Expression:
        self.relation = joined
        index = len(joined.fields) - 1
        name = joined.fields[index].name
        return Column(index=index, name=name, type=expression.type, position=expression.position)


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def has_one_row(relation: Relation) -> bool:
    """Whether a relation has exactly one row whatever the data."""
    if isinstance(relation, Aggregate):
        return not relation.keys
    if isinstance(relation, Values):
        return len(relation.rows) == 1
    if isinstance(relation, Project | Sort):
        return has_one_row(relation.input)
    return (
        isinstance(relation, Join)
        and relation.kind is JoinKind.CROSS
        and all(map(has_one_row, relation.inputs))
    )


def hoist_below(node: Single, rewrite: Rewrite) -> Relation:
    """A node that returns its input's columns and then columns of its own, without subqueries. The
    columns of the subqueries, which are between these, are dropped."""
    hoisting = Hoisting(node.input, rewrite)
    rewritten = node.map_expressions(hoisting.rewrite).with_inputs((hoisting.relation,))
    width, first = len(node.input.fields), len(hoisting.relation.fields)
    return project_columns(rewritten, [*range(width), *range(first, len(rewritten.fields))])
