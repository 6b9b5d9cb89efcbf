"""Spark's functions on text and octets as ours. Regular expressions are Java's there, and
aren't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Call
from runnel.rendering.render import FunctionRule, template, typed
from runnel.rendering.rules import UNKNOWN, refused
from runnel.rendering.text import FAR, failing, null, options, substring
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def _translate(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    old, new = options(call)
    if old is None or new is None:
        return null(rendering, call)
    if old is UNKNOWN or new is UNKNOWN or "\0" in new:  # Spark marks by it what is left out
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
