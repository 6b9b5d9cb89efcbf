"""Queries that only look up a key and need no job: `SELECT … FROM t WHERE __key = ?`."""

from __future__ import annotations

from typing import NamedTuple

from runnel.connector import KeyedTable
from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, Parameter, conjuncts
from runnel.planner.estimates import literal_count
from runnel.planner.rewriting import renumber
from runnel.relation.nodes import Filter, Limit, Project, Relation, Scan


class KeyLookup(NamedTuple):
    """A look-up by key.

    table: the table with the key.
    key: a literal or parameter per key column.
    columns: the columns of the table that the query returns; None if it computes `expressions`.
    expressions: over all columns of the table.
    """

    table: KeyedTable
    key: tuple[Expression, ...]
    columns: tuple[int, ...] | None
    expressions: tuple[Expression, ...]


def key_lookup(relation: Relation) -> KeyLookup | None:
    """The look-up that a query (after the rules) consists of; None for any other query."""
    projections: tuple[Expression, ...] | None = None
    if isinstance(relation, Project):
        projections, relation = relation.expressions, relation.input
    if isinstance(relation, Limit) and _keeps_one_row(relation):
        relation = relation.input
    predicate: list[Expression] = []
    while isinstance(relation, Filter) and isinstance(relation.input, Scan):
        places = dict(enumerate(relation.input.columns))
        predicate = [renumber(part, places) for part in conjuncts(relation.condition)]
        relation = relation.input
    if not isinstance(relation, Scan) or not isinstance(relation.table, KeyedTable):
        return None
    key = equated_key(relation.table, conjuncts(relation.predicate) + predicate)
    if key is None or relation.limit is not None:
        return None
    places = dict(enumerate(relation.columns))
    if projections is None:
        return KeyLookup(relation.table, key, relation.columns, ())
    expressions = tuple(renumber(item, places) for item in projections)
    if all(isinstance(item, Column) for item in expressions):
        columns = tuple(item.index for item in expressions if isinstance(item, Column))
        return KeyLookup(relation.table, key, columns, ())
    return KeyLookup(relation.table, key, None, expressions)


def _keeps_one_row(limit: Limit) -> bool:
    """Whether a limit has no effect on a result of at most one row."""
    return limit.offset is None and (literal_count(limit.count) or 0) > 0


def equated_key(table: KeyedTable, conjuncts: list[Expression]) -> tuple[Expression, ...] | None:
    """The constants that the key columns must equal, if the conjuncts require nothing else."""
    if not table.key_columns or len(conjuncts) != len(table.key_columns):
        return None
    values: dict[int, Expression] = {}
    for conjunct in conjuncts:
        if not isinstance(conjunct, Call) or conjunct.function != "eq":
            return None
        for column, value in (conjunct.arguments, conjunct.arguments[::-1]):
            index = _exact_column(column)
            if index is not None and isinstance(value, Literal | Parameter):
                values[index] = value
    if set(values) != set(table.key_columns):
        return None
    return tuple(values[index] for index in table.key_columns)


def _exact_column(expression: Expression) -> int | None:
    """The column of an expression that is a column, perhaps cast between exact numbers: such casts
    preserve the value, and the table finds a key by any equal value."""
    while isinstance(expression, Cast) and expression.implicit and _keeps_value(expression):
        expression = expression.operand
    return expression.index if isinstance(expression, Column) else None


def _keeps_value(cast: Cast) -> bool:
    source, target = cast.operand.type, cast.type
    if source.is_integer and target.is_integer:
        return True
    return source.is_exact and target.is_exact and target.scale >= source.scale
