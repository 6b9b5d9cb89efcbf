"""PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from collections.abc import Callable

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name
from runnel.planner.parse.tokens import blank
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import SqlType

_REFUSED = (
    *("PREPARE", "EXECUTE", "DEALLOCATE"),
    *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"),
)
_ASSIGNMENTS = (":=", "=>")


@frozen(kw_only=True)
class Prepare(Command):
    """PREPARE.

    name: the prepared statement.
    types: the types of its first parameters; (): each execution's arguments have their own.
    text: the statement after AS.
    """

    name: Name
    types: tuple[SqlType, ...]
    text: str


@frozen(kw_only=True)
class Execute(Command):
    """EXECUTE.

    name: the prepared statement.
    values: `VALUES (…)` with the arguments at the same offsets as in `sql`; "": there are none.
    keys: the name of each argument; (): they are in order.
    parameters: the number of parameters in `sql`.
    """

    name: Name
    values: str
    keys: tuple[str, ...]
    parameters: int


@frozen(kw_only=True)
class Deallocate(Command):
    """DEALLOCATE.

    name: the prepared statement; None: all.
    """

    name: Name | None


def parse_prepare(reader: StatementReader, parse: Callable[[str], object]) -> Prepare:
    """PREPARE name [(type, …)] AS statement. `parse` parses the text of a statement."""
    position = reader.position
    reader.expect("PREPARE")
    name = reader.name("a prepared statement")
    types: list[SqlType] = []
    if reader.accept("("):
        while not types or reader.accept(","):
            types.append(parse_type(reader))
        reader.expect(")")
    reader.expect("AS")
    if reader.at_end:
        raise reader.error("a statement")
    if reader.peek() in _REFUSED:
        raise NotSupportedError(
            f"PREPARE of {reader.peek()} is not supported",
            hint="prepare the statement itself",
            position=reader.position,
        )
    start, end = reader.tokens[reader.index].start, reader.tokens[-1].end + 1
    parse(blank(reader.sql[:start]) + reader.sql[start:end])
    reader.index = len(reader.tokens)
    return Prepare(
        sql=reader.sql,
        position=position,
        name=name,
        types=tuple(types),
        text=reader.sql[start:end],
    )


def parse_execute(reader: StatementReader) -> Execute:
    """EXECUTE name [([name :=] value, …)]"""
    position = reader.position
    reader.expect("EXECUTE")
    name = reader.name("a prepared statement")
    values, keys = "", tuple[str, ...]()
    if reader.peek() == "(":
        values, keys = _arguments(reader)
    return Execute(
        sql=reader.sql,
        position=position,
        name=name,
        values=values,
        keys=keys,
        parameters=reader.parameter_count,
    )


def _arguments(reader: StatementReader) -> tuple[str, tuple[str, ...]]:
    """The arguments as the text of a VALUES, and their names."""
    opening = reader.next()
    if reader.accept(")"):
        return "", ()
    sql, start = reader.sql, opening.start
    text = "VALUES" + blank(sql[len("VALUES") : start]) + sql[start:]
    keys: list[Name] = []
    count = 0
    while True:
        if reader.peek(1) in _ASSIGNMENTS:
            start = reader.position.offset
            keys.append(reader.unique(reader.name("a parameter"), keys, "parameter"))
            end = reader.next().end + 1
            text = text[:start] + blank(text[start:end]) + text[end:]
        count += 1
        if keys and len(keys) != count:
            raise ProgrammingError(
                "the arguments of EXECUTE are all in order or all by name",
                hint="write EXECUTE q(1, 2) or EXECUTE q(a := 1, b := 2)",
                position=reader.position,
            )
        reader.expression(",", ")")
        if not reader.accept(","):
            break
    end = reader.position.offset + 1
    reader.expect(")")
    return text[:end], tuple(key.text for key in keys)


def parse_deallocate(reader: StatementReader) -> Deallocate:
    """DEALLOCATE [PREPARE] {name | ALL}"""
    position = reader.position
    reader.expect("DEALLOCATE")
    if reader.peek() == "PREPARE" and reader.index + 1 < len(reader.tokens):
        reader.next()
    name = None if reader.accept("ALL") else reader.name("a prepared statement, or ALL")
    return Deallocate(sql=reader.sql, position=position, name=name)
