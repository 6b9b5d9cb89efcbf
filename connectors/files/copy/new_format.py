"""The format of the files that COPY … TO writes, by its options as DuckDB and PostgreSQL name
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connectors.files.connector import format_named
from runnel.connectors.files.format import FileFormat
from runnel.connectors.files.functions.copy_options import (
    COMPRESSIONS,
    FILE_OPTIONS,
    FORMAT_WORDS,
)
from runnel.connectors.files.options import format_of, read_options
from runnel.errors import NotSupportedError, ProgrammingError, suggest

OptionValue = str | tuple[str, ...]
"""The value of an option of COPY as it is written: a text, or the texts of a list."""
CopyOptions = Mapping[str, OptionValue]
"""The options of COPY, by their names as they are written."""

_WITHOUT_EFFECT = frozenset(
    "overwrite overwrite_or_ignore per_thread_output use_tmp_file preserve_order parquet_version "
    "row_group_size_bytes dictionary_size_limit string_dictionary_page_size_limit "
    "write_bloom_filter bloom_filter_false_positive_ratio".split()
)
_INSTEAD = {
    "append": "it is for PARTITION_BY; INSERT INTO a mapping of a folder adds a file",
    "return_files": "write FROM glob('folder/**') after COPY",
    "return_stats": "write FROM parquet_metadata('file') after COPY",
    "kv_metadata": "write the file in Python, with pyarrow.parquet",
    "field_ids": "write the file in Python, with pyarrow.parquet",
    "encryption_config": None,
    "prefix": "write the text into the file in Python",
    "suffix": "write the text into the file in Python",
    "new_line": "leave it out: lines end with a line feed",
}
_OF_NEW_FILES = (
    "append",
    "array",
    "compression_level",
    "file_extension",
    "file_size_bytes",
    "filename_pattern",
    "force_quote",
    "overwrite",
    "overwrite_or_ignore",
    "partition_by",
    "per_thread_output",
    "row_group_size",
    "write_partition_columns",
)
"""Options that no mapping has."""


_OF_ONE_FORMAT = ("force_quote", "row_group_size", "compression_level")


@dataclass(frozen=True, slots=True)
class NewFormat:
    """The format of new files.

    format: the writer of rows, with the options.
    is_array: whether the objects of a JSON file are one array.
    """

    format: FileFormat
    is_array: bool


def new_format(
    path: str,
    options: CopyOptions,
    columns: Sequence[TableColumn],
    access: Access | None,
    default: str | None = None,
) -> NewFormat:
    """The format of the files at a path; `default` if neither FORMAT nor the extension names it."""
    others = dict(options)
    is_array = is_on(others, "array")
    own = {
        name: taken(others, name) for name in ("force_quote", "row_group_size", "compression_level")
    }
    texts = _file_options(others)
    if "format" not in texts and format_of(path) == "lines":
        texts["format"] = "csv"  # a text of columns, as in DuckDB; (FORMAT lines) writes lines
    if "format" not in texts and format_of(path) is None:
        if default is None:
            raise ProgrammingError(
                f'the format of "{path}" is not known: it has no extension of a known format',
                hint="add (FORMAT csv), or json, parquet, arrow, avro",
            )
        texts["format"] = default
    read = read_options({"path": path, **texts}, access)
    check_names(columns)
    found = format_named(read.format or str(format_of(path)))(replace(read, unset=frozenset()))
    _set_own(found, columns, own)
    if found.name != "csv":  # nested values are written to CSV as JSON
        found.check_declared(columns, ())
    if is_array and not found.name.startswith("json"):
        raise ProgrammingError(
            "option ARRAY of COPY is for JSON", hint="add (FORMAT json), or leave ARRAY out"
        )
    return NewFormat(found, is_array)


def _set_own(
    found: FileFormat, columns: Sequence[TableColumn], own: Mapping[str, OptionValue | None]
) -> None:
    """Sets the options that only a new file has."""
    quoted, group_rows, level = own["force_quote"], own["row_group_size"], own["compression_level"]
    if quoted is not None:
        if found.name != "csv":
            raise ProgrammingError("option FORCE_QUOTE of COPY is for CSV")
        names = _quoted_columns(quoted, columns)
        if names and not found.options.dialect.quote:
            raise ProgrammingError("FORCE_QUOTE needs a quote", hint="leave out QUOTE ''")
        dialect = replace(found.options.dialect, quoted=names)
        found.options = replace(found.options, dialect=dialect)
    for name, value in (("ROW_GROUP_SIZE", group_rows), ("COMPRESSION_LEVEL", level)):
        if value is not None and found.name != "parquet":
            raise ProgrammingError(f"option {name} of COPY is for Parquet")
    if group_rows is not None:
        found.options = replace(found.options, group_rows=_row_count(group_rows))
    if level is not None:
        text = level if isinstance(level, str) else ""
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:4]) <= 22):
            raise ProgrammingError("option COMPRESSION_LEVEL of COPY is a number from 1 to 22")
        found.options = replace(found.options, compression_level=int(text))


def taken(options: dict[str, OptionValue], lower: str) -> OptionValue | None:
    """The value of an option, which is removed; None without the option."""
    values = [options.pop(name) for name in list(options) if name.lower() == lower]
    return values[0] if values else None


def is_on(options: dict[str, OptionValue], lower: str) -> bool:
    """Whether an option is set; it is removed."""
    value = taken(options, lower)
    return value is not None and str(value).lower() not in ("false", "off", "0")


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


def _file_options(options: CopyOptions) -> dict[str, str]:
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
        return COMPRESSIONS.get(value.lower(), value.lower())
    return value
