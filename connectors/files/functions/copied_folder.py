"""The folder that COPY … TO writes with PARTITION_BY: a file for each combination of values, in
folders named key=value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connector import (
    ColumnDefinition,
    MappingDefinition,
    SinkRequest,
    WritableTable,
    WriteMode,
)
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.connector import FileConnector
from runnel.connectors.files.functions.copied_file import CopyOptions, check_names, file_options
from runnel.connectors.files.options import format_of
from runnel.connectors.files.paths import file_path
from runnel.errors import OperationalError, ProgrammingError

_APPEND, _REPLACE = "append", ("overwrite", "overwrite_or_ignore")


class CopiedFolder:
    """New files in a folder, which become visible together when all rows are written.

    The folder must be new or empty; with the option APPEND the files are added to its files.
    """

    def __init__(
        self,
        path: str,
        options: CopyOptions,
        columns: Sequence[TableColumn],
        access: Access | None,
    ) -> None:
        given = {name.lower(): value for name, value in options.items()}
        keys = _keys(given.pop("partition_by"), columns)
        appends = _is_on(given, _APPEND)
        replaces = [name.upper() for name in _REPLACE if _is_on(given, name)]
        texts = file_options(given)
        if "format" not in texts:
            texts["format"] = format_of(path) or "csv"
        check_names(columns)
        folder = file_path(path, None, ignore_missing=True, access=access).text
        if file_system.exists(folder) and not file_system.is_folder(folder):
            raise ProgrammingError(
                f'"{path}" is a file', hint="PARTITION_BY writes a folder: name another one"
            )
        is_filled = file_system.exists(folder) and not _is_empty(folder)
        if replaces and is_filled:
            raise ProgrammingError(
                f"option {replaces[0]} of COPY is not supported for a folder that is not empty",
                hint="remove the folder before, or add files to it with APPEND",
            )
        if not appends and is_filled:
            raise OperationalError(
                f'folder "{path}" is not empty',
                hint="add (APPEND) to add files to it, or name another folder",
            )
        definition = MappingDefinition(
            "COPY",
            tuple(ColumnDefinition(column.name, column.type) for column in columns),
            {
                **texts,
                "path": path,
                "partitionBy": ",".join(keys),
                "hivePartitioning": "true",
                "ignoreFileNotFound": "true",
            },
            access=access,
            is_stored=True,
        )
        table = FileConnector().open(definition)
        assert isinstance(table, WritableTable)
        self._sink = table.sink(SinkRequest(WriteMode.INSERT, tuple(range(len(columns)))))
        self._names = [column.name for column in columns]

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Writes all rows; returns their number. After an error no file was added."""
        rows, token = 0, None
        try:
            for batch in batches:
                self._sink.write(pa.RecordBatch.from_arrays(batch.columns, names=self._names))
                rows += batch.num_rows
            token = self._sink.stage(0)
            self._sink.commit(token)
        except BaseException:
            self._sink.abort(token)
            raise
        finally:
            self._sink.close()
        return rows


def _keys(value: str | tuple[str, ...], columns: Sequence[TableColumn]) -> list[str]:
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
    if len(keys) == len(names):
        raise ProgrammingError(
            "PARTITION_BY leaves no column for the files", hint="leave one of its columns out"
        )
    return keys


def _is_on(options: dict[str, str | tuple[str, ...]], name: str) -> bool:
    """Whether an option is set; it is removed."""
    value = options.pop(name, None)
    return value is not None and str(value).lower() not in ("false", "off", "0")


def _is_empty(folder: str) -> bool:
    found = file_path(folder, None, ignore_missing=True)
    return not found.files() and not file_system.subfolders(folder)
