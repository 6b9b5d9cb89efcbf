"""Rows as text: a table that fits a terminal, or Markdown, CSV, JSON, and one line for each value.

`table_text` is the whole interface. It reads no result and prints nothing: a cursor, a notebook and
a command line call it with rows that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError
from runnel.expressions.kernels.values import python_values
from runnel.relation.nodes import Field
from runnel.results import plain_text
from runnel.results.text_layout import (
    LONGEST_CELL,
    Row,
    TableLayout,
    character_width,
    printable,
    text_width,
)
from runnel.results.value_text import NULL_TEXT, value_text

NARROWEST = 8
"""Number of characters to which a column is shortened before a column is left out."""


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
        [printable(value_text(row[index], layout.null_text(NULL_TEXT)), most) for row in rows]
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


def _cut(text: str, width: int, end: str) -> str:
    """The text, shortened to a width."""
    if text_width(text) <= width:
        return text
    end = end[:width]
    shown, used = [], len(end)
    for character in text:
        used += character_width(character)
        if used > width:
            break
        shown.append(character)
    short = "".join(shown) + end
    return short + " " * (width - text_width(short))


MODES: dict[str, Callable[[Sequence[Field], Sequence[Row], TableLayout], Iterator[str]]] = {
    "box": _boxed,
    "ascii": _ascii,
    "markdown": plain_text.markdown,
    "line": plain_text.lines,
    "csv": plain_text.csv,
    "tsv": plain_text.tsv,
    "json": plain_text.json,
    "jsonlines": plain_text.json_lines,
    "list": plain_text.delimited,
    "column": plain_text.columns,
    "html": plain_text.html_table,
    "insert": plain_text.inserts,
}
"""The ways to print rows, by name."""
