"""PRINTF, and FORMAT with braces: texts with numbers in a given form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from string import Formatter
from typing import Any

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import convert
from runnel.expressions.function import Bound, Function, always_may_fail
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Expression
from runnel.sqltypes import VARCHAR, Kind, can_cast

_SPECIFIER = re.compile(r"%(?:%|([-+ #0,']*)(\d*)(?:\.(\d*))?(?:hh|h|ll|l)?([a-zA-Z]))")
_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?(\d*)[,_']?(?:\.(\d+))?[a-zA-Z%]?", re.DOTALL)
_WIDEST = 10_000


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Numbers and truth values are passed as they are, everything else as text."""
    shown = "PRINTF" if name == "printf" else "FORMAT"
    if not arguments:
        raise ProgrammingError(f"{shown} expects at least 1 argument, not 0", position=position)
    if arguments[0].type.kind not in (Kind.VARCHAR, Kind.NULL):
        raise ProgrammingError(
            f"argument 1 of {shown} must be VARCHAR, not {arguments[0].type}",
            hint="add an explicit CAST",
            position=arguments[0].position or position,
        )
    for item in arguments:
        if not can_cast(item.type, VARCHAR) or item.type.kind is Kind.VARBINARY:
            raise ProgrammingError(
                f"{shown} doesn't accept {item.type}", position=item.position or position
            )
    return (
        convert(arguments[0], VARCHAR),
        *(
            item
            if item.type.is_numeric or item.type.kind is Kind.BOOLEAN
            else convert(item, VARCHAR)
            for item in arguments[1:]
        ),
    ), VARCHAR


def _text(value: Any) -> Any:
    """A truth value as text; other values as they are."""
    return ("true" if value else "false") if isinstance(value, bool) else value


def _printf(pattern: str, *values: Any) -> str:
    following = iter(values)
    found: list[str] = []
    end = 0
    for match in re.finditer("%", pattern):
        if match.start() < end:
            continue
        found.append(pattern[end : match.start()])
        specifier = _SPECIFIER.match(pattern, match.start())
        if specifier is None:
            raise DataError(
                f"PRINTF doesn't know '{pattern[match.start() : match.start() + 6]}'",
                hint="it knows %d, %s, %f, %e, %g, %x, %X, %o, %c and %%",
            )
        end = specifier.end()
        found.append("%" if specifier[0] == "%%" else _specified(specifier, following))
    return "".join([*found, pattern[end:]])


def _specified(specifier: re.Match[str], values: Iterator[Any]) -> str:
    flags, width, precision, kind = specifier.groups()
    value = _text(next(values, None))
    if value is None:
        raise DataError("PRINTF has too few arguments")
    _check_width(width, precision)
    is_number = isinstance(value, (int, float, Decimal))
    if kind == "s" and is_number:
        value, is_number = str(value), False
    if (kind in "sc") == is_number and not (kind == "c" and isinstance(value, int)):
        raise DataError(f"PRINTF can't write {value!r} as %{kind}")
    if kind in "dixXoc" and not isinstance(value, (int, str)):
        raise DataError(
            f"PRINTF can't write {value} as %{kind}", hint="use %f, or round it and CAST to BIGINT"
        )
    if kind not in "dixXocsfFeEgG":
        raise DataError(
            f"PRINTF doesn't know %{kind}",
            hint="it knows %d, %s, %f, %e, %g, %x, %X, %o, %c and %%",
        )
    grouped = "," in flags or "'" in flags
    plain = flags.replace(",", "").replace("'", "")
    if grouped and kind in "dif":
        digits = f".{precision or 6}f" if kind == "f" else "d"
        text = format(value, ("+" if "+" in plain else "") + "," + digits)
        return text.ljust(int(width or 0)) if "-" in plain else text.rjust(int(width or 0))
    point = "" if precision is None else f".{precision}"
    return f"%{plain}{width}{point}{kind}" % (value,)


def _check_width(*numbers: str | None) -> None:
    if any(int(item or 0) > _WIDEST for item in numbers):
        raise DataError(f"the width of a value must be at most {_WIDEST}")


def _braces(pattern: str, *values: Any) -> str:
    """`{}`, `{2}` and `{:…}` with the forms of fmt; the numbers of arguments begin at 0."""
    try:
        fields = list(Formatter().parse(pattern))
    except ValueError as error:
        raise DataError(f"the pattern of FORMAT is wrong: {error}") from None
    texts: list[str] = []
    following = 0
    for text, name, spec, conversion in fields:
        texts.append(text)
        if name is None:
            continue
        if conversion or (name and not name.isdigit()):
            raise DataError(
                f"FORMAT doesn't know {{{name}}}", hint="write {} or the number of an argument: {0}"
            )
        index = int(name) if name else following
        following += not name
        if index >= len(values):
            raise DataError("FORMAT has too few arguments")
        texts.append(_braced(_text(values[index]), spec or ""))
    return "".join(texts)


def _braced(value: Any, spec: str) -> str:
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise DataError(f"FORMAT doesn't know {{:{spec}}}", hint="write {:5}, {:.2f} or {:,}")
    _check_width(match[1], match[2])
    if isinstance(value, Decimal) and spec and spec[-1] not in "fF%":
        value = float(value)
    try:
        return format(value, spec.replace("'", ","))
    except ValueError:
        raise DataError(f"FORMAT can't write {value!r} as {{:{spec}}}") from None


def _function(name: str, run: Any, *, sql_names: tuple[str, ...]) -> Function:
    return Function(
        name=name,
        arguments="pattern VARCHAR, x ANY, …",
        result="VARCHAR",
        bind=_bind,
        compile=per_value(run),
        sql_names=sql_names,
        can_fail=always_may_fail,
        family="string",
    )


FUNCTIONS = (
    _function("printf", _printf, sql_names=("PRINTF",)),
    _function("format_braces", _braces, sql_names=()),
)
