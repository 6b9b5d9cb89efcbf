"""Spark's functions as ours. Case folding, regular expressions and the transcendental functions are Java's, and aren't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runnel.expressions.nodes import Call, Literal
from runnel.rendering import spark_arithmetic
from runnel.rendering.arithmetic import COMPARISONS, LOGIC, same_types
from runnel.rendering.dialect import UNKNOWN, FunctionRule, option, refused, template, typed
from runnel.rendering.spark_arithmetic import as_local, finite, micros_of, refuse_long
from runnel.rendering.spark_zones import local_time
from runnel.rendering.text import find, like, null, options, pad, repeat, split_part, substring, whole
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def _absolute(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    refuse_long(call)
    return f"abs({arguments[0]})"


def _sign(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return f"CAST(sign({arguments[0]}) AS {rendering.type(call.type)})"


def _round_to_whole(name: str) -> FunctionRule:
    """FLOOR and CEIL. Of a DOUBLE Spark makes a BIGINT; what that doesn't hold is whole already."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        given, text = call.arguments[0].type, arguments[0]
        if given.is_integer:
            return text
        made = f"CAST({name}({text}) AS {rendering.type(call.type)})"
        if given.kind is Kind.DECIMAL:
            return made
        return f"CASE WHEN abs({text}) < CAST('4503599627370496' AS DOUBLE) THEN {made} ELSE {text} END"

    return rule


