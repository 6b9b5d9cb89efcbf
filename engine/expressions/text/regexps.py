"""Regular expressions beyond REGEXP_LIKE and REGEXP_REPLACE: the matches and their positions. And
SIMILAR TO.

The language is RE2's, which needs time linear in the text. Each function processes all rows that
have the same pattern and options at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, true_flags
from runnel.errors import DataError, Position
from runnel.expressions.function import Bound, Datum, Function, always_may_fail
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.options import by_option
from runnel.expressions.nested.construct import interleaved
from runnel.expressions.nested.lists import made
from runnel.expressions.nodes import Expression, Literal
from runnel.expressions.signature import signature
from runnel.expressions.text.patterns import literal_pattern_error, regex_with
from runnel.expressions.text.regex_matches import (
    Matches,
    TextColumn,
    all_matches,
    first_matches,
    groups_of,
    nth_per_row,
    scattered,
)
from runnel.expressions.text.regex_syntax import Regex, regex_message, regex_of
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR, SqlType, array

_EMPTY = pack_scalar("", VARCHAR)


def _over_texts(search: Callable[[TextColumn], pa.Array]) -> Callable[[Datum], Datum]:
    """A kernel that applies `search` to the texts that aren't NULL."""

    def run(text: Datum) -> Datum:
        if isinstance(text, pa.Scalar):
            return run(pa.repeat(text, 1))[0]
        try:
            found = search(TextColumn(text.drop_null() if text.null_count else text))
        except pa.ArrowInvalid as error:
            raise DataError(regex_message(error)) from None
        return (
            scattered(found, np.flatnonzero(true_flags(text.is_valid())), len(text))
            if text.null_count
            else found
        )

    return run


def _matched_text(texts: TextColumn, matches: Matches) -> pa.Array:
    return texts.substrings(matches.starts, matches.ends, matches.valid)


def _rows_of_groups(texts: TextColumn, groups: list[Matches]) -> pa.Array:
    """The groups of each match as an array; if the pattern has no groups, the whole match as the
    only element.
    """
    columns = [_matched_text(texts, matches) for matches in groups[1:] or groups]
    return made(
        interleaved(columns), np.full(len(columns[0]), len(columns)), pa.list_(pa.string()), None
    )


