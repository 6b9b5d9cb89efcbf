"""Plans that change the catalog: CREATE and DROP of mappings and views.

All run under the lock of the catalog. If the database is durable, the change is on disk before they
return. Data is never changed: a map remains when its mappings are dropped.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from runnel.base.schemas import CATALOG, MEMORY, PUBLIC, VIEW_KIND, VIEW_TYPE, database_of
from runnel.catalog import (
    CatalogObject,
    Index,
    Mapping,
    Registration,
    Table,
    View,
    next_version,
    visible_columns,
)
from runnel.connector import IndexedTable, KeyedTable, MappingDefinition, RowAddressedTable
from runnel.errors import (
    DuplicateTable,
    InvalidSchemaName,
    NotSupportedError,
    ProgrammingError,
    UndefinedObject,
    UndefinedTable,
    suggest,
)
from runnel.planner.parse.syntax import DropMapping, DropObject
from runnel.planner.plans import (
    CreateMappingPlan,
    CreateMaterializedViewPlan,
    CreateTablePlan,
    CreateViewPlan,
)
from runnel.session.table_options import IDLE_TIMEOUT, open_table
from runnel.settings import find
from runnel.statements.call import StatementCall
from runnel.statements.data_connections import connector_and_definition

if TYPE_CHECKING:
    from runnel.planner.parse.flink.inspections import RenameView
    from runnel.session.session import Session

NO_COUNT = -1


def create_mapping(session: Session, plan: CreateMappingPlan, call: StatementCall) -> int:
    """Opens the table through its connector, and names it."""
    plan = _with_idle_timeout(session, plan)
    with session.definitions:
        if not is_free(session, plan, "mapping"):
            return NO_COUNT
        _check_database(session, plan.schema)
        definition = MappingDefinition(
            plan.name,
            plan.columns,
            plan.options,
            plan.external_name,
            plan.object_type,
            plan.watermark,
            session.caller.access,
            computed=plan.computed,
            schema=plan.schema,
        )
        connector, whole = connector_and_definition(
            session.connectors,
            session.catalog,
            plan.connector,
            plan.data_connection,
            definition,
        )
        table = open_table(connector, whole)
        _check_not_null(plan, table)
        mapping = Mapping(
            plan.name,
            connector.name,
            table,
            {**plan.options, **table.found_options} if table.found_options else plan.options,
            plan.external_name,
            object_type=plan.object_type,
            data_connection=plan.data_connection,
            watermark=plan.watermark,
            is_confined=session.caller.is_confined,
            flink_text=plan.flink_text,
            is_temporary=plan.is_temporary or bool(database_of(plan.schema)),
            not_null=plan.not_null,
            schema=plan.schema,
        )
        replaced = session.catalog.objects.get(plan.name.lower())
        if isinstance(replaced, Mapping) and not _is_same(replaced, mapping):
            _check_unused(session, replaced, is_dropped=False)
        renamed = None if plan.renamed is None else session.catalog.get(plan.renamed)
        if isinstance(renamed, Mapping):
            check_own(session, renamed)
            _check_unused(session, renamed, is_dropped=True)
        session.change_catalog(
            put=mapping, drop=renamed, drop_indexes=_unfit_indexes(session, mapping)
        )
    return NO_COUNT


def _with_idle_timeout(session: Session, plan: CreateMappingPlan) -> CreateMappingPlan:
    """The plan of a table of Flink with the idle timeout of the session, if SET has changed it and
    the table has a watermark without one."""
    timeout = session.settings.integer("idle_timeout")
    is_set = IDLE_TIMEOUT in plan.options or timeout == find("idle_timeout").default
    if is_set or plan.flink_text is None or plan.watermark is None:
        return plan
    # Loaded on first use: few sessions change it.
    from runnel.planner.parse.flink.written import with_option

    return replace(
        plan,
        options={**plan.options, IDLE_TIMEOUT: str(timeout)},
        flink_text=with_option(plan.flink_text, "scan.watermark.idle-timeout", f"{timeout} ms"),
    )


def _check_database(session: Session, schema: str) -> None:
    """NotSupportedError if a schema is one of an attached file, which stores no mappings."""
    for item in session.catalog.databases:
        if item.name.lower() == database_of(schema) and item.text != MEMORY:
            raise NotSupportedError(
                f'a mapping can\'t be in the file of database "{item.name}"',
                hint=f"create it in the connection's own database: {CATALOG}.{PUBLIC}.name",
            )


def _check_not_null(plan: CreateMappingPlan, table: Table) -> None:
    """NotSupportedError for NOT NULL of a table whose rows UPDATE changes: only new rows are
    checked."""
    if plan.not_null and isinstance(table, KeyedTable | RowAddressedTable):
        raise NotSupportedError(
            f"NOT NULL of a mapping of {table.connector} is not supported",
            hint="leave it out, or use CREATE TABLE without options, whose constraints are checked",
        )


def _is_same(replaced: Mapping, mapping: Mapping) -> bool:
    """Whether two mappings are defined alike: a job can use either."""
    compared = replace(
        replaced,
        table=mapping.table,
        version=mapping.version,
        name=mapping.name,
        flink_text=mapping.flink_text,
        not_null=mapping.not_null,
    )
    return compared == mapping and visible_columns(replaced.table) == visible_columns(mapping.table)


def _check_unused(session: Session, mapping: Mapping, *, is_dropped: bool) -> None:
    if session.has_named_jobs:
        _job_users().check_unused(
            session, mapping.name, "mapping", is_dropped=is_dropped, is_replaced=not is_dropped
        )


def _job_users() -> ModuleType:
    # Loaded on first use: most connections have no named jobs.
    from runnel.statements.tables import job_users

    return job_users


def _unfit_indexes(session: Session, mapping: Mapping) -> tuple[Index, ...]:
    """The indexes on the replaced mapping that the new one can't have."""
    unfit = []
    for index in session.catalog.indexes_on(mapping.name):
        try:
            if isinstance(mapping.table, IndexedTable):
                mapping.table.validate_index(index)
                continue
        except ProgrammingError:
            pass
        unfit.append(index)
    return tuple(unfit)


