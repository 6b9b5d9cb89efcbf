"""Functions on text on which DuckDB and Spark agree.

Both count characters as Runnel does. They treat unusual options in different ways: options must be
constants with the same result in both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runnel.expressions.nodes import Call
from runnel.expressions.text.strings import LONGEST
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import UNKNOWN, option, refused

FAR = 2**31 - 1
"""A position after the end of every text."""


def null(rendering: Rendering, call: Call) -> str:
    """NULL of the call's type."""
    return rendering.literal(None, call.type)


def options(call: Call, first: int = 1) -> list[Any]:
    """The constant arguments from `first` on."""
    return [option(call, index) for index in range(first, len(call.arguments))]


def whole(value: Any, shown: str, low: int = -FAR, high: int = FAR) -> str:
    """A constant position or count, limited to the engine's range."""
    return shown if value is UNKNOWN else str(min(max(value, low), high))


def failing(rendering: Rendering, call: Call, message: str) -> str:
    """A call that fails for every row."""
    return f"CAST({rendering.error(message)} AS {rendering.type(call.type)})"


def substring(number: str = "{0}") -> FunctionRule:
    """SUBSTRING. A start below 1 and a negative length are errors; the engines would count from the
    end. `number` is the template of a position in the engine's type."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        given = options(call)
        if None in given:
            return null(rendering, call)
        start, *length = given
        if start is not UNKNOWN and start < 1:
            return failing(rendering, call, f"SUBSTRING start must be at least 1, not {start}")
        if length and length[0] is not UNKNOWN and length[0] < 0:
            return failing(
                rendering, call, f"SUBSTRING length must not be negative, but is {length[0]}"
            )
        texts = [
            number.format(whole(value, text))
            for value, text in zip(given, arguments[1:], strict=True)
        ]
        return f"substring({', '.join([arguments[0], *texts])})"

    return rule


def pad(name: str) -> FunctionRule:
    """LPAD and RPAD, by the engine's function of that name."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        length, *fill = options(call)
        if length is None or None in fill:
            return null(rendering, call)
        if (length is not UNKNOWN and not 0 <= length <= LONGEST) or "" in fill:
            raise refused(call, f"{call.function.upper()} with such a length or fill")
        if length is UNKNOWN or UNKNOWN in fill:
            raise refused(call, f"{call.function.upper()} with parameters")
        filling = arguments[2] if fill else "' '"
        return f"{name}({arguments[0]}, {length}, {filling})"

    return rule


def repeat(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """REPEAT; the result's length is checked before it is made."""
    (count,) = options(call)
    if count is None:
        return null(rendering, call)
    if count is UNKNOWN or count > LONGEST:
        raise refused(call, "REPEAT with a parameter, or so often")
    made = f"repeat({arguments[0]}, {max(count, 0)})"
    if count <= 1:
        return made
    return rendering.check(
        f"length({arguments[0]}) > {LONGEST // count}", "a text is too long", made
    )


def split_part(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """SPLIT_PART, with a separator and a position on which the engines agree."""
    separator, index = options(call)
    if separator is None or index is None:
        return null(rendering, call)
    if separator in ("", UNKNOWN) or index is UNKNOWN or not 0 < abs(index) < FAR:
        raise refused(call, "SPLIT_PART with a parameter, or such a separator or position")
    return f"split_part({arguments[0]}, {arguments[1]}, {index})"


def find(text: str) -> FunctionRule:
    """STRPOS and POSITION, without a start, by a template."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if len(arguments) != 2:
            raise refused(call)
        return text.format(*arguments)

    return rule


def like(escape_of: Callable[[Rendering, Call, Any, Any], str]) -> FunctionRule:
    """LIKE with a constant pattern. `escape_of` returns the clause after it, from the pattern and
    the ESCAPE character, which is None if the call has none."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        pattern, *escape = options(call)
        if pattern is None or None in escape:
            return null(rendering, call)
        if escape and (pattern is UNKNOWN or escape[0] is UNKNOWN):
            raise refused(call, "LIKE with a parameter and ESCAPE")
        last = escape_of(rendering, call, pattern, escape[0] if escape else None)
        return f"({arguments[0]} LIKE {arguments[1]}{last})"

    return rule


ALIKE: dict[str, FunctionRule] = {
    "length": typed("length({0})"),
    "ascii": typed("ascii({0})"),
    "lpad": pad("lpad"),
    "rpad": pad("rpad"),
    "repeat": repeat,
    "replace": template("replace({0}, {1}, {2})"),
    "split_part": split_part,
}
"""The functions that both engines have under one name."""
