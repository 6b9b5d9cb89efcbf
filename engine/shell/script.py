"""A script, line by line, as statements and commands.

A statement ends with a semicolon; semicolons in strings, quoted identifiers and comments end none.
A command is a line that begins with "." or "\\" where a statement could begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.planner.parse.tokens import has_tokens, statement_ends
from runnel.shell.copied_rows import END, is_reading

_AT_END = re.compile(
    r"\\(watch\b[^\\']*|(?:gset|crosstabview|bind)\b[^\\';]*|gexec|gdesc|gx"
    r"|g(?:[ \t]+[^\\;\n]+)?)\s*\Z"
)
"""A command at the end of a statement, instead of its semicolon."""
_EXPANDED = ("on", "off")
WORDS = {"quit": ".quit", "exit": ".quit", "help": ".help", "clear": ".clear"}
"""The words that are commands if they are alone, with or without a semicolon."""


@frozen
class ScriptItem:
    """One statement or command.

    text: the statement without its semicolon, or the line of the command.
    line: number of its first line in the script, from 1.
    is_command: it is a command of the shell.
    ending: the command that runs the statement and uses its rows, such as "gset"; "": they are
        printed.
    rows: the lines after COPY … FROM STDIN, up to `\\.`; None: no lines follow in the script.
    """

    text: str
    line: int
    is_command: bool = False
    ending: str = ""
    rows: tuple[str, ...] | None = None


class ScriptReader:
    """Accepts lines and returns the statements and commands that are complete."""

    def __init__(self) -> None:
        self._buffer = ""
        self._line = 1
        self._copy: ScriptItem | None = None
        self._rows: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether no statement has begun."""
        return self._copy is None and not has_tokens(self._buffer)

    def feed(self, line: str) -> list[ScriptItem]:
        """The items that this line completes. The line ends with its line feed, if it has one."""
        if self._copy is not None:
            self._line += line.count("\n")
            if line.rstrip("\r\n") == END:
                return self._copied()
            self._rows.append(line)
            return []
        items = self._fed(line)
        if items and is_reading(items[-1].text) and self.is_empty:
            self._copy = items.pop()
            self._drop_buffer()
        return items

    def _copied(self) -> list[ScriptItem]:
        """The COPY whose rows are complete."""
        item, rows = self._copy, tuple(self._rows)
        self._copy, self._rows = None, []
        return [] if item is None else [replace(item, rows=rows)]

    def _fed(self, line: str) -> list[ScriptItem]:
        if is_command(line) and self.is_empty:
            self._drop_buffer()
            item = ScriptItem(line.strip(), self._line, is_command=True)
            self._line += line.count("\n")
            return [item]
        if (word := word_command(line)) is not None and self.is_empty:
            return self._fed(f"{word}\n")
        self._buffer += line
        if "\\" in line and (found := ended_by_command(self._buffer)) is not None:
            sql, command = found
            item = self._item(self._buffer)
            self._drop_buffer()
            shown = replace(item, text=sql, is_command=False)
            if command == "g":
                return [shown]
            if command == "gx":
                lines = [replace(item, text=f"\\x {value}", is_command=True) for value in _EXPANDED]
                return [lines[0], shown, lines[1]]
            if not command.startswith("watch"):
                return [replace(shown, ending=command)]
            return [replace(item, text=f"\\{command} {sql}", is_command=True)]
        if ";" not in line:
            return []
        ends = statement_ends(self._buffer)
        return [] if ends is None else [*self._cut(ends)]

    def finish(self) -> list[ScriptItem]:
        """The statement after the last semicolon, if any."""
        if self._copy is not None:
            return self._copied() if self._rows else [self._copy]
        left, self._buffer = self._buffer, ""
        return [self._item(left)] if has_tokens(left) else []

    def _drop_buffer(self) -> None:
        self._line += self._buffer.count("\n")
        self._buffer = ""

    def _cut(self, ends: list[int]) -> Iterator[ScriptItem]:
        begin, text = 0, self._buffer
        for end in ends:
            statement = text[begin:end]
            if has_tokens(statement):
                yield self._item(statement)
            self._line += statement.count("\n")
            begin = end + 1
        self._buffer = text[begin:]

    def _item(self, text: str) -> ScriptItem:
        stripped = text.lstrip()
        before = text[: len(text) - len(stripped)].count("\n")
        return ScriptItem(stripped.rstrip(), self._line + before)


def ended_by_command(text: str) -> tuple[str, str] | None:
    """The statement and the command at its end: `SELECT 1 \\watch 2`; None if there is none."""
    found = _AT_END.search(text)
    if found is None:
        return None
    sql = text[: found.start()]
    ends = statement_ends(sql)
    # One statement alone: its semicolon may precede the command.
    if not has_tokens(sql) or ends is None or any(has_tokens(sql[end + 1 :]) for end in ends):
        return None
    return sql.strip().removesuffix(";"), found[1].strip()


def items_of(lines: Iterable[str]) -> Iterator[ScriptItem]:
    """The statements and commands of a script, each as soon as its last line was read."""
    reader = ScriptReader()
    for line in lines:
        yield from reader.feed(line)
    yield from reader.finish()


def word_command(text: str) -> str | None:
    """The command that a statement of one word is: QUIT, EXIT, HELP, CLEAR; None for others."""
    return WORDS.get(text.strip().removesuffix(";").rstrip().lower())


def is_command(line: str) -> bool:
    """Whether a line has the form of a command: ".mode csv", "\\dt"."""
    text = line.lstrip()
    return text[:1] in (".", "\\") and (text[1:2].isalpha() or text[:2] in ("\\?", "\\!"))


def is_complete(text: str) -> bool:
    """Whether the text of a prompt can run: a command, or statements of which the last one has its
    semicolon."""
    if is_command(text) or word_command(text) is not None or not has_tokens(text):
        return True
    if ended_by_command(text) is not None:
        return True
    ends = statement_ends(text)
    return ends is not None and ends != [] and not has_tokens(text[ends[-1] + 1 :])
