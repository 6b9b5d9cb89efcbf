"""Regular expressions beyond REGEXP_LIKE and REGEXP_REPLACE: what they find, and where. And SIMILAR TO.

The language is RE2's as far as Python's `re` shares it; Python's finds the groups, once per distinct text. A pattern that could
take exponential time (`(a+)+b`) is first tried by RE2, which never does: where RE2 finds nothing, nothing is searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.options import by_option
from runnel.expressions.patterns import by_kernel, flagged, python_regex, regex_message
from runnel.expressions.per_value import per_value
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR, SqlType, array

_FLAGS = "icsmn"


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: str = "") -> re.Pattern[str]:
    return python_regex(flagged(pattern, flags.replace("g", ""), _FLAGS))


def _groups(match: re.Match[str]) -> list[str | None]:
    """The groups of a match; without groups the whole of it."""
    return list(match.groups()) if match.re.groups else [match[0]]


def _match(text: str, pattern: str, flags: str = "") -> list[str | None] | None:
    match = _compiled(pattern, flags).search(text)
    return None if match is None else _groups(match)


def _matches(text: str, pattern: str, flags: str = "") -> list[list[str | None]]:
    found = _compiled(pattern, flags).finditer(text)
    return (
        [_groups(match) for match in found] if "g" in flags else [_groups(match) for match, _ in zip(found, "1", strict=False)]
    )


def _checked_group(regex: re.Pattern[str], group: int) -> int:
    if not 0 <= group <= regex.groups:
        raise DataError(f"the regular expression has no group {group}")
    return group


def _extract(text: str, pattern: str, group: int = 0, flags: str = "") -> str:
    """DuckDB's: the empty text where nothing is found."""
    regex = _compiled(pattern, flags)
    match = regex.search(text)
    return "" if match is None else match[_checked_group(regex, group)] or ""


def _extract_all(text: str, pattern: str, group: int = 0, flags: str = "") -> list[str]:
    regex = _compiled(pattern, flags)
    _checked_group(regex, group)
    return [match[group] or "" for match in regex.finditer(text)]


def _count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    return sum(1 for _ in _compiled(pattern, flags).finditer(text, _from(start)))


def _from(start: int) -> int:
    if start < 1:
        raise DataError(f"a place in a text is at least 1, not {start}")
    return start - 1


def _nth(text: str, pattern: str, start: int, number: int, flags: str) -> re.Match[str] | None:
    if number < 1:
        raise DataError(f"the number of a match is at least 1, not {number}")
    for place, match in enumerate(_compiled(pattern, flags).finditer(text, _from(start)), 1):
        if place == number:
            return match
    return None


def _substr(text: str, pattern: str, start: int = 1, number: int = 1, flags: str = "", group: int = 0) -> str | None:
    match = _nth(text, pattern, start, number, flags)
    return None if match is None else match[_checked_group(match.re, group)]


def _instr(text: str, pattern: str, start: int = 1, number: int = 1, end: int = 0, flags: str = "", group: int = 0) -> int:
    if end not in (0, 1):
        raise DataError("the end option of REGEXP_INSTR is 0 or 1")
    match = _nth(text, pattern, start, number, flags)
    if match is None:
        return 0
    place = match.end(_checked_group(match.re, group)) if end else match.start(_checked_group(match.re, group))
    return place + 1


def _full_match(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = rf"\A(?:{flagged(pattern, flags, _FLAGS)})\z"
    return _searched(regex)


def _searched(regex: str) -> Callable[[Datum], Datum]:
    def run(text: Datum) -> Datum:
        try:
            return pc.match_substring_regex(text, regex)
        except pa.ArrowInvalid as error:
            raise DataError(regex_message(error)) from None

    return run


_SIMILAR = {"%": ".*", "_": "."}
_META = frozenset("|*+?(){}[]")


@lru_cache(maxsize=256)
def _similar_regex(pattern: str, escape: str = "\\") -> str:
    """A SIMILAR TO pattern as a regular expression: % and _ as in LIKE, | * + ? {m,n} ( ) [ ] as in regular expressions."""
    if len(escape) > 1:
        raise DataError("ESCAPE must be a single character")
    parts: list[str] = []
    at, in_brackets = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern):
                raise DataError("a SIMILAR TO pattern ends with its escape character")
            parts.append(re.escape(pattern[at]))
        elif in_brackets:
            in_brackets = character != "]"
            parts.append("\\" + character if character in "\\&~" else character)
        else:
            in_brackets = character == "["
            parts.append(_SIMILAR.get(character) or (character if character in _META else re.escape(character)))
        at += 1
    return rf"(?s)\A(?:{''.join(parts)})\z"


