"""EXECUTE STATEMENT SET BEGIN … END, and BEGIN STATEMENT SET; … END: several INSERTs as one
statement."""

from __future__ import annotations

import re

from sqlglot import TokenType

from runnel.base.frozen import frozen
from runnel.errors import ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Statement


@frozen(kw_only=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET.

    inserts: the texts of the INSERTs, in order, each with blanks before it up to its position.
    """

    inserts: tuple[str, ...]


def parse_statement_set(reader: StatementReader) -> StatementSet:
    """EXECUTE STATEMENT SET BEGIN insert; … END | BEGIN STATEMENT SET; insert; … END"""
    position = reader.position
    is_executed = reader.accept("EXECUTE")
    if not is_executed:
        reader.expect("BEGIN")
    reader.expect("STATEMENT", "SET")
    if is_executed:
        reader.expect("BEGIN")
    else:
        reader.expect(";")
    inserts = []
    while not reader.accept("END"):
        inserts.append(_insert(reader))
    if reader.parameters:
        raise ProgrammingError(
            "a statement set can't have parameters",
            hint="write the values as literals, or execute each INSERT alone",
            position=position,
        )
    if not inserts:
        raise ProgrammingError("the statement set has no INSERT", position=position)
    return StatementSet(sql=reader.sql, position=position, inserts=tuple(inserts))


def _insert(reader: StatementReader) -> str:
    """Reads `INSERT …;`; returns its text."""
    if reader.peek() != "INSERT":
        raise reader.error("INSERT or END")
    start = reader.index
    while not reader.at_end and reader.tokens[reader.index].token_type is not TokenType.SEMICOLON:
        reader.next()
    first, last = reader.tokens[start], reader.tokens[reader.index - 1]
    reader.expect(";")
    # Positions of the INSERT are ones of the whole text.
    before = re.sub(r"\S", " ", reader.sql[: first.start])
    return before + reader.sql[first.start : last.end + 1]
