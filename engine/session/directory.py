"""The directory of a durable connection: its lock, and the catalog in it.

    lock          locked by the one process that has the directory open; the kernel releases it
                  however that process ends
    directory.json  the version of the format (see `directory_version`)
    catalog.json  mappings, views, indexes, data connections and macros; replaced as a whole, by
                  an atomic rename, before a DDL statement returns
    catalog.next  the catalog of a transaction while it is committed (`commits`)
    maps/         the rows of maps (the map connector's)
    tables.duckdb the connection's own DuckDB tables (the DuckDB connector's), once there are any

Temporary views, tables and macros, and registrations are not stored.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runnel.base.forks import watch
from runnel.base.frozen import frozen
from runnel.catalog import (
    CatalogObject,
    ComputedColumn,
    DataConnection,
    Index,
    Mapping,
    NamedText,
    View,
    WatermarkClause,
)
from runnel.columns.table_definition import (
    ForeignKey,
    IdentityColumn,
    TableDefinition,
    TableKey,
)
from runnel.columns.type_records import type_of, type_record
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.errors import ErrorCode, OperationalError
from runnel.session.directory_version import CATALOG_FORMAT as FORMAT
from runnel.session.directory_version import read_record, upgrade
from runnel.storage.durable_files import (
    OWN_FILE,
    OWN_FOLDER,
    PinnedFile,
    replace_file,
    sealed,
    sync_folder,
    unsealed,
)
from runnel.storage.write_gate import durable_writes

NEXT = "catalog.next"
"""The catalog of a transaction that is being committed (`commits`)."""

_BY_NUMBER, _BY_TEXT = "number", "text"
"""The names that columns of a view have if its query names none. Views that earlier versions wrote
have no such entry; their columns are numbered."""


@frozen
class SavedMapping:
    """A mapping as it was saved, not yet opened.

    connector: name of the connector.
    definition: its definition, without the options of its data connection.
    data_connection: name of its data connection.
    is_confined: it was created by a caller with bounds.
    flink_text: the CREATE TABLE … WITH of Flink that made it, or None.
    not_null: the columns to which no NULL is written.
    """

    connector: str
    definition: MappingDefinition
    data_connection: str | None
    is_confined: bool = False
    flink_text: str | None = None
    not_null: frozenset[str] = frozenset()


@frozen
class Saved:
    """A catalog as it was saved.

    mappings: all mappings; their tables are opened later.
    views: all views that are not temporary.
    indexes: all indexes.
    connections: all data connections.
    definitions: all macros that are not temporary.
    """

    mappings: tuple[SavedMapping, ...] = ()
    views: tuple[View, ...] = ()
    indexes: tuple[Index, ...] = ()
    connections: tuple[DataConnection, ...] = ()
    definitions: tuple[NamedText, ...] = ()


class Directory:
    """A durable directory, locked by this object until `close`."""

    def __init__(self, path: Path, *, is_upgraded: bool = True) -> None:
        """Creates the directory if necessary, locks it, and upgrades it to the current version of
        its format; OperationalError if another connection has it open, or if its version is newer.

        is_upgraded: False: it keeps its version, and may only be copied.
        """
        self.path = path
        read_record(path)  # a directory of a newer version is refused before anything is written
        self._lock = -1
        watch(self)
        try:
            path.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWN_FILE)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner, _, url = os.read(self._lock, 300).decode(errors="replace").partition(" ")
            self.close()
            raise OperationalError(
                f'directory "{path}" is in use by another connection',
                code=ErrorCode.CONNECTION_PROBLEM,
                detail=f"its owner is the process {owner.strip()}" if owner.strip() else None,
                hint=f'it is served: runnel.connect("{url.strip()}", token=…)'
                if url.strip()
                else "close that connection, or use another directory",
            ) from error
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)
            self._held = PinnedFile(path / "lock", self._lock, f'the directory "{path}"')
            self.record = read_record(path)
            if is_upgraded:
                upgrade(path, self.record)
        except OSError as error:
            self.close()
            raise _unusable(path, error) from error
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """OperationalError if the directory was removed or renamed: files written to its path would
        be lost."""
        self._held.check()

    def load(self) -> Saved:
        """The catalog as it was saved."""
        try:
            text = (self.path / "catalog.json").read_bytes()
        except FileNotFoundError:
            return Saved()
        except OSError as error:
            raise _unusable(self.path, error) from error
        try:
            content = unsealed(text, *range(2, FORMAT + 1))
            if content["format"] not in range(1, FORMAT + 1):
                raise ValueError(f"its format is {content['format']}, not {FORMAT}")
            return Saved(
                tuple(
                    SavedMapping(
                        item["connector"],
                        _definition(item),
                        item.get("data_connection"),
                        _is_confined(item),
                        item.get("flink"),
                        frozenset(item.get("not_null", ())),
                    )
                    for item in content["mappings"]
                ),
                tuple(_view(item) for item in content["views"]),
                tuple(
                    Index(item["name"], item["table"], tuple(item["columns"]), item["kind"])
                    for item in content["indexes"]
                ),
                tuple(
                    DataConnection(item["name"], item["connector"], item["options"], item["shared"])
                    for item in content.get("connections", ())
                ),
                tuple(
                    NamedText(
                        item["kind"], item["name"], item["text"], is_confined=_is_confined(item)
                    )
                    for item in content.get("definitions", ())
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            reason = (
                str(error)
                if isinstance(error, ValueError)
                else "it doesn't hold what a catalog holds"
            )
            raise OperationalError(
                f'the catalog of directory "{self.path}" can\'t be read',
                detail=f"catalog.json: {reason}",
                hint="was it written by another version of Runnel, or changed by hand?",
            ) from error

    def save(
        self,
        objects: Iterable[CatalogObject],
        indexes: Iterable[Index],
        connections: Iterable[DataConnection] = (),
        definitions: Iterable[NamedText] = (),
        transaction: str | None = None,
    ) -> None:
        """Replaces the saved catalog. When it returns, the new catalog is on disk; if it fails, the
        old one is. `transaction`: the number of one that is to be committed; the catalog becomes
        the saved one with `publish_next`."""
        self.check()
        items = list(objects)
        mappings = [i for i in items if isinstance(i, Mapping) and not _is_temporary(i)]
        saved = {item.name.lower() for item in mappings}
        content = {
            "format": FORMAT,
            "mappings": [_mapping_record(item) for item in mappings],
            "views": [
                {
                    "name": item.name,
                    "sql": item.sql,
                    "columns": list(item.columns),
                    "confined": item.is_confined,
                    "comments": dict(item.comments),
                    "unnamed": _BY_NUMBER if item.has_numbered_columns else _BY_TEXT,
                    **({"schema": item.schema} if item.schema else {}),
                    **({"path": list(item.path)} if item.path else {}),
                }
                for item in items
                if isinstance(item, View) and not item.temporary
            ],
            "indexes": [_index_record(i) for i in indexes if i.table_name.lower() in saved],
            "connections": [
                {
                    "name": item.name,
                    "connector": item.connector,
                    "options": dict(item.options),
                    "shared": item.is_shared,
                }
                for item in connections
            ],
            "definitions": [_text_record(item) for item in definitions if not item.is_temporary],
        }
        if transaction is not None:
            content["transaction"] = transaction
        try:
            if transaction is None:
                replace_file(self.path / "catalog.json", sealed(content))
                self.forget_next()
            else:
                replace_file(self.path / NEXT, sealed(content))
        except OSError as error:
            raise OperationalError(
                f'the catalog of directory "{self.path}" can\'t be written; nothing was changed',
                detail=error.strerror or str(error),
                hint="make room on the disk and try again",
            ) from error

    def next_number(self) -> str | None:
        """The number of the transaction whose catalog was not published; None: there is none."""
        try:
            found = unsealed((self.path / NEXT).read_bytes(), *range(2, FORMAT + 1))["transaction"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OperationalError(
                f'the catalog of directory "{self.path}" can\'t be read',
                detail=f"{NEXT}: {error}",
                hint="was it changed by hand?",
            ) from error
        return str(found)

    def publish_next(self) -> None:
        """Makes the catalog of a transaction, which DuckDB has committed, the saved one."""
        with durable_writes:
            (self.path / NEXT).replace(self.path / "catalog.json")
            sync_folder(self.path)

    def forget_next(self) -> None:
        """Removes the catalog of a transaction that was not committed."""
        path = self.path / NEXT
        if path.exists():
            with durable_writes:
                path.unlink()
                sync_folder(self.path)

    def announce(self, url: str) -> None:
        """Writes the address of the server of this directory into the lock, for the error of
        another connection."""
        os.pwrite(self._lock, f"{os.getpid()} {url}".encode(), 0)

    def close(self) -> None:
        """Releases the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def leave(self) -> None:
        """A forked child shares the parent's lock through its copy of the descriptor. Closing the
        copy does not unlock; keeping it open would lock the directory while the child lives."""
        self.close()


