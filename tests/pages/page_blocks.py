"""The blocks of a page of docs/, and how a test runs them.

A page runs from its first block to its last in one folder, with one connection `con`:

- a block with a title, such as ```csv title="orders.csv", is written to the file of that name;
- ```sql: its statements, separated by semicolons, by `con.sql`;
- ```python: a program, in the page's one namespace, in which `runnel` and `con` are defined;
- ```text: what the block above prints; a last line `…` stands for further lines, and `…` in a line
  for any text. For ```sql that is the result of the last statement, as `show` prints it, or its
  error.

A page without ```text below a block only requires that the block runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from sqlglot import TokenType

import runnel
from runnel.planner.parse.tokens import tokenize

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Block:
    """A fenced block.

    line: the number of its first line in the page, from 1.
    language: the word after the fence.
    title: the file that it is; "": none.
    text: its content.
    expected: the text block right below it; None: there is none.
    """

    line: int
    language: str
    title: str
    text: str
    expected: str | None = None


def blocks(page: str) -> list[Block]:
    """The blocks of a page; a text block belongs to the block above it."""
    found: list[Block] = []
    for match in _FENCE.finditer(page):
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        line = page.count("\n", 0, match.start()) + 1
        block = Block(line, match["language"], match["title"] or "", text)
        if block.language == "text" and not block.title and found:
            found[-1].expected = text
        else:
            found.append(block)
    return found


def statements(sql: str) -> Iterator[str]:
    """The statements of a block."""
    start = 0
    for token in tokenize(sql):
        if token.token_type is TokenType.SEMICOLON:
            yield sql[start : token.start].strip()
            start = token.end + 1
    if sql[start:].strip():
        yield sql[start:].strip()


class Page:
    """One run of a page in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connection = runnel.connect()
        self._names: dict[str, Any] = {"runnel": runnel, "con": self.connection}

    def close(self) -> None:
        self._names["con"].close()
        self.connection.close()

    def run(self, block: Block) -> None:
        """Runs a block; AssertionError if it prints something else than the page says."""
        if block.title:
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, "utf-8")
            return
        if block.language not in ("sql", "python"):
            return
        run = self._sql if block.language == "sql" else self._python
        compare(run(block), block)

    def _sql(self, block: Block) -> str:
        printed = ""
        for statement in statements(block.text):
            with redirect_stdout(StringIO()) as output:
                try:
                    self._names["con"].sql(statement).show()
                except runnel.Error as error:
                    if block.expected is None:
                        raise
                    print(error)
            printed = output.getvalue()
        return printed

    def _python(self, block: Block) -> str:
        with redirect_stdout(StringIO()) as output:
            exec(compile(block.text, f"line {block.line}", "exec"), self._names)
        return output.getvalue()


def run_page(path: Path, folder: Path) -> int:
    """Runs the blocks of a page in a folder, which is the current one; their number."""
    page = Page(folder)
    found = blocks(path.read_text("utf-8"))
    try:
        for block in found:
            page.run(block)
    finally:
        page.close()
    return len(found)


def compare(printed: str, block: Block) -> None:
    """AssertionError if a block has printed something else than its page says."""
    if block.expected is None:
        return
    wanted = [line.rstrip() for line in block.expected.splitlines()]
    found = [line.rstrip() for line in printed.splitlines()]
    if wanted and wanted[-1] == "…":
        wanted.pop()
        found = found[: len(wanted)]
    as_expected = len(found) == len(wanted) and all(map(_fits, found, wanted))
    assert as_expected, f"the block in line {block.line} prints\n{printed}"


def _fits(line: str, expected: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.split("…")))
    return re.fullmatch(pattern, line) is not None