def _similar(pattern: str, escape: str = "\\") -> Callable[[Datum], Datum]:
    return _searched(_similar_regex(pattern, escape))


def _trying(bind: Any, check: Callable[..., Any], place: int = 1) -> Any:
    """A binder that tries a literal pattern at once, so that a bad one is told with its position."""

    def run(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        bound, result = bind(name, arguments, position)
        pattern = bound[place]
        if isinstance(pattern, Literal) and pattern.value is not None:
            try:
                check(pattern.value)
            except DataError as error:
                raise ProgrammingError(error.message, hint=error.hint, position=pattern.position or position) from None
        return bound, result

    return run


def _by_value(
    name: str,
    arguments: str,
    kinds: Sequence[SqlType],
    result: SqlType,
    function: Callable[..., Any],
    optional: int,
    names: tuple[str, ...] = (),
) -> Function:
    def compile_call(call: Call) -> Kernel:
        pattern = call.arguments[1]
        kernel = per_value(function)(call)
        if (
            call.function != "regexp_match"
            or not isinstance(pattern, Literal)
            or pattern.value is None
            or len(call.arguments) > 2
        ):
            return kernel
        return _where_found(kernel, pattern.value, result)

    return named(
        name,
        arguments,
        str(result),
        _trying(signature(*kinds, result=result, optional=optional), _compiled),
        compile_call,
        sql_names=names,
        can_fail=always_may_fail,
        family="string",
    )


def _where_found(kernel: Kernel, pattern: str, result: SqlType) -> Kernel:
    """Only texts in which RE2 finds something are searched in Python."""
    found_by_re2 = _searched(pattern)

    def run(text: Datum, regex: Datum) -> Datum:
        if isinstance(text, pa.Scalar):
            return kernel(text, regex)
        found = found_by_re2(text)
        if found.true_count == len(text):
            return kernel(text, regex)
        return kernel(pc.if_else(found, text, pa.nulls(1, pa.string())[0]), regex)

    return run


_TWO = "s VARCHAR, pattern VARCHAR"
_TEXTS = array(VARCHAR)
FUNCTIONS = (
    _by_value("regexp_match", f"{_TWO} [, flags VARCHAR]", [VARCHAR] * 3, _TEXTS, _match, 1),
    _by_value("regexp_matches", f"{_TWO} [, flags VARCHAR]", [VARCHAR] * 3, array(_TEXTS), _matches, 1),
    _by_value(
        "regexp_extract",
        f"{_TWO} [, group BIGINT [, flags VARCHAR]]",
        [VARCHAR, VARCHAR, BIGINT, VARCHAR],
        VARCHAR,
        _extract,
        2,
    ),
    _by_value(
        "regexp_extract_all",
        f"{_TWO} [, group BIGINT [, flags VARCHAR]]",
        [VARCHAR, VARCHAR, BIGINT, VARCHAR],
        _TEXTS,
        _extract_all,
        2,
    ),
    _by_value(
        "regexp_count", f"{_TWO} [, start BIGINT [, flags VARCHAR]]", [VARCHAR, VARCHAR, BIGINT, VARCHAR], INTEGER, _count, 2
    ),
    _by_value(
        "regexp_substr",
        f"{_TWO} [, start BIGINT [, number BIGINT [, flags VARCHAR [, group BIGINT]]]]",
        [VARCHAR, VARCHAR, BIGINT, BIGINT, VARCHAR, BIGINT],
        VARCHAR,
        _substr,
        4,
    ),
    _by_value(
        "regexp_instr",
        f"{_TWO} [, start BIGINT [, number BIGINT [, end BIGINT [, flags VARCHAR [, group BIGINT]]]]]",
        [VARCHAR, VARCHAR, BIGINT, BIGINT, BIGINT, VARCHAR, BIGINT],
        INTEGER,
        _instr,
        5,
    ),
    named(
        "regexp_full_match",
        f"{_TWO} [, flags VARCHAR]",
        "BOOLEAN",
        _trying(signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1), _compiled),
        by_option(_full_match, by_kernel(_full_match)),
        can_fail=always_may_fail,
        family="string",
    ),
    Function(
        name="similar_to",
        arguments="s VARCHAR, pattern VARCHAR [, escape VARCHAR]",
        result="BOOLEAN",
        bind=signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1),
        compile=by_option(_similar, by_kernel(_similar)),
        can_fail=always_may_fail,
        family="string",
    ),
)
