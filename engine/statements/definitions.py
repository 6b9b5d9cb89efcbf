"""Plans that change the catalog: CREATE and DROP of mappings, views and indexes.

All run under the lock of the catalog. If the database is durable, the change is on disk before they
return. Data is never changed: a map remains when its mappings are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.catalog import CatalogObject, Index, Mapping, Registration, View
from runnel.connector import IndexedTable, MappingDefinition
from runnel.errors import ErrorCode, ProgrammingError, suggest
from runnel.planner.parse.syntax import CreateIndex, DropIndex, DropObject
from runnel.planner.plans import CreateMappingPlan, CreateViewPlan
from runnel.session.table_options import open_table
from runnel.statements.call import StatementCall
from runnel.statements.data_connections import connector_and_definition

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def create_mapping(session: Session, plan: CreateMappingPlan, call: StatementCall) -> int:
    """Opens the table through its connector, and names it."""
    with session.definitions:
        if not _is_free(session, plan, "mapping"):
            return NO_COUNT
        definition = MappingDefinition(
            plan.name,
            plan.columns,
            plan.options,
            plan.external_name,
            plan.object_type,
            plan.watermark,
            session.caller.access,
        )
        connector, whole = connector_and_definition(
            session.connectors,
            session.catalog,
            plan.connector,
            plan.data_connection,
            definition,
        )
        mapping = Mapping(
            plan.name,
            connector.name,
            open_table(connector, whole),
            plan.options,
            plan.external_name,
            object_type=plan.object_type,
            data_connection=plan.data_connection,
            watermark=plan.watermark,
            is_confined=session.caller.is_confined,
        )
        session.change_catalog(put=mapping, drop_indexes=_unfit_indexes(session, mapping))
    return NO_COUNT


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
        if not _is_free(session, plan, "view"):
            return NO_COUNT
        view = View(
            plan.name,
            plan.sql,
            plan.columns,
            plan.temporary,
            is_confined=session.caller.is_confined,
        )
        session.change_catalog(put=view)
    return NO_COUNT


def create_index(session: Session, statement: CreateIndex, call: StatementCall) -> int:
    """Declares an index; the map builds it when it is first used."""
    with session.definitions:
        snapshot = session.catalog
        existing = snapshot.indexes.get(statement.name.text.lower())
        if existing is not None:
            if statement.if_not_exists:
                return NO_COUNT
            raise ProgrammingError(
                f'index "{existing.name}" exists already',
                code=ErrorCode.INDEX_INVALID,
                detail=f'it is on mapping "{existing.table_name}"',
                hint="use IF NOT EXISTS, drop it first, or take another name",
            )
        found = snapshot.get(statement.table.text)
        if not isinstance(found, Mapping) or not isinstance(found.table, IndexedTable):
            raise ProgrammingError(
                f'{_kind(found)} "{found.name}" can\'t have an index',
                code=ErrorCode.INDEX_INVALID,
                hint="indexes are for mappings of TYPE IMap",
            )
        session.caller.require_own(f'mapping "{found.name}"', is_confined=found.is_confined)
        columns = tuple(column.text for column in statement.columns)
        index = Index(statement.name.text, found.name, columns, statement.kind)
        found.table.validate_index(index)
        session.change_catalog(put_index=index)
    return NO_COUNT


def drop(session: Session, statement: DropObject, call: StatementCall) -> int:
    """Removes a mapping, with its indexes, or a view from the catalog."""
    with session.definitions:
        found = session.catalog.find(statement.name.text)
        if found is None:
            if statement.if_exists:
                return NO_COUNT
            known = [item.name for item in session.catalog if _kind(item) == statement.kind]
            raise _missing(statement, known)
        if _kind(found) != statement.kind:
            raise ProgrammingError(
                f'"{found.name}" is a {_kind(found)}, not a {statement.kind}',
                hint=_how_to_drop(found),
            )
        _check_own(session, found)
        session.change_catalog(drop=found)
    return NO_COUNT


def drop_index(session: Session, statement: DropIndex, call: StatementCall) -> int:
    """Removes an index from the catalog."""
    with session.definitions:
        snapshot = session.catalog
        index = snapshot.indexes.get(statement.name.text.lower())
        if index is not None:
            _check_own(session, snapshot.find(index.table_name))
            session.change_catalog(drop_indexes=(index,))
        elif not statement.if_exists:
            raise _missing(statement, [item.name for item in snapshot.indexes.values()])
    return NO_COUNT


def _check_own(session: Session, found: CatalogObject | None) -> None:
    if found is not None:
        session.caller.require_own(f'{_kind(found)} "{found.name}"', is_confined=found.is_confined)


def _is_free(session: Session, plan: CreateMappingPlan | CreateViewPlan, kind: str) -> bool:
    """Whether the statement should continue. ProgrammingError if the name is used by an object that
    it doesn't replace."""
    found = session.catalog.find(plan.name)
    if found is None or (plan.or_replace and _kind(found) == kind):
        _check_own(session, found)
        return True
    if plan.if_not_exists:
        return False
    hint = f"use CREATE OR REPLACE {kind.upper()}, IF NOT EXISTS, or another name"
    if _kind(found) != kind:
        hint = f"take another name, or remove it first: {_how_to_drop(found)}"
    raise ProgrammingError(f'{_kind(found)} "{found.name}" exists already', hint=hint)


def _missing(statement: DropObject, known: list[str]) -> ProgrammingError:
    return ProgrammingError(
        f'{statement.kind} "{statement.name}" not found',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(statement.name.text, known),
    )


def _kind(item: CatalogObject) -> str:
    return {Mapping: "mapping", View: "view", Registration: "registration"}[type(item)]


def _how_to_drop(item: CatalogObject) -> str:
    if isinstance(item, Registration):
        return f'use connection.unregister("{item.name}")'
    return f"use DROP {_kind(item).upper()} {item.name}"
