"""Calls in the forms of other systems whose meaning depends on types, or on a pattern of Java:
Flink's DATE_FORMAT, FROM_UNIXTIME, UNIX_TIMESTAMP and TO_TIMESTAMP_LTZ, its forms of TO_TIMESTAMP,
TO_DATE, ENCODE, DECODE and ARRAY_PREPEND, DuckDB's of ENCODE, HEX and LIST_SORT, and PostgreSQL's
of SUBSTRING with a regular expression. Loaded on first use of one of these names.

A pattern of Java is translated into one of TO_CHAR, so that one implementation formats and parses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date

from runnel.errors import DataError, NotSupportedError, Position, ProgrammingError
from runnel.expressions.coercion import cast
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.list_forms import list_form
from runnel.expressions.nodes import Call, Case, Cast, Expression, Literal
from runnel.sqltypes import BIGINT, DATE, TIMESTAMP, TIMESTAMP_TZ, VARBINARY, VARCHAR, Kind, SqlType

_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_FIELDS = {
    "y": {1: "YYYY", 2: "YY", 4: "YYYY"},
    "u": {1: "YYYY", 2: "YY", 4: "YYYY"},
    "M": {1: "FMMM", 2: "MM", 3: "Mon", 4: "FMMonth"},
    "d": {1: "FMDD", 2: "DD"},
    "D": {1: "FMDDD", 3: "DDD"},
    "H": {1: "FMHH24", 2: "HH24"},
    "h": {1: "FMHH12", 2: "HH12"},
    "m": {1: "FMMI", 2: "MI"},
    "s": {1: "FMSS", 2: "SS"},
    "S": {1: "FF1", 2: "FF2", 3: "FF3", 4: "FF4", 5: "FF5", 6: "FF6"},
    "a": {1: "AM"},
    "E": {1: "Dy", 2: "Dy", 3: "Dy", 4: "FMDay"},
    "Q": {1: "Q"},
    "X": {1: "OF", 2: "OF", 3: "OF"},
}
"""The field of TO_CHAR for each letter of Java, by the number of its repetitions."""

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", re.DOTALL)


def is_java_pattern(pattern: str) -> bool:
    """Whether a pattern of TO_TIMESTAMP or TO_DATE is one of Java: there `mm` are minutes and `HH`
    hours up to 23, and `yyyy-MM-dd` has letters of both cases. TO_CHAR's patterns ignore case, and
    have MI and HH24."""
    if re.search("HH24|HH12|MI|mi|hh24", pattern):
        return False
    if "yyyy" in pattern and "MM" in pattern and "DD" not in pattern:
        return True
    has_small_fields = "mm" in pattern or "yyyy" in pattern or "dd" in pattern
    return has_small_fields and ("HH" in pattern or ("mm" in pattern and "MM" in pattern))


def translated_pattern(pattern: str, position: Position | None) -> str:
    """The pattern of TO_CHAR for a pattern of Java. ProgrammingError for a letter without a
    counterpart."""
    if "%" in pattern:
        raise ProgrammingError(
            f"'{pattern[:60]}' is not a pattern of Java, such as 'yyyy-MM-dd HH:mm:ss'",
            hint="use STRFTIME(x, '%Y-%m-%d')",
            position=position,
        )
    parts, at = [], 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise ProgrammingError(
                f"the pattern '{pattern[:60]}' has a quote without an end", position=position
            )
        parts.append(_translated_token(found, pattern, position))
        at = found.end()
    return "".join(parts)


def _translated_token(found: re.Match[str], pattern: str, position: Position | None) -> str:
    quoted, letter = found[1], found[2]
    if letter is not None:
        field = _FIELDS.get(letter, {}).get(len(found[0]))
        if field is None:
            raise NotSupportedError(
                f"'{found[0]}' in the pattern '{pattern[:60]}' is not supported",
                hint=f"put text in quotes, as in yyyy-MM-dd''T''HH:mm; fields are {_known()}",
                position=position,
            )
        return field
    text = found[0] if quoted is None else quoted.replace("''", "'") or "'"
    if '"' in text:
        raise NotSupportedError(
            f"a double quote in the pattern '{pattern[:60]}' is not supported", position=position
        )
    return f'"{text}"'


def _known() -> str:
    return ", ".join(letter * max(counts) for letter, counts in _FIELDS.items() if letter != "u")


def other_form(
    name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression | None:
    """A call in one of these forms; None if the function has no such form with these arguments."""
    if name in _CALLS:
        return _CALLS[name](list(arguments), position)
    return list_form(name, arguments, position)


def _function(name: str, arguments: list[Expression], position: Position | None) -> Expression:
    function = FUNCTIONS[name]
    bound, result = function.bind(name, arguments, position)
    return Call(function=name, arguments=bound, type=result, position=position)


def _count(
    name: str, arguments: Sequence[Expression], counts: range, position: Position | None
) -> None:
    if len(arguments) not in counts:
        wanted = " or ".join(map(str, counts))
        raise ProgrammingError(
            f"{name} expects {wanted} arguments, not {len(arguments)}", position=position
        )


def _pattern(name: str, argument: Expression) -> Literal:
    """The pattern of TO_CHAR for an argument, which must be a literal."""
    if not isinstance(argument, Literal) or argument.type.kind is not Kind.VARCHAR:
        raise NotSupportedError(
            f"the pattern of {name} must be a text literal",
            hint="TO_CHAR and STRFTIME accept patterns from columns",
            position=argument.position,
        )
    text = translated_pattern(str(argument.value), argument.position)
    has_offset = any("OF" in part for part in text.split('"')[::2])
    if has_offset and name not in ("TO_TIMESTAMP", "TO_DATE"):
        raise NotSupportedError(
            f"X in a pattern of {name} is not supported",
            hint="a Z that all texts have is text in quotes, as in yyyy-MM-dd''T''HH:mm:ss''Z''; "
            "STRPTIME(text, '%Y-%m-%d %H:%M:%S%z') reads an offset",
            position=argument.position,
        )
    return Literal(value=text, type=VARCHAR, position=argument.position)


def _has_java_pattern(arguments: Sequence[Expression]) -> bool:
    return (
        len(arguments) == 2
        and isinstance(arguments[1], Literal)
        and isinstance(arguments[1].value, str)
        and is_java_pattern(arguments[1].value)
    )


def _is_text(arguments: Sequence[Expression], index: int = 0) -> bool:
    return arguments[index].type.kind is Kind.VARCHAR


def _parsed(
    name: str, arguments: list[Expression], result: SqlType, position: Position | None
) -> Expression:
    """The local time that a text has by a pattern."""
    pattern = _pattern(name, arguments[1])
    parsed = _function("parse_time", [arguments[0], pattern], position)
    return parsed if result == TIMESTAMP else cast(parsed, result, position)


def _to_timestamp(arguments: list[Expression], position: Position | None) -> Expression | None:
    if len(arguments) == 1 and _is_text(arguments):
        return cast(arguments[0], TIMESTAMP, position)
    if _has_java_pattern(arguments):
        return _parsed("TO_TIMESTAMP", arguments, TIMESTAMP, position)
    return None


def _to_date(arguments: list[Expression], position: Position | None) -> Expression | None:
    if len(arguments) == 1:
        return cast(arguments[0], DATE, position)
    if _has_java_pattern(arguments):
        return _parsed("TO_DATE", arguments, DATE, position)
    return None


def _to_timestamp_ltz(arguments: list[Expression], position: Position | None) -> Expression:
    """The instant of a text in a zone or the session's one, by a pattern if there is one; or of a
    number of milliseconds, or of seconds if the second argument is 0."""
    _count("TO_TIMESTAMP_LTZ", arguments, range(1, 4 if _is_text(arguments) else 3), position)
    if _is_text(arguments):
        if len(arguments) == 1:
            return cast(arguments[0], TIMESTAMP_TZ, position)
        local = _parsed("TO_TIMESTAMP_LTZ", arguments[:2], TIMESTAMP, position)
        if len(arguments) == 3:
            return _function("at_time_zone", [local, arguments[2]], position)
        return cast(local, TIMESTAMP_TZ, position)
    number = arguments[0]
    is_seconds = False
    if len(arguments) == 2:
        digits = arguments[1].value if isinstance(arguments[1], Literal) else None
        is_seconds = digits == 0
        if digits not in (0, 3):
            raise ProgrammingError(
                "the second argument of TO_TIMESTAMP_LTZ must be 0 or 3",
                hint="0 is for seconds since 1970, 3 for milliseconds; MAKE_TIMESTAMP(n) has "
                "microseconds",
                position=arguments[1].position or position,
            )
    if is_seconds:
        number = _function("multiply", [number, Literal(value=1000, type=BIGINT)], position)
    local = _function("make_timestamp_ms", [number], position)
    return _function("at_time_zone", [local, Literal(value="UTC", type=VARCHAR)], position)


def _date_format(arguments: list[Expression], position: Position | None) -> Expression:
    _count("DATE_FORMAT", arguments, range(2, 3), position)
    time, pattern = arguments
    if time.type.kind is not Kind.TIMESTAMP:
        time = cast(time, TIMESTAMP, position)
    return _function("to_char", [time, _pattern("DATE_FORMAT", pattern)], position)


def _from_unixtime(arguments: list[Expression], position: Position | None) -> Expression:
    _count("FROM_UNIXTIME", arguments, range(1, 3), position)
    instant = _function("to_timestamp", arguments[:1], position)
    pattern = arguments[1] if len(arguments) == 2 else Literal(value=_DEFAULT, type=VARCHAR)
    return _date_format([instant, pattern], position)


def _unix_timestamp(arguments: list[Expression], position: Position | None) -> Expression:
    _count("UNIX_TIMESTAMP", arguments, range(3), position)
    if not arguments:
        time: Expression = _function("now", [], position)
    elif len(arguments) == 2:
        time = _parsed("UNIX_TIMESTAMP", arguments, TIMESTAMP, position)
    else:
        time = cast(arguments[0], TIMESTAMP, position) if _is_text(arguments) else arguments[0]
    instant = time if time.type == TIMESTAMP_TZ else cast(time, TIMESTAMP_TZ, position)
    seconds = _function(
        "div",
        [_function("epoch_us", [instant], position), Literal(value=1_000_000, type=BIGINT)],
        position,
    )
    return seconds if seconds.type == BIGINT else cast(seconds, BIGINT, position)


def _encode(arguments: list[Expression], position: Position | None) -> Expression | None:
    if len(arguments) == 1 and _is_text(arguments):
        return cast(arguments[0], VARBINARY, position)
    if len(arguments) == 2 and _is_text(arguments) and _names_utf8(arguments[1], position):
        return cast(arguments[0], VARBINARY, position)
    return None


def _decode(arguments: list[Expression], position: Position | None) -> Expression | None:
    is_binary = len(arguments) > 0 and arguments[0].type.kind is Kind.VARBINARY
    is_utf8 = len(arguments) == 1 or (
        is_binary and len(arguments) == 2 and _names_utf8(arguments[1], position)
    )
    if is_binary and is_utf8:
        return _function("from_utf8", arguments[:1], position)
    return None


def _names_utf8(charset: Expression, position: Position | None) -> bool:
    """Whether an argument is the name of UTF-8; false for the formats of ENCODE and for what is no
    literal, ProgrammingError for another encoding."""
    value = charset.value if isinstance(charset, Literal) else None
    if not isinstance(value, str):
        return False
    if value.upper() in ("UTF-8", "UTF8"):
        return True
    if value.lower() in ("hex", "base64", "escape"):
        return False
    raise ProgrammingError(
        "texts are encoded in UTF-8 alone",
        hint="write 'UTF-8'; ENCODE(bytes, 'hex') writes bytes as text",
        position=charset.position or position,
    )


def _hex(arguments: list[Expression], position: Position | None) -> Expression | None:
    """The digits of a number; HEX of texts and bytes is another function."""
    if len(arguments) != 1 or not arguments[0].type.is_integer:
        return None
    return _function("upper", [_function("to_hex", arguments, position)], position)


def _nulls_order(argument: Expression) -> Expression:
    """The third argument of ARRAY_SORT, in Flink whether NULLs come first, as a text."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, bool):
        return argument
    text = "NULLS FIRST" if argument.value else "NULLS LAST"
    return Literal(value=text, type=VARCHAR, position=argument.position)


