"""Materialized views: the plan of the job that publishes the rows of a query, and views as inputs
of live queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.schemas import database_of
from runnel.catalog import Mapping, Snapshot, TableColumn
from runnel.connector import WriteMode
from runnel.errors import NotSupportedError, ProgrammingError, as_written
from runnel.expressions.nodes import distinct_names
from runnel.planner.event_time.check import check_streaming
from runnel.planner.live.maintained import Maintained
from runnel.planner.live.maintenance import EPOCH_MILLIS, maintained
from runnel.planner.live.unique_columns import unique_columns
from runnel.planner.optimize import chosen, is_lasting, note_indexes, simplified, tables_in
from runnel.planner.parse.query.query_end import MOST_EPOCH_MILLIS
from runnel.planner.parse.session.materialized_views import CreateMaterializedView
from runnel.planner.parse.syntax import OptionClause, option_values
from runnel.planner.physical.choose import choose
from runnel.planner.plans import CreateMaterializedViewPlan, Plan, WritePlan
from runnel.planner.statement_time import check_no_statement_time
from runnel.processors.live.views.changes import ViewChanges
from runnel.processors.live.views.table import MaterializedTable
from runnel.relation.live import Publication, ViewInput
from runnel.relation.nodes import Field, Relation, Scan
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.planner.bind.query import Binder
    from runnel.planner.planning import Planning

EPOCH_OPTION = "epochMillis"


def maintained_scan(node: Scan) -> Maintained:
    """A scan in a live query: of a view its changes, of other tables the rows."""
    table = node.table
    if not isinstance(table, ViewChanges):
        return Maintained(node)
    unique = unique_columns(node)
    columns = (*node.columns, table.weight)
    changes = ViewInput(
        input=replace(node, columns=columns), view=table.name, position=node.position
    )
    return Maintained(changes, is_changing=True, unique=unique[0] if unique else None)


def plan_view(binder: Binder, statement: CreateMaterializedView, planning: Planning) -> Plan:
    """The plan of CREATE MATERIALIZED VIEW; in a job, of the query that publishes its rows."""
    in_job = binder.environment.in_job
    environment = replace(binder.environment, in_job=True, is_live=True, pushdown=None)
    schema, name = _new_name(binder, statement)
    binder = replace(binder, environment=environment)
    bound = binder.statement_query(statement.query)
    columns = _columns(statement, bound.fields)
    logical = simplified(binder, bound)
    binder.environment.check()
    key = _key(logical)
    table = _table(binder.snapshot, name) if in_job else MaterializedTable(name, columns, key)
    published = _published(logical, table, _epoch_millis(statement.options))
    note_indexes(binder, published)
    physical = chosen(binder, published, published, choose)
    write = WritePlan(
        table=table,
        mode=WriteMode.CHANGES,
        columns=tuple(range(len(columns))),
        logical=published,
        physical=physical,
        dag=planning.lowering(lambda: physical),
        tables=tables_in(published),
        is_unbounded=published.is_unbounded,
        dependencies=planning.dependencies(),
        is_cacheable=is_lasting(binder.snapshot, published),
    )
    if in_job:
        return write
    if any(item.name.lower() == name.lower() for item in write.dependencies):
        raise ProgrammingError(
            f'materialized view "{name}" can\'t read itself', position=statement.name.position
        )
    return CreateMaterializedViewPlan(
        name=name,
        schema=schema,
        position=statement.name.position,
        text=statement.sql.strip().rstrip(";").rstrip(),
        columns=columns,
        key=key,
        options=tuple(
            item for item in option_values(statement.options) if item[0].lower() != "epochmillis"
        ),
        write=write,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
        dependencies=write.dependencies,
    )


def _new_name(binder: Binder, statement: CreateMaterializedView) -> tuple[str, str]:
    """The schema of the view, and its name in the catalog."""
    name = statement.name
    schema, full = binder.snapshot.new_name(name.qualifiers, name.local, name.position)
    if database_of(schema):
        raise NotSupportedError(
            "CREATE MATERIALIZED VIEW in an attached database is not supported",
            hint=f"create it here: CREATE MATERIALIZED VIEW {as_written(name.local)} AS …",
            position=name.position,
        )
    return schema, full


def _table(snapshot: Snapshot, name: str) -> MaterializedTable:
    """The view as the catalog has it, whose content the job publishes."""
    found = snapshot.objects.get(name.lower())
    table = found.table if isinstance(found, Mapping) else None
    if not isinstance(table, MaterializedTable):
        raise ProgrammingError(
            f'materialized view "{name}" not found',
            hint=f"drop the job that publishes it: DROP JOB {as_written(name)}",
        )
    return table


def _columns(statement: CreateMaterializedView, fields: Sequence[Field]) -> tuple[TableColumn, ...]:
    """The columns of the view."""
    given = [column.text for column in statement.columns]
    if len(given) > len(fields):
        raise ProgrammingError(
            f"the query returns {len(fields)} columns, but {len(given)} names are given",
            position=statement.name.position,
        )
    names = distinct_names((*given, *(field.name for field in fields[len(given) :])))
    used: set[str] = set()
    for name, field in zip(names, fields, strict=True):
        if name.lower() in used:
            raise ProgrammingError(
                f'the materialized view would have two columns "{name}"',
                hint="name the columns: CREATE MATERIALIZED VIEW v (a, b) AS …",
                position=statement.name.position,
            )
        if field.type.kind is Kind.NULL:
            raise ProgrammingError(
                f'column "{name}" of the materialized view has no type',
                hint=f"add one: CAST(NULL AS VARCHAR) AS {as_written(name)}",
                position=statement.name.position,
            )
        used.add(name.lower())
    return tuple(TableColumn(name, field.type) for name, field in zip(names, fields, strict=True))


def _key(logical: Relation) -> tuple[int, ...] | None:
    """The columns by which the rows of the view are found: the fewest by which they differ."""
    keys = [key for key in unique_columns(logical) if key]
    return min(keys, key=len, default=None)


def _published(logical: Relation, table: MaterializedTable, millis: int) -> Relation:
    """The relation that publishes the rows of `logical`, the query after the rules."""
    if logical.is_unbounded:
        check_no_statement_time(logical, "a materialized view over a stream", "its creation")
    found = maintained(logical)
    published = Publication(
        input=found.relation,
        table=table,
        is_changing=found.is_changing,
        distance=millis * 1_000_000,
        position=logical.position,
    )
    if published.is_unbounded:
        check_streaming(published)
    return published


def _epoch_millis(options: Sequence[OptionClause]) -> int:
    for item in options:
        if item.name.text.lower() == EPOCH_OPTION.lower():
            text = item.value
            if not (text.isascii() and text.isdecimal() and int(text) <= MOST_EPOCH_MILLIS):
                raise ProgrammingError(
                    f"option '{EPOCH_OPTION}' can't be '{text}'",
                    hint=f"it accepts a whole number from 0 to {MOST_EPOCH_MILLIS}",
                    position=item.name.position,
                )
            return int(text)
    return EPOCH_MILLIS
