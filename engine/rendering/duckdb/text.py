"""Functions on text in DuckDB: its own rules, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runnel.expressions.nodes import Call
from runnel.rendering.render import FunctionRule, Rendering, called, template
from runnel.rendering.rules import UNKNOWN, refused
from runnel.rendering.text import ALIKE, find, like, null, options, substring, whole
from runnel.sqltypes import Kind


def _end(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        (count,) = options(call)
        if count is None:
            return null(rendering, call)
        return f"{name}({arguments[0]}, {whole(count, arguments[1])})"

    return rule


def _trim(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        characters = arguments[1] if len(arguments) == 2 else "' '"
        return f"{name}({arguments[0]}, {characters})"

    return rule


def _escape(rendering: Rendering, call: Call, pattern: Any, character: Any) -> str:
    """DuckDB's LIKE has no default escape character, as Runnel's."""
    return "" if character is None else f" ESCAPE {rendering.text(character)}"


def _regular(rendering: Rendering, call: Call, at: int) -> str:
    """The pattern as a literal, after its flags. DuckDB and Runnel both use RE2."""
    given = options(call)
    flags = given[at] if len(given) > at else ""
    if UNKNOWN in given or None in given:
        raise refused(call, f"{call.function.upper()} with parameters or NULL")
    inline = "".join(sorted({"n": "m"}.get(flag, flag) for flag in set(flags) if flag in "ismn"))
    if not given[0].isascii():
        raise refused(call, f"{call.function.upper()} with a pattern beyond ASCII")
    return rendering.text(f"(?{inline}){given[0]}" if inline else given[0])


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


def _concat_ws(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    separator, *parts = arguments
    if not parts:
        return f"CASE WHEN {separator} IS NULL THEN {null(rendering, call)} ELSE '' END"
    return f"concat_ws({', '.join(arguments)})"


FUNCTIONS: dict[str, FunctionRule] = {
    **ALIKE,
    "octet_length": _octets,
    "lower": template("lower({0})", Kind.VARCHAR),
    "upper": template("upper({0})", Kind.VARCHAR),
    "btrim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "substring": substring(),
    "left": _end("left"),
    "right": _end("right"),
    "strpos": find("CAST(strpos({0}, {1}) AS INTEGER)"),
    "position": find("CAST(strpos({0}, {1}) AS INTEGER)"),
    "starts_with": template("starts_with({0}, {1})"),
    "ends_with": template("suffix({0}, {1})"),
    "concat": template("({0} || {1})"),
    "concat_all": called("concat"),
    "concat_ws": _concat_ws,
    "like": like(_escape),
    "regexp_like": _regexp_like,
    "regexp_replace": _regexp_replace,
}
