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
}
_OF_NEW_FILES = ("array", "force_quote", "partition_by", "row_group_size")
"""Options that no mapping has."""

OptionValue = str | tuple[str, ...]
"""The value of an option of COPY as it is written: a text, or the texts of a list."""
CopyOptions = Mapping[str, OptionValue]
"""The options of COPY, by their names as they are written."""


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
        quoted = _taken(options, "force_quote")
        group_rows = _taken(options, "row_group_size")
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
        self._set_output(quoted, group_rows)
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

    def _set_output(self, quoted: OptionValue | None, group_rows: OptionValue | None) -> None:
        """Sets the options that only a new file has: FORCE_QUOTE and ROW_GROUP_SIZE."""
        options = self._format.options
        if quoted is not None:
            if self._format.name != "csv":
                raise ProgrammingError("option FORCE_QUOTE of COPY is for CSV")
            names = _quoted_columns(quoted, self._columns)
            dialect = replace(options.dialect, quoted=names)
            if names and not dialect.quote:
                raise ProgrammingError("FORCE_QUOTE needs a quote", hint="leave out QUOTE ''")
            self._format.options = replace(options, dialect=dialect)
        if group_rows is not None:
            if self._format.name != "parquet":
                raise ProgrammingError("option ROW_GROUP_SIZE of COPY is for Parquet")
            self._format.options = replace(options, group_rows=_row_count(group_rows))

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


def _taken(options: dict[str, OptionValue], lower: str) -> OptionValue | None:
    """The value of an option, which is removed; None without the option."""
    values = [options.pop(name) for name in list(options) if name.lower() == lower]
    return values[0] if values else None


def _quoted_columns(value: OptionValue, columns: Sequence[TableColumn]) -> frozenset[str]:
    """The names of the columns that FORCE_QUOTE lists; all for `*`."""
    if value in ("*", ("*",)):
        return frozenset(column.name for column in columns)
    found = set()
    for name in (value,) if isinstance(value, str) else value:
        match = [column.name for column in columns if column.name.lower() == name.lower()]
        if not match:
            listed = [column.name for column in columns]
            raise ProgrammingError(
                f'FORCE_QUOTE names the column "{name}", which is not written',
                hint=suggest(name, listed, f"the columns are {', '.join(listed)}"),
            )
        found.update(match)
    return frozenset(found)


def _row_count(value: OptionValue) -> int:
    text = value if isinstance(value, str) else ""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 2**31):
        raise ProgrammingError(
            "option ROW_GROUP_SIZE of COPY is a number of rows, at least 1",
            hint="write (FORMAT parquet, ROW_GROUP_SIZE 100000)",
        )
    return int(text)


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


def _takes_array(options: dict[str, OptionValue]) -> bool:
    """Whether the option ARRAY is on; it is removed."""
    value = _taken(options, "array")
    return value is not None and str(value).lower() not in ("false", "off", "0")


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
            listed = ", ".join(sorted([*FILE_OPTIONS, *_OF_NEW_FILES]))
            raise ProgrammingError(
                f'COPY has no option "{name}"',
                hint=suggest(lower, [*FILE_OPTIONS, *_OF_NEW_FILES], f"its options are {listed}"),
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