def create_view(session: Session, plan: CreateViewPlan, call: StatementCall) -> int:
    """Names a query. The planner has bound it, and it doesn't use the view itself."""
    with session.definitions:
        if not is_free(session, plan, "view"):
            return NO_COUNT
        view = View(
            plan.name,
            plan.sql,
            plan.columns,
            plan.temporary,
            is_confined=session.caller.is_confined,
            schema=plan.schema,
            path=plan.path,
        )
        session.change_catalog(put=view)
    if not view.temporary:
        session.warn_if_lost("view", view.name)
    return NO_COUNT


def rename_view(session: Session, statement: RenameView, call: StatementCall) -> int:
    """Renames a view. A query or view that reads it by the old name fails then."""
    with session.definitions:
        found = session.catalog.find(statement.name.text)
        if found is None and statement.if_exists:
            return NO_COUNT
        found = session.catalog.get(statement.name.text, statement.name.position)
        if not isinstance(found, View):
            raise ProgrammingError(
                f'"{found.name}" is a {kind_of(found)}, not a view',
                position=statement.name.position,
            )
        check_own(session, found)
        new = statement.new_name
        schema, name = session.catalog.new_name(
            new.qualifiers, new.local, new.position, is_temporary=found.temporary
        )
        if session.catalog.objects.get(name.lower()) is not None:
            raise DuplicateTable(f'"{name}" exists already', position=new.position)
        renamed = replace(found, name=name, schema=schema, version=next_version())
        session.change_catalog(put=renamed, drop=found)
    return NO_COUNT


def drop(session: Session, statement: DropObject, call: StatementCall) -> int:
    """Removes a mapping, with its indexes, or a view from the catalog."""
    is_cascading = isinstance(statement, DropMapping) and statement.is_cascading
    if is_cascading:
        target = session.catalog.find(statement.name.text)
        name = statement.name.text if target is None else target.name
        _job_users().suspend_users(session, name)
    with session.definitions:
        found = session.catalog.find(statement.name.text)
        if found is None:
            if statement.if_exists:
                return NO_COUNT
            known = [item.name for item in session.catalog if kind_of(item) == statement.kind]
            raise _missing(statement, known)
        if kind_of(found) != statement.kind:
            raise ProgrammingError(
                f'"{found.name}" is a {kind_of(found)}, not a {statement.kind}',
                hint=how_to_drop(found),
            )
        check_own(session, found)
        if isinstance(found, Mapping) and not is_cascading:
            _check_unused(session, found, is_dropped=True)
        session.change_catalog(drop=found)
    return NO_COUNT


def check_own(session: Session, found: CatalogObject | None) -> None:
    """ProgrammingError if the object is not the caller's to change."""
    if found is not None:
        session.caller.require_own(
            f'{kind_of(found)} "{found.name}"', is_confined=found.is_confined
        )


def is_free(
    session: Session,
    plan: CreateMappingPlan | CreateViewPlan | CreateTablePlan | CreateMaterializedViewPlan,
    kind: str,
) -> bool:
    """Whether the statement should continue. ProgrammingError if the name is used by an object that
    it doesn't replace, or if its schema was dropped since the statement was planned."""
    schema = plan.schema
    if schema and schema not in session.catalog.schemas:
        raise InvalidSchemaName(
            f'schema "{schema}" does not exist', hint="another statement has dropped it"
        )
    found = session.catalog.objects.get(plan.name.lower())
    if found is None or (plan.or_replace and kind_of(found) == kind):
        check_own(session, found)
        return True
    if plan.if_not_exists:
        return False
    word = "TABLE" if getattr(plan, "flink_text", None) else kind.upper()
    hint = f"use CREATE OR REPLACE {word}, IF NOT EXISTS, or another name"
    if kind_of(found) != kind:
        hint = f"take another name, or remove it first: {how_to_drop(found)}"
    raise DuplicateTable(f'{kind_of(found)} "{found.name}" exists already', hint=hint)


def _missing(statement: DropObject, known: list[str]) -> ProgrammingError:
    kind = UndefinedTable if statement.kind in ("table", "view", "mapping") else UndefinedObject
    return kind(
        f'{statement.kind} "{statement.name}" not found',
        hint=suggest(statement.name.text, known),
    )


def kind_of(item: CatalogObject) -> str:
    """The kind of an object in words."""
    if isinstance(item, Mapping) and item.definition is not None:
        return "table"
    if isinstance(item, Mapping) and item.connector == VIEW_TYPE:
        return VIEW_KIND
    return {Mapping: "mapping", View: "view", Registration: "registration"}[type(item)]


def is_of_flink(item: CatalogObject | None) -> bool:
    """Whether CREATE TABLE … WITH of Flink made the object."""
    return isinstance(item, Mapping) and item.flink_text is not None


def how_to_drop(item: CatalogObject) -> str:
    """The hint that says how an object is removed."""
    if isinstance(item, Registration):
        return f'use connection.unregister("{item.name}")'
    return f"use DROP {kind_of(item).upper()} {item.name}"
