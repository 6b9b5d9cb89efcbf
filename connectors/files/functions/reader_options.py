"""The named options of the table functions, as DuckDB names them, and as options of a File
mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runnel.connectors.files.functions.copy_options import COMPRESSIONS
from runnel.connectors.files.options import OF_LOGS, OPTIONS, STORAGE
from runnel.errors import Error, NotSupportedError, ProgrammingError, suggest
from runnel.sqltypes import SqlType

_COMMON = {
    "compression": "compression",
    "hive_partitioning": "hivePartitioning",
    "ignore_errors": "onError",
    "encoding": "encoding",
}
_TIME_FORMATS = {
    "dateformat": "dateFormat",
    "date_format": "dateFormat",
    "timestampformat": "timestampFormat",
    "timestamp_format": "timestampFormat",
}
_CSV = {
    **_COMMON,
    "delim": "delimiter",
    "sep": "delimiter",
    "header": "header",
    "quote": "quote",
    "escape": "escape",
    "nullstr": "nullValue",
    "null": "nullValue",
    "skip": "skip",
    **_TIME_FORMATS,
    "decimal_separator": "decimalSeparator",
    "comment": "comment",
    "thousands": "thousands",
    "null_padding": "nullPadding",
    "allow_quoted_nulls": "quotedNulls",
}
_COLUMN_OPTIONS = {
    "columns": "columns",
    "names": "names",
    "column_names": "names",
    "types": "types",
    "dtypes": "types",
    "column_types": "types",
}
_BY_FORMAT: Mapping[str, Mapping[str, str]] = {
    "csv": _CSV,
    "json": {**_COMMON, **_TIME_FORMATS},
    "lines": {"compression": "compression", "encoding": "encoding"},
}
_WITHOUT_TEXT = {"hive_partitioning": "hivePartitioning"}
_OWN = {
    "csv": (*_COLUMN_OPTIONS, "all_varchar", "normalize_names", "force_not_null"),
    "json": ("columns", "format", "records", "maximum_depth"),
    "parquet": ("binary_as_string",),
}
_EVERYWHERE = ("filename", "union_by_name", "auto_detect", "hive_types", "hive_types_autocast")
_JSON_LAYOUTS = ("auto", "newline_delimited", "nd", "array", "unstructured")
_DELIMITERS = ("delim", "sep", "delimiter")
_COMPRESSIONS = {**COMPRESSIONS, "auto_detect": "auto"}
_REJECTS = (
    "write ignore_errors = true to skip such rows; to keep them, CREATE TABLE m (record VARCHAR, "
    "reason VARCHAR), and write onError = 'divert:m'"
)
_ANY: Any = object()
_WITHOUT_EFFECT: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "sample_size files_to_sniff maximum_sample_files parallel buffer_size max_line_size "
            "maximum_line_size maximum_object_size new_line field_appearance_threshold "
            "explicit_cardinality can_have_nan strict_mode"
        ).split(),
        _ANY,
    ),
    "convert_strings_to_integers": False,
    "file_row_number": False,
    "store_rejects": False,
}
"""Options of DuckDB that change no result here, with their value if it is the only such one."""
_INSTEAD = {
    "convert_strings_to_integers": "name types with columns = {…}, or CAST the columns",
    "map_inference_threshold": "name types with columns = {…}",
    "store_rejects": _REJECTS,
    "rejects_table": _REJECTS,
    "rejects_scan": _REJECTS,
    "rejects_limit": _REJECTS,
    "file_row_number": "write row_number() OVER () - 1",
    "auto_type_candidates": "name types with types = {…}",
    "schema": "CAST the columns",
    "encryption_config": None,
}
"""Options of DuckDB without a counterpart, and what to write instead."""


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The options of a call.

    texts: options of a File mapping, by their names there.
    names: new names of the first columns; () for none.
    types: types of the first columns, or by column name; None: the inferred ones.
    columns: names and types of all columns; None: they are inferred.
    all_varchar: whether every column is VARCHAR.
    is_merging: whether files with different columns are expected: union_by_name.
    filename: the name of the column with the path of a row's file; "" for none but the hidden one.
    nulls: the texts that stand for NULL, if there are several.
    normalizes: whether names get lower case letters, digits and underscores only.
    not_null: the columns, in lower case, in which NULL is the empty text.
    hive_types: types of the columns of folders, by lower-case name.
    most_depth: how deep types are nested, below which values are JSON; -1: any.
    reads_binary_as_text: whether columns of bytes are VARCHAR.
    casts_hive: whether other columns of folders have types that fit their values, not VARCHAR.
    """

    texts: Mapping[str, str]
    names: tuple[str, ...] = ()
    types: Mapping[str, SqlType] | tuple[SqlType, ...] | None = None
    columns: Mapping[str, SqlType] | None = None
    all_varchar: bool = False
    filename: str = ""
    nulls: tuple[str, ...] = ()
    is_merging: bool = False
    normalizes: bool = False
    not_null: frozenset[str] = frozenset()
    hive_types: Mapping[str, SqlType] = field(default_factory=dict)
    casts_hive: bool = True
    most_depth: int = -1
    reads_binary_as_text: bool = False


