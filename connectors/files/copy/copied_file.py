"""The one file that COPY … TO writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.copy.new_format import CopyOptions, new_format
from runnel.connectors.files.options import compression_of
from runnel.connectors.files.output import FileOutput, JsonArrayOutput, writing
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.storage import RemotePath, local
from runnel.errors import ProgrammingError


class CopiedFile:
    """One new file, which replaces an existing one when it is complete. A pipe or another device
    gets the rows as they come.

    columns: names and types.
    """

    def __init__(
        self,
        path: str,
        options: CopyOptions,
        columns: Sequence[TableColumn],
        access: Access | None,
    ) -> None:
        found = new_format(path, options, columns, access)
        self._format, self._is_array = found.format, found.is_array
        self._path = file_path(path, None, ignore_missing=True, access=access).text
        self._columns = tuple(columns)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Writes all rows; returns their number. After an error, an existing file is as before."""
        path = self._path
        if file_system.is_folder(path):
            raise ProgrammingError(f'"{path}" is a folder', hint="name a file in it")
        compression = self._format.options.compression
        folder, name = file_system.parent_of(path), Path(path).name
        in_place = file_system.is_device(path)
        unfinished = path if in_place else file_system.below(folder, f".{uuid4().hex[:12]}-{name}")
        options = self._format.options
        output = (JsonArrayOutput if self._is_array else FileOutput)(
            unfinished,
            compression_of(name, compression) if self._format.is_text else None,
            options.encoding,
            in_place=in_place,
        )
        rows = 0
        try:
            writer = self._format.writer(output, self._columns)
            names = [column.name for column in self._columns]
            for batch in batches:
                with writing(path):
                    writer.write(pa.RecordBatch.from_arrays(batch.columns, names=names))
                rows += batch.num_rows
            with writing(path):
                writer.finish()
                output.finish()
                if not in_place:
                    _replace(unfinished, path)
        except BaseException:
            output.discard()
            raise
        return rows


def _replace(unfinished: str, final: str) -> None:
    if isinstance(unfinished, RemotePath) and isinstance(final, RemotePath):
        file_system.remove(final)
        file_system.publish(unfinished, final)
        return
    Path(local(unfinished)).replace(local(final))
