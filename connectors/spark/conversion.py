"""Converts a Spark column to the type of a mapping's column, which was declared or inferred
earlier.

The type in Spark may have changed since then. A value that fits is returned unchanged, and one that
does not fit is an error that names it. If a conversion would silently change values, nothing is
read.
"""

from __future__ import annotations

from runnel.catalog import TableColumn
from runnel.connectors.spark.types import SparkColumn, ddl
from runnel.errors import ERROR_MARK, ErrorCode, OperationalError
from runnel.sqltypes import Kind, SqlType, can_cast

AS_NOW = "CREATE OR REPLACE MAPPING adopts the current columns"

_INTERVALS = frozenset({Kind.INTERVAL, Kind.INTERVAL_MONTH})
_TEXTS = frozenset({Kind.VARCHAR, Kind.JSON})
_INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}
_SHOWN = 80
"""The number of characters of a value that an error shows."""


def converted(found: SparkColumn, column: TableColumn, name: str, table: str) -> str:
    """Spark's expression for a column of `table`, from the quoted name of the Spark column.

    OperationalError unless each value either becomes the same value of the column's type, or an
    error.
    """
    if found.problem is not None:
        raise changed(f'column "{column.name}" of "{table}" can no longer be read', found.problem)
    value = found.door(name)
    if found.type == column.type:
        return value
    if not keeps_values(found.type, column.type):
        raise changed(
            f'column "{column.name}" of "{table}" is {found.type} in Spark, '
            f"and {column.type} in the mapping"
        )
    target = ddl(column.type)
    return (
        _tried(value, target, column)
        if _may_fail(found.type, column.type)
        else f"CAST({value} AS {target})"
    )


def changed(message: str, detail: str | None = None) -> OperationalError:
    """The error for data that changed since CREATE MAPPING, so that retrying does not help."""
    return OperationalError(message, code=ErrorCode.GENERIC, detail=detail, hint=AS_NOW)


def keeps_values(source: SqlType, target: SqlType) -> bool:
    """Whether CAST converts each value to the same value of another type, or fails."""
    if source == target or source.kind is Kind.NULL:
        return True
    if not can_cast(source, target) or _INTERVALS & {source.kind, target.kind}:
        return False
    if source.is_nested and target.is_nested:
        return _keeps_fields(source, target)
    if source.is_numeric:
        return _keeps_numbers(source, target)
    if source.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        return target.kind not in (Kind.DATE, Kind.TIME)
    return source.kind is not Kind.TIME or target.kind in _TEXTS


def _keeps_numbers(source: SqlType, target: SqlType) -> bool:
    if target.kind in _TEXTS:
        return True
    if source.is_approximate:
        return source.kind is Kind.REAL and target.kind is Kind.DOUBLE
    if target.is_integer:
        return source.is_integer or source.scale == 0
    return target.is_approximate or (
        target.kind is Kind.DECIMAL and target.scale >= (source.scale or 0)
    )


def _keeps_fields(source: SqlType, target: SqlType) -> bool:
    """Whether CAST keeps nested values; it matches their fields by position."""
    names = [[name.lower() for name, _ in item.fields] for item in (source, target)]
    inner = [
        *((source.key, target.key), (source.element, target.element)),
        *zip(
            (item for _, item in source.fields), (item for _, item in target.fields), strict=False
        ),
    ]
    return names[0] == names[1] and all(
        a is None or b is None or keeps_values(a, b) for a, b in inner
    )


def _may_fail(source: SqlType, target: SqlType) -> bool:
    """Whether some value of a type that is not nested has no equal in the other type."""
    if target.kind in _TEXTS or source.kind is Kind.NULL or source.is_nested:
        return False
    if source.kind is Kind.VARCHAR:
        return True
    return source.is_exact and target.is_exact and _digits(source) > _digits(target)


def _digits(exact: SqlType) -> int:
    """The maximum number of digits before the decimal point."""
    return (
        _INTEGER_DIGITS[exact.kind]
        if exact.is_integer
        else (exact.precision or 0) - (exact.scale or 0)
    )


def _tried(value: str, target: str, column: TableColumn) -> str:
    """A CAST whose error names the column and the value."""
    # Loaded on first use: a connection that only lists mappings does not need the rendering.
    from runnel.rendering.spark.values import SparkValues

    text = SparkValues().text

    shown = f"SUBSTRING(CAST({value} AS STRING), 1, {_SHOWN})"
    begin, end = (
        text(f"{ERROR_MARK}value '"),
        text(f"' doesn't fit column \"{column.name}\" of type {column.type}"),
    )
    fault = f"RAISE_ERROR(CONCAT({begin}, {shown}, {end}))"
    tried = f"TRY_CAST({value} AS {target})"
    return f"CASE WHEN {value} IS NOT NULL AND {tried} IS NULL THEN {fault} ELSE {tried} END"
