"""The schema information_schema: the catalog as tables that queries read like any other table.

The rows describe the catalog and the jobs at the start of the query. A view is bound again to find
its columns; a view that can no longer be bound has no columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.base.schemas import CATALOG, VIEW_KIND, VIEW_TYPE, catalog_and_schema, local_name
from runnel.catalog import CatalogObject, Mapping, TableColumn, View, visible_columns
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    WritableTable,
)
from runnel.errors import (
    DatabaseError,
    ErrorCode,
    NotSupportedError,
    Position,
    UndefinedTable,
    as_written,
    suggest,
)
from runnel.expressions.kernels.values import array_of
from runnel.planner.bind.system_views import key_usage
from runnel.planner.explain.redaction import redacted_options
from runnel.processor import JobContext
from runnel.relation.nodes import Field
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTEGER_WIDTHS,
    INTERVAL,
    JSON,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    SqlType,
)

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

NAME = "information_schema"

Row = tuple[Any, ...]

_CONSTRAINT = "constraint_catalog constraint_schema constraint_name"
_CHARACTERS = "character_set_catalog character_set_schema character_set_name"
_COLLATION = "collation_catalog collation_schema collation_name"
_NUMBERS = (
    "numeric_precision numeric_precision_radix numeric_scale datetime_precision interval_type "
    "interval_precision"
)
_LENGTHS = "data_type character_maximum_length character_octet_length"
_OF_NUMBERS = frozenset(
    (
        "ordinal_position numeric_precision numeric_precision_radix numeric_scale "
        "datetime_precision interval_precision character_maximum_length character_octet_length "
        "maximum_cardinality position_in_unique_constraint"
    ).split()
)
_TYPES: dict[str, SqlType] = {
    "shared": BOOLEAN,
    "is_read_only": BOOLEAN,
    "options": JSON,
    "mapping_options": JSON,
}
JOBS: dict[str, SqlType] = {
    "id": BIGINT,
    "name": VARCHAR,
    "status": VARCHAR,
    "kind": VARCHAR,
    "query": VARCHAR,
    "started": TIMESTAMP_TZ,
    "uptime": INTERVAL,
    "rows_in": BIGINT,
    "rows_out": BIGINT,
    "rows_per_second": DOUBLE,
    "watermark": VARCHAR,
    "watermark_lag": INTERVAL,
    "held_by": VARCHAR,
    "late_rows": BIGINT,
    "malformed_records": BIGINT,
    "state_rows": BIGINT,
    "state_bytes": BIGINT,
    "spilled_bytes": BIGINT,
    "latency_p50": INTERVAL,
    "latency_p99": INTERVAL,
    "runtime": VARCHAR,
    "guarantee": VARCHAR,
    "restarts": BIGINT,
    "last_snapshot": BIGINT,
    "snapshot_age": INTERVAL,
    "snapshot_bytes": BIGINT,
    "snapshot_duration": INTERVAL,
    "last_error": VARCHAR,
}
"""The columns of the table jobs."""


def _mappings(binder: StatementBinder) -> list[Row]:
    return [
        (*position_of(item), item.external_name, item.connector, redacted_options(item.options))
        for item in binder.snapshot
        if isinstance(item, Mapping) and item.connector != VIEW_TYPE
    ]


def _columns(binder: StatementBinder) -> list[Row]:
    return [
        (
            *position_of(item),
            name,
            external_name,
            number,
            nullable(item, name),
            str(sql_type),
            default_of(item, name),
            comments_of(item).get(name.lower()),
            *digits_of(sql_type),
        )
        for item in binder.snapshot
        for number, (name, external_name, sql_type) in enumerate(columns_of(binder, item), 1)
    ]


_BITS = {Kind.REAL: 24, Kind.DOUBLE: 53, **INTEGER_WIDTHS}
"""The precision of types of numbers, in bits."""


def digits_of(kind: SqlType) -> tuple[int | None, int | None]:
    """The digits of a DECIMAL and the digits after its point; the bits of any other number."""
    if kind.kind is Kind.DECIMAL:
        return kind.precision, kind.scale
    bits = _BITS.get(kind.kind)
    return bits, None if bits is None else 0


def comments_of(item: CatalogObject) -> MappingType[str, str]:
    """The comments on columns in lower case, and on the object as ""."""
    if isinstance(item, View):
        return item.comments
    definition = item.definition if isinstance(item, Mapping) else None
    return {} if definition is None else definition.comments


def nullable(item: CatalogObject, column: str) -> str:
    """ "YES" if the column may be NULL, else "NO"."""
    if not isinstance(item, Mapping):
        return "YES"
    definition = item.definition
    is_declared = column.lower() in item.not_null
    return "NO" if is_declared or (definition and not definition.is_nullable(column)) else "YES"


def default_of(item: CatalogObject, column: str) -> str | None:
    """The text of the DEFAULT of a column; None if it has none."""
    definition = item.definition if isinstance(item, Mapping) else None
    return None if definition is None else definition.defaults.get(column.lower())


def columns_of(
    binder: StatementBinder, item: CatalogObject
) -> list[tuple[str, str | None, SqlType]]:
    """Name, external name and type of each column of a table or a view."""
    if not isinstance(item, View):
        return [(c.name, c.external_name, c.type) for c in visible_columns(item.table)]
    return [(field.name, None, field.type) for field in view_fields(binder, item)]


def view_fields(binder: StatementBinder, view: View) -> tuple[Field, ...]:
    """The columns of a view; () if it can no longer be bound."""
    try:
        return binder.view_fields(view)
    except DatabaseError:
        return ()


def _table_type(item: CatalogObject) -> str:
    if isinstance(item, View):
        return "VIEW"
    definition = item.definition if isinstance(item, Mapping) else None
    if definition is not None and definition.is_temporary:
        return "LOCAL TEMPORARY"
    is_maintained = isinstance(item, Mapping) and item.connector == VIEW_TYPE
    return VIEW_KIND.upper() if is_maintained else "BASE TABLE"


def _tables(binder: StatementBinder) -> list[Row]:
    return [
        (
            *position_of(item),
            _table_type(item),
            *(None,) * 5,
            "YES" if _is_insertable(item) else "NO",
            "NO",
            None,
            comments_of(item).get(""),
        )
        for item in binder.snapshot
    ]


def _is_insertable(item: CatalogObject) -> bool:
    return (
        not isinstance(item, View)
        and isinstance(item.table, WritableTable)
        and bool(item.table.write_modes)
    )


def _views(binder: StatementBinder) -> list[Row]:
    return [
        (*position_of(item), item.sql, "NONE", "NO", "NO")
        for item in binder.snapshot
        if isinstance(item, View)
    ]


def _macros(binder: StatementBinder) -> list[Row]:
    texts = binder.snapshot.definitions.values()
    macros = [item for item in texts if item.kind.endswith("macro")]
    found = sorted(macros, key=lambda item: item.key[::-1])
    return [
        (*position_of(item), item.kind.upper(), f"CREATE MACRO {as_written(item.name)}{item.text}")
        for item in found
    ]


def _data_connections(binder: StatementBinder) -> list[Row]:
    return [
        (*position_of(item), item.connector, item.is_shared, redacted_options(item.options), "SQL")
        for item in sorted(binder.snapshot.connections.values(), key=lambda item: item.name.lower())
    ]


def position_of(item: Any) -> tuple[str, str, str]:
    """Catalog, schema and name of an object."""
    schema = getattr(item, "schema", "")
    return *catalog_and_schema(schema), local_name(item.name, schema)


def schema_keys(binder: StatementBinder) -> list[str]:
    """The keys of all schemas: information_schema, public as "", and further ones by name."""
    return [NAME, "", *sorted(set(binder.snapshot.schemas.values()) - {""})]


def _schemata(binder: StatementBinder) -> list[Row]:
    return [(*catalog_and_schema(key), CATALOG) for key in schema_keys(binder)]


def _none(binder: StatementBinder) -> list[Row]:
    """No rows: there are no user-defined types."""
    return []


@frozen
class SchemaDefinition:
    """A table of the schema.

    columns: the names of its columns, separated by spaces.
    rows: computes its rows from the catalog; None: the session of the statement has the rows.
    types: the types of columns that `_TYPES` does not have and that are not VARCHAR.
    source: the table of the session's rows, if it has another name.
    derived: computes the rows from the session's; None: they are the same.
    """

    columns: str
    rows: Callable[[StatementBinder], list[Row]] | None
    types: dict[str, SqlType] = field(default_factory=dict)
    source: str = ""
    derived: Callable[[Sequence[Row]], list[Row]] | None = None


TABLES: dict[str, SchemaDefinition] = {
    "mappings": SchemaDefinition(
        "table_catalog table_schema table_name mapping_external_name mapping_type mapping_options",
        _mappings,
    ),
    "columns": SchemaDefinition(
        "table_catalog table_schema table_name column_name column_external_name ordinal_position "
        "is_nullable data_type column_default column_comment numeric_precision numeric_scale",
        _columns,
    ),
    "tables": SchemaDefinition(
        "table_catalog table_schema table_name table_type self_referencing_column_name "
        "reference_generation user_defined_type_catalog user_defined_type_schema "
        "user_defined_type_name is_insertable_into is_typed commit_action table_comment",
        _tables,
    ),
    "schemata": SchemaDefinition("catalog_name schema_name schema_owner", _schemata),
    "table_constraints": SchemaDefinition(
        f"{_CONSTRAINT} table_catalog table_schema table_name constraint_type is_deferrable "
        "initially_deferred enforced nulls_distinct",
        lambda binder: key_usage.table_constraints(binder.snapshot),
    ),
    "key_column_usage": SchemaDefinition(
        f"{_CONSTRAINT} table_catalog table_schema table_name column_name ordinal_position "
        "position_in_unique_constraint",
        lambda binder: key_usage.key_column_usage(binder.snapshot),
    ),
    "constraint_column_usage": SchemaDefinition(
        f"table_catalog table_schema table_name column_name {_CONSTRAINT}",
        lambda binder: key_usage.constraint_column_usage(binder.snapshot),
    ),
    "referential_constraints": SchemaDefinition(
        f"{_CONSTRAINT} unique_constraint_catalog unique_constraint_schema "
        "unique_constraint_name match_option update_rule delete_rule",
        lambda binder: key_usage.referential_constraints(binder.snapshot),
    ),
    "views": SchemaDefinition(
        "table_catalog table_schema table_name view_definition check_option is_updatable "
        "insertable_into",
        _views,
    ),
    "macros": SchemaDefinition(
        "macro_catalog macro_schema macro_name macro_type macro_definition", _macros
    ),
    "dataconnections": SchemaDefinition(
        "catalog schema name type shared options source", _data_connections
    ),
    "jobs": SchemaDefinition(" ".join(JOBS), None, JOBS),
    "job_metrics": SchemaDefinition(
        "job_id job kind status vertex processor name value",
        None,
        {"job_id": BIGINT, "processor": INTEGER, "value": BIGINT},
    ),
    "plans": SchemaDefinition(
        "query parameter_types uses time_zone is_confined",
        None,
        {"uses": BIGINT, "is_confined": BOOLEAN},
    ),
    "settings": SchemaDefinition("name value default meaning scope", None),
    "routines": SchemaDefinition(
        "routine_catalog routine_schema routine_name routine_type arguments data_type family", None
    ),
    "databases": SchemaDefinition("database_name path is_read_only", None),
    "user_defined_types": SchemaDefinition(
        "user_defined_type_catalog user_defined_type_schema user_defined_type_name "
        "user_defined_type_category is_instantiable is_final ordering_form ordering_category "
        "ordering_routine_catalog ordering_routine_schema ordering_routine_name "
        f"reference_type {_LENGTHS} {_CHARACTERS} {_COLLATION} {_NUMBERS} source_dtd_identifier "
        "ref_dtd_identifier",
        _none,
    ),
    "attributes": SchemaDefinition(
        "udt_catalog udt_schema udt_name attribute_name ordinal_position attribute_default "
        "is_nullable "
        f"{_LENGTHS} {_CHARACTERS} {_COLLATION} {_NUMBERS} attribute_udt_catalog "
        "attribute_udt_schema attribute_udt_name "
        "scope_catalog scope_schema scope_name maximum_cardinality dtd_identifier "
        "is_derived_reference_attribute",
        _none,
    ),
}


class SchemaTable(ReadableTable):
    """A table of information_schema, or a view of another system's catalog."""

    connector = NAME

    def __init__(self, name: str, definition: SchemaDefinition, binder: StatementBinder) -> None:
        self.name = name
        self.columns = tuple(
            TableColumn(column, definition.types.get(column) or _type_of(column))
            for column in definition.columns.split()
        )
        self._definition = definition
        self._binder = binder

    def row_count(self) -> int | None:
        return len(self._binder.snapshot.objects)

    def rows(self, context: JobContext) -> Sequence[Row]:
        """The rows for a statement that runs in this context."""
        definition = self._definition
        if definition.rows is not None:
            return definition.rows(self._binder)
        if context.session_rows is None:
            raise NotSupportedError(
                f"{NAME}.{definition.source or self.name} cannot be read by a job",
                hint="read it with a SELECT, or use the methods of the job in Python",
            )
        found = context.session_rows(definition.source or self.name)
        return found if definition.derived is None else definition.derived(found)

    def scan(self, request: ScanRequest) -> Source:
        return SchemaSource(self, request)


