"""How rows are printed as text, and the width of a text on a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from runnel.base.frozen import frozen

Row = Sequence[Any]

LONGEST_CELL = 1000
"""Maximum number of characters of one value in a table that has no maximum width."""


@frozen
class TableLayout:
    """How rows are printed.

    mode: one of MODES.
    width: maximum number of characters of a line; 0: no maximum. Modes for programs ignore it.
    rows: maximum number of rows; 0: no maximum.
    null: the text of NULL; None: the text that the mode has for it.
    header: whether the names of the columns are printed.
    types: whether the types of the columns are printed below the names, in a table with borders.
    least: minimum width of each column of a table with borders; (): none. Rows that are printed in
        several calls are aligned by it.
    first: number of the first row, in the mode that numbers rows.
    separator: the text between two values, in modes that separate values; "": the mode's own.
    table: name of the table in the mode that writes INSERT statements.
    """

    mode: str = "box"
    width: int = 80
    rows: int = 20
    null: str | None = None
    header: bool = True
    types: bool = True
    least: Sequence[int] = ()
    first: int = 1
    separator: str = ""
    table: str = "table"

    def null_text(self, default: str) -> str:
        """The text of NULL in a mode that has the default for it."""
        return default if self.null is None else self.null


def text_width(text: str) -> int:
    """The number of columns of a terminal that a text occupies."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def character_width(character: str) -> int:
    """The number of columns of a terminal that a character occupies: 0, 1 or 2."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def printable(text: str, most: int) -> str:
    """One line of at most about `most` characters: line feeds, other control characters and lone
    surrogates are shown as escapes."""
    text = text[: most + 1]
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or unicodedata.category(character) in ("Zs", "Cf")
        else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )
