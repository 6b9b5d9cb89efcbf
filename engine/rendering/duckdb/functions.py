"""DuckDB's functions on numbers, dates and times, and nested values, with Runnel's semantics."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal
from runnel.rendering.arithmetic import COMPARISONS, LOGIC, rounded, same_types, truncated
from runnel.rendering.duckdb import arithmetic as duckdb_arithmetic
from runnel.rendering.duckdb import text as duckdb_text
from runnel.rendering.duckdb.arithmetic import finite
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import UNKNOWN, option, refused
from runnel.sqltypes import Kind


def _sign(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    sign = f"CAST(sign({arguments[0]}) AS {rendering.type(call.type)})"
    if call.type.is_approximate:  # DuckDB's is 0 for NaN
        return f"CASE WHEN isnan({arguments[0]}) THEN {arguments[0]} ELSE {sign} END"
    return sign


def _round_to_whole(name: str) -> FunctionRule:
    """FLOOR and CEIL."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if call.arguments[0].type.is_integer:
            return arguments[0]
        return f"CAST({name}({arguments[0]}) AS {rendering.type(call.type)})"

    return rule


def _finite(text: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return finite(rendering, call, arguments, text.format(*arguments))

    return rule


def _power(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    base, exponent = arguments
    made = f"pow({base}, {exponent})"
    unreal = f"isnan({made}) AND NOT (isnan({base}) OR isnan({exponent}))"
    message = "a negative number raised to a fraction has no real value"
    checked = rendering.check(unreal, message, finite(rendering, call, arguments, made))
    return rendering.check(
        f"{base} = 0 AND {exponent} < 0", "zero raised to a negative power is undefined", checked
    )


def _extreme(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return arguments[0] if len(arguments) == 1 else f"{name}({', '.join(arguments)})"

    return rule


_MICROS = 1_000_000
_WHOLE_FIELDS = {
    "millennium": "millennium",
    "century": "century",
    "decade": "decade",
    "year": "year",
    "isoyear": "isoyear",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "dow": "dow",
    "isodow": "isodow",
    "doy": "doy",
    "hour": "hour",
    "minute": "minute",
    "microsecond": "microsecond",
}
_SCALED_FIELDS = {"second": ("microsecond", _MICROS), "millisecond": ("microsecond", 1000)}
_INTERVAL_FIELDS = {
    Kind.INTERVAL: {
        "day": "(({0}) // 86400000000)",
        "hour": "((({0}) % 86400000000) // 3600000000)",
        "minute": "((({0}) % 3600000000) // 60000000)",
        "second": "(CAST((({0}) % 60000000) AS DOUBLE) / 1000000)",
        "millisecond": "(CAST((({0}) % 60000000) AS DOUBLE) / 1000)",
        "microsecond": "(({0}) % 60000000)",
        "epoch": "(CAST(({0}) AS DOUBLE) / 1000000)",
    },
    Kind.INTERVAL_MONTH: {
        "millennium": "(({0}) // 12000)",
        "century": "(({0}) // 1200)",
        "decade": "(({0}) // 120)",
        "year": "(({0}) // 12)",
        "quarter": "((({0}) % 12) // 3 + 1)",
        "month": "(({0}) % 12)",
    },
}


def _extract(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    field, kind = call.arguments[0], call.arguments[1].type.kind
    assert isinstance(field, Literal)
    value = arguments[1]
    if kind in _INTERVAL_FIELDS:
        return f"CAST({_INTERVAL_FIELDS[kind][field.value].format(value)} AS DOUBLE)"
    if field.value == "epoch":
        return f"(CAST(epoch_us({value}) AS DOUBLE) / {_MICROS})"
    if kind is Kind.TIMESTAMP_TZ:
        value = f"timezone({rendering.zone()}, {value})"
    if field.value in _SCALED_FIELDS:
        part, unit = _SCALED_FIELDS[field.value]
        return f"(CAST(extract({part} FROM {value}) AS DOUBLE) / {unit})"
    return f"CAST(extract({_WHOLE_FIELDS[field.value]} FROM {value}) AS DOUBLE)"


_UNITS = "microsecond millisecond second minute hour day week month quarter year decade".split()


def _truncated_timestamp(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB's centuries begin a year too early, and it converts instants to local time by other
    rules."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    if unit.value not in _UNITS or call.type.kind is not Kind.TIMESTAMP:
        raise refused(call, f"DATE_TRUNC('{unit.value}', {call.type})")
    return f"date_trunc('{unit.value}', {arguments[1]})"


def _at_time_zone(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """From an instant to local time. The reverse only for UTC, where no local time is skipped or
    occurs twice."""
    zone = option(call, 1)
    if zone is None:
        return rendering.literal(None, call.type)
    if zone is UNKNOWN or (call.type.kind is Kind.TIMESTAMP_TZ and zone != "UTC"):
        raise refused(call, "AT TIME ZONE of a local time")
    return f"timezone({arguments[1]}, {arguments[0]})"


_EPOCH_MILLIS = "((epoch_us({0}) - (((epoch_us({0}) % 1000) + 1000) % 1000)) // 1000)"
FUNCTIONS: dict[str, FunctionRule] = {
    **COMPARISONS,
    **LOGIC,
    "is_distinct": same_types("({0} IS DISTINCT FROM {1})"),
    "is_not_distinct": same_types("({0} IS NOT DISTINCT FROM {1})"),
    **duckdb_arithmetic.FUNCTIONS,
    **duckdb_text.FUNCTIONS,
    "square": _finite("({0} * {0})"),
    "sqrt": template("sqrt({0})"),
    "exp": _finite("exp({0})"),
    "ln": template("ln({0})"),
    "log2": template("log2({0})"),
    "log10": template("log10({0})"),
    "degrees": _finite("degrees({0})"),
    "radians": template("radians({0})"),
    "sin": template("sin({0})"),
    "cos": template("cos({0})"),
    "tan": template("tan({0})"),
    "asin": template("asin({0})"),
    "acos": template("acos({0})"),
    "atan": template("atan({0})"),
    "atan2": template("atan2({0}, {1})"),
    "power": _power,
    "abs": template("abs({0})"),
    "sign": _sign,
    "floor": _round_to_whole("floor"),
    "ceil": _round_to_whole("ceil"),
    "round": rounded,
    "truncate": truncated("trunc({0})", floats=True),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "extract": _extract,
    "date_trunc": _truncated_timestamp,
    "at_time_zone": _at_time_zone,
    "to_epoch_millis": template(_EPOCH_MILLIS),
    "cardinality": typed("len({0})"),
}
