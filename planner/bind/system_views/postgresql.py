"""The catalog as PostgreSQL has it: pg_tables, pg_views, pg_indexes, pg_class and others, with the
columns that do not describe its storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runnel.base.schemas import CATALOG, INFORMATION_SCHEMA, catalog_and_schema, local_name
from runnel.catalog import CatalogObject, View
from runnel.planner.bind.system_views.constraints import keys_of
from runnel.planner.bind.system_views.duckdb import (
    in_order,
    index_position,
    index_text,
    indexes,
    tables,
)
from runnel.planner.bind.tables.described import is_temporary
from runnel.planner.bind.tables.information_schema import (
    Row,
    SchemaDefinition,
    columns_of,
    schema_keys,
)
from runnel.planner.explain.ddl import qualified, quoted
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, REAL

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_NAMESPACES = {"": 2200, INFORMATION_SCHEMA: 13000}
"""The keys of schemas with their numbers in PostgreSQL."""
_OWNER = CATALOG


def _tables(binder: StatementBinder) -> list[Row]:
    indexed = {index.table_name.lower() for index in indexes(binder)}
    return [
        (
            *_schema_and_name(item),
            _OWNER,
            None,
            bool(keys_of(item)) or item.name.lower() in indexed,
            False,
            False,
        )
        for item in tables(binder)
    ]


def _views(binder: StatementBinder) -> list[Row]:
    return [
        (*_schema_and_name(item), _OWNER, item.sql)
        for item in in_order(binder)
        if isinstance(item, View)
    ]


def _indexes(binder: StatementBinder) -> list[Row]:
    """The indexes, and the keys of tables, with the names that PostgreSQL derives."""
    found: list[Row] = []
    for index in indexes(binder):
        _, schema, name, table = index_position(binder, index)
        found.append((schema, table, name, None, index_text(binder, index)))
    for item in tables(binder):
        for key in keys_of(item):
            columns = "" if key.is_primary else "".join(f"{name}_" for name in key.columns)
            local = local_name(item.name, item.schema)
            name = f"{local}_{columns}{'pkey' if key.is_primary else 'key'}"
            listed = ", ".join(map(quoted, key.columns))
            text = f"CREATE UNIQUE INDEX {quoted(name)} ON {qualified(item)} ({listed})"
            found.append((*_schema_and_name(item), name, None, text))
    return sorted(found, key=lambda row: (row[1].lower(), row[2].lower()))


def _classes(binder: StatementBinder) -> list[Row]:
    """The tables and views. The number of an object is its version."""
    return [
        (
            item.version,
            local_name(item.name, item.schema),
            _numbers(binder)[item.schema.lower()],
            -1.0 if isinstance(item, View) else float(item.table.row_count() or 0),
            bool(keys_of(item)),
            "t" if is_temporary(item) else "p",
            "v" if isinstance(item, View) else "r",
            len(columns_of(binder, item)),
            False,
        )
        for item in in_order(binder)
    ]


def _namespaces(binder: StatementBinder) -> list[Row]:
    return [(number, catalog_and_schema(key)[1]) for key, number in _numbers(binder).items()]


def _numbers(binder: StatementBinder) -> dict[str, int]:
    """The schemas by key, with their numbers."""
    others = {key: number for number, key in enumerate(schema_keys(binder)[2:], 16384)}
    return {**_NAMESPACES, **others}


def _schema_and_name(item: CatalogObject) -> tuple[str, str]:
    """The schema and the name of an object."""
    return catalog_and_schema(item.schema)[1], local_name(item.name, item.schema)


def _databases(binder: StatementBinder) -> list[Row]:
    names = [CATALOG, *(item.name for item in binder.snapshot.databases)]
    return [(number, name, True, False) for number, name in enumerate(names, 1)]


def _settings(rows: Sequence[Row]) -> list[Row]:
    return [(name, value, meaning, default) for name, value, default, meaning, _ in rows]


_TYPES = {
    "oid": BIGINT,
    "relnamespace": BIGINT,
    "reltuples": REAL,
    "relnatts": INTEGER,
    **dict.fromkeys(
        (
            "hasindexes hasrules hastriggers relhasindex relispartition datallowconn datistemplate"
        ).split(),
        BOOLEAN,
    ),
}


def _view(
    columns: str, rows: Callable[[StatementBinder], list[Row]] | None, **session: Any
) -> SchemaDefinition:
    return SchemaDefinition(columns, rows, _TYPES, **session)


TABLES = {
    "pg_tables": _view(
        "schemaname tablename tableowner tablespace hasindexes hasrules hastriggers", _tables
    ),
    "pg_views": _view("schemaname viewname viewowner definition", _views),
    "pg_indexes": _view("schemaname tablename indexname tablespace indexdef", _indexes),
    "pg_class": _view(
        "oid relname relnamespace reltuples relhasindex relpersistence relkind relnatts "
        "relispartition",
        _classes,
    ),
    "pg_namespace": _view("oid nspname", _namespaces),
    "pg_database": _view("oid datname datallowconn datistemplate", _databases),
    "pg_settings": _view(
        "name setting short_desc boot_val", None, source="settings", derived=_settings
    ),
}
"""The views, which may be qualified with pg_catalog."""
