"""CREATE SEQUENCE and DROP SEQUENCE, and the sequences of SERIAL and IDENTITY. A sequence is one of
the connection's DuckDB, which counts durably; the catalog has its name."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from runnel.catalog import Mapping, NamedText
from runnel.columns.table_definition import TableDefinition
from runnel.errors import (
    DependencyException,
    DuplicateObject,
    ErrorCode,
    OperationalError,
    ProgrammingError,
    suggest,
)
from runnel.planner.parse.session.sequences import SEQUENCE, CreateSequence, DropSequence
from runnel.planner.parse.tokens import tokenize
from runnel.statements.call import StatementCall

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def create_sequence(session: Session, statement: CreateSequence, call: StatementCall) -> int:
    """Creates the sequence in DuckDB, then names it."""
    name = statement.name.text
    with session.definitions:
        definitions = session.catalog.definitions
        found = definitions.get((SEQUENCE, name.lower()))
        if found is not None:
            if statement.if_not_exists:
                return NO_COUNT
            raise DuplicateObject(
                f'sequence "{found.name}" exists already',
                hint="use IF NOT EXISTS, or another name",
                position=statement.name.position,
            )
        if name.lower() in session.own_tables.sequences.reserved:
            raise OperationalError(
                f'a transaction that is open has created a sequence "{name}"',
                hint="wait for its end, or take another name",
            )
        made = _created(session, name, statement.start, statement.increment)
        session.change_catalog(definitions={**definitions, made.key: made})
    return NO_COUNT


def _created(
    session: Session, name: str, start: int, increment: int, *, is_temporary: bool = False
) -> NamedText:
    session.own_tables.sequences.create(name, start, increment, is_temporary=is_temporary)
    return NamedText(
        SEQUENCE,
        name,
        f"START {start} INCREMENT {increment}",
        is_temporary=is_temporary,
        is_confined=session.caller.is_confined,
    )


def with_sequences(
    session: Session, table: str, definition: TableDefinition
) -> tuple[TableDefinition, dict[tuple[str, str], NamedText]]:
    """The definition of a table with a new sequence, and the DEFAULT that draws from it, for each
    new identity column; and these sequences, for the catalog."""
    # A sequence that a transaction has dropped exists until COMMIT.
    known = {**session.catalog.definitions, **session.common_catalog.definitions}
    reserved = session.own_tables.sequences.reserved
    made: dict[tuple[str, str], NamedText] = {}
    identities, defaults = dict(definition.identities), dict(definition.defaults)
    for column, item in definition.identities.items():
        if item.sequence:
            continue
        base = f"{table}_{column}_seq".lower()
        names = (f"{base}{number or ''}" for number in count())
        used = {name for kind, name in (*known, *made) if kind == SEQUENCE} | reserved
        name = next(n for n in names if n not in used)
        is_temporary = definition.is_temporary
        sequence = _created(session, name, item.start, item.increment, is_temporary=is_temporary)
        made[sequence.key] = sequence
        identities[column] = replace(item, sequence=name)
        defaults[column] = f"nextval('{_text(name)}')"
    return replace(definition, identities=identities, defaults=defaults), made


def without_sequences(
    definitions: MappingType[tuple[str, str], NamedText], *dropped: TableDefinition | None
) -> dict[tuple[str, str], NamedText]:
    """The definitions of the catalog without the sequences of dropped tables or columns."""
    gone = {(SEQUENCE, name) for item in dropped for name in sequences_of(item)}
    return {key: item for key, item in definitions.items() if key not in gone}


def sequences_of(definition: TableDefinition | None) -> list[str]:
    """The names of the sequences that are dropped with a table."""
    return [] if definition is None else [i.sequence for i in definition.identities.values()]


def _text(name: str) -> str:
    return name.replace("'", "''")


def drop_sequence(session: Session, statement: DropSequence, call: StatementCall) -> int:
    """Removes the sequence; ProgrammingError while a DEFAULT reads it."""
    name = statement.name.text
    with session.definitions:
        definitions = session.catalog.definitions
        found = definitions.get((SEQUENCE, name.lower()))
        if found is None:
            if statement.if_exists:
                return NO_COUNT
            known = [item.name for item in definitions.values() if item.kind == SEQUENCE]
            raise ProgrammingError(
                f'sequence "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(name, known),
                position=statement.name.position,
            )
        session.caller.require_own(f'sequence "{found.name}"', is_confined=found.is_confined)
        _check_unused(session, found)
        session.change_catalog(
            definitions={key: item for key, item in definitions.items() if item is not found}
        )
        session.own_tables.sequences.drop(found.name)
    return NO_COUNT


def _check_unused(session: Session, sequence: NamedText) -> None:
    for item in session.catalog:
        defaults = item.definition.defaults if isinstance(item, Mapping) and item.definition else {}
        for column, text in defaults.items():
            if sequence.name.lower() in _names(text):
                raise DependencyException(
                    f'sequence "{sequence.name}" is used by the DEFAULT of column "{column}" of '
                    f'table "{item.name}"',
                    hint=f"use ALTER TABLE {item.name} ALTER {column} DROP DEFAULT first",
                )


def _names(text: str) -> set[str]:
    """The text literals of an expression, in lower case."""
    texts = (token.text.lower().replace('"', "") for token in tokenize(text))
    return {item.removeprefix("public.").removeprefix("main.") for item in texts}