def is_open(path: Path) -> bool:
    """Whether a connection of any process has a directory open."""
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _view(item: dict[str, Any]) -> View:
    return View(
        item["name"],
        item["sql"],
        tuple(item["columns"]),
        is_confined=_is_confined(item),
        has_numbered_columns=item.get("unnamed") != _BY_TEXT,
        comments=dict(item.get("comments", {})),
        schema=item.get("schema", ""),
        path=tuple(item.get("path", ())),
    )


def _unusable(path: Path, error: OSError) -> OperationalError:
    return OperationalError(
        f'directory "{path}" can\'t be used', detail=error.strerror or str(error)
    )


def _is_temporary(mapping: Mapping) -> bool:
    definition = mapping.definition
    return mapping.is_temporary or (definition is not None and definition.is_temporary)


def _index_record(item: Index) -> dict[str, Any]:
    return {
        "name": item.name,
        "table": item.table_name,
        "columns": list(item.columns),
        "kind": item.kind,
    }


def _text_record(item: NamedText) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "name": item.name,
        "text": item.text,
        "confined": item.is_confined,
    }


def _mapping_record(mapping: Mapping) -> dict[str, Any]:
    columns = [
        {
            "name": column.name,
            "type": type_record(column.type),
            "external_name": column.external_name,
        }
        for column in mapping.table.columns
        if not column.hidden
    ]
    watermark = mapping.watermark
    definition = mapping.definition
    return {
        "name": mapping.name,
        "connector": mapping.connector,
        "columns": columns,
        "options": dict(mapping.options),
        "external_name": mapping.external_name,
        "object_type": mapping.object_type,
        "data_connection": mapping.data_connection,
        "confined": mapping.is_confined,
        "flink": mapping.flink_text,
        **({"not_null": sorted(mapping.not_null)} if mapping.not_null else {}),
        **({"schema": mapping.schema} if mapping.schema else {}),
        "watermark": None
        if watermark is None
        else [watermark.column, watermark.lag, watermark.is_interval],
        "table": None if definition is None else _table_record(definition),
        "computed": [
            [item.name, type_record(item.type), item.text, item.index]
            for item in mapping.table.computed
        ],
    }


