"""DuckDB as the second opinion: the same statements over the same tables, under settings that mean
the same.

Mappings become tables with the map's key as primary key. What is spelled differently is translated
here; what means something different is marked in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from math import isclose, isnan
from typing import Any

import duckdb

from runnel import Interval
from runnel.catalog import Table
from runnel.sqltypes import INTERVAL_KINDS, Kind, SqlType

SETTINGS = (
    "SET lambda_syntax = 'ENABLE_SINGLE_ARROW'",
    "SET integer_division = true",
    "SET ieee_floating_point_ops = false",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET TimeZone = 'UTC'",
    "SET threads = 1",
    "SET autoinstall_known_extensions = false",
)
_NAMES = {
    Kind.VARBINARY: "BLOB",
    **dict.fromkeys(INTERVAL_KINDS, "INTERVAL"),
}
# SET TimeZone is executed by both; DuckDB has no setting time_zone.
_NOT_FOR_DUCKDB = re.compile(
    r"\s*(CREATE\s+INDEX|DROP\s+INDEX|(SET|RESET)(?!\s+(?:VARIABLE|TimeZone)\b)|SHOW|EXPLAIN)\b",
    re.IGNORECASE,
)


class Oracle:
    """One DuckDB database in memory."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        for setting in SETTINGS:
            self._connection.execute(setting)

    def close(self) -> None:
        self._connection.close()

    def create(self, name: str, table: Table) -> None:
        """A table like the one behind a mapping."""
        columns = [f'"{c.name}" {_type_name(c.type)}' for c in table.columns if not c.hidden]
        keys = [
            f'"{table.columns[i].name}"' for i in table.key_columns if not table.columns[i].hidden
        ]
        if keys:
            columns.append(f"PRIMARY KEY ({', '.join(keys)})")
        self._connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({", ".join(columns)})')

    def execute(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a statement; [(count,)] for one that writes."""
        if _NOT_FOR_DUCKDB.match(sql):
            return []
        return self._connection.execute(translated(sql), list(arguments) or None).fetchall()


def translated(sql: str) -> str:
    """The statement in DuckDB's spelling."""
    sql = re.sub(r"^\s*SINK\s+INTO\b", "INSERT OR REPLACE INTO", sql, flags=re.IGNORECASE)
    sql = re.sub(r"^\s*DROP\s+MAPPING\b", "DROP TABLE", sql, flags=re.IGNORECASE)
    return _without_table_word(sql)


def _without_table_word(sql: str) -> str:
    """`TABLE(f(…))` as `f(…)`."""
    while (match := re.search(r"\bTABLE\s*\(", sql, re.IGNORECASE)) is not None:
        depth = 1
        end = match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = sql[: match.start()] + sql[match.end() : end - 1] + sql[end:]
    return sql


def _type_name(sql_type: SqlType) -> str:
    if sql_type.element is not None and sql_type.kind is Kind.ARRAY:
        return f"{_type_name(sql_type.element)}[]"
    if sql_type.kind is Kind.ROW:
        return (
            "STRUCT("
            + ", ".join(f'"{name}" {_type_name(item)}' for name, item in sql_type.fields)
            + ")"
        )
    return _NAMES.get(sql_type.kind, str(sql_type))


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same: numbers by value, and to nine digits where one of them is
    approximate."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, float) or isinstance(theirs, float):
        if not isinstance(ours, int | float | Decimal) or not isinstance(
            theirs, int | float | Decimal
        ):
            return False
        left, right = float(ours), float(theirs)
        return (isnan(left) and isnan(right)) or isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(
            same(a, b) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, Interval) and isinstance(theirs, timedelta):
        # DuckDB's Python client returns a month as 30 days.
        days = ours.months * 30 + ours.days
        return timedelta(days, microseconds=ours.microseconds) == theirs
    return bool(ours == theirs)
