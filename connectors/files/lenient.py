"""Reading files whose malformed records are left out: 'onError' = 'skip' or 'divert:…'."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.connector import End, MalformedRecord, Pause, SourcePartition
from runnel.connectors.files.format import Batches, FileFormat, FileShare, Reading
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parsers import without_malformed
from runnel.connectors.files.table import FilePartition


def lenient_partitions(
    name: str, file_format: FileFormat, shares: Sequence[FileShare], asked: Reading
) -> list[SourcePartition]:
    """A partition for each share. `name` is the table's."""
    on_error = file_format.options.on_error
    partitions: list[SourcePartition] = []
    for share in shares:
        malformed = Malformed(on_error, f'mapping "{name}"')
        partitions.append(
            LenientPartition(
                without_malformed(file_format, share, asked, malformed), asked, malformed
            )
        )
    return partitions


class LenientPartition(FilePartition):
    """Reads one share, and knows what it left out."""

    def __init__(self, batches: Batches, asked: Reading, malformed: Malformed) -> None:
        super().__init__(batches, asked)
        self._malformed = malformed

    def read(self) -> pa.RecordBatch | Pause | End:
        item = super().read()
        self.malformed = self._malformed.count
        return item

    def take_malformed(self) -> Sequence[MalformedRecord]:
        return self._malformed.take()
