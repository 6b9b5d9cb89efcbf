"""Errors about JSON files: which record, on which line. The file is read again to find the line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import Converter, ValueLocation, unfit
from runnel.connectors.files.input import open_input, undecodable
from runnel.connectors.files.json.json_records import Chunk, line_of_record
from runnel.connectors.files.json.json_values import array_of_values, plain_text
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.records.malformed import naming_on_error
from runnel.errors import DataError, Error, OperationalError
from runnel.sqltypes import VARCHAR


class JsonFaults:
    """Makes the errors for one file."""

    def __init__(self, path: str, options: FileOptions) -> None:
        self.path = path
        self.options = options

    def place(self, record: int) -> ValueLocation:
        """Where a record (numbered from 0) is."""
        with open_input(self.path, self.options) as stream:
            line = line_of_record(stream, self.path, record)
        return ValueLocation(self.path, f"record {record + 1}" if line is None else f"line {line}")

    def malformed(self, chunk: Chunk, first_record: int) -> Error:
        """The error for a chunk that isn't JSON: it was cut off, or one of its records is wrong."""
        lines = [line for line in chunk.data.split(b"\n") if line.strip()]
        for index, line in enumerate(lines):
            try:
                json.loads(line)
            except (ValueError, RecursionError) as error:
                if (
                    chunk.is_open
                    and index == len(lines) - 1
                    and (chunk.is_cut or _is_unfinished(error))
                ):
                    return self.cut_off()
                if isinstance(error, UnicodeDecodeError):
                    return undecodable(self.path, self.options)
                reason = (
                    "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                )
                wrong = DataError(
                    "a record is not valid JSON",
                    detail=(
                        f'file "{self.path}", {self.place(first_record + index).where}: {reason}'
                    ),
                    hint="a JSON file holds one object a line, or one array of objects",
                )
                return naming_on_error(wrong)
        if chunk.is_cut:
            return self.cut_off()
        return OperationalError(f'file "{self.path}" can\'t be read as JSON')

    def cut_off(self) -> OperationalError:
        return OperationalError(
            f'file "{self.path}" ends in the middle of a record',
            hint="the file was cut off, or is not yet finished",
        )

    def not_an_object(self, record: int) -> DataError:
        place = self.place(record)
        error = DataError(
            "a record is not an object",
            detail=f'file "{self.path}", {place.where}',
            hint="a JSON file holds one object a line, or one array of objects",
        )
        return naming_on_error(error)

    def unfit(
        self, value: Any, column: TableColumn, record: int, *, is_inferred: bool
    ) -> DataError:
        """The error for a value that doesn't fit the column."""
        error = unfit(
            plain_text(value), column.name, column.type, self.place(record), is_inferred=is_inferred
        )
        return naming_on_error(error)


def first_unfit(
    values: Sequence[Any], column: TableColumn, formatted: Converter | None = None
) -> int:
    """Which of the values is the first that doesn't fit the column; one doesn't. `formatted`
    converts texts to the type of the column."""
    if formatted is not None:
        return _first_unfit(values, lambda part: formatted(array_of_values(part, VARCHAR)))
    return _first_unfit(values, lambda part: array_of_values(part, column.type))


def _is_unfinished(error: Exception) -> bool:
    """Whether text that isn't JSON could become so if more followed: the parser came to its end, or
    near it (`tr`)."""
    if not isinstance(error, json.JSONDecodeError):
        return isinstance(error, UnicodeDecodeError)
    return error.msg.startswith("Unterminated string") or error.pos > len(error.doc.rstrip()) - len(
        "false"
    )


def _first_unfit(values: Sequence[Any], convert: Callable[[Sequence[Any]], pa.Array]) -> int:
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values[low:middle])
        except (pa.ArrowException, DataError):
            high = middle
        else:
            low = middle
    return low
