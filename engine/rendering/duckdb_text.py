"""Functions on text in DuckDB. Its functions count characters as we do; what it does with odd options differs, so that options
must be constants that have one meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runnel.expressions.nodes import Call
from runnel.expressions.strings import LONGEST
from runnel.rendering.dialect import UNKNOWN, FunctionRule, option, refused, template, typed
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering

FAR = 2**31 - 1
"""A position that no text reaches."""


def null(rendering: Rendering, call: Call) -> str:
    return rendering.literal(None, call.type)


def options(call: Call, first: int = 1) -> list[Any]:
    """The constant arguments from `first` on."""
    return [option(call, index) for index in range(first, len(call.arguments))]


def whole(value: Any, shown: str, low: int = -FAR, high: int = FAR) -> str:
    """A constant position or count, brought within what the engine takes."""
    return shown if value is UNKNOWN else str(min(max(value, low), high))


def substring(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """A start below 1 and a negative length are errors; DuckDB would count from the end."""
    given = options(call)
    if None in given:
        return null(rendering, call)
    start, *length = given
    if start is not UNKNOWN and start < 1:
        return failing(rendering, call, f"SUBSTRING start must be at least 1, not {start}")
    if length and length[0] is not UNKNOWN and length[0] < 0:
        return failing(rendering, call, f"SUBSTRING length must not be negative, but is {length[0]}")
    texts = [whole(value, text) for value, text in zip(given, arguments[1:], strict=True)]
    return f"substring({', '.join([arguments[0], *texts])})"


def failing(rendering: Rendering, call: Call, message: str) -> str:
    """A call that no row can take."""
    return f"CAST({rendering.error(message)} AS {rendering.type(call.type)})"


def _end(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        (count,) = options(call)
        if count is None:
            return null(rendering, call)
        return f"{name}({arguments[0]}, {whole(count, arguments[1])})"

    return rule


def pad(name: str) -> FunctionRule:
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
    (count,) = options(call)
    if count is None:
        return null(rendering, call)
    if count is UNKNOWN or count > LONGEST:
        raise refused(call, "REPEAT with a parameter, or so often")
    made = f"repeat({arguments[0]}, {max(count, 0)})"
    if count <= 1:
        return made
    return rendering.check(f"length({arguments[0]}) > {LONGEST // count}", "a text is too long", made)


def split_part(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    separator, index = options(call)
    if separator is None or index is None:
        return null(rendering, call)
    if separator in ("", UNKNOWN) or index is UNKNOWN or not 0 < abs(index) < FAR:
        raise refused(call, "SPLIT_PART with a parameter, or such a separator or position")
    return f"split_part({arguments[0]}, {arguments[1]}, {index})"


def _trim(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        characters = arguments[1] if len(arguments) == 2 else "' '"
        return f"{name}({arguments[0]}, {characters})"

    return rule


def _find(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    if len(arguments) != 2:
        raise refused(call)
    return f"CAST(strpos({arguments[0]}, {arguments[1]}) AS INTEGER)"


def _like(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB's LIKE has no escape character either unless one is given."""
    pattern, *escape = options(call)
    if pattern is None or None in escape:
        return null(rendering, call)
    if escape and (pattern is UNKNOWN or escape[0] is UNKNOWN):
        raise refused(call, "LIKE with a parameter and ESCAPE")
    last = f" ESCAPE {arguments[2]}" if escape else ""
    return f"({arguments[0]} LIKE {arguments[1]}{last})"


def _regular(rendering: Rendering, call: Call, at: int) -> str:
    """The pattern with its flags in front, as a literal; both engines use RE2."""
    given = options(call)
    flags = given[at] if len(given) > at else ""
    if UNKNOWN in given or None in given:
        raise refused(call, f"{call.function.upper()} with parameters or NULL")
    inline = "".join(sorted({"n": "m"}.get(flag, flag) for flag in set(flags) if flag in "ismn"))
    if not given[0].isascii():
        raise refused(call, f"{call.function.upper()} with a pattern beyond ASCII")
    return rendering.dialect.text(f"(?{inline}){given[0]}" if inline else given[0])


def _regexp_like(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return f"regexp_matches({arguments[0]}, {_regular(rendering, call, 1)})"


def _regexp_replace(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    regex = _regular(rendering, call, 2)
    given = options(call)
    every = ", 'g'" if len(given) > 2 and "g" in given[2] else ""
    return f"regexp_replace({arguments[0]}, {regex}, {arguments[2]}{every})"


def _octets(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    name = "octet_length" if call.arguments[0].type.kind is Kind.VARBINARY else "strlen"
    return f"CAST({name}({arguments[0]}) AS INTEGER)"


def _concat_all(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return f"concat({', '.join(arguments)})"


def _concat_ws(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    separator, *parts = arguments
    if not parts:
        return f"CASE WHEN {separator} IS NULL THEN {null(rendering, call)} ELSE '' END"
    return f"concat_ws({', '.join(arguments)})"


FUNCTIONS: dict[str, FunctionRule] = {
    "length": typed("length({0})"),
    "octet_length": _octets,
    "ascii": typed("ascii({0})"),
    "lower": template("lower({0})", Kind.VARCHAR),
    "upper": template("upper({0})", Kind.VARCHAR),
    "btrim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "substring": substring,
    "left": _end("left"),
    "right": _end("right"),
    "lpad": pad("lpad"),
    "rpad": pad("rpad"),
    "repeat": repeat,
    "replace": template("replace({0}, {1}, {2})"),
    "strpos": _find,
    "position": _find,
    "starts_with": template("starts_with({0}, {1})"),
    "ends_with": template("suffix({0}, {1})"),
    "split_part": split_part,
    "concat": template("({0} || {1})"),
    "concat_all": _concat_all,
    "concat_ws": _concat_ws,
    "like": _like,
    "regexp_like": _regexp_like,
    "regexp_replace": _regexp_replace,
}
