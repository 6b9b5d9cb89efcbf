"""The catalog as DuckDB has it: duckdb_tables(), duckdb_columns() and so on, pragma_table_info, and
sqlite_master. Columns for object numbers and tags are left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from runnel.base.schemas import CATALOG, PUBLIC, catalog_and_schema, local_name
from runnel.catalog import CatalogObject, Index, Mapping, Snapshot, View
from runnel.planner.bind.system_views.constraints import constraints_of, keys_of
from runnel.planner.bind.tables.described import is_temporary
from runnel.planner.bind.tables.information_schema import (
    Row,
    SchemaDefinition,
    columns_of,
    comments_of,
    default_of,
    digits_of,
    nullable,
    position_of,
    schema_keys,
)
from runnel.planner.explain.ddl import mapping_ddl, public_mapping, qualified, quoted, view_ddl
from runnel.planner.parse.types import simple_types
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR, SqlType, array

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_PLACE = "database_name schema_name"


def text_of(item: CatalogObject) -> str | None:
    """The statement that creates a table or a view; None for a registered object."""
    if isinstance(item, View):
        return view_ddl(item)
    return mapping_ddl(public_mapping(item)) if isinstance(item, Mapping) else None


def index_text(snapshot: Snapshot, index: Index) -> str:
    """The statement that creates an index of a map, or of a table."""
    table = snapshot.objects.get(index.table_name.lower())
    name, on = quoted(index.name), quoted(index.table_name)
    if isinstance(table, Mapping):
        on = qualified(table)
    if not isinstance(table, Mapping) or table.definition is None:
        columns = ", ".join(map(quoted, index.columns))
        return f"CREATE INDEX {name} ON {on} ({columns}) TYPE {index.kind.upper()}"
    known = {column.name for column in table.table.columns}
    columns = ", ".join(quoted(item) if item in known else f"({item})" for item in index.columns)
    unique = "UNIQUE " if index.kind == "unique" else ""
    name = quoted(local_name(index.name, table.schema))
    return f"CREATE {unique}INDEX {name} ON {on} ({columns})"


def index_position(binder: StatementBinder, index: Index) -> tuple[str, str, str, str]:
    """The catalog, the schema, the name and the table of an index. An index of a map is in
    public."""
    table = binder.snapshot.objects.get(index.table_name.lower())
    if not isinstance(table, Mapping) or table.definition is None:
        return CATALOG, PUBLIC, index.name, index.table_name
    database, schema, name = position_of(table)
    return database, schema, local_name(index.name, table.schema), name


def in_order(binder: StatementBinder) -> list[CatalogObject]:
    """The tables and views by name."""
    return sorted(binder.snapshot, key=lambda item: item.name.lower())


def tables(binder: StatementBinder) -> list[CatalogObject]:
    """The tables by name."""
    return [item for item in in_order(binder) if not isinstance(item, View)]


def indexes(binder: StatementBinder) -> list[Index]:
    """The indexes of maps and tables by name."""
    return sorted(binder.snapshot.indexes.values(), key=lambda index: index.name.lower())


def _tables(binder: StatementBinder) -> list[Row]:
    return [
        (
            *position_of(item),
            False,
            is_temporary(item),
            any(key.is_primary for key in keys_of(item)),
            item.table.row_count(),
            len(columns_of(binder, item)),
            sum(index.table_name.lower() == item.name.lower() for index in indexes(binder)),
            sum(found.kind == "CHECK" for found in constraints_of(item)),
            text_of(item),
            comments_of(item).get(""),
        )
        for item in tables(binder)
        if not isinstance(item, View)
    ]


def _views(binder: StatementBinder) -> list[Row]:
    return [
        (
            *position_of(item),
            False,
            item.temporary,
            len(columns_of(binder, item)),
            text_of(item),
            comments_of(item).get(""),
        )
        for item in in_order(binder)
        if isinstance(item, View)
    ]


def _columns(binder: StatementBinder) -> list[Row]:
    return [
        (
            *position_of(item),
            name,
            number,
            False,
            default_of(item, name),
            nullable(item, name) == "YES",
            str(kind),
            *digits_of(kind),
            *_generation(item, name),
            comments_of(item).get(name.lower()),
        )
        for item in in_order(binder)
        for number, (name, _, kind) in enumerate(columns_of(binder, item), 1)
    ]


def _generation(item: CatalogObject, column: str) -> tuple[bool, str | None]:
    """Whether each write computes a column of a table, and its expression."""
    definition = item.definition if isinstance(item, Mapping) else None
    text = None if definition is None else definition.computed.get(column.lower())
    return text is not None, text


def _constraints(binder: StatementBinder) -> list[Row]:
    found = ((item, each) for item in tables(binder) for each in constraints_of(item))
    return [
        (
            *position_of(item),
            number,
            each.kind,
            each.text,
            each.condition,
            each.indexes(item),
            list(each.columns),
            each.name,
        )
        for number, (item, each) in enumerate(found)
    ]


def _indexes(binder: StatementBinder) -> list[Row]:
    return [
        (
            *index_position(binder, index),
            index.kind == "unique",
            False,
            f"[{', '.join(index.columns)}]",
            index_text(binder.snapshot, index),
        )
        for index in indexes(binder)
    ]


def _schemas(binder: StatementBinder) -> list[Row]:
    return [(*catalog_and_schema(key), key == "information_schema") for key in schema_keys(binder)]


def _sequences(binder: StatementBinder) -> list[Row]:
    found = [item for item in binder.snapshot.definitions.values() if item.kind == "sequence"]
    return [
        (
            *position_of(item),
            item.is_temporary,
            f"CREATE SEQUENCE {quoted(item.name)} {item.text.strip()}",
            *(_number_after(word, item.text) for word in ("START", "INCREMENT")),
        )
        for item in sorted(found, key=lambda item: item.name.lower())
    ]


def _number_after(word: str, text: str) -> int:
    """The number of an option of CREATE SEQUENCE; 1 if it is not written."""
    match = re.search(rf"\b{word}\s+(?:WITH\s+|BY\s+)?(-?\d+)", text, re.IGNORECASE)
    return 1 if match is None else int(match[1])


def _types(binder: StatementBinder) -> list[Row]:
    return [
        (CATALOG, PUBLIC, name.lower(), str(kind).partition("(")[0], _category(kind), True)
        for name, kind in sorted(simple_types())
    ]


def _category(kind: SqlType) -> str | None:
    if kind.is_numeric:
        return "NUMERIC"
    if kind.is_temporal or kind.is_interval:
        return "DATETIME"
    if kind.is_nested:
        return "COMPOSITE"
    return {"VARCHAR": "STRING", "JSON": "STRING", "BOOLEAN": "BOOLEAN"}.get(str(kind))


def _functions(rows: Sequence[Row]) -> list[Row]:
    found = []
    for database, schema, name, kind, arguments, result, family in rows:
        words = arguments.replace("[", "").replace("]", "")
        is_macro = kind in ("macro", "table macro")
        found.append(
            (
                database,
                schema,
                name.lower(),
                kind.replace(" ", "_"),
                family,
                None if is_macro else result,
                [word.strip() for word in words.split(",") if word.strip()],
                result if is_macro else None,
                family not in ("Python functions", "CREATE MACRO"),
            )
        )
    return found


def _settings(rows: Sequence[Row]) -> list[Row]:
    return [(name, value, meaning, scope) for name, value, _, meaning, scope in rows]


def _databases(rows: Sequence[Row]) -> list[Row]:
    return [(name, path, False, "runnel", is_read_only) for name, path, is_read_only in rows]


def _master(binder: StatementBinder) -> list[Row]:
    return list(_master_rows(binder))


def _master_rows(binder: StatementBinder) -> Iterator[Row]:
    for item in tables(binder):
        name = local_name(item.name, item.schema)
        yield "table", name, name, 0, text_of(item)
    for item in in_order(binder):
        if isinstance(item, View):
            name = local_name(item.name, item.schema)
            yield "view", name, name, 0, text_of(item)
    for index in indexes(binder):
        _, _, name, table = index_position(binder, index)
        yield "index", name, table, 0, index_text(binder.snapshot, index)


_FLAGS = dict.fromkeys(
    (
        "internal temporary is_generated has_primary_key is_nullable is_unique is_primary readonly"
    ).split(),
    BOOLEAN,
)
_COUNTS = dict.fromkeys(
    (
        "estimated_size column_count index_count check_constraint_count constraint_index "
        "start_value increment_by"
    ).split(),
    BIGINT,
)
_NUMBERS = dict.fromkeys(
    ("column_index", "numeric_precision", "numeric_scale", "rootpage"), INTEGER
)
_TYPES = {
    **_FLAGS,
    **_COUNTS,
    **_NUMBERS,
    "parameters": array(VARCHAR),
    "constraint_column_indexes": array(BIGINT),
    "constraint_column_names": array(VARCHAR),
}


def _view(
    columns: str, rows: Callable[[StatementBinder], list[Row]] | None, **session: Any
) -> SchemaDefinition:
    return SchemaDefinition(columns, rows, _TYPES, **session)


FUNCTIONS = {
    "duckdb_tables": _view(
        f"{_PLACE} table_name internal temporary has_primary_key estimated_size column_count "
        "index_count check_constraint_count sql comment",
        _tables,
    ),
    "duckdb_views": _view(
        f"{_PLACE} view_name internal temporary column_count sql comment", _views
    ),
    "duckdb_columns": _view(
        f"{_PLACE} table_name column_name column_index internal column_default is_nullable "
        "data_type numeric_precision numeric_scale is_generated generation_expression "
        "comment",
        _columns,
    ),
    "duckdb_constraints": _view(
        f"{_PLACE} table_name constraint_index constraint_type constraint_text expression "
        "constraint_column_indexes constraint_column_names constraint_name",
        _constraints,
    ),
    "duckdb_indexes": _view(
        f"{_PLACE} index_name table_name is_unique is_primary expressions sql", _indexes
    ),
    "duckdb_schemas": _view(f"{_PLACE} internal", _schemas),
    "duckdb_sequences": _view(
        f"{_PLACE} sequence_name temporary sql start_value increment_by", _sequences
    ),
    "duckdb_types": _view(f"{_PLACE} type_name logical_type type_category internal", _types),
    "duckdb_functions": _view(
        f"{_PLACE} function_name function_type description return_type parameters "
        "macro_definition internal",
        None,
        source="routines",
        derived=_functions,
    ),
    "duckdb_settings": _view(
        "name value description scope", None, source="settings", derived=_settings
    ),
    "duckdb_databases": _view(
        "database_name path internal type readonly", None, source="databases", derived=_databases
    ),
}
"""The views that DuckDB calls as functions; their names are tables, too."""

TABLES = {
    **dict.fromkeys(
        ("sqlite_master", "sqlite_schema"), _view("type name tbl_name rootpage sql", _master)
    ),
}
"""The views that are tables only."""
