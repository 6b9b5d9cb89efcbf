"""Lines of text, read chunk by chunk: see `records/parser.py`."""

from __future__ import annotations

import pyarrow as pa

from runnel.connectors.files.records.lines import LineChunk, LinesFormat
from runnel.connectors.files.records.parser import RecordParser


class TextLines(RecordParser):
    """Each line is a record."""

    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        return LinesFormat(self.options).batch([LineChunk(self.path, data, line)], self.asked)
