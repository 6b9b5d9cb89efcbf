"""CAST in Spark's ANSI mode with Runnel's semantics: other casts are written in another way, or
refused.

Conversions between floats and texts are refused: Java 17 does not always write the shortest digits.
"""

from __future__ import annotations

from runnel.rendering.casts import ALIKE, by_families, plain
from runnel.rendering.render import Rendering
from runnel.rendering.spark.arithmetic import as_local, infinite, local_time
from runnel.sqltypes import Kind, SqlType


def _float_to_integer(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """Spark converts the DOUBLE 2^63, which is out of range, to the largest BIGINT."""
    made = f"CAST({text} AS {rendering.type(target)})"
    if target.kind is not Kind.BIGINT:
        return made
    wrong = f"{text} >= CAST('9223372036854775808' AS DOUBLE)"
    checked = rendering.check(
        wrong, f"numeric overflow while converting from {source} to {target}", made
    )
    return rendering.check(
        f"{infinite(text)} OR isnan({text})",
        "cannot convert infinite or NaN to an integer",
        checked,
    )


def _float_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    made = f"CAST({text} AS {rendering.type(target)})"
    if target.kind is Kind.DOUBLE:
        return made
    wrong = f"{infinite(made)} AND NOT {infinite(text)}"
    return rendering.check(
        wrong, f"numeric overflow while converting from {source} to {target}", made
    )


def _decimal_to_integer(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """By way of BIGINT: to smaller types Spark converts by way of DOUBLE, which rounds long
    numbers."""
    whole = f"CAST({text} AS BIGINT)"
    return whole if target.kind is Kind.BIGINT else f"CAST({whole} AS {rendering.type(target)})"


def _decimal_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """By way of DOUBLE, as Runnel converts."""
    return f"CAST(CAST({text} AS DOUBLE) AS {rendering.type(target)})"


def _from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = local_time(rendering, as_local(f"unix_micros({text})"))
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


cast = by_families(
    {
        **ALIKE,
        ("DECIMAL", "integer"): _decimal_to_integer,
        ("DECIMAL", "float"): _decimal_to_float,
        ("DECIMAL", "VARCHAR"): plain,
        ("float", "integer"): _float_to_integer,
        ("float", "float"): _float_to_float,
        ("TIMESTAMP_TZ", "DATE"): _from_instant,
        ("TIMESTAMP_TZ", "TIMESTAMP"): _from_instant,
        ("VARCHAR", "VARBINARY"): plain,
    }
)
