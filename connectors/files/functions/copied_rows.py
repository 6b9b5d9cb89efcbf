"""The files that COPY … FROM reads: options as DuckDB and PostgreSQL name them, and the columns of
the files as the table has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.access import Access
from runnel.catalog import TableColumn
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.files.connector import open_table
from runnel.connectors.files.format import external_name
from runnel.connectors.files.functions.copy_options import (
    COMPRESSIONS,
    FILE_OPTIONS,
    FORMAT_WORDS,
)
from runnel.connectors.files.functions.queried_path import QueriedPath
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.options import FileOptions, format_of, read_options
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.storage import DataFile
from runnel.errors import NotSupportedError, ProgrammingError, suggest

if TYPE_CHECKING:
    from runnel.connectors.files.table import FileTable

BLANK_BYTES = 64
"""A longer text file counts as one with rows."""

OptionValue = str | tuple[str, ...]

_NAMES = {
    **FILE_OPTIONS,
    "skip": "skip",
    "decimal_separator": "decimalSeparator",
    "thousands": "thousands",
    "comment": "comment",
    "null_padding": "nullPadding",
    "allow_quoted_nulls": "quotedNulls",
    "hive_partitioning": "hivePartitioning",
    "onerror": "onError",
    "on_error": "onError",
    "ignore_errors": "onError",
}
_POLICIES = {"ignore": "skip", "stop": "fail"}
_WITHOUT_EFFECT = frozenset(
    {
        "auto_detect",
        "sample_size",
        "parallel",
        "buffer_size",
        "freeze",
        "array",
        "log_verbosity",
        "max_line_size",
        "maximum_line_size",
        "new_line",
        "strict_mode",
        "union_by_name",
    }
)
_QUERY = "write INSERT INTO t SELECT … FROM read_csv('file', …), and "
_INSTEAD = {
    "force_null": _QUERY + "nullif(column, '')",
    "default": _QUERY + "a CASE",
    "columns": "leave it out: the table has the names and types",
    "types": "leave it out: the table has the types",
    "names": "list the columns of the table: COPY t (a, b) FROM …",
    "reject_limit": "leave it out: onError 'skip' reports the number of skipped records",
    **dict.fromkeys(
        ("store_rejects", "rejects_table", "rejects_scan", "rejects_limit"),
        "write IGNORE_ERRORS to skip such rows; to keep them, CREATE TABLE m (record VARCHAR, "
        "reason VARCHAR), and write ONERROR 'divert:m'",
    ),
    "filename": _QUERY + "the column filename",
}
_PERMUTED = "list the columns of the table in the order of the file: COPY t ({}) FROM …"


def copied_rows(
    path: str,
    options: Mapping[str, OptionValue],
    target: tuple[str, Sequence[TableColumn]],
    access: Access | None,
) -> FileTable:
    """The table of the files, whose columns have the names of the columns of the target.

    target: the name of the table, and the columns that are written. Text is read as their types.
    """
    others = dict(options)
    not_null = _not_null(others, target[1])
    texts, nulls, is_matched = _texts(others)
    if "format" not in texts:
        found = format_of(path.rstrip("/"))
        texts["format"] = "csv" if found in (None, "lines") else str(found)
    read = replace(read_options({"path": path, **texts}, access), in_query=True)
    if not_null:
        read = replace(read, dialect=replace(read.dialect, not_null=not_null))
    if nulls:
        read = replace(read, dialect=replace(read.dialect, null=nulls[0], more_nulls=nulls[1:]))
    files = QueriedPath.of([file_path(path, None, ignore_missing=False, access=access)])
    return _Copy(path, target[0], target[1], read).table(files, is_matched=is_matched)


class _Copy:
    """The files, and the columns that they fill."""

    def __init__(
        self, path: str, name: str, target: Sequence[TableColumn], options: FileOptions
    ) -> None:
        self._path = path
        self._name = name
        self._target = target
        self._options = options
        self._is_text = options.format in ("csv", "json")

    def table(self, files: QueriedPath, *, is_matched: bool) -> FileTable:
        """Opens the files; ProgrammingError if their columns are not the ones of the target."""
        if self._options.format == "csv":
            self._check_flat()
        expected = tuple(ColumnDefinition(item.name, item.type) for item in self._target)
        if self._is_text and all(self._is_blank(file) for file in files.files()):
            return self._open(files, expected)
        table = self._open(files, (), expected)
        if self._options.format != "csv":
            return self._by_name(table, files, expected)
        if table.sniffed is not None and table.sniffed.header_is_assumed:
            first = ", ".join(item.name for item in table.columns if not item.hidden)
            raise ProgrammingError(
                f'it is not clear whether the first row of "{table.sniffed.path}" has the names of '
                f"columns: {first}",
                hint="add (HEADER true) or (HEADER false)",
            )
        has_header = table.sniffed is None or (
            table.sniffed.dialect is not None and table.sniffed.dialect.header
        )
        return self._by_position(table, has_header=has_header, is_matched=is_matched)

    def _open(
        self,
        files: QueriedPath,
        columns: tuple[ColumnDefinition, ...],
        expected: tuple[ColumnDefinition, ...] = (),
    ) -> FileTable:
        definition = MappingDefinition(self._path, columns, {})
        return open_table(definition, self._options, files, expected)

    def _is_blank(self, file: DataFile) -> bool:
        if file.size > BLANK_BYTES:
            return False
        with reading(file.path), open_bytes(file.path, self._options.compression) as stream:
            return not stream.read(BLANK_BYTES).strip()

    def _check_flat(self) -> None:
        for column in self._target:
            if column.type.is_nested:
                raise ProgrammingError(
                    f'column "{column.name}" is of type {column.type}, which CSV has not',
                    hint="copy from JSON or Parquet",
                )

    def _by_position(self, table: FileTable, *, has_header: bool, is_matched: bool) -> FileTable:
        """The columns of CSV files have the names and types of the target, in order."""
        shown = [item for item in table.columns if not item.hidden]
        names = [external_name(item).lower() for item in shown]
        wanted = [item.name.lower() for item in self._target]
        listed = ", ".join(external_name(item) for item in shown)
        if len(names) != len(wanted):
            raise self._other_columns(f"have {len(names)} columns", listed)
        moved = [name for i, name in enumerate(names) if name in wanted and name != wanted[i]]
        if has_header and moved:
            raise ProgrammingError(
                f'the header of "{self._path}" has the columns of "{self._name}" in another order',
                detail=f"the header is {listed}",
                hint=_PERMUTED.format(listed),
            )
        if is_matched and has_header and names != wanted:
            raise self._other_columns("have other names", listed)
        changed = [
            replace(item, name=new.name, type=new.type, external_name=external_name(item))
            for item, new in zip(shown, self._target, strict=True)
        ]
        return self._changed(table, changed)

    def _by_name(
        self, table: FileTable, files: QueriedPath, expected: tuple[ColumnDefinition, ...]
    ) -> FileTable:
        """The columns of formats that name them: JSON is read as the types of the target; a value
        that its file leaves out is NULL."""
        shown = [item for item in table.columns if not item.hidden]
        names = {item.name.lower() for item in shown}
        wanted = {item.name.lower() for item in self._target}
        listed = ", ".join(item.name for item in shown)
        is_json = self._options.format == "json"
        if not names & wanted and not is_json and len(names) == len(wanted):
            pairs = zip(shown, self._target, strict=True)
            new = [
                replace(item, name=target.name, external_name=external_name(item))
                for item, target in pairs
            ]
            return self._changed(table, new)
        missing = [item.name for item in self._target if item.name.lower() not in names]
        if missing and (not is_json or len(missing) == len(wanted)):
            raise self._other_columns(f'have no column "{missing[0]}"', listed)
        more = [item.name for item in shown if item.name.lower() not in wanted]
        if more:
            raise self._other_columns(f'have another column "{more[0]}"', listed)
        return self._open(files, expected) if is_json else table

    def _changed(self, table: FileTable, columns: Sequence[TableColumn]) -> FileTable:
        """The new table, which no statement has read yet, with other columns."""
        names = {item.name.lower() for item in columns}
        hidden = [item for item in table.columns if item.hidden and item.name.lower() not in names]
        table.columns = (*columns, *hidden)
        table.is_inferred = False
        return table

    def _other_columns(self, what: str, listed: str) -> ProgrammingError:
        wanted = ", ".join(item.name for item in self._target)
        return ProgrammingError(
            f'COPY writes the columns {wanted} of "{self._name}", but the files {what}',
            detail=f'the columns of "{self._path}" are {listed}',
            hint="list the columns of the table, COPY t (a, b) FROM …, or write INSERT INTO t "
            "SELECT … FROM 'file'",
        )


def _not_null(options: dict[str, OptionValue], target: Sequence[TableColumn]) -> frozenset[str]:
    """The columns that FORCE_NOT_NULL lists, in lower case; the option is removed."""
    values = [options.pop(name) for name in list(options) if name.lower() == "force_not_null"]
    names = [item for value in values for item in ((value,) if isinstance(value, str) else value)]
    known = [column.name for column in target]
    if names == ["*"]:
        names = known
    for name in names:
        if name.lower() not in map(str.lower, known):
            raise ProgrammingError(
                f'FORCE_NOT_NULL names the column "{name}", which is not written',
                hint=suggest(name, known, f"the columns are {', '.join(known)}"),
            )
    return frozenset(map(str.lower, names))


def _texts(
    options: Mapping[str, OptionValue],
) -> tuple[dict[str, str], tuple[str, ...], bool]:
    """The options of a File mapping, the texts that stand for NULL, and whether the header must
    match the target."""
    texts: dict[str, str] = {}
    nulls: tuple[str, ...] = ()
    is_matched = False
    for name, value in options.items():
        lower = name.lower()
        if lower == "auto_detect" and _is_false(value):
            texts.setdefault("delimiter", ",")
            texts.setdefault("header", "false")
        if lower in _WITHOUT_EFFECT:
            continue
        option, text = _option(name, value)
        if option in texts and option != "quotedNulls":
            raise ProgrammingError(f'option "{name}" of COPY is given twice')
        if option == "header" and text.upper() == "MATCH":
            text, is_matched = "true", True
        if lower == "nullstr" and value:
            texts.setdefault("quotedNulls", "true")  # as in DuckDB; NULL is PostgreSQL's option
        if option == "nullValue":
            nulls = (value,) if isinstance(value, str) else value
        texts[option] = text
    if texts.get("escape") == texts.get("quote", '"'):
        texts.pop("escape", None)  # a quote in a quoted value is written twice in any case
    return texts, nulls, is_matched


def _option(name: str, value: OptionValue) -> tuple[str, str]:
    """The option of a File mapping, and its value."""
    lower = name.lower()
    if lower in _INSTEAD:
        raise NotSupportedError(
            f'option "{name}" of COPY … FROM is not supported', hint=_INSTEAD[lower]
        )
    if lower in FORMAT_WORDS and not value:
        return "format", lower
    option = _NAMES.get(lower)
    if option is None:
        listed = ", ".join(sorted(_NAMES))
        raise ProgrammingError(
            f'COPY … FROM has no option "{name}"',
            hint=suggest(lower, list(_NAMES), f"its options are {listed}"),
        )
    if option == "nullValue" and value and isinstance(value, tuple):
        return option, value[0]
    if isinstance(value, tuple):
        raise ProgrammingError(f'option "{name}" of COPY … FROM accepts one value')
    return option, _value(lower, option, value)


def _is_false(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in ("false", "off", "0")


def _value(name: str, option: str, value: str) -> str:
    """The value of an option of a File mapping."""
    lower = value.lower()
    match option:
        case "header":
            return value or "true"
        case "compression":
            return COMPRESSIONS.get(lower, value)
        case "onError" if name == "ignore_errors":
            if lower not in ("", "true", "on", "1", "false", "off", "0"):
                raise ProgrammingError(
                    f"wrong value '{value}' for option \"{name}\" of COPY … FROM",
                    hint="it accepts true or false",
                )
            return "fail" if _is_false(value) else "skip"
        case "onError":
            return _POLICIES.get(lower, value)
        case "format" if lower in ("text", "binary"):
            raise NotSupportedError(
                f"FORMAT {value} of COPY … FROM is not supported",
                hint="for PostgreSQL's text format write (FORMAT csv, DELIMITER '\\t', QUOTE '', "
                "NULL '\\N', HEADER false)",
            )
        case "format":
            return {"ndjson": "json", "feather": "arrow"}.get(lower, lower)
    return value