def _sort_of(name: str) -> Callable[[list[Expression], Position | None], Expression | None]:
    """DuckDB's LIST_SORT(x, 'DESC', 'NULLS FIRST'), and Flink's ARRAY_SORT(x, FALSE), under one of
    the names."""

    def sort(arguments: list[Expression], position: Position | None) -> Expression | None:
        if len(arguments) < 2:
            return None
        _count(name, arguments, range(1, 4), position)
        order = arguments[1].value if isinstance(arguments[1], Literal) else None
        if isinstance(order, str):
            order = {"ASC": True, "DESC": False}.get(order.upper())
        if not isinstance(order, bool):
            raise ProgrammingError(
                f"the order of {name} must be 'ASC' or 'DESC', or TRUE for ascending",
                position=arguments[1].position or position,
            )
        function = "array_sort" if order else "array_reverse_sort"
        nulls = [_nulls_order(item) for item in arguments[2:]]
        return _function(function, [arguments[0], *nulls], position)

    return sort


def _substring(arguments: list[Expression], position: Position | None) -> Expression | None:
    """PostgreSQL's SUBSTRING(s FROM pattern): the match, or the first group if there is one. A
    literal that is a number is no pattern."""
    pattern = arguments[1] if len(arguments) == 2 else None
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    if re.fullmatch(r"\s*[-+]?[0-9]+\s*", pattern.value) or not _is_text(arguments):
        return None
    from runnel.expressions.text.regex_syntax import regex_of

    try:
        group = min(regex_of(pattern.value).groups, 1)
    except DataError as error:
        raise ProgrammingError(
            error.message, hint=error.hint, position=pattern.position or position
        ) from None
    one = Literal(value=1, type=BIGINT)
    options = [one, one, Literal(value="", type=VARCHAR), Literal(value=group, type=BIGINT)]
    return _function("regexp_substr", [*arguments, *options], position)


