"""Infers the types of columns: of text, and of columns that several files have.

Text is read as a number, a date or a truth value only if this holds for the whole sample, in a
spelling that loses nothing. Digits with a leading zero or a plus sign stay text, since they are
codes and not quantities.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.connectors.files.format import FileColumn
from runnel.errors import ProgrammingError
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    MAX_PRECISION,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    SqlType,
    array,
    common_type,
    decimal,
    row,
    to_arrow,
)

_INTEGER = r"-?(0|[1-9][0-9]*)"
_NUMBER = r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NUMBER_OR_NAN = rf"({_NUMBER}|(?i:nan|-?inf(inity)?))"
_BOOLEAN = r"(?i:true|false)"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_CANDIDATES: tuple[tuple[str, SqlType], ...] = (
    (_BOOLEAN, BOOLEAN),
    (_INTEGER, BIGINT),
    (_NUMBER_OR_NAN, DOUBLE),
    (_DAY, DATE),
    (rf"{_DAY}([ T]{_CLOCK})?", TIMESTAMP),
    (rf"{_DAY}[ T]{_CLOCK}{_ZONE}", TIMESTAMP_TZ),
    (_CLOCK, TIME),
)
SHOWN_NAMES = 12
"""How many names of columns a message shows."""

_LOGGER = logging.getLogger("runnel.connectors")
_WHOLE_DECIMAL = decimal(MAX_PRECISION, 0)


class TextColumns:
    """The types of a file's text columns, inferred batch by batch.

    `type_of`: the type of a column's texts; None: `type_of_text`.
    """

    def __init__(
        self, names: Sequence[str], type_of: Callable[[pa.Array], SqlType] | None = None
    ) -> None:
        self._type_of = type_of or type_of_text
        self._types: dict[str, SqlType] = dict.fromkeys(names, NULL)

    def add(self, texts: Sequence[pa.Array]) -> None:
        """Adds a batch with all columns to the evidence."""
        for name, text in zip(self._types, texts, strict=True):
            known = self._types[name]
            if known != VARCHAR:
                self._types[name] = united_type(known, self._type_of(text))

    def columns(self) -> tuple[FileColumn, ...]:
        """The columns so far; a column without any value has the type NULL."""
        return tuple(FileColumn(name, item) for name, item in self._types.items())


def type_of_text(text: pa.Array) -> SqlType:
    """The narrowest type that all values of a text column can be read as.

    NULL if there is no value. Blank text in a column of another type is NULL.
    """
    trimmed = pc.utf8_trim_whitespace(text)
    values = trimmed.filter(pc.cast(pc.binary_length(trimmed), pa.bool_()))
    if len(values) == 0:
        return VARCHAR if text.null_count < len(text) else NULL
    first = values[0].as_py()
    for pattern, candidate in _CANDIDATES:
        if re.fullmatch(pattern, first) is None or not _all_match(values, pattern):
            continue
        found = _checked(values, candidate)
        if found is not None:
            return found
    return VARCHAR


def _checked(values: pa.Array, candidate: SqlType) -> SqlType | None:
    """The candidate if all values, which match its pattern, are valid (no 30th of February).

    A wider type if they are valid in that one; None if they are not valid.
    """
    if candidate == DOUBLE:
        # A column with only "nan" more likely marks missing values.
        has_number = pc.any(pc.match_substring_regex(values, f"^{_NUMBER}$")).as_py()
        return DOUBLE if has_number and not _has_overflow(values) else None
    if candidate == TIMESTAMP_TZ:
        # CAST accepts offsets such as +02 that Arrow's own cast rejects.
        return candidate
    try:
        values.cast(to_arrow(candidate))
    except pa.ArrowNotImplementedError:
        return candidate
    except pa.ArrowInvalid:
        if candidate != BIGINT:
            return None
        digits = pc.max(pc.utf8_length(pc.utf8_ltrim(values, "-"))).as_py()
        return _WHOLE_DECIMAL if digits <= MAX_PRECISION else VARCHAR
    return candidate


def _has_overflow(values: pa.Array) -> bool:
    """Whether a number is beyond the range of DOUBLE."""
    try:
        is_infinite = pc.is_inf(values.cast(pa.float64()))
    except pa.ArrowInvalid:
        return False
    overflown: bool = pc.any(pc.match_substring_regex(values.filter(is_infinite), "[0-9]")).as_py()
    return bool(overflown)


def _all_match(values: pa.Array, pattern: str) -> bool:
    matches: bool = pc.all(pc.match_substring_regex(values, f"^(?:{pattern})$")).as_py()
    return matches


def united_type(first: SqlType, second: SqlType) -> SqlType:
    """The type that represents the values of both types without a change.

    Numbers are merged to the wider type, a date and a timestamp to the timestamp, rows field by
    field by name. Text and anything else become VARCHAR; a nested type and one that is not nested
    become JSON.
    """
    if first == second or second.kind is Kind.NULL:
        return first
    if first.kind is Kind.NULL:
        return second
    if first.kind is Kind.ROW and second.kind is Kind.ROW:
        return _united_rows(first, second)
    if first.kind is Kind.ARRAY and second.kind is Kind.ARRAY:
        assert first.element is not None and second.element is not None
        return array(united_type(first.element, second.element))
    if first.is_nested or second.is_nested or Kind.JSON in (first.kind, second.kind):
        return JSON
    if (
        first.is_temporal
        and second.is_temporal
        and {first.kind, second.kind} != {Kind.DATE, Kind.TIMESTAMP}
    ):
        return VARCHAR
    found = common_type(first, second)
    return VARCHAR if found is None else found


def _united_rows(first: SqlType, second: SqlType) -> SqlType:
    fields = dict(first.fields)
    for name, item in second.fields:
        fields[name] = united_type(fields.get(name, NULL), item)
    return row(*fields.items())


def settled(found: SqlType) -> SqlType:
    """The type with VARCHAR for each NULL, also inside nested types: no value of it was found."""
    if found.kind is Kind.NULL:
        return VARCHAR
    if found.kind is Kind.ARRAY and found.element is not None:
        return array(settled(found.element))
    if found.kind is Kind.ROW:
        return row(*((name, settled(item)) for name, item in found.fields))
    return found


def check_shapes(files: Sequence[tuple[str, Sequence[str]]], *, is_merging: bool) -> None:
    """Compares the column names of files that one mapping reads: each file's path and names.

    Logs a warning if a file lacks columns of the first one or has others, unless `is_merging` says
    that this is expected: its rows have NULL in the columns that it lacks. ProgrammingError if they
    have no column in common, and the names of a file are evidently values.
    """
    filled = [(path, names) for path, names in files if names]
    if not filled:
        return
    first_path, first_names = filled[0]
    expected = {name.lower() for name in first_names}
    for path, names in filled[1:]:
        found = {name.lower() for name in names}
        if found == expected:
            continue
        shapes = (
            f'file "{first_path}" has {_listed(first_names)}; file "{path}" has {_listed(names)}'
        )
        if not found & expected and any(map(_is_value, names)):
            raise ProgrammingError(
                "the files have no column in common",
                detail=shapes,
                hint="read them as two mappings, or name the files of one kind in the path; if "
                "their first rows are data, add 'header' = 'false'",
            )
        if not is_merging:
            _LOGGER.warning("files with different columns are merged by name: %s", shapes)
        return


def _is_value(name: str) -> bool:
    return type_of_text(pa.array([name], pa.string())) not in (VARCHAR, NULL)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES])
    return shown if len(names) <= SHOWN_NAMES else f"{shown}, … ({len(names)} columns)"


def united_columns(tables: Sequence[Sequence[FileColumn]]) -> tuple[FileColumn, ...]:
    """The columns of several files, merged by name, in the order in which they occur first.

    Names are compared exactly, and else without regard to case. A column without any value is
    VARCHAR.
    """
    types: dict[str, SqlType] = {}
    spelling: dict[str, str] = {}
    for columns in tables:
        own = {column.name for column in columns}
        for column in columns:
            name = column.name
            if name not in types:
                other = spelling.get(name.lower())
                name = name if other is None or other in own else other
            types[name] = united_type(types.get(name, NULL), column.type)
            spelling.setdefault(name.lower(), name)
    return tuple(FileColumn(name, settled(item)) for name, item in types.items())
