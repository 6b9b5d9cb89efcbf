"""CREATE SEQUENCE and DROP SEQUENCE, and the columns that a sequence numbers."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.columns.table_definition import IdentityColumn
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name

SEQUENCE = "sequence"
"""The kind of sequences in the catalog."""

_LARGEST = 2**63 - 1
_DEFAULTS = (("NO", "CYCLE"), ("NO", "MINVALUE"), ("NO", "MAXVALUE"), ("OWNED", "BY", "NONE"))
"""Clauses that say what holds without them."""
_REFUSED = ("MINVALUE", "MAXVALUE", "CYCLE", "OWNED")
_WIDEST = (
    ("MINVALUE", "1"),
    ("MAXVALUE", str(_LARGEST)),
    ("MINVALUE", str(-_LARGEST - 1)),
    ("MAXVALUE", "-1"),
)
"""The bounds that a dump writes for a sequence without bounds."""
_WIDTHS = ("SMALLINT", "INTEGER", "INT", "BIGINT")
"""The types after AS, which set no bound: the column of the numbers has one."""


@frozen(kw_only=True)
class CreateSequence(Command):
    """CREATE SEQUENCE.

    name: the sequence.
    start: its first number.
    increment: the difference between two numbers, not 0.
    if_not_exists: whether an existing sequence is left as it is.
    """

    name: Name
    start: int
    increment: int
    if_not_exists: bool


@frozen(kw_only=True)
class DropSequence(Command):
    """DROP SEQUENCE.

    name: the sequence.
    if_exists: whether it is no error if the sequence does not exist.
    """

    name: Name
    if_exists: bool


def parse_create_sequence(reader: StatementReader, position: Position) -> CreateSequence:
    """[IF NOT EXISTS] name [START [WITH] n] [INCREMENT [BY] n] [CACHE n], after SEQUENCE"""
    if_not_exists = reader.accept_if_not_exists(False)
    name = reader.public_name("the sequence")
    start, increment = _counting(reader, position)
    return CreateSequence(
        sql=reader.sql,
        position=position,
        name=name,
        start=start,
        increment=increment,
        if_not_exists=if_not_exists,
    )


def parse_identity(reader: StatementReader, *, is_always: bool) -> IdentityColumn:
    """[(START n INCREMENT n …)], after GENERATED … AS IDENTITY"""
    position, start, increment = reader.position, 1, 1
    if reader.accept("("):
        start, increment = _counting(reader, position)
        reader.expect(")")
    return IdentityColumn(start, increment, is_always)


def _counting(reader: StatementReader, position: Position) -> tuple[int, int]:
    """Reads START, INCREMENT and clauses that change nothing; returns both numbers."""
    found: dict[str, int] = {}
    while not reader.at_end:
        if any(reader.accept(*words) for words in _DEFAULTS):
            continue
        if reader.accept("SEQUENCE", "NAME"):
            reader.public_name("the sequence")
            continue
        if reader.peek() == "AS" and reader.peek(1) in _WIDTHS:
            reader.index += 2
            continue
        word, where = reader.peek(), reader.position
        if _is_widest_bound(reader):
            continue
        if word in _REFUSED:
            raise NotSupportedError(
                f"{word} of CREATE SEQUENCE is not supported",
                hint="a sequence has START, INCREMENT and CACHE",
                position=where,
            )
        if word not in ("START", "INCREMENT", "CACHE"):
            break
        if word in found:
            raise ProgrammingError(f"{word} is written twice", position=where)
        reader.next()
        if not reader.accept("WITH"):
            reader.accept("BY")
        found[word] = _number(reader)
    increment = found.get("INCREMENT", 1)
    if not increment:
        raise ProgrammingError(
            "INCREMENT of a sequence can't be 0",
            hint="write 1 to count up, -1 to count down",
            position=position,
        )
    return found.get("START", 1 if increment > 0 else -1), increment


def _is_widest_bound(reader: StatementReader) -> bool:
    """Consumes MINVALUE or MAXVALUE with the bound of a sequence without bounds; returns whether
    it came next."""
    texts = [token.text.upper() for token in reader.tokens[reader.index : reader.index + 3]]
    for word, number in _WIDEST:
        signed = [word, *(("-", number[1:]) if number[0] == "-" else (number,))]
        if texts[: len(signed)] == signed:
            reader.index += len(signed)
            return True
    return False


def parse_drop_sequence(reader: StatementReader, position: Position) -> DropSequence:
    """[IF EXISTS] name [RESTRICT], after SEQUENCE"""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.public_name("the sequence")
    reader.accept("RESTRICT")
    return DropSequence(sql=reader.sql, position=position, name=name, if_exists=if_exists)


def _number(reader: StatementReader) -> int:
    position, is_negative = reader.position, reader.accept("-")
    text = "" if reader.at_end else reader.next().text
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else _LARGEST + 1
    if value > _LARGEST:
        raise ProgrammingError("a whole number of 64 bits was expected", position=position)
    return -value if is_negative else value