def read_reader_options(
    function: str, format_name: str | None, named: Mapping[str, Any]
) -> ReaderOptions:
    """Checks the named arguments of a function that reads a format; None: any format.

    ProgrammingError for an unknown one, with the nearest name.
    """
    kind = "json" if format_name == "json-flat" else format_name or ""
    mapped = _BY_FORMAT.get(kind, _WITHOUT_TEXT)
    own = (*_OWN.get(kind, ()), *_EVERYWHERE)
    options = {item.name.lower(): item.name for item in OPTIONS.options if item not in OF_LOGS}
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    nulls: tuple[str, ...] = ()
    for name, value in named.items():
        lower = name.lower()
        if lower == "path" or value is None or _has_no_effect(lower, value):
            continue
        if lower in own and not (lower == "format" and kind != "json"):
            key = _COLUMN_OPTIONS.get(lower, lower)
            if key in values:
                raise ProgrammingError(f'argument "{name}" of {function} is given twice')
            values[key] = value
            continue
        target = mapped.get(lower) or options.get(lower)
        if target is None and lower.startswith(STORAGE):
            target = name
        if target is None or lower == "format":
            hidden = {*mapped.values(), "path", "format"}
            known = {*mapped, *own, *(item for item in options.values() if item not in hidden)}
            raise _unknown(function, name, known)
        if target in texts and target != "quotedNulls":
            raise ProgrammingError(f'argument "{name}" of {function} is given twice')
        if isinstance(value, list) and target == "nullValue":
            if not value or not all(isinstance(item, str) for item in value):
                raise _wrong(function, name, value, "a text or a list of texts: ['-', 'n/a']")
            nulls = tuple(value)
        if target == "nullValue" and lower in ("nullstr", "null") and value:
            texts.setdefault("quotedNulls", "true")  # unless allow_quoted_nulls says no
        text = nulls[0] if isinstance(value, list) and nulls else _text(function, name, value)
        if text is not None:
            texts[target] = text
    return replace(_checked(function, values, texts), nulls=nulls)


def _has_no_effect(name: str, value: Any) -> bool:
    if name not in _WITHOUT_EFFECT:
        return False
    only = _WITHOUT_EFFECT[name]
    return only is _ANY or (type(value) is type(only) and value == only)


def _unknown(function: str, name: str, known: Iterable[str]) -> Error:
    message = f'{function} has no option "{name}"'
    if name.lower() in _INSTEAD:
        return NotSupportedError(
            f'option "{name}" of {function} is not supported', hint=_INSTEAD[name.lower()]
        )
    if name.lower() == "format":
        return ProgrammingError(
            message, hint="the function determines the format: read_csv, read_json, read_parquet, …"
        )
    listed = ", ".join(sorted(known, key=str.lower))
    return ProgrammingError(message, hint=suggest(name, known, f"its options are {listed}"))


