"""Binding of EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO. They end a SELECT, and apply to its
aggregation.

LATE DATA INTO can also apply to a window, to an ORDER BY, or to the joins of streams. If a SELECT
has several windows and ORDER BYs, it applies to the lowest one, whose output is in time for the
operators above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from runnel.connector import WritableTable, WriteMode
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.expressions.nodes import walk as expression_walk
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.streams.late_joins import (
    has_joins,
    with_late_of_joins,
    with_subqueries_as_joins,
)
from runnel.planner.bind.write import writable
from runnel.planner.parse.query.allow_list import position_of
from runnel.planner.parse.syntax import EmissionClauses, Name
from runnel.planner.rewriting import project_columns
from runnel.planner.rules.constant_folding import fold
from runnel.relation.emission import Emission
from runnel.relation.nodes import (
    Aggregate,
    Expand,
    Filter,
    Limit,
    Project,
    Relation,
    Sort,
    Union,
    references,
    walk,
)
from runnel.relation.over import Window
from runnel.relation.streams import WINDOW_COLUMNS
from runnel.relation.subqueries import SUBQUERIES
from runnel.sqltypes import BIGINT, Kind

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder


def with_emission(
    binder: StatementBinder, relation: Relation, clauses: EmissionClauses
) -> Relation:
    """The relation of the SELECT with the clauses added to the aggregation that emits results, or
    to another operator that finds late rows. NotSupportedError if there is no such operator."""
    found = _lowest(relation, clauses)
    if (
        found is None
        and clauses.late_table is not None
        and clauses.every is None
        and clauses.lateness is None
    ):
        if _asks_a_stream(relation):
            relation = with_subqueries_as_joins(relation)
        if has_joins(relation):
            return with_late_of_joins(
                relation, _late_table(binder, clauses.late_table), clauses.late_table
            )
    if found is None:
        raise _no_late_output(relation, clauses)
    return _with_late_output(binder, relation, found, clauses)


def check_late_output(relation: Relation, clauses: EmissionClauses) -> None:
    """Raises NotSupportedError if the rules have removed the join with the late output; `relation`
    is the result of the rules."""
    if clauses.late_table is None or not relation.is_unbounded:
        return
    for node in walk(relation):
        emission = getattr(node, "emission", None)
        if getattr(node, "late", None) is not None or (
            emission is not None and emission.late_table is not None
        ):
            return
    raise NotSupportedError(
        "LATE DATA INTO can't follow the rows of this join",
        detail="a subquery in its condition turns it into several joins",
        hint="leave LATE DATA INTO out, or put the condition into WHERE",
        position=clauses.late_table.position,
    )


def _lowest(relation: Relation, clauses: EmissionClauses) -> Relation | None:
    """The operator that the clauses apply to: the aggregation, or else the lowest window or ORDER
    BY, which can have only a late output."""
    only_late = clauses.every is None and clauses.lateness is None
    found: Relation | None = None
    while isinstance(relation, Project | Filter) or (only_late and _keeps_time(relation)):
        if isinstance(relation, Window | Sort):
            found = relation
        relation = relation.input
    return relation if isinstance(relation, Aggregate) else found


def _keeps_time(relation: Relation) -> TypeGuard[Window | Sort | Limit]:
    return isinstance(relation, Window | Sort | Limit)


def _no_late_output(relation: Relation, clauses: EmissionClauses) -> NotSupportedError:
    if clauses.every is not None or clauses.lateness is not None:
        return NotSupportedError(
            "EMIT EVERY and ALLOWED LATENESS need GROUP BY over windows",
            detail=(
                "the SELECT before these clauses has no aggregation, or has DISTINCT, OVER, "
                "ORDER BY or LIMIT above it"
            ),
            hint=(
                "put the aggregation into this SELECT: SELECT window_end, COUNT(*) … "
                "GROUP BY window_end EMIT EVERY …"
            ),
            position=clauses.position,
        )
    return NotSupportedError(
        "LATE DATA INTO is supported for GROUP BY over windows, joins of streams, OVER, "
        "DISTINCT ON and ORDER BY",
        detail="all other operators accept rows in any order, so they have no late rows",
        hint="leave LATE DATA INTO out",
        position=clauses.position,
    )


def _asks_a_stream(relation: Relation) -> bool:
    """Whether a SELECT has a subquery over a stream, and neither groups nor sorts."""
    while isinstance(relation, Project | Filter):
        found = (item for own in relation.own_expressions for item in expression_walk(own))
        if any(isinstance(item, SUBQUERIES) and item.relation.is_unbounded for item in found):
            return True
        relation = relation.input
    return False


def _with_late_output(
    binder: StatementBinder, relation: Relation, found: Relation, clauses: EmissionClauses
) -> Relation:
    if relation is found:
        if isinstance(found, Aggregate):
            return _add_late_output(binder, found, clauses)
        assert isinstance(found, Window | Sort) and clauses.late_table is not None
        return _late_rows_of_from(binder, found, clauses.late_table, clauses.position)
    (below,) = relation.inputs
    return relation.with_inputs((_with_late_output(binder, below, found, clauses),))


def _add_late_output(
    binder: StatementBinder, relation: Aggregate, clauses: EmissionClauses
) -> Relation:
    every = None if clauses.every is None else _every(binder, clauses.every)
    lateness = (
        Literal(value=0, type=BIGINT)
        if clauses.lateness is None
        else _lateness(binder, clauses.lateness)
    )
    emission = Emission(every=every, lateness=lateness, position=clauses.position)
    if clauses.late_table is not None:
        emission = _with_late_rows(
            binder, emission, clauses.late_table, _columns_of_from(relation.input)
        )
    return replace(relation, emission=emission)


def _columns_of_from(relation: Relation) -> Sequence[Column]:
    """The columns of the rows that are grouped, without the columns that the binder adds for
    grouping sets."""
    found = references(relation.fields)
    expanded = relation.parts[0] if isinstance(relation, Union) else relation
    if isinstance(expanded, Expand) and expanded.of_sets:
        (computed,) = expanded.inputs
        (source,) = computed.inputs
        return found[: len(source.fields)]
    return found


def _late_rows_of_from(
    binder: StatementBinder, relation: Window | Sort, name: Name, position: Position | None
) -> Relation:
    """The operator with a late output. Late rows have the columns of FROM. If the select list is
    below the operator, it is extended by these columns."""
    emission = Emission(every=None, lateness=Literal(value=0, type=BIGINT), position=position)
    below = relation.input
    if not isinstance(below, Project):
        return replace(
            relation, emission=_with_late_rows(binder, emission, name, references(below.fields))
        )
    width, source = len(below.fields), below.input
    both = replace(
        below,
        expressions=(*below.expressions, *references(source.fields)),
        names=(*below.names, *(field.name for field in source.fields)),
    )
    emission = _with_late_rows(binder, emission, name, references(both.fields)[width:])
    with_output = replace(relation, input=both, emission=emission)
    added = range(len(both.fields), len(with_output.fields))
    return project_columns(with_output, [*range(width), *added])


def _constant(binder: StatementBinder, tree: Any, clause: str) -> Literal:
    value = fold(ExpressionBinder(binder, Scope(), clause).bind(tree))
    if not isinstance(value, Literal) or value.value is None:
        raise NotSupportedError(
            f"{clause} needs a constant",
            hint="write INTERVAL '1' SECOND",
            position=position_of(tree, binder.sql),
        )
    return value


def _every(binder: StatementBinder, tree: Any) -> int:
    value = _constant(binder, tree, "EMIT EVERY")
    every = value.value // timedelta(microseconds=1) if value.type.kind is Kind.INTERVAL else 0
    if every <= 0:
        raise ProgrammingError(
            "EMIT EVERY needs a positive interval without years and months",
            hint="write EMIT EVERY INTERVAL '1' SECOND",
            position=position_of(tree, binder.sql),
        )
    return int(every)


def _lateness(binder: StatementBinder, tree: Any) -> Literal:
    value = _constant(binder, tree, "ALLOWED LATENESS")
    is_interval = value.type.kind is Kind.INTERVAL
    if not (is_interval or value.type.is_integer) or value.value < (
        timedelta(0) if is_interval else 0
    ):
        raise ProgrammingError(
            "ALLOWED LATENESS needs an interval without years and months, or a number if the time "
            "column is an integer, and it can't be negative",
            hint="write ALLOWED LATENESS INTERVAL '10' SECOND",
            position=position_of(tree, binder.sql),
        )
    return value


def _with_late_rows(
    binder: StatementBinder, emission: Emission, name: Name, found: Sequence[Column]
) -> Emission:
    table = _late_table(binder, name)
    columns, sources = _matched(table, name, found)
    assigned = tuple(
        build.assign(source, table.columns[i].type, table.columns[i].name)
        for i, source in zip(columns, sources, strict=True)
    )
    return replace(emission, late_table=table, late_columns=columns, late=assigned)


def _late_table(binder: StatementBinder, name: Name) -> WritableTable:
    return writable(binder, name, WriteMode.INSERT if _inserts(binder, name) else WriteMode.SINK)


def _inserts(binder: StatementBinder, name: Name) -> bool:
    """Whether late rows are inserted. They are put (SINK) into a map, where a late row may have the
    key of another one."""
    table = getattr(binder.lookup(name.text, name.position), "table", None)
    modes = (
        table.write_modes if isinstance(table, WritableTable) else frozenset((WriteMode.INSERT,))
    )
    return WriteMode.SINK not in modes


def _matched(
    table: WritableTable, name: Name, found: Sequence[Column]
) -> tuple[tuple[int, ...], list[Expression]]:
    """The indexes of the mapping's columns, and for each a column of the late rows. Columns match
    by name if every name has a match; by position if no name has one and the numbers of columns are
    equal."""
    targets = tuple(i for i, column in enumerate(table.columns) if not column.hidden)
    by_name = {column.name.lower(): column for column in reversed(found)}
    targets_by_name = [table.columns[i].name for i in targets]
    if all(item.lower() in by_name for item in targets_by_name):
        return targets, [by_name[item.lower()] for item in targets_by_name]
    plain = [column for column in found if column.name not in WINDOW_COLUMNS]
    no_match = not any(item.lower() in by_name for item in targets_by_name)
    if no_match and len(plain) == len(targets):
        return targets, list(plain)
    missing = ", ".join(f'"{item}"' for item in targets_by_name if item.lower() not in by_name)
    raise ProgrammingError(
        f'mapping "{name.text}" can\'t store the late rows: they have no column {missing}',
        detail="late rows have the columns " + ", ".join(f'"{column.name}"' for column in found),
        hint="use a mapping with these column names, or with as many columns in this order",
        position=name.position,
    )
