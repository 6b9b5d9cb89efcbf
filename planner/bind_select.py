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
from runnel.expressions.nodes import Column, Expression, SortKey, transform, walk
from runnel.frozen import frozen
from runnel.planner.bind_expression import Aggregates, AggregateValue, ExpressionBinder, WindowValue
from runnel.planner.bind_from import FromBinder
from runnel.planner.convert import distinct_rows
from runnel.planner.ordering import checked_ordinal, ordinal, sort_key
from runnel.planner.scope import Scope
from runnel.planner.supported import position_of
from runnel.relation import Aggregate, Change, Filter, Project, Relation, Sort, expressions_of, references
from runnel.relation import walk as relations_of
from runnel.subqueries import Exists, InSubquery, OuterColumn, ScalarSubquery

if TYPE_CHECKING:
    from runnel.planner.bind_query import Binder
    from runnel.planner.bind_window import Windows
    from runnel.windows import WindowCall


@frozen
class Item:
    """One column of the select list, bound; `alias` as the user gave it, or None."""

    expression: Expression
    name: str
    alias: str | None


@frozen
class Upper:
    """What is computed over the groups, or over the rows where there are none: HAVING, then the windows, then the rest."""

    items: tuple[Item, ...]
    having: Expression | None
    windows: tuple[WindowCall, ...]
    order: tuple[SortKey, ...]
    qualify: Expression | None

    def mapped(self, change: Change) -> Upper:
        """The same with `change` applied to each expression as a whole."""
        return Upper(
            tuple(replace(item, expression=change(item.expression)) for item in self.items),
            None if self.having is None else change(self.having),
            tuple(call.map_expressions(change) for call in self.windows),
            tuple(key.mapped(change) for key in self.order),
            None if self.qualify is None else change(self.qualify),
        )


class SelectBinder:
    """Binds one SELECT; `outer` is the scope of the query around it."""

    def __init__(self, binder: Binder, outer: Scope | None) -> None:
        self._binder = binder
        self._outer = outer
        self._aggregates = Aggregates()
        self._scope = Scope()
        self._windows: Windows | None = None

    def bind(self, tree: Any) -> Relation:
        """The relation of the whole SELECT."""
        bound = FromBinder(self._binder, self._outer).bind(tree.args.get("from_"), tree.args.get("joins") or [])
        relation, self._scope = bound.relation, bound.scope
        where = tree.args.get("where")
        if where is not None:
            condition = ExpressionBinder(self._binder, self._scope, "WHERE").condition(where.this)
            relation = Filter(input=relation, condition=condition, position=self._at(where))
        if tree.find(exp.Window) is not None or tree.args.get("qualify") is not None:
            self._windows = self._new_windows(tree)
        items = self._items(tree.expressions)
        keys = self._group_keys(tree, items)
        upper = Upper(tuple(items), self._having(tree, items), (), tuple(self._order(tree, items)), self._qualify(tree, items))
        if self._windows is not None:
            upper = replace(upper, windows=tuple(self._windows.calls))
        if keys or self._aggregates.calls or tree.args.get("group") is not None or upper.having is not None:
            relation, upper = self._grouped(tree, relation, keys, upper)
        if upper.having is not None:
            relation = Filter(input=relation, condition=upper.having, position=upper.having.position)
        if upper.windows:
            relation, upper = self._windowed(tree, relation, upper)
        if upper.qualify is not None:
            relation = Filter(input=relation, condition=upper.qualify, position=upper.qualify.position)
        relation = self._projected(tree, relation, list(upper.items), list(upper.order))
        return self._binder.limited(relation, tree)

    def _new_windows(self, tree: Any) -> Windows:
        # Loaded on first use: most statements have no OVER.
        from runnel.planner.bind_window import Windows

        windows = Windows(self._binder, self._scope, self._aggregates)
        windows.define(tree.args.get("windows") or ())
        return windows

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._binder.sql)

    def _items(self, trees: list[Any]) -> list[Item]:
        binder = ExpressionBinder(self._binder, self._scope, "the select list", self._aggregates, self._windows)
        items: list[Item] = []
        for tree in trees:
            star = _star_of(tree)
            if star is not None:
                shown = self._scope.star(star or None, self._at(tree))
                items += [Item(c.expression(self._at(tree)), c.name, None) for c in shown]
                continue
            if isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Star):
                from runnel.planner.bind_special import fields_of

                row = binder.bind(tree.this)
                items += [Item(field, field_name, None) for field, field_name in fields_of(row, self._at(tree))]
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
            if any(isinstance(node, AggregateValue | WindowValue) for node in walk(key)):
                raise ProgrammingError("GROUP BY can't group by an aggregate or a window function", position=self._at(item))
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
        return _AliasBinder(self, items, "HAVING", None).condition(having.this)

    def _qualify(self, tree: Any, items: list[Item]) -> Expression | None:
        qualify = tree.args.get("qualify")
        if qualify is None:
            return None
        condition = _AliasBinder(self, items, "QUALIFY", self._windows).condition(qualify.this)
        if self._windows is None or not self._windows.calls:
            raise ProgrammingError(
                "QUALIFY needs a window function", hint="filter rows with WHERE, groups with HAVING", position=self._at(qualify)
            )
        return condition

    def _order(self, tree: Any, items: list[Item]) -> list[SortKey]:
        order = tree.args.get("order")
        keys = []
        for item in order.expressions if order is not None else []:
            number = ordinal(item.this)
            if number is not None:
                key = items[checked_ordinal(number, len(items), "ORDER BY", self._at(item))].expression
            else:
                key = self._alias_of(item.this, items, prefer=True) or ExpressionBinder(
                    self._binder, self._scope, "ORDER BY", self._aggregates, self._windows
                ).bind(item.this)
            keys.append(sort_key(key, item))
        return keys

    def _grouped(self, tree: Any, relation: Relation, keys: list[Expression], upper: Upper) -> tuple[Relation, Upper]:
        """Puts the aggregation in, and rewrites what comes after it in terms of its result."""
        calls: tuple[AggregateCall, ...] = tuple(self._aggregates.calls)
        names = tuple(_key_name(key, i) for i, key in enumerate(keys)) + tuple(f"${i}" for i in range(len(calls)))
        grouped = Aggregate(
            input=relation, keys=tuple(keys), aggregates=calls, names=names, position=self._at(tree.args.get("group") or tree)
        )
        return grouped, upper.mapped(lambda expression: self._above(expression, keys, names))

    def _windowed(self, tree: Any, relation: Relation, upper: Upper) -> tuple[Relation, Upper]:
        """Puts the windows in; their values are columns behind the others."""
        from runnel.planner.bind_window import with_windows

        width = len(relation.fields)
        window = with_windows(relation, upper.windows, self._at(tree))

        def above(node: Expression) -> Expression:
            if not isinstance(node, WindowValue):
                return node
            index = width + node.index
            return Column(index=index, name=window.fields[index].name, type=node.type, position=node.position)

        return window, replace(upper, having=None, windows=()).mapped(lambda expression: transform(expression, above))

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
    """Binds HAVING and QUALIFY: a name that no input column has may be an alias of the select list."""

    def __init__(self, select: SelectBinder, items: list[Item], clause: str, windows: Windows | None) -> None:
        super().__init__(select._binder, select._scope, clause, select._aggregates, windows)
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
