"""The statements that create catalog objects again, which GET_DDL returns. All names are quoted."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.schemas import VIEW_TYPE, database_of, local_name, schema_key
from runnel.catalog import (
    CatalogObject,
    DataConnection,
    Mapping,
    Snapshot,
    Table,
    View,
    WatermarkClause,
    readable_columns,
)
from runnel.columns.table_definition import IdentityColumn, TableDefinition
from runnel.errors import ErrorCode, Position, ProgrammingError, UndefinedTable, suggest
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.explain.redaction import without_secrets
from runnel.sqltypes import VARCHAR, Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.parse.flink.written import Clauses

_QUALIFIERS = ("", "public.", "runnel.public.")
_BEFORE = {"relation": _QUALIFIERS, "mapping": _QUALIFIERS, "dataconnection": ("",)}
"""The qualifiers that may precede a name, by kind of object, in lower case. The kind mapping is
relation, except for a table of Flink: the mapping that stands for it."""


def mapping_ddl(mapping: Mapping, *, as_mapping: bool = False) -> str:
    """CREATE MAPPING with the columns that the mapping has now; CREATE TABLE for a table, also of
    Flink unless `as_mapping`; the statement as it was written for a materialized view."""
    if mapping.definition is not None:
        return _table_ddl(mapping, mapping.definition)
    if mapping.connector == VIEW_TYPE:
        return mapping.options["text"]
    if mapping.flink_text is not None and not as_mapping:
        is_temporary = mapping.is_temporary and not database_of(mapping.schema)
        head = f"CREATE {'TEMPORARY ' if is_temporary else ''}TABLE {qualified(mapping)}"
        return _written(mapping.flink_text).shown(head)
    lines = [f"CREATE OR REPLACE MAPPING {qualified(mapping)}"]
    if mapping.external_name is not None:
        parts = mapping.external_name.split(".")
        lines.append("EXTERNAL NAME " + ".".join(map(quoted, parts)))
    texts = []
    for column in mapping.table.columns:
        if column.hidden:
            continue
        external = (
            ""
            if column.external_name is None
            else " EXTERNAL NAME " + _external(column.external_name)
        )
        not_null = " NOT NULL" if column.name.lower() in mapping.not_null else ""
        texts.append(f"  {quoted(column.name)} {type_text(column.type)}{external}{not_null}")
    for item in mapping.table.computed:
        texts.insert(item.index, f"  {quoted(item.name)} AS {item.text}")
    if mapping.watermark is not None:
        texts.append(f"  {_watermark(mapping.watermark)}")
    if texts:
        lines += ["(", ",\n".join(texts), ")"]
    if mapping.data_connection is not None:
        lines.append(f"DATA CONNECTION {quoted(mapping.data_connection)}")
    else:
        lines.append(f"TYPE {quoted(mapping.connector)}")
    if mapping.object_type is not None:
        lines.append(f"OBJECT TYPE {quoted(mapping.object_type)}")
    return "\n".join(lines + _options(mapping.options))


def _written(text: str) -> Clauses:
    """The clauses of a table of Flink as they were typed."""
    # Loaded on first use: many databases have no such table.
    from runnel.planner.parse.flink.written import read_written

    return read_written(text)


def _table_ddl(mapping: Mapping, definition: TableDefinition) -> str:
    temporary = "TEMP " if definition.is_temporary else ""
    body = ",\n".join(f"  {text}" for text in table_items(mapping, definition))
    return f"CREATE {temporary}TABLE {qualified(mapping)} (\n{body}\n)"


def table_items(mapping: Mapping, definition: TableDefinition) -> list[str]:
    """The columns and constraints of CREATE TABLE."""
    texts = []
    for column in mapping.table.columns:
        if column.hidden:
            continue
        default = definition.defaults.get(column.name.lower())
        text = f"{quoted(column.name)} {type_text(column.type)}"
        computed = definition.computed.get(column.name.lower())
        identity = definition.identities.get(column.name.lower())
        if computed is not None:
            text += f" GENERATED ALWAYS AS ({computed})"
        elif identity is not None:
            text += f" GENERATED {_identity(identity)}"
        elif default is not None:
            text += f" DEFAULT {default}"
        texts.append(text + (" NOT NULL" if column.name.lower() in definition.not_null else ""))
    for key in definition.keys:
        kind = "PRIMARY KEY" if key.is_primary else "UNIQUE"
        texts.append(f"{kind} ({', '.join(map(quoted, key.columns))})")
    texts += [f"CHECK ({text})" for text in definition.checks]
    for foreign in definition.foreign_keys:
        columns, other = (", ".join(map(quoted, n)) for n in (foreign.columns, foreign.referenced))
        target = ".".join(map(quoted, foreign.table.split(".")))
        texts.append(f"FOREIGN KEY ({columns}) REFERENCES {target} ({other})")
    return texts


def _identity(identity: IdentityColumn) -> str:
    numbers = f" (START {identity.start} INCREMENT {identity.increment})"
    has_numbers = (identity.start, identity.increment) != (1, 1)
    always = "ALWAYS" if identity.is_always else "BY DEFAULT"
    return f"{always} AS IDENTITY" + (numbers if has_numbers else "")


def _watermark(clause: WatermarkClause) -> str:
    name = quoted(clause.column)
    return f"WATERMARK FOR {name} AS {_lag(name, clause.lag, clause.is_interval)}"


def _lag(name: str, lag: int, is_interval: bool) -> str:
    if not lag:
        return name
    whole, fraction = divmod(lag, 1_000_000)
    seconds = f"{whole}.{fraction:06}".rstrip("0") if fraction else str(whole)
    return f"{name} - " + (f"INTERVAL '{seconds}' SECOND" if is_interval else str(lag))


def watermark_of(table: Table, column: int) -> str | None:
    """The text of DESCRIBE for the watermark of a column: its lag, and when a partition counts as
    idle. None if the column has no watermark."""
    times = table.event_time
    if times is None or times.column != column:
        return None
    # Loaded on first use: few tables have one.
    from runnel.processors.sources.partition_watermarks import IDLE_TIMEOUT

    time = readable_columns(table)[column]
    idle = IDLE_TIMEOUT if times.idle_timeout is None else times.idle_timeout
    return f"{_lag(time.name, times.lag, time.type.is_temporal)}, " + (
        f"idle after {idle} ms" if idle else "never idle"
    )


def view_ddl(view: View) -> str:
    """CREATE VIEW with the query as it was written."""
    columns = f" ({', '.join(map(quoted, view.columns))})" if view.columns else ""
    temporary = "TEMPORARY " if view.temporary else ""
    return f"CREATE OR REPLACE {temporary}VIEW {qualified(view)}{columns} AS\n{view.sql}"


def connection_ddl(connection: DataConnection) -> str:
    """CREATE DATA CONNECTION."""
    shared = "SHARED" if connection.is_shared else "NOT SHARED"
    lines = [
        f"CREATE OR REPLACE DATA CONNECTION {quoted(connection.name)}",
        f"TYPE {quoted(connection.connector)}",
        shared,
    ]
    return "\n".join(lines + _options(connection.options))


def get_ddl(
    snapshot: Snapshot,
    arguments: list[Expression],
    position: Position | None,
    *,
    hides_secrets: bool = False,
) -> Expression:
    """The expression of GET_DDL(kind, name [, schema]).

    It is a text if `name` is a literal. Otherwise it is a CASE over the names of all objects, NULL
    for another name. Schema and catalog may precede the name of a relation.

    arguments: the arguments of the call.
    position: position of the call in the statement.
    hides_secrets: whether to hide the values of options that grant access to other systems.
    """
    if len(arguments) not in (2, 3):
        raise ProgrammingError(
            f"GET_DDL expects 2 or 3 arguments, not {len(arguments)}",
            hint="GET_DDL('relation', name) or GET_DDL('dataconnection', name)",
            position=position,
        )
    kind, name = arguments[:2]
    for argument in arguments:
        if argument.type != VARCHAR:
            raise ProgrammingError(
                f"GET_DDL expects VARCHAR, not {argument.type}",
                position=argument.position or position,
            )
    if not isinstance(kind, Literal) or str(kind.value).lower() not in _BEFORE:
        raise ProgrammingError(
            "the first argument of GET_DDL is the kind of the object",
            hint="it accepts 'relation', 'mapping' or 'dataconnection'",
            position=kind.position or position,
        )
    texts = _texts(snapshot, str(kind.value).lower(), hides_secrets)
    if isinstance(name, Literal):
        written = str(name.value)
        found = snapshot.find(written) if str(kind.value).lower() != "dataconnection" else None
        if found is not None and found.name in texts:
            return _text(texts[found.name])
        return _one(texts, str(kind.value).lower(), written, name.position or position)
    lower = build.call("LOWER", [name], position)
    # The unqualified name is last, and wins: an object may be named "public.t".
    kinds = reversed(_BEFORE[str(kind.value).lower()])
    known = {f"{before}{item.lower()}": text for before in kinds for item, text in texts.items()}
    if not known:
        return Literal(value=None, type=VARCHAR, position=position)
    conditions = [build.call("eq", [lower, _text(item)], position) for item in known]
    return build.case(conditions, [_text(text) for text in known.values()], None, position)


def _texts(snapshot: Snapshot, kind: str, hides_secrets: bool) -> dict[str, str]:
    if kind == "dataconnection":
        connections = snapshot.connections.values()
        return {
            item.name: connection_ddl(public(item) if hides_secrets else item)
            for item in connections
        }
    found = {}
    for item in snapshot:
        if isinstance(item, Mapping):
            shown = public_mapping(item) if hides_secrets else item
            found[item.name] = mapping_ddl(shown, as_mapping=kind == "mapping")
        elif isinstance(item, View):
            found[item.name] = view_ddl(item)
    return found


def public(item: DataConnection) -> DataConnection:
    """The connection without the values of options that grant access to other systems."""
    return replace(item, options=without_secrets(item.options))


def public_mapping(item: Mapping) -> Mapping:
    """The mapping without the values of options that grant access to other systems."""
    text = item.flink_text
    if text is not None:
        written = _written(text)
        options = without_secrets(written.options, of_flink=True)
        text = replace(written, options=options).text(item.name)
    return replace(item, options=without_secrets(item.options), flink_text=text)


def _one(texts: dict[str, str], kind: str, name: str, position: Position | None) -> Expression:
    found = {item.lower(): text for item, text in texts.items()}
    for before in _BEFORE[kind]:
        if name.lower().startswith(before) and name.lower()[len(before) :] in found:
            return _text(found[name.lower()[len(before) :]])
    *qualifiers, last = name.split(".")
    if kind != "dataconnection" and len(qualifiers) in (1, 2):
        schema_key({}, (), ("".join(qualifiers[:-1]), qualifiers[-1]), position)
        name = last
    what = "data connection" if kind == "dataconnection" else "mapping or view"
    raise UndefinedTable(
        f'{what} "{name}" not found',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(name, texts),
        position=position,
    )


def _text(value: str) -> Literal:
    return Literal(value=value, type=VARCHAR)


def qualified(item: CatalogObject) -> str:
    """The name of an object as DDL has it, with its schema unless that is public."""
    before = "".join(f"{quoted(part)}." for part in item.schema.split(".") if part)
    return before + quoted(local_name(item.name, item.schema))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def type_text(sql_type: SqlType) -> str:
    """A type as a column definition has it."""
    if sql_type.kind is Kind.ROW:
        return (
            "ROW("
            + ", ".join(f"{quoted(name)} {type_text(item)}" for name, item in sql_type.fields)
            + ")"
        )
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return f"{type_text(sql_type.element)}[]"
    if sql_type.kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
        return f"MAP({type_text(sql_type.key)}, {type_text(sql_type.element)})"
    return str(sql_type)


def _external(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))


def _options(options: MappingType[str, str]) -> list[str]:
    if not options:
        return []
    items = [f"  {_literal(name)} = {_literal(value)}" for name, value in options.items()]
    return ["OPTIONS (", ",\n".join(items), ")"]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
