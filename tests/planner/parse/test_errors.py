"""Pinned texts of what is refused: `invalid_statements.txt` has each statement with its error
below.

RUNNEL_COMPLETE=1 writes the errors anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runnel.connection import Connection
from runnel.errors import Error
from runnel.planner.parse.statement import parse

FILE = Path(__file__).parent / "invalid_statements.txt"


def story(sql: str) -> str:
    """The error of a statement: class of PEP 249, place and texts, a line each."""
    try:
        parse(sql)
    except Error as error:
        place = (
            "" if error.position is None else f" {error.position.offset}+{error.position.length}"
        )
        kind = next(item for item in type(error).__mro__ if item.__name__ in Connection.__dict__)
        lines = [f"! {kind.__name__}{place} {error.message}"]
        if error.detail:
            lines.append(f"! DETAIL {error.detail}")
        if error.hint:
            lines.append(f"! HINT {error.hint}")
        return "\n".join(lines)
    return "! accepted"


def cases() -> list[tuple[str, str]]:
    """(statement, pinned error) of each block of the file."""
    found = []
    for block in FILE.read_text().strip("\n").split("\n\n"):
        lines = block.split("\n")
        sql = [line for line in lines if not line.startswith("!")]
        found.append(("\n".join(sql), "\n".join(line for line in lines if line.startswith("!"))))
    return found


if os.environ.get("RUNNEL_COMPLETE"):
    FILE.write_text("\n\n".join(f"{sql}\n{story(sql)}" for sql, _ in cases()) + "\n")


@pytest.mark.parametrize(("sql", "expected"), cases(), ids=[sql[:60] for sql, _ in cases()])
def test_pinned_error(sql: str, expected: str) -> None:
    assert expected.startswith("!"), "a statement without its error"
    assert story(sql) == expected


@pytest.mark.parametrize("sql", ["", "   ", ";", " ;; ", "-- nothing", "/* nothing */"])
def test_empty_text(sql: str) -> None:
    assert story(sql).startswith(
        "! ProgrammingError the SQL text is empty\n! HINT the most common statements are SELECT"
    )


def test_rendering_points_at_the_place() -> None:
    with pytest.raises(Error) as caught:
        parse("select a\nfrom t whre b = 1")
    caught.value.sql = "select a\nfrom t whre b = 1"
    assert (
        str(caught.value) == 'syntax error at "whre"\nLINE 2: from t whre b = 1\n'
        "               ^^^^\nHINT: did you mean WHERE?"
    )
