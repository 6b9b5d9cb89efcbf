"""What names mean: mappings, views and registrations in one namespace, indexes and data connections
in others.

The catalog's content is an immutable snapshot that each change replaces, so a reader needs no lock.
Every object has a version of its own: a plan lists the versions of the objects it used, and is
valid while they are the current ones.
Names match without regard to case and keep their spelling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from dataclasses import field
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, Position, ProgrammingError, as_written, suggest
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.expressions.python.function import PythonFunction


CATALOG = "runnel"
PUBLIC = "public"
INFORMATION_SCHEMA = "information_schema"
_SCHEMAS = (PUBLIC, INFORMATION_SCHEMA)


def check_schema(catalog: str, schema: str, position: Position | None) -> None:
    """Refuses the catalog and the schema before a name ("" where none is written) that don't
    exist."""
    if catalog and catalog.lower() != CATALOG:
        raise ProgrammingError(
            f'catalog "{catalog}" does not exist',
            hint=f'the only catalog is "{CATALOG}"',
            position=position,
        )
    if schema and schema.lower() not in _SCHEMAS:
        raise ProgrammingError(
            f'schema "{schema}" does not exist',
            hint='the schemas are "public" and "information_schema"',
            position=position,
        )


@frozen
class TableColumn:
    """A column of a table. `external_name` is its name in the connector, where that differs; a
    hidden column can be named but is not part of `*`."""

    name: str
    type: SqlType
    external_name: str | None = None
    hidden: bool = False


@frozen
class EventTime:
    """WATERMARK FOR: the column (by index) that holds a row's event time, and how far behind the
    greatest one seen later rows may be, in units of event time (microseconds for a temporal column,
    else the column's own). `idle_timeout`: the milliseconds without a row after which a partition
    doesn't hold back the others (None: a second; 0: it always does)."""

    column: int
    lag: int
    idle_timeout: int | None = None


@frozen
class WatermarkClause:
    """WATERMARK FOR column AS column - lag, as a mapping declares it: `lag` in microseconds where
    `is_interval`."""

    column: str
    lag: int
    is_interval: bool
    position: Position | None = field(default=None, compare=False, repr=False)


class TableEngine(ABC):
    """An engine that has tables of its own; `fragment.FragmentEngine` is its contract."""

    name: str


class Table(ABC):
    """Something with columns that a query can name; how it is read and written is the connector
    contract's business."""

    name: str
    connector: str
    columns: tuple[TableColumn, ...]

    engine: TableEngine | None = None
    """The engine that runs fragments over the table where it is; None where no other engine has
    it."""

    event_time: EventTime | None = None
    """Where the rows have an event time of which the source knows a watermark."""

    refresh_millis: int | None = None
    """How often a join with a stream reads the table again, in milliseconds; None: it reads it
    once."""

    @property
    def is_unbounded(self) -> bool:
        """Whether a scan has no end that is known beforehand."""
        return False

    @property
    def can_end(self) -> bool:
        """Whether an unbounded scan can come to an end (a pushed stream that its writer closes)."""
        return not self.is_unbounded

    @property
    def key_columns(self) -> tuple[int, ...]:
        """The columns that identify a row; empty where there is no key."""
        return ()

    @abstractmethod
    def row_count(self) -> int | None:
        """About how many rows there are now; None if that isn't known cheaply."""

    def withdraw(self) -> None:
        """Called for what was registered when the registration is taken back or replaced: scans go
        on, none follows."""

    def close(self) -> None:
        """Called for what is registered when its connection closes; no scan follows."""


_versions = count(1)


@frozen
class Mapping:
    """CREATE MAPPING: a name for data that lives in a connector. `table` is the opened table;
    `options` are the mapping's own, beside those of its data connection if it has one.
    `is_confined`: its caller had bounds, so it has them, whoever uses it."""

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


@frozen
class View:
    """CREATE VIEW: a name for a query. `sql` is the query's own text; `columns` are new names for
    its columns, or ().
    A view may outlive what it names: it is bound anew whenever a query uses it. `is_confined`: the
    files that it names are opened within bounds, whoever uses it."""

    name: str
    sql: str
    columns: tuple[str, ...]
    temporary: bool = False
    version: int = field(default_factory=lambda: next(_versions))
    is_confined: bool = False


@frozen
class Registration:
    """An object that `Connection.register` (or `register_stream`) gave a name. `is_confined`: a
    caller with bounds did."""

    name: str
    table: Table
    version: int = field(default_factory=lambda: next(_versions))
    is_confined: bool = False


@frozen
class Index:
    """CREATE INDEX on the map behind a mapping. `kind` is "hash" or "sorted"; `columns` are names
    of the mapping's columns; `table_name` is the mapping's name."""

    name: str
    table_name: str
    columns: tuple[str, ...]
    kind: str
    version: int = field(default_factory=lambda: next(_versions))


@frozen
class DataConnection:
    """CREATE DATA CONNECTION: a name for the options with which mappings of one connector reach
    their database. `is_shared`: whether they share what is open. Only a caller without bounds makes
    one: what it names may be used by all."""

    name: str
    connector: str
    options: MappingType[str, str]
    is_shared: bool = True


CatalogObject = Mapping | View | Registration


@frozen
class Snapshot:
    """The catalog's content at one moment, by lower-case name. `functions` are the user's own."""

    objects: MappingType[str, CatalogObject]
    indexes: MappingType[str, Index]
    version: int
    connections: MappingType[str, DataConnection] = field(default_factory=dict)
    functions: MappingType[str, PythonFunction] = field(default_factory=dict)

    def find(self, name: str) -> CatalogObject | None:
        return self.objects.get(name.lower())

    def get(self, name: str, position: Position | None = None) -> CatalogObject:
        """The object of that name; ProgrammingError with the nearest known name where there is
        none."""
        found = self.objects.get(name.lower())
        if found is None:
            raise ProgrammingError(
                f'object "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    name,
                    [item.name for item in self.objects.values()],
                    "create it with CREATE MAPPING or CREATE VIEW, "
                    "or register it on the connection",
                ),
                position=position,
            )
        return found

    def get_connection(self, name: str, position: Position | None = None) -> DataConnection:
        """The data connection of that name; ProgrammingError with the nearest known name where
        there is none."""
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
                position=position,
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
    """One catalog object that a plan used, with the version it had. Kind is "object", "function"
    (of the user's), "indexes" (of a table: the version is the sum of the versions of its indexes, 0
    without any) or "catalog" (all of it)."""

    kind: str
    name: str
    version: int


