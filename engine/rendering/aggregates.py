"""Aggregates in DuckDB and in Spark, with Runnel's types and errors: one table for both.

DuckDB's SUM of integers has 128 bits, its AVG of DECIMALs is a DOUBLE, and its sums of floats
become infinite without an error. In Spark, a SUM of BIGINTs adds the high and the low halves
separately, since Spark fails if the sum of some of the rows is out of range. A sum of DECIMALs with
more than 28 digits may still fail for that reason.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.expressions.nodes import Literal, Parameter
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.duckdb.arithmetic import quotient, scaled, unscaled
from runnel.rendering.render import AggregateRule, Rendering, aggregate
from runnel.rendering.rules import ByEngine, Invocation, both
from runnel.rendering.spark.arithmetic import decimal_quotient, infinite
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType, decimal


def _duckdb_count(rendering: Rendering, item: Invocation) -> str:
    """BIGINT without a cast."""
    return item.run("count", *(item.arguments or ("*",)))


def _float_sum(is_infinite: Callable[[str], str]) -> AggregateRule:
    """Infinite only if an argument is; `is_infinite` is the engine's test of a float."""

    def rule(rendering: Rendering, item: Invocation) -> str:
        (argument,) = item.arguments
        total = item.run("sum", f"CAST({argument} AS DOUBLE)")
        explained = item.run("bool_or", is_infinite(argument), distinct=False)
        wrong = f"{is_infinite(total)} AND NOT {explained}"
        return rendering.check(wrong, "DOUBLE overflow in SUM", total)

    return rule


_duckdb_float_sum = _float_sum("isinf({0})".format)
_spark_float_sum = _float_sum(infinite)


def _duckdb_sum(rendering: Rendering, item: Invocation) -> str:
    given = item.call.arguments[0].type
    if given.is_approximate:
        return _duckdb_float_sum(rendering, item)
    total = item.run("sum", *item.arguments)
    made = f"CAST({total} AS {rendering.type(item.call.type)})"
    if not given.is_integer or item.is_window:
        return made
    return rendering.check(
        f"{total} NOT BETWEEN {-(2**63)} AND {2**63 - 1}", "BIGINT overflow in SUM", made
    )


def _duckdb_average(rendering: Rendering, item: Invocation) -> str:
    given = item.call.arguments[0].type
    (argument,) = item.arguments
    count = item.run("count", argument)
    if given.is_approximate:
        return f"({_duckdb_float_sum(rendering, item)} / {count})"
    total = item.run("sum", argument)
    if given.is_integer:
        return f"(CAST({total} AS DOUBLE) / {count})"
    if given.kind is not Kind.DECIMAL:
        raise Unrenderable(f"AVG({given})", item.call.position)
    result = item.call.type
    shift = result.scale - given.scale
    if given.scale > 18 or shift > 18:
        raise Unrenderable(f"AVG({given})", item.call.position)
    total_type = decimal(
        min(given.precision + 12, MAX_PRECISION), given.scale
    )  # of a thousand thousand million rows
    if total_type.precision < MAX_PRECISION:
        total = f"CAST({total} AS {rendering.type(total_type)})"
    return scaled(quotient(unscaled(total, total_type), count, shift), result)


def _spark_total(item: Invocation, source: SqlType) -> str:
    """The exact sum of integers: a DECIMAL(38, 0), or a BIGINT if no realistic number of rows
    exceeds it."""
    (argument,) = item.arguments
    if source.kind is not Kind.BIGINT:
        return item.run("sum", f"CAST({argument} AS BIGINT)")
    if item.call.distinct:
        return item.run("sum", f"CAST({argument} AS DECIMAL(19, 0))")
    high = item.run("sum", f"shiftright({argument}, 32)")
    low = item.run("sum", f"({argument} & 4294967295)")
    weighted = f"CAST({high} AS DECIMAL(20, 0)) * CAST(4294967296 AS DECIMAL(10, 0))"
    return f"CAST(({weighted} + CAST({low} AS DECIMAL(20, 0))) AS DECIMAL(38, 0))"


def _spark_sum(rendering: Rendering, item: Invocation) -> str:
    source = item.call.arguments[0].type
    if source.is_approximate:
        return _spark_float_sum(rendering, item)
    if source.is_integer:
        return f"CAST({_spark_total(item, source)} AS BIGINT)"
    return f"CAST({item.run('sum', *item.arguments)} AS {rendering.type(item.call.type)})"


