"""The folder that COPY … TO writes: with PARTITION_BY a file for each combination of values, in
folders named key=value; with PER_THREAD_OUTPUT or FILE_SIZE_BYTES one or more files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token, WriteMode
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.copy.new_format import (
    CopyOptions,
    OptionValue,
    is_on,
    new_format,
    taken,
)
from runnel.connectors.files.copy.new_names import DEFAULT_PATTERN, file_names
from runnel.connectors.files.format import FileFormat
from runnel.connectors.files.hive.table import HivePartitioning, HiveTable, PartitionedSink
from runnel.connectors.files.options import format_of
from runnel.connectors.files.paths import FilePath, file_path
from runnel.connectors.files.sink import FileSink, SinkTarget, sink_target
from runnel.errors import NotSupportedError, OperationalError, ProgrammingError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def makes_folder(options: CopyOptions) -> bool:
    """Whether COPY … TO with these options writes a folder."""
    others = {name.lower(): value for name, value in options.items()}
    return (
        "partition_by" in others
        or "file_size_bytes" in others
        or is_on(others, "per_thread_output")
    )


class CopiedFolder:
    """New files in a folder, which become visible together when all rows are written.

    Without an option the folder must be new or empty. APPEND adds files, OVERWRITE_OR_IGNORE
    replaces files of the same name, and OVERWRITE all data files.
    """

    def __init__(
        self,
        path: str,
        options: CopyOptions,
        columns: Sequence[TableColumn],
        access: Access | None,
    ) -> None:
        others: dict[str, OptionValue] = {name.lower(): value for name, value in options.items()}
        layout = _Layout(others, columns)
        format_name = format_of(path) or "csv"
        found = new_format(path, others, columns, access, format_name)
        if found.is_array:
            raise NotSupportedError(
                "option ARRAY of COPY is for one file", hint="leave out ARRAY, or PARTITION_BY"
            )
        target = replace(
            file_path(path, None, ignore_missing=True, access=access), has_subfolders=True
        )
        _check_empty(path, target, layout)
        self._names = [column.name for column in columns]
        self._sink = layout.sink(target, found.format, columns)
        self._old = [file.path for file in target.files()] if layout.replaces_all else []

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Writes all rows; returns their number. After an error no file was added."""
        rows, token = 0, None
        try:
            for batch in batches:
                self._sink.write(pa.RecordBatch.from_arrays(batch.columns, names=self._names))
                rows += batch.num_rows
            token = self._sink.stage(0)
            new = {final for _, final in token["renames"]}
            for path in (*self._old, *new):
                if file_system.exists(path):
                    file_system.remove(path)
            self._sink.commit(token)
        except BaseException:
            self._sink.abort(token)
            raise
        finally:
            self._sink.close()
        return rows


class _Layout:
    """The options about folders and names, which are removed from `options`."""

    def __init__(self, options: dict[str, OptionValue], columns: Sequence[TableColumn]) -> None:
        keys = taken(options, "partition_by")
        self.keys = None if keys is None else _keys(keys, columns)
        self.appends = is_on(options, "append")
        self.replaces_all = is_on(options, "overwrite")
        self.replaces = is_on(options, "overwrite_or_ignore")
        self.keeps_keys = is_on(options, "write_partition_columns")
        is_divided = is_on(options, "per_thread_output")
        size = taken(options, "file_size_bytes")
        self.most_bytes = None if size is None else _bytes(size)
        if self.keys is not None and (is_divided or size is not None):
            raise NotSupportedError(
                "PARTITION_BY of COPY has one file per folder",
                hint="leave out PER_THREAD_OUTPUT and FILE_SIZE_BYTES",
            )
        if self.keys is None and (self.keeps_keys or self.appends):
            raise ProgrammingError("APPEND and WRITE_PARTITION_COLUMNS need PARTITION_BY")
        if self.keys is not None and len(self.keys) == len(columns) and not self.keeps_keys:
            raise ProgrammingError(
                "PARTITION_BY leaves no column for the files",
                hint="leave one of its columns out, or add WRITE_PARTITION_COLUMNS",
            )
        self._pattern = _text(taken(options, "filename_pattern"))
        self._extension = _text(taken(options, "file_extension"))

    def sink(self, path: FilePath, file_format: FileFormat, columns: Sequence[TableColumn]) -> Sink:
        target = sink_target(path, file_format)
        suffix = target.suffix if self._extension is None else "." + self._extension.lstrip(".")
        pattern = self._pattern or ("{uuid}" if self.appends else DEFAULT_PATTERN)
        names = file_names(pattern, suffix, are_added=self.appends)
        request = SinkRequest(WriteMode.INSERT, tuple(range(len(columns))))
        if self.keys is None:
            return _DividedSink(file_format, target, tuple(columns), (names, self.most_bytes))
        position = {column.name: i for i, column in enumerate(columns)}
        partitioning = HivePartitioning(
            tuple(self.keys), {position[key]: i for i, key in enumerate(self.keys)}
        )
        table = HiveTable(
            "COPY", tuple(columns), file_format, path, is_inferred=False, partitioning=partitioning
        )
        return PartitionedSink(table, request, names, keeps_keys=self.keeps_keys)


