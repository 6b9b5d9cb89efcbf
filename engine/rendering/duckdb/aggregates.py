"""Aggregates in DuckDB with Runnel's types and errors, also over windows.

DuckDB's SUM of integers has 128 bits, its AVG of DECIMALs is a DOUBLE, and its sums of floats
become infinite without an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal, Parameter
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.duckdb.arithmetic import quotient, scaled, unscaled
from runnel.rendering.render import AggregateRule, FunctionRule, Rendering, aggregate, called
from runnel.rendering.rules import Invocation
from runnel.sqltypes import MAX_PRECISION, Kind, decimal


def _count_star(rendering: Rendering, item: Invocation) -> str:
    return item.run("count", "*")


def _count(rendering: Rendering, item: Invocation) -> str:
    return item.run("count", *item.arguments)


def _sum(rendering: Rendering, item: Invocation) -> str:
    given = item.call.arguments[0].type
    if given.is_approximate:
        return _float_sum(rendering, item)
    total = item.run("sum", *item.arguments)
    made = f"CAST({total} AS {rendering.type(item.call.type)})"
    if not given.is_integer or item.is_window:
        return made
    return rendering.check(
        f"{total} NOT BETWEEN {-(2**63)} AND {2**63 - 1}", "BIGINT overflow in SUM", made
    )


def _float_sum(rendering: Rendering, item: Invocation) -> str:
    """Infinite only if an argument is."""
    (argument,) = item.arguments
    total = item.run("sum", f"CAST({argument} AS DOUBLE)")
    explained = item.run("bool_or", f"isinf({argument})", distinct=False)
    return rendering.check(f"isinf({total}) AND NOT {explained}", "DOUBLE overflow in SUM", total)


def _average(rendering: Rendering, item: Invocation) -> str:
    given = item.call.arguments[0].type
    (argument,) = item.arguments
    count = item.run("count", argument)
    if given.is_approximate:
        return f"({_float_sum(rendering, item)} / {count})"
    total = item.run("sum", argument)
    if given.is_integer:
        return f"(CAST({total} AS DOUBLE) / {count})"
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


def _spread(name: str) -> AggregateRule:
    """Of one NaN or infinite number DuckDB makes no spread; it is NaN."""

    def rule(rendering: Rendering, item: Invocation) -> str:
        (argument,) = item.arguments
        made = item.run(name, argument)
        if item.call.arguments[0].type.kind is not Kind.DOUBLE:
            return made
        odd = item.run("bool_or", f"NOT isfinite({argument})", distinct=False)
        return f"CASE WHEN {odd} AND {made} IS NOT NULL THEN CAST('nan' AS DOUBLE) ELSE {made} END"

    return rule


AGGREGATES: dict[str, AggregateRule] = {
    "count_star": _count_star,
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": aggregate("min"),
    "max": aggregate("max"),
    "any_value": aggregate("any_value"),
    "bool_and": aggregate("bool_and"),
    "every": aggregate("bool_and"),
    "bool_or": aggregate("bool_or"),
    "var_pop": _spread("var_pop"),
    "var_samp": _spread("var_samp"),
    "variance": _spread("var_samp"),
    "stddev_pop": _spread("stddev_pop"),
    "stddev_samp": _spread("stddev_samp"),
    "stddev": _spread("stddev_samp"),
    "array_agg": _array_agg,
    "string_agg": _string_agg,
    "bit_and": aggregate("bit_and"),
    "bit_or": aggregate("bit_or"),
    "bit_xor": aggregate("bit_xor"),
}


def _nth_value(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB returns NULL for a position before the first."""
    value, position = arguments
    checked = rendering.check(
        f"{position} <= 0", "the argument of NTH_VALUE must be greater than zero", position
    )
    return f"nth_value({value}, {checked})"


WINDOWS: dict[str, FunctionRule] = {
    **{
        name: called(name)
        for name in (
            *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
            *("lag", "lead", "first_value", "last_value"),
        )
    },
    "nth_value": _nth_value,
}
