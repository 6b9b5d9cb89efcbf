"""The tables of expressions in docs/types.md: each has the result that the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import runnel

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
_TABLE = re.compile(r"^\| expression \| result \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)


def rows_of(page: str) -> Iterator[tuple[str, str]]:
    """Each expression, and its result."""
    for table in _TABLE.findall(page):
        for line in table.splitlines():
            cells = line.replace("\\|", "\0").split("|")
            for expression in re.findall(r"`([^`]+)`", cells[1]):
                yield expression.replace("\0", "|"), cells[2].strip()


def result_of(connection: runnel.Connection, expression: str) -> str:
    try:
        row = connection.execute(f"SELECT {expression}").fetchone()
    except runnel.Error:
        return "error"
    assert row is not None
    return "NULL" if row[0] is None else str(row[0])


def test_each_expression_has_the_result_of_the_page() -> None:
    rows = list(rows_of(PAGE.read_text("utf-8")))
    assert len(rows) > 60
    with runnel.connect() as connection:
        found = [(expression, result_of(connection, expression)) for expression, _ in rows]
    assert found == rows


def test_the_rows_of_a_table() -> None:
    page = "| expression | result | |\n|---|---|---|\n| `1 \\| 2`, `3` | 3 | note `4` |\n"
    assert list(rows_of(page)) == [("1 | 2", "3"), ("3", "3")]
