"""Writing JSON, one object a line, by joining columns of JSON text.

NaN and the infinities, which JSON hasn't, are written as the strings "NaN", "Infinity" and
"-Infinity".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import converter
from runnel.connectors.files.csv.csv_times import time_formatter
from runnel.connectors.files.format import external_name
from runnel.connectors.files.options import CsvDialect
from runnel.connectors.files.output import FileOutput, RowWriter, text_buffer
from runnel.expressions.kernels.values import scalar_of
from runnel.sqltypes import JSON, VARCHAR, Kind, SqlType

_CONTROL_CHARACTERS = [chr(code) for code in range(32)]


class JsonWriter(RowWriter):
    """Writes a line per row; a NULL is written as null."""

    def __init__(
        self, output: FileOutput, columns: Sequence[TableColumn], dialect: CsvDialect
    ) -> None:
        self._output = output
        self._dialect = dialect
        self._columns = columns
        # What stands before each value, and after the last.
        before = [
            ("," if i else "{") + json.dumps(external_name(item)) + ":"
            for i, item in enumerate(columns)
        ]
        self._before = [scalar_of(text, VARCHAR) for text in before]
        self._end = scalar_of("}\n", VARCHAR)
        self._nothing = scalar_of("", VARCHAR)
        self._null = scalar_of("null", VARCHAR)
        self._quote = scalar_of('"', VARCHAR)

    def write(self, batch: pa.RecordBatch) -> None:
        parts = []
        for before, column, values in zip(self._before, self._columns, batch.columns, strict=True):
            parts += [before, pc.fill_null(self._json(values, column.type), self._null)]
        self._output.write(
            text_buffer(pc.binary_join_element_wise(*parts, self._end, self._nothing))
        )

    def _json(self, values: pa.Array, sql_type: SqlType) -> pa.Array:
        """The values as JSON text, NULL where they are."""
        if sql_type.is_nested:
            convert = converter(sql_type, JSON)
            return _on_one_line(values if convert is None else convert(values))
        if sql_type.kind is Kind.JSON:
            return _on_one_line(values)
        formatter = time_formatter(sql_type, self._dialect)
        if formatter is not None:
            return self._in_quotes(_escaped(formatter(values)))
        convert = converter(sql_type, VARCHAR)
        text = values if convert is None else convert(values)
        if sql_type.is_exact or sql_type.kind is Kind.BOOLEAN:
            return text
        if sql_type.is_approximate:
            return pc.if_else(pc.is_finite(values), text, self._in_quotes(text))
        return self._in_quotes(_escaped(text))

    def _in_quotes(self, text: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(self._quote, text, self._quote, self._nothing)


def _escaped(text: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
        return text
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        for character in _CONTROL_CHARACTERS:
            text = pc.replace_substring(text, character, json.dumps(character)[1:-1])
    return text


def _on_one_line(text: pa.Array) -> pa.Array:
    # Line ends can only stand between the parts of a JSON text, where a space does as well.
    return pc.replace_substring_regex(text, r"[\r\n]", " ")
