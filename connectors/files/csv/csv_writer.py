"""Writing CSV: values as CAST AS VARCHAR gives them, arrays, rows and maps as JSON, quoted only
where reading them back needs it.

NULL is the `nullValue` without quotes; text that would read as NULL is quoted. All of it is done on
whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import converter
from runnel.connectors.files.csv.csv_times import time_formatter
from runnel.connectors.files.format import external_name
from runnel.connectors.files.options import CsvDialect
from runnel.connectors.files.output import FileOutput, RowWriter, text_buffer
from runnel.errors import DataError
from runnel.expressions.kernels.values import array_of, scalar_of
from runnel.sqltypes import VARCHAR, Kind

_HARMLESS_DELIMITERS = ",;\t|"
"""Delimiters that the text of no number, date or time has in it."""


class CsvWriter(RowWriter):
    """Writes the header at once, then the rows."""

    def __init__(
        self, output: FileOutput, columns: Sequence[TableColumn], dialect: CsvDialect
    ) -> None:
        self._output = output
        self._columns = columns
        self._dialect = dialect
        self._delimiter = scalar_of(dialect.delimiter, VARCHAR)
        self._null = scalar_of(dialect.null, VARCHAR)
        self._quote = scalar_of(dialect.quote, VARCHAR)
        self._nothing = scalar_of("", VARCHAR)
        self._end = scalar_of("\n", VARCHAR)
        special = "".join(
            re.escape(item) for item in (dialect.delimiter, dialect.quote, dialect.escape) if item
        )
        self._special = rf"[{special}\r\n]|^$|^\s|\s$|^{re.escape(dialect.null)}$"
        if dialect.header:
            names = [
                self._quoted(array_of([external_name(column)], VARCHAR), self._is_forced(column))
                for column in columns
            ]
            self._write_lines(names)

    def write(self, batch: pa.RecordBatch) -> None:
        fields = []
        for column, values in zip(self._columns, batch.columns, strict=True):
            text, is_plain = self._text(column, values)
            forced = self._is_forced(column)
            if forced or not is_plain:
                text = self._quoted(text, forced)
            fields.append(pc.fill_null(text, self._null))
        self._write_lines(fields)

    def _text(self, column: TableColumn, values: pa.Array) -> tuple[pa.Array, bool]:
        """The values as text, and whether none of them can need quotes."""
        formatter = time_formatter(column.type, self._dialect)
        if formatter is not None:
            return formatter(values), False
        convert = converter(column.type, VARCHAR)
        text = values if convert is None else convert(values)
        if self._dialect.decimal == "," and column.type.is_numeric:
            return pc.replace_substring(text, ".", ","), False
        is_text = column.type.is_nested or column.type.kind in (Kind.VARCHAR, Kind.JSON)
        return text, not is_text and self._dialect.delimiter in _HARMLESS_DELIMITERS

    def _is_forced(self, column: TableColumn) -> bool:
        """Whether all values of the column have quotes."""
        return column.name in self._dialect.quoted

    def _quoted(self, text: pa.Array, is_forced: bool) -> pa.Array:
        needs_quotes = (
            text.is_valid() if is_forced else pc.match_substring_regex(text, self._special)
        )
        if not pc.any(needs_quotes).as_py():
            return text
        if not self._dialect.quote:
            shown = text.filter(needs_quotes)[0].as_py()
            raise DataError(
                f"the text '{shown}' can't be written to a CSV file without quotes",
                hint="leave the option quote out",
            )
        quote, escape = self._dialect.quote, self._dialect.escape
        inner = pc.replace_substring(text, escape, escape * 2) if escape else text
        inner = pc.replace_substring(inner, quote, (escape or quote) + quote)
        return pc.if_else(
            needs_quotes, self._join(self._quote, inner, self._quote, self._nothing), text
        )

    def _write_lines(self, fields: Sequence[pa.Array]) -> None:
        lines = self._join(*fields, self._delimiter) if len(fields) > 1 else fields[0]
        self._output.write(text_buffer(self._join(lines, self._end, self._nothing)))

    @staticmethod
    def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
        """The parts of each row, the last being what stands between them."""
        return pc.binary_join_element_wise(*parts)
