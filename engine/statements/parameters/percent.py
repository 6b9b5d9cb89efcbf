"""Parameters that are written `%s` or `%(name)s`, of `connect(paramstyle='pyformat')`.

The text of a statement becomes one with `?` before it is run. Offsets in the text stay the same, so
that errors point at what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from runnel.base.frozen import frozen
from runnel.errors import (
    ArgumentsError,
    InterfaceError,
    NotSupportedError,
    Position,
    ProgrammingError,
    suggest,
)
from runnel.statements.arguments import Arguments, checked, checked_rows

if TYPE_CHECKING:
    from runnel.base.forks import ProcessOrigin
    from runnel.statements.call import Engine, Outcome, StartedStatement

OnStarted: TypeAlias = "Callable[[StartedStatement], object]"

PERCENT_STYLES = ("format", "pyformat")
STYLES = ("qmark", "named", *PERCENT_STYLES)

_ELEMENT = re.compile(
    r"""
    (?P<string>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*")
    | (?P<ignored>--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | %(?P<kind>%|s|\((?P<key>[^()]*)\)s)
    | (?P<wrong>%\(?\w?|\?)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_TEXT = re.compile(r"%(%|s|\([^()]*\)s|.?)", re.DOTALL)


@frozen
class PercentText:
    """A statement with parameters in percent style.

    sql: the same statement with `?`.
    keys: the name of each `?`; None: the values are given in order.
    offsets: the offset of each `?`.
    """

    sql: str
    keys: tuple[str, ...] | None
    offsets: tuple[int, ...]

    def values(self, args: Arguments, number: int | None = None) -> tuple[Any, ...]:
        """The values of each `?`; InterfaceError naming the one that is missing or unused. `number`
        is the position of the arguments in the lists of executemany."""
        where = None if number is None else f"in argument list {number}"
        if not isinstance(args, Mapping):
            values = checked(args, number)
            if self.keys is not None and self.offsets:
                raise ArgumentsError(
                    f"the value of %({self.keys[0]})s is given by its name",
                    hint="pass a dictionary",
                    detail=where,
                    position=self._position(0),
                )
            self._check_count(len(values), where)
            return values
        if self.keys is None and self.offsets:
            raise ArgumentsError(
                "the values of %s are given in order, not as a dictionary",
                hint="pass a tuple or a list, or write %(name)s in the statement",
                detail=where,
                position=self._position(0),
            )
        keys = self.keys or ()
        for index, key in enumerate(keys):
            if key not in args:
                raise ArgumentsError(
                    f"there is no value for the parameter %({key})s",
                    hint=suggest(key, [name for name in args if isinstance(name, str)])
                    or f'add "{key}" to the dictionary',
                    detail=where,
                    position=self._position(index),
                )
        unused = next((name for name in args if name not in keys), None)
        if unused is not None:
            raise ArgumentsError(
                f"the statement has no parameter {unused!r}",
                hint=(isinstance(unused, str) and suggest(unused, keys))
                or "its parameters are written %(name)s",
                detail=where,
            )
        return tuple([args[key] for key in keys])

    def _check_count(self, found: int, where: str | None) -> None:
        expected = len(self.offsets)
        if found == expected:
            return
        detail = (
            f"there is no value for %s, parameter {found + 1}"
            if found < expected
            else f"no parameter of the statement uses argument {expected + 1}"
        )
        raise ArgumentsError(
            f"unexpected parameter count: expected {expected}, got {found}",
            detail=detail if where is None else f"{detail}; {where}",
            hint="give one argument for each parameter of the statement",
            position=self._position(found) if found < expected else None,
        )

    def _position(self, index: int) -> Position:
        offset = self.offsets[index]
        return Position.at(self.sql, offset, 2 if self.keys is None else len(self.keys[index]) + 4)


@lru_cache(maxsize=1000)
def percent_text(sql: str) -> PercentText:
    """Reads a statement with `%s` or `%(name)s`. `%%` is a percent sign, also in texts.
    ProgrammingError for another use of the sign."""
    chunks: list[str] = []
    keys: list[str] = []
    offsets: list[int] = []
    end = 0
    for match in _ELEMENT.finditer(sql):
        chunks.append(sql[end : match.start()])
        end = match.end()
        written = match.group()
        if match["kind"] == "%":
            chunks.append("% ")
        elif match["kind"] is not None:
            if offsets and bool(keys) != (match["key"] is not None):
                raise _wrong(sql, match.start(), written, "%s and %(name)s can't be mixed")
            offsets.append(match.start())
            if match["key"] is not None:
                keys.append(match["key"])
            chunks.append("?".ljust(len(written)))
        elif match["wrong"] is not None:
            raise _wrong(sql, match.start(), written, f'syntax error at "{written}"')
        elif match["string"] is not None or match["name"] is not None:
            chunks.append(_in_text(sql, match.start(), written))
        else:
            chunks.append(written)
    chunks.append(sql[end:])
    return PercentText("".join(chunks), tuple(keys) if keys else None, tuple(offsets))


def _in_text(sql: str, offset: int, written: str) -> str:
    """A string or quoted name with single percent signs, as long as before."""
    for match in _IN_TEXT.finditer(written):
        if match[1] != "%":
            raise _wrong(
                sql, offset + match.start(), match[0], f'"{match[0]}" in quotes is no parameter'
            )
    return written.replace("%%", "%").ljust(len(written))


def _wrong(sql: str, offset: int, written: str, message: str) -> ProgrammingError:
    return ProgrammingError(
        message,
        hint="with arguments, a parameter is written %s or %(name)s, and a percent sign %%",
        position=Position.at(sql, offset, len(written)),
    )


class PercentEngine:
    """Runs statements with parameters in percent style on another engine. A statement without
    arguments is run as it is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def is_closed(self) -> bool:
        return self._engine.is_closed

    @property
    def origin(self) -> ProcessOrigin:
        return self._engine.origin

    def check_open(self) -> None:
        self._engine.check_open()

    def run(self, sql: str, args: Arguments, timeout: float | None, on_start: OnStarted) -> Outcome:
        if isinstance(args, tuple | list | Mapping) and not args:
            return self._engine.run(sql, (), timeout, on_start)
        text = percent_text(sql)
        return self._engine.run(text.sql, text.values(args), timeout, on_start)

    def run_many(
        self,
        sql: str,
        seq_of_args: Iterable[Arguments],
        timeout: float | None,
        on_start: OnStarted,
    ) -> int:
        text = percent_text(sql)
        rows, names = checked_rows(seq_of_args)
        if names is not None:
            keys = text.values(dict(zip(names, range(len(names)), strict=True)))
            rows = [tuple([row[index] for index in keys]) for row in rows]
        elif rows:
            text.values(rows[0])
        return self._engine.run_many(text.sql, rows, timeout, on_start)


def is_percent_style(paramstyle: object) -> bool:
    """Whether a style of parameters is one of this module's; InterfaceError if it doesn't
    exist."""
    if paramstyle in STYLES:
        return paramstyle in PERCENT_STYLES
    if paramstyle == "numeric":
        raise NotSupportedError(
            'paramstyle "numeric", with :1, is not supported', hint="write $1, without paramstyle"
        )
    raise InterfaceError(
        f"paramstyle is {', '.join(STYLES[:-1])} or {STYLES[-1]}, not {paramstyle!r}",
        hint="without it, parameters are written ?, $1 or :name",
    )