def _table_record(definition: TableDefinition) -> dict[str, Any]:
    return {
        "defaults": dict(definition.defaults),
        "not_null": sorted(definition.not_null),
        "keys": [[list(key.columns), key.is_primary] for key in definition.keys],
        "checks": list(definition.checks),
        "identities": [
            [column, item.start, item.increment, item.is_always, item.sequence]
            for column, item in definition.identities.items()
        ],
        "computed": dict(definition.computed),
        "comments": dict(definition.comments),
        **(
            {"foreign_keys": [[list(k.columns), k.table, list(k.referenced)] for k in foreign]}
            if (foreign := definition.foreign_keys)
            else {}
        ),
    }


def _table_of(record: dict[str, Any] | None) -> TableDefinition | None:
    """The constraints of a saved table; None for a mapping."""
    if record is None:
        return None
    return TableDefinition(
        dict(record["defaults"]),
        frozenset(record["not_null"]),
        tuple(TableKey(tuple(columns), bool(primary)) for columns, primary in record["keys"]),
        tuple(record["checks"]),
        identities={
            column: IdentityColumn(start, increment, bool(is_always), sequence)
            for column, start, increment, is_always, sequence in record.get("identities", ())
        },
        computed=dict(record.get("computed", {})),
        comments=dict(record.get("comments", {})),
        foreign_keys=tuple(
            ForeignKey(tuple(columns), table, tuple(referenced))
            for columns, table, referenced in record.get("foreign_keys", ())
        ),
    )


def _is_confined(record: dict[str, Any]) -> bool:
    """Whether a saved object has bounds; objects saved by versions without bounds have none."""
    return bool(record.get("confined", False))


def _definition(record: dict[str, Any]) -> MappingDefinition:
    columns = tuple(
        ColumnDefinition(item["name"], type_of(item["type"]), item["external_name"])
        for item in record["columns"]
    )
    watermark = record.get("watermark")
    return MappingDefinition(
        record["name"],
        columns,
        record["options"],
        record["external_name"],
        record.get("object_type"),
        None if watermark is None else WatermarkClause(*watermark),
        table=_table_of(record.get("table")),
        is_stored=True,
        computed=tuple(
            ComputedColumn(name, type_of(kind), text, index)
            for name, kind, text, index in record.get("computed", ())
        ),
        schema=record.get("schema", ""),
    )
