"""Binding of one SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT, ORDER BY, LIMIT.

Names follow PostgreSQL: GROUP BY prefers an input column to an alias of the select list, ORDER BY the other way round;
HAVING may use aliases as well. A column without a name is called EXPR$ and its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Column, Expression, SortKey, walk
from runnel.frozen import frozen
from runnel.planner.bind_expression import Aggregates, AggregateValue, ExpressionBinder
from runnel.planner.bind_from import FromBinder
from runnel.planner.convert import distinct_rows
from runnel.planner.ordering import checked_ordinal, ordinal, sort_key
from runnel.planner.scope import Scope
from runnel.planner.supported import position_of
from runnel.relation import Aggregate, Filter, Project, Relation, Sort, expressions_of, references
from runnel.relation import walk as relations_of
from runnel.subqueries import Exists, InSubquery, OuterColumn, ScalarSubquery

if TYPE_CHECKING:
    from runnel.planner.bind_query import Binder


@frozen
class Item:
    """One column of the select list, bound; `alias` as the user gave it, or None."""

    expression: Expression
    name: str
    alias: str | None


class SelectBinder:
    """Binds one SELECT; `outer` is the scope of the query around it."""

    def __init__(self, binder: Binder, outer: Scope | None) -> None:
        self._binder = binder
        self._outer = outer
        self._aggregates = Aggregates()
        self._scope = Scope()

    def bind(self, tree: Any) -> Relation:
        """The relation of the whole SELECT."""
        bound = FromBinder(self._binder, self._outer).bind(tree.args.get("from_"), tree.args.get("joins") or [])
        relation, self._scope = bound.relation, bound.scope
        where = tree.args.get("where")
        if where is not None:
            condition = ExpressionBinder(self._binder, self._scope, "WHERE").condition(where.this)
            relation = Filter(input=relation, condition=condition, position=self._at(where))
        items = self._items(tree.expressions)
        keys = self._group_keys(tree, items)
        having = self._having(tree, items)
        order = self._order(tree, items)
        if keys or self._aggregates.calls or tree.args.get("group") is not None or having is not None:
            relation, items, having, order = self._grouped(tree, relation, keys, items, having, order)
        if having is not None:
            relation = Filter(input=relation, condition=having, position=having.position)
        relation = self._projected(tree, relation, items, order)
        return self._binder.limited(relation, tree)

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._binder.sql)

    def _items(self, trees: list[Any]) -> list[Item]:
        binder = ExpressionBinder(self._binder, self._scope, "the select list", self._aggregates)
        items: list[Item] = []
        for tree in trees:
            star = _star_of(tree)
            if star is not None:
                shown = self._scope.star(star or None, self._at(tree))
                items += [Item(c.expression(self._at(tree)), c.name, None) for c in shown]
                continue
            alias = tree.alias if isinstance(tree, exp.Alias) else None
            inner = tree.this if isinstance(tree, exp.Alias) else tree
            name = alias or (inner.name if isinstance(inner, exp.Column) else f"EXPR${len(items)}")
            items.append(Item(binder.bind(inner), name, alias))
        if not items:
            raise ProgrammingError("the select list is empty", position=self._at(trees[0]) if trees else None)
        return items

    def _group_keys(self, tree: Any, items: list[Item]) -> list[Expression]:
        group = tree.args.get("group")
        keys: list[Expression] = []
        if group is None:
            return keys
        for item in group.expressions:
            number = ordinal(item)
            if number is not None:
                key = items[checked_ordinal(number, len(items), "GROUP BY", self._at(item))].expression
            else:
                key = self._alias_of(item, items) or ExpressionBinder(self._binder, self._scope, "GROUP BY").bind(item)
            if any(isinstance(node, AggregateValue) for node in walk(key)):
                raise ProgrammingError("GROUP BY can't group by an aggregate", position=self._at(item))
            if key not in keys:
                keys.append(key)
        return keys

    def _alias_of(self, tree: Any, items: list[Item], prefer: bool = False) -> Expression | None:
        """The select list's expression that a bare name means; input columns come first unless `prefer`."""
        if not isinstance(tree, exp.Column) or tree.table:
            return None
        name = tree.name.lower()
        if not prefer and self._scope.find(tree.name, None):
            return None
        found = [item for item in items if item.alias is not None and item.alias.lower() == name]
        if prefer and not found:
            found = [item for item in items if item.name.lower() == name]
        different = {item.expression for item in found}
        if len(different) > 1:
            raise ProgrammingError(f'column "{tree.name}" is ambiguous', position=self._at(tree))
        return found[0].expression if found else None

    def _having(self, tree: Any, items: list[Item]) -> Expression | None:
        having = tree.args.get("having")
        if having is None:
            return None
        binder = _AliasBinder(self, items, "HAVING")
        return binder.condition(having.this)

    def _order(self, tree: Any, items: list[Item]) -> list[SortKey]:
        order = tree.args.get("order")
        keys = []
        for item in order.expressions if order is not None else []:
            number = ordinal(item.this)
            if number is not None:
                key = items[checked_ordinal(number, len(items), "ORDER BY", self._at(item))].expression
            else:
                key = self._alias_of(item.this, items, prefer=True) or ExpressionBinder(
                    self._binder, self._scope, "ORDER BY", self._aggregates
                ).bind(item.this)
            keys.append(sort_key(key, item))
        return keys

    def _grouped(
        self,
        tree: Any,
        relation: Relation,
        keys: list[Expression],
        items: list[Item],
        having: Expression | None,
        order: list[SortKey],
    ) -> tuple[Relation, list[Item], Expression | None, list[SortKey]]:
        """Puts the aggregation in, and rewrites what comes after it in terms of its result."""
        calls: tuple[AggregateCall, ...] = tuple(self._aggregates.calls)
        names = tuple(_key_name(key, i) for i, key in enumerate(keys)) + tuple(f"${i}" for i in range(len(calls)))
        grouped = Aggregate(
            input=relation, keys=tuple(keys), aggregates=calls, names=names, position=self._at(tree.args.get("group") or tree)
        )

        def above(expression: Expression) -> Expression:
            return self._above(expression, keys, names)

        items = [replace(item, expression=above(item.expression)) for item in items]
        order = [key._replace(expression=above(key.expression)) for key in order]
        return grouped, items, None if having is None else above(having), order

    def _above(self, expression: Expression, keys: list[Expression], names: tuple[str, ...]) -> Expression:
        """The expression over the aggregation's result: keys and aggregates become its columns."""
        if expression in keys:
            index = keys.index(expression)
            return Column(index=index, name=names[index], type=expression.type, position=expression.position)
        if isinstance(expression, AggregateValue):
            index = len(keys) + expression.index
            return Column(index=index, name=names[index], type=expression.type, position=expression.position)
        if isinstance(expression, Column):
            raise ProgrammingError(
                f'column "{expression.name}" must be in GROUP BY or in an aggregate function',
                hint=f'add "{expression.name}" to GROUP BY, or take ANY_VALUE({expression.name})',
                position=expression.position,
            )
        if isinstance(expression, (Exists, ScalarSubquery, InSubquery)) and _is_correlated(expression):
            raise NotSupportedError(
                "a correlated subquery above GROUP BY is not supported",
                hint="group in a derived table first",
                position=expression.position,
            )
        children = tuple(self._above(child, keys, names) for child in expression.children)
        return expression.with_children(children) if children else expression

    def _projected(self, tree: Any, relation: Relation, items: list[Item], order: list[SortKey]) -> Relation:
        """The select list, DISTINCT and ORDER BY over the rows."""
        expressions = [item.expression for item in items]
        names = [item.name for item in items]
        distinct = tree.args.get("distinct") is not None
        extra = [key.expression for key in order if key.expression not in expressions]
        if distinct and extra:
            raise ProgrammingError(
                "with SELECT DISTINCT, ORDER BY can only use columns of the select list", position=extra[0].position
            )
        extra = list(dict.fromkeys(extra))
        everything = expressions + extra
        projected: Relation = Project(
            input=relation,
            expressions=tuple(everything),
            names=(*names, *(f"$order{i}" for i in range(len(extra)))),
            position=self._at(tree),
        )
        if distinct:
            projected = distinct_rows(projected)
        if not order:
            return projected
        columns = references(projected.fields)
        keys = tuple(key._replace(expression=columns[everything.index(key.expression)]) for key in order)
        projected = Sort(input=projected, keys=keys, position=self._at(tree.args["order"]))
        if not extra:
            return projected
        return Project(input=projected, expressions=columns[: len(names)], names=tuple(names), position=self._at(tree))


class _AliasBinder(ExpressionBinder):
    """Binds HAVING: a name that no input column has may be an alias of the select list."""

    def __init__(self, select: SelectBinder, items: list[Item], clause: str) -> None:
        super().__init__(select._binder, select._scope, clause, select._aggregates)
        self._select = select
        self._items = items

    def bind(self, tree: Any) -> Expression:
        return self._select._alias_of(tree, self._items) or super().bind(tree)


def _star_of(tree: Any) -> str | None:
    """The qualifier of `t.*`, "" for `*`, None for anything else."""
    if isinstance(tree, exp.Star):
        return ""
    if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        return str(tree.table)
    return None


def _key_name(key: Expression, index: int) -> str:
    return key.name if isinstance(key, Column) else f"$key{index}"


def _is_correlated(subquery: Exists | ScalarSubquery | InSubquery) -> bool:
    return any(
        isinstance(node, OuterColumn)
        for relation in relations_of(subquery.relation)
        for expression in expressions_of(relation)
        for node in walk(expression)
    )