def _rounded(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    given = call.arguments[0].type
    digits = option(call, 1) if len(call.arguments) == 2 else 0
    if digits is None:
        return null(rendering, call)
    if digits is UNKNOWN or digits < 0:
        raise refused(call, "ROUND to digits that are a parameter or negative")
    if given.is_integer:
        return arguments[0]
    if given.kind is Kind.DECIMAL:
        return f"CAST({arguments[0]} AS {rendering.type(call.type)})"
    if digits:
        raise refused(call, f"ROUND({given}) to digits")
    return f"CAST(round({arguments[0]}) AS {rendering.type(call.type)})"


def _truncated(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    given = call.arguments[0].type
    digits = option(call, 1) if len(call.arguments) == 2 else 0
    if digits is None:
        return null(rendering, call)
    if digits is UNKNOWN or digits < 0 or (digits and not given.is_integer) or given.is_approximate:
        raise refused(call, "TRUNCATE to digits, or of floats")
    if given.is_integer:
        return arguments[0]
    text = arguments[0]
    return f"CAST(CASE WHEN {text} < 0 THEN ceil({text}) ELSE floor({text}) END AS {rendering.type(call.type)})"


def _sqrt(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return rendering.check(f"{arguments[0]} < 0", "square root of a negative number", f"sqrt({arguments[0]})")


def _square(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return finite(rendering, call, arguments, f"({arguments[0]} * {arguments[0]})")


def _end(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        (count,) = options(call)
        if count is None:
            return null(rendering, call)
        if count is UNKNOWN or count < 0:
            raise refused(call, f"{call.function.upper()} with a parameter or a negative count")
        return f"{name}({arguments[0]}, {whole(count, '')})"

    return rule


def _trim(side: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if len(arguments) == 2 and option(call, 1) in ("", None, UNKNOWN):
            raise refused(call, f"{call.function.upper()} of such characters")
        characters = arguments[1] if len(arguments) == 2 else "' '"
        return f"trim({side} {characters} FROM {arguments[0]})"

    return rule


def _escape(rendering: Rendering, call: Call, pattern: Any, character: Any) -> str:
    """Spark's default escape character is the backslash: one is given that isn't in the pattern."""
    if character is None:
        character = next(item for item in _ESCAPES if pattern is UNKNOWN or item not in pattern)
    text = rendering.dialect.text(character)
    if not text.startswith("'"):
        raise refused(call, "LIKE with such an ESCAPE, or so many characters")
    return f" ESCAPE {text}"


_ESCAPES = [chr(code) for code in range(33, 127) if chr(code) not in "%_\\'\"$/"]


def _concat_all(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return "concat(" + ", ".join(f"coalesce({text}, '')" for text in arguments) + ")"


def _extreme(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if call.type.kind is Kind.VARBINARY:
            raise refused(call)
        return arguments[0] if len(arguments) == 1 else f"{name}({', '.join(arguments)})"

    return rule


_FIELDS = {
    "year": "extract(YEAR FROM {0})",
    "isoyear": "extract(YEAROFWEEK FROM {0})",
    "quarter": "extract(QUARTER FROM {0})",
    "month": "extract(MONTH FROM {0})",
    "week": "extract(WEEK FROM {0})",
    "day": "extract(DAY FROM {0})",
    "dow": "(extract(DAYOFWEEK FROM {0}) - 1)",
    "isodow": "extract(DAYOFWEEK_ISO FROM {0})",
    "doy": "extract(DOY FROM {0})",
    "hour": "extract(HOUR FROM {0})",
    "minute": "extract(MINUTE FROM {0})",
    "second": "extract(SECOND FROM {0})",
    "millisecond": "(extract(SECOND FROM {0}) * 1000)",
    "microsecond": "(extract(SECOND FROM {0}) * 1000000)",
    "decade": "floor(extract(YEAR FROM {0}) / 10)",
}


def _extract(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    field, kind = call.arguments[0], call.arguments[1].type.kind
    assert isinstance(field, Literal)
    value = arguments[1]
    if kind is Kind.TIMESTAMP_TZ and field.value == "epoch":
        return f"(CAST(unix_micros({value}) AS DOUBLE) / 1000000)"
    if kind is Kind.TIMESTAMP and field.value == "epoch":
        return f"(CAST({micros_of(value)} AS DOUBLE) / 1000000)"
    if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) or field.value not in _FIELDS:
        raise refused(call, f"EXTRACT({field.value.upper()} FROM {call.arguments[1].type})")
    if kind is Kind.TIMESTAMP_TZ:
        value = local_time(rendering, as_local(f"unix_micros({value})"))
    return f"CAST({_FIELDS[field.value].format(value)} AS DOUBLE)"


_DATES = {
    "day": "CAST({0} AS DATE)",
    **{unit: f"trunc({{0}}, '{unit.upper()}')" for unit in ("week", "month", "quarter", "year")},
}
_SIZES = {"millisecond": 1000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}


def _truncated_moment(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """By dates and by µs: Spark's own function goes by the zone of its session."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    if call.type.kind is not Kind.TIMESTAMP:
        raise refused(call, f"DATE_TRUNC of {call.type}")
    if unit.value == "microsecond":
        return arguments[1]
    if unit.value in _DATES:
        return f"CAST({_DATES[unit.value].format(f'CAST({arguments[1]} AS DATE)')} AS TIMESTAMP_NTZ)"
    size = _SIZES.get(unit.value)
    if size is None:
        raise refused(call, f"DATE_TRUNC('{unit.value}', {call.type})")
    micros = micros_of(arguments[1])
    return as_local(f"({micros} - pmod({micros}, {size}))")


def _at_time_zone(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    zone = option(call, 1)
    if zone is None:
        return null(rendering, call)
    if zone is UNKNOWN or call.type.kind is Kind.TIMESTAMP_TZ:
        raise refused(call, "AT TIME ZONE of a local time")
    return local_time(rendering, as_local(f"unix_micros({arguments[0]})"), arguments[1])


FUNCTIONS: dict[str, FunctionRule] = {
    **COMPARISONS,
    **LOGIC,
    "is_distinct": same_types("(NOT ({0} <=> {1}))"),
    "is_not_distinct": same_types("({0} <=> {1})"),
    **spark_arithmetic.FUNCTIONS,
    "abs": _absolute,
    "sign": _sign,
    "floor": _round_to_whole("floor"),
    "ceil": _round_to_whole("ceil"),
    "round": _rounded,
    "truncate": _truncated,
    "sqrt": _sqrt,
    "square": _square,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "length": typed("length({0})"),
    "octet_length": typed("octet_length({0})"),
    "ascii": typed("ascii({0})"),
    "reverse": template("reverse({0})"),
    "btrim": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    "substring": substring("CAST({0} AS INT)"),
    "left": _end("left"),
    "right": _end("right"),
    "lpad": pad("lpad"),
    "rpad": pad("rpad"),
    "repeat": repeat,
    "replace": template("replace({0}, {1}, {2})"),
    "strpos": find("instr({0}, {1})"),
    "position": find("instr({0}, {1})"),
    "starts_with": template("startswith({0}, {1})"),
    "ends_with": template("endswith({0}, {1})"),
    "split_part": split_part,
    "concat": template("concat({0}, {1})"),
    "concat_all": _concat_all,
    "concat_ws": lambda rendering, call, arguments: f"concat_ws({', '.join(arguments)})",
    "like": like(_escape),
    "extract": _extract,
    "date_trunc": _truncated_moment,
    "at_time_zone": _at_time_zone,
    "to_epoch_millis": template("((unix_micros({0}) - pmod(unix_micros({0}), 1000)) div 1000)"),
    "cardinality": typed("size({0})"),
}
