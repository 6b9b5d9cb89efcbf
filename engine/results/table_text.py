"""Rows as text: a table that fits a terminal, or Markdown, CSV, JSON, and one line for each value.

`table_text` is the whole interface. It reads no result and prints nothing: a cursor, a notebook and
a command line call it with rows that they have.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError
from runnel.expressions.kernels.values import python_values
from runnel.relation.nodes import Field
from runnel.results.value_text import NULL_TEXT, json_text, value_text

Row = Sequence[Any]

NARROWEST = 8
"""Number of characters to which a column is shortened before a column is left out."""
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
    """

    mode: str = "box"
    width: int = 80
    rows: int = 20
    null: str | None = None
    header: bool = True
    types: bool = True
    least: Sequence[int] = ()
    first: int = 1


def table_text(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> str:
    """The rows as text, at most `layout.rows` of them, without a line feed at the end.
    InterfaceError for an unknown mode."""
    printed = MODES.get(layout.mode)
    if printed is None:
        raise InterfaceError(
            f'there is no mode "{layout.mode}" of printing rows',
            hint="the modes are " + ", ".join(MODES),
        )
    shown = rows[: layout.rows] if layout.rows else rows
    return "\n".join(printed(fields, shown, layout))


def rows_of(
    fields: Sequence[Field], batches: Sequence[pa.RecordBatch], most: int = 0
) -> list[tuple[Any, ...]]:
    """The first rows of Arrow batches as Python values; `most`: maximum number, 0: all."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        part = batch.slice(0, most - len(found)) if most else batch
        columns = [
            python_values(column, item.type)
            for column, item in zip(part.columns, fields, strict=True)
        ]
        found += zip(*columns, strict=True)
        if most and len(found) >= most:
            break
    return found


# Tables with borders


@frozen
class _Border:
    """The characters of a table.

    edge: between columns.
    top, middle, bottom: left end, line, crossing and right end of a horizontal line, one character
        each.
    cut: the end of a value that is shortened.
    """

    edge: str
    top: str
    middle: str
    bottom: str
    cut: str


_BOX = _Border("│", "┌─┬┐", "├─┼┤", "└─┴┘", "…")
_ASCII = _Border("|", "+-++", "+-++", "+-++", "...")


def _boxed(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    return _bordered(fields, rows, layout, _BOX)


def _ascii(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    return _bordered(fields, rows, layout, _ASCII)


def _bordered(
    fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout, border: _Border
) -> Iterator[str]:
    most = layout.width or LONGEST_CELL
    names = [printable(item.name, most) for item in fields]
    types = [str(item.type) for item in fields]
    heads = [names, types] if layout.types else [names]
    columns = [
        [printable(value_text(row[index], layout.null or NULL_TEXT), most) for row in rows]
        for index in range(len(fields))
    ]
    natural = [max(map(text_width, column), default=0) for column in columns]
    if layout.header:
        natural = list(map(max, natural, map(text_width, names)))
        if layout.types:
            natural = _with_types(natural, list(map(len, types)), layout.width)
    if layout.least:
        natural = list(map(max, natural, layout.least))
    left, right, widths = _fitted(natural, layout.width, len(border.cut))
    chosen = [*range(left), *range(len(fields) - right, len(fields))]
    is_cut = len(chosen) < len(fields)

    def line(cells: Sequence[str], align: Callable[[str, int, int], str]) -> str:
        shown = [
            align(_cut(cells[index], width, border.cut), width, index)
            for index, width in zip(chosen, widths, strict=True)
        ]
        if is_cut:
            shown.insert(left, border.cut)
        return f"{border.edge} " + f" {border.edge} ".join(shown) + f" {border.edge}"

    def rule(characters: str) -> str:
        lengths = [*widths]
        if is_cut:
            lengths.insert(left, len(border.cut))
        cells = (characters[1] * (length + 2) for length in lengths)
        return characters[0] + characters[2].join(cells) + characters[3]

    yield rule(border.top)
    if layout.header and fields:
        for head in heads:
            yield line(head, _centred)
        yield rule(border.middle)
    aligned = _alignment(fields)
    for number in range(len(rows)):
        yield line([column[number] for column in columns], aligned)
    yield rule(border.bottom)


def _alignment(fields: Sequence[Field]) -> Callable[[str, int, int], str]:
    numeric = [item.type.is_numeric for item in fields]

    def aligned(text: str, width: int, index: int) -> str:
        room = " " * (width - text_width(text))
        return room + text if numeric[index] else text + room

    return aligned


def _centred(text: str, width: int, index: int) -> str:
    room = width - text_width(text)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _with_types(natural: list[int], types: list[int], width: int) -> list[int]:
    """The widths with room for the names of the types, which are shortened first.

    natural: width of each column without its type.
    types: width of each type.
    width: maximum width of a line; 0: no maximum.
    """
    room = width - 1 - 3 * len(natural)
    for most in range(max(types, default=0) if width else 0, 0, -1):
        found = [max(size, min(kind, most)) for size, kind in zip(natural, types, strict=True)]
        if sum(found) <= room:
            return found
    return natural if width else list(map(max, natural, types))


def _fitted(natural: Sequence[int], width: int, cut: int) -> tuple[int, int, list[int]]:
    """The numbers of columns shown at the left and at the right, and the width of each of them.

    natural: width of each column with all of its text.
    width: maximum width of a line; 0: no maximum.
    cut: width of the column in the place of the ones that are left out.
    """
    count = len(natural)
    room = width - 1 - 3 * count
    if not width or sum(natural) <= room:
        return count, 0, list(natural)
    limit = _level(natural, room)
    if limit >= NARROWEST or sum(min(size, NARROWEST) for size in natural) <= room:
        return count, 0, [min(size, limit) for size in natural]
    # Columns are left out in the middle, as few as possible, and at least one remains.
    left, right, used = 0, 0, 1 + cut + 3
    while left + right < count:
        index = left if left <= right else count - 1 - right
        size = min(natural[index], NARROWEST)
        if used + size + 3 > width and left:
            break
        used += size + 3
        left, right = (left + 1, right) if left <= right else (left, right + 1)
    shown = [*natural[:left], *natural[count - right :]]
    room = max(width - 4 - cut - 3 * len(shown), len(shown))
    limit = _level(shown, room)
    return left, right, [min(size, max(limit, 1)) for size in shown]


def _level(natural: Sequence[int], room: int) -> int:
    """The largest width to which wider columns are shortened so that all fit."""
    # Widths 3, 10 and 40 in a room of 33: 3 leaves 30 for two columns, 10 leaves 20 for the last,
    # so columns are at most 20 wide.
    remaining, left = room, len(natural)
    for size in sorted(natural):
        if size * left > remaining:
            return max(remaining // left, 0)
        remaining -= size
        left -= 1
    return max(natural, default=0)


def text_width(text: str) -> int:
    """The number of columns of a terminal that a text occupies."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
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


def _cut(text: str, width: int, end: str) -> str:
    """The text, shortened to a width."""
    if text_width(text) <= width:
        return text
    end = end[:width]
    shown, used = [], len(end)
    for character in text:
        used += _character_width(character)
        if used > width:
            break
        shown.append(character)
    short = "".join(shown) + end
    return short + " " * (width - text_width(short))


# Text without borders


def _markdown(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    def line(cells: Iterator[str]) -> str:
        return "| " + " | ".join(map(_in_markdown, cells)) + " |"

    if layout.header:
        yield line(item.name for item in fields)
        yield "|" + "|".join("---:" if item.type.is_numeric else "---" for item in fields) + "|"
    for row in rows:
        yield line(value_text(value, layout.null or NULL_TEXT) for value in row)


def _in_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", "").replace("\n", "<br>")


def _lines(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    names = [printable(item.name, LONGEST_CELL) for item in fields]
    widest = max(map(text_width, names), default=0)
    for number, row in enumerate(rows, layout.first):
        if layout.header:
            yield f"-[ row {number} ]".ljust(max(widest + 3, 20), "-")
        for name, value in zip(names, row, strict=True):
            text = value_text(value, layout.null or NULL_TEXT)
            yield f"{name}{' ' * (widest - text_width(name))} | {printable(text, len(text))}"


def _csv(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    return _separated(fields, rows, layout, ",")


def _tsv(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    return _separated(fields, rows, layout, "\t")


def _separated(
    fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout, separator: str
) -> Iterator[str]:
    """A text that is empty is quoted, because NULL is nothing between two separators."""
    marks = (separator, '"', "\n", "\r")

    def quoted(text: str) -> str:
        if text and text == text.strip() and not any(mark in text for mark in marks):
            return text
        return '"' + text.replace('"', '""') + '"'

    if layout.header:
        yield separator.join(quoted(item.name) for item in fields)
    for row in rows:
        yield separator.join(
            layout.null or "" if value is None else quoted(value_text(value)) for value in row
        )


def _json_object(names: Sequence[str], row: Row) -> str:
    pairs = (f"{name}: {json_text(value)}" for name, value in zip(names, row, strict=True))
    return "{" + ", ".join(pairs) + "}"


def _json_lines(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    names = [json_text(item.name) for item in fields]
    return (_json_object(names, row) for row in rows)


def _json(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """One array; its rows are on lines of their own."""
    objects = _json_lines(fields, rows, layout)
    last = len(rows) - 1
    yield "["
    for number, text in enumerate(islice(objects, len(rows))):
        yield f"  {text}{',' if number < last else ''}"
    yield "]"


MODES: dict[str, Callable[[Sequence[Field], Sequence[Row], TableLayout], Iterator[str]]] = {
    "box": _boxed,
    "ascii": _ascii,
    "markdown": _markdown,
    "line": _lines,
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "jsonlines": _json_lines,
}
"""The ways to print rows, by name."""
