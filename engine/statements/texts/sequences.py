"""CREATE SEQUENCE and DROP SEQUENCE. A sequence is one of the connection's DuckDB, which counts
durably; the catalog has its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.catalog import Mapping, NamedText
from runnel.errors import ErrorCode, NotSupportedError, ProgrammingError, suggest
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
            raise ProgrammingError(
                f'sequence "{found.name}" exists already',
                hint="use IF NOT EXISTS, or another name",
                position=statement.name.position,
            )
        own = session.own_tables
        if own.is_file:
            raise NotSupportedError(
                "CREATE SEQUENCE in a DuckDB file is not supported",
                hint="open a directory: its tables may have DEFAULT nextval('s')",
                position=statement.position,
            )
        own.sequences.create(name, statement.start, statement.increment)
        made = NamedText(
            SEQUENCE,
            name,
            f"START {statement.start} INCREMENT {statement.increment}",
            is_confined=session.caller.is_confined,
        )
        session.change_catalog(definitions={**definitions, made.key: made})
    return NO_COUNT


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
                raise ProgrammingError(
                    f'sequence "{sequence.name}" is used by the DEFAULT of column "{column}" of '
                    f'table "{item.name}"',
                    hint=f"use ALTER TABLE {item.name} ALTER {column} DROP DEFAULT first",
                )


def _names(text: str) -> set[str]:
    """The text literals of an expression, in lower case."""
    return {token.text.lower() for token in tokenize(text)}
