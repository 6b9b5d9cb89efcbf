"""Lines of text read piece by piece: see `record_parser`."""

from __future__ import annotations

import pyarrow as pa

from runnel.connectors.files.records.lines import LinesFormat, Piece
from runnel.connectors.files.records.parser import RecordParser


class TextLines(RecordParser):
    """Each line is a record."""

    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        return LinesFormat(self.options).batch([Piece(self.path, data, line)], self.asked)
