"""Spark's functions as ours. Case folding, regular expressions and the transcendental functions are
Java's, and aren't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runnel.expressions.nodes import Call
from runnel.rendering.arithmetic import COMPARISONS, LOGIC, rounded_decimal, same_types
from runnel.rendering.render import FunctionRule, template, typed
from runnel.rendering.rules import UNKNOWN, option, refused
from runnel.rendering.spark import arithmetic as spark_arithmetic
from runnel.rendering.spark import bits as spark_integers
from runnel.rendering.spark import dates as spark_dates
from runnel.rendering.spark import text as spark_text
from runnel.rendering.spark.arithmetic import finite, refuse_long
from runnel.rendering.text import (
    find,
    like,
    null,
    options,
    pad,
    repeat,
    split_part,
    substring,
    whole,
)
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
        return (
            f"CASE WHEN abs({text}) < CAST('4503599627370496' AS DOUBLE) THEN {made} ELSE {text} "
            "END"
        )

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
        return rounded_decimal(rendering, call, arguments[0], digits)
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
    return (
        f"CAST(CASE WHEN {text} < 0 THEN ceil({text}) ELSE floor({text}) END AS "
        f"{rendering.type(call.type)})"
    )


def _sqrt(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return rendering.check(
        f"{arguments[0]} < 0", "square root of a negative number", f"sqrt({arguments[0]})"
    )


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


FUNCTIONS: dict[str, FunctionRule] = {
    **COMPARISONS,
    **LOGIC,
    "is_distinct": same_types("(NOT ({0} <=> {1}))"),
    "is_not_distinct": same_types("({0} <=> {1})"),
    **spark_arithmetic.FUNCTIONS,
    **spark_dates.FUNCTIONS,
    **spark_integers.FUNCTIONS,
    **spark_text.FUNCTIONS,
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
    "cardinality": typed("size({0})"),
}
