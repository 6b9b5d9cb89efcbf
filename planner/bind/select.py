"""Binding of one SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT, ORDER BY, LIMIT.

Names are resolved as in PostgreSQL. If a name is both an input column and an alias of the select
list, GROUP BY uses the column and ORDER BY the alias. HAVING may use aliases too. A column without
a name is called by the text of its expression.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import AmbiguousColumn, NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import (
    Change,
    Column,
    Expression,
    SortKey,
    UnnamedColumn,
    stored_name,
    transform,
)
from runnel.planner.bind.convert import distinct_rows
from runnel.planner.bind.ordering import checked_ordinal, is_all, is_word_all, ordinal, sort_key
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.select_parts import Aggregates, Item, WindowValue
from runnel.planner.bind.tables.from_clause import FromBinder
from runnel.planner.parse.query.allow_list import position_of, unwrapped
from runnel.planner.parse.query.shapes import TEXT
from runnel.relation.nodes import Aggregate, Filter, Project, Relation, Sort, references

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.bind.grouping.over import WindowCalls
    from runnel.planner.bind.select_list.aliases import SelectAliases
    from runnel.planner.bind.select_list.stars import StarColumns
    from runnel.planner.bind.set_returning.select_list import SetCall
    from runnel.relation.over import WindowCall


class _Named:
    """The columns of the select list, by alias and by name in lower case."""

    def __init__(self, items: list[Item]) -> None:
        self.aliases: dict[str, list[Item]] = {}
        self.names: dict[str, list[Item]] = {}
        for item in items:
            self.names.setdefault(item.name.lower(), []).append(item)
            if isinstance(item.name, UnnamedColumn):
                self.names.setdefault(stored_name(item.name).lower(), []).append(item)
            if item.alias is not None:
                self.aliases.setdefault(item.alias.lower(), []).append(item)


@frozen
class Upper:
    """The expressions that are computed over the groups, or over the rows if there is no grouping.
    The order of evaluation is HAVING, the windows, the rest.

    items: the columns of the select list.
    having: the condition of HAVING, or None.
    windows: the distinct calls with OVER.
    order: the keys of ORDER BY.
    qualify: the condition of QUALIFY, or None.
    on: the expressions of DISTINCT ON.
    sets: the calls of set-returning functions.
    """

    items: tuple[Item, ...]
    having: Expression | None
    windows: tuple[WindowCall, ...]
    order: tuple[SortKey, ...]
    qualify: Expression | None
    on: tuple[Expression, ...]
    sets: tuple[SetCall, ...] = ()

    def mapped(self, change: Change) -> Upper:
        """The same with `change` applied to each whole expression."""
        return Upper(
            tuple(replace(item, expression=change(item.expression)) for item in self.items),
            None if self.having is None else change(self.having),
            tuple(call.map_expressions(change) for call in self.windows),
            tuple(key.mapped(change) for key in self.order),
            None if self.qualify is None else change(self.qualify),
            tuple(change(item) for item in self.on),
            tuple(call.mapped(change) for call in self.sets),
        )


class SelectBinder:
    """Binds one SELECT; `outer` is the scope of the enclosing query."""

    def __init__(self, binder: StatementBinder, outer: Scope | None) -> None:
        self._binder = binder
        self._outer = outer
        self._aggregates = Aggregates()
        self._scope = Scope()
        self._windows: WindowCalls | None = None
        self._sets: tuple[tuple[int, ...], ...] | None = None
        self._set_calls: list[SetCall] = []
        self._named: _Named | None = None

    def bind(self, tree: Any) -> Relation:
        """Binds the whole SELECT."""
        bound = FromBinder(self._binder, self._outer).bind(
            tree.args.get("from_"), tree.args.get("joins") or []
        )
        relation, self._scope = bound.relation, bound.scope
        if tree.args.get("sample") is not None:
            from runnel.planner.bind.tables.sample import sampled

            sample = tree.args["sample"]
            relation = sampled(relation, sample, self._at(sample))
        if any(isinstance(item, exp.Alias) for item in tree.expressions):
            self._scope = replace(self._scope, aliases=_aliases(tree.expressions))
        where = tree.args.get("where")
        if where is not None:
            relation = Filter(
                input=relation, condition=self._where(tree, where), position=self._at(where)
            )
        has_macros = bool(self._binder.snapshot.definitions)  # their bodies may have OVER
        if tree.find(exp.Window) is not None or tree.args.get("qualify") is not None or has_macros:
            self._windows = self._new_windows(tree)
        keys, upper = self._clause_expressions(tree)
        if upper.sets and keys:
            from runnel.planner.bind.set_returning.select_list import sets_before_groups

            relation, change, left = sets_before_groups(relation, keys, upper.sets)
            keys, upper = list(map(change, keys)), replace(upper, sets=left).mapped(change)
        if (
            keys
            or self._aggregates.calls
            or tree.args.get("group") is not None
            or upper.having is not None
        ):
            relation, upper = self._grouped(tree, relation, keys, upper)
        elif self._aggregates.groupings:
            raise ProgrammingError(
                "GROUPING needs GROUP BY", position=self._aggregates.groupings[0].position
            )
        if upper.sets:
            from runnel.planner.bind.set_returning.select_list import check_no_set

            check_no_set(upper.having, "HAVING")
            check_no_set(upper.qualify, "QUALIFY")
        if upper.having is not None:
            relation = Filter(
                input=relation, condition=upper.having, position=upper.having.position
            )
        if upper.windows:
            relation, upper = self._windowed(tree, relation, upper)
        if upper.qualify is not None:
            relation = Filter(
                input=relation, condition=upper.qualify, position=upper.qualify.position
            )
        if upper.sets:
            from runnel.planner.bind.set_returning.select_list import with_sets

            relation, change = with_sets(relation, upper.sets)
            upper = replace(upper, having=None, windows=(), qualify=None, sets=()).mapped(change)
        relation = self._projected(tree, relation, upper)
        return self._binder.limited(relation, tree)

    def _clause_expressions(self, tree: Any) -> tuple[list[Expression], Upper]:
        """The keys of GROUP BY, and the expressions of the clauses that are evaluated after it."""
        items = self._items(tree.expressions)
        keys = self._group_keys(tree, items)
        having, order, qualify = (
            self._having(tree, items),
            self._order(tree, items),
            self._qualify(tree, items),
        )
        on = self._distinct_on(tree, items)
        calls = () if self._windows is None else tuple(self._windows.calls)
        return keys, Upper(
            tuple(items), having, calls, tuple(order), qualify, tuple(on), tuple(self._set_calls)
        )

    def _where(self, tree: Any, where: Any) -> Expression:
        aliases = self._scope.aliases
        if aliases is not None:
            aliases.rows_only = True
        binder = ExpressionBinder(self._binder, self._scope, "WHERE")
        try:
            conditions = [binder.condition(item) for item in self._each_column(where.this, "WHERE")]
        except ProgrammingError as error:
            from runnel.planner.bind.hints import alias_hint

            error.hint = alias_hint(error, tree) or error.hint
            raise
        if aliases is not None:
            aliases.rows_only = False
        if len(conditions) == 1:
            return conditions[0]
        return build.call("and", conditions, self._at(where))

    def _new_windows(self, tree: Any) -> WindowCalls:
        # Loaded on first use: most statements have no OVER.
        from runnel.planner.bind.grouping.over import WindowCalls

        def make(scope: Scope, clause: str, aggregates: Aggregates | None) -> ExpressionBinder:
            return ExpressionBinder(self._binder, scope, clause, aggregates)

        windows = WindowCalls(self._binder, self._scope, self._aggregates, make)
        windows.define(tree.args.get("windows") or ())
        return windows

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._binder.sql)

    def _row_binder(
        self, clause: str, aggregates: Aggregates | None, windows: WindowCalls | None
    ) -> ExpressionBinder:
        """A binder for a clause that may have set-returning functions."""
        if not self._binder.may_have_sets:
            return ExpressionBinder(self._binder, self._scope, clause, aggregates, windows)
        from runnel.planner.bind.set_returning.select_list import SetBinder

        return SetBinder(self._binder, self._scope, clause, aggregates, windows, self._set_calls)

    def _items(self, trees: list[Any]) -> list[Item]:
        binder = self._row_binder("the select list", self._aggregates, self._windows)
        items: list[Item] = []
        aliases = self._scope.aliases
        for number, tree in enumerate(trees):
            if aliases is not None:
                aliases.limit = number
            if _star_of(tree) is not None:
                items += self._stars(binder).of_star(tree)
                continue
            if isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Star):
                from runnel.planner.bind.scalars.special import fields_of

                row = binder.bind(tree.this)
                items += [
                    Item(field, field_name, None)
                    for field, field_name in fields_of(row, self._at(tree))
                ]
                continue
            if tree.find(exp.Star) is not None or self._binder.may_have_columns:
                several = self._several(tree, binder, len(items))
                if several is not None:
                    items += several
                    continue
            alias = tree.alias if isinstance(tree, exp.Alias) else None
            inner = tree.this if isinstance(tree, exp.Alias) else tree
            if isinstance(inner, exp.Explode):
                fields = self._unnested(inner, binder)
                if fields:
                    items += fields
                    continue
            items.append(Item(binder.bind(inner), alias or _name_of(inner, len(items)), alias))
        if aliases is not None:
            aliases.limit = len(trees)
        if not items:
            raise ProgrammingError(
                "the select list is empty", position=self._at(trees[0]) if trees else None
            )
        return items

    def _unnested(self, tree: Any, binder: ExpressionBinder) -> list[Item]:
        """The fields of UNNEST of a ROW, or of an array of ROWs with `recursive := true`; [] for
        any other UNNEST, which is one column."""
        from runnel.planner.bind.set_returning.select_list import SetBinder

        assert isinstance(binder, SetBinder)
        return [Item(value, name, None) for value, name in binder.fields(tree)]

    def _stars(self, binder: ExpressionBinder) -> StarColumns:
        # Loaded on first use: many statements list their columns.
        from runnel.planner.bind.select_list.stars import StarColumns

        return StarColumns(self._scope, binder.bind, self._binder)

    def _several(self, tree: Any, binder: ExpressionBinder, number: int) -> list[Item] | None:
        """The items of `* LIKE '…'` or of an expression with COLUMNS; None for any other item."""
        from runnel.planner.bind.select_list.stars import calls_of_columns, is_filtered_star

        stars = self._stars(binder)
        if is_filtered_star(tree):
            return stars.filtered(tree)
        if not any(calls_of_columns(tree)):
            return None
        items: list[Item] = []
        for copy, column in stars.expanded(tree):
            alias = stars.alias(tree, column)
            name = alias or column or _name_of(tree, number + len(items))
            items.append(Item(binder.bind(copy), name, alias))
        return items

    def _each_column(self, tree: Any, clause: str) -> list[Any]:
        """The expressions for the columns that a COLUMNS in `tree` stands for; without COLUMNS, the
        tree itself."""
        if not self._binder.may_have_columns:
            return [tree]
        from runnel.planner.bind.select_list.stars import calls_of_columns

        if not any(calls_of_columns(tree)):
            return [tree]
        binder = ExpressionBinder(self._binder, self._scope, clause)
        return [copy for copy, _ in self._stars(binder).expanded(tree)]

    def _group_keys(self, tree: Any, items: list[Item]) -> list[Expression]:
        """The distinct keys of GROUP BY. With grouping sets, the method stores the key numbers of
        each set in `self._sets`."""
        group = tree.args.get("group")
        keys: list[Expression] = []
        if group is None:
            return keys
        if group.args.get("all"):
            from runnel.planner.bind.grouping.grouped_scope import is_above_groups

            found = [item.expression for item in items]
            return list(dict.fromkeys(item for item in found if not is_above_groups(item)))

        numbers: dict[Expression, int] = {}

        def number(item: Any) -> int:
            key = self._group_key(item, items)
            found = numbers.setdefault(key, len(keys))
            if found == len(keys):
                keys.append(key)
            return found

        special = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
        if any(isinstance(unwrapped(item), special) for item in group.expressions):
            from runnel.planner.bind.grouping.grouping_sets import grouping_sets

            self._sets = grouping_sets(group.expressions, number, self._at(group) or self._at(tree))
            return keys
        for item in group.expressions:
            number(item)
        return keys

    def _group_key(self, item: Any, items: list[Item]) -> Expression:
        number = ordinal(item)
        if number is not None:
            key = items[checked_ordinal(number, len(items), "GROUP BY", self._at(item))].expression
        else:
            key = self._alias_of(item, items) or self._row_binder("GROUP BY", None, None).bind(item)
        from runnel.planner.bind.grouping.grouped_scope import is_above_groups

        if is_above_groups(key):
            raise ProgrammingError(
                "GROUP BY can't group by an aggregate or a window function", position=self._at(item)
            )
        return key

    def _alias_of(self, tree: Any, items: list[Item], prefer: bool = False) -> Expression | None:
        """The expression of the select list that a bare name refers to. An input column of the same
        name has precedence, unless `prefer` is true."""
        tree = unwrapped(tree)
        if not isinstance(tree, exp.Column) or tree.table:
            return None
        name = tree.name.lower()
        if not prefer and self._scope.find(tree.name, None):
            return None
        if self._named is None:
            self._named = _Named(items)
        found = self._named.aliases.get(name, [])
        if prefer and not found:
            found = self._named.names.get(name, [])
        different = {item.expression for item in found}
        if len(different) > 1:
            raise AmbiguousColumn(f'column "{tree.name}" is ambiguous', position=self._at(tree))
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
                "QUALIFY needs a window function",
                hint="filter rows with WHERE, groups with HAVING",
                position=self._at(qualify),
            )
        return condition

    def _order(self, tree: Any, items: list[Item]) -> list[SortKey]:
        order = tree.args.get("order")
        if order is None:
            return []
        environment = self._binder.environment
        if is_all(order.expressions):
            return [sort_key(item.expression, order.expressions[0], environment) for item in items]
        return [
            sort_key(self._order_expression(each, items, "ORDER BY"), item, environment)
            for item in order.expressions
            for each in self._each_column(item.this, "ORDER BY")
        ]

    def _order_expression(self, tree: Any, items: list[Item], clause: str) -> Expression:
        """The expression of an item of ORDER BY or DISTINCT ON: a number or a name of the select
        list, else an expression."""
        number = ordinal(tree)
        if number is not None:
            return items[checked_ordinal(number, len(items), clause, self._at(tree))].expression
        if is_word_all(tree):
            raise NotSupportedError(
                "ORDER BY ALL with other keys is not supported", hint="list the columns"
            )
        binder = self._row_binder(clause, self._aggregates, self._windows)
        return self._alias_of(tree, items, prefer=True) or binder.bind(tree)

    def _distinct_on(self, tree: Any, items: list[Item]) -> list[Expression]:
        distinct = tree.args.get("distinct")
        on = None if distinct is None else distinct.args.get("on")
        if on is None:
            return []
        on = unwrapped(on)
        trees = on.expressions if isinstance(on, exp.Tuple) else [on]
        return list(
            dict.fromkeys(self._order_expression(item, items, "DISTINCT ON") for item in trees)
        )

    def _grouped(
        self, tree: Any, relation: Relation, keys: list[Expression], upper: Upper
    ) -> tuple[Relation, Upper]:
        """Adds the aggregation, and rewrites the expressions of the later clauses over its
        result."""
        calls: tuple[AggregateCall, ...] = tuple(self._aggregates.calls)
        group_keys, names = tuple(keys), tuple(_key_name(key, i) for i, key in enumerate(keys))
        if self._sets is not None and any(len(numbers) < len(keys) for numbers in self._sets) | (
            len(self._sets) > 1
        ):
            from runnel.planner.bind.grouping.grouping_sets import grouped_by_sets

            found = grouped_by_sets(relation, keys, self._sets, calls)
            relation, group_keys, calls = found.relation, found.keys, found.calls
            names = (*names, "$set")
        names = (*names, *(f"${i}" for i in range(len(calls))))
        grouped = Aggregate(
            input=relation,
            keys=group_keys,
            aggregates=calls,
            names=names,
            position=self._at(tree.args.get("group") or tree),
        )
        from runnel.planner.bind.grouping.grouped_scope import AboveGroups

        above = AboveGroups(keys, self._sets or (tuple(range(len(keys))),), grouped)
        return grouped, upper.mapped(above.rewritten)

    def _windowed(self, tree: Any, relation: Relation, upper: Upper) -> tuple[Relation, Upper]:
        """Adds the windows; their values are the last columns."""
        from runnel.planner.bind.grouping.over import with_windows

        width = len(relation.fields)
        window = with_windows(relation, upper.windows, self._at(tree))

        def above(node: Expression) -> Expression:
            if not isinstance(node, WindowValue):
                return node
            index = width + node.index
            return Column(
                index=index, name=window.fields[index].name, type=node.type, position=node.position
            )

        return window, replace(upper, having=None, windows=()).mapped(
            lambda expression: transform(expression, above)
        )

    def _projected(self, tree: Any, relation: Relation, upper: Upper) -> Relation:
        """Adds the select list, DISTINCT and ORDER BY."""
        expressions = [item.expression for item in upper.items]
        names = [item.name for item in upper.items]
        order, on = upper.order, upper.on
        distinct = tree.args.get("distinct") is not None and not on
        positions: dict[Expression, int] = {}
        if on or order:
            for position, expression in enumerate(expressions):
                positions.setdefault(expression, position)
        extra = [
            item for item in (*on, *(key.expression for key in order)) if item not in positions
        ]
        if distinct and extra:
            raise ProgrammingError(
                "with SELECT DISTINCT, ORDER BY can only use columns of the select list",
                position=extra[0].position,
            )
        extra = list(dict.fromkeys(extra))
        everything = expressions + extra
        positions |= {item: position for position, item in enumerate(extra, len(expressions))}
        projected: Relation = Project(
            input=relation,
            expressions=tuple(everything),
            names=(*names, *(f"$order{i}" for i in range(len(extra)))),
            position=self._at(tree),
        )
        if distinct:
            projected = distinct_rows(projected)
        columns = references(projected.fields)
        keys = tuple(key._replace(expression=columns[positions[key.expression]]) for key in order)
        if on:
            from runnel.planner.bind.grouping.over import first_rows

            projected = first_rows(
                projected, [columns[positions[item]] for item in on], keys, self._at(tree)
            )
        if order:
            projected = Sort(input=projected, keys=keys, position=self._at(tree.args["order"]))
        if len(projected.fields) == len(names):
            return projected
        return Project(
            input=projected,
            expressions=columns[: len(names)],
            names=tuple(names),
            position=self._at(tree),
        )


class _AliasBinder(ExpressionBinder):
    """Binds HAVING and QUALIFY, in which a name may be an alias of the select list if no input
    column has the name."""

    def __init__(
        self, select: SelectBinder, items: list[Item], clause: str, windows: WindowCalls | None
    ) -> None:
        super().__init__(select._binder, select._scope, clause, select._aggregates, windows)
        self._select = select
        self._items = items

    def bind(self, tree: Any) -> Expression:
        return self._select._alias_of(tree, self._items) or super().bind(tree)


def _aliases(items: list[Any]) -> SelectAliases:
    # Loaded on first use, by a SELECT with an alias.
    from runnel.planner.bind.select_list.aliases import SelectAliases

    return SelectAliases(items)


def _star_of(tree: Any) -> str | None:
    """The qualifier of `t.*`, "" for `*`, None for anything else."""
    if isinstance(tree, exp.Star):
        return ""
    if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        return str(tree.table)
    return None


def _name_of(tree: Any, number: int) -> str:
    """The name of an item of the select list without AS."""
    column = unwrapped(tree)
    if isinstance(column, exp.Column):
        return str(column.name)
    return UnnamedColumn(tree.meta_get(TEXT) or f"col{number}", number)


def _key_name(key: Expression, index: int) -> str:
    return key.name if isinstance(key, Column) else f"$key{index}"
