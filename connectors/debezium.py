"""Logs of changes in Debezium's envelope: 'changes' = 'debezium'.

An event is a record with the row before and the row after the change and the operation:
`{"before": {…}, "after": {…}, "op": "u"}`. With the schemas of Kafka Connect the envelope is the
field `payload` of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runnel.catalog import TableColumn
from runnel.connector import ColumnDefinition, MappingDefinition, ReadableTable
from runnel.connectors.options import Option, Options, boolean, choice, text
from runnel.errors import NotSupportedError, ProgrammingError, suggest
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.relation.changing_tables import ChangingTable, EventLog, OnInconsistency
from runnel.sqltypes import VARCHAR, Kind, SqlType

CHANGE_KEY = text("changeKey")
ON_INCONSISTENCY = choice("onInconsistency", ("fail", "skip", "trust"), "fail")
HAS_SCHEMA = boolean("envelopeHasSchema", False)
LOG_OPTIONS: tuple[Option[Any], ...] = (CHANGE_KEY, ON_INCONSISTENCY, HAS_SCHEMA)
"""The options of a mapping with 'changes' = 'debezium'."""

BEFORE, AFTER, OPERATION, PAYLOAD = "before", "after", "op", "payload"


def envelope(definition: MappingDefinition, *, has_schema: bool) -> MappingDefinition:
    """The mapping of the events, for the mapping of a table. ProgrammingError without columns."""
    _check(definition)
    row = SqlType(Kind.ROW, fields=tuple((_field(item), item.type) for item in definition.columns))
    parts: tuple[tuple[str, SqlType], ...] = ((BEFORE, row), (AFTER, row), (OPERATION, VARCHAR))
    if has_schema:
        parts = ((PAYLOAD, SqlType(Kind.ROW, fields=parts)),)
    columns = tuple(ColumnDefinition(name, kind) for name, kind in parts)
    return replace(definition, columns=columns, computed=())


def _check(definition: MappingDefinition) -> None:
    if not definition.columns:
        raise ProgrammingError(
            f'the columns of "{definition.name}" must be declared, as it has changes',
            hint="list the columns of the table, without the fields of the envelope",
        )
    if definition.watermark is not None:
        raise NotSupportedError(
            f'WATERMARK of "{definition.name}" is not supported, as rows of it change',
            hint="leave it out: a row may be replaced however old it is",
        )


def _field(column: ColumnDefinition) -> str:
    return (column.external_name or column.name).removeprefix("this.")


def changing_table(
    definition: MappingDefinition,
    options: Options,
    events: ReadableTable,
    source: str,
    location: Mapping[str, str] | None = None,
    tombstone: str | None = None,
) -> ChangingTable:
    """The table of a mapping whose events are read by `events`.

    source: the log in words.
    location: columns of `events` that say where an event is, and their names.
    tombstone: the BOOLEAN column of `events` that marks messages that are no events.
    """
    columns = {item.name: (i, item.type) for i, item in enumerate(events.columns)}

    def column(name: str) -> Expression:
        index, kind = columns[name]
        return Column(index=index, name=name, type=kind)

    def part(name: str) -> Expression:
        return _of(column(PAYLOAD), name) if PAYLOAD in columns else column(name)

    before, after = part(BEFORE), part(AFTER)
    fields = [_field(item) for item in definition.columns]
    log = EventLog(
        operation=part(OPERATION),
        after=tuple(_of(after, name) for name in fields),
        before=tuple(_of(before, name) for name in fields),
        has_after=build.call("is_not_null", [after]),
        has_before=build.call("is_not_null", [before]),
        key=_key(definition, options.get(CHANGE_KEY)),
        on_inconsistency=OnInconsistency(options.require(ON_INCONSISTENCY)),
        source=source,
        location=tuple((columns[name][0], shown) for name, shown in (location or {}).items()),
        is_event=None if tombstone is None else build.call("not", [column(tombstone)]),
    )
    declared = tuple(TableColumn(item.name, item.type) for item in definition.columns)
    return ChangingTable(definition.name, events.connector, declared, events, log)


def _of(row: Expression, field: str) -> Expression:
    return build.call("field", [row, Literal(value=field, type=VARCHAR)])


def _key(definition: MappingDefinition, names: str | None) -> tuple[int, ...] | None:
    """The indexes of the columns that option 'changeKey' names."""
    if names is None:
        return None
    places = {item.name.lower(): i for i, item in enumerate(definition.columns)}
    key = []
    for name in names.split(","):
        index = places.get(name.strip().lower())
        if index is None:
            known = [item.name for item in definition.columns]
            raise ProgrammingError(
                f'option "changeKey" names "{name.strip()}", which is no column',
                hint=suggest(name.strip(), known, "separate the names of columns by commas"),
            )
        key.append(index)
    return tuple(dict.fromkeys(key))


def check_unused(options: Options) -> None:
    """ProgrammingError if options of a log are set without 'changes' = 'debezium'."""
    for option in LOG_OPTIONS:
        if options.is_set(option):
            raise ProgrammingError(
                f"option \"{option.name}\" is for 'changes' = 'debezium'", hint="leave it out"
            )
