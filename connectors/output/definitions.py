"""The checks of CREATE MAPPING that sinks without stored rows share."""

from __future__ import annotations

from runnel.catalog import TableColumn
from runnel.connector import MappingDefinition
from runnel.errors import NotSupportedError, ProgrammingError, as_written


def declared_columns(definition: MappingDefinition, connector: str) -> tuple[TableColumn, ...]:
    """The declared columns; an error without columns, and for names that have no meaning here."""
    if definition.external_name is not None:
        raise ProgrammingError(
            f"a {connector} mapping has no external name", hint="leave EXTERNAL NAME out"
        )
    if definition.object_type is not None:
        raise NotSupportedError(
            f'connector {connector} has no object type "{definition.object_type}"'
        )
    if not definition.columns:
        name = as_written(definition.name)
        raise ProgrammingError(
            f'mapping "{definition.name}" needs columns',
            hint=f"declare them: CREATE MAPPING {name} (column type, …) TYPE {connector}",
        )
    for column in definition.columns:
        if column.external_name is not None:
            raise ProgrammingError(
                f'column "{column.name}" of a {connector} mapping has no external name',
                hint="leave EXTERNAL NAME out",
            )
    return tuple(TableColumn(column.name, column.type) for column in definition.columns)
