"""Values of CSV files in formats of their own: dates, timestamps, and numbers with a decimal comma.

A format is spelled as by strptime (`%d/%m/%Y`) or as by TO_DATE (`DD/MM/YYYY`). ISO dates and
timestamps can be read in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import Converter, blank_to_null, converter, numbers_only
from runnel.connectors.files.csv.time_patterns import pattern_of
from runnel.connectors.files.format import external_name
from runnel.connectors.files.options import CsvDialect
from runnel.errors import DataError
from runnel.expressions.to_char.format_time import FormattedTimes, text_of
from runnel.expressions.to_char.parse_time import over_distinct, read
from runnel.sqltypes import DATE, DOUBLE, TIMESTAMP, VARCHAR, Kind, SqlType, to_arrow

_ISO = r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}(\s|T|$)"
_WITH_COMMA = r"^-?((0|[1-9][0-9]*)(,[0-9]+)?|,[0-9]+)$"
_DECIMAL_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+\s*$"


def text_converter(column: TableColumn, dialect: CsvDialect, is_inferred: bool) -> Converter | None:
    """Converts the texts of a column to its type; None for VARCHAR."""
    convert = _converter(column, dialect, is_inferred)
    if external_name(column).lower() not in dialect.not_null:
        return convert
    return lambda array: (convert or _same)(pc.fill_null(array, ""))


def _same(array: pa.Array) -> pa.Array:
    return array


def _converter(column: TableColumn, dialect: CsvDialect, is_inferred: bool) -> Converter | None:
    convert = converter(VARCHAR, column.type)
    if convert is None:
        return None
    kind = column.type.kind
    if column.type.is_numeric:
        if dialect.decimal == "," and not column.type.is_integer:
            convert = _with_decimal_comma(convert)
        if dialect.thousands:
            convert = _without_groups(convert, dialect)
        return numbers_only(convert) if is_inferred else convert
    if kind is Kind.DATE and dialect.date_format is not None:
        return _by_format(convert, DATE, pattern_of(dialect.date_format))
    if kind is Kind.TIMESTAMP and dialect.timestamp_format is not None:
        return _by_format(convert, TIMESTAMP, pattern_of(dialect.timestamp_format))
    return convert


def formatted_type(text: pa.Array, dialect: CsvDialect) -> SqlType:
    """DATE, TIMESTAMP or DOUBLE if all values of a text column can be read by the formats of the
    dialect, else VARCHAR."""
    values = blank_to_null(text).drop_null()
    if not len(values):
        return VARCHAR
    if dialect.decimal == "," and _are_numbers(values):
        return DOUBLE
    formats = (DATE, dialect.date_format), (TIMESTAMP, dialect.timestamp_format)
    for kind, format_text in formats:
        if format_text is not None:
            try:
                _times(values, kind, pattern_of(format_text))
            except DataError:
                continue
            return kind
    return VARCHAR


def _are_numbers(values: pa.Array) -> bool:
    """Whether all texts are numbers, with a comma before the fraction if they have one."""
    are_numbers: bool = pc.all(pc.match_substring_regex(values, _WITH_COMMA)).as_py()
    return are_numbers


def without_groups(texts: pa.Array, dialect: CsvDialect) -> pa.Array:
    """The texts without the character between groups of digits, where they are numbers."""
    mark, point = re.escape(dialect.thousands), re.escape(dialect.decimal)
    pattern = rf"^\s*[+-]?[0-9][0-9{mark}]*({point}[0-9]*)?([eE][+-]?[0-9]+)?\s*$"
    is_number = pc.fill_null(pc.match_substring_regex(texts, pattern), fill_value=False)
    return pc.if_else(is_number, pc.replace_substring(texts, dialect.thousands, ""), texts)


def _without_groups(convert: Converter, dialect: CsvDialect) -> Converter:
    def run(array: pa.Array) -> pa.Array:
        return convert(without_groups(array, dialect))

    return run


def time_formatter(kind: SqlType, dialect: CsvDialect) -> Callable[[pa.Array], pa.Array] | None:
    """Writes values in the dialect's format; None if its type has none."""
    if kind == DATE and dialect.date_format is not None:
        pattern = pattern_of(dialect.date_format)
        return lambda array: text_of(
            FormattedTimes(pc.cast(array, to_arrow(TIMESTAMP)), Kind.TIMESTAMP), pattern
        )
    if kind == TIMESTAMP and dialect.timestamp_format is not None:
        pattern = pattern_of(dialect.timestamp_format)
        return lambda array: text_of(FormattedTimes(array, Kind.TIMESTAMP), pattern)
    return None


def _by_format(convert: Converter, kind: SqlType, pattern: str) -> Converter:
    """Reads texts by a pattern, and ISO texts among them by CAST."""
    formatted = over_distinct(lambda texts: _times(texts, kind, pattern))

    def run(array: pa.Array) -> pa.Array:
        texts = blank_to_null(array)
        is_iso = pc.fill_null(pc.match_substring_regex(texts, _ISO), fill_value=False)
        if not pc.any(is_iso).as_py():
            return formatted(texts)
        nothing = pa.nulls(len(texts), pa.string())
        others = pc.if_else(is_iso, nothing, texts)
        return pc.coalesce(convert(pc.if_else(is_iso, texts, nothing)), formatted(others))

    return run


def _times(texts: pa.Array, kind: SqlType, pattern: str) -> pa.Array:
    walls = read(texts, pattern).walls
    if kind == DATE:
        return pc.cast(pc.floor_temporal(walls, unit="day"), pa.date32())
    return walls


def _with_decimal_comma(convert: Converter) -> Converter:
    def run(array: pa.Array) -> pa.Array:
        if pc.any(pc.match_substring(array, ".")).as_py():
            raise DataError("a number with a point where the decimal separator is a comma")
        is_decimal = pc.fill_null(pc.match_substring_regex(array, _DECIMAL_COMMA), fill_value=False)
        return convert(pc.if_else(is_decimal, pc.replace_substring(array, ",", "."), array))

    return run
