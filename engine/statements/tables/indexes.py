"""CREATE INDEX and DROP INDEX: of maps, and of the tables of CREATE TABLE.

The index of a map is in the catalog, and the map builds it when it is first used. The index of a
table is one of DuckDB, which enforces UNIQUE. It exists before the catalog names it, and is dropped
before the catalog forgets it. A crash in between leaves an index of DuckDB without a name in the
catalog, which CREATE INDEX replaces, or a name without an index, which DROP INDEX removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.schemas import candidates, local_name
from runnel.catalog import CatalogObject, Index, Mapping, Snapshot
from runnel.connector import IndexedTable
from runnel.connectors.duckdb.own_tables import SCHEMA
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.connectors.duckdb.types import quoted
from runnel.errors import (
    DuplicateObject,
    Error,
    ErrorCode,
    NotSupportedError,
    ProgrammingError,
    UndefinedColumn,
    as_written,
    suggest,
)
from runnel.planner.parse.syntax import CreateIndex, DropIndex
from runnel.session.session import TransactionSession
from runnel.statements.call import StatementCall
from runnel.statements.definitions import NO_COUNT, check_own, kind_of

if TYPE_CHECKING:
    from runnel.session.session import Session


def create_index(session: Session, statement: CreateIndex, call: StatementCall) -> int:
    """Creates an index of a table, or declares one of a map."""
    session.check_directory()
    found = session.catalog.find(statement.table.text)
    if isinstance(found, Mapping) and isinstance(found.table, DuckDBTable) and found.definition:
        with found.table.exclusive(), session.definitions:
            return _create(session, statement)
    with session.definitions:
        return _create(session, statement)


def _create(session: Session, statement: CreateIndex) -> int:
    snapshot = session.catalog
    found = snapshot.find(statement.table.text)
    name = _name(snapshot, statement, found)
    existing = snapshot.indexes.get(name.lower())
    if existing is not None:
        if statement.if_not_exists:
            return NO_COUNT
        raise DuplicateObject(
            f'index "{existing.name}" exists already',
            code=ErrorCode.INDEX_INVALID,
            detail=f'it is on {_kind_at(snapshot, existing)} "{existing.table_name}"',
            hint="use IF NOT EXISTS, drop it first, or take another name",
        )
    found = snapshot.get(statement.table.text, statement.table.position)
    check_own(session, found)
    if isinstance(found, Mapping) and isinstance(found.table, DuckDBTable) and found.definition:
        index = _index_of_table(session, statement, found, found.table, name)
    elif isinstance(found, Mapping) and isinstance(found.table, IndexedTable):
        index = _index_of_map(statement, found, found.table, name)
    else:
        raise ProgrammingError(
            f'{kind_of(found)} "{found.name}" can\'t have an index',
            code=ErrorCode.INDEX_INVALID,
            hint="indexes are for mappings of TYPE IMap, and for the tables of CREATE TABLE",
        )
    session.change_catalog(put_index=index)
    return NO_COUNT


def _name(snapshot: Snapshot, statement: CreateIndex, found: CatalogObject | None) -> str:
    """The name of the index in the catalog: an index of a table is in the table's schema. One
    without a name gets PostgreSQL's, with a number if that is in use."""
    is_table = found is not None and kind_of(found) == "table"
    before = f"{found.schema}." if found is not None and is_table and found.schema else ""
    if statement.name is not None:
        return before + statement.name.text
    if found is not None and not is_table:
        raise ProgrammingError(
            "CREATE INDEX needs a name for the index",
            hint="write CREATE INDEX name ON mapping (column)",
            position=statement.table.position,
        )
    table = statement.table.local if found is None else local_name(found.name, found.schema)
    base = "_".join([before + table, *(c.text for c in statement.columns), "idx"])
    name, number = base, 0
    while name.lower() in snapshot.indexes:
        number += 1
        name = f"{base}{number}"
    return name


def _index_of_map(statement: CreateIndex, found: Mapping, table: IndexedTable, name: str) -> Index:
    if statement.is_unique or statement.method == "ART":
        word = "UNIQUE INDEX" if statement.is_unique else "INDEX … USING ART"
        raise NotSupportedError(
            f"CREATE {word} is not supported for maps",
            hint="the key of a map is unique; use CREATE TABLE for other keys",
            position=statement.position,
        )
    columns = tuple(column.text for column in statement.columns)
    index = Index(name, found.name, columns, statement.kind)
    table.validate_index(index)
    return index