def _text(function: str, name: str, value: Any) -> str | None:
    """The value as the text of an option; None if the default is meant."""
    lower = name.lower()
    if lower == "ignore_errors":
        if not isinstance(value, bool):
            raise _wrong(function, name, value, "TRUE or FALSE")
        return "skip" if value else None
    if value == "" and lower in _DELIMITERS:
        error = _wrong(function, name, value, "one character")
        error.hint = "for a row per line, write read_lines('file'), whose column is line"
        raise error
    if lower == "compression" and isinstance(value, str):
        value = _COMPRESSIONS.get(value.lower(), value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise _wrong(function, name, value, "a text")


def _wrong(function: str, name: str, value: Any, allowed: str) -> ProgrammingError:
    return ProgrammingError(
        f'wrong value {_shown(value)} for option "{name}" of {function}',
        hint=f"it accepts {allowed}",
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return repr(value) if isinstance(value, str | int | float) else f"of {type(value).__name__}"


def _checked(function: str, values: Mapping[str, Any], texts: dict[str, str]) -> ReaderOptions:
    _check_layout(function, values)
    filename = values.get("filename", False)
    if not isinstance(filename, bool | str):
        raise _wrong(function, "filename", filename, "TRUE, FALSE or the name of a column")
    names = _names(function, "names", values)
    hive_types = values.get("hive_types", {})
    if not isinstance(hive_types, dict):
        raise _wrong(function, "hive_types", hive_types, "{'name': 'type', …}")
    columns = values.get("columns")
    if columns is not None and (not isinstance(columns, dict) or not columns):
        raise _wrong(function, "columns", columns, "{'name': 'type', …}")
    types = values.get("types")
    if types is not None and not isinstance(types, dict | list):
        raise _wrong(function, "types", types, "{'name': 'type', …} or ['type', …]")
    if columns is not None and (names or types is not None):
        raise ProgrammingError(
            f"{function} accepts columns, or names and types, not both",
            hint="leave one of them out",
        )
    _check_distinct(function, names)
    if values.get("auto_detect") is False:
        texts.setdefault("delimiter", ",")
        texts.setdefault("header", "false")
    if texts.get("escape") == texts.get("quote", '"'):
        del texts["escape"]  # a quote in a quoted value is written twice in any case
    return ReaderOptions(
        texts,
        tuple(names),
        tuple(types) if isinstance(types, list) else types,
        columns,
        _flag(function, "all_varchar", values),
        "filename" if filename is True else filename or "",
        is_merging=_flag(function, "union_by_name", values),
        normalizes=_flag(function, "normalize_names", values),
        not_null=frozenset(name.lower() for name in _names(function, "force_not_null", values)),
        hive_types={name.lower(): item for name, item in hive_types.items()},
        casts_hive=_flag(function, "hive_types_autocast", values, default=True),
        most_depth=_depth(function, values),
        reads_binary_as_text=_flag(function, "binary_as_string", values),
    )


def _depth(function: str, values: Mapping[str, Any]) -> int:
    depth = values.get("maximum_depth", -1)
    if not isinstance(depth, int) or isinstance(depth, bool) or depth < -1 or depth == 0:
        raise _wrong(function, "maximum_depth", depth, "a number from 1 on, or -1 for any depth")
    return depth


def _flag(function: str, name: str, values: Mapping[str, Any], *, default: bool = False) -> bool:
    value = values.get(name, default)
    if value not in (True, False):
        raise _wrong(function, name, value, "TRUE or FALSE")
    return bool(value)


def _names(function: str, option: str, values: Mapping[str, Any]) -> list[str]:
    names = values.get(option, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise _wrong(function, option, names, "a list of texts: ['a', 'b']")
    return names


def _check_layout(function: str, values: Mapping[str, Any]) -> None:
    """Refuses values of options whose only supported value is the default."""
    if values.get("auto_detect", True) is not True and (
        values["auto_detect"] is not False or values.get("columns") is None
    ):
        raise ProgrammingError(
            f"auto_detect = {_shown(values['auto_detect'])} of {function} needs columns",
            hint="add columns = {'name': 'type', …}",
        )
    if str(values.get("format", "auto")).lower() not in _JSON_LAYOUTS:
        raise _wrong(function, "format", values["format"], ", ".join(_JSON_LAYOUTS))
    if values.get("records", True) not in (True, "auto", "true"):
        raise NotSupportedError(
            f"records = {_shown(values['records'])} is not supported by {function}",
            hint="leave it out, or write read_json_objects('file') for a column of JSON",
        )


def _check_distinct(function: str, names: Iterable[str]) -> None:
    used: set[str] = set()
    for name in names:
        if name.lower() in used:
            raise ProgrammingError(f'names of {function} lists "{name}" twice')
        used.add(name.lower())
