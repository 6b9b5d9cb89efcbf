"""Functions on text. Positions and lengths count characters (code points), from 1. Patterns are in
`patterns.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, over_first
from runnel.expressions.kernels.buffers import null_scalar, pack, pack_scalar
from runnel.expressions.kernels.options import by_option, null_like, of_distinct
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.signature import ANY_TEXT, named, signature
from runnel.expressions.text.split_part import nth_field
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR, Kind, array, can_cast

_EMPTY = pack_scalar("", VARCHAR)
_NULL = null_scalar(VARCHAR)
_ZERO = pack_scalar(0, INTEGER)
_ONE = pack_scalar(1, INTEGER)
_FAR = 2**31 - 1
"""A position after the end of every text."""
LONGEST = 100_000_000
"""The largest number of characters of a text that a text function returns."""


def _trim(kernel: Kernel, of_row: Callable[[str, str], str]) -> Callable[[Call], Kernel]:
    with_characters = by_option(lambda characters: lambda text: kernel(text, characters), of_row)

    def compile_call(call: Call) -> Kernel:
        return with_characters(call) if len(call.arguments) == 2 else lambda text: kernel(text, " ")

    return compile_call


def _substring(start: int, length: int | None = None) -> Callable[[Datum], Datum]:
    _check_substring(start, length)
    first, stop = _slice_of(start, length)
    return lambda text: pc.utf8_slice_codeunits(text, first, stop)


def _substring_of_row(text: str, start: int, length: int | None = None) -> str:
    _check_substring(start, length)
    first, stop = _slice_of(start, length)
    return text[first:stop]


def _slice_of(start: int, length: int | None) -> tuple[int, int | None]:
    """The bounds of a slice of Python. A start below 0 counts from the end: the slice of 2
    characters from -3 is [-3:-1], and the one of 3 characters is [-3:]."""
    first = min(start - 1, _FAR) if start > 0 else max(start, -_FAR)
    stop = None if length is None else min(first + length, _FAR)
    return first, None if stop is not None and first < 0 <= stop else stop


def _check_substring(start: int, length: int | None) -> None:
    if start == 0:
        raise DataError(
            "SUBSTRING start must not be 0",
            hint="the first character is 1, the last one -1",
        )
    if length is not None and length < 0:
        raise DataError(f"SUBSTRING length must not be negative, but is {length}")


def _left(count: int) -> Callable[[Datum], Datum]:
    stop = max(min(count, _FAR), -_FAR)
    return lambda text: pc.utf8_slice_codeunits(text, 0, stop)


def _right(count: int) -> Callable[[Datum], Datum]:
    if count == 0:
        return lambda text: pc.utf8_slice_codeunits(text, 0, 0)
    first = max(min(-count, _FAR), -_FAR)
    return lambda text: pc.utf8_slice_codeunits(text, first)


def _right_of_row(text: str, count: int) -> str:
    return "" if count == 0 else text[-count:]


def _pad(at_left: bool) -> tuple[Callable[..., Callable[[Datum], Datum]], Callable[..., str]]:
    """LPAD and RPAD: exactly `length` characters; a longer text is cut at its end."""

    def of_row(text: str, length: int, fill: str = " ") -> str:
        _check_length(length)
        if len(text) >= length or not fill:
            return text[: max(length, 0)]
        missing = length - len(text)
        padding = (fill * (missing // len(fill) + 1))[:missing]
        return padding + text if at_left else text + padding

    def make(length: int, fill: str = " ") -> Callable[[Datum], Datum]:
        _check_length(length)
        if len(fill) != 1:
            return of_distinct(
                lambda text: None if text is None else of_row(text, length, fill), VARCHAR, VARCHAR
            )
        kernel = pc.utf8_lpad if at_left else pc.utf8_rpad
        width = max(length, 0)
        return lambda text: pc.utf8_slice_codeunits(kernel(text, width, fill), 0, width)

    return make, of_row


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise DataError(
            f"a text of {length} characters is too long", hint=f"the maximum is {LONGEST}"
        )


def _repeat(text: Datum, count: Datum) -> Datum:
    times = pc.max_element_wise(count, pack_scalar(0, BIGINT), skip_nulls=False)
    most = times.as_py() if isinstance(times, pa.Scalar) else pc.max(times).as_py()
    longest = pc.utf8_length(text)
    longest = longest.as_py() if isinstance(longest, pa.Scalar) else pc.max(longest).as_py()
    if most is not None and longest is not None and most * longest > LONGEST:
        _check_repeat(times, text)
    return pc.binary_repeat(text, times)


def _check_repeat(times: Datum, text: Datum) -> None:
    size = pc.multiply_checked(times, pc.cast(pc.utf8_length(text), pa.int64()))
    if any_true(pc.greater(size, pack_scalar(LONGEST, BIGINT))):
        raise DataError("a text is too long", hint=f"the maximum is {LONGEST} characters")


def _replace(old: str, new: str) -> Callable[[Datum], Datum]:
    if not old:
        return lambda text: text
    return lambda text: pc.replace_substring(text, old, new)


def _position(needle: str, start: int = 1) -> Callable[[Datum], Datum]:
    """The position of the first `needle` from `start` on; 0 if there is none."""

    def run(text: Datum) -> Datum:
        if start < 1 or start > _FAR:
            return pc.if_else(pc.is_valid(text), _ZERO, null_like(text, INTEGER))
        if start == 1:
            return _find(text, needle)
        found = _find(pc.utf8_slice_codeunits(text, start - 1), needle)
        shift = pack_scalar(start - 1, INTEGER)
        inside = pc.less_equal(shift, pc.utf8_length(text))
        hit = pc.and_(pc.greater(found, _ZERO), inside)
        return pc.if_else(hit, pc.add(found, shift), _ZERO)

    return run


def _find(text: Datum, needle: str) -> Datum:
    found = pc.find_substring(text, needle)
    if needle and any_true(pc.invert(pc.string_is_ascii(text))):
        # The kernel returns a byte offset. The position is the number of characters before it.
        before = pc.list_element(pc.split_pattern(text, needle, max_splits=1), 0)
        found = pc.if_else(pc.greater_equal(found, _ZERO), pc.utf8_length(before), found)
    return pc.add(found, _ONE)


def _position_of_row(text: str, needle: str, start: int = 1) -> int:
    return 0 if start < 1 or start - 1 > len(text) else text.find(needle, start - 1) + 1


def _bind_position(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """POSITION(needle IN s [FROM start]): STRPOS with the first two arguments exchanged."""
    needle, *rest = arguments or (None,)
    if needle is None or not rest:
        raise ProgrammingError(
            f"POSITION expects 2 to 3 arguments, not {len(arguments)}", position=position
        )
    return _STRPOS(name, (rest[0], needle, *rest[1:]), position)


def _split_part(separator: str, index: int) -> Callable[[Datum], Datum]:
    if index == 0:
        raise DataError("SPLIT_PART position must not be 0")
    of_row = lambda text: None if text is None else _split_part_of_row(text, separator, index)  # noqa: E731
    if not separator or index < 0 or index > 1000:
        return of_distinct(of_row, VARCHAR, VARCHAR)
    if len(separator) == 1 and separator.isascii():
        return lambda text: (
            nth_field(pa.repeat(text, 1), ord(separator), index)[0]
            if isinstance(text, pa.Scalar)
            else nth_field(text, ord(separator), index)
        )

    blanks = pack_scalar([""] * index, array(VARCHAR))

    def run(text: Datum) -> Datum:
        parts = pc.split_pattern(text, separator, max_splits=index)
        enough = pc.greater_equal(pc.list_value_length(parts), pack_scalar(index, INTEGER))
        return pc.list_element(pc.if_else(enough, parts, blanks), index - 1)

    return run


def _split_part_of_row(text: str, separator: str, index: int) -> str:
    if index == 0:
        raise DataError("SPLIT_PART position must not be 0")
    fields = text.split(separator) if separator else [text]
    position = index - 1 if index > 0 else len(fields) + index
    return fields[position] if 0 <= position < len(fields) else ""


_WORD = re.compile(r"[^\W_]+")


def _initcap(texts: pa.Array) -> pa.Array:
    """INITCAP: each run of letters and digits is a word.

    Arrow's utf8_title would begin a new word after a digit or an apostrophe. Characters are
    converted as by UPPER and LOWER, which preserve the number of characters.
    """
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary
    columns = (
        column.to_pylist()
        for column in (distinct, pc.utf8_upper(distinct), pc.utf8_lower(distinct))
    )
    return pack([_capitals(*row) for row in zip(*columns, strict=True)], VARCHAR).take(
        encoded.indices
    )


def _capitals(text: str, upper: str, lower: str) -> str:
    return _WORD.sub(lambda word: upper[word.start()] + lower[word.start() + 1 : word.end()], text)


def _character(code: int | None) -> str | None:
    if code is None:
        return None
    if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise DataError(f"there is no character with code {code}")
    return chr(code)


def _ascii(text: Datum) -> Datum:
    return _CODE_OF_FIRST(pc.utf8_slice_codeunits(text, 0, 1))


_CODE_OF_FIRST = of_distinct(
    lambda text: None if text is None else ord(text) if text else 0, VARCHAR, INTEGER
)


def _concat(*texts: Datum) -> Datum:
    """CONCAT ignores NULLs. (Arrow's option for this drops rows in which all texts are NULL.)"""
    return pc.binary_join_element_wise(*(pc.coalesce(text, _EMPTY) for text in texts), _EMPTY)


def _concat_ws(separator: Datum, *texts: Datum) -> Datum:
    joined = null_like(separator, VARCHAR)
    for text in texts:
        both = pc.binary_join_element_wise(joined, text, separator)
        joined = pc.coalesce(both, joined, text)
    return pc.if_else(pc.is_valid(separator), pc.coalesce(joined, _EMPTY), _NULL)


def _join(*texts: Datum) -> Datum:
    return pc.binary_join_element_wise(*texts, _EMPTY)


def _bind_join(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """`||`: two values that can be cast to text, one of which is text or NULL; or two arrays."""
    check_count("||", arguments, 2, position)
    left, right = arguments
    for item in arguments:
        if not can_cast(item.type, VARCHAR) or item.type.kind is Kind.VARBINARY:
            raise ProgrammingError(
                f"cannot apply '||' operator to [{left.type}, {right.type}]",
                hint="add an explicit CAST",
                position=position,
            )
    return (convert(left, VARCHAR), convert(right, VARCHAR)), VARCHAR


def _bind_octets(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if len(arguments) == 1 and arguments[0].type.kind is Kind.VARBINARY:
        return tuple(arguments), INTEGER
    return signature(VARCHAR, result=INTEGER)(name, arguments, position)


def _octets(value: Datum) -> Datum:
    return pc.binary_length(value)


def _text(
    name: str, kernel: Kernel, *, sql_names: tuple[str, ...] = (), result: Any = VARCHAR
) -> Function:
    bind = signature(VARCHAR, result=result)
    return named(
        name, "s VARCHAR", str(result), bind, kernel=kernel, sql_names=sql_names, family="string"
    )


_STRPOS = signature(VARCHAR, VARCHAR, BIGINT, result=INTEGER, optional=1)
_SEARCH = signature(VARCHAR, VARCHAR, result=BOOLEAN)
_starts_with = by_option(lambda prefix: lambda text: pc.starts_with(text, prefix), str.startswith)
_ends_with = by_option(lambda suffix: lambda text: pc.ends_with(text, suffix), str.endswith)

FUNCTIONS = (
    _text("lower", pc.utf8_lower),
    _text("upper", pc.utf8_upper),
    _text("initcap", over_first(_initcap)),
    _text("reverse", pc.utf8_reverse),
    _text("length", pc.utf8_length, sql_names=("CHAR_LENGTH", "CHARACTER_LENGTH"), result=INTEGER),
    named(
        "octet_length",
        "s VARCHAR or VARBINARY",
        "INTEGER",
        _bind_octets,
        kernel=_octets,
        family="string",
    ),
    _text("ascii", _ascii, result=INTEGER),
    named(
        "chr",
        "code BIGINT",
        "VARCHAR",
        signature(BIGINT, result=VARCHAR),
        kernel=of_distinct(_character, BIGINT, VARCHAR),
        can_fail=always_may_fail,
        family="string",
    ),
    *(
        named(
            name,
            "s VARCHAR [, characters VARCHAR]",
            "VARCHAR",
            signature(VARCHAR, VARCHAR, result=VARCHAR, optional=1),
            _trim(kernel, of_row),
            sql_names=sql_names,
            family="string",
        )
        for name, kernel, of_row, sql_names in (
            ("btrim", pc.utf8_trim, str.strip, ("TRIM",)),
            ("ltrim", pc.utf8_ltrim, str.lstrip, ()),
            ("rtrim", pc.utf8_rtrim, str.rstrip, ()),
        )
    ),
    named(
        "substring",
        "s VARCHAR, start BIGINT [, length BIGINT]",
        "VARCHAR",
        signature(VARCHAR, BIGINT, BIGINT, result=VARCHAR, optional=1),
        by_option(_substring, _substring_of_row),
        sql_names=("SUBSTR",),
        can_fail=always_may_fail,
        family="string",
    ),
    *(
        named(
            name,
            "s VARCHAR, count BIGINT",
            "VARCHAR",
            signature(VARCHAR, BIGINT, result=VARCHAR),
            by_option(make, of_row),
            family="string",
        )
        for name, make, of_row in (
            ("left", _left, lambda text, count: text[:count]),
            ("right", _right, _right_of_row),
        )
    ),
    *(
        named(
            name,
            "s VARCHAR, length BIGINT [, fill VARCHAR]",
            "VARCHAR",
            signature(VARCHAR, BIGINT, VARCHAR, result=VARCHAR, optional=1),
            by_option(*_pad(at_left)),
            can_fail=always_may_fail,
            family="string",
        )
        for name, at_left in (("lpad", True), ("rpad", False))
    ),
    named(
        "repeat",
        "s VARCHAR, count BIGINT",
        "VARCHAR",
        signature(VARCHAR, BIGINT, result=VARCHAR),
        kernel=_repeat,
        can_fail=always_may_fail,
        family="string",
    ),
    named(
        "replace",
        "s VARCHAR, old VARCHAR, new VARCHAR",
        "VARCHAR",
        signature(VARCHAR, VARCHAR, VARCHAR, result=VARCHAR),
        by_option(_replace, lambda text, old, new: text.replace(old, new) if old else text),
        family="string",
    ),
    named(
        "strpos",
        "s VARCHAR, substring VARCHAR [, start BIGINT]",
        "INTEGER",
        _STRPOS,
        by_option(_position, _position_of_row),
        family="string",
    ),
    named(
        "position",
        "substring VARCHAR IN s VARCHAR [FROM start BIGINT]",
        "INTEGER",
        _bind_position,
        by_option(_position, _position_of_row),
        family="string",
    ),
    named(
        "starts_with",
        "s VARCHAR, prefix VARCHAR",
        "BOOLEAN",
        _SEARCH,
        _starts_with,
        family="string",
    ),
    named(
        "ends_with", "s VARCHAR, suffix VARCHAR", "BOOLEAN", _SEARCH, _ends_with, family="string"
    ),
    named(
        "split_part",
        "s VARCHAR, separator VARCHAR, index BIGINT",
        "VARCHAR",
        signature(VARCHAR, VARCHAR, BIGINT, result=VARCHAR),
        by_option(_split_part, _split_part_of_row),
        can_fail=always_may_fail,
        family="string",
    ),
    Function("concat", "x ANY, y ANY", "VARCHAR", _bind_join, lambda call: _join, family="string"),
    Function(
        name="concat_all",
        arguments="x ANY, …",
        result="VARCHAR",
        bind=signature(ANY_TEXT, result=VARCHAR, repeats=True),
        compile=lambda call: _concat,
        sql_names=("CONCAT",),
        family="string",
    ),
    named(
        "concat_ws",
        "separator VARCHAR, x ANY, …",
        "VARCHAR",
        signature(VARCHAR, ANY_TEXT, result=VARCHAR, optional=1, repeats=True),
        kernel=_concat_ws,
        family="string",
    ),
)
