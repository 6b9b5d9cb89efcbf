"""READ_TEXT and READ_BLOB: a row for each file, with its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import Table
from runnel.connectors.arrow.tables import ArrowTable, LazyOrigin
from runnel.connectors.files.input import modified, reading
from runnel.connectors.files.paths import FilePath, called_paths
from runnel.connectors.files.storage import DataFile, opened
from runnel.errors import DataError

WHOLE_FILES = {"read_text": pa.string(), "read_blob": pa.binary()}
"""The type of the content, by the name of the table function."""
MOST_BYTES = 2**31 - 1
"""The size from which a file does not fit in one value."""


def whole_files(
    function: str, positional: Sequence[Any], named: Mapping[str, Any], access: Access | None
) -> Table:
    """The table of `READ_TEXT('*.sql')`: filename, content, size and last_modified of each file, in
    the order of the paths. A query that does not use the content does not read it."""
    paths = called_paths(f"{function}('folder/*.txt')", positional, named, access)
    paths = [replace(path, ignore_missing=path.is_pattern) for path in paths]
    for path in paths:
        path.files()  # a missing file is an error of the call, with its position
    schema = pa.schema(
        [
            pa.field("filename", pa.string()),
            pa.field("content", WHOLE_FILES[function]),
            pa.field("size", pa.int64()),
            pa.field("last_modified", pa.timestamp("us", "UTC")),
        ]
    )
    return ArrowTable(
        function, LazyOrigin(schema, lambda columns: _rows(function, paths, schema, columns))
    )


def _rows(
    function: str, paths: Sequence[FilePath], schema: pa.Schema, columns: tuple[int, ...]
) -> Iterator[pa.RecordBatch]:
    """A batch for each file, so that one content at a time is in memory."""
    readers: dict[str, Callable[[DataFile], object]] = {
        "content": lambda file: _content(function, file),
        "size": lambda file: file.size,
        "last_modified": lambda file: modified(file.path),
    }
    fields = [schema.field(i) for i in columns]
    for path in paths:
        readers["filename"] = path.shown
        for file in path.files():
            arrays = [pa.array([readers[field.name](file)], field.type) for field in fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _content(function: str, file: DataFile) -> bytes | str:
    if file.size > MOST_BYTES:
        raise DataError(f'file "{file.path}" is too large for one value: {file.size} bytes')
    with reading(file.path), opened(file.path) as stream:
        data: bytes = stream.read()
    if function == "read_blob":
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f'file "{file.path}" is not valid UTF-8 at byte {error.start}',
            hint="use read_blob, or read_csv and read_lines with the option encoding",
        ) from None
