"""Functions on text and octets in DuckDB and in Spark.

Both count characters as Runnel does. They treat unusual options in different ways: options must be
constants with the same result in both engines. Spark's case folding and regular expressions are
refused, because Java's rules are different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runnel.expressions.nodes import Call
from runnel.expressions.text.strings import LONGEST
from runnel.rendering.render import FunctionRule, Rendering, by_engine, called, template, typed
from runnel.rendering.rules import UNKNOWN, ByEngine, both, option, refused
from runnel.sqltypes import Kind

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


def _failing(rendering: Rendering, call: Call, message: str) -> str:
    """A call that fails for every row."""
    return f"CAST({rendering.error(message)} AS {rendering.type(call.type)})"


def _substring(number: str = "{0}") -> FunctionRule:
    """SUBSTRING. A start of 0 and a negative length are errors; the engines return a text. `number`
    is the template of a position in the engine's type."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        given = options(call)
        if None in given:
            return null(rendering, call)
        start, *length = given
        if start is not UNKNOWN and start == 0:
            return _failing(rendering, call, "SUBSTRING start must not be 0")
        if length and length[0] is not UNKNOWN and length[0] < 0:
            return _failing(
                rendering, call, f"SUBSTRING length must not be negative, but is {length[0]}"
            )
        texts = [
            number.format(whole(value, text))
            for value, text in zip(given, arguments[1:], strict=True)
        ]
        return f"substring({', '.join([arguments[0], *texts])})"

    return rule


def _pad(name: str) -> FunctionRule:
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