class _DividedSink(Sink):
    """Writes the next file when a file has reached a size."""

    def __init__(
        self,
        file_format: FileFormat,
        target: SinkTarget,
        columns: tuple[TableColumn, ...],
        files: tuple[Callable[[int], str], int | None],
    ) -> None:
        self._format = file_format
        self._target = target
        self._columns = columns
        self._names, self._most_bytes = files
        self._sinks: list[FileSink] = []
        self._bytes = 0
        self._add()

    def _add(self) -> None:
        target = replace(self._target, name=self._names(len(self._sinks)))
        request = SinkRequest(WriteMode.INSERT, tuple(range(len(self._columns))))
        self._sinks.append(FileSink(self._format, target, self._columns, request))
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._most_bytes is not None and self._bytes >= self._most_bytes:
            self._add()
        self._sinks[-1].write(batch)
        self._bytes += batch.nbytes

    def stage(self, epoch: int) -> Token:
        return {"renames": [pair for sink in self._sinks for pair in sink.stage(epoch)["renames"]]}

    def commit(self, token: Token) -> None:
        self._sinks[-1].commit(token)

    def abort(self, token: Token | None) -> None:
        for sink in self._sinks:
            sink.abort(token)

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


def _check_empty(path: str, folder: FilePath, layout: _Layout) -> None:
    """Fails if the path is a file, or a folder with files that no option lets stay."""
    if file_system.exists(folder.text) and not file_system.is_folder(folder.text):
        raise ProgrammingError(f'"{path}" is a file', hint="COPY writes a folder: name another one")
    if layout.appends or layout.replaces or layout.replaces_all:
        return
    if file_system.exists(folder.text) and (folder.files() or file_system.subfolders(folder.text)):
        raise OperationalError(
            f'folder "{path}" is not empty',
            hint="add (APPEND) to add files to it, (OVERWRITE) to replace its data files, or "
            "(OVERWRITE_OR_IGNORE) to replace files of the same name",
        )


def _keys(value: OptionValue, columns: Sequence[TableColumn]) -> list[str]:
    """The names of the columns of PARTITION_BY, as the query has them."""
    names = {column.name.lower(): column.name for column in columns}
    keys = []
    for name in (value,) if isinstance(value, str) else value:
        if name.lower() not in names:
            raise ProgrammingError(
                f'PARTITION_BY names "{name}", which is no column of the query',
                hint=f"the columns are: {', '.join(names.values())}",
            )
        keys.append(names[name.lower()])
    return keys


def _bytes(value: OptionValue) -> int:
    """The number of bytes of `'1MB'` or 1000000."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ProgrammingError(
            "option FILE_SIZE_BYTES of COPY is a number of bytes", hint="write '100MB' or 100000000"
        )
    return int(float(found[1]) * 1000 ** _UNITS[found[2].lower()])


def _text(value: OptionValue | None) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ProgrammingError("FILENAME_PATTERN and FILE_EXTENSION of COPY accept one text")
    return value