def _make_date(arguments: list[Expression], position: Position | None) -> Expression | None:
    """DuckDB's MAKE_DATE(days since 1970), and MAKE_DATE of a ROW of year, month and day."""
    if len(arguments) != 1:
        return None
    if arguments[0].type.kind is Kind.ROW:
        names = (Literal(value=name, type=VARCHAR) for name in ("year", "month", "day"))
        fields = [_function("field", [arguments[0], name], position) for name in names]
        return _function("make_date", fields, position)
    epoch = Literal(value=date(1970, 1, 1), type=DATE)
    return _function("add", [epoch, arguments[0]], position)


def _test_of(name: str) -> Callable[[list[Expression], Position | None], Expression | None]:
    """DuckDB's ISFINITE and ISINF of dates and timestamps, which are all finite here."""

    def test(arguments: list[Expression], position: Position | None) -> Expression | None:
        if len(arguments) != 1 or arguments[0].type.kind not in _DATED:
            return None
        epoch = Literal(value="epoch", type=VARCHAR)
        return _function(name, [_function("extract", [epoch, arguments[0]], position)], position)

    return test


_DATED = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)


def _array_prepend(arguments: list[Expression], position: Position | None) -> Expression | None:
    """Flink has the array first, PostgreSQL and DuckDB have it last."""
    if len(arguments) != 2 or arguments[0].type.kind is not Kind.ARRAY:
        return None
    if arguments[1].type.kind is Kind.ARRAY:
        return None
    return _function("array_prepend", arguments[::-1], position)


