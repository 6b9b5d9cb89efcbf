"""Finds the delimiter, the quote, the escape and the lines before the header of a CSV file.

DuckDB's sniffer answers, unless the sample has no delimiter but commas. Its answer is compared with
the number of fields of each row, because it prefers one column to rows of different lengths.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runnel.connectors.files.csv.csv_faults import python_dialect
from runnel.connectors.files.options import DELIMITER, ESCAPE, QUOTE, SKIP, CsvDialect

_OTHERS = re.compile(r"""[;\t|]|\\"|(^|,)[ ]*'""", re.MULTILINE)
"""Characters that a file with commas and double quotes does not have."""

_COMMAS = re.compile(r"(?<=[0-9]),(?=[0-9])")
_CANDIDATES = (",", ";", "\t", "|")
MOST_ROWS = 2_000
"""How many rows of the sample are compared."""
MOST_SKIPPED = 20
"""The maximum number of lines before the header."""
_ENOUGH = 0.9
"""The share of rows with the same number of fields from which on a delimiter is accepted."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A dialect and the rows that it makes of the sample.

    dialect: the dialect, with the lines to skip.
    rows: the rows after these lines, without blank ones.
    width: the number of fields that most rows have.
    share: the share of the rows that have this number of fields.
    """

    dialect: CsvDialect
    rows: tuple[tuple[str, ...], ...]
    width: int
    share: float


def found_layout(text: str, start: CsvDialect, unset: frozenset[str]) -> Layout:
    """The layout of a sample of whole lines. `start` has the options and defaults; only the ones in
    `unset` are changed."""
    plain = _layout(text, start, unset)
    if unset.isdisjoint((DELIMITER.name, QUOTE.name, ESCAPE.name)):
        return plain
    if start.delimiter == "," and _OTHERS.search(text) is None:
        return plain
    answer = _by_duckdb(text, start, unset)
    layouts = [] if answer is None else [_layout(text, answer, unset)]
    is_decimal = "," in text and "," not in _COMMAS.sub("", text)
    if layouts and layouts[0].width > 1 and layouts[0].share >= _ENOUGH and not is_decimal:
        return layouts[0]
    if DELIMITER.name in unset:
        others = (start.delimiter, *(item for item in _CANDIDATES if item != start.delimiter))
        quoted = layouts[0].dialect if layouts else start
        layouts += [_layout(text, replace(quoted, delimiter=item), unset) for item in others]
    # A comma between digits in all cases is more likely part of a number.
    return max(
        [*layouts, plain],
        key=lambda item: (
            item.width > 1 and item.share >= _ENOUGH,
            item.width > 1,
            not (is_decimal and item.dialect.delimiter == ","),
            round(item.share, 2),
        ),
    )


def _layout(text: str, dialect: CsvDialect, unset: frozenset[str]) -> Layout:
    rows, ends = _rows(text, dialect)
    if not rows:
        return Layout(dialect, (), 0, 0.0)
    widths = Counter(map(len, rows))
    width = max(widths, key=lambda item: (widths[item], item))
    skipped = _preamble(rows, width) if SKIP.name in unset else 0
    if skipped:
        dialect = replace(dialect, skip=ends[skipped - 1])
        rows = rows[skipped:]
    kept = tuple(row for row in rows if row)
    share = sum(len(row) == width for row in kept) / len(kept) if kept else 0.0
    return Layout(dialect, kept, width, share)


def _rows(text: str, dialect: CsvDialect) -> tuple[list[tuple[str, ...]], list[int]]:
    """The rows after the skipped lines, blank ones as (), and the number of lines until each
    one's end."""
    lines = io.StringIO(text, newline="")
    for _ in range(dialect.skip):
        lines.readline()
    reader = csv.reader(lines, **python_dialect(dialect))
    rows, ends = [], []
    try:
        for row in reader:
            rows.append(tuple(row))
            ends.append(dialect.skip + reader.line_num)
            if len(rows) > MOST_ROWS:
                break
    except csv.Error:
        pass
    return rows, ends


def _preamble(rows: Sequence[tuple[str, ...]], width: int) -> int:
    """The number of rows before the table: comments, and text without a delimiter."""
    if width < 2:
        return 0
    for i, row in enumerate(rows[: MOST_SKIPPED + 1]):
        if len(row) == width:
            rest = [item for item in rows[i:] if item]
            is_table = len(rest) > 1 and sum(len(item) == width for item in rest) >= 0.9 * len(rest)
            return i if is_table and any(rows[:i]) else 0
        is_comment = bool(row) and row[0].startswith("#")
        if not is_comment and (len(row) > 1 or any(mark in "".join(row) for mark in _CANDIDATES)):
            return 0
    return 0


def _by_duckdb(text: str, start: CsvDialect, unset: frozenset[str]) -> CsvDialect | None:
    """The answer of DuckDB's sniffer; None without one."""
    # Loaded on first use: files with commas don't need it.
    import duckdb

    arguments = ["ignore_errors = true", "sample_size = 20480"]
    for option, name, value in (
        (DELIMITER, "delim", start.delimiter),
        (QUOTE, "quote", start.quote),
        (ESCAPE, "escape", start.escape or start.quote),
    ):
        if option.name not in unset:
            arguments.append(f"{name} = {_literal(value)}")
    with tempfile.TemporaryDirectory(prefix="runnel-sniff-") as folder:
        path = Path(folder, "sample.csv")
        path.write_bytes(text.encode("utf-8", "replace"))
        connection = duckdb.connect(":memory:", config={"threads": 1})
        try:
            found = connection.execute(
                'SELECT "Delimiter", "Quote", "Escape" FROM '
                f"sniff_csv({_literal(str(path))}, {', '.join(arguments)})"
            ).fetchone()
        except duckdb.Error:
            return None
        finally:
            connection.close()
    if found is None:
        return None
    delimiter, quote, escape = ("" if item == "(empty)" else str(item) for item in found)
    quote = quote or start.quote
    escape = "" if escape == quote or QUOTE.name not in unset else escape
    if ESCAPE.name not in unset:
        escape = start.escape
    if len(delimiter) != 1 or not delimiter.isascii():
        return None
    return replace(start, delimiter=delimiter, quote=quote, escape=escape)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
