"""CAST in DuckDB and in Spark, by one table: rules are looked up by the families of the two types,
and refused without one.

DuckDB converts texts by other rules. Spark truncates where Runnel rounds. In Spark, conversions
between floats and texts are refused: Java 17 does not always write the shortest digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.expressions.nodes import Cast
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import CastRule, Rendering
from runnel.rendering.rules import ByEngine, both, refused
from runnel.rendering.spark.arithmetic import as_local, infinite, local_time
from runnel.sqltypes import MAX_PRECISION, VARCHAR, Kind, SqlType

Rule = Callable[["Rendering", str, SqlType, SqlType], str]
"""Gets the operand's text, its type and the target."""


def _family(sql_type: SqlType) -> str:
    if sql_type.is_integer:
        return "integer"
    if sql_type.is_approximate:
        return "float"
    return sql_type.kind.name


def _plain(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """The engine's own cast."""
    return f"CAST({text} AS {rendering.type(target)})"


def _same(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return text


def _to_boolean(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"({text} <> 0)"


def _timestamp_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    name = rendering.type(source)
    end = " 23:59:59.999999" if source.kind is Kind.TIMESTAMP else ""
    wrong = (
        f"({text} < CAST('0001-01-01' AS {name})) OR ({text} > CAST('9999-12-31{end}' AS {name}))"
    )
    message = f"a {source} outside the years 1 to 9999 can't be converted to VARCHAR"
    return rendering.check(wrong, message, f"CAST({text} AS {rendering.type(VARCHAR)})")


_EXACT_DIGITS = 15
"""A DOUBLE holds any whole number of this many digits."""


def _duckdb_decimal_to_float(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """DuckDB divides by a power of ten, which is exact only if a DOUBLE holds both numbers."""
    if source.precision > _EXACT_DIGITS or target.kind is Kind.REAL:
        text = f"CAST(CAST({text} AS VARCHAR) AS DOUBLE)"
    return f"CAST({text} AS {rendering.type(target)})"


def _duckdb_float_to_decimal(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """By the shortest text, as Runnel converts. DuckDB does not read every text as a type without
    whole digits."""
    text = f"CAST({text} AS VARCHAR)"
    if target.precision == target.scale:
        if target.scale == MAX_PRECISION:
            raise Unrenderable(f"a cast of {source} to {target}")
        text = f"CAST({text} AS DECIMAL({target.precision + 1}, {target.scale}))"
    return f"CAST({text} AS {rendering.type(target)})"


def _duckdb_decimal_to_text(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """DuckDB omits the zero before the point if the type has no whole digits."""
    if source.precision == source.scale:
        return f"regexp_replace(CAST({text} AS VARCHAR), '^(-?)[.]', '\\10.')"
    return f"CAST({text} AS VARCHAR)"


def _duckdb_from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = f"timezone({rendering.zone()}, {text})"
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


def _duckdb_to_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"encode({text})"


def _duckdb_from_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"decode({text})"


def _spark_float_to_integer(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """Half to even. Spark's cast alone would truncate, and converts the DOUBLE 2^63, which is out
    of range, to the largest BIGINT."""
    made = f"CAST(rint({text}) AS {rendering.type(target)})"
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


def _spark_float_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    made = f"CAST({text} AS {rendering.type(target)})"
    if target.kind is Kind.DOUBLE:
        return made
    wrong = f"{infinite(made)} AND NOT {infinite(text)}"
    return rendering.check(
        wrong, f"numeric overflow while converting from {source} to {target}", made
    )


def _spark_decimal_to_integer(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """Half away from zero; Spark's cast alone would truncate. By way of BIGINT: to smaller types
    Spark converts by way of DOUBLE, which rounds long numbers."""
    whole = f"CAST(round({text}, 0) AS BIGINT)" if source.scale else f"CAST({text} AS BIGINT)"
    return whole if target.kind is Kind.BIGINT else f"CAST({whole} AS {rendering.type(target)})"


def _spark_decimal_to_float(
    rendering: Rendering, text: str, source: SqlType, target: SqlType
) -> str:
    """By way of DOUBLE, as Runnel converts."""
    return f"CAST(CAST({text} AS DOUBLE) AS {rendering.type(target)})"


def _spark_from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = local_time(rendering, as_local(f"unix_micros({text})"))
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


CASTS: Mapping[tuple[str, str], ByEngine[Rule]] = {
    ("integer", "integer"): both(_plain),
    ("integer", "DECIMAL"): both(_plain),
    ("integer", "float"): both(_plain),
    ("integer", "BOOLEAN"): both(_to_boolean),
    ("integer", "VARCHAR"): both(_plain),
    ("BOOLEAN", "integer"): both(_plain),
    ("BOOLEAN", "VARCHAR"): both(_plain),
    ("DECIMAL", "DECIMAL"): both(_plain),
    ("DECIMAL", "integer"): ByEngine(duckdb=_plain, spark=_spark_decimal_to_integer),
    ("DECIMAL", "float"): ByEngine(duckdb=_duckdb_decimal_to_float, spark=_spark_decimal_to_float),
    ("DECIMAL", "VARCHAR"): ByEngine(duckdb=_duckdb_decimal_to_text, spark=_plain),
    ("float", "integer"): ByEngine(duckdb=_plain, spark=_spark_float_to_integer),
    ("float", "DECIMAL"): ByEngine(duckdb=_duckdb_float_to_decimal),
    ("float", "float"): ByEngine(duckdb=_plain, spark=_spark_float_to_float),
    ("DATE", "TIMESTAMP"): both(_plain),
    ("DATE", "VARCHAR"): both(_timestamp_to_text),
    ("TIME", "VARCHAR"): ByEngine(duckdb=_plain),
    ("TIMESTAMP", "DATE"): both(_plain),
    ("TIMESTAMP", "TIME"): ByEngine(duckdb=_plain),
    ("TIMESTAMP", "VARCHAR"): both(_timestamp_to_text),
    ("TIMESTAMP_TZ", "DATE"): ByEngine(duckdb=_duckdb_from_instant, spark=_spark_from_instant),
    ("TIMESTAMP_TZ", "TIME"): ByEngine(duckdb=_duckdb_from_instant),
    ("TIMESTAMP_TZ", "TIMESTAMP"): ByEngine(duckdb=_duckdb_from_instant, spark=_spark_from_instant),
    ("VARCHAR", "VARBINARY"): ByEngine(duckdb=_duckdb_to_bytes, spark=_plain),
    ("VARBINARY", "VARCHAR"): ByEngine(duckdb=_duckdb_from_bytes),
    ("JSON", "VARCHAR"): both(_same),
    ("UUID", "VARCHAR"): both(_same),
}
"""The rules by the families of the operand's type and of the target."""


def by_families(rules: Mapping[tuple[str, str], Rule]) -> CastRule:
    """A dialect's CAST: the rule for the families of the operand's type and of the target."""

    def cast(rendering: Rendering, node: Cast, text: str) -> str:
        source, target = node.operand.type, node.type
        if source == target:
            return text
        rule = rules.get((_family(source), _family(target)))
        if rule is None:
            raise refused(node)
        return rule(rendering, text, source, target)

    return cast
