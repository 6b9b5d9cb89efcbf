"""The file that COPY … TO writes: options as DuckDB and PostgreSQL name them, and the writing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.connector import format_named
from runnel.connectors.files.format import FileFormat
from runnel.connectors.files.functions.copy_options import (
    COMPRESSIONS,
    FILE_OPTIONS,
    FORMAT_WORDS,
)
from runnel.connectors.files.options import compression_of, format_of, read_options
from runnel.connectors.files.output import FileOutput, JsonArrayOutput, writing
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.storage import RemotePath, local
from runnel.errors import NotSupportedError, ProgrammingError, suggest

_WITHOUT_EFFECT = frozenset({"overwrite", "overwrite_or_ignore", "use_tmp_file"})
_INSTEAD = {
    "per_thread_output": "leave it out: COPY writes one file",
    "append": "it is for PARTITION_BY; INSERT INTO a mapping of a folder adds a file",
    "force_quote": "leave it out: values that need quotes have them",
}


CopyOptions = Mapping[str, str | tuple[str, ...]]
"""The options of COPY as they are written: a text, or the texts of a list."""


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
        options = dict(options)
        is_array = _takes_array(options)
        texts = file_options(options)
        if "format" not in texts and format_of(path) == "lines":
            texts["format"] = "csv"  # a text of columns, as in DuckDB; (FORMAT lines) writes lines
        if "format" not in texts and format_of(path) is None:
            raise ProgrammingError(
                f'the format of "{path}" is not known: it has no extension of a known format',
                hint="add (FORMAT csv), or json, parquet, arrow, avro",
            )
        read = read_options({"path": path, **texts}, access)
        self._path = file_path(path, None, ignore_missing=True, access=access).text
        self._columns = tuple(columns)
        check_names(self._columns)
        self._format: FileFormat = format_named(read.format or str(format_of(path)))(
            replace(read, unset=frozenset())
        )
        for column in self._columns:
            if self._format.name == "csv" and column.type.is_nested:
                raise ProgrammingError(
                    f'column "{column.name}" is of type {column.type}, which CSV has not',
                    hint="convert it in the query: COPY (SELECT CAST(c AS JSON) AS c …) TO …",
                )
        self._format.check_declared(self._columns, ())
        self._is_array = is_array
        if is_array and not self._format.name.startswith("json"):
            raise ProgrammingError(
                "option ARRAY of COPY is for JSON", hint="add (FORMAT json), or leave ARRAY out"
            )

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


def check_names(columns: Sequence[TableColumn]) -> None:
    """ProgrammingError if two columns have one name."""
    names: set[str] = set()
    for column in columns:
        if column.name.lower() in names:
            raise ProgrammingError(
                f'COPY would write two columns "{column.name}"',
                hint="name them: COPY (SELECT a AS x, b AS y …) TO …",
            )
        names.add(column.name.lower())


def _replace(unfinished: str, final: str) -> None:
    if isinstance(unfinished, RemotePath) and isinstance(final, RemotePath):
        file_system.remove(final)
        file_system.publish(unfinished, final)
        return
    Path(local(unfinished)).replace(local(final))


def _takes_array(options: dict[str, str | tuple[str, ...]]) -> bool:
    """Whether the option ARRAY is on; it is removed."""
    given = [name for name in options if name.lower() == "array"]
    values = [options.pop(name) for name in given]
    return any(str(value).lower() not in ("false", "off", "0") for value in values)


def file_options(options: CopyOptions) -> dict[str, str]:
    """The options of a File mapping."""
    texts: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in _WITHOUT_EFFECT:
            continue
        if lower in _INSTEAD:
            raise NotSupportedError(
                f'option "{name}" of COPY is not supported', hint=_INSTEAD[lower]
            )
        is_format = lower in FORMAT_WORDS and not value
        option = "format" if is_format else FILE_OPTIONS.get(lower)
        if option is None:
            listed = ", ".join(sorted(FILE_OPTIONS))
            raise ProgrammingError(
                f'COPY has no option "{name}"',
                hint=suggest(lower, list(FILE_OPTIONS), f"its options are {listed}"),
            )
        if not isinstance(value, str):
            raise ProgrammingError(f'option "{name}" of COPY … TO accepts one value')
        if option in texts:
            raise ProgrammingError(f'option "{name}" of COPY is given twice')
        texts[option] = lower if is_format else _value(option, value)
    return texts


def _value(option: str, value: str) -> str:
    if option == "header":
        return value or "true"
    if option == "compression":
        return COMPRESSIONS.get(value.lower(), value)
    return value