def _element_at(arguments: list[Expression], position: Position | None) -> Expression | None:
    """Of a MAP, a list with the value of a key, as in DuckDB; empty without the key."""
    if len(arguments) != 2 or arguments[0].type.kind is not Kind.MAP:
        return None
    value = _function("array", [_function("subscript", arguments, position)], position)
    has_key = _function("map_contains", arguments, position)
    nothing = Literal(value=[], type=value.type, position=position)
    return Case(conditions=(has_key,), results=(value,), otherwise=nothing, type=value.type)


def _time_bucket(arguments: list[Expression], position: Position | None) -> Expression | None:
    """Of a DATE, a DATE, as in DuckDB."""
    if len(arguments) < 2 or arguments[1].type.kind is not Kind.DATE:
        return None
    bound = _function("date_bin", arguments, position)
    return Cast(operand=bound, type=DATE, implicit=True, position=position)


_CALLS: dict[str, Callable[[list[Expression], Position | None], Expression | None]] = {
    "TO_TIMESTAMP": _to_timestamp,
    "TO_DATE": _to_date,
    "DATE_FORMAT": _date_format,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "FROM_UNIXTIME": _from_unixtime,
    "UNIX_TIMESTAMP": _unix_timestamp,
    "ENCODE": _encode,
    "DECODE": _decode,
    "HEX": _hex,
    "MAKE_DATE": _make_date,
    "ELEMENT_AT": _element_at,
    "TIME_BUCKET": _time_bucket,
    "ISFINITE": _test_of("is_finite"),
    "ISINF": _test_of("is_inf"),
    "LIST_SORT": _sort_of("LIST_SORT"),
    "ARRAY_SORT": _sort_of("ARRAY_SORT"),
    "ARRAY_PREPEND": _array_prepend,
    "SUBSTRING": _substring,
}
