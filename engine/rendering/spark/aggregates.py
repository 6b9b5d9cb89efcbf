"""Aggregates in Spark with Runnel's types and errors.

A SUM of BIGINTs adds the high and the low halves separately, since Spark fails if the sum of some
of the rows is out of range. A sum of DECIMALs with more than 28 digits may still fail for that
reason.
"""

from __future__ import annotations

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import AggregateRule, Rendering, aggregate
from runnel.rendering.rules import Invocation
from runnel.rendering.spark.arithmetic import decimal_quotient, infinite
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType, decimal


def _total(item: Invocation, source: SqlType) -> str:
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


def _sum(rendering: Rendering, item: Invocation) -> str:
    source = item.call.arguments[0].type
    if source.is_approximate:
        return _float_sum(rendering, item)
    if source.is_integer:
        return f"CAST({_total(item, source)} AS BIGINT)"
    return f"CAST({item.run('sum', *item.arguments)} AS {rendering.type(item.call.type)})"


def _float_sum(rendering: Rendering, item: Invocation) -> str:
    (argument,) = item.arguments
    total = item.run("sum", f"CAST({argument} AS DOUBLE)")
    explained = item.run("bool_or", infinite(argument), distinct=False)
    return rendering.check(
        f"{infinite(total)} AND NOT {explained}", "DOUBLE overflow in SUM", total
    )


def _average(rendering: Rendering, item: Invocation) -> str:
    source, result = item.call.arguments[0].type, item.call.type
    count = item.run("count", *item.arguments)
    if source.is_approximate:
        return f"({_float_sum(rendering, item)} / nullif({count}, 0))"
    if source.is_integer:
        return f"(CAST({_total(item, source)} AS DOUBLE) / nullif({count}, 0))"
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


AGGREGATES: dict[str, AggregateRule] = {
    "count_star": aggregate("count"),
    "count": aggregate("count"),
    "sum": _sum,
    "avg": _average,
    "min": aggregate("min"),
    "max": aggregate("max"),
    "bool_and": aggregate("bool_and"),
    "every": aggregate("bool_and"),
    "bool_or": aggregate("bool_or"),
    **{name: aggregate(name) for name in ("bit_and", "bit_or", "bit_xor")},
    "var_pop": aggregate("var_pop"),
    "var_samp": aggregate("var_samp"),
    "variance": aggregate("var_samp"),
    "stddev_pop": aggregate("stddev_pop"),
    "stddev_samp": aggregate("stddev_samp"),
    "stddev": aggregate("stddev_samp"),
}
