"""Functions on text and octets in Spark: its own rules, and the table of all.

Case folding and regular expressions are refused, because Java's rules are different.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runnel.expressions.nodes import Call
from runnel.rendering.render import FunctionRule, Rendering, called, template, typed
from runnel.rendering.rules import UNKNOWN, option, refused
from runnel.rendering.text import (
    ALIKE,
    FAR,
    failing,
    find,
    like,
    null,
    options,
    substring,
    whole,
)
from runnel.sqltypes import Kind


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
    """Spark's default escape character is the backslash. Without ESCAPE, the clause names a
    character that the pattern does not contain."""
    if character is None:
        character = next(item for item in _ESCAPES if pattern is UNKNOWN or item not in pattern)
    text = rendering.text(character)
    if not text.startswith("'"):
        raise refused(call, "LIKE with such an ESCAPE, or so many characters")
    return f" ESCAPE {text}"


_ESCAPES = [chr(code) for code in range(33, 127) if chr(code) not in "%_\\'\"$/"]


def _concat_all(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return "concat(" + ", ".join(f"coalesce({text}, '')" for text in arguments) + ")"


def _translate(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    old, new = options(call)
    if old is None or new is None:
        return null(rendering, call)
    if old is UNKNOWN or new is UNKNOWN or "\0" in new:  # Spark marks removed characters by it
        raise refused(call, "TRANSLATE with parameters, or to such characters")
    return f"translate({', '.join(arguments)})"


def _overlay(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    given = options(call, 2)
    if None in given:
        return null(rendering, call)
    if UNKNOWN in given or max(given) > FAR // 2 or min(given[1:], default=0) < 0:
        raise refused(call, "OVERLAY with parameters, or such a count")
    if given[0] < 1:
        text = failing(rendering, call, f"OVERLAY start must be at least 1, not {given[0]}")
        missing = f"({arguments[0]} IS NULL) OR ({arguments[1]} IS NULL)"
        return f"CASE WHEN {missing} THEN {null(rendering, call)} ELSE {text} END"
    return f"overlay({', '.join([*arguments[:2], *map(str, given)])})"


_LONGEST = 100_000_000


def _space(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    (count,) = arguments
    made = f"CASE WHEN {count} < 0 THEN '' ELSE space(CAST({count} AS INT)) END"
    return rendering.check(f"{count} > {_LONGEST}", "a text is too long", made)


def _levenshtein(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    left, right = arguments
    size = f"(CAST(length({left}) AS BIGINT) * length({right}))"
    return rendering.check(
        f"{size} > {_LONGEST}",
        "the texts are too long for LEVENSHTEIN",
        f"levenshtein({left}, {right})",
    )


def _of_octets(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    start, *length = options(call)
    if call.arguments[0].type.kind is not Kind.VARBINARY or start is UNKNOWN or UNKNOWN in length:
        raise refused(call)
    if (start is not None and start < 1) or (length and length[0] is not None and length[0] < 0):
        raise refused(call, "BINARY_SUBSTRING with such a start or length")
    return substring("CAST({0} AS INT)")(rendering, call, arguments)


_SHA2 = {f"sha{bits}": template(f"sha2({{0}}, {bits})") for bits in (224, 256, 384, 512)}
FUNCTIONS: dict[str, FunctionRule] = {
    **ALIKE,
    "octet_length": typed("octet_length({0})"),
    "reverse": template("reverse({0})"),
    "btrim": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    "substring": substring("CAST({0} AS INT)"),
    "left": _end("left"),
    "right": _end("right"),
    "strpos": find("instr({0}, {1})"),
    "position": find("instr({0}, {1})"),
    "starts_with": template("startswith({0}, {1})"),
    "ends_with": template("endswith({0}, {1})"),
    "concat": template("concat({0}, {1})"),
    "concat_all": _concat_all,
    "concat_ws": called("concat_ws"),
    "like": like(_escape),
    "contains": template("contains({0}, {1})"),
    "bit_length": typed("(octet_length({0}) * 8)"),
    "unicode": template("CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END"),
    "translate": _translate,
    "overlay": _overlay,
    "space": _space,
    "levenshtein": _levenshtein,
    "to_hex": template("lower(hex({0}))"),
    "to_bin": template("bin({0})"),
    "hex": template("hex({0})"),
    "md5": template("md5({0})"),
    "sha1": template("sha1({0})"),
    **_SHA2,
    "crc32": template("crc32({0})"),
    "to_utf8": template("CAST({0} AS BINARY)"),
    "from_utf8": template("validate_utf8(CAST({0} AS STRING))"),
    "concat_binary": template("concat({0}, {1})"),
    "binary_substring": _of_octets,
}
