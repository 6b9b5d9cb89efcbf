"""Options and columns that mappings of all table formats share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.files.format import external_name, match_names
from runnel.connectors.options import Option, Options, boolean, choice, integer, text
from runnel.errors import NotSupportedError, OperationalError, ProgrammingError, as_written, suggest
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType, can_cast, from_arrow, to_arrow

FOLLOW = boolean("follow", False)
POLL_MILLIS = integer("pollMillis", 100, least=1, most=3_600_000)
ON_CHANGE = choice("onChange", ("fail", "skip", "additions"), "fail")
CREATE = boolean("create", False)
PARTITION_BY = text("partitionBy")


def is_followed(options: Options) -> bool:
    """Whether the mapping follows the table; ProgrammingError for an option that needs 'follow'."""
    if options.require(FOLLOW):
        return True
    for option in (POLL_MILLIS, ON_CHANGE):
        if options.is_set(option):
            raise ProgrammingError(
                f'option "{option.name}" is for tables that are followed',
                hint="add 'follow' = 'true'",
            )
    return False


def instant(name: str) -> Option[datetime]:
    """A point in time in ISO 8601, in UTC unless it has an offset."""

    def parse(value: str) -> datetime:
        found = datetime.fromisoformat(value.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found

    return Option(
        name, parse, "a timestamp such as '2024-01-31 12:00:00' or '2024-01-31T12:00:00+01:00'"
    )


def names_in(options: Options, option: Option[str]) -> tuple[str, ...]:
    """The comma-separated names in an option; () without the option."""
    given = options.get(option)
    return () if given is None else tuple(name.strip() for name in given.split(",") if name.strip())


def new_columns(
    definition: MappingDefinition, partition_by: Sequence[str], what: str
) -> list[tuple[str, SqlType]]:
    """The columns of a table to be created: the declared columns of the mapping.

    `what` is the table's name in errors.
    """
    if not definition.columns:
        raise ProgrammingError(
            f"{what} can't be created without columns",
            hint=f"declare them: CREATE MAPPING {as_written(definition.name)} (column type, …) …",
        )
    names = [item.external_name or item.name for item in definition.columns]
    for name in partition_by:
        if name not in names:
            raise ProgrammingError(
                f'column "{name}" of option "partitionBy" is not declared',
                hint=suggest(name, names),
            )
    return [(name, item.type) for name, item in zip(names, definition.columns, strict=True)]


def check_storable(
    columns: Sequence[tuple[str, SqlType]], kinds: Sequence[Kind], tables: str
) -> None:
    """NotSupportedError if a column, or a type nested in it, is of one of these kinds, which
    `tables` do not support."""
    for name, kind in columns:
        if _has(kind, kinds):
            raise NotSupportedError(f'column "{name}": {tables} have no type {kind}')


def _has(kind: SqlType, kinds: Sequence[Kind]) -> bool:
    inner = [item for item in (kind.element, kind.key) if item is not None] + [
        item for _, item in kind.fields
    ]
    return kind.kind in kinds or any(_has(item, kinds) for item in inner)


@dataclass(frozen=True, slots=True)
class LakeSchema:
    """The columns of a table in its metadata.

    schema: the columns.
    title: the table's name in errors.
    """

    schema: pa.Schema
    title: str

    def type_of(self, name: str) -> SqlType:
        field = self.schema.field(name)
        try:
            return from_arrow(field.type)
        except NotSupportedError as error:
            raise NotSupportedError(f'column "{name}" of {self.title}: {error.message}') from None

    def columns(self, declared: Sequence[ColumnDefinition]) -> tuple[TableColumn, ...]:
        """The columns of a mapping: the declared ones, checked, or else all columns of the
        table."""
        names = self.schema.names
        if not declared:
            return tuple(TableColumn(name, self.type_of(name)) for name in names)
        found = []
        for item in declared:
            wanted = item.external_name or item.name
            [place] = match_names([wanted], names)
            if place is None:
                raise ProgrammingError(
                    f'column "{wanted}" is not in {self.title}',
                    hint=suggest(wanted, names, "its columns are " + ", ".join(names)),
                )
            own = self.type_of(names[place])
            if not can_cast(own, item.type):
                raise ProgrammingError(
                    f'column "{item.name}" is declared as {item.type}, but is {own} in {self.title}'
                )
            external = item.external_name if names[place] == item.name else names[place]
            found.append(TableColumn(item.name, item.type, external))
        return tuple(found)

    def check_unchanged(self, now: pa.Schema, columns: Sequence[TableColumn]) -> None:
        """Fails if a column of a mapping has changed since the mapping was opened."""
        for column in columns:
            name = external_name(column)
            was = self.schema.field(name)
            place = now.get_field_index(name)
            if place >= 0 and now.field(place).type == was.type:
                continue
            how = "is gone" if place < 0 else f"is {now.field(place).type} now and was {was.type}"
            raise OperationalError(
                f"the columns of {self.title} were changed since CREATE MAPPING",
                detail=f'column "{name}" {how}',
                hint="CREATE OR REPLACE MAPPING adopts the current columns",
            )

    def check_writable(self, columns: Sequence[TableColumn], *, widens: bool = False) -> None:
        """Fails if the table's columns cannot store rows of a mapping's types.

        `widens`: integers may be narrower than the table's.
        """
        for column in columns:
            own = self.type_of(external_name(column))
            if widens and INTEGER_WIDTHS.get(column.type.kind, 99) <= INTEGER_WIDTHS.get(
                own.kind, 0
            ):
                continue
            if to_arrow(own) != to_arrow(column.type):
                raise ProgrammingError(
                    f"rows can't be written to {self.title}: "
                    f'column "{column.name}" is {own} there, and declared as {column.type}',
                    hint=f"declare it as {own}",
                )
