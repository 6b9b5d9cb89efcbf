"""Adding the values of outer columns to an uncorrelated relation: the domain, and its use in the
conditions of a pulled relation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from runnel.errors import NotSupportedError
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Call, Change, Column, Expression
from runnel.planner.rewriting import conjunction, project_columns, shift, substitute
from runnel.planner.rules.decorrelation.pulled import (
    Pulled,
    fails,
    is_outer_only,
    marked,
    outer_indexes,
    pair_of,
    provided,
    same_as,
    where_present,
    with_outer,
)
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Single,
    references,
)
from runnel.relation.nodes import walk as relations_of
from runnel.relation.subqueries import OuterColumn
from runnel.sqltypes import BOOLEAN


class Anchoring(ABC):
    """The operations that the unnesting of every kind of node needs.

    outer: the outer relation.
    """

    def __init__(self, outer: Relation) -> None:
        self._outer = outer

    @abstractmethod
    def pull(self, node: Relation) -> Pulled:
        """The relation without its correlation. Subqueries and LATERAL in it must already be
        unnested."""

    def rows(self, node: Relation) -> Pulled:
        """`pull`, completed so that there are no defaults."""
        return self.complete(self.pull(node))

    def input_of(self, node: Single) -> tuple[Pulled, Change]:
        """The input of a node with all outer values that the node's expressions read, and the
        change that moves an expression of the node onto it."""
        below = self.rows(node.input)
        below = self.ready(
            below, [substitute(item, below.columns) for item in node.own_expressions]
        )
        values = provided(below.parts)
        return below, lambda item: with_outer(substitute(item, below.columns), values)

    def domain(self, indexes: Iterable[int]) -> tuple[Relation, list[OuterColumn]]:
        """The distinct values of the outer relation's columns at `indexes`, and these columns."""
        _check_domain(self._outer)
        projected = project_columns(self._outer, sorted(indexes))
        fields = projected.fields
        names = tuple(item.name for item in fields)
        distinct = Aggregate(input=projected, keys=references(fields), aggregates=(), names=names)
        columns = [
            OuterColumn(index=index, name=item.name, type=item.type, depth=0)
            for index, item in zip(sorted(indexes), fields, strict=True)
        ]
        return distinct, columns

    def anchor(
        self,
        pulled: Pulled,
        needed: Iterable[int] = (),
        *,
        reached: bool = False,
        plain: bool = False,
    ) -> Pulled:
        """Makes the conditions equalities of outer with inner expressions, or conditions on the
        outer row alone, by a join with the domain if necessary.

        needed: outer columns whose values the relation must have.
        reached: whether the relation may only have rows that belong to an outer row.
        plain: whether each condition must equate a single outer column, each one once.
        """
        requested, found = set(needed), provided(pulled.parts)
        if plain:
            fits = len(found) == len(pulled.parts)
        else:
            fits = all(pair_of(item) is not None or is_outer_only(item) for item in pulled.parts)
        is_reached = pulled.is_reached or not pulled.parts
        if fits and requested <= found.keys() and (is_reached or not reached):
            return _without_nulls(pulled) if plain else pulled
        assert pulled.defaults is None
        domain, columns = self.domain(requested | outer_indexes(pulled.parts))
        width = len(pulled.relation.fields)
        positions = references(domain.fields, width)
        values = {column.index: at for column, at in zip(columns, positions, strict=True)}
        condition = conjunction(with_outer(item, values) for item in pulled.parts)
        kind = JoinKind.CROSS if condition is None else JoinKind.INNER
        relation = Join(kind=kind, left=pulled.relation, right=domain, condition=condition)
        equalities = tuple(same_as(column, values[column.index]) for column in columns)
        return Pulled(relation, pulled.columns, equalities, None, True)

    def ready(self, pulled: Pulled, expressions: Iterable[Expression]) -> Pulled:
        """The relation, anchored so that the expressions (over its columns and outer columns) can
        be computed in it."""
        listed = list(expressions)
        return self.anchor(pulled, outer_indexes(listed), reached=any(map(fails, listed)))

    def complete(self, pulled: Pulled) -> Pulled:
        """The same without defaults, whose values become rows of the relation."""
        if pulled.defaults is None:
            return pulled
        if not pulled.parts:
            return replace(pulled, defaults=None)
        indexes = outer_indexes((*pulled.parts, *pulled.columns, *pulled.defaults))
        domain, columns = self.domain(indexes)
        width = len(columns)
        values: dict[int, Expression] = dict(
            zip(sorted(indexes), references(domain.fields), strict=True)
        )
        right = marked(pulled.relation)
        condition = conjunction(with_outer(shift(item, width), values) for item in pulled.parts)
        relation = Join(kind=JoinKind.LEFT, left=domain, right=right, condition=condition)
        mark = references(relation.fields)[-1]
        results = tuple(
            where_present(mark, with_outer(shift(item, width), values), with_outer(default, values))
            for item, default in zip(pulled.columns, pulled.defaults, strict=True)
        )
        equalities = tuple(same_as(column, values[column.index]) for column in columns)
        return Pulled(relation, results, equalities, None, True)

    def settled(self, pulled: Pulled) -> Pulled:
        """The same, with all columns computed in the relation."""
        if all(isinstance(item, Column) for item in pulled.columns):
            return pulled
        pulled = self.ready(pulled, pulled.columns)
        values = provided(pulled.parts)
        fields = pulled.relation.fields
        width = len(fields)
        relation = Project(
            input=pulled.relation,
            expressions=(
                *references(fields),
                *(with_outer(item, values) for item in pulled.columns),
            ),
            names=(
                *(item.name for item in fields),
                *(f"$value{i}" for i in range(len(pulled.columns))),
            ),
        )
        return replace(pulled, relation=relation, columns=references(relation.fields)[width:])


def _without_nulls(pulled: Pulled) -> Pulled:
    """The same without rows that satisfy no equality because of a NULL, so that the equalities can
    become null-safe."""
    pairs = [
        pair_of(item) for item in pulled.parts if isinstance(item, Call) and item.function == "eq"
    ]
    tests = (
        Call(function="is_not_null", arguments=(pair[1],), type=BOOLEAN)
        for pair in pairs
        if pair is not None
    )
    condition = conjunction(tests)
    return (
        pulled
        if condition is None
        else replace(pulled, relation=Filter(input=pulled.relation, condition=condition))
    )


def _check_domain(outer: Relation) -> None:
    position = outer.position
    if outer.never_ends:
        raise NotSupportedError(
            "this correlated subquery is not supported over a streaming source",
            detail="all distinct values of the outer columns would have to be known first",
            hint="compare columns of the stream in the subquery only by =, or write a join",
            position=position,
        )
    for node in relations_of(outer):
        if any(is_volatile(item) for item in node.own_expressions):
            raise NotSupportedError(
                "this correlated subquery is not supported over rows that a volatile function "
                "computes",
                detail="the outer rows are read twice, and would differ",
                hint="write the rows to a mapping first",
                position=node.position or position,
            )
