"""Finding the line of a CSV file that is to blame. Reads the file again, row by row: only ever done
to report an error."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from runnel.connectors.files.input import open_text, undecodable
from runnel.connectors.files.options import CsvDialect, FileOptions
from runnel.errors import DataError


def python_dialect(dialect: CsvDialect) -> dict[str, Any]:
    """The dialect in the terms of Python's csv module."""
    return {
        "delimiter": dialect.delimiter,
        "quotechar": dialect.quote or None,
        "quoting": csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        "doublequote": bool(dialect.quote),
        "escapechar": dialect.escape or None,
    }


def line_of_row(path: str, options: FileOptions, row: int) -> int | None:
    """The line on which row `row` begins (a header is one); None if it can't be told."""
    try:
        for index, (line, _) in enumerate(_rows(path, options)):
            if index == row:
                return line
    except (csv.Error, UnicodeDecodeError):
        return None
    return None


def ragged_row(path: str, options: FileOptions, width: int) -> DataError | None:
    """The error for the first row that hasn't `width` fields, or that isn't UTF-8; None if there is
    no such row."""
    line = 0
    try:
        for line, fields in _rows(path, options):
            if len(fields) != width:
                return DataError(
                    f"a row has {len(fields)} fields where {width} are expected",
                    detail=f'file "{path}", line {line}',
                    hint=(
                        "quote fields that hold the delimiter, or set the options delimiter, "
                        "quote and escape"
                    ),
                )
    except UnicodeDecodeError:
        return undecodable(path, options.compression)
    except csv.Error:
        return None
    return None


def _rows(path: str, options: FileOptions) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its first line. A blank line is a row only among rows of
    one field."""
    with open_text(path, options.compression, replace_invalid=options.replace_invalid) as stream:
        rows = csv.reader(stream, **python_dialect(options.dialect))
        before = 0
        width = 0
        for fields in rows:
            width = width or len(fields)
            if fields or width == 1:
                yield before + 1, fields or [""]
            before = rows.line_num


def ends_in_quotes(path: str, options: FileOptions) -> bool:
    """Whether the file ends inside a quoted field: it was cut off, or a quote was never closed."""
    with open_text(path, options.compression, replace_invalid=True) as stream:
        try:
            for _ in csv.reader(stream, **python_dialect(options.dialect), strict=True):
                pass
        except csv.Error as error:
            return "unexpected end of data" in str(error)
    return False
