"""The tables "you write there, here" of the pages for users of other systems: each statement runs.

A table whose first heading is `SQL` has statements in its first column and an answer in the second:

- `same` or `differs: …`: the statements run;
- ``write `…` ``: the statements in the answer run;
- `no: …`: the statements of the first column are refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runnel
from tests.pages.page_blocks import Page, blocks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("from_*.md"))
_TABLE = re.compile(r"^\| SQL \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_CELLS = re.compile(r"^\| (.*?) \| (.*) \|$")
_CODE = re.compile(r"(`+) ?(.+?) ?\1")


def rows_of(page: str) -> list[tuple[list[str], str, list[str]]]:
    """Of each row the statements, the answer, and the statements in the answer."""
    found = []
    for table in _TABLE.findall(page):
        for line in table.splitlines():
            match = _CELLS.match(line.replace("\\|", "\0"))
            assert match is not None, line
            cells = [cell.replace("\0", "|") for cell in match.groups()]
            codes = [[code for _, code in _CODE.findall(cell)] for cell in cells]
            found.append((codes[0], cells[1], codes[1]))
    return found


def runs(page: Page, statement: str) -> bool:
    try:
        page.connection.sql(statement).close()
    except runnel.Error:
        return False
    return True


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_statement_runs_or_is_refused_as_the_page_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text("utf-8")
    rows, wrong = rows_of(text), []
    page = Page(tmp_path)
    try:
        for block in blocks(text):
            page.run(block)
        for statements, answer, instead in rows:
            word = re.split(r"[: ]", answer)[0]
            assert word in ("same", "differs", "write", "no"), answer
            wrong += [
                (statement, answer)
                for statement in (instead if word == "write" else statements)
                if runs(page, statement) is (word == "no")
            ]
    finally:
        page.close()
    assert wrong == []
    assert len(rows) >= 20


def test_the_rows_of_a_table() -> None:
    page = "| SQL | here |\n|---|---|\n| `a \\|\\| b`, `c` | write `x`: why |\n\n"
    page += "| other | |\n|---|---|\n| `y` | |\n"
    assert rows_of(page) == [(["a || b", "c"], "write `x`: why", ["x"])]