def _type_of(column: str) -> SqlType:
    return INTEGER if column in _OF_NUMBERS else _TYPES.get(column, VARCHAR)


class SchemaSource(Source):
    """A scan of a table of information_schema."""

    def __init__(self, table: SchemaTable, request: ScanRequest) -> None:
        self._table = table
        self._columns = request.columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        rows = self._table.rows(context)
        if not self._columns:
            return [SchemaPartition(empty_columns(len(rows)))]
        chosen = [self._table.columns[i] for i in self._columns]
        arrays = [
            array_of([row[i] for row in rows], column.type)
            for i, column in zip(self._columns, chosen, strict=True)
        ]
        return [
            SchemaPartition(
                pa.RecordBatch.from_arrays(arrays, names=[column.name for column in chosen])
            )
        ]


class SchemaPartition(SourcePartition):
    """A partition whose rows are in memory."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def read(self) -> pa.RecordBatch | End:
        if not self._batch.num_rows:
            return END
        first = self._batch.slice(0, BATCH_ROWS)
        self._batch = self._batch.slice(BATCH_ROWS)
        return first


def schema_table(name: str, binder: StatementBinder, position: Position | None) -> SchemaTable:
    """The table of that name, matched without regard to case."""
    lower = name.lower()
    if lower not in TABLES:
        raise UndefinedTable(
            f'table "{name}" of {NAME} does not exist',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name, TABLES, f"its tables are {', '.join(TABLES)}"),
            position=position,
        )
    # Not the query's own binder, which may be binding a view whose columns are requested.
    return SchemaTable(lower, TABLES[lower], binder.without_statement())
