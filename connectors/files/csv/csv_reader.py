"""Reading one CSV file as text: its header, and its rows as batches of VARCHAR columns."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from runnel.columns.batches import empty_columns
from runnel.connectors.files.csv.csv_faults import (
    ends_in_quotes,
    python_dialect,
    ragged_row,
    skip_lines,
)
from runnel.connectors.files.format import Batches
from runnel.connectors.files.input import BLOCK_BYTES, open_input, open_text, undecodable
from runnel.connectors.files.options import CsvDialect, FileOptions
from runnel.connectors.files.records.malformed import naming_on_error
from runnel.connectors.files.storage import DataFile
from runnel.errors import Error, OperationalError

LONGEST_ROW = 1 << 28
"""The longest row that is read, in bytes."""

ROW_LONGER_THAN_BLOCK = "straddl"
"""What Arrow says of it; also of a file with a quote that is never closed."""


@dataclass(frozen=True, slots=True)
class CsvHead:
    """What the start of a file tells: the names of its columns, the rows before the data, and
    whether there are data."""

    names: tuple[str, ...]
    skipped_rows: int
    has_rows: bool


def read_head(file: DataFile, options: FileOptions) -> CsvHead:
    """The head of a file. Without a header the columns are called column0, column1, …; so are
    columns without a name; a name that comes again gets a number."""
    dialect = options.dialect
    with open_text(file.path, options) as stream:
        skip_lines(stream, dialect)
        rows = csv.reader(stream, **python_dialect(dialect))
        blank = 0
        first: list[str] = []
        try:
            for first in rows:
                if first:
                    break
                blank += 1
            # A blank line is a row only where rows have one field.
            has_rows = bool(first) and (
                not dialect.header or any(fields or len(first) == 1 for fields in rows)
            )
        except csv.Error as error:
            raise OperationalError(
                f'file "{file.path}" can\'t be read as CSV', detail=str(error)
            ) from error
        except UnicodeDecodeError as error:
            raise undecodable(file.path, options) from error
    if dialect.header:
        return CsvHead(distinct_names(first), blank + 1, has_rows)
    return CsvHead(tuple(f"column{i}" for i in range(len(first))), 0, has_rows)


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names made different from each other without regard to case."""
    taken: set[str] = set()
    distinct = []
    for i, name in enumerate(names):
        base = name.strip() or f"column{i}"
        candidate, number = base, 0
        while candidate.lower() in taken:
            number += 1
            candidate = f"{base}_{number}"
        taken.add(candidate.lower())
        distinct.append(candidate)
    return tuple(distinct)


def text_batches(
    file: DataFile, head: CsvHead, used: Sequence[int], options: FileOptions, emitted: int = 0
) -> Batches:
    """The rows after the first `emitted` ones as batches of the columns at `used`, as text. Where a
    row is longer than a block, reading starts again with longer blocks after the rows already
    emitted."""
    if not head.has_rows:
        return
    block = BLOCK_BYTES
    while True:
        try:
            for batch in _batches_after(emitted, file, head, used, (options, block)):
                yield batch
                emitted += batch.num_rows
            return
        except pa.ArrowInvalid as error:
            if ROW_LONGER_THAN_BLOCK not in str(error) or block >= LONGEST_ROW:
                raise _broken(file, head, options, error) from error
            block *= 16


def _batches_after(
    rows: int, file: DataFile, head: CsvHead, used: Sequence[int], how: tuple[FileOptions, int]
) -> Batches:
    options, block = how
    quotes = QuoteCounter(options.dialect.quote)
    arguments = arrow_options(head, used, options.dialect, block)
    if not options.on_error.fails:
        # Malformed rows are left out while columns are inferred, too.
        arguments["parse_options"].invalid_row_handler = lambda _: "skip"
    with (
        open_input(file.path, options, quotes.add) as stream,
        arrow_csv.open_csv(stream, **arguments) as reader,
    ):
        for batch in reader:
            skipped = min(rows, batch.num_rows)
            rows -= skipped
            if skipped < batch.num_rows:
                rest = batch.slice(skipped)
                yield rest if used else empty_columns(rest.num_rows)
    if options.on_error.fails and quotes.is_odd and ends_in_quotes(file.path, options):
        raise OperationalError(
            f'file "{file.path}" ends inside a quoted field',
            hint="the file was cut off, or a quote is never closed",
        )


class QuoteCounter:
    """Counts quotes as bytes go by. Arrow takes the end of the file for the end of a quoted field:
    an odd number tells that it is worth to look closer."""

    def __init__(self, quote: str) -> None:
        self._quote = quote.encode()
        self._count = 0

    def add(self, piece: bytes) -> None:
        if self._quote:
            self._count += piece.count(self._quote)

    @property
    def is_odd(self) -> bool:
        return self._count % 2 == 1


def arrow_options(
    head: CsvHead, used: Sequence[int], dialect: CsvDialect, block: int
) -> dict[str, Any]:
    """How Arrow reads rows of these columns: those at `used` as text."""
    # The names are numbers, since those of the file may be in the way of each other.
    names = [str(i) for i in range(len(head.names))]
    included = [names[i] for i in used] if used else names[:1]
    return {
        "read_options": arrow_csv.ReadOptions(
            column_names=names,
            skip_rows=dialect.skip,
            skip_rows_after_names=head.skipped_rows,
            block_size=block,
            use_threads=False,
        ),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            double_quote=bool(dialect.quote),
            escape_char=dialect.escape or False,
            newlines_in_values=bool(dialect.quote),
            # A blank line is a row only where rows have one field: then it is how a NULL looks.
            ignore_empty_lines=len(names) > 1,
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(included, pa.string()),
            include_columns=included,
            null_values=[dialect.null, *dialect.more_nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=dialect.quoted_nulls,
        ),
    }


def _broken(file: DataFile, head: CsvHead, options: FileOptions, error: pa.ArrowInvalid) -> Error:
    """The error for a file that Arrow refuses, with the line where that can be told."""
    found = ragged_row(file.path, options, len(head.names))
    if found is not None:
        return naming_on_error(found)
    if "UTF8" in str(error):
        return undecodable(file.path, options)
    return OperationalError(f'file "{file.path}" can\'t be read as CSV', detail=str(error))