def _spark_average(rendering: Rendering, item: Invocation) -> str:
    source, result = item.call.arguments[0].type, item.call.type
    count = item.run("count", *item.arguments)
    if source.is_approximate:
        return f"({_spark_float_sum(rendering, item)} / nullif({count}, 0))"
    if source.is_integer:
        return f"(CAST({_spark_total(item, source)} AS DOUBLE) / nullif({count}, 0))"
    if source.kind is not Kind.DECIMAL:
        raise Unrenderable(f"AVG({source})", item.call.position)
    digits = min(source.precision + 10, MAX_PRECISION)
    divisor = f"CAST(nullif({count}, 0) AS DECIMAL(19, 0))"
    total_type = decimal(digits, source.scale)
    text = decimal_quotient(
        item.run("sum", *item.arguments), total_type, divisor, decimal(19, 0), result
    )
    if text is None:
        total_type = decimal(min(MAX_PRECISION - result.scale + source.scale, digits), source.scale)
        total = f"CAST({item.run('sum', *item.arguments)} AS {rendering.type(total_type)})"
        text = decimal_quotient(total, total_type, divisor, decimal(19, 0), result)
    if text is None:
        raise Unrenderable(f"AVG({source})", item.call.position)
    return text


def _array_agg(rendering: Rendering, item: Invocation) -> str:
    """Only with ORDER BY: else each engine has another order."""
    if not item.order or item.call.distinct:
        raise Unrenderable(
            f"{item.call.function.upper()} without ORDER BY, or with DISTINCT", item.call.position
        )
    return item.run("list", item.arguments[0] + item.order)


def _string_agg(rendering: Rendering, item: Invocation) -> str:
    if not item.order or item.call.distinct:
        raise Unrenderable("STRING_AGG without ORDER BY, or with DISTINCT", item.call.position)
    if not isinstance(item.call.arguments[1], (Literal, Parameter)):
        raise Unrenderable(
            "STRING_AGG with a separator that differs from row to row", item.call.position
        )
    return item.run("string_agg", item.arguments[0], item.arguments[1] + item.order)


def _spread(name: str) -> ByEngine[AggregateRule]:
    """Of one NaN or infinite number DuckDB makes no spread; it is NaN."""

    def rule(rendering: Rendering, item: Invocation) -> str:
        (argument,) = item.arguments
        made = item.run(name, argument)
        if item.call.arguments[0].type.kind is not Kind.DOUBLE:
            return made
        odd = item.run("bool_or", f"NOT isfinite({argument})", distinct=False)
        return f"CASE WHEN {odd} AND {made} IS NOT NULL THEN CAST('nan' AS DOUBLE) ELSE {made} END"

    return ByEngine(duckdb=rule, spark=aggregate(name))


AGGREGATES: dict[str, ByEngine[AggregateRule]] = {
    "count_star": ByEngine(duckdb=_duckdb_count, spark=aggregate("count")),
    "count": ByEngine(duckdb=_duckdb_count, spark=aggregate("count")),
    "sum": ByEngine(duckdb=_duckdb_sum, spark=_spark_sum),
    "avg": ByEngine(duckdb=_duckdb_average, spark=_spark_average),
    "min": both(aggregate("min")),
    "max": both(aggregate("max")),
    "any_value": ByEngine(duckdb=aggregate("any_value")),
    "bool_and": both(aggregate("bool_and")),
    "every": both(aggregate("bool_and")),
    "bool_or": both(aggregate("bool_or")),
    "var_pop": _spread("var_pop"),
    "var_samp": _spread("var_samp"),
    "variance": _spread("var_samp"),
    "stddev_pop": _spread("stddev_pop"),
    "stddev_samp": _spread("stddev_samp"),
    "stddev": _spread("stddev_samp"),
    "array_agg": ByEngine(duckdb=_array_agg),
    "string_agg": ByEngine(duckdb=_string_agg),
    "bit_and": both(aggregate("bit_and")),
    "bit_or": both(aggregate("bit_or")),
    "bit_xor": both(aggregate("bit_xor")),
}
"""The rules of aggregates, by key. DuckDB's also apply with OVER."""

OVER_IN_SPARK = frozenset(
    {"count_star", "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"}
)
"""The aggregates that Spark runs with OVER."""
