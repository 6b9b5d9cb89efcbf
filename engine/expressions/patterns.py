"""LIKE, ILIKE and regular expressions.

LIKE: `%` is any run of characters, `_` one character, newlines too; without ESCAPE there is no escape character; with one it
must stand before `%`, `_` or itself. Regular expressions are RE2's. Arrow's splitting by a pattern doesn't end where the
pattern matches nothing, so such patterns go through Python, once per distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.buffers import pack, pack_scalar
from runnel.expressions.cast_numbers import any_true
from runnel.expressions.function import Bind, Bound, Datum, Function, Kernel
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.options import by_option, of_distinct
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BOOLEAN, VARCHAR, SqlType, array

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_FLAGS = {"i": "i", "s": "s", "m": "m", "n": "m", "c": ""}
_NOTHING = "\x00\x01"


def like_regex(pattern: str, escape: str | None) -> list[str | None]:
    """A LIKE pattern as its parts: literal text, None for `%`, and "" for `_`. DataError for a misplaced escape."""
    if escape is not None and len(escape) != 1:
        raise DataError("ESCAPE must be a single character")
    parts: list[str | None] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if escape is not None and character == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                raise DataError(f"the escape character {escape!r} must precede %, _ or itself in a LIKE pattern")
            parts.append(pattern[index])
        elif character == "%":
            if not parts or parts[-1] is not None:
                parts.append(None)
        else:
            parts.append("" if character == "_" else character)
        index += 1
    return parts


@lru_cache(maxsize=256)
def _like(ignore_case: bool, pattern: str, escape: str | None = None) -> Callable[[Datum], Datum]:
    """The cheapest kernel that does it: equality, a prefix, a suffix, a search; a regular expression for the rest."""
    parts = like_regex(pattern, escape)
    inner = parts[1:-1] if len(parts) > 1 and parts[0] is None and parts[-1] is None else None
    if parts == [None]:
        return lambda text: pc.match_substring(text, "")
    if _is_text(parts) and not ignore_case:
        whole = pack_scalar("".join(parts), VARCHAR)  # type: ignore[arg-type]
        return lambda text: pc.equal(text, whole)
    if inner is not None and _is_text(inner):
        return _searching(pc.match_substring, inner, ignore_case)
    if parts and parts[-1] is None and _is_text(parts[:-1]):
        return _searching(pc.starts_with, parts[:-1], ignore_case)
    if parts and parts[0] is None and _is_text(parts[1:]):
        return _searching(pc.ends_with, parts[1:], ignore_case)
    middle = "".join(".*" if part is None else "." if part == "" else _quoted(part) for part in parts)
    regex = f"(?s)\\A(?:{middle})\\z"
    return lambda text: pc.match_substring_regex(text, regex, ignore_case=ignore_case)


def _is_text(parts: Sequence[str | None]) -> bool:
    return all(parts)


def _searching(kernel: Kernel, parts: Sequence[str | None], ignore_case: bool) -> Callable[[Datum], Datum]:
    sought = "".join(part or "" for part in parts)
    return lambda text: kernel(text, sought, ignore_case=ignore_case)


def _quoted(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)


def _like_of_row(ignore_case: bool, text: str, pattern: str, escape: str | None = None) -> bool:
    regex = "".join(".*" if part is None else "." if part == "" else re.escape(part) for part in like_regex(pattern, escape))
    return re.fullmatch(regex, text, re.DOTALL | (re.IGNORECASE if ignore_case else 0)) is not None


def flagged(pattern: str, flags: str, allowed: str) -> str:
    """The pattern with RE2's inline flags in front."""
    unknown = [flag for flag in flags if flag not in allowed]
    if unknown:
        raise DataError(f"unknown regular expression flag {unknown[0]!r}", hint=f"the flags are {', '.join(allowed)}")
    inline = "".join(sorted({_FLAGS[flag] for flag in flags if flag in _FLAGS}))
    return f"(?{inline}){pattern}" if inline else pattern


