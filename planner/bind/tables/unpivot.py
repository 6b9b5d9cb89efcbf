"""UNPIVOT: each row becomes one row for each of some columns, with the column's name and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal, walk
from runnel.planner.bind.convert import renamed
from runnel.planner.bind.grouping.grouping_sets import repeated
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import BoundRelation, Scope, scope_of, table_alias
from runnel.planner.bind.select_list.stars import StarColumns, calls_of_columns
from runnel.relation.nodes import Filter, references
from runnel.sqltypes import VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.binders import FromItems

Entry = tuple[str, list[Expression]]


def unpivoted(items: FromItems, bound: BoundRelation, tree: Any) -> BoundRelation:
    """The relation of UNPIVOT over a bound table: first the columns that it does not name."""
    position = items.at(tree)
    field, target = tree.args["fields"][0], tree.expressions[0]
    names = [item.name for item in (target.expressions if _is_row(target) else [target])]
    binder = ExpressionBinder(items.binder, bound.scope, "UNPIVOT")
    entries = [
        entry for item in field.expressions for entry in _entries(items, bound.scope, binder, item)
    ]
    for label, values in entries:
        if len(values) != len(names):
            raise ProgrammingError(
                f'"{label}" of UNPIVOT has {len(values)} columns, but {len(names)} names of values '
                "are listed",
                position=position,
            )
    used = {
        node.index
        for _, values in entries
        for value in values
        for node in walk(value)
        if isinstance(node, Column)
    }
    rest = [c for c in bound.scope.star(None, position) if c.index not in used]
    columns = [
        build.coerce([values[number] for _, values in entries], "UNPIVOT")
        for number in range(len(names))
    ]
    before: list[Expression] = [column.expression(position) for column in rest]
    relation = expanded = repeated(
        bound.relation,
        [
            (*before, Literal(value=label, type=VARCHAR), *(column[row] for column in columns))
            for row, (label, _) in enumerate(entries)
        ],
        (*(column.name for column in rest), field.this.name, *names),
        position,
    )
    if not tree.args.get("include_nulls"):
        tests = [
            build.call("is_not_null", [value], position)
            for value in references(expanded.fields)[len(rest) + 1 :]
        ]
        condition = build.call("and", tests, position) if len(tests) > 1 else tests[0]
        relation = Filter(input=expanded, condition=condition, position=position)
    alias, new_names = table_alias(tree)
    relation = renamed(relation, new_names, f'"{alias}"', position)
    return BoundRelation(relation, scope_of(relation.fields, alias, items.outer))


def _is_row(tree: Any) -> bool:
    return isinstance(tree, exp.Tuple)


def _entries(items: FromItems, scope: Scope, binder: ExpressionBinder, tree: Any) -> list[Entry]:
    """The labels and values of one element of the list; a * or COLUMNS has several."""
    label = None
    if isinstance(tree, exp.PivotAlias):
        label, tree = tree.args["alias"].name, tree.this
    stars = StarColumns(scope, binder.bind, items.binder)
    if isinstance(tree, exp.Star):
        return [(item.name, [item.expression]) for item in stars.of_star(tree)]
    if any(calls_of_columns(tree)):
        return [(name, [binder.bind(copy)]) for copy, name in stars.expanded(tree)]
    members = tree.expressions if _is_row(tree) else [tree]
    return [
        (
            label or "_".join(_name_of(items, member) for member in members),
            [binder.bind(member) for member in members],
        )
    ]


def _name_of(items: FromItems, tree: Any) -> str:
    """The name of the only column of an expression."""
    columns = {column.name for column in tree.find_all(exp.Column)}
    if len(columns) == 1:
        return str(columns.pop())
    raise ProgrammingError(
        "UNPIVOT needs a label for an expression without a column, or with several columns",
        hint="write (expression AS label)",
        position=items.at(tree),
    )
