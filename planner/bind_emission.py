"""Binding of EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO: they go to the aggregation of the SELECT that they end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from runnel.connector import WritableTable, WriteMode
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.bind_expression import ExpressionBinder
from runnel.planner.bind_query import Binder
from runnel.planner.bind_write import writable
from runnel.planner.rules.constant_folding import fold
from runnel.planner.scope import Scope
from runnel.planner.supported import position_of
from runnel.planner.syntax import EmissionClauses, Name
from runnel.relation import Aggregate, Filter, Project, Relation, references
from runnel.sqltypes import BIGINT, Kind
from runnel.streams import WINDOW_COLUMNS, Emission


def with_emission(binder: Binder, relation: Relation, clauses: EmissionClauses) -> Relation:
    """The relation of the SELECT, its aggregation told when to give results. NotSupportedError where it has none."""
    if isinstance(relation, Project | Filter):
        return relation.with_inputs((with_emission(binder, relation.input, clauses),))
    if not isinstance(relation, Aggregate):
        raise NotSupportedError(
            "EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO go with GROUP BY over windows",
            detail="the SELECT that they end has no aggregation, or has DISTINCT, ORDER BY or LIMIT above it",
            hint="put the aggregation into this SELECT: SELECT window_end, COUNT(*) … GROUP BY window_end EMIT EVERY …",
            position=clauses.position,
        )
    every = None if clauses.every is None else _every(binder, clauses.every)
    lateness = Literal(value=0, type=BIGINT) if clauses.lateness is None else _lateness(binder, clauses.lateness)
    emission = Emission(every=every, lateness=lateness, position=clauses.position)
    if clauses.late_table is not None:
        emission = _with_late_rows(binder, emission, clauses.late_table, relation.input)
    return replace(relation, emission=emission)


def _constant(binder: Binder, tree: Any, clause: str) -> Literal:
    value = fold(ExpressionBinder(binder, Scope(), clause).bind(tree))
    if not isinstance(value, Literal) or value.value is None:
        raise NotSupportedError(
            f"{clause} takes a constant", hint="write INTERVAL '1' SECOND", position=position_of(tree, binder.sql)
        )
    return value


def _every(binder: Binder, tree: Any) -> int:
    value = _constant(binder, tree, "EMIT EVERY")
    every = value.value // timedelta(microseconds=1) if value.type.kind is Kind.INTERVAL else 0
    if every <= 0:
        raise ProgrammingError(
            "EMIT EVERY takes a positive interval of days or less",
            hint="write EMIT EVERY INTERVAL '1' SECOND",
            position=position_of(tree, binder.sql),
        )
    return int(every)


def _lateness(binder: Binder, tree: Any) -> Literal:
    value = _constant(binder, tree, "ALLOWED LATENESS")
    is_interval = value.type.kind is Kind.INTERVAL
    if not (is_interval or value.type.is_integer) or value.value < (timedelta(0) if is_interval else 0):
        raise ProgrammingError(
            "ALLOWED LATENESS takes an interval of days or less, or a number for an integer time column, not negative",
            hint="write ALLOWED LATENESS INTERVAL '10' SECOND",
            position=position_of(tree, binder.sql),
        )
    return value


def _with_late_rows(binder: Binder, emission: Emission, name: Name, rows: Relation) -> Emission:
    table = writable(binder, name, WriteMode.INSERT if _inserts(binder, name) else WriteMode.SINK)
    columns, sources = _matched(table, name, rows)
    assigned = tuple(
        build.assign(source, table.columns[i].type, table.columns[i].name) for i, source in zip(columns, sources, strict=True)
    )
    return replace(emission, late_table=table, late_columns=columns, late=assigned)


def _inserts(binder: Binder, name: Name) -> bool:
    """Late rows are added; to a map, where the same key may come again, they are put."""
    table = getattr(binder.lookup(name.text, name.position), "table", None)
    modes = table.write_modes if isinstance(table, WritableTable) else frozenset((WriteMode.INSERT,))
    return WriteMode.SINK not in modes


def _matched(table: WritableTable, name: Name, rows: Relation) -> tuple[tuple[int, ...], list[Expression]]:
    """The mapping's columns, and for each the column of the late rows: by name where all are found, else by position."""
    targets = tuple(i for i, column in enumerate(table.columns) if not column.hidden)
    found = references(rows.fields)
    by_name = {column.name.lower(): column for column in reversed(found)}
    wanted = [table.columns[i].name for i in targets]
    if all(item.lower() in by_name for item in wanted):
        return targets, [by_name[item.lower()] for item in wanted]
    plain = [column for column in found if column.name not in WINDOW_COLUMNS]
    if not any(item.lower() in by_name for item in wanted) and len(plain) == len(targets):
        return targets, list(plain)
    missing = ", ".join(f'"{item}"' for item in wanted if item.lower() not in by_name)
    raise ProgrammingError(
        f'mapping "{name.text}" can\'t take the late rows: they have no column {missing}',
        detail="late rows have the columns " + ", ".join(f'"{column.name}"' for column in found),
        hint="give the mapping columns with these names, or as many as there are, in their order",
        position=name.position,
    )
