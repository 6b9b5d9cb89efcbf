"""JSON records, one to a line, read piece by piece: see `record_parser`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns, true_flags
from runnel.connectors.files.conversion import blank_to_null, converter, unfit
from runnel.connectors.files.format import batch_of, external_name
from runnel.connectors.files.json.json_faults import JsonFaults
from runnel.connectors.files.json.json_format import ChunkReader
from runnel.connectors.files.json.json_records import begins_array
from runnel.connectors.files.json.json_values import array_of_values, parse_records, plain_text
from runnel.connectors.files.records.parser import RecordParser, lines_of
from runnel.errors import DataError
from runnel.expressions.casts.try_cast import attempted
from runnel.expressions.context import EvaluationContext
from runnel.sqltypes import VARCHAR, Kind, SqlType, to_arrow

PIECE_BYTES = 1 << 17
"""Where Arrow refuses records, they are given to it again in pieces of this size, so that few go
the slow way."""


Fault = tuple[int, DataError, bytes]
"""A record that can't be read: its line, what is wrong, its text."""


class JsonLines(RecordParser):
    """An object a line."""

    def begin(self, data: bytes, is_end: bool) -> int | None:
        if not data.strip() and not is_end:
            return None
        if begins_array(data):
            raise DataError(
                f'file "{self.path}" holds one array, which can\'t be read record by record',
                hint=(
                    "write an object a line, or read the file without the options follow and "
                    "onError"
                ),
            )
        return super().begin(data, is_end)

    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        reader = ChunkReader(JsonFaults(self.path, self.options), self.asked)
        found = reader.by_arrow(data) if data.strip() else None
        if found is not None:
            return found
        batches = []
        for piece, first in _pieces(data, line):
            found = reader.by_arrow(piece) if len(piece) < len(data) and piece.strip() else None
            batches.append(self._by_python(piece, first) if found is None else found)
        if len(batches) == 1:
            return batches[0]
        if not self.asked.columns:
            return empty_columns(sum(batch.num_rows for batch in batches))
        return pa.concat_batches(batches)

    def _by_python(self, data: bytes, line: int) -> pa.RecordBatch:
        """Record by record, where there is something wrong with one."""
        kept: list[tuple[int, bytes, dict[str, Any]]] = []
        faults: list[Fault] = []
        for number, text in enumerate(lines_of(data), line):
            if text.strip():
                self._parse(number, text, kept, faults)
        values = [record for _, _, record in kept]
        bad: set[int] = set()
        for column in self.asked.requested:
            faults += self._unfit(
                [record.get(external_name(column)) for record in values], column, kept, bad
            )
        # By their places, whatever is wrong with them: where one ends the query it is the first.
        for number, error, text in sorted(faults, key=itemgetter(0)):
            self.leave_out(error, number, _shown(text))
        values = [record for index, record in enumerate(values) if index not in bad]
        arrays = [
            array_of_values([record.get(external_name(column)) for record in values], column.type)
            if values
            else pa.nulls(0, to_arrow(column.type))
            for column in self.asked.requested
        ]
        return batch_of(arrays, self.asked.names, len(values))

    def _parse(
        self,
        number: int,
        text: bytes,
        kept: list[tuple[int, bytes, dict[str, Any]]],
        faults: list[Fault],
    ) -> None:
        reason = None
        try:
            found = parse_records(text)
            record = found[0] if len(found) == 1 else found
            if record is None:
                record = {}
            if isinstance(record, dict):
                kept.append((number, text, record))
                return
            error = DataError("a record is not an object")
        except RecursionError:
            reason = "it is nested too deeply"
        except ValueError:
            reason = _reason(text)
        if reason is not None:
            error = DataError("a record is not valid JSON", detail=reason)
        error.hint = "a JSON file holds one object a line, or one array of objects"
        faults.append((number, error, text))

    def _unfit(
        self,
        values: list[Any],
        column: TableColumn,
        kept: Sequence[tuple[int, bytes, dict[str, Any]]],
        bad: set[int],
    ) -> Iterator[Fault]:
        """The records whose value doesn't fit the column, which are added to `bad`, but those that
        are there."""
        for index in _unfit_values(values, column.type):
            if index not in bad:
                bad.add(index)
                number, text, _ = kept[index]
                value = plain_text(values[index])
                yield (
                    number,
                    unfit(
                        value, column.name, column.type, None, is_inferred=self.asked.is_inferred
                    ),
                    text,
                )


def _pieces(data: bytes, line: int) -> list[tuple[bytes, int]]:
    """Whole lines, in pieces of about PIECE_BYTES, each with its first line."""
    pieces = []
    start = 0
    while start < len(data):
        end = data.find(b"\n", min(start + PIECE_BYTES, len(data) - 1)) + 1 or len(data)
        pieces.append((data[start:end], line))
        line += data.count(b"\n", start, end)
        start = end
    return pieces or [(data, line)]


def _unfit_values(values: Sequence[Any], wanted: SqlType) -> Sequence[int]:
    """Which values don't fit the type. Each distinct text is tried once, since malformed ones tend
    to be alike."""
    is_text = not wanted.is_nested and wanted.kind is not Kind.JSON
    convert = converter(VARCHAR, wanted) if is_text else None
    if convert is not None:
        try:
            texts = array_of_values(values, VARCHAR)
        except DataError:
            return unfit_places(values, lambda part: array_of_values(part, wanted))
        found = attempted(
            lambda item, _: convert(item), texts, VARCHAR, wanted, EvaluationContext()
        )
        assert isinstance(found, pa.Array)
        refused = true_flags(found.is_null()) & true_flags(blank_to_null(texts).is_valid())
        places: list[int] = np.flatnonzero(refused).tolist()
        return places
    return unfit_places(values, lambda part: array_of_values(part, wanted))


def unfit_places(values: Sequence[Any], convert: Callable[[Sequence[Any]], pa.Array]) -> list[int]:
    """Which values `convert` refuses, found by halving."""
    found: list[int] = []
    waiting = [(0, len(values))]
    while waiting:
        low, high = waiting.pop()
        if low == high:
            continue
        try:
            convert(values[low:high])
        except (pa.ArrowException, DataError):
            if high - low == 1:
                found.append(low)
            else:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
    return sorted(found)


def _reason(text: bytes) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return "there is more than one record on the line"


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace").rstrip("\r\n")
