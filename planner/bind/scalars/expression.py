"""Binding of scalars: a sqlglot tree becomes a typed expression over the columns of a scope.

`expressions.build` resolves the types and inserts conversions. Aggregates are collected separately;
an `AggregateValue` represents each of them until the SELECT is assembled. Subqueries become the
expressions of `engine/relation/subqueries.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.deadline import check_time
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS, is_window_function
from runnel.expressions.functions import SQL_NAMES
from runnel.expressions.nodes import (
    WINDOW_FINAL,
    AggregateCall,
    Expression,
    Literal,
    Parameter,
)
from runnel.planner.bind.grouping.aggregate import AggregateBinder, call_of, is_aggregate
from runnel.planner.bind.select_parts import Aggregates
from runnel.planner.parse.query.allow_list import function_call, sql_type_of, unwrapped
from runnel.planner.parse.query.shapes import LAMBDA_FUNCTIONS, WORDED
from runnel.planner.parse.types import object_kind_of, size_of
from runnel.relation.subqueries import Exists, ScalarSubquery
from runnel.sqltypes import BOOLEAN, NULL, VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder
    from runnel.planner.bind.grouping.over import WindowCalls
    from runnel.planner.bind.scope import Scope


_BINARY: dict[type, str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "remainder",
    exp.DPipe: "concat",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.And: "and",
    exp.Or: "or",
    exp.NullSafeEQ: "is_not_distinct",
    exp.NullSafeNEQ: "is_distinct",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)

_WORDS = frozenset({"USER", "CURRENT_ROLE", "CURRENT_SCHEMA"})
"""Functions that SQL calls without parentheses, unless a column has the name."""

_MACROS_OF_TWO = ("FLOOR", "CEIL", "CEILING", "ARRAY_SLICE")
"""Functions that are macros with two arguments: FLOOR(x TO unit), ARRAY_SLICE(x, first)."""
_MANY = 50
"""Chains of || with more operands than this are bound as a balanced tree."""


class ExpressionBinder(AggregateBinder):
    """Binds scalars over one scope. Calls with OVER are collected in `windows`; None: the clause
    may have no such call."""

    def __init__(
        self,
        query: QueryBinder,
        scope: Scope,
        clause: str,
        aggregates: Aggregates | None = None,
        windows: WindowCalls | None = None,
    ) -> None:
        super().__init__(query, scope, clause, aggregates)
        self._windows = windows

    def bind(self, tree: Any) -> Expression:
        """Binds a tree to a typed expression."""
        check_time()
        binary = _BINARY.get(type(tree))
        if binary is not None:
            return self._binary(tree, binary)
        method = _METHODS.get(type(tree))
        if method is not None:
            return method(self, tree)
        if function_call(tree) is not None:
            return self._function(tree)
        if isinstance(tree, exp.Explode):
            raise ProgrammingError(
                f"UNNEST is not allowed in {self._clause}",
                hint="write it in FROM: … FROM t, UNNEST(t.list) AS u (item)",
                position=self._at(tree),
            )
        found = self._special(tree)
        if found is not None:
            return found
        what = tree.name.upper() if isinstance(tree, exp.Var) else tree.key.upper()
        raise NotSupportedError(f"{what} is not supported here", position=self._at(tree))

    def _special(self, tree: Any) -> Expression | None:
        # Loaded on first use: few statements have these shapes.
        from runnel.planner.bind.scalars.special import special

        if isinstance(tree, exp.Array):
            from runnel.planner.bind.scalars.array import array_of_query, query_of

            query = query_of(tree)
            if query is not None:
                return array_of_query(self._query, self._around, query, self._at(tree))
        return special(self.bind, tree, self._query.sql)

    def _plain(self, clause: str, aggregates: Aggregates | None) -> ExpressionBinder:
        return ExpressionBinder(self._query, self._scope, clause, aggregates)

    def condition(self, tree: Any) -> Expression:
        """Binds an expression that must be BOOLEAN, as in WHERE."""
        bound = self.bind(tree)
        if bound.type == NULL:
            return build.cast(bound, BOOLEAN, implicit=True)
        if bound.type != BOOLEAN:
            raise ProgrammingError(
                f"{self._clause} needs a BOOLEAN, not {bound.type}",
                hint="write a comparison, or CAST(… AS BOOLEAN)",
                position=bound.position or self._at(tree),
            )
        return bound

    def _binary(self, tree: Any, function: str) -> Expression:
        if isinstance(tree, (exp.And, exp.Or)):
            operands = [self.bind(operand) for operand in _chain(tree)]
            return build.call(function, operands, self._at(tree))
        if isinstance(tree, exp.DPipe) and len(_chain(tree)) > _MANY:
            from runnel.planner.bind.scalars.concatenation import long_concatenation

            operands = [self.bind(unwrapped(operand)) for operand in _chain(tree)]
            return long_concatenation(operands, self._at(tree), _MANY)
        left, right = unwrapped(tree.this), unwrapped(tree.expression)
        if (
            isinstance(tree, _COMPARISONS)
            and isinstance(left, exp.Tuple)
            and isinstance(right, exp.Tuple)
        ):
            return self._compare_rows(tree, left, right)
        if isinstance(tree, _COMPARISONS) and isinstance(right, (exp.Any, exp.All)):
            # Loaded on first use: few statements compare with all values of a set.
            from runnel.planner.bind.scalars.quantified import quantified

            return quantified(self.bind, self._query, self._around, tree, function)
        zone = self._query.environment.zone
        if isinstance(tree, (exp.Add, exp.Sub)) and (
            isinstance(right, exp.Interval) or zone != "UTC"
        ):
            # Loaded on first use: few statements have an interval.
            from runnel.planner.bind.scalars.operators import bound_sum

            return bound_sum(self.bind, tree, function, zone, self._at)
        return build.call(function, [self.bind(left), self.bind(right)], self._at(tree))

    def _compare_rows(self, tree: Any, left: Any, right: Any) -> Expression:
        # Loaded on first use: few statements compare rows.
        from runnel.planner.bind.scalars.row_comparison import compared_rows

        if len(left.expressions) != len(right.expressions):
            raise ProgrammingError(
                "rows of different lengths can't be compared", position=self._at(tree)
            )
        pairs = [
            (self.bind(first), self.bind(second))
            for first, second in zip(left.expressions, right.expressions, strict=True)
        ]
        return compared_rows(_BINARY[type(tree)], pairs, self._at(tree))

    def _column(self, tree: Any) -> Expression:
        if isinstance(tree.this, exp.Star):
            raise ProgrammingError(f"* is not allowed in {self._clause}", position=self._at(tree))
        try:
            return self._plain_column(tree)
        except ProgrammingError:
            # Loaded on first use: few statements read fields or whole rows.
            from runnel.planner.bind.scalars.special import nested_field, whole_row

            look_up = nested_field if tree.args.get("table") else whole_row
            found = look_up(self._scope, tree, self._at(tree))
            if found is None:
                raise
            return found

    def _plain_column(self, tree: Any) -> Expression:
        scope = self._scope
        caller = tree.meta_get("caller")
        if caller is not None:  # in the argument of a macro
            away, around = scope.around(*caller)
            if away or around is None:
                return scope.resolve_outside(tree.name, tree.table or None, self._at(tree), away)
            scope = around
        inside = tree.meta_get("below")
        if inside is not None:  # in the body of a macro
            scope = scope.below(inside)
        if schema := tree.text("db"):
            own = self._query.snapshot.names_own
            scope = scope.of_schema(tree.text("catalog"), schema, self._at(tree), own)
        if self._query.emits and self._is_window_final(tree):
            assert self._aggregates is not None
            return self._aggregates.add(
                AggregateCall(
                    function=WINDOW_FINAL, arguments=(), type=BOOLEAN, position=self._at(tree)
                )
            )
        if not tree.table and tree.name.upper() in _WORDS and not scope.find(tree.name, None):
            return self._function(exp.Anonymous(this=tree.name, expressions=[]))
        if scope.aliases is not None and not tree.table and not scope.has(tree.name):
            found = scope.aliases.bound(tree.name, self.bind, self._at(tree))
            if found is not None:
                return found
        return scope.resolve(tree.name, tree.table or None, self._at(tree))

    def _bound(self, tree: Any) -> Expression:
        """A column that COLUMNS stands for."""
        return tree.this  # type: ignore[no-any-return]

    def _is_window_final(self, tree: Any) -> bool:
        """Whether a column is `window_final`, which marks the last result of a window in a query
        that emits a group more than once."""
        is_named = tree.name.lower() == WINDOW_FINAL and not tree.table
        return is_named and self._aggregates is not None and not self._scope.find(tree.name, None)

    def _literal(self, tree: Any) -> Expression:
        position = self._at(tree)
        if tree.is_string:
            return Literal(value=tree.this, type=VARCHAR, position=position)
        return build.number(tree.this, position)

    def _boolean(self, tree: Any) -> Expression:
        return Literal(value=bool(tree.this), type=BOOLEAN, position=self._at(tree))

    def _null(self, tree: Any) -> Expression:
        return Literal(value=None, type=NULL, position=self._at(tree))

    def _parameter(self, tree: Any) -> Expression:
        index = int(tree.name)
        return Parameter(
            index=index,
            type=self._query.parameter_types[index],
            is_fixed=index in self._query.environment.fixed_parameters,
            position=self._at(tree),
        )

    def _negate(self, tree: Any) -> Expression:
        inner = unwrapped(tree.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return build.number("-" + inner.this, self._at(tree))
        return build.call("negate", [self.bind(inner)], self._at(tree))

    def _not(self, tree: Any) -> Expression:
        return build.call("not", [self.bind(tree.this)], self._at(tree))

    def _is(self, tree: Any) -> Expression:
        right = tree.expression
        negated = isinstance(right, exp.Not)
        right = right.this if negated else right
        if isinstance(unwrapped(tree.this), exp.Tuple):
            hint = "write it for each of the values, joined by AND"
            raise NotSupportedError(
                "IS with a row of values is not supported", hint=hint, position=self._at(tree)
            )
        operand = self.bind(tree.this)
        if isinstance(right, exp.Boolean):
            name = "true" if right.this else "false"
        elif isinstance(right, exp.Null):
            name = "null"
        elif isinstance(right, exp.JSON):
            from runnel.planner.bind.scalars.special import is_json

            return is_json(self.bind, tree, self._at(tree))
        else:
            raise NotSupportedError(
                "IS accepts NULL, TRUE, FALSE or DISTINCT FROM", position=self._at(tree)
            )
        return build.call(f"is_not_{name}" if negated else f"is_{name}", [operand], self._at(tree))

    def _paren(self, tree: Any) -> Expression:
        return self.bind(tree.this)

    def _cast(self, tree: Any) -> Expression:
        to, position = tree.args["to"], self._at(tree)
        operand, target = self.bind(tree.this), sql_type_of(to)
        if isinstance(operand, Literal) and operand.value == "epoch":
            from runnel.planner.bind.scalars.literals import epoch  # few statements write it

            operand = epoch(operand, target)
        if object_kind_of(to) is not None:
            from runnel.planner.bind.pg_catalog.lookups import object_cast  # few are written

            return object_cast(self._query, operand, tree, position)
        found = build.explicit_cast(operand, target, position)
        size = size_of(to)
        if size is None:
            return found
        from runnel.planner.bind.scalars.literals import fitted  # few types have a size

        return fitted(found, size, position)

    def _interval(self, tree: Any) -> Expression:
        # Loaded on first use: few statements have an interval.
        from runnel.planner.bind.scalars.intervals import as_call, interval_literal, is_computed

        if is_computed(tree):
            return self.bind(as_call(tree, self._at(tree)))
        return interval_literal(tree, self._at(tree))

    def _between(self, tree: Any) -> Expression:
        position = self._at(tree)
        operand, low, high = (
            self.bind(operand) for operand in (tree.this, tree.args["low"], tree.args["high"])
        )

        def within(first: Expression, last: Expression) -> Expression:
            bounds = [
                build.call("ge", [operand, first], position),
                build.call("le", [operand, last], position),
            ]
            return build.limited(build.call("and", bounds, position))

        if not tree.args.get("symmetric"):
            return within(low, high)
        return build.call("or", [within(low, high), within(high, low)], position)

    def _case(self, tree: Any) -> Expression:
        subject = tree.this
        conditions, results = [], []
        for branch in tree.args["ifs"]:
            if subject is None:
                conditions.append(self._when(branch.this))
            else:
                pair = [self.bind(subject), self.bind(branch.this)]
                conditions.append(build.call("eq", pair, self._at(branch.this)))
            results.append(self.bind(branch.args["true"]))
        default = tree.args.get("default")
        return build.case(
            conditions, results, None if default is None else self.bind(default), self._at(tree)
        )

    def _when(self, tree: Any) -> Expression:
        return ExpressionBinder(
            self._query, self._scope, "WHEN", self._aggregates, self._windows
        ).condition(tree)

    def _in(self, tree: Any) -> Expression:
        position = self._at(tree)
        operand = unwrapped(tree.this)
        query = tree.args.get("query")
        if query is not None:
            left = operand.expressions if isinstance(operand, exp.Tuple) else [operand]
            return self._in_subquery([self.bind(item) for item in left], query, position)
        if (array := tree.args.get("field")) is not None:
            from runnel.planner.bind.scalars.quantified import in_array  # few queries need it

            return in_array(self.bind(operand), self.bind(array), position)
        if isinstance(operand, exp.Tuple) and all(
            isinstance(unwrapped(item), exp.Tuple) for item in tree.expressions
        ):
            rows = [
                self._compare_rows(exp.EQ(), operand, unwrapped(item)) for item in tree.expressions
            ]
            return build.call("or", rows, position) if len(rows) > 1 else rows[0]
        return build.in_list(
            self.bind(operand), [self.bind(item) for item in tree.expressions], position
        )

    def _in_subquery(
        self, operands: list[Expression], tree: Any, position: Position | None
    ) -> Expression:
        relation = self._query.subquery(tree, self._around)
        count = len(relation.fields)
        if count != len(operands):
            raise ProgrammingError(
                f"the subquery of IN has {count} columns, {len(operands)} expected",
                position=position,
            )
        from runnel.planner.bind.scalars.quantified import in_subquery  # few queries need it

        return in_subquery(operands, relation, "IN", position)

    def _exists(self, tree: Any) -> Expression:
        return Exists(
            relation=self._query.subquery(tree.this, self._around),
            type=BOOLEAN,
            position=self._at(tree),
        )

    def _subquery(self, tree: Any) -> Expression:
        relation = self._query.subquery(tree, self._around)
        if len(relation.fields) != 1:
            raise ProgrammingError(
                f"a subquery used as a value must have one column, not {len(relation.fields)}",
                position=self._at(tree),
            )
        return ScalarSubquery(
            relation=relation, type=relation.fields[0].type, position=self._at(tree)
        )

    def _like(self, tree: Any) -> Expression:
        position = self._at(tree)
        if isinstance(unwrapped(tree.expression), (exp.Any, exp.All)):
            # Loaded on first use: few statements compare with several patterns.
            from runnel.planner.bind.scalars.quantified import like_any

            return like_any(self.bind, tree, position)
        operands = [self.bind(operand) for operand in (tree.this, tree.expression)]
        matched = build.call("ilike" if isinstance(tree, exp.ILike) else "like", operands, position)
        return build.call("not", [matched], position) if tree.args.get("negate") else matched

    def _function(self, tree: Any) -> Expression:
        name, arguments = call_of(tree)
        found = self._user_macro(tree, tree)
        if found is not None:
            return found
        if is_aggregate(name):
            return self._macro(tree) or self._aggregate(tree, None)
        if name in ("GROUPING", "GROUPING_ID"):
            return self._grouping(tree)
        if is_window_function(name):
            raise ProgrammingError(
                f"window function {name} needs OVER",
                hint=f"write {name}(…) OVER (…)",
                position=self._at(tree),
            )
        if name not in SQL_NAMES or (len(arguments) == 2 and name in _MACROS_OF_TWO):
            found = self._macro(tree)
            if found is not None:
                return found
        if name.startswith("JSON_") or name in WORDED:
            from runnel.planner.bind.scalars.special import worded_call

            return worded_call(self.bind, tree, name, arguments, self._at(tree))
        if name in ("COLUMNS", "*COLUMNS"):
            raise ProgrammingError(
                f"COLUMNS is not allowed in {self._clause}",
                hint="it is allowed in the select list, WHERE and ORDER BY",
                position=self._at(tree),
            )
        if name not in SQL_NAMES:
            from runnel.planner.bind.scalars.session_calls import session_call  # few are called

            found = session_call(self._query, name, self.bind, arguments, self._at(tree))
            if found is not None:
                return found
        own = self._query.python_function(name)
        if own is None and name in LAMBDA_FUNCTIONS:
            from runnel.planner.bind.scalars.lambdas import LambdaBinder

            return LambdaBinder(self._within, self._scope, tree, self._query.sql).bound()
        if own is not None and own.is_aggregate:
            return self._aggregate(tree, None)
        for argument in arguments:
            inner = argument.this if isinstance(argument, exp.Order) else argument
            if isinstance(inner, exp.Distinct) or inner is not argument:
                what = "DISTINCT" if isinstance(inner, exp.Distinct) else "ORDER BY"
                raise ProgrammingError(
                    f"{what} needs an aggregate function, which {tree.name} isn't",
                    position=self._at(tree),
                )
        if any(isinstance(argument, exp.Kwarg) for argument in arguments):
            from runnel.planner.bind.scalars.special import in_order_of_names

            arguments = in_order_of_names(name, arguments, self._at(tree))
        bound = [self.bind(argument) for argument in arguments]
        if own is None:
            return build.call(name, bound, self._at(tree), self._other_names(), written=tree.name)
        from runnel.expressions.python.calls import python_call

        return python_call(own, bound, self._at(tree))

    def _within(self, scope: Scope, clause: str) -> ExpressionBinder:
        """A binder for the body of a lambda function."""
        return ExpressionBinder(self._query, scope, clause, self._aggregates)

    def _name(self, tree: Any) -> Expression:
        """A parameter in the body of a lambda function."""
        if tree.meta_get("caller") is not None:
            column = exp.Column(this=tree.copy())
            column.meta.update(tree.meta)
            return self._plain_column(column)
        return self._scope.resolve(tree.name, None, self._at(tree))

    def _user_macro(self, tree: Any, call: Any) -> Expression | None:
        """The value of `call`, which is `tree` or inside its FILTER, OVER or WITHIN GROUP, if it
        calls a macro of CREATE MACRO."""
        macro = self._query.macro("macro", call)
        if macro is None:
            return None
        # Loaded on first use, as all macros.
        from runnel.planner.bind.scalars.macros import user_value

        return user_value(self.bind, macro, tree, self._scope, self._at(call))

    def _macro(self, tree: Any) -> Expression | None:
        """The value of a call, also one with FILTER, OVER or WITHIN GROUP, of a function that
        stands for others; None if it is no such function."""
        call = tree
        while isinstance(call, (exp.Filter, exp.Window, exp.WithinGroup)):
            call = call.this
        name, arguments = call_of(call)
        own = self._user_macro(tree, call) if call is not tree else None
        if own is not None:
            return own
        if not name or is_window_function(name) or (is_aggregate(name) and len(arguments) < 2):
            return None
        if self._query.python_function(name) is not None:
            return None
        # Loaded on first use: few statements call such a function.
        from runnel.planner.bind.scalars.macros import expanded

        caller = (self._scope.level, len(self._scope.variables))
        found = expanded(tree, self._at(call), self._query.snapshot.path, caller)
        return None if found is None else self.bind(found)

    def _filter(self, tree: Any) -> Expression:
        return self._macro(tree) or super()._filter(tree)

    def _within_group(self, tree: Any) -> Expression:
        return self._macro(tree) or super()._within_group(tree)

    def _other_names(self) -> Iterator[str]:
        """The names of macros, user functions, aggregates and window functions, for
        suggestions."""
        from runnel.expressions.aggregates.registry import aggregate_names
        from runnel.planner.bind.scalars.macros import macro_names

        yield from macro_names()
        definitions = self._query.snapshot.definitions.values()
        yield from (item.name for item in definitions if item.kind == "macro")
        yield from (item.name for item in self._query.snapshot.functions.values())
        yield from map(str.upper, (*aggregate_names(), *WINDOW_FUNCTIONS))

    def _window(self, tree: Any) -> Expression:
        # Loaded on first use: most statements have no OVER.
        from runnel.planner.bind.grouping.over import window_value

        return self._macro(tree) or window_value(tree, self._windows, self._query, self._clause)

    def _star(self, tree: Any) -> Expression:
        raise ProgrammingError(f"* is not allowed in {self._clause}", position=self._at(tree))

    def _tuple(self, tree: Any) -> Expression:
        if not tree.expressions:
            raise ProgrammingError("a row needs at least one value", position=self._at(tree))
        return build.call("ROW", [self.bind(item) for item in tree.expressions], self._at(tree))


def _chain(tree: Any) -> list[Any]:
    """The operands of a chain of one operator. There is no recursion, because generated SQL has
    chains of thousands."""
    kind, operands, waiting = type(tree), [], [tree]
    while waiting:
        node = waiting.pop()
        if type(node) is kind:
            waiting += [node.expression, node.this]
        else:
            operands.append(node)
    return operands


_METHODS: dict[type, Callable[[ExpressionBinder, Any], Expression]] = {
    exp.Column: ExpressionBinder._column,
    exp.Identifier: ExpressionBinder._name,
    exp.Literal: ExpressionBinder._literal,
    exp.Boolean: ExpressionBinder._boolean,
    exp.Null: ExpressionBinder._null,
    exp.Parameter: ExpressionBinder._parameter,
    exp.Neg: ExpressionBinder._negate,
    exp.Not: ExpressionBinder._not,
    exp.Is: ExpressionBinder._is,
    exp.Paren: ExpressionBinder._paren,
    exp.Cast: ExpressionBinder._cast,
    exp.Interval: ExpressionBinder._interval,
    exp.Between: ExpressionBinder._between,
    exp.Case: ExpressionBinder._case,
    exp.In: ExpressionBinder._in,
    exp.Exists: ExpressionBinder._exists,
    exp.Like: ExpressionBinder._like,
    exp.ILike: ExpressionBinder._like,
    exp.Subquery: ExpressionBinder._subquery,
    exp.Select: ExpressionBinder._subquery,
    exp.Filter: ExpressionBinder._filter,
    exp.WithinGroup: ExpressionBinder._within_group,
    exp.Star: ExpressionBinder._star,
    exp.Tuple: ExpressionBinder._tuple,
    exp.PositionalColumn: ExpressionBinder._bound,
    exp.Window: ExpressionBinder._window,
}