def _repeat(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """REPEAT; the result's length is checked before it is made."""
    (count,) = options(call)
    if count is None:
        return null(rendering, call)
    if count is UNKNOWN or count > LONGEST:
        raise refused(call, "REPEAT with a parameter, or with such a count")
    made = f"repeat({arguments[0]}, {max(count, 0)})"
    if count <= 1:
        return made
    return rendering.check(
        f"length({arguments[0]}) > {LONGEST // count}", "a text is too long", made
    )


def _split_part(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """SPLIT_PART, with a separator and a position on which the engines agree."""
    separator, index = options(call)
    if separator is None or index is None:
        return null(rendering, call)
    if separator in ("", UNKNOWN) or index is UNKNOWN or not 0 < abs(index) < FAR:
        raise refused(call, "SPLIT_PART with a parameter, or such a separator or position")
    return f"split_part({arguments[0]}, {arguments[1]}, {index})"


def _find(duckdb: str, spark: str) -> ByEngine[FunctionRule]:
    """STRPOS and POSITION, without a start, by templates."""

    def by(text: str) -> FunctionRule:
        def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
            if len(arguments) != 2:
                raise refused(call)
            return text.format(*arguments)

        return rule

    return by_engine(duckdb=by(duckdb), spark=by(spark))


def _like(escape_of: Callable[[Rendering, Call, Any, Any], str]) -> FunctionRule:
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


def _duckdb_end(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        (count,) = options(call)
        if count is None:
            return null(rendering, call)
        return f"{name}({arguments[0]}, {whole(count, arguments[1])})"

    return rule


def _duckdb_trim(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        characters = arguments[1] if len(arguments) == 2 else "' '"
        return f"{name}({arguments[0]}, {characters})"

    return rule


def _duckdb_escape(rendering: Rendering, call: Call, pattern: Any, character: Any) -> str:
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


def _duckdb_concat_ws(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    separator, *parts = arguments
    if not parts:
        return f"CASE WHEN {separator} IS NULL THEN {null(rendering, call)} ELSE '' END"
    return f"concat_ws({', '.join(arguments)})"


def _spark_end(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        (count,) = options(call)
        if count is None:
            return null(rendering, call)
        if count is UNKNOWN or count < 0:
            raise refused(call, f"{call.function.upper()} with a parameter or a negative count")
        return f"{name}({arguments[0]}, {whole(count, '')})"

    return rule


def _spark_trim(side: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if len(arguments) == 2 and option(call, 1) in ("", None, UNKNOWN):
            raise refused(call, f"{call.function.upper()} of such characters")
        characters = arguments[1] if len(arguments) == 2 else "' '"
        return f"trim({side} {characters} FROM {arguments[0]})"

    return rule


def _spark_escape(rendering: Rendering, call: Call, pattern: Any, character: Any) -> str:
    """Spark's default escape character is the backslash. Without ESCAPE, the clause names a
    character that the pattern does not contain."""
    if character is None:
        character = next(item for item in _ESCAPES if pattern is UNKNOWN or item not in pattern)
    text = rendering.text(character)
    if not text.startswith("'"):
        raise refused(call, "LIKE with such an ESCAPE, or a pattern with all ASCII characters")
    return f" ESCAPE {text}"


_ESCAPES = [chr(code) for code in range(33, 127) if chr(code) not in "%_\\'\"$/"]


def _spark_concat_all(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
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
        text = _failing(rendering, call, f"OVERLAY start must be at least 1, not {given[0]}")
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
    return _substring("CAST({0} AS INT)")(rendering, call, arguments)


def _sha2(bits: int) -> ByEngine[FunctionRule]:
    return by_engine(spark=f"sha2({{0}}, {bits})")


TEXT: dict[str, ByEngine[FunctionRule]] = {
    "length": both(typed("length({0})")),
    "bit_length": by_engine(spark=typed("(octet_length({0}) * 8)")),
    "octet_length": by_engine(duckdb=_octets, spark=typed("octet_length({0})")),
    "ascii": both(typed("ascii({0})")),
    "unicode": by_engine(spark="CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END"),
    "lower": by_engine(duckdb=template("lower({0})", Kind.VARCHAR)),
    "upper": by_engine(duckdb=template("upper({0})", Kind.VARCHAR)),
    "reverse": by_engine(spark="reverse({0})"),
    "btrim": by_engine(duckdb=_duckdb_trim("trim"), spark=_spark_trim("BOTH")),
    "ltrim": by_engine(duckdb=_duckdb_trim("ltrim"), spark=_spark_trim("LEADING")),
    "rtrim": by_engine(duckdb=_duckdb_trim("rtrim"), spark=_spark_trim("TRAILING")),
    "lpad": both(_pad("lpad")),
    "rpad": both(_pad("rpad")),
    "substring": by_engine(duckdb=_substring(), spark=_substring("CAST({0} AS INT)")),
    "left": by_engine(duckdb=_duckdb_end("left"), spark=_spark_end("left")),
    "right": by_engine(duckdb=_duckdb_end("right"), spark=_spark_end("right")),
    "strpos": _find("CAST(strpos({0}, {1}) AS INTEGER)", "instr({0}, {1})"),
    "position": _find("CAST(strpos({0}, {1}) AS INTEGER)", "instr({0}, {1})"),
    "starts_with": by_engine(duckdb="starts_with({0}, {1})", spark="startswith({0}, {1})"),
    "ends_with": by_engine(duckdb="suffix({0}, {1})", spark="endswith({0}, {1})"),
    "contains": by_engine(spark="contains({0}, {1})"),
    "concat": by_engine(duckdb="({0} || {1})", spark="concat({0}, {1})"),
    "concat_all": by_engine(duckdb=called("concat"), spark=_spark_concat_all),
    "concat_ws": by_engine(duckdb=_duckdb_concat_ws, spark=called("concat_ws")),
    "repeat": both(_repeat),
    "replace": both(template("replace({0}, {1}, {2})")),
    "split_part": both(_split_part),
    "translate": by_engine(spark=_translate),
    "overlay": by_engine(spark=_overlay),
    "space": by_engine(spark=_space),
    "like": by_engine(duckdb=_like(_duckdb_escape), spark=_like(_spark_escape)),
    "regexp_like": by_engine(duckdb=_regexp_like),
    "regexp_replace": by_engine(duckdb=_regexp_replace),
    "levenshtein": by_engine(spark=_levenshtein),
    "to_hex": by_engine(spark="hex({0})"),
    "to_bin": by_engine(spark="bin({0})"),
    "hex": by_engine(spark="hex({0})"),
    "md5": by_engine(spark="md5({0})"),
    "sha1": by_engine(spark="sha1({0})"),
    "sha224": _sha2(224),
    "sha256": _sha2(256),
    "sha384": _sha2(384),
    "sha512": _sha2(512),
    "crc32": by_engine(spark="crc32({0})"),
    "to_utf8": by_engine(spark="CAST({0} AS BINARY)"),
    "from_utf8": by_engine(spark="validate_utf8(CAST({0} AS STRING))"),
    "concat_binary": by_engine(spark="concat({0}, {1})"),
    "binary_substring": by_engine(spark=_of_octets),
}
