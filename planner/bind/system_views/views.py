"""Looks up the views of other systems' catalogs by name. A table of the user hides a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.schemas import (
    CATALOG,
    MAIN,
    PUBLIC,
    SCHEMA_KIND,
    catalog_and_schema,
    database_of,
    local_name,
)
from runnel.catalog import View, hides_tables
from runnel.errors import Position, ProgrammingError
from runnel.planner.bind.pg_catalog import tables as pg_tables
from runnel.planner.bind.pg_catalog.objects import PG_CATALOG
from runnel.planner.bind.system_views import duckdb
from runnel.planner.bind.tables.described import description
from runnel.planner.bind.tables.information_schema import (
    Row,
    SchemaDefinition,
    SchemaTable,
    schema_keys,
)
from runnel.planner.parse.syntax import Describe, Name
from runnel.sqltypes import BOOLEAN, INTEGER

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_TABLES = {**duckdb.FUNCTIONS, **duckdb.TABLES, **pg_tables.TABLES}
_TABLE_INFO = ("pragma_table_info", "pragma_show")


SHOWN = (
    *("show tables", "show views", "show catalogs", "show databases", "show schemas"),
    "show search_path",
)
"""The tables that SHOW TABLES, VIEWS, CATALOGS, DATABASES, SCHEMAS and search_path read."""


def shown_table(name: str, catalog: str, schema: str, binder: StatementBinder) -> SchemaTable:
    """The rows of SHOW TABLES of a schema, "": the current one; of SHOW CATALOGS and so on."""
    snapshot = binder.snapshot
    current = snapshot.path[0] if snapshot.path else ""
    key = snapshot.schema_key(catalog, schema, None) if schema else current
    definition = SchemaDefinition("name", _databases if name == "show databases" else _catalogs)
    is_database = not catalog and schema.lower() != "" and key == f"{schema.lower()}.{MAIN}"
    if name in ("show tables", "show views"):
        kind = View if name == "show views" else object

        def tables(binder: StatementBinder) -> list[Row]:
            return [
                (local_name(item.name, item.schema),)
                for item in binder.snapshot
                if isinstance(item, kind)
                and (
                    item.schema.lower() == key
                    or (not schema and hides_tables(item))
                    or (is_database and database_of(item.schema).lower() == schema.lower())
                )
            ]

        definition = SchemaDefinition("name", tables)
    elif name == "show search_path":
        shown = ", ".join(key or PUBLIC for key in snapshot.path or ("",))
        definition = SchemaDefinition("search_path", lambda binder: [(shown,)])
    elif name == "show schemas":

        def schemas(binder: StatementBinder) -> list[Row]:
            return [(*catalog_and_schema(item), item == current) for item in schema_keys(binder)]

        columns = "database_name schema_name current"
        definition = SchemaDefinition(columns, schemas, {"current": BOOLEAN})
    return SchemaTable(name, definition, binder.without_statement())


def _catalogs(binder: StatementBinder) -> list[Row]:
    return [(CATALOG,), *((item.name,) for item in binder.snapshot.databases)]


def _databases(binder: StatementBinder) -> list[Row]:
    """The databases as DuckDB calls them, and the schemas of the current one, which are the
    databases of Flink and Spark."""
    snapshot = binder.snapshot
    current = database_of(snapshot.path[0]) if snapshot.path else ""
    schemas = [
        catalog_and_schema(item.name)[1]
        for item in snapshot.definitions.values()
        if item.kind == SCHEMA_KIND and database_of(item.name).lower() == current
    ]
    return [*_catalogs(binder), *((name,) for name in schemas if name != MAIN)]


def is_view(name: str) -> bool:
    """Whether a view has this name."""
    return name.lower() in _TABLES


def view_table(name: str, schema: str, binder: StatementBinder) -> SchemaTable | None:
    """The view with this name in FROM; None if there is none. schema: "" if none is written."""
    lower, is_catalog = name.lower(), schema.lower() == PG_CATALOG
    known = pg_tables.TABLES if is_catalog else _TABLES
    if lower not in known or (schema and not is_catalog):
        return None
    return SchemaTable(lower, known[lower], binder.without_statement())


def view_function(
    name: str, arguments: list[Any], binder: StatementBinder, position: Position | None
) -> SchemaTable | None:
    """The view that a call in FROM names; None if there is none."""
    lower = name.lower()
    if lower in duckdb.FUNCTIONS:
        if arguments:
            raise ProgrammingError(
                f"{name.upper()} has no arguments",
                hint=f"filter its rows: FROM {lower}() WHERE …",
                position=position,
            )
        return SchemaTable(lower, duckdb.FUNCTIONS[lower], binder.without_statement())
    if lower not in _TABLE_INFO:
        return None
    if len(arguments) != 1 or not (
        isinstance(arguments[0], exp.Literal) and arguments[0].is_string
    ):
        raise ProgrammingError(
            f"{name.upper()} needs the name of a table between single quotes",
            hint=f"write {lower}('t')",
            position=position,
        )
    return _columns_of(lower, arguments[0].name, binder, position)


def _columns_of(
    name: str, table: str, binder: StatementBinder, position: Position | None
) -> SchemaTable:
    """The columns of a table as SQLite shows them."""
    at = position or Position.at(binder.sql, 0)
    statement = Describe(sql=binder.sql, position=at, name=Name(table, at))

    def rows(binder: StatementBinder) -> list[Row]:
        _, described = description(binder, statement)
        if name == "pragma_show":
            return list(described)
        return [
            (number, column, kind, null == "NO", default, key == "PRI")
            for number, (column, kind, null, key, default, _) in enumerate(described)
        ]

    rows(binder)  # an unknown table is an error of this statement, not of its job
    columns, types = "cid name type notnull dflt_value pk", {"notnull": BOOLEAN, "pk": BOOLEAN}
    if name == "pragma_show":
        columns, types = "column_name column_type null key default extra", {}
    return SchemaTable(
        name,
        SchemaDefinition(columns, rows, {"cid": INTEGER, **types}),
        binder.without_statement(),
    )
