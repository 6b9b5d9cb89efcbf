"""BEGIN, START TRANSACTION, COMMIT and ROLLBACK."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command

_WEAKER_LEVELS = (
    ("READ", "UNCOMMITTED"),
    ("READ", "COMMITTED"),
    ("REPEATABLE", "READ"),
    ("SNAPSHOT",),
)
"""The isolation levels that a snapshot satisfies."""


@frozen(kw_only=True)
class BeginTransaction(Command):
    """BEGIN or START TRANSACTION.

    is_read_only: READ ONLY.
    """

    is_read_only: bool


@frozen(kw_only=True)
class EndTransaction(Command):
    """COMMIT, END, ROLLBACK or ABORT.

    word: the first word.
    is_commit: COMMIT or END.
    """

    word: str
    is_commit: bool


def parse_begin(reader: StatementReader) -> BeginTransaction:
    """BEGIN [TRANSACTION | WORK] [modes], START TRANSACTION [modes]"""
    position = reader.position
    if reader.accept("START"):
        reader.expect("TRANSACTION")
    else:
        reader.expect("BEGIN")
        _ = reader.accept("TRANSACTION") or reader.accept("WORK")
    is_read_only = False
    while not reader.at_end:
        reader.accept(",")
        if reader.accept("ISOLATION", "LEVEL"):
            _parse_level(reader)
        elif reader.accept("READ", "ONLY"):
            is_read_only = True
        elif reader.accept("READ", "WRITE"):
            is_read_only = False
        else:
            raise reader.error("READ ONLY, READ WRITE or ISOLATION LEVEL")
    return BeginTransaction(sql=reader.sql, position=position, is_read_only=is_read_only)


def _parse_level(reader: StatementReader) -> None:
    position = reader.position
    if reader.accept("SERIALIZABLE"):
        raise NotSupportedError(
            "ISOLATION LEVEL SERIALIZABLE is not supported",
            hint="a transaction reads a snapshot: REPEATABLE READ",
            position=position,
        )
    if not any(reader.accept(*words) for words in _WEAKER_LEVELS):
        raise reader.error("READ COMMITTED or REPEATABLE READ")


def parse_end(reader: StatementReader) -> EndTransaction:
    """(COMMIT | END | ROLLBACK | ABORT) [TRANSACTION | WORK]"""
    position = reader.position
    word = reader.next().text.upper()
    _ = reader.accept("TRANSACTION") or reader.accept("WORK")
    if word == "ROLLBACK" and reader.peek() == "TO":
        raise NotSupportedError(
            "ROLLBACK TO SAVEPOINT is not supported",
            hint="there are no savepoints: ROLLBACK undoes the whole transaction",
            position=position,
        )
    return EndTransaction(
        sql=reader.sql, position=position, word=word, is_commit=word in ("COMMIT", "END")
    )
