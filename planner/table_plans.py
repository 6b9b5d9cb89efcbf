"""Plans of the statements that define tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.catalog import ComputedColumn, Mapping, TableColumn, WatermarkClause
from runnel.connector import ColumnDefinition, WritableTable, WriteMode
from runnel.errors import NotSupportedError, internal
from runnel.expressions import build
from runnel.planner.bind.changes import bind_change
from runnel.planner.bind.returned_rows import ReturnedRows, bind_returning
from runnel.planner.bind.tables.alterations import AlteredTable, not_alterable
from runnel.planner.bind.tables.definitions import bind_table
from runnel.planner.bind.write import BoundWrite
from runnel.planner.copy_plans import bind_copy
from runnel.planner.flink_statements import plan_flink_statement
from runnel.planner.parse.alter_table import AlterTable
from runnel.planner.parse.macros import CreateMacro
from runnel.planner.parse.merge import MergeInto
from runnel.planner.parse.query.copies import CopyFrom
from runnel.planner.parse.session.materialized_views import CreateMaterializedView
from runnel.planner.parse.syntax import CreateMapping, Delete, Insert, Statement, Update
from runnel.planner.parse.tables import CreateTable
from runnel.planner.planning import Planning
from runnel.planner.plans import (
    AlterTablePlan,
    ChangePlan,
    CreateMacroPlan,
    CreateMappingPlan,
    CreateTablePlan,
    NothingPlan,
    Plan,
    QueryPlan,
    WritePlan,
)
from runnel.relation.nodes import Project, references
from runnel.sqltypes import VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.query import Binder


def plan_table_statement(binder: Binder, statement: Statement, planning: Planning) -> Plan:
    """The plan of a statement that defines a table, or changes rows that a query computes."""
    if _is_of_flink(statement):
        return plan_flink_statement(binder, statement, planning)
    if isinstance(statement, CreateTable):
        return _create_table(binder, statement, planning)
    if isinstance(statement, CreateMapping):
        return _create_mapping(binder, statement)
    if isinstance(statement, Insert | Update | Delete | MergeInto):
        return _change(binder, statement, planning)
    if isinstance(statement, AlterTable):
        return _alter_table(binder, statement, planning)
    if isinstance(statement, CreateMacro):
        # Loaded on first use: few programs create macros.
        from runnel.planner.bind.macros.table_macros import check_macro

        check_macro(binder, statement)
        return CreateMacroPlan(statement=statement)
    if isinstance(statement, CopyFrom):
        return planning.write(bind_copy(binder, statement))
    if isinstance(statement, CreateMaterializedView):
        # Loaded on first use: few programs have materialized views.
        from runnel.planner.live.views import plan_view

        return plan_view(binder, statement, planning)
    raise internal(f"no plan for {type(statement).__name__}")


def _is_of_flink(statement: Statement) -> bool:
    """Whether the statement is made up of others: CREATE TABLE … LIKE, a statement set, …"""
    if isinstance(statement, Insert):
        return statement.overwrites
    return type(statement).__module__.startswith("runnel.planner.parse.flink.")


def _change(
    binder: Binder, statement: Insert | Update | Delete | MergeInto, planning: Planning
) -> ChangePlan:
    bound = bind_change(binder, statement)
    rows = planning.rows(bound.relation)
    columns = [bound.table.columns[i] for i in bound.columns]
    if isinstance(statement, MergeInto):
        columns.append(TableColumn("merge_action", VARCHAR, hidden=True))
    types, returning = rows.parameters, None
    tree = statement.returning
    if tree is not None:
        schema = binder.lookup(statement.table.text, statement.table.position).schema
        relation = bind_returning(binder, tree, ReturnedRows(columns), schema)
        types = tuple(
            other if other != own else mine
            for mine, other, own in zip(
                types, planning.parameters(relation), binder.parameter_types, strict=True
            )
        )

        def returning(batches: Sequence[pa.RecordBatch]) -> QueryPlan:
            found = bind_returning(binder, tree.copy(), ReturnedRows(columns, batches), schema)
            return replace(planning.rows(found), parameters=types)

    return ChangePlan(
        table=bound.table,
        rows=replace(rows, parameters=types),
        columns=bound.columns,
        rule=bound.rule,
        key=bound.key,
        allows_repeats=bound.allows_repeats,
        returning=returning,
        has_action=isinstance(statement, MergeInto),
        parameters=types,
        dependencies=planning.dependencies(),
        # The function that plans RETURNING belongs to this statement.
        is_cacheable=rows.is_cacheable and returning is None,
    )


def _alter_table(binder: Binder, statement: AlterTable, planning: Planning) -> Plan:
    if statement.if_exists and binder.snapshot.find(statement.name.text) is None:
        return NothingPlan()
    found = binder.lookup(statement.name.text, statement.name.position)
    if isinstance(found, Mapping) and found.flink_text is not None:
        # Loaded on first use: few tables are Flink's.
        from runnel.planner.parse.flink.altered_items import items_of

        return plan_flink_statement(binder, items_of(statement.sql, None), planning)
    if not isinstance(found, Mapping) or found.definition is None:
        raise not_alterable(found, statement.name.position)
    altered = AlteredTable(binder, found)
    for change in statement.alterations:
        altered.apply(change)
    created = None
    bound = altered.bound()
    if altered.is_copied:
        rows = altered.rows()
        created = CreateTablePlan(
            name=altered.name,
            schema=found.schema,
            columns=bound.columns,
            definition=bound.definition,
            checks=bound.checks,
            or_replace=True,
            if_not_exists=False,
            write=lambda table: planning.write(
                BoundWrite(table, WriteMode.INSERT, tuple(range(len(bound.columns))), rows)
            ),
        )
    return AlterTablePlan(
        name=found.name,
        new_name=altered.name,
        definition=bound.definition,
        created=created,
        is_cascading=statement.is_cascading,
        dependencies=planning.dependencies(),
    )


def _create_table(binder: Binder, statement: CreateTable, planning: Planning) -> CreateTablePlan:
    source = None if statement.query is None else binder.statement_query(statement.query)
    if source is not None and source.is_unbounded:
        raise NotSupportedError(
            "CREATE TABLE AS from a source without an end is not supported",
            hint="create the table with its columns, and fill it by a job: "
            "CREATE JOB j AS INSERT INTO t SELECT …",
            position=statement.position,
        )
    name = statement.name
    schema, full = binder.snapshot.new_name(
        name.qualifiers, name.local, name.position, is_temporary=statement.is_temporary
    )
    bound = bind_table(binder, statement, source, (schema, full))
    types = () if source is None else planning.parameters(source)

    def write(table: WritableTable) -> WritePlan:
        assert source is not None
        count = len(bound.columns)
        expressions = tuple(
            build.assign(value, column.type, column.name)
            for value, column in zip(references(source.fields), bound.columns, strict=True)
        )
        names = tuple(column.name for column in bound.columns)
        relation = Project(input=source, expressions=expressions, names=names)
        return planning.write(BoundWrite(table, WriteMode.INSERT, tuple(range(count)), relation))

    return CreateTablePlan(
        name=full,
        schema=schema,
        columns=bound.columns,
        definition=bound.definition,
        checks=bound.checks,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
        write=write if source is not None and statement.has_data else None,
        parameters=types,
        dependencies=planning.dependencies() if bound.definition.foreign_keys else (),
    )


def _create_mapping(binder: Binder, statement: CreateMapping) -> CreateMappingPlan:
    name = statement.name
    schema, full = binder.snapshot.new_name(
        name.qualifiers, name.local, name.position, is_temporary=statement.is_temporary
    )
    return CreateMappingPlan(
        name=full,
        schema=schema,
        connector=None if statement.connector is None else statement.connector.text,
        data_connection=None
        if statement.data_connection is None
        else statement.data_connection.text,
        columns=tuple(
            ColumnDefinition(
                c.name.text, c.type, None if c.external_name is None else c.external_name.text
            )
            for c in statement.columns
        ),
        options={option.name.text: option.value for option in statement.options},
        external_name=None if statement.external_name is None else statement.external_name.text,
        object_type=None if statement.object_type is None else statement.object_type.text,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
        watermark=_watermark(statement),
        computed=_computed(binder, statement),
        flink_text=statement.flink_text,
        is_temporary=statement.is_temporary,
        not_null=frozenset(c.name.text.lower() for c in statement.columns if c.is_not_null),
    )


def _computed(binder: Binder, statement: CreateMapping) -> tuple[ComputedColumn, ...]:
    if not statement.computed:
        return ()
    # Loaded on first use: few mappings have one.
    from runnel.planner.bind.tables.computed import computed_columns

    return computed_columns(binder, statement)


def _watermark(statement: CreateMapping) -> WatermarkClause | None:
    if statement.watermark is None:
        return None
    # Loaded on first use: few mappings have one.
    from runnel.planner.bind.streams.watermark import watermark_clause

    return watermark_clause(statement.watermark, statement.sql)
