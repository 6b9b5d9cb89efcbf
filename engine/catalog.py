"""The catalog: mappings, views and registrations in one namespace; indexes, data connections,
functions and definitions (macros, sequences, schemas) in others.

The content is an immutable snapshot that each change replaces, so readers need no lock. Every
object has its own version: a plan stores the versions of the objects it used, and is valid while
they are current. Names match case-insensitively and keep their spelling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from dataclasses import field, replace
from itertools import count
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.base.schemas import (
    CATALOG_KIND,
    DATABASE_KIND,
    MAIN,
    SCHEMA_KIND,
    candidates,
    full_name,
    new_key,
    remedy,
    schema_key,
)
from runnel.errors import ErrorCode, Position, ProgrammingError, UndefinedTable, as_written, suggest
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.columns.table_definition import TableDefinition
    from runnel.expressions.python.function import PythonFunction


@frozen
class TableColumn:
    """A column of a table.

    name: name in SQL.
    type: SQL type.
    external_name: its name in the external data, if it differs.
    hidden: it can be named but is not part of `*`.
    """

    name: str
    type: SqlType
    external_name: str | None = None
    hidden: bool = False


@frozen
class ComputedColumn:
    """A column of a mapping that is computed from other columns when rows are read.

    name: name of the column in SQL.
    type: SQL type.
    text: the expression in SQL.
    index: its position among the columns of the statement, from 0.
    """

    name: str
    type: SqlType
    text: str
    index: int


@frozen
class EventTime:
    """WATERMARK FOR of a mapping, resolved.

    column: index of the column that holds the event time; computed columns follow the columns of
        the table.
    lag: how far an event time may be below the largest one read so far, in units of event time
        (microseconds for a temporal column, otherwise the column's own unit).
    idle_timeout: milliseconds without a row after which a partition no longer holds back the
        watermark of the other partitions; None: 1,000; 0: never.
    """

    column: int
    lag: int
    idle_timeout: int | None = None


@frozen
class WatermarkClause:
    """WATERMARK FOR column AS column - lag, as a mapping declares it.

    column: name of the column.
    lag: in microseconds if `is_interval`, otherwise in the column's own unit.
    is_interval: whether the lag is an INTERVAL.
    position: of the clause in the statement.
    """

    column: str
    lag: int
    is_interval: bool
    position: Position | None = field(default=None, compare=False, repr=False)


class TableEngine(ABC):
    """An engine that has tables of its own; `fragment.FragmentEngine` is its contract."""

    name: str


class Table(ABC):
    """An object with columns that a query can name. The connector contract defines how it is read
    and written.

    A table is identified by `id`: only plans whose tables are in the catalog are cached, and only
    scans of one object are merged. A table that wraps another one therefore returns the same object
    while that one is in use, and is not cached.
    """

    name: str
    connector: str
    columns: tuple[TableColumn, ...]

    engine: TableEngine | None = None
    """The engine that can run fragments over the table because it holds the rows; None: none."""

    found_options: MappingType[str, str] = MappingProxyType({})
    """Options that the connector found in the data when the mapping was created, and that the
    statement leaves out. They are stored with the mapping."""

    computed: tuple[ComputedColumn, ...] = ()
    """The columns that the binder computes from `columns`."""

    event_time: EventTime | None = None
    """The event time, if the rows have one whose watermark the source generates."""

    refresh_millis: int | None = None
    """Interval in milliseconds at which a join with a stream reads the table again; None: never."""

    @property
    def is_unbounded(self) -> bool:
        """Whether a scan has no end that is known beforehand."""
        return False

    @property
    def can_end(self) -> bool:
        """Whether a scan can end; of a stream, if its writer can close it (a pushed stream)."""
        return not self.is_unbounded

    @property
    def as_stream(self) -> Table | None:
        """The table as a stream that ends, if its rows come at a rate and have a watermark, which
        queries read that can read a stream. None: all queries read this table."""
        return None

    @property
    def key_columns(self) -> tuple[int, ...]:
        """The indexes of the columns that identify a row; empty if there is no key."""
        return ()

    def column_note(self, index: int) -> str | None:
        """How the values of a column are read from the external data, for DESCRIBE; None: as the
        connector reads them by default."""
        return None

    @abstractmethod
    def row_count(self) -> int | None:
        """Approximate current number of rows; None if it cannot be found cheaply. Operators,
        engines and parallelism are chosen by it; no result depends on it."""

    def withdraw(self) -> None:
        """Called when a registration of this table is removed or replaced: running scans continue,
        and no scan follows."""

    def close(self) -> None:
        """Called for a registered table when its connection closes; no scan follows."""


def readable_columns(table: Table) -> tuple[TableColumn, ...]:
    """All columns that a query can name: the table's, then the computed ones."""
    return (*table.columns, *(TableColumn(item.name, item.type) for item in table.computed))


def visible_columns(table: Table) -> list[TableColumn]:
    """The columns of `SELECT *`, in the order of the statement that created the mapping."""
    found = [column for column in table.columns if not column.hidden]
    for item in table.computed:
        found.insert(item.index, TableColumn(item.name, item.type))
    return found


_versions = count(1)


def next_version() -> int:
    """A new version of an object."""
    return next(_versions)


@frozen
class Mapping:
    """CREATE MAPPING: a name for external data; or CREATE TABLE: a table with its rows.

    name: name in SQL.
    connector: name of the connector.
    table: the opened table.
    options: the mapping's own options, without the options of its data connection.
    external_name: name of the data in the external system.
    version: changes when the mapping is replaced.
    object_type: kind of the external object.
    data_connection: name of its data connection.
    watermark: its WATERMARK FOR clause.
    is_confined: it was created by a caller with bounds, which apply to every user of it.
    definition: the constraints of a table of CREATE TABLE, whose rows are dropped with it; None:
        CREATE MAPPING.
    flink_text: the CREATE TABLE … WITH ('connector' = …) that made it, for LIKE and DROP TABLE.
    is_temporary: it is not stored with the connection.
    not_null: the columns, in lower case, to which no NULL is written.
    schema: the key of its schema (`schemas`), which its name begins with; "": public.
    """

    name: str
    connector: str
    table: Table
    options: MappingType[str, str]
    external_name: str | None
    version: int = field(default_factory=lambda: next(_versions))
    object_type: str | None = None
    data_connection: str | None = None
    watermark: WatermarkClause | None = None
    is_confined: bool = False
    definition: TableDefinition | None = None
    flink_text: str | None = None
    is_temporary: bool = False
    not_null: frozenset[str] = frozenset()
    schema: str = ""


@frozen
class View:
    """CREATE VIEW: a name for a query. A view may outlive the objects it names: it is bound again
    whenever a query uses it.

    name: name in SQL.
    sql: the query's text.
    columns: new names for the query's columns, or ().
    temporary: it is not stored with the connection.
    version: changes when the view is replaced.
    is_confined: the files that it names are opened within its creator's bounds, for every user.
    has_numbered_columns: columns without a name are called EXPR$0, EXPR$1, …, as when it was
        created; otherwise by the texts of their expressions.
    comments: the texts of COMMENT ON by column, in lower case; "": the one of the view.
    schema: the key of its schema, which its name begins with; "": public.
    path: the search path of its creator, by which the names in its query are looked up.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    temporary: bool = False
    version: int = field(default_factory=lambda: next(_versions))
    is_confined: bool = False
    has_numbered_columns: bool = False
    comments: MappingType[str, str] = field(default_factory=dict)
    schema: str = ""
    path: tuple[str, ...] = ()


@frozen
class Registration:
    """A Python object that `Connection.register` (or `register_stream`) gave a name.

    name: name in SQL.
    table: the object as a table.
    version: changes when the registration is replaced.
    is_confined: it was registered by a caller with bounds.
    """

    name: str
    table: Table
    version: int = field(default_factory=lambda: next(_versions))
    is_confined: bool = False

    @property
    def schema(self) -> str:
        """The key of the schema public, which has all registrations."""
        return ""


@frozen
class Index:
    """CREATE INDEX on the map that a mapping names, or on a table of CREATE TABLE.

    name: name of the index, with the schema of a table.
    table_name: name of the mapping or table.
    columns: names of its columns; in a DuckDB file also expressions.
    kind: "hash" or "sorted" of a map; "art" (DuckDB's radix tree) or "unique" of a table.
    version: changes when the index is replaced.
    """

    name: str
    table_name: str
    columns: tuple[str, ...]
    kind: str
    version: int = field(default_factory=lambda: next(_versions))


@frozen
class DataConnection:
    """CREATE DATA CONNECTION: a name for the options by which mappings of one connector reach their
    database. Only a caller without bounds creates one; all callers may use it.

    name: name in SQL.
    connector: name of the connector.
    options: options with their spelling unchanged.
    is_shared: whether the mappings share one open connection.
    """

    name: str
    connector: str
    options: MappingType[str, str]
    is_shared: bool = True


@frozen
class NamedText:
    """An object that has a name and a text in SQL, and no rows of its own.

    kind: "macro" (a scalar expression), "table macro" (a query), "sequence", or a kind of
        `schemas`: a schema, whose name is its key, or a database of ATTACH.
    name: name in SQL. Each kind is a namespace.
    text: the section of the statement after the name: of a macro the parameters, AS and the body,
        of a sequence START and INCREMENT, of a database its file.
    version: changes when the object is replaced.
    is_temporary: it is not stored with the connection.
    is_confined: it was created by a caller with bounds.
    """

    kind: str
    name: str
    text: str
    version: int = field(default_factory=lambda: next(_versions))
    is_temporary: bool = False
    is_confined: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The key in `Snapshot.definitions`."""
        return self.kind, self.name.lower()


CatalogObject = Mapping | View | Registration


@frozen
class Snapshot:
    """The catalog's content at one time, immutable. The keys are lower-case names.

    objects: mappings, views and registrations.
    indexes: indexes of mappings.
    version: number that each change increases.
    connections: data connections.
    functions: user functions.
    definitions: macros, by kind and lower-case name.
    path: the keys of the schemas in which a session looks up unqualified names; (): public.
    """

    objects: MappingType[str, CatalogObject]
    indexes: MappingType[str, Index]
    version: int
    connections: MappingType[str, DataConnection] = field(default_factory=dict)
    functions: MappingType[str, PythonFunction] = field(default_factory=dict)
    definitions: MappingType[tuple[str, str], NamedText] = field(default_factory=dict)
    path: tuple[str, ...] = ()

    def find(self, name: str) -> CatalogObject | None:
        """The object of a name, which may be qualified, as the session looks names up."""
        lower = name.lower()
        found = None if self.path else self.objects.get(lower)
        if found is not None or not (self.path or "." in lower):
            return found
        return self._qualified(lower)

    def _qualified(self, lower: str) -> CatalogObject | None:
        found = self.objects.get(lower)
        if found is not None and hides_tables(found):
            return found
        for key in candidates(self.schemas, self.path, lower):
            found = self.objects.get(key)
            if found is not None and (found.schema or "." in lower or "" in self.path):
                return found
        return None

    @property
    def schemas(self) -> dict[str, str]:
        """The keys of all schemas besides public by the names that they have, in lower case."""
        keys = [name for kind, name in self.definitions if kind == SCHEMA_KIND]
        found = {key: key for key in keys}
        for kind, name in self.definitions:
            if kind == CATALOG_KIND:
                found[f"{name}.{MAIN}"] = ""
                found |= {f"{name}.{key}": key for key in keys if "." not in key}
        return found

    def names_own(self, catalog: str) -> bool:
        """Whether a name is the one of the DuckDB file to which the connection is opened."""
        return (CATALOG_KIND, catalog.lower()) in self.definitions

    @property
    def databases(self) -> tuple[NamedText, ...]:
        """The databases of ATTACH."""
        return tuple(item for item in self.definitions.values() if item.kind == DATABASE_KIND)

    def schema_key(self, catalog: str, schema: str, position: Position | None) -> str:
        """The key of the schema that a catalog, or "", and a schema name; ProgrammingError if it
        does not exist."""
        return schema_key(self.schemas, self.path, (catalog, schema), position)

    def new_name(
        self,
        qualifiers: tuple[str, ...],
        local: str,
        position: Position | None,
        *,
        is_temporary: bool = False,
    ) -> tuple[str, str]:
        """The key of the schema of a new object, and its name; ProgrammingError without either."""
        key = new_key(self.schemas, self.path, qualifiers, position, is_temporary=is_temporary)
        return key, full_name(self.schemas, key, local, position)

    def with_functions(self, functions: MappingType[str, PythonFunction]) -> Snapshot:
        """The snapshot with more functions, which hide its own of the same names.

        functions: by lower-case name.
        """
        return replace(self, functions={**self.functions, **functions}) if functions else self

    def get(self, name: str, position: Position | None = None) -> CatalogObject:
        """The object of that name, or ProgrammingError with the nearest known name."""
        found = self.find(name)
        if found is None:
            raise UndefinedTable(
                f'object "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    name, [item.name for item in self.objects.values()], remedy(self.schemas, name)
                ),
                position=position,
            )
        return found

    def get_connection(self, name: str) -> DataConnection:
        """The data connection of that name, or ProgrammingError with the nearest known name."""
        found = self.connections.get(name.lower())
        if found is None:
            raise ProgrammingError(
                f'data connection "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    name,
                    [item.name for item in self.connections.values()],
                    f"create it: CREATE DATA CONNECTION {as_written(name)} TYPE DuckDB "
                    "OPTIONS ('path' = '…')",
                ),
            )
        return found

    def mappings_of(self, connection: str) -> tuple[Mapping, ...]:
        """The mappings that use a data connection."""
        lower = connection.lower()
        return tuple(
            item
            for item in self
            if isinstance(item, Mapping) and (item.data_connection or "").lower() == lower
        )

    def indexes_on(self, table_name: str) -> tuple[Index, ...]:
        return tuple(i for i in self.indexes.values() if i.table_name.lower() == table_name.lower())

    def __iter__(self) -> Iterator[CatalogObject]:
        return iter(sorted(self.objects.values(), key=lambda item: item.name.lower()))


