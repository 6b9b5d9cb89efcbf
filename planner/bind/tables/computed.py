"""Binding of computed columns of mappings: `name AS expression` in CREATE MAPPING. Loaded on first
use.

The catalog stores the text of the expression. A query that reads the mapping binds it over the
columns of the table, and computes it in a projection over the scan.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlglot import exp

from runnel.catalog import ComputedColumn, Table, TableColumn
from runnel.errors import (
    DatabaseError,
    NotSupportedError,
    Position,
    ProgrammingError,
    as_written,
)
from runnel.expressions import build
from runnel.expressions.nodes import Expression
from runnel.planner.bind.binders import QueryBinder
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope, ScopeColumn
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.query import parse_expression
from runnel.planner.parse.syntax import ComputedClause, CreateMapping
from runnel.planner.parse.tokens import tokenize
from runnel.relation.nodes import Project, Relation, references
from runnel.sqltypes import NULL

_CLAUSE = "a computed column"


def computed_columns(binder: QueryBinder, statement: CreateMapping) -> tuple[ComputedColumn, ...]:
    """The computed columns of a CREATE MAPPING with their types. ProgrammingError for an expression
    that does not fit the declared columns."""
    declared = [TableColumn(item.name.text, item.type) for item in statement.columns]
    scope = _scope(declared, statement.name.text)
    found = []
    for item in statement.computed:
        kind = item.type
        if kind is None:
            if not declared:
                raise NotSupportedError(
                    "computed columns need declared columns",
                    hint="list the columns with their types before them",
                    position=item.name.position,
                )
            kind = _bound(binder, scope, item.value, item.name.position).type
        if kind == NULL:
            raise ProgrammingError(
                f'the type of the computed column "{item.name}" is unknown',
                hint="add a CAST",
                position=item.name.position,
            )
        _check_watermark(statement, item)
        found.append(ComputedColumn(item.name.text, kind, item.text, item.index))
    return tuple(found)


def _check_watermark(statement: CreateMapping, item: ComputedClause) -> None:
    """Refuses an event time that is the same in all rows: no window would ever be complete."""
    watermark = statement.watermark
    if watermark is None or watermark.column.text.lower() != item.name.text.lower():
        return
    if item.value is None or any(map(_differs, item.value.walk())):
        return
    if item.value.find(exp.Column) is None:
        raise ProgrammingError(
            f'WATERMARK FOR "{item.name}" would never advance, as the column has the same value in '
            "all rows",
            hint="use a time in the rows; a table of connector 'datagen' has the time of each row "
            f"with {as_written(item.name.text)} AS LOCALTIMESTAMP",
            position=watermark.column.position,
        )


def _differs(node: Any) -> bool:
    """Whether a call reads the clock for each row."""
    called = function_call(node)
    return called is not None and called[0] in ("PROCTIME", "CURRENT_ROW_TIMESTAMP")


def with_computed(binder: QueryBinder, scan: Relation, table: Table) -> Relation:
    """The columns of the table, which `scan` reads, and the computed ones after them."""
    scope = _scope(table.columns, table.name)
    expressions: list[Expression] = []
    for item in table.computed:
        try:
            value = _bound(binder, scope, _parsed(item.text), None)
            expressions.append(value if value.type == item.type else build.cast(value, item.type))
        except DatabaseError as error:
            error.detail = f'in the computed column "{item.name}" of "{table.name}"' + (
                f"; {error.detail}" if error.detail else ""
            )
            raise
    return Project(
        input=scan,
        expressions=(*references(scan.fields), *expressions),
        names=(*(field.name for field in scan.fields), *(item.name for item in table.computed)),
    )


def _scope(columns: Any, qualifier: str) -> Scope:
    return Scope(
        tuple(
            ScopeColumn(column.name, column.type, i, qualifier, column.hidden)
            for i, column in enumerate(columns)
        ),
        None,
    )


def _bound(binder: QueryBinder, scope: Scope, tree: Any, position: Position | None) -> Expression:
    if tree.find(exp.Parameter) is not None:
        raise ProgrammingError(
            "a computed column can't have parameters",
            hint="write the value into the statement",
            position=position,
        )
    if tree.find(exp.Query, exp.Window) is not None:
        raise NotSupportedError(
            "a computed column can't have subqueries or window functions",
            hint="write them in a view over the mapping",
            position=position,
        )
    return ExpressionBinder(binder, scope, _CLAUSE).bind(tree)


@cache
def _parsed(text: str) -> Any:
    """The tree of a stored expression. Its positions are none of the statement."""
    tree = parse_expression(tokenize(text), text, {}, Position.at(text, 0))
    for node in tree.walk():
        for key in ("start", "end", "line", "col"):
            node.meta.pop(key, None)
    return tree
