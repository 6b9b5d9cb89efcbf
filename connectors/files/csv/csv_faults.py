"""Finding the line of a CSV file that is to blame. Reads the file again, row by row: only ever done
to report an error."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from runnel.catalog import TableColumn
from runnel.connectors.files.format import external_name
from runnel.connectors.files.inference import SHOWN_NAMES
from runnel.connectors.files.input import open_text, undecodable
from runnel.connectors.files.options import CsvDialect, FileOptions
from runnel.errors import DataError, ProgrammingError


def python_dialect(dialect: CsvDialect) -> dict[str, Any]:
    """The dialect in the terms of Python's csv module."""
    return {
        "delimiter": dialect.delimiter,
        "quotechar": dialect.quote or None,
        "quoting": csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        "doublequote": bool(dialect.quote),
        "escapechar": dialect.escape or None,
    }


def skip_lines(stream: TextIO, dialect: CsvDialect) -> int:
    """Reads the lines before the header, and returns how many there were."""
    return sum(1 for _ in range(dialect.skip) if stream.readline())


def check_header(path: str, names: Sequence[str], columns: Sequence[TableColumn]) -> None:
    """ProgrammingError if the header of a file has none of the table's columns, so that its rows
    would have only NULL: the first row may be data, or the delimiter another one."""
    own = [column for column in columns if not column.hidden]
    expected = {external_name(column).lower() for column in own}
    if not names or not expected.isdisjoint(name.lower() for name in names):
        return
    if len(own) < 2 and len(names) > 1:
        return  # an older file may lack a single column
    shown = ", ".join(names[:SHOWN_NAMES])
    raise ProgrammingError(
        f'the header of file "{path}" has none of the columns {", ".join(sorted(expected))}',
        detail=f"the first row is: {shown}",
        hint="if it is data, add OPTIONS ('header' = 'false'); if the values are separated by "
        "another character, name it with 'delimiter'",
    )


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
        return undecodable(path, options)
    except csv.Error:
        return None
    return None


def _rows(path: str, options: FileOptions) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its first line. A blank line is a row only among rows of
    one field."""
    with open_text(path, options) as stream:
        skipped = skip_lines(stream, options.dialect)
        rows = csv.reader(stream, **python_dialect(options.dialect))
        before = 0
        width = 0
        for fields in rows:
            width = width or len(fields)
            if fields or width == 1:
                yield skipped + before + 1, fields or [""]
            before = rows.line_num


def ends_in_quotes(path: str, options: FileOptions) -> bool:
    """Whether the file ends inside a quoted field: it was cut off, or a quote was never closed."""
    with open_text(path, options, replace_invalid=True) as stream:
        skip_lines(stream, options.dialect)
        try:
            for _ in csv.reader(stream, **python_dialect(options.dialect), strict=True):
                pass
        except csv.Error as error:
            return "unexpected end of data" in str(error)
    return False
