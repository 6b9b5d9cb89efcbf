"""CSV records read piece by piece: see `record_parser`. Values are read as text and converted, as
in `csv_format`."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from runnel.catalog import TableColumn
from runnel.columns.batches import from_flags, true_flags
from runnel.connectors.files.conversion import (
    Converter,
    blank_to_null,
    unfit,
)
from runnel.connectors.files.csv.csv_faults import check_header, python_dialect
from runnel.connectors.files.csv.csv_reader import CsvHead, arrow_options, distinct_names
from runnel.connectors.files.csv.csv_times import text_converter
from runnel.connectors.files.format import batch_of, external_name, match_names
from runnel.connectors.files.records.parser import RecordParser
from runnel.errors import DataError
from runnel.expressions.casts.try_cast import attempted
from runnel.sqltypes import VARCHAR, to_arrow

_NEWLINE = 10


class CsvRecords(RecordParser):
    """Rows with delimiters. The columns' names are those of the file's own header."""

    names: tuple[str, ...] | None = None
    """Of the columns, as the header has them; given by the caller where there is none."""

    def begin(self, data: bytes, is_end: bool) -> int | None:
        mark = super().begin(data, is_end)
        if mark is not None:
            mark = self._after_skipped(data, mark, is_end)
        if mark is None or not self.options.dialect.header:
            return mark
        start = mark
        while (end := data.find(b"\n", start)) >= 0 and not data[start:end].strip():
            start = end + 1
        stop = start + self.whole(data[start:]) if end >= 0 else 0
        if stop <= start and not (is_end and data[start:].strip()):
            return None
        rows = csv.reader(
            io.StringIO(self._decoded(data[start:] if is_end else data[start:stop])),
            **self._dialect,
        )
        names = next(rows)
        self.names = distinct_names(names)
        if not self.asked.is_inferred:
            check_header(self.path, self.names, self.asked.table_columns)
        header = b"".join(line + b"\n" for line in data[start:].split(b"\n")[: rows.line_num])
        return min(len(data), start + len(header))

    def _after_skipped(self, data: bytes, mark: int, is_end: bool) -> int | None:
        """The position after the lines that the dialect skips; None if more data is needed."""
        for _ in range(self.options.dialect.skip):
            end = data.find(b"\n", mark)
            if end < 0:
                return len(data) if is_end else None
            mark = end + 1
        return mark

    def _decoded(self, data: bytes) -> str:
        return data.decode(self.encoding, "replace")

    def whole(self, data: bytes) -> int:
        end = data.rfind(b"\n") + 1
        dialect = self.options.dialect
        quote = dialect.quote.encode()
        if not quote or not end or quote not in data:
            return end
        if dialect.escape and dialect.escape.encode() in data:
            return self._last_row_end(data[:end])
        characters = np.frombuffer(data, np.uint8, end)
        quotes = np.flatnonzero(characters == quote[0])
        opening = quotes[::2]
        before = characters[opening - 1]
        starts_field = np.isin(
            before, np.frombuffer(b"\r\n" + quote + dialect.delimiter.encode(), np.uint8)
        ) | (opening == 0)
        if not starts_field.all():
            return self._last_row_end(data[:end])
        newlines = np.flatnonzero(characters == _NEWLINE)
        outside = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0

    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        width = self._width(data)
        places = self._places(width)
        used = sorted({place for place in places if place is not None})
        piece = Piece(self, data, line, width)
        texts = piece.read(used)
        rows = texts.num_rows
        arrays, bad = [], np.zeros(rows, np.bool_)
        for column, place in zip(self.asked.requested, places, strict=True):
            if place is None:
                arrays.append(pa.nulls(rows, to_arrow(column.type)))
            else:
                arrays.append(self._typed(texts.column(used.index(place)), column, piece, bad))
        batch = batch_of(arrays, self.asked.names, rows)
        return batch.filter(from_flags(~bad)) if bad.any() else batch

    def _typed(
        self, text: pa.Array, column: TableColumn, piece: Piece, bad: np.ndarray
    ) -> pa.Array:
        """A column of text in the table's type; rows with values that don't fit are added to
        `bad`."""
        convert = text_converter(column, self.options.dialect, self.asked.is_inferred)
        if convert is None:
            return text
        try:
            return convert(text)
        except (pa.ArrowException, DataError):
            return self._those_that_fit(text, column, convert, (piece, bad))

    def _those_that_fit(
        self,
        text: pa.Array,
        column: TableColumn,
        convert: Converter,
        rows: tuple[Piece, np.ndarray],
    ) -> pa.Array:
        piece, bad = rows
        context = self.asked.evaluation
        found = attempted(lambda item, _: convert(item), text, VARCHAR, column.type, context)
        assert isinstance(found, pa.Array)
        for index in np.flatnonzero(
            true_flags(found.is_null()) & true_flags(blank_to_null(text).is_valid())
        ).tolist():
            if not bad[index]:
                bad[index] = True
                value = text[index].as_py()
                error = unfit(
                    value, column.name, column.type, None, is_inferred=self.asked.is_inferred
                )
                self.leave_out(error, piece.line_of(index), piece.record_of(index))
        return found

    def _width(self, data: bytes) -> int:
        """How many fields a row has."""
        if self.names is None:
            row = next(
                (row for row in csv.reader(io.StringIO(self._text(data)), **self._dialect) if row),
                [],
            )
            self.names = tuple(f"column{i}" for i in range(len(row) or 1))
        return len(self.names)

    def _places(self, width: int) -> list[int | None]:
        if self.options.dialect.header:
            return match_names(
                [external_name(column) for column in self.asked.requested], self.names or ()
            )
        return [i if i < width else None for i in self.asked.columns]

    @cached_property
    def _dialect(self) -> dict[str, Any]:
        return python_dialect(self.options.dialect)

    @staticmethod
    def _text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    def _last_row_end(self, data: bytes) -> int:
        """Where the last whole row ends, by Python's reader: quotes that stand within fields make
        it necessary."""
        lines = data.split(b"\n")
        rows = csv.reader(
            (self._text(line) + "\n" for line in lines[:-1]), **self._dialect, strict=True
        )
        whole = 0
        try:
            for _ in rows:
                whole = rows.line_num
        except csv.Error as error:
            if "unexpected end of data" not in str(error):
                # Not by our notion of quotes; Arrow, which is less strict, decides.
                whole = len(lines) - 1
        return sum(len(line) + 1 for line in lines[:whole])


class Piece:
    """Some whole rows. Where each stands is found out when an error needs it."""

    def __init__(self, parser: CsvRecords, data: bytes, line: int, width: int) -> None:
        self._parser = parser
        self._data = data
        self._line = line
        self._width = width

    def read(self, used: list[int]) -> pa.RecordBatch:
        """The rows that have the right number of fields, as text."""
        head = CsvHead(tuple(map(str, range(self._width))), 0, True)
        dialect = replace(self._parser.options.dialect, skip=0)
        options = arrow_options(head, used, dialect, len(self._data) + 1)
        ragged = 0

        def skip(_: Any) -> str:
            nonlocal ragged
            ragged += 1
            return "skip"

        options["parse_options"].invalid_row_handler = skip
        if not self._data.strip() and self._width > 1:
            return batch_of([pa.nulls(0, pa.string())] * len(used), list(map(str, used)), 0)
        try:
            table = arrow_csv.read_csv(pa.BufferReader(self._data), **options)
        except pa.ArrowInvalid as error:
            self._parser.leave_out(
                DataError("rows can't be read as CSV", detail=str(error)),
                self._line,
                self._data.decode(),
            )
            return batch_of([pa.nulls(0, pa.string())] * len(used), list(map(str, used)), 0)
        if ragged:
            self._tell_ragged()
        columns = [table.column(i).combine_chunks() for i in range(len(used))]
        return batch_of(columns, list(map(str, used)), table.num_rows)

    def line_of(self, row: int) -> int:
        """The line on which a row that was read begins."""
        return self._line + self._rows[0][row][0]

    def record_of(self, row: int) -> str:
        """The text of a row that was read."""
        return self._record(*self._rows[0][row])

    @cached_property
    def _lines(self) -> list[str]:
        return self._data.decode().split("\n")

    @cached_property
    def _rows(self) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
        """From which line to which the rows go, counted from 0: those with the right number of
        fields, and the others with theirs."""
        right: list[tuple[int, int]] = []
        ragged: list[tuple[int, int, int]] = []
        rows = csv.reader((line + "\n" for line in self._lines[:-1]), **self._parser._dialect)
        before = 0
        for fields in rows:
            if len(fields) == self._width or (not fields and self._width == 1):
                right.append((before, rows.line_num))
            elif fields:
                ragged.append((before, rows.line_num, len(fields)))
            before = rows.line_num
        return right, ragged

    def _record(self, first: int, after: int) -> str:
        return "\n".join(self._lines[first:after]).rstrip("\r")

    def _tell_ragged(self) -> None:
        for first, after, count in self._rows[1]:
            error = DataError(
                f"a row has {count} fields where {self._width} are expected",
                hint=(
                    "quote fields that hold the delimiter, or set the options delimiter, "
                    "quote and escape"
                ),
            )
            self._parser.leave_out(error, self._line + first, self._record(first, after))
