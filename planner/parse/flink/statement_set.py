"""EXECUTE STATEMENT SET BEGIN … END, and BEGIN STATEMENT SET; … END: several INSERTs as one
statement; and EXPLAIN STATEMENT SET."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Explain, Statement
from runnel.planner.parse.tokens import position_at


@frozen(kw_only=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET.

    inserts: the texts of the INSERTs, in order, each with blanks before it up to its position.
    """

    inserts: tuple[str, ...]


def parse_statement_set(reader: StatementReader) -> StatementSet:
    """EXECUTE STATEMENT SET BEGIN insert; … END | BEGIN STATEMENT SET; insert; … END"""
    position = reader.position
    if reader.accept("EXECUTE"):
        return _set(reader, position)
    reader.expect("BEGIN", "STATEMENT", "SET", ";")
    return _inserts(reader, position)


def explained_set(reader: StatementReader, position: Position, stage: str, form: str) -> Explain:
    """STATEMENT SET BEGIN insert; … END, after EXPLAIN."""
    if stage == "analyze" or form != "text":
        raise NotSupportedError(
            "EXPLAIN of a statement set supports neither ANALYZE nor a format",
            hint="explain its INSERTs one by one",
            position=reader.position,
        )
    inserts = _set(reader, position)
    return Explain(sql=reader.sql, position=position, stage=stage, format=form, statement=inserts)


def _set(reader: StatementReader, position: Position) -> StatementSet:
    """STATEMENT SET BEGIN insert; … END"""
    reader.expect("STATEMENT", "SET", "BEGIN")
    return _inserts(reader, position)


def _inserts(reader: StatementReader, position: Position) -> StatementSet:
    """insert; … END"""
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


_MOST = 200
"""The maximum length of a statement within a hint."""


def job_statement(insert: str, table: str) -> str:
    """The CREATE JOB for the text of an INSERT into a table, shortened if it is long."""
    name = re.sub(r"\W+", "_", f"insert_into_{table}").lower()
    # A comment up to the end of its line can't be part of one line.
    has_comment = re.search("--|/[*]", insert)
    text = " ".join((insert[: has_comment.start()] if has_comment else insert).split()).rstrip(" ;")
    if has_comment or len(text) > _MOST:
        text = text[:_MOST].rsplit(" ", 1)[0] + " …"
    return f"CREATE JOB {name} AS {text}"


def refused_job(tokens: Sequence[Token], sql: str) -> NotSupportedError | None:
    """The error for CREATE JOB … AS EXECUTE STATEMENT SET; None for another statement."""
    words = [token.text.upper() for token in tokens]
    if words[:2] != ["CREATE", "JOB"] or words[5:7] != ["STATEMENT", "SET"]:
        return None
    starts = [i for i, word in enumerate(words) if word == "INSERT"]
    jobs = []
    for start in starts:
        end = next((i for i in range(start, len(words)) if words[i] == ";"), len(words))
        named = start + 2
        while words[named + 1 : named + 2] == ["."]:
            named += 2
        target = tokens[min(named, end - 1)].text
        jobs.append(job_statement(sql[tokens[start].start : tokens[end - 1].end + 1], target))
    return NotSupportedError(
        "a job of a statement set is not supported",
        hint="create one job for each INSERT: " + "; ".join(jobs),
        position=position_at(tokens[5], sql),
    )


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