def _checked_regex(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """A kernel whose complaint about its pattern is told in our words."""

    def run(text: Datum) -> Datum:
        try:
            return kernel(text)
        except pa.ArrowInvalid as error:
            raise DataError(regex_message(error)) from None

    return run


def regex_message(error: Exception) -> str:
    text = str(error)
    head = "Invalid regular expression: "
    return f"invalid regular expression: {text[len(head) :]}" if text.startswith(head) else f"regular expression: {text}"


def _regexp_like(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = flagged(pattern, flags, "icsmn")
    return _checked_regex(lambda text: pc.match_substring_regex(text, regex))


def _regexp_replace(pattern: str, replacement: str, flags: str = "") -> Callable[[Datum], Datum]:
    """Replaces the first match; all of them with the flag g. \\1 stands for the first group."""
    regex = flagged(pattern, flags, "gicsmn")
    count = None if "g" in flags else 1
    return _checked_regex(lambda text: pc.replace_substring_regex(text, regex, replacement, max_replacements=count))


def _regexp_split(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = flagged(pattern, flags, "icsmn")
    if _may_match_nothing(regex):
        compiled = python_regex(regex)
        return of_distinct(lambda text: None if text is None else _split_text(compiled, text), VARCHAR, array(VARCHAR))
    return _checked_regex(lambda text: pc.split_pattern_regex(text, regex))


@lru_cache(maxsize=1)
def _probes() -> pa.Array:
    """Texts that have every kind of neighbours (none, a letter, a digit, a space, a newline) on both sides of a place."""
    kinds = ("", "a", "Z", "0", " ", "-", "\n")
    return pack([left + right for left in kinds for right in kinds], VARCHAR)


def _may_match_nothing(regex: str) -> bool:
    try:
        pc.match_substring_regex(_probes(), regex)
        marked = pc.replace_substring_regex(_probes(), f"({regex})", "\x00\\1\x01")
    except pa.ArrowInvalid as error:
        raise DataError(regex_message(error)) from None
    return any_true(pc.match_substring(marked, _NOTHING))


def python_regex(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        raise DataError(f"invalid regular expression: {error}") from None


def _split_text(regex: re.Pattern[str], text: str) -> list[str]:
    """As PostgreSQL: a match of nothing counts only inside the text and not right behind another match."""
    parts, begin = [], 0
    for match in regex.finditer(text):
        if match.end() == match.start() and match.start() in (begin, len(text)):
            continue
        parts.append(text[begin : match.start()])
        begin = match.end()
    return [*parts, text[begin:]]


def _string_to_array(separator: str, null_text: str | None = None) -> Callable[[Datum], Datum]:
    blank, empty = pack_scalar("", VARCHAR), pack_scalar([], array(VARCHAR))
    if not separator or null_text is not None:
        return of_distinct(
            lambda text: None if text is None else _string_to_array_of_row(text, separator, null_text), VARCHAR, array(VARCHAR)
        )
    return lambda text: pc.if_else(pc.equal(text, blank), empty, pc.split_pattern(text, separator))


def _string_to_array_of_row(text: str, separator: str, null_text: str | None = None) -> list[str | None]:
    parts = text.split(separator) if separator else [text]
    return [None if part == null_text else part for part in parts] if text else []


def _checking(bind: Bind, check: Callable[..., Any]) -> Bind:
    """A binder that tries literal options at once, so that a bad pattern is told with its position."""

    def run(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        bound, result = bind(name, arguments, position)
        options = [item for item in bound[1:] if isinstance(item, Literal) and item.value is not None]
        if len(options) == len(bound) - 1:
            try:
                check(*(item.value for item in options))(pack([""], VARCHAR))
            except DataError as error:
                raise ProgrammingError(error.message, hint=error.hint, position=options[0].position or position) from None
        return bound, result

    return run


def _like_entry(name: str, ignore_case: bool) -> Function:
    def make(pattern: str, escape: str | None = None) -> Callable[[Datum], Datum]:
        return _like(ignore_case, pattern, escape)

    def of_row(text: str, pattern: str, escape: str | None = None) -> bool:
        return _like_of_row(ignore_case, text, pattern, escape)

    return Function(
        name=name,
        arguments="s VARCHAR, pattern VARCHAR [, escape VARCHAR]",
        result="BOOLEAN",
        bind=_checking(signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1), make),
        compile=by_option(make, of_row),
        can_fail=lambda call: len(call.arguments) == 3 and not _is_literal(call, 1),
        family="string",
    )


def _is_literal(call: Call, index: int) -> bool:
    return all(isinstance(item, Literal) for item in call.arguments[index:])


def by_kernel(make: Callable[..., Callable[[Datum], Datum]]) -> Callable[..., Any]:
    """The value of one row, by the kernel: a pattern from another column is compiled for every row."""

    def run(text: str, *options: Any) -> Any:
        return make(*options)(pack_scalar(text, VARCHAR)).as_py()

    return run


def _regex_entry(name: str, arguments: str, bind: Bind, result: SqlType, make: Callable[..., Any]) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=str(result),
        bind=_checking(bind, make),
        compile=by_option(make, by_kernel(make)),
        sql_names=(name.upper(),),
        can_fail=lambda call: not _is_literal(call, 1),
        is_slow=True,
        family="string",
    )


_TEXTS = array(VARCHAR)
_PATTERN_AND_FLAGS = "s VARCHAR, pattern VARCHAR [, flags VARCHAR]"
FUNCTIONS = (
    _like_entry("like", ignore_case=False),
    _like_entry("ilike", ignore_case=True),
    _regex_entry(
        "regexp_like",
        _PATTERN_AND_FLAGS,
        signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1),
        BOOLEAN,
        _regexp_like,
    ),
    _regex_entry(
        "regexp_replace",
        "s VARCHAR, pattern VARCHAR, replacement VARCHAR [, flags VARCHAR]",
        signature(VARCHAR, VARCHAR, VARCHAR, VARCHAR, result=VARCHAR, optional=1),
        VARCHAR,
        _regexp_replace,
    ),
    _regex_entry(
        "regexp_split_to_array",
        _PATTERN_AND_FLAGS,
        signature(VARCHAR, VARCHAR, VARCHAR, result=_TEXTS, optional=1),
        _TEXTS,
        _regexp_split,
    ),
    named(
        "string_to_array",
        "s VARCHAR, separator VARCHAR [, null_text VARCHAR]",
        str(_TEXTS),
        signature(VARCHAR, VARCHAR, VARCHAR, result=_TEXTS, optional=1),
        by_option(_string_to_array, _string_to_array_of_row),
        family="string",
    ),
)