def _index_of_table(
    session: Session, statement: CreateIndex, found: Mapping, table: DuckDBTable, name: str
) -> Index:
    """Creates the index in DuckDB."""
    if statement.method in ("SORTED", "HASH"):
        raise NotSupportedError(
            f"an index of a table can't be {statement.method}",
            hint="leave the word out: it is a radix tree of DuckDB, USING ART, also by BTREE",
            position=statement.position,
        )
    definition = found.definition
    assert definition is not None
    own = session.tables_of(found.schema, is_temporary=definition.is_temporary)
    own.check_writable(f'index "{name}"', "created")
    known = {column.name.lower(): column for column in table.columns if not column.hidden}
    for column in statement.columns:
        if column.text.lower() not in known:
            raise UndefinedColumn(
                f'column "{column}" not found in table "{found.name}"',
                code=ErrorCode.INDEX_INVALID,
                hint=suggest(column.text, [item.name for item in known.values()]),
                position=column.position,
            )
    names = tuple(known[column.text.lower()].name for column in statement.columns)
    index = Index(name, found.name, names, "unique" if statement.is_unique else "art")
    location = table.location
    listed = ", ".join(map(quoted, names))
    unique = "UNIQUE " if statement.is_unique else ""
    schema, physical = _in_duckdb(found, table, index)
    with location.cursor() as cursor:
        try:
            if not own.is_file:  # the rest of a crash
                cursor.execute(f"DROP INDEX IF EXISTS {schema}.{physical}")
            cursor.execute(f"CREATE {unique}INDEX {physical} ON {location.qualified} ({listed})")
        except Exception as error:
            raise _refusal(found, index, location.failure(error), str(error)) from error
    return index


def _refusal(found: Mapping, index: Index, error: Error, text: str) -> Error:
    """The error for an index that DuckDB does not create."""
    if "Invalid type for index" in text:
        return NotSupportedError(
            f'table "{found.name}" can\'t have this index',
            code=ErrorCode.INDEX_INVALID,
            detail=f"the type of a column of {', '.join(index.columns)} has no order in DuckDB",
            hint="index columns of numbers, texts, dates or times",
        )
    if "duplicates" in text:
        error.message = f'UNIQUE INDEX "{index.name}" can\'t be created'
        error.detail = f'rows of table "{found.name}" have the same {", ".join(index.columns)}'
        error.hint = "find them by GROUP BY … HAVING count(*) > 1, and DELETE them"
    return error


def drop_index(session: Session, statement: DropIndex, call: StatementCall) -> int:
    """Removes an index from the catalog, and from DuckDB."""
    session.check_directory()
    with session.definitions:
        snapshot = session.catalog
        lower = statement.name.text.lower()
        names = candidates(snapshot.schemas, snapshot.path, lower)
        index = next((snapshot.indexes[name] for name in names if name in snapshot.indexes), None)
        if index is None:
            if statement.if_exists:
                return NO_COUNT
            raise ProgrammingError(
                f'index "{statement.name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    statement.name.text, [item.name for item in snapshot.indexes.values()]
                ),
                position=statement.name.position,
            )
        found = snapshot.objects.get(index.table_name.lower())
        check_own(session, found)
        if isinstance(found, Mapping) and isinstance(found.table, DuckDBTable):
            assert found.definition is not None
            is_temporary = found.definition.is_temporary
            own = session.tables_of(found.schema, is_temporary=is_temporary)
            own.check_writable(f'index "{index.name}"', "dropped")
            location = found.table.location
            with location.cursor() as cursor:
                try:
                    schema, physical = _in_duckdb(found, found.table, index)
                    cursor.execute(f"DROP INDEX IF EXISTS {schema}.{physical}")
                except Exception as error:
                    raise location.failure(error) from error
        session.change_catalog(drop_indexes=(index,))
    return NO_COUNT


def _in_duckdb(found: Mapping, table: DuckDBTable, index: Index) -> tuple[str, str]:
    """The schema and the name of an index in DuckDB, as SQL."""
    location = table.location
    is_own = location.schema == SCHEMA  # which has the tables of all schemas of the catalog
    name = index.name if is_own else local_name(index.name, found.schema)
    return location.qualified_schema, quoted(name)


def replaced_indexes(session: Session, name: str) -> tuple[Index, ...]:
    """The indexes of a table that is replaced or dropped: DuckDB drops them with its rows.
    NotSupportedError if it has some within a transaction."""
    if isinstance(session, TransactionSession):
        check_unindexed(session.catalog, name)
    return session.catalog.indexes_on(name)


def check_unindexed(snapshot: Snapshot, name: str) -> None:
    """NotSupportedError for a change that copies or renames a table that has indexes."""
    names = [as_written(index.name) for index in snapshot.indexes_on(name)]
    if names:
        raise NotSupportedError(
            f'this change of table "{name}" is not supported: it has indexes',
            detail=f"they are {', '.join(names[:10])}",
            hint=f"DROP INDEX {names[0]} first, and CREATE INDEX after the change",
        )


def _kind_at(snapshot: Snapshot, index: Index) -> str:
    found = snapshot.objects.get(index.table_name.lower())
    return "mapping" if found is None else kind_of(found)
