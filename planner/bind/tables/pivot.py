"""PIVOT: one column for each value of an expression.

It is bound as a SELECT with conditional aggregates over the table, which the SELECT refers to as a
common table. `FOR year IN (2000, 2010)` with sum(pop) has the columns

    sum(pop) FILTER (WHERE year IS NOT DISTINCT FROM 2000) AS "2000", …

An expression over aggregates, such as round(avg(pop), 1), has the condition in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.evaluate import evaluate_constant, is_constant
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.bind.convert import renamed
from runnel.planner.bind.grouping.aggregate import is_aggregate
from runnel.planner.bind.scalars.macro_table import macros
from runnel.planner.bind.scope import BoundRelation, CommonTable, scope_of, table_alias
from runnel.planner.bind.tables.unpivot import unpivoted
from runnel.planner.environment import ValuesNeeded
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.pivots import KEY, VALUES
from runnel.planner.parse.query.token_pass import MARK
from runnel.relation.nodes import Limit, Project, Relation
from runnel.sqltypes import BIGINT, VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.binders import FromItems

_TABLE = "$pivot"
_MOST_COLUMNS = 10_000
_IS_AGGREGATE = "pivot_aggregate"


@frozen
class PivotField:
    """An expression whose values become columns.

    key: the expression.
    values: the values with their names.
    """

    key: Any
    values: tuple[tuple[Any, str], ...]


def with_pivots(items: FromItems, bound: BoundRelation, trees: list[Any]) -> BoundRelation:
    """The relation of a table with the PIVOT and UNPIVOT clauses that follow it."""
    for tree in trees:
        bound = (
            unpivoted(items, bound, tree)
            if tree.args.get("unpivot")
            else _pivoted(items, bound, tree)
        )
    return bound


def _pivoted(items: FromItems, bound: BoundRelation, tree: Any) -> BoundRelation:
    position = items.at(tree)
    source = _Source(items, bound, position)
    fields = [source.field(item) for item in tree.args["fields"]]
    aggregates = [_aggregate(items, item) for item in tree.expressions]
    named = [_named(key) for key in _keys(source, tree, fields, aggregates)]
    keys = [key.this if isinstance(key, exp.Alias) else key for key in named]
    selected: list[Any] = [key.copy() for key in named]
    has_names = len(aggregates) > 1 or bool(aggregates[0][1])
    used: set[str] = set()
    count = prod(len(field.values) for field in fields) * len(aggregates)
    if count > _MOST_COLUMNS:
        raise NotSupportedError(
            f"a PIVOT with {count} columns is not supported",
            detail=f"the maximum is {_MOST_COLUMNS}",
            hint="list the values: ON column IN (…)",
            position=position,
        )
    for values in product(*(field.values for field in fields)):
        condition = _condition(fields, [value for value, _ in values])
        for call, alias, text in aggregates:
            parts = [name for _, name in values]
            if has_names:
                parts.append(alias or text)
            name = "_".join(parts)
            if name.lower() in used:
                raise ProgrammingError(
                    f'PIVOT would have two columns "{name}"',
                    hint="list each value once, or give a value an alias: IN (1 AS a, 2 AS b)",
                    position=position,
                )
            used.add(name.lower())
            selected.append(
                exp.Alias(
                    this=_filtered(call.copy(), condition),
                    alias=exp.to_identifier(name, quoted=True),
                )
            )
    select = exp.Select(expressions=selected, from_=exp.From(this=source.table()))
    if keys:
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    relation = source.query(select)
    result, columns = table_alias(tree)
    relation = renamed(relation, columns, f'"{result}"', position)
    return BoundRelation(relation, scope_of(relation.fields, result, items.outer))


class _Source:
    """The table of a PIVOT, as a common table of a SELECT."""

    def __init__(self, items: FromItems, bound: BoundRelation, position: Position | None) -> None:
        self.items = items
        columns = bound.scope.star(None, position)
        self.names = [column.name for column in columns]
        qualifiers = {column.qualifier for column in columns}
        self._qualifier = qualifiers.pop() if len(qualifiers) == 1 else None
        relation = Project(
            input=bound.relation,
            expressions=tuple(column.expression(position) for column in columns),
            names=tuple(self.names),
            position=position,
        )
        common = CommonTable(None, (), {}, bound=relation)
        self._binder = items.binder.inside({**items.binder.common_tables, _TABLE: common})

    def table(self) -> Any:
        table = exp.Table(this=exp.to_identifier(_TABLE))
        if self._qualifier is not None:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(self._qualifier)))
        return table

    def query(self, select: Any) -> Relation:
        """The relation of a SELECT from the table."""
        return self._binder.query(select, self.items.outer)

    def field(self, tree: Any) -> PivotField:
        """The expression of FOR or ON, with the values of IN."""
        key = tree.this
        if isinstance(key, exp.Anonymous) and key.name == KEY and len(key.expressions) == 1:
            key = key.expressions[0]
        if tree.args.get("field") is not None:
            raise NotSupportedError(
                "IN without parentheses is not supported in PIVOT",
                hint="list the values: IN (1, 2)",
                position=self.items.at(tree),
            )
        first = tree.expressions[0]
        if isinstance(first, exp.Anonymous) and first.name == VALUES and not first.expressions:
            return PivotField(key, self._all_values(key))
        return PivotField(key, tuple(self._value(item) for item in tree.expressions))

    def _value(self, tree: Any) -> tuple[Any, str]:
        if isinstance(tree, exp.PivotAlias):
            return tree.this, tree.args["alias"].name
        if isinstance(tree, exp.Query | exp.Subquery | exp.Star | exp.Column):
            raise NotSupportedError(
                "IN of PIVOT with anything but values is not supported",
                hint="list the values: IN ('a', 'b'), or leave IN out: PIVOT t ON column …",
                position=self.items.at(tree),
            )
        return tree, _text_of_value(tree)

    def _all_values(self, key: Any) -> tuple[tuple[Any, str], ...]:
        """All values of the expression, in order; NULL is left out."""
        environment = self.items.binder.environment
        position = self.items.at(key)
        place = (self.items.binder.sql, 0 if position is None else position.offset)
        values = environment.pivot_values.get(place)
        if values is not None:
            return tuple((exp.PositionalColumn(this=value), name) for value, name in values)
        test = exp.Not(this=exp.Is(this=key.copy(), expression=exp.Null()))
        select = exp.Select(
            expressions=[exp.Alias(this=key.copy(), alias=exp.to_identifier("value"))],
            from_=exp.From(this=self.table()),
            where=exp.Where(this=test),
            distinct=exp.Distinct(),
            order=exp.Order(
                expressions=[exp.Ordered(this=exp.Literal.number(1), nulls_first=True)]
            ),
        )
        relation = self.query(select)
        if relation.never_ends:
            raise self._refused("over a stream", position)
        if environment.in_job:
            raise self._refused("in a job", position)
        if self.items.binder.views:
            raise self._refused("in a view", position)
        if self.items.binder.parameter_types:
            raise self._refused("in a statement with parameters", position)
        raise ValuesNeeded(_limited(relation), place, position)

    def _refused(self, where: str, position: Position | None) -> NotSupportedError:
        return NotSupportedError(
            f"PIVOT without IN {where} is not supported",
            detail="its columns would depend on the rows",
            hint="list the values: ON column IN ('a', 'b')",
            position=position,
        )


def named_values(values: Sequence[Expression]) -> tuple[tuple[Expression, str], ...]:
    """Values with the names of their columns: their texts."""
    return tuple((value, _text_of(value)) for value in values)


def _text_of(value: Expression) -> str:
    text = build.cast(value, VARCHAR)
    assert isinstance(value, Literal)
    return str(evaluate_constant(text) if is_constant(text) else value.value)


def _limited(relation: Relation) -> Relation:
    """At most one value more than a PIVOT can have."""
    count = Literal(value=_MOST_COLUMNS + 1, type=BIGINT)
    return Limit(input=relation, count=count, offset=None, position=relation.position)


def _aggregate(items: FromItems, tree: Any) -> tuple[Any, str, str]:
    """An expression over aggregate calls, its alias or "", and its text for the names of columns.

    Its aggregate calls are marked, for `_filtered`.
    """
    alias = tree.alias if isinstance(tree, exp.Alias) else ""
    call = tree.this if isinstance(tree, exp.Alias) else tree
    text = ""
    if isinstance(call, exp.Anonymous) and call.name == KEY:
        written, call = call.expressions
        text = written.this
    calls = _calls(items, call)
    if not calls:
        raise ProgrammingError(
            "PIVOT needs aggregate functions",
            hint="write USING sum(amount), or PIVOT (sum(amount) FOR …)",
            position=items.at(call),
        )
    for found in calls:
        found.meta[_IS_AGGREGATE] = True
    return call, alias, text or _text(call)


def _calls(items: FromItems, tree: Any) -> list[Any]:
    """The outermost aggregate calls of an expression, with their FILTER and WITHIN GROUP."""
    if isinstance(tree, exp.Window):
        raise NotSupportedError(
            "a window function in PIVOT is not supported",
            hint="compute it in a subquery: PIVOT (SELECT …, sum(a) OVER (…) AS s FROM t) …",
            position=items.at(tree),
        )
    if isinstance(tree, exp.Query | exp.Subquery):
        return []
    inner = tree
    while isinstance(inner, exp.Filter | exp.WithinGroup):
        inner = inner.this
    name = _renamed((function_call(inner) or ("", []))[0])
    own = items.binder.python_function(name)
    if is_aggregate(name) or (own is not None and own.is_aggregate):
        return [tree]
    return [found for child in tree.iter_expressions() for found in _calls(items, child)]


def _renamed(name: str) -> str:
    """The function that a name in upper case stands for: ARRAY_AGG for LIST."""
    found = macros().get(name, ())
    while len(found) == 1 and found[0].parameters is None:
        name = found[0].body
        found = macros().get(name, ())
    return name


def _keys(
    source: _Source, tree: Any, fields: list[PivotField], aggregates: list[tuple[Any, str, str]]
) -> list[Any]:
    """The expressions of GROUP BY; by default all columns that are not used elsewhere."""
    group = tree.args.get("group")
    if group is not None and group.expressions:
        return list(group.expressions)
    used = {
        column.name.lower()
        for item in (*(field.key for field in fields), *(call for call, _, _ in aggregates))
        for column in item.find_all(exp.Column)
    }
    return [
        exp.Column(this=exp.to_identifier(name, quoted=True))
        for name in source.names
        if name.lower() not in used
    ]


def _named(key: Any) -> Any:
    """An expression of GROUP BY as a column of its name, or else of its text: year(day)."""
    if isinstance(key, exp.Column | exp.Literal):
        return key
    if isinstance(key, exp.Anonymous) and key.name == KEY:
        written, key = key.expressions
        if isinstance(key, exp.Column):
            return key
        return exp.Alias(this=key, alias=exp.to_identifier(written.this, quoted=True))
    text = key.sql(normalize_functions=False).replace(MARK, "")
    return exp.Alias(this=key, alias=exp.to_identifier(text, quoted=True))


def _condition(fields: list[PivotField], values: list[Any]) -> Any:
    tests = [
        exp.NullSafeEQ(this=field.key.copy(), expression=value.copy())
        for field, value in zip(fields, values, strict=True)
    ]
    condition: Any = tests[0]
    for test in tests[1:]:
        condition = exp.And(this=condition, expression=test)
    return condition


def _filtered(tree: Any, condition: Any) -> Any:
    """An expression whose aggregate calls have the condition."""
    if not tree.meta.get(_IS_AGGREGATE):
        for found in [n for n in tree.walk() if n is not tree and n.meta.get(_IS_AGGREGATE)]:
            found.replace(_filtered(found.copy(), condition))
        return tree
    condition = condition.copy()
    if isinstance(tree, exp.Filter):
        condition = exp.And(this=tree.expression.this, expression=condition)
        tree = tree.this
    return exp.Filter(this=tree, expression=exp.Where(this=condition))


def _text(call: Any) -> str:
    """The text of a call, for the name of its columns: sum(pop)."""
    while isinstance(call, exp.Filter | exp.WithinGroup):
        call = call.this
    return f"{call.name}({', '.join(item.sql() for item in call.expressions)})"


def _text_of_value(tree: Any) -> str:
    """The name of the column of a value."""
    if isinstance(tree, exp.Literal):
        return str(tree.this)
    if isinstance(tree, exp.Null):
        return "NULL"
    if isinstance(tree, exp.Boolean):
        return "true" if tree.this else "false"
    if isinstance(tree, exp.Neg):
        return f"-{_text_of_value(tree.this)}"
    if isinstance(tree, exp.Cast | exp.Paren):
        return _text_of_value(tree.this)
    if isinstance(tree, exp.Tuple):
        return "_".join(_text_of_value(item) for item in tree.expressions)
    return str(tree.sql())
