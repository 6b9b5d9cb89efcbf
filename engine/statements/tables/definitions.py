"""CREATE TABLE, ALTER TABLE and DROP TABLE.

The DuckDB table of a new table exists and is filled before the catalog names it, and the DuckDB
table of a dropped table is dropped after the catalog no longer names it. A crash in between
changes nothing that a user sees (`connectors/duckdb/own_tables.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from runnel.base.schemas import database_of
from runnel.catalog import CatalogObject, Index, NamedText, next_version
from runnel.catalog import Mapping as TableMapping
from runnel.columns.table_definition import TableDefinition
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb.own_tables import OwnTables, TableCheck
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.connectors.duckdb.transactions import TransactionTable
from runnel.errors import (
    DuplicateTable,
    Error,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    UndefinedTable,
    suggest,
)
from runnel.planner.parse.tables import DropTable
from runnel.planner.plans import AlterTablePlan, CreateTablePlan, NothingPlan
from runnel.statements.call import StatementCall
from runnel.statements.definitions import (
    NO_COUNT,
    check_own,
    how_to_drop,
    is_free,
    is_of_flink,
    kind_of,
)
from runnel.statements.tables.indexes import check_unindexed, replaced_indexes
from runnel.statements.tables.job_users import check_unused, suspend_users
from runnel.statements.tables.references import (
    check_alterable,
    check_unreferenced,
    in_drop_order,
    referenced_tables,
    renamed_references,
)
from runnel.statements.writes import run_write

if TYPE_CHECKING:
    from runnel.planner.parse.syntax import Name
    from runnel.session.session import Session


def create_table(session: Session, plan: CreateTablePlan, call: StatementCall) -> int:
    """Creates a table, and fills it with the rows of its query; returns their number."""
    session.check_directory()
    if not plan.definition.identities:
        return _create_table(session, plan, call)
    # Loaded on first use: few tables have an identity.
    from runnel.statements.texts.sequences import sequences_of, with_sequences

    with session.definitions:  # the names of the sequences are free until the catalog has them
        if not is_free(session, plan, "table"):
            return NO_COUNT
        definition, sequences = with_sequences(session, plan.name, plan.definition)
        try:
            return _create_table(session, replace(plan, definition=definition), call, sequences)
        except BaseException:
            for name in sequences_of(definition):
                with suppress(Error):
                    session.own_tables.sequences.drop(name)
            raise


def _create_table(
    session: Session,
    plan: CreateTablePlan,
    call: StatementCall,
    sequences: Mapping[tuple[str, str], NamedText] = MappingProxyType({}),
) -> int:
    with session.definitions:
        if not is_free(session, plan, "table"):
            return NO_COUNT
        own = _tables_of_plan(session, plan)
        check_unused(session, plan.name, "table", is_dropped=False, is_replaced=True)
        own.clean(session.table_locations())
        referenced = referenced_tables(session.catalog, plan.name, plan.definition)
        definition = _created(session, own, plan, referenced)
        table = own.open(definition)
    try:
        count = _fill(session, plan, table, call)
        with session.definitions:
            if not is_free(session, plan, "table"):
                own.drop(table)
                return NO_COUNT
            if _tables_of_plan(session, plan) is not own:
                raise OperationalError(
                    f'schema "{plan.schema}" was dropped by another statement', hint="try again"
                )
            replaced = session.catalog.objects.get(plan.name.lower())
            check_unreferenced(session.catalog, plan.name, "replaced")
            if referenced_tables(session.catalog, plan.name, plan.definition) != referenced:
                raise OperationalError(
                    f'a table to which "{plan.name}" refers was changed by another statement',
                    hint="try again",
                )
            created = TableMapping(
                plan.name,
                table.connector,
                table,
                {},
                definition.external_name,
                is_confined=session.caller.is_confined,
                definition=plan.definition,
                is_temporary=bool(database_of(plan.schema)),
                schema=plan.schema,
            )
            gone = replaced.definition if isinstance(replaced, TableMapping) else None
            indexes = replaced_indexes(session, plan.name)
            _change(session, created, None, gone, sequences, indexes)
    except BaseException:
        with suppress(Error):
            own.drop(table)
        raise
    _settle(session, created, definition, replaced)
    _drop_sequences(session, gone)
    return count


def _created(
    session: Session, own: OwnTables, plan: CreateTablePlan, referenced: Mapping[str, str]
) -> MappingDefinition:
    """Creates the DuckDB table of a new table."""
    check_unreferenced(session.catalog, plan.name, "replaced")
    replaced = session.catalog.objects.get(plan.name.lower())
    if plan.definition.foreign_keys and own.is_file and replaced is not None:
        raise NotSupportedError(
            f'table "{plan.name}", which has a foreign key, can\'t replace another one in a file',
            detail="DuckDB would have to rename it, which damages the key",
            hint=f"DROP TABLE {plan.name}, then CREATE TABLE",
        )
    return own.create(plan.name, plan.columns, plan.definition, _checks(plan), referenced)


def _change(
    session: Session,
    put: TableMapping | tuple[TableMapping, ...],
    drop: TableMapping | None,
    gone: TableDefinition | None,
    added: Mapping[tuple[str, str], NamedText] = MappingProxyType({}),
    indexes: tuple[Index, ...] = (),
) -> None:
    """Changes the catalog: a table, and the sequences of SERIAL and IDENTITY, without the ones of
    the definition `gone`, and without `indexes`."""
    if indexes:
        session.change_catalog(put=put, drop_indexes=indexes)
    if not added and (gone is None or not gone.identities):
        session.change_catalog(put=put, drop=drop)
        return
    from runnel.statements.texts.sequences import without_sequences

    definitions = {**without_sequences(session.catalog.definitions, gone), **added}
    session.change_catalog(put=put, drop=drop, definitions=definitions)


def _drop_sequences(session: Session, gone: TableDefinition | None) -> None:
    """Drops the sequences that the catalog no longer names."""
    for item in {} if gone is None else gone.identities.values():
        with suppress(Error):  # the sequence of the next table of that name replaces it
            session.own_tables.sequences.drop(item.sequence)


def alter_table(session: Session, plan: AlterTablePlan, call: StatementCall) -> int:
    """Changes a table: its entry in the catalog or, if its rows change, the table as a whole. For
    INSERT OVERWRITE, returns the number of rows."""
    count = NO_COUNT
    session.check_directory()
    if plan.is_cascading:
        suspend_users(session, plan.name)
    found = _unchanged(session, plan)
    if any(not item.sequence for item in plan.definition.identities.values()):
        plan, added = _numbered(session, plan)
    else:
        added = {}
    with found.table.exclusive():  # type: ignore[attr-defined]
        _check_alterable(session, plan, found)
        own, table = _tables_of(session, found), None
        own.check_writable(f'table "{plan.name}"', "changed")
        definition = MappingDefinition(
            plan.new_name,
            tuple(ColumnDefinition(c.name, c.type) for c in found.table.columns if not c.hidden),
            {},
            found.external_name,
            table=plan.definition,
            schema=found.schema,
        )
        if plan.created is not None:
            definition = _copy_of(session, own, plan.created, found)
            table = own.open(definition)
        try:
            if plan.created is not None and table is not None:
                written = _fill(session, plan.created, table, call)
                count = written if plan.counts_rows else NO_COUNT
            with session.definitions:
                _check_alterable(session, plan, found)
                altered = replace(
                    found,
                    name=plan.new_name,
                    table=table or own.open(definition),
                    external_name=definition.external_name,
                    definition=plan.definition,
                    version=next_version(),
                )
                is_renamed = plan.new_name.lower() != plan.name.lower()
                gone = _lost_identities(found.definition, plan.definition)
                put = renamed_references(session.catalog, altered, found.name)
                _change(session, put, found if is_renamed else None, gone, added)
        except BaseException:
            for item in added.values():
                with suppress(Error):
                    session.own_tables.sequences.drop(item.name)
            if table is not None:
                with suppress(Error):
                    own.drop(table)
            raise
        _settle(session, altered, definition, found if table is not None else None)
        _drop_sequences(session, gone)
    return count


def _copy_of(
    session: Session, own: OwnTables, plan: CreateTablePlan, found: TableMapping
) -> MappingDefinition:
    """Creates the empty DuckDB table to which the rows of a table are copied."""
    rows = _rows_of(found)
    assert rows is not None
    own.check_copyable(rows)
    with session.definitions:
        referenced = referenced_tables(session.catalog, found.name, plan.definition)
        return own.create(plan.name, plan.columns, plan.definition, _checks(plan), referenced)


def _numbered(
    session: Session, plan: AlterTablePlan
) -> tuple[AlterTablePlan, dict[tuple[str, str], NamedText]]:
    """The plan with a sequence for each new identity; and these sequences."""
    from runnel.statements.texts.sequences import with_sequences

    with session.definitions:
        definition, added = with_sequences(session, plan.name, plan.definition)
    created = plan.created and replace(plan.created, definition=definition)
    return replace(plan, definition=definition, created=created), added


def _lost_identities(old: TableDefinition | None, new: TableDefinition) -> TableDefinition | None:
    """The old definition with the identities alone that the new one lacks."""
    if old is None or not old.identities:
        return None
    kept = {item.sequence for item in new.identities.values()}
    lost = {name: item for name, item in old.identities.items() if item.sequence not in kept}
    return replace(old, identities=lost)


def _unchanged(session: Session, plan: AlterTablePlan) -> TableMapping:
    """The table; OperationalError if it was replaced since the statement was planned."""
    found = session.catalog.objects.get(plan.name.lower())
    versions = {item.version for item in plan.dependencies if item.kind == "object"}
    if not isinstance(found, TableMapping) or found.version not in versions:
        raise OperationalError(
            f'table "{plan.name}" was changed by another statement', hint="try again"
        )
    return found


def _check_alterable(session: Session, plan: AlterTablePlan, found: TableMapping) -> None:
    with session.definitions:
        _unchanged(session, plan)
        check_own(session, found)
        assert found.definition is not None
        _tables_of(session, found).check_sequences(plan.definition, found.definition)
        check_alterable(session.catalog, plan, _tables_of(session, found))
        is_renamed = plan.new_name.lower() != plan.name.lower()
        if is_renamed or plan.created is not None:
            check_unindexed(session.catalog, plan.name)
        is_dropped = is_renamed and not plan.is_cascading
        check_unused(session, found.name, "table", is_dropped=is_dropped)
        if plan.new_name.lower() != plan.name.lower():
            other = session.catalog.objects.get(plan.new_name.lower())
            if other is not None:
                raise DuplicateTable(
                    f'{kind_of(other)} "{other.name}" exists already',
                    hint="take another name",
                )


def do_nothing(session: Session, plan: NothingPlan, call: StatementCall) -> int:
    """Carries out a statement without an effect."""
    return NO_COUNT


def _tables_of_plan(session: Session, plan: CreateTablePlan) -> OwnTables:
    return session.tables_of(plan.schema, is_temporary=plan.definition.is_temporary)


def _tables_of(session: Session, item: TableMapping) -> OwnTables:
    definition = item.definition
    is_temporary = definition is not None and definition.is_temporary
    return session.tables_of(item.schema, is_temporary=is_temporary)


def _checks(plan: CreateTablePlan) -> list[TableCheck]:
    return [
        TableCheck(text, condition)
        for text, condition in zip(plan.definition.checks, plan.checks, strict=True)
    ]


def _fill(session: Session, plan: CreateTablePlan, table: DuckDBTable, call: StatementCall) -> int:
    if plan.write is None:
        return NO_COUNT
    return run_write(
        session, replace(plan.write(session.as_written(table)), parameters=plan.parameters), call
    )


def drop_table(session: Session, statement: DropTable, call: StatementCall) -> int:
    """Removes tables with their rows: all of them or, after an error, none. The data of a table of
    Flink, which is a mapping, stays as it is."""
    if statement.is_cascading:
        for name in statement.names:
            target = session.catalog.find(name.text)
            suspend_users(session, name.text if target is None else target.name)
    with session.definitions:
        found = [_table(session, name, statement.if_exists) for name in statement.names]
        tables = [item for item in found if item is not None]
        for item in tables:
            if not statement.is_cascading:
                check_unused(session, item.name, kind_of(item), is_dropped=True)
            check_unreferenced(session.catalog, item.name, "dropped", tables)
        drop_objects(session, tables)
    return NO_COUNT


def drop_objects(session: Session, items: Sequence[CatalogObject]) -> None:
    """Removes tables with their rows, and views. Called under the lock of the catalog."""
    for item in items:
        replaced_indexes(session, item.name)
    items = in_drop_order(items)
    for item in items:
        if isinstance(item, TableMapping):
            if (rows := _rows_of(item)) and _tables_of(session, item).is_file:
                _tables_of(session, item).drop(rows)  # it may refuse
            _change(session, (), item, item.definition)
        else:
            session.change_catalog(drop=item)
    for item in items:
        if isinstance(item, TableMapping) and item.definition is not None:
            _drop_rows(session, item)
            _drop_sequences(session, item.definition)


def _table(session: Session, name: Name, if_exists: bool) -> TableMapping | None:
    """The table of that name; None if it may be missing."""
    found = session.catalog.find(name.text)
    if found is None:
        if if_exists:
            return None
        names = [item.name for item in session.catalog if kind_of(item) == "table"]
        raise UndefinedTable(
            f'table "{name.text}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name.text, names),
            position=name.position,
        )
    if not isinstance(found, TableMapping) or (found.definition is None and not is_of_flink(found)):
        raise ProgrammingError(
            f'"{found.name}" is a {kind_of(found)}, not a table',
            hint=how_to_drop(found)
            + (", which leaves its data as it is" if kind_of(found) == "mapping" else ""),
            position=name.position,
        )
    check_own(session, found)
    if _rows_of(found) is not None:
        _tables_of(session, found).check_writable(f'table "{found.name}"', "changed")
    return found


def _settle(
    session: Session,
    item: TableMapping,
    definition: MappingDefinition,
    replaced: CatalogObject | None,
) -> None:
    """Drops the rows of a table that another one has replaced, which in a DuckDB file then gets its
    own name."""
    own = _tables_of(session, item)
    old = _rows_of(replaced)
    if not own.is_file:
        _drop_rows(session, replaced)
        return
    settled = own.settled(definition, old)
    if settled.external_name != item.external_name:
        with session.definitions:
            session.change_catalog(
                put=replace(
                    item,
                    table=own.open(settled),
                    external_name=settled.external_name,
                    version=next_version(),
                )
            )


def _drop_rows(session: Session, item: CatalogObject | None) -> None:
    """Drops the rows of a table that the catalog no longer names."""
    rows = _rows_of(item)
    if isinstance(item, TableMapping) and rows is not None:
        with suppress(Error):  # the next opening of the directory drops them
            _tables_of(session, item).drop(rows)


def _rows_of(item: CatalogObject | None) -> DuckDBTable | None:
    """The DuckDB table of a table of CREATE TABLE, also within a transaction."""
    table = item.table if isinstance(item, TableMapping) else None
    if isinstance(table, TransactionTable):
        return table.base
    return table if isinstance(table, DuckDBTable) else None
