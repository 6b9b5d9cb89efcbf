"""LIKE, ILIKE and regular expressions.

LIKE: `%` is any run of characters, `_` one character, newlines too; without ESCAPE there is no
escape character; with one it must stand before `%`, `_` or itself. Regular expressions are RE2's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import true_flags
from runnel.errors import DataError, Error, ErrorCode, NotSupportedError, Position, ProgrammingError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.function import Bind, Bound, Datum, Function, Kernel
from runnel.expressions.kernels.buffers import null_scalar, pack, pack_scalar
from runnel.expressions.kernels.options import by_option, of_distinct
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BOOLEAN, VARCHAR, SqlType, array

if TYPE_CHECKING:
    from runnel.expressions.text.regex_syntax import Regex

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_FLAGS = {"i": "i", "s": "s", "m": "m", "n": "m", "c": ""}
_NOTHING = "\x00\x01"


def like_regex(pattern: str, escape: str | None) -> list[str | None]:
    """A LIKE pattern as a list: a character for itself, None for `%`, and "" for `_`. DataError for
    a misplaced escape.
    """
    if escape is not None and len(escape) != 1:
        raise DataError("ESCAPE must be a single character")
    tokens: list[str | None] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if escape is not None and character == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                raise DataError(
                    f"the escape character {escape!r} must precede %, _ or itself in a LIKE pattern"
                )
            tokens.append(pattern[index])
        elif character == "%":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            tokens.append("" if character == "_" else character)
        index += 1
    return tokens


@lru_cache(maxsize=256)
def _like(ignore_case: bool, pattern: str, escape: str | None = None) -> Callable[[Datum], Datum]:
    """The cheapest kernel for a LIKE pattern: equality, a prefix, a suffix, a search; a regular
    expression for any other pattern.
    """
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
    middle = "".join(
        ".*" if part is None else "." if part == "" else _quoted(part) for part in parts
    )
    regex = f"(?s)\\A(?:{middle})\\z"
    return lambda text: pc.match_substring_regex(text, regex, ignore_case=ignore_case)


def _is_text(parts: Sequence[str | None]) -> bool:
    """Whether a split LIKE pattern has neither `%` nor `_`."""
    return all(parts)


def _searching(
    kernel: Kernel, parts: Sequence[str | None], ignore_case: bool
) -> Callable[[Datum], Datum]:
    needle = "".join(part or "" for part in parts)
    return lambda text: kernel(text, needle, ignore_case=ignore_case)


def _quoted(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)


def regex_with(pattern: str, flags: str, allowed: str = "icsmn") -> Regex:
    """The regular expression of a pattern and its flags."""
    from runnel.expressions.text.regex_syntax import regex_of

    unknown = [flag for flag in flags if flag not in allowed]
    if unknown:
        raise DataError(
            f"unknown regular expression flag {unknown[0]!r}",
            hint=f"the flags are {', '.join(allowed)}",
        )
    return regex_of(pattern, "".join(sorted({_FLAGS[flag] for flag in flags if flag in _FLAGS})))


def _checked_regex(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """A kernel that raises DataError if Arrow refuses the pattern."""

    def run(text: Datum) -> Datum:
        try:
            return kernel(text)
        except pa.ArrowInvalid as error:
            from runnel.expressions.text.regex_syntax import regex_message

            raise DataError(regex_message(error)) from None

    return run


def _regexp_like(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    if "g" in flags:
        raise DataError(
            "the flag 'g' has no meaning where the result is a BOOLEAN",
            hint="REGEXP_MATCH_ALL(s, pattern, 'g') returns the groups of all matches",
        )
    regex = regex_with(pattern, flags).pattern
    return lambda text: pc.match_substring_regex(text, regex)


def _regexp_replace(pattern: str, replacement: str, flags: str = "") -> Callable[[Datum], Datum]:
    r"""Replaces the first match; all of them with the flag g. \1 stands for the first group."""
    regex = regex_with(pattern, flags, "gicsmn")
    if "g" in flags:
        return _checked_regex(
            lambda text: pc.replace_substring_regex(text, regex.pattern, replacement)
        )
    if not regex.has_assertions:
        return _checked_regex(
            lambda text: pc.replace_substring_regex(
                text, regex.pattern, replacement, max_replacements=1
            )
        )
    # For a single replacement Arrow matches the found substring alone, where ^, $ and \\b differ
    # from their meaning in the text. So the pattern is extended to begin at the start of the text.
    first, moved = f"\\A((?s:.*?)){regex.named}", f"\\1{_moved(replacement)}"
    return _checked_regex(lambda text: pc.replace_substring_regex(text, first, moved))


def _moved(replacement: str) -> str:
    """A replacement with the number of each group increased by one."""
    parts, at = [], 0
    while at < len(replacement):
        character, following = replacement[at], replacement[at + 1 : at + 2]
        if character == "\\" and following.isdigit():
            if following in "09":
                raise DataError(
                    f"\\{following} can't be used here",
                    hint="put brackets around the whole pattern, and use \\1",
                )
            parts.append(f"\\{int(following) + 1}")
        else:
            parts.append(character + following if character == "\\" else character)
        at += 2 if character == "\\" else 1
    return "".join(parts)


def _regexp_split(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = regex_with(pattern, flags)
    if not _may_match_nothing(regex.pattern):
        return _checked_regex(lambda text: pc.split_pattern_regex(text, regex.pattern))

    # Arrow's splitting doesn't terminate if the pattern matches the empty text.
    def run(text: Datum) -> Datum:
        from runnel.expressions.text.regex_matches import (
            TextColumn,
            all_matches,
            scattered,
            split_at,
        )

        if isinstance(text, pa.Scalar):
            return run(pa.repeat(text, 1))[0] if text.is_valid else null_scalar(_TEXTS)
        present = TextColumn(text.drop_null())
        parts = split_at(present, all_matches(present, regex))
        return (
            scattered(parts, true_flags(text.is_valid()).nonzero()[0], len(text))
            if text.null_count
            else parts
        )

    return run


@lru_cache(maxsize=1)
def _probes() -> pa.Array:
    """Texts with every kind of neighbours (none, a letter, a digit, a space, a newline) on both
    sides of a position.
    """
    kinds = ("", "a", "Z", "0", " ", "-", "\n")
    return pack([left + right for left in kinds for right in kinds], VARCHAR)


def _may_match_nothing(regex: str) -> bool:
    """Whether a pattern matches the empty text anywhere."""
    return any_true(
        pc.match_substring(pc.replace_substring_regex(_probes(), regex, "\x00\\0\x01"), _NOTHING)
    )


def _string_to_array(
    separator: str | None, null_text: str | None = None
) -> Callable[[Datum], Datum]:
    """STRING_TO_ARRAY. With a NULL separator each character is an element."""
    blank, empty = pack_scalar("", VARCHAR), pack_scalar([], array(VARCHAR))
    if not separator or null_text is not None:
        return of_distinct(
            lambda text: (
                None if text is None else _string_to_array_of_row(text, separator, null_text)
            ),
            VARCHAR,
            array(VARCHAR),
        )
    return lambda text: pc.if_else(pc.equal(text, blank), empty, pc.split_pattern(text, separator))


def _string_to_array_of_row(
    text: str, separator: str | None, null_text: str | None = None
) -> list[str | None]:
    parts = list(text) if separator is None else text.split(separator) if separator else [text]
    return (
        [None if null_text is not None and part == null_text else part for part in parts]
        if text
        else []
    )


def _checking(bind: Bind, check: Callable[..., Any]) -> Bind:
    """A `bind` that tries literal options at once, so that an error of a pattern has its
    position.
    """

    def run(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        bound, result = bind(name, arguments, position)
        options = [
            item for item in bound[1:] if isinstance(item, Literal) and item.value is not None
        ]
        if len(options) == len(bound) - 1:
            try:
                check(*(item.value for item in options))(pack([""], VARCHAR))
            except DataError as error:
                raise literal_pattern_error(error, options[0].position or position) from None
        return bound, result

    return run


def literal_pattern_error(error: DataError, position: Position | None) -> Error:
    """The error of a pattern that is a literal of the statement."""
    kind = NotSupportedError if error.code is ErrorCode.NOT_SUPPORTED else ProgrammingError
    return kind(error.message, hint=error.hint, position=position)


def _like_entry(name: str, ignore_case: bool) -> Function:
    def make(pattern: str, escape: str | None = None) -> Callable[[Datum], Datum]:
        return _like(ignore_case, pattern, escape)

    return Function(
        name=name,
        arguments="s VARCHAR, pattern VARCHAR [, escape VARCHAR]",
        result="BOOLEAN",
        bind=_checking(signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1), make),
        compile=by_option(make),
        can_fail=lambda call: len(call.arguments) == 3 and not _is_literal(call, 1),
        family="string",
    )


def _is_literal(call: Call, index: int) -> bool:
    return all(isinstance(item, Literal) for item in call.arguments[index:])


def _regex_entry(
    name: str,
    arguments: str,
    bind: Bind,
    result: SqlType,
    make: Callable[..., Any],
    sql_names: tuple[str, ...] = (),
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=str(result),
        bind=_checking(bind, make),
        compile=by_option(make),
        sql_names=(name.upper(), *sql_names),
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
        ("REGEXP_MATCHES",),
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
        by_option(_string_to_array, _string_to_array_of_row, takes_nulls=True),
        family="string",
    ),
)
