"""The content of a database as statements that create it again, in an order that runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from runnel.base.frozen import frozen
from runnel.base.schemas import (
    MAIN,
    OWN_CATALOGS,
    SCHEMA_KIND,
    catalog_and_schema,
    database_of,
    local_name,
)
from runnel.catalog import Index, Mapping, NamedText, Registration, Snapshot, View
from runnel.columns.table_definition import TableDefinition, drawn_sequences
from runnel.errors import Error, ErrorCode, NotSupportedError, ProgrammingError, suggest
from runnel.planner.bind.system_views.duckdb import index_text
from runnel.planner.explain.ddl import mapping_ddl, quoted, view_ddl
from runnel.planner.parse.macros import SCALAR, TABLE
from runnel.planner.parse.session.sequences import SEQUENCE
from runnel.planner.parse.syntax import Name
from runnel.planner.parse.tokens import tokenize
from runnel.session.session import Session, statement_check
from runnel.statements.definitions import kind_of

if TYPE_CHECKING:
    from runnel.catalog import CatalogObject


Moved = TypeVar("Moved", Mapping, View)


@frozen
class CreatingStatement:
    """A statement that creates an object.

    text: the statement.
    path: the schemas in which it looks up names without a schema; (): public.
    """

    text: str
    path: tuple[str, ...] = ()


@frozen
class StoredTable:
    """A table and its rows.

    source: its name with catalog and schema, quoted.
    target: the table under its new name.
    ddl: the statement that creates `target`.
    columns: the columns that are written; an expression computes all remaining ones.
    computes: whether an expression computes some columns.
    """

    source: str
    target: Mapping
    ddl: str
    columns: tuple[str, ...]
    computes: bool


@frozen
class DatabaseContent:
    """The tables, views, macros, sequences and indexes of a database.

    schemas: CREATE SCHEMA for the schemas besides the first one.
    tables: in an order in which they can be created and filled.
    definitions: the statements that create tables, views, macros and sequences, in order.
    others: kinds and names of the objects among `definitions` that are no tables.
    indexes: the statements that create indexes.
    left_out: kinds and names of objects that have no statement here.
    """

    schemas: tuple[str, ...]
    tables: tuple[StoredTable, ...]
    definitions: tuple[CreatingStatement, ...]
    others: tuple[str, ...]
    indexes: tuple[str, ...]
    left_out: tuple[str, ...]


def database_named(session: Session, name: Name | None) -> str:
    """The name of a database in keys of schemas, "" for the own one; of no name: the current one.
    ProgrammingError if it does not exist."""
    snapshot = session.catalog
    if name is None:
        return database_of(snapshot.path[0]).lower() if snapshot.path else ""
    lower = name.text.lower()
    if lower in OWN_CATALOGS or snapshot.names_own(lower):
        return ""
    names = [item.name for item in snapshot.databases]
    if lower not in [item.lower() for item in names]:
        raise ProgrammingError(
            f'database "{name}" is not attached',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name.text, names, "SHOW DATABASES lists the attached databases"),
            position=name.position,
        )
    return lower


def content_of(session: Session, source: str, target: str = "") -> DatabaseContent:
    """The content of the database `source` as statements that create it in the database `target`.
    Both are names as `database_named` returns them."""
    return _Content(session, source, target).read()


class _Content:
    """Reads the catalog once.

    _items: the objects of the database, by lower-case name.
    _macros: the macros, by lower-case name and "()".
    _found: the definitions so far, by the same names.
    """

    def __init__(self, session: Session, source: str, target: str) -> None:
        self._session, self._source, self._target = session, source, target
        self._catalog = session.catalog
        self._items = {
            item.name.lower(): item
            for item in sorted(self._catalog, key=lambda item: item.name.lower())
            if database_of(_key(item)).lower() == source and not _is_temporary(item)
        }
        self._macros = {
            f"{name}()": text
            for (kind, name), text in sorted(self._catalog.definitions.items())
            if not source and kind in (SCALAR, TABLE) and not text.is_temporary
        }
        self._left_out = [
            f'{kind_of(item)} "{item.name}"'
            for item in self._items.values()
            if not (isinstance(item, View) or _is_table(item))
        ]
        self._found: dict[str, CreatingStatement] = {}
        self._tables: dict[str, StoredTable] = {}

    def read(self) -> DatabaseContent:
        for sequence in self._sequences():
            self._found[f"{SEQUENCE} {sequence.name}"] = CreatingStatement(self._sequence(sequence))
        for name, item in self._items.items():
            if _is_table(item):
                self._add(name, ())
        for name in (*self._macros, *self._items):
            self._add(name, ())
        return DatabaseContent(
            tuple(self._schemas()),
            tuple(self._tables.values()),
            tuple(self._found.values()),
            tuple(self._others()),
            tuple(self._indexes()),
            tuple(self._left_out),
        )

    def _others(self) -> Iterator[str]:
        """The objects without rows by their kinds."""
        for item in (*self._sequences(), *self._macros.values()):
            yield f'{item.kind} "{item.name}"'
        for name in self._found:
            if isinstance(view := self._items.get(name), View):
                yield f'view "{view.name}"'

    def _schemas(self) -> Iterator[str]:
        first = f"{self._target}.{MAIN}" if self._target else ""
        for kind, key in sorted(self._catalog.definitions):
            if kind == SCHEMA_KIND and database_of(key) == self._source:
                moved = self._moved_key(key)
                if moved != first:
                    names = ".".join(map(quoted, moved.split(".")))
                    yield f"CREATE SCHEMA IF NOT EXISTS {names}"

    def _sequences(self) -> list[NamedText]:
        """The sequences that are none of a table."""
        owned = {
            identity.sequence
            for item in self._items.values()
            if isinstance(item, Mapping) and item.definition is not None
            for identity in item.definition.identities.values()
        }
        return [
            text
            for (kind, name), text in sorted(self._catalog.definitions.items())
            if kind == SEQUENCE
            and not self._source
            and not text.is_temporary
            and name not in {item.lower() for item in owned}
        ]

    def _sequence(self, sequence: NamedText) -> str:
        """CREATE SEQUENCE that continues with the next number."""
        known = self._session.own_tables.sequences
        start, step = known.upcoming(sequence.name), known.increment(sequence.name)
        numbers = sequence.text.strip() if start is None else f"START {start} INCREMENT {step}"
        return f"CREATE SEQUENCE {quoted(sequence.name)} {numbers}"

    def _add(self, name: str, waiting: tuple[str, ...]) -> None:
        """Adds an object after the ones that it names; `waiting`: the objects that wait for it."""
        if name in self._found or name in waiting:
            return
        item = self._macros.get(name) or self._items.get(name)
        table: StoredTable | None = None
        if isinstance(item, NamedText):
            kind = item.kind.removeprefix("table ").upper()
            found = CreatingStatement(f"CREATE {kind} {quoted(item.name)} {item.text}")
            names = {each for word in _words(item.text) for each in (word, f"{word}()")}
        elif isinstance(item, View):
            found, names = (
                CreatingStatement(view_ddl(self._moved(item)), item.path),
                self._read_by(item),
            )
            if names - self._macros.keys() - self._created:
                self._left_out.append(f'view "{item.name}"')
                return
        elif isinstance(item, Mapping) and item.definition is not None:
            table = self._table(item, item.definition)
            found, names = CreatingStatement(table.ddl), _named_by(item.definition)
        else:
            return
        for other in (*self._macros, *self._items):
            if other in names:
                self._add(other, (*waiting, name))
        if table is not None:
            self._tables.setdefault(name, table)
        self._found.setdefault(name, found)

    @property
    def _created(self) -> set[str]:
        """The names of the tables and the views."""
        return {
            name for name, item in self._items.items() if isinstance(item, View) or _is_table(item)
        }

    def _read_by(self, view: View) -> set[str]:
        """The tables, views and macros that a view names, itself or by others; () of a view that
        can't be planned."""
        sql = f"SELECT * FROM {absolute_name(view)}"
        try:
            plan = self._session.prepare(sql, (), statement_check())
        except Error:
            return set()
        found = {item.name.lower() for item in plan.dependencies if item.kind == "object"}
        macros = {f"{item.name}()".lower() for item in plan.dependencies if "macro" in item.kind}
        return (found | macros) - {view.name.lower()}

    def _table(self, item: Mapping, definition: TableDefinition) -> StoredTable:
        drawn = {n for text in definition.defaults.values() for n in drawn_sequences(text)}
        if drawn & definition.file_sequences:
            raise NotSupportedError(
                f'a DEFAULT of table "{item.name}" draws numbers from the sequence '
                f'"{min(drawn & definition.file_sequences)}" of its file',
                hint="connect to the file itself, and export that database; or DROP DEFAULT",
            )
        moved = replace(self._moved(item), definition=self._moved_definition(definition))
        columns = tuple(
            column.name
            for column in item.table.columns
            if not column.hidden and column.name.lower() not in definition.computed
        )
        computes = bool(definition.computed)
        return StoredTable(absolute_name(item), moved, mapping_ddl(moved), columns, computes)

    def _moved(self, item: Moved) -> Moved:
        """A table or a view under its new name."""
        return replace(item, name=self._moved_name(item), schema=self._moved_key(item.schema))

    def _moved_definition(self, definition: TableDefinition) -> TableDefinition:
        """The definition of a table with foreign keys that refer to new names, and identities that
        continue with the next numbers."""
        foreign = tuple(
            replace(each, table=self._moved_name(self._items[each.table.lower()]))
            for each in definition.foreign_keys
        )
        identities = dict(definition.identities)
        for name, each in definition.identities.items():
            start = self._session.own_tables.sequences.upcoming(each.sequence)
            identities[name] = each if start is None else replace(each, start=start)
        return replace(definition, foreign_keys=foreign, identities=identities)

    def _moved_name(self, item: CatalogObject) -> str:
        key, local = self._moved_key(_key(item)), local_name(item.name, _key(item))
        return f"{key}.{local}" if key else local

    def _moved_key(self, key: str) -> str:
        schema = key[len(self._source) + 1 :] if self._source else key or MAIN
        if self._target:
            return f"{self._target}.{schema}"
        return "" if schema == MAIN else schema

    def _indexes(self) -> Iterator[str]:
        """The indexes of tables; the ones of maps belong to mappings."""
        objects = {table.target.name.lower(): table.target for table in self._tables.values()}
        moved = Snapshot(objects, {}, 0)
        for index in sorted(self._catalog.indexes.values(), key=lambda index: index.name.lower()):
            table = self._tables.get(index.table_name.lower())
            if table is not None:
                yield index_text(moved, self._moved_index(index, table))

    def _moved_index(self, index: Index, table: StoredTable) -> Index:
        old, new = _key(self._items[index.table_name.lower()]), table.target.schema
        local = local_name(index.name, old)
        name = f"{new}.{local}" if new else local
        return replace(index, name=name, table_name=table.target.name)


def absolute_name(item: CatalogObject) -> str:
    """The name of an object with its catalog and its schema, quoted: it does not depend on the
    search path."""
    catalog, schema = catalog_and_schema(_key(item))
    return ".".join(map(quoted, (catalog, schema, local_name(item.name, _key(item)))))


def _key(item: CatalogObject) -> str:
    return "" if isinstance(item, Registration) else item.schema


def _is_table(item: CatalogObject | None) -> bool:
    return isinstance(item, Mapping) and item.definition is not None


def _is_temporary(item: CatalogObject) -> bool:
    if isinstance(item, View):
        return item.temporary
    if isinstance(item, Registration) or item.definition is None:
        return False
    return item.definition.is_temporary


def _named_by(definition: TableDefinition) -> set[str]:
    """The tables to which a table refers, and the words that may be macros of its expressions."""
    texts = (*definition.checks, *definition.computed.values(), *definition.defaults.values())
    macros = {f"{word}()" for text in texts for word in _words(text)}
    return macros | {item.table.lower() for item in definition.foreign_keys}


def _words(text: str) -> set[str]:
    return {token.text.lower() for token in tokenize(text)}
