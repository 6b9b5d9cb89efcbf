"""The constraints and the computed values of a table of CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from runnel.base.frozen import frozen

_DRAWN = re.compile(r"\b(?:nextval|currval)\s*\(\s*'((?:[^']|'')*)'", re.IGNORECASE)


def drawn_sequences(default: str) -> list[str]:
    """The sequences from which the text of a DEFAULT draws, in lower case, without schemas."""
    return [name.rpartition(".")[2].strip('"').lower() for name in _DRAWN.findall(default)]


@frozen
class TableKey:
    """PRIMARY KEY or UNIQUE of a table.

    columns: names of the columns.
    is_primary: whether it is the primary key.
    """

    columns: tuple[str, ...]
    is_primary: bool


@frozen
class ForeignKey:
    """FOREIGN KEY of a table: a row with NULL in none of its columns refers to a row.

    columns: names of the columns.
    table: name in the catalog of the table that it refers to.
    referenced: names of the columns of a key of that table.
    """

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]


@frozen
class IdentityColumn:
    """SERIAL or GENERATED … AS IDENTITY: numbers of a sequence that is dropped with the table.

    start: the first number.
    increment: the difference between two numbers.
    is_always: whether a statement may not write another value, GENERATED ALWAYS.
    sequence: name of the sequence; "" until it is created.
    """

    start: int = 1
    increment: int = 1
    is_always: bool = False
    sequence: str = ""


@frozen
class TableDefinition:
    """The constraints of a table of CREATE TABLE. Texts are SQL as the user wrote it.

    defaults: by column, in lower case: the text of its DEFAULT.
    not_null: columns that are never NULL, in lower case; without the columns of the primary key.
    keys: primary key and unique keys.
    checks: the conditions of CHECK.
    is_temporary: it is not stored with the connection.
    identities: the columns of SERIAL and IDENTITY, by their names in lower case. Their DEFAULT
        draws the numbers.
    computed: by column, in lower case: the text of the expression that each write computes from the
        other columns of the row, GENERATED ALWAYS AS.
    comments: the texts of COMMENT ON by column, in lower case; "": the one of the table.
    computed_by_database: whether the database computes the `computed` columns, which no write may
        have.
    file_sequences: sequences of a DuckDB file, in lower case, from which its DEFAULTs draw instead
        of the connection's own.
    foreign_keys: the keys of other tables, or its own, to which its rows refer.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: frozenset[str] = frozenset()
    keys: tuple[TableKey, ...] = ()
    checks: tuple[str, ...] = ()
    is_temporary: bool = False
    identities: Mapping[str, IdentityColumn] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    computed_by_database: bool = False
    file_sequences: frozenset[str] = frozenset()
    foreign_keys: tuple[ForeignKey, ...] = ()

    def is_nullable(self, column: str) -> bool:
        """Whether a column may be NULL."""
        lower = column.lower()
        return lower not in self.not_null and not any(
            key.is_primary and lower in [name.lower() for name in key.columns] for key in self.keys
        )
