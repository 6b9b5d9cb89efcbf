"""Binding of a recursive common table expression: WITH RECURSIVE r AS (anchor UNION [ALL] step).

The column types are the common types of anchor and step. The step is bound again until the types no
longer widen. As in PostgreSQL, the step may refer to the table only once, in its FROM clause, and
not below an operator that needs all rows of the round at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import walk as expressions_in
from runnel.planner.bind.convert import common_types, converted, renamed
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.set_operations import forbids_recursion, union, unrounded
from runnel.planner.parse.query.allow_list import position_of
from runnel.relation.nodes import Aggregate, Field, Join, JoinKind, Relation, walk
from runnel.relation.subqueries import SUBQUERIES, DependentJoin, Recursion, WorkingTable
from runnel.sqltypes import has_mixed_interval

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.bind.scope import CommonTable

MOST_WIDENINGS = 50


def refers_to(tree: Any, name: str) -> bool:
    """Whether a query reads a table of that name anywhere."""
    return bool(_references(tree, name))


def _references(tree: Any, name: str) -> list[Any]:
    """The references to a table of that name in a query, outer ones before inner ones."""
    return [
        table
        for table in tree.find_all(exp.Table)
        if table.name.lower() == name.lower() and not table.text("db")
    ]


def recursion(
    binder: StatementBinder, name: str, common: CommonTable, outer: Scope | None
) -> Relation:
    """The rows of the recursive common table `name`."""
    tree = common.tree
    position = position_of(tree, binder.sql)
    if (
        not isinstance(tree, exp.Union)
        or tree.args.get("with_") is not None
        or refers_to(tree.this, name)
    ):
        raise ProgrammingError(
            f'recursive query "{name}" does not have the form: '
            "non-recursive term UNION [ALL] recursive term",
            hint=f'only the last term of the UNION may read "{name}"',
            position=position,
        )
    for clause, text in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if tree.args.get(clause) is not None:
            raise NotSupportedError(
                f'{text} is not supported within recursive query "{name}"',
                hint=f'write it in the query that reads "{name}"',
                position=position_of(tree.args[clause], binder.sql) or position,
            )
    anchor = renamed(
        binder.inside(common.visible).query(tree.this, outer), common.columns, f'"{name}"', position
    )
    inner = _inner_name(name, common)
    distinct = bool(tree.args.get("distinct"))
    step = anchor
    for _ in range(MOST_WIDENINGS):
        working = WorkingTable(
            name=inner, columns=tuple(Field(*field) for field in anchor.fields), position=position
        )
        visible = {
            **common.visible,
            name.lower(): replace(common, working=working, is_recursive=False),
        }
        step = binder.inside(visible).query(tree.expression, outer)
        types = common_types(anchor, step, "UNION", position_of(tree.expression, binder.sql))
        if types == tuple(field.type for field in anchor.fields):
            break
        if distinct:
            anchor = unrounded(anchor, types, step, position)
        anchor = converted(anchor, types)
    if not list(_reference_contexts(step, inner)):
        return union(anchor, step, distinct, position)
    types = tuple(field.type for field in anchor.fields)
    if distinct:
        step = unrounded(step, types, anchor, position)
    step = converted(step, types)
    if distinct and any(map(has_mixed_interval, types)):
        raise build.uncompared_intervals("WITH RECURSIVE … UNION", position)
    _check_step(step, name, inner, _reference(tree.expression, name, binder) or position)
    return Recursion(name=inner, anchor=anchor, step=step, distinct=distinct, position=position)


def _inner_name(name: str, common: CommonTable) -> str:
    """The table's name, changed if an enclosing recursion has the same name."""
    around = common.visible.get(name.lower())
    return name if around is None or around.working is None else f"{around.working.name}'"


def _reference(tree: Any, name: str, binder: StatementBinder) -> Position | None:
    """The position at which the step reads the table; of several references, the last and
    innermost."""
    found = _references(tree, name)
    return position_of(found[-1], binder.sql) if found else None


def _check_step(step: Relation, name: str, inner: str, position: Position | None) -> None:
    found = list(_reference_contexts(step, inner))
    for context in found:
        if context:
            raise ProgrammingError(
                f'recursive reference to query "{name}" must not appear {context}',
                position=position,
            )
    if len(found) > 1:
        raise ProgrammingError(
            f'recursive reference to query "{name}" must not appear more than once',
            hint="read it once and join the result with itself in the next step",
            position=position,
        )


def _reference_contexts(node: Relation, name: str) -> Iterator[str]:
    """Yields one text for each reference to the working table: the reason why the reference is
    refused, or "" if it is allowed."""
    if isinstance(node, WorkingTable) and node.name == name:
        yield ""
    for expression in node.own_expressions:
        for part in expressions_in(expression):
            if isinstance(part, SUBQUERIES) and _reads(part.relation, name):
                yield "within a subquery"
    for side, item in enumerate(node.inputs):
        for context in _reference_contexts(item, name):
            yield context or _forbidden(node, side)


def _forbidden(node: Relation, side: int) -> str:
    """The reason why an input of a node may not read the working table; "" if it may."""
    if isinstance(node, Aggregate) and node.aggregates:
        return "below an aggregate function"
    nullable = {JoinKind.LEFT: (1,), JoinKind.RIGHT: (0,), JoinKind.FULL: (0, 1)}
    if isinstance(node, Join | DependentJoin) and side in nullable.get(node.kind, ()):
        return "within an outer join, on the side that may be missing"
    return forbids_recursion(node)


def _reads(relation: Relation, name: str) -> bool:
    return any(True for node in walk(relation) for _ in _own(node, name))


def _own(node: Relation, name: str) -> Iterator[Relation]:
    if isinstance(node, WorkingTable) and node.name == name:
        yield node
    for expression in node.own_expressions:
        for part in expressions_in(expression):
            if isinstance(part, SUBQUERIES) and _reads(part.relation, name):
                yield node