def _match(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = regex_with(pattern, flags.replace("g", ""))

    def search(texts: TextColumn) -> pa.Array:
        groups = first_matches(texts, regex)
        return scattered(_rows_of_groups(texts, groups), groups[0].rows, len(texts.starts))

    return _over_texts(search)


def _matches(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    regex = regex_with(pattern, flags.replace("g", ""))

    def search(texts: TextColumn) -> pa.Array:
        groups = (
            groups_of(texts, all_matches(texts, regex), regex)
            if "g" in flags
            else first_matches(texts, regex)
        )
        counts = np.bincount(groups[0].rows, minlength=len(texts.starts))
        return made(_rows_of_groups(texts, groups), counts, pa.list_(pa.list_(pa.string())), None)

    return _over_texts(search)


def _check_group(regex: Regex, group: int) -> None:
    if not 0 <= group <= regex.groups:
        raise DataError(f"the regular expression has no group {group}")


def _extract(pattern: str, group: int = 0, flags: str = "") -> Callable[[Datum], Datum]:
    """REGEXP_EXTRACT as in DuckDB: the empty text if there is no match."""
    regex = regex_with(pattern, flags)
    _check_group(regex, group)

    def search(texts: TextColumn) -> pa.Array:
        found = first_matches(texts, regex)[group]
        return pc.coalesce(
            scattered(_matched_text(texts, found), found.rows, len(texts.starts)), _EMPTY
        )

    return _over_texts(search)


def _extract_all(pattern: str, group: int = 0, flags: str = "") -> Callable[[Datum], Datum]:
    regex = regex_with(pattern, flags)
    _check_group(regex, group)

    def search(texts: TextColumn) -> pa.Array:
        matches = all_matches(texts, regex)
        found = groups_of(texts, matches, regex)[group] if group else matches
        counts = np.bincount(found.rows, minlength=len(texts.starts))
        return made(
            pc.coalesce(_matched_text(texts, found), _EMPTY), counts, pa.list_(pa.string()), None
        )

    return _over_texts(search)


def _check_start(start: int) -> None:
    if start < 1:
        raise DataError(f"a position in a text is at least 1, not {start}")


def _count(pattern: str, start: int = 1, flags: str = "") -> Callable[[Datum], Datum]:
    regex = regex_with(pattern, flags)
    _check_start(start)

    def search(texts: TextColumn) -> pa.Array:
        counts = np.bincount(all_matches(texts, regex, start).rows, minlength=len(texts.starts))
        return from_numbers(counts.astype(np.int32), pa.int32())

    return _over_texts(search)


def _nth(regex: Regex, start: int, number: int, group: int) -> Callable[[TextColumn], Matches]:
    """Finds the `number`-th match from the `start`-th character on, or one of its groups."""
    _check_start(start)
    if number < 1:
        raise DataError(f"the number of a match is at least 1, not {number}")
    _check_group(regex, group)

    def search(texts: TextColumn) -> Matches:
        if start == number == 1:
            return first_matches(texts, regex)[group]
        found = nth_per_row(all_matches(texts, regex, start), number)
        return groups_of(texts, found, regex)[group] if group else found

    return search


def _substr(
    pattern: str, start: int = 1, number: int = 1, flags: str = "", group: int = 0
) -> Callable[[Datum], Datum]:
    nth = _nth(regex_with(pattern, flags), start, number, group)

    def search(texts: TextColumn) -> pa.Array:
        found = nth(texts)
        return scattered(_matched_text(texts, found), found.rows, len(texts.starts))

    return _over_texts(search)


def _instr(
    pattern: str, start: int = 1, number: int = 1, end: int = 0, flags: str = "", group: int = 0
) -> Callable[[Datum], Datum]:
    if end not in (0, 1):
        raise DataError("the end option of REGEXP_INSTR is 0 or 1")
    nth = _nth(regex_with(pattern, flags), start, number, group)

    def search(texts: TextColumn) -> pa.Array:
        found = nth(texts)
        found = found if found.valid is None else found.chosen(found.valid)
        answer = np.zeros(len(texts.starts), np.int32)
        answer[found.rows] = (
            texts.characters_before(found.rows, found.ends if end else found.starts) + 1
        )
        return from_numbers(answer, pa.int32())

    return _over_texts(search)


def _full_match(pattern: str, flags: str = "") -> Callable[[Datum], Datum]:
    whole = f"\\A{regex_with(pattern, flags).named}\\z"
    return lambda text: pc.match_substring_regex(text, whole)


_SIMILAR = {"%": ".*", "_": "."}
_META = frozenset("|*+?(){}[]")


@lru_cache(maxsize=256)
def _similar_regex(pattern: str, escape: str = "\\") -> str:
    """A SIMILAR TO pattern as a regular expression: % and _ as in LIKE, and | * + ? {m,n} ( ) [ ]
    as in regular expressions.
    """
    if len(escape) > 1:
        raise DataError("ESCAPE must be a single character")
    tokens: list[str] = []
    at, in_brackets = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern):
                raise DataError("a SIMILAR TO pattern ends with its escape character")
            tokens.append(_quoted(pattern[at]))
        elif in_brackets:
            in_brackets = character != "]"
            tokens.append("\\" + character if character in "\\&~" else character)
        else:
            in_brackets = character == "["
            tokens.append(
                _SIMILAR.get(character) or (character if character in _META else _quoted(character))
            )
        at += 1
    return "".join(tokens)


def _quoted(character: str) -> str:
    return (
        "\\" + character
        if character.isascii() and not character.isalnum() and character not in "_,"
        else character
    )


def _similar(pattern: str, escape: str = "\\") -> Callable[[Datum], Datum]:
    try:
        whole = f"(?s)\\A{regex_of(_similar_regex(pattern, escape)).named}\\z"
    except DataError as error:
        if error.message.startswith("invalid regular expression: "):
            what = error.message.removeprefix("invalid regular expression: ").split(":")[0]
            raise DataError(f"invalid SIMILAR TO pattern '{pattern}': {what}") from None
        raise
    return lambda text: pc.match_substring_regex(text, whole)


def _trying(bind: Any, make: Callable[..., Any]) -> Any:
    """A `bind` that tries a literal pattern with literal options at once, so that an error of the
    pattern has its position.
    """

    def run(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        bound, result = bind(name, arguments, position)
        options = bound[1:]
        if all(isinstance(item, Literal) and item.value is not None for item in options):
            try:
                make(*(item.value for item in options))
            except DataError as error:
                raise literal_pattern_error(error, options[0].position or position) from None
        return bound, result

    return run


def _regexp(
    name: str,
    arguments: str,
    kinds: Sequence[SqlType],
    result: SqlType,
    make: Callable[..., Callable[[Datum], Datum]],
    sql_name: str | None = None,
) -> Function:
    """A function of a text, a pattern, and optional further arguments. Its SQL name is its key
    unless `sql_name` is another."""
    return Function(
        name=name,
        arguments=f"s VARCHAR, pattern VARCHAR {arguments}",
        result=str(result),
        bind=_trying(signature(VARCHAR, VARCHAR, *kinds, result=result, optional=len(kinds)), make),
        compile=by_option(make),
        sql_names=(sql_name or name.upper(),),
        can_fail=always_may_fail,
        is_slow=True,
        family="string",
    )


_TEXTS = array(VARCHAR)
_GROUP = "[, group BIGINT [, flags VARCHAR]]"
_GROUP_OR_NAMES = "[, group BIGINT or names VARCHAR[] [, flags VARCHAR]]"
FUNCTIONS = (
    _regexp("regexp_match", "[, flags VARCHAR]", [VARCHAR], _TEXTS, _match),
    # The key is in the signatures of stored states.
    _regexp(
        "regexp_matches",
        "[, flags VARCHAR]",
        [VARCHAR],
        array(_TEXTS),
        _matches,
        "REGEXP_MATCH_ALL",
    ),
    _regexp("regexp_extract", _GROUP_OR_NAMES, [BIGINT, VARCHAR], VARCHAR, _extract),
    _regexp("regexp_extract_all", _GROUP, [BIGINT, VARCHAR], _TEXTS, _extract_all),
    _regexp(
        "regexp_count", "[, start BIGINT [, flags VARCHAR]]", [BIGINT, VARCHAR], INTEGER, _count
    ),
    _regexp(
        "regexp_substr",
        "[, start BIGINT [, number BIGINT [, flags VARCHAR [, group BIGINT]]]]",
        [BIGINT, BIGINT, VARCHAR, BIGINT],
        VARCHAR,
        _substr,
    ),
    _regexp(
        "regexp_instr",
        "[, start BIGINT [, number BIGINT [, end BIGINT [, flags VARCHAR [, group BIGINT]]]]]",
        [BIGINT, BIGINT, BIGINT, VARCHAR, BIGINT],
        INTEGER,
        _instr,
    ),
    _regexp("regexp_full_match", "[, flags VARCHAR]", [VARCHAR], BOOLEAN, _full_match),
    Function(
        name="similar_to",
        arguments="s VARCHAR, pattern VARCHAR [, escape VARCHAR]",
        result="BOOLEAN",
        bind=_trying(signature(VARCHAR, VARCHAR, VARCHAR, result=BOOLEAN, optional=1), _similar),
        compile=by_option(_similar),
        can_fail=always_may_fail,
        family="string",
    ),
)
