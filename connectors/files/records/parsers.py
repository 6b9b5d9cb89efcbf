"""The parsers of records one by one, by format; only text formats have one."""

from __future__ import annotations

import pyarrow as pa

from runnel.connectors.files.csv.csv_records import CsvRecords
from runnel.connectors.files.format import Batches, FileFormat, FileScanRequest, FileShare
from runnel.connectors.files.json.json_lines import JsonLines
from runnel.connectors.files.records.lines import LineChunk, LinesFormat
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parser import RecordParser, batches_of_file


class TextLines(RecordParser):
    """Lines of text, of which each is a record."""

    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        return LinesFormat(self.options).batch([LineChunk(self.path, data, line)], self.asked)


_PARSERS: dict[str, type[RecordParser]] = {"csv": CsvRecords, "json": JsonLines, "lines": TextLines}


def parser_of(
    file_format: FileFormat, path: str, asked: FileScanRequest, malformed: Malformed
) -> RecordParser | None:
    """A parser of one file; None if the records of the format cannot be read one by one."""
    kind = _PARSERS.get(file_format.name)
    return None if kind is None else kind(path, file_format.options, asked, malformed)


def has_parser(format_name: str) -> bool:
    return format_name in _PARSERS


def without_malformed(
    file_format: FileFormat, share: FileShare, asked: FileScanRequest, malformed: Malformed
) -> Batches:
    """The rows of some files, without the malformed records."""
    for file in share.files:
        parser = parser_of(file_format, file.path, asked, malformed)
        if parser is None:
            yield from file_format.read(FileShare((file,), share.parts), asked)
        else:
            yield from batches_of_file(parser)
