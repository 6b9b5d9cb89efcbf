"""Binding of 'onError' = 'divert:mapping': the output for records that a source can't read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.connector import ReadableTable, SinkRequest, WritableTable, WriteMode
from runnel.errors import Position, ProgrammingError
from runnel.planner.bind.write import writable
from runnel.planner.parse.syntax import Name
from runnel.processors.sources.malformed_records import FIELDS
from runnel.relation.nodes import MalformedOutput
from runnel.sqltypes import VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

START = Position(1, 1, 0)


def malformed_output_of(
    binder: StatementBinder, table: ReadableTable, position: Position | None
) -> MalformedOutput:
    """The output for a table's malformed records. Columns of the mapping match by name; other
    columns become NULL."""
    assert table.malformed_target is not None
    name = Name(table.malformed_target, position or START)
    found = binder.lookup(name.text, name.position)
    target = getattr(found, "table", None)
    modes = (
        target.write_modes if isinstance(target, WritableTable) else frozenset((WriteMode.INSERT,))
    )
    mode = WriteMode.SINK if WriteMode.SINK in modes else WriteMode.INSERT
    written = writable(binder, name, mode)
    indexes, fields = [], []
    for index, column in enumerate(written.columns):
        if column.name.lower() in FIELDS:
            if column.type != VARCHAR:
                raise ProgrammingError(
                    f'column "{column.name}" of "{name.text}", the mapping for malformed records '
                    f'of "{table.name}", must be '
                    f"VARCHAR, not {column.type}",
                    position=position,
                )
            indexes.append(index)
            fields.append(column.name.lower())
    if not fields:
        raise ProgrammingError(
            f'"{name.text}", the mapping for malformed records of "{table.name}", '
            "has no column for them",
            hint='declare some of the VARCHAR columns "place", "record" and "reason" in it',
            position=position,
        )
    return MalformedOutput(written, SinkRequest(mode, tuple(indexes)), tuple(fields))