@frozen
class Dependency:
    """A catalog object that a plan used.

    kind: "object", "hidden" (a name that the search path passed over), "function" (a user
        function), "indexes" (of a table), "catalog" (all of it), or the kind of a definition.
    name: name of the object in the catalog; of the table for "indexes".
    version: its version at the time; for "indexes" the sum of their versions, 0 without any. 0:
        nothing had that name, and what gets it would be used.
    """

    kind: str
    name: str
    version: int


class Catalog:
    """The current snapshot, and the only way to change it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._snapshot = Snapshot({}, {}, 0)

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def put(self, item: CatalogObject) -> None:
        """Adds an object, or replaces the object with that name."""
        with self._lock:
            objects = {**self._snapshot.objects, item.name.lower(): item}
            self._replace(objects=objects)

    def remove(self, name: str) -> None:
        """Removes an object and its indexes; does nothing if it does not exist."""
        with self._lock:
            lower = name.lower()
            objects = {key: item for key, item in self._snapshot.objects.items() if key != lower}
            indexes = {
                k: i for k, i in self._snapshot.indexes.items() if i.table_name.lower() != lower
            }
            self._replace(objects=objects, indexes=indexes)

    def put_index(self, index: Index) -> None:
        with self._lock:
            indexes = {**self._snapshot.indexes, index.name.lower(): index}
            self._replace(indexes=indexes)

    def remove_index(self, name: str) -> None:
        with self._lock:
            indexes = {
                key: item for key, item in self._snapshot.indexes.items() if key != name.lower()
            }
            self._replace(indexes=indexes)

    def put_connection(self, connection: DataConnection) -> None:
        with self._lock:
            self._replace(
                connections={**self._snapshot.connections, connection.name.lower(): connection}
            )

    def remove_connection(self, name: str) -> None:
        with self._lock:
            lower = name.lower()
            self._replace(
                connections={
                    key: item for key, item in self._snapshot.connections.items() if key != lower
                }
            )

    def put_function(self, function: PythonFunction) -> None:
        """Adds a user function, or replaces the one with that name."""
        with self._lock:
            self._replace(functions={**self._snapshot.functions, function.name.lower(): function})

    def remove_function(self, name: str) -> None:
        with self._lock:
            lower = name.lower()
            self._replace(
                functions={
                    key: item for key, item in self._snapshot.functions.items() if key != lower
                }
            )

    def put_definitions(self, definitions: MappingType[tuple[str, str], NamedText]) -> None:
        """Replaces all definitions."""
        with self._lock:
            self._replace(definitions=definitions)

    def _replace(self, **changed: Any) -> None:
        """Replaces fields of the snapshot, whose number increases by one."""
        self._snapshot = replace(self._snapshot, version=self._snapshot.version + 1, **changed)


def hides_tables(item: CatalogObject) -> bool:
    """Whether an object is neither stored nor in a schema: it hides the tables of its name."""
    if item.schema:
        return False
    if isinstance(item, Mapping):
        is_own = item.definition is not None and item.definition.is_temporary
        return is_own or item.is_temporary
    return isinstance(item, Registration) or item.temporary


def dependency_version(snapshot: Snapshot, kind: str, name: str) -> int:
    """The current version of a dependency; 0 if the object was deleted."""
    if kind == "indexes":
        return sum(index.version for index in snapshot.indexes_on(name))
    if kind == "catalog":
        return snapshot.version
    if kind in ("object", "hidden"):
        found: Any = snapshot.objects.get(name.lower())
    elif kind == "function":
        found = snapshot.functions.get(name.lower())
    else:
        found = snapshot.definitions.get((kind, name.lower()))
    return 0 if found is None else found.version