class Catalog:
    """The current snapshot, and the only way to change it. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._snapshot = Snapshot({}, {}, 0)

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def put(self, item: CatalogObject) -> None:
        """Adds an object, or replaces the one of that name."""
        with self._lock:
            objects = {**self._snapshot.objects, item.name.lower(): item}
            self._replace(objects=objects)

    def remove(self, name: str) -> None:
        """Takes an object and the indexes on it out; does nothing where there is none."""
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
        """Adds a function of the user's, or replaces the one of that name."""
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

    def _replace(
        self,
        objects: MappingType[str, CatalogObject] | None = None,
        indexes: MappingType[str, Index] | None = None,
        connections: MappingType[str, DataConnection] | None = None,
        functions: MappingType[str, PythonFunction] | None = None,
    ) -> None:
        old = self._snapshot
        self._snapshot = Snapshot(
            old.objects if objects is None else objects,
            old.indexes if indexes is None else indexes,
            old.version + 1,
            old.connections if connections is None else connections,
            old.functions if functions is None else functions,
        )


def dependency_version(snapshot: Snapshot, kind: str, name: str) -> int:
    """The version that a dependency has now; 0 where the object is gone."""
    if kind == "indexes":
        return sum(index.version for index in snapshot.indexes_on(name))
    if kind == "catalog":
        return snapshot.version
    found = snapshot.functions.get(name.lower()) if kind == "function" else snapshot.find(name)
    return 0 if found is None else found.version
