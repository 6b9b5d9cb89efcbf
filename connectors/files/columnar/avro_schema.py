"""Avro schemas: the columns of a schema, a schema of some fields, and the schema of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.format import external_name
from runnel.connectors.packages import required
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.expressions.kernels.values import python_values
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_PRECISION,
    NULL,
    REAL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    UUID,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    array,
    common_type,
    decimal,
    map_of,
    row,
)

_PRIMITIVE = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": REAL,
    "double": DOUBLE,
    "bytes": VARBINARY,
    "string": VARCHAR,
}
_LOGICAL = {
    "date": DATE,
    "time-millis": TIME,
    "time-micros": TIME,
    "timestamp-millis": TIMESTAMP_TZ,
    "timestamp-micros": TIMESTAMP_TZ,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
    "uuid": UUID,
}
_WRITTEN: Mapping[Kind, Any] = {
    Kind.NULL: "null",
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "int",
    Kind.SMALLINT: "int",
    Kind.INTEGER: "int",
    Kind.BIGINT: "long",
    Kind.REAL: "float",
    Kind.DOUBLE: "double",
    Kind.VARBINARY: "bytes",
    Kind.VARCHAR: "string",
    Kind.JSON: "string",
    Kind.UUID: {"type": "string", "logicalType": "uuid"},
    Kind.DATE: {"type": "int", "logicalType": "date"},
    Kind.TIME: {"type": "long", "logicalType": "time-micros"},
    Kind.TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    Kind.TIMESTAMP_TZ: {"type": "long", "logicalType": "timestamp-micros"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def fastavro_package() -> Any:
    """The package fastavro."""
    return required("fastavro.schema", "format avro", "avro")


def columns_of_schema(schema: Any, path: str) -> list[tuple[str, SqlType]]:
    """The fields of the records with their types; NotSupportedError names a field without an SQL
    type."""
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        kind = schema.get("type") if isinstance(schema, dict) else schema
        raise NotSupportedError(
            f'file "{path}" doesn\'t hold records but values of type {kind}',
            hint="only Avro files of records are tables",
        )
    reader = _Types(schema)
    columns = []
    for field in schema["fields"]:
        try:
            columns.append((field["name"], reader.type_of(field["type"])))
        except NotSupportedError as error:
            raise NotSupportedError(
                f'column "{field["name"]}" of file "{path}": {error.message}'
            ) from None
    return columns


class _Types:
    """Maps the types of one schema to SQL types; a name refers to the type that it was defined
    for."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._learn(schema)

    def _learn(self, schema: Any) -> None:
        if isinstance(schema, list):
            for item in schema:
                self._learn(item)
        elif isinstance(schema, dict):
            name = schema.get("name")
            if name is not None and schema["type"] in ("record", "error", "enum", "fixed"):
                self._named[name] = schema
            for field in schema.get("fields", ()):
                self._learn(field["type"])
            for key in ("items", "values"):
                self._learn(schema.get(key))

    def type_of(self, schema: Any) -> SqlType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            known = _PRIMITIVE.get(schema)
            return known if known is not None else self._named_type(schema)
        return self._complex(schema)

    def _union(self, branches: Sequence[Any]) -> SqlType:
        merged = NULL
        for branch in branches:
            item = self.type_of(branch)
            found = common_type(merged, item)
            if found is None:
                raise NotSupportedError(f"a union of {merged} and {item} has no SQL type")
            merged = found
        return merged

    def _named_type(self, name: str) -> SqlType:
        schema = self._named.get(name)
        if schema is None:
            raise NotSupportedError(f'Avro type "{name}" is not supported')
        if name in self._open:
            raise NotSupportedError(f'Avro type "{name}" contains itself')
        return self._complex(schema)

    def _complex(self, schema: dict[str, Any]) -> SqlType:
        kind = schema["type"]
        logical = schema.get("logicalType")
        if logical == "decimal":
            precision = schema["precision"]
            if precision > MAX_PRECISION:
                raise NotSupportedError(f"a decimal of {precision} digits is not supported")
            return decimal(precision, schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind == "array":
            return array(self.type_of(schema["items"]))
        if kind == "map":
            return map_of(VARCHAR, self.type_of(schema["values"]))
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return VARCHAR
        if kind == "fixed":
            return VARBINARY
        return self.type_of(kind)

    def _record(self, schema: dict[str, Any]) -> SqlType:
        name = schema["name"]
        if name in self._open:
            raise NotSupportedError(f'Avro type "{name}" contains itself')
        self._open.add(name)
        try:
            return row(
                *((field["name"], self.type_of(field["type"])) for field in schema["fields"])
            )
        finally:
            self._open.discard(name)


def narrowed(schema: Any, names: Sequence[str]) -> Any:
    """The schema for a reader that decodes only the fields `names`; None if all are to be
    decoded."""
    if set(names) == {field["name"] for field in schema["fields"]}:
        return None
    retained = [field for field in schema["fields"] if field["name"] in names]
    if any(_refers(field["type"]) for field in retained):
        # A name that a field refers to may be defined in a field that is left out.
        return None
    return {key: value for key, value in schema.items() if not key.startswith("__")} | {
        "fields": retained
    }


def _refers(schema: Any) -> bool:
    """Whether a schema uses a name that is defined elsewhere."""
    if isinstance(schema, str):
        return schema not in _PRIMITIVE
    if isinstance(schema, list):
        return any(map(_refers, schema))
    if not isinstance(schema, dict):
        return False
    if any(_refers(field["type"]) for field in schema.get("fields", ())):
        return True
    return any(_refers(schema[key]) for key in ("items", "values") if key in schema)


def record_schema(columns: Sequence[TableColumn]) -> tuple[list[str], dict[str, Any]]:
    """The fields' names, and the schema of new files with these columns, all of which may be
    null."""
    fields = []
    names = [external_name(column) for column in columns]
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        if _NAME.fullmatch(name) is None:
            raise ProgrammingError(
                f'column "{name}" can\'t be written in format avro',
                detail="names have letters, digits and underscores there",
                hint="give the column an EXTERNAL NAME",
            )
        fields.append(
            {"name": name, "type": ["null", _schema_of(column.type, f"r{number}")], "default": None}
        )
    return names, {"type": "record", "name": "row", "namespace": "runnel", "fields": fields}


def _schema_of(sql_type: SqlType, path: str) -> Any:
    """The schema of a type; `path` makes the names of its records unique."""
    kind = sql_type.kind
    if kind is Kind.DECIMAL:
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": sql_type.precision,
            "scale": sql_type.scale,
        }
    if kind is Kind.ARRAY and sql_type.element is not None:
        return {"type": "array", "items": ["null", _schema_of(sql_type.element, path + "_e")]}
    if kind is Kind.MAP and sql_type.element is not None and sql_type.key == VARCHAR:
        return {"type": "map", "values": ["null", _schema_of(sql_type.element, path + "_v")]}
    if kind is Kind.ROW:
        fields = [
            {"name": name, "type": ["null", _schema_of(item, f"{path}_{i}")], "default": None}
            for i, (name, item) in enumerate(sql_type.fields)
        ]
        return {"type": "record", "name": path, "fields": fields}
    known = _WRITTEN.get(kind)
    if known is None:
        raise NotSupportedError(
            f"a column of type {sql_type} can't be written in format avro",
            hint="CAST it to VARCHAR",
        )
    return known


def to_record_values(values: pa.Array, sql_type: SqlType) -> list[Any]:
    """The values of a column as fastavro accepts them."""
    return python_values(values, sql_type)
