"""CAST in DuckDB with Runnel's semantics.

DuckDB rounds where Runnel truncates, and converts texts by other rules: such casts are written in
another way, or refused.
"""

from __future__ import annotations

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.casts import ALIKE, by_families, plain
from runnel.rendering.render import Rendering
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType

_EXACT_DIGITS = 15
"""A DOUBLE holds any whole number of this many digits."""


def _cut(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """Toward zero; DuckDB's cast alone would round."""
    return f"CAST(trunc({text}) AS {rendering.type(target)})"


def _decimal_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """DuckDB divides by a power of ten, which is exact only if a DOUBLE holds both numbers."""
    if source.precision > _EXACT_DIGITS or target.kind is Kind.REAL:
        text = f"CAST(CAST({text} AS VARCHAR) AS DOUBLE)"
    return f"CAST({text} AS {rendering.type(target)})"


def _float_to_decimal(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """By the shortest text, as Runnel converts. DuckDB does not read every text as a type without
    whole digits."""
    text = f"CAST({text} AS VARCHAR)"
    if target.precision == target.scale:
        if target.scale == MAX_PRECISION:
            raise Unrenderable(f"a cast of {source} to {target}")
        text = f"CAST({text} AS DECIMAL({target.precision + 1}, {target.scale}))"
    return f"CAST({text} AS {rendering.type(target)})"


def _decimal_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """DuckDB omits the zero before the point if the type has no whole digits."""
    if source.precision == source.scale:
        return f"regexp_replace(CAST({text} AS VARCHAR), '^(-?)[.]', '\\10.')"
    return f"CAST({text} AS VARCHAR)"


def _from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = f"timezone({rendering.zone()}, {text})"
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


def _to_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"encode({text})"


def _from_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"decode({text})"


cast = by_families(
    {
        **ALIKE,
        ("DECIMAL", "integer"): _cut,
        ("DECIMAL", "float"): _decimal_to_float,
        ("DECIMAL", "VARCHAR"): _decimal_to_text,
        ("float", "integer"): _cut,
        ("float", "DECIMAL"): _float_to_decimal,
        ("float", "float"): plain,
        ("TIME", "VARCHAR"): plain,
        ("TIMESTAMP", "TIME"): plain,
        ("TIMESTAMP_TZ", "DATE"): _from_instant,
        ("TIMESTAMP_TZ", "TIME"): _from_instant,
        ("TIMESTAMP_TZ", "TIMESTAMP"): _from_instant,
        ("VARCHAR", "VARBINARY"): _to_bytes,
        ("VARBINARY", "VARCHAR"): _from_bytes,
    }
)
