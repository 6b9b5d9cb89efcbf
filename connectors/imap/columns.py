"""Resolves the columns of a mapping over a map from its formats and its declared columns.

A format only determines types. A type name ('bigint', 'varchar', …) makes the key or the value a
single value: the column `__key` or `this`. 'json' makes it one JSON column. 'json-flat', 'compact',
'portable' and 'java' make it an object whose fields are declared columns: `EXTERNAL NAME "__key.f"`
for a field of the key; every other column is a field of the value, "this.f". With 'java', the class
names of single values (java.lang.Long, …) stand for their types. A key or value with fields has no
column for the whole object.

The declared columns determine a format that is left out: the type of the column `__key` or `this`,
or 'json-flat' for fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runnel.catalog import TableColumn
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.imap.layout import KEY, VALUE, MapLayout, is_key_path
from runnel.connectors.imap.values import KEY_KINDS
from runnel.connectors.options import Option, Options, OptionSet, integer, text
from runnel.errors import ProgrammingError, suggest
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    UUID,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)

KEY_FORMAT = text("keyFormat")
VALUE_FORMAT = text("valueFormat")
KEY_CLASS = text("keyJavaClass")
VALUE_CLASS = text("valueJavaClass")
JOURNAL_CAPACITY = integer("journalCapacity", least=1)
OPTIONS = OptionSet(
    "IMap",
    KEY_FORMAT,
    VALUE_FORMAT,
    KEY_CLASS,
    VALUE_CLASS,
    JOURNAL_CAPACITY,
    # Type names that only a serializer needs. They are accepted, so that statements written for
    # Hazelcast run.
    *(
        text(side + name)
        for side in ("key", "value")
        for name in ("CompactTypeName", "PortableFactoryId")
    ),
    *(
        text(side + name)
        for side in ("key", "value")
        for name in ("PortableClassId", "PortableClassVersion")
    ),
)

SINGLE_FORMATS = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INTEGER,
    "integer": INTEGER,
    "bigint": BIGINT,
    "decimal": decimal(),
    "real": REAL,
    "double": DOUBLE,
    "varchar": VARCHAR,
    "varbinary": VARBINARY,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "timestamp with time zone": TIMESTAMP_TZ,
    "json": JSON,
    "uuid": UUID,
}
FIELD_FORMATS = ("json-flat", "compact", "portable", "java")
JAVA_CLASSES = {
    "java.lang.Boolean": BOOLEAN,
    "java.lang.Byte": TINYINT,
    "java.lang.Short": SMALLINT,
    "java.lang.Integer": INTEGER,
    "java.lang.Long": BIGINT,
    "java.lang.Float": REAL,
    "java.lang.Double": DOUBLE,
    "java.lang.String": VARCHAR,
    "java.math.BigDecimal": decimal(),
    "java.time.LocalDate": DATE,
    "java.time.LocalTime": TIME,
    "java.time.LocalDateTime": TIMESTAMP,
    "java.time.OffsetDateTime": TIMESTAMP_TZ,
}


@dataclass(frozen=True, slots=True)
class Format:
    """The format of the key or the value.

    option: "keyFormat" or "valueFormat".
    text: the value of the option.
    type: the type of the single value; None if there are fields.
    """

    option: str
    text: str
    type: SqlType | None


def resolve_columns(definition: MappingDefinition) -> tuple[tuple[TableColumn, ...], MapLayout]:
    """The columns of a mapping and its layout, which has the paths of the columns in the same
    order.

    ProgrammingError if options and columns contradict each other.
    """
    options = OPTIONS.read(definition.options)
    columns = [(column, _path(column)) for column in definition.columns]
    _check_unique(columns)
    keys = [(column, path) for column, path in columns if is_key_path(path)]
    values = [(column, path) for column, path in columns if not is_key_path(path)]
    key = _format(KEY_FORMAT, options, options.get(KEY_CLASS)) or _derived(KEY_FORMAT, KEY, keys)
    value = _format(VALUE_FORMAT, options, options.get(VALUE_CLASS))
    if value is None and values:
        value = _derived(VALUE_FORMAT, VALUE, values)
    _check_side(keys, KEY, key)
    result = [TableColumn(c.name, c.type, None if path == c.name else path) for c, path in columns]
    paths = [path for _, path in columns]
    declared = bool(columns)
    if not keys and key.type is not None:
        result.insert(0, TableColumn(KEY, key.type, hidden=declared))
        paths.insert(0, KEY)
    if value is not None:
        _check_side(values, VALUE, value)
        if not values and value.type is not None:
            result.append(TableColumn(VALUE, value.type, hidden=declared))
            paths.append(VALUE)
    return tuple(result), MapLayout(tuple(paths), tuple(column.type for column in result))


def _format(option: Option[str], options: Options, java_class: str | None) -> Format | None:
    """The format that the option names; None if the option is left out."""
    declared = options.get(option)
    if declared is None:
        return None
    lower = " ".join(declared.lower().split())
    if lower in SINGLE_FORMATS:
        return Format(option.name, lower, SINGLE_FORMATS[lower])
    if lower in FIELD_FORMATS:
        known = JAVA_CLASSES.get(java_class or "") if lower == "java" else None
        return Format(option.name, lower, known)
    names = [*SINGLE_FORMATS, *FIELD_FORMATS]
    raise ProgrammingError(
        f"unsupported serialization format '{declared}' in option \"{option.name}\"",
        hint=suggest(declared, names, "the formats are " + ", ".join(names)),
    )


def _derived(
    option: Option[str], whole: str, columns: Sequence[tuple[ColumnDefinition, str]]
) -> Format:
    """The format that the declared columns of the key or the value determine."""
    if not columns:
        raise ProgrammingError(
            "the mapping has no key",
            hint=f'declare the key as a column named "{KEY}", its fields with EXTERNAL NAME '
            f"\"{KEY}.<field>\", or name its type in OPTIONS ('{option.name}' = 'bigint')",
        )
    single = next((column.type for column, path in columns if path == whole), None)
    name = FIELD_FORMATS[0] if single is None else str(single).lower()
    return Format(option.name, name, single)


def _path(column: ColumnDefinition) -> str:
    """The path of a declared column."""
    external = column.external_name
    if external is None:
        return (
            column.name.lower() if column.name.lower() in (KEY, VALUE) else f"{VALUE}.{column.name}"
        )
    side, dot, field = external.partition(".")
    if side.lower() in (KEY, VALUE) and (not dot or (field and "." not in field)):
        return side.lower() + dot + field
    raise ProgrammingError(
        f'invalid external name "{external}" of column "{column.name}"',
        hint=f'use "{KEY}", "{VALUE}", "{KEY}.<field>" or "{VALUE}.<field>"',
    )


def _check_unique(columns: Sequence[tuple[ColumnDefinition, str]]) -> None:
    names: set[str] = set()
    paths: dict[str, str] = {}
    for column, path in columns:
        if column.name.lower() in names:
            raise ProgrammingError(f'column "{column.name}" is declared twice')
        names.add(column.name.lower())
        other = paths.setdefault(path, column.name)
        if other != column.name:
            raise ProgrammingError(
                f'columns "{other}" and "{column.name}" have the same external name "{path}"'
            )


def _check_side(
    columns: Sequence[tuple[ColumnDefinition, str]], whole: str, declared: Format
) -> None:
    """Checks the declared columns of the key or the value against its format."""
    if whole == KEY:
        for column, _ in columns:
            if column.type.kind not in KEY_KINDS:
                raise ProgrammingError(
                    f'column "{column.name}" can\'t be a key, as its type is {column.type}'
                )
    fields = [column for column, path in columns if path != whole]
    if declared.type is None:
        if not fields:
            raise _no_fields(whole, declared)
        for column, path in columns:
            if path == whole:
                raise ProgrammingError(
                    f'column "{column.name}" is the whole of "{whole}", which has fields by '
                    f"{declared.option} '{declared.text}'",
                    hint=f"name a type in {declared.option}, or leave the column out",
                )
        return
    if fields:
        raise ProgrammingError(
            f'column "{fields[0].name}" is a field of "{whole}", which is a single value by '
            f"{declared.option} '{declared.text}'",
            hint=f"use {declared.option} 'json-flat' for an object with fields",
        )
    for column, _ in columns:
        if not _same(column.type, declared.type):
            raise ProgrammingError(
                f'column "{column.name}" is {column.type}, '
                f"but {declared.option} '{declared.text}' is {declared.type}",
                hint=f"declare the column as {declared.type}, or change {declared.option}",
            )


def _same(declared: SqlType, actual: SqlType) -> bool:
    return declared == actual or (declared.kind is Kind.DECIMAL and actual.kind is Kind.DECIMAL)


def _no_fields(whole: str, declared: Format) -> ProgrammingError:
    what = f'EXTERNAL NAME "{KEY}.<field>"' if whole == KEY else "a name and a type"
    return ProgrammingError(
        f'a column list with the fields of "{whole}" is required for {declared.option} '
        f"'{declared.text}'",
        hint=f"declare each field as a column with {what}, or name a type in {declared.option}",
    )
