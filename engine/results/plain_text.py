"""Rows as text without borders: Markdown, CSV, JSON, HTML, INSERT statements, lists and columns."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

from runnel.errors import as_written
from runnel.relation.nodes import Field
from runnel.results.text_layout import LONGEST_CELL, Row, TableLayout, printable, text_width
from runnel.results.value_text import NULL_TEXT, json_text, value_text
from runnel.sqltypes import Kind, SqlType


def markdown(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """A table of Markdown."""

    def line(cells: Iterator[str]) -> str:
        return "| " + " | ".join(map(_in_markdown, cells)) + " |"

    if layout.header:
        yield line(item.name for item in fields)
        yield "|" + "|".join("---:" if item.type.is_numeric else "---" for item in fields) + "|"
    for row in rows:
        yield line(value_text(value, layout.null_text(NULL_TEXT)) for value in row)


def _in_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", "").replace("\n", "<br>")


def lines(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """Each value on a line of its own."""
    names = [printable(item.name, LONGEST_CELL) for item in fields]
    widest = max(map(text_width, names), default=0)
    for number, row in enumerate(rows, layout.first):
        if layout.header:
            yield f"-[ row {number} ]".ljust(max(widest + 3, 20), "-")
        for name, value in zip(names, row, strict=True):
            text = value_text(value, layout.null_text(NULL_TEXT))
            yield f"{name}{' ' * (widest - text_width(name))} | {printable(text, len(text))}"


def csv(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """Values with commas between them."""
    return _separated(fields, rows, layout, layout.separator or ",")


def tsv(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """Values with tabs between them."""
    return _separated(fields, rows, layout, layout.separator or "\t")


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
            layout.null_text("") if value is None else quoted(value_text(value)) for value in row
        )


def _json_object(names: Sequence[str], row: Row) -> str:
    pairs = (f"{name}: {json_text(value)}" for name, value in zip(names, row, strict=True))
    return "{" + ", ".join(pairs) + "}"


def json_lines(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """An object for each row."""
    names = [json_text(item.name) for item in fields]
    return (_json_object(names, row) for row in rows)


def json(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """One array; its rows are on lines of their own."""
    objects = json_lines(fields, rows, layout)
    last = len(rows) - 1
    yield "["
    for number, text in enumerate(islice(objects, len(rows))):
        yield f"  {text}{',' if number < last else ''}"
    yield "]"


def delimited(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """Values with a separator between them, by default "|". Nothing is quoted."""
    separator, null = layout.separator or "|", layout.null_text("")
    if layout.header:
        yield separator.join(item.name for item in fields)
    for row in rows:
        yield separator.join(value_text(value, null) for value in row)


def columns(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """Values in columns, with two spaces or the separator between them."""
    null, between = layout.null_text(NULL_TEXT), layout.separator or "  "
    cells = [[printable(value_text(value, null), LONGEST_CELL) for value in row] for row in rows]
    names = [printable(item.name, LONGEST_CELL) for item in fields]
    shown = [names, *cells] if layout.header else cells
    widths = [max((text_width(row[n]) for row in shown), default=0) for n in range(len(fields))]

    def aligned(text: str, index: int) -> str:
        room = " " * (widths[index] - text_width(text))
        return room + text if fields[index].type.is_numeric else text + room

    def line(texts: Sequence[str]) -> str:
        return between.join(map(aligned, texts, range(len(fields)))).rstrip()

    if layout.header:
        yield line(names)
        yield between.join("-" * width for width in widths)
    yield from map(line, cells)


def html_table(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """A table of HTML; each of its rows is a line."""

    def line(tag: str, texts: Iterator[str]) -> str:
        cells = "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
        return f"<tr>{cells}</tr>"

    yield "<table>"
    if layout.header:
        yield line("th", (item.name for item in fields))
    for row in rows:
        yield line("td", (value_text(value, layout.null_text("")) for value in row))
    yield "</table>"


def inserts(fields: Sequence[Field], rows: Sequence[Row], layout: TableLayout) -> Iterator[str]:
    """An INSERT statement for each row."""
    table = as_written(layout.table)
    names = ", ".join(as_written(item.name) for item in fields)
    for row in rows:
        values = (_literal(value, item.type) for value, item in zip(row, fields, strict=True))
        yield f"INSERT INTO {table} ({names}) VALUES ({', '.join(values)});"


def _literal(value: Any, sql_type: SqlType) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | Decimal) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value_text(value)
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return "[" + ", ".join(_literal(item, sql_type.element) for item in value) + "]"
    if sql_type.kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
        key, element = sql_type.key, sql_type.element
        pairs = (
            f"{_literal(name, key)}: {_literal(item, element)}" for name, item in value.items()
        )
        return "MAP {" + ", ".join(pairs) + "}"
    if sql_type.kind is Kind.ROW:
        return _row_literal(value, sql_type)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{_quoted(value_text(value))}::DOUBLE"
    return _quoted(value_text(value))


def _row_literal(value: Any, sql_type: SqlType) -> str:
    values = value.values() if isinstance(value, dict) else value
    pairs = (
        f"{_quoted(name)}: {_literal(item, field)}"
        for (name, field), item in zip(sql_type.fields, values, strict=True)
    )
    return "{" + ", ".join(pairs) + "}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
