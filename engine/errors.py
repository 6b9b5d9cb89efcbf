"""The exception tree of PEP 249, the conversion of other exceptions, and the rendering of an error.

Every error carries a code, a detail, a hint and, if the SQL text caused it, a position in it. An
error names the object, its kind and the remedy; it has no side effects (no logging, no reporting).
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, wraps
from inspect import iscoroutinefunction
from typing import Any, NoReturn, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ErrorCode(IntEnum):
    """Numeric codes, compatible with the codes of Hazelcast SQL; codes from 3001 are Runnel's."""

    GENERIC = -1
    CONNECTION_PROBLEM = 1001
    CANCELLED = 1003
    TIMEOUT = 1004
    PARSING = 1008
    INDEX_INVALID = 1009
    OBJECT_NOT_FOUND = 1010
    RESTARTABLE = 1012
    DATA_EXCEPTION = 2000
    DUPLICATE_KEY = 2001
    NOT_SUPPORTED = 2002
    INPUT_OUTPUT = 2003
    INTERFACE = 2004
    INTERNAL = 2005
    OUT_OF_MEMORY = 2006
    POSITION_EXPIRED = 3001
    NOT_ALLOWED = 3002


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the SQL text.

    line: line number, from 1.
    column: number of the character in its line, from 1.
    offset: number of the character in the text, from 0.
    length: number of characters, at least 1.
    """

    line: int
    column: int
    offset: int
    length: int = 1

    @staticmethod
    def at(sql: str, offset: int, length: int = 1) -> Position:
        """The position of the character at `offset` in `sql`."""
        starts = _line_starts(sql)
        line = bisect_right(starts, offset)
        return Position(line, offset - starts[line - 1] + 1, offset, max(length, 1))


@lru_cache(maxsize=1)
def _line_starts(sql: str) -> tuple[int, ...]:
    """The offsets at which the lines of the text begin. Cached for the last text: a statement may
    have thousands of literals, each with a position."""
    return (0, *(place + 1 for place, character in enumerate(sql) if character == "\n"))


class Warning(Exception):
    """Important warnings, such as truncated data (PEP 249)."""


class Error(Exception):
    """The base class of every error that Runnel raises (PEP 249).

    message: one lower-case sentence without a final dot.
    code: numeric code; by default the code of the class.
    detail: additional facts.
    hint: what the user can do about it.
    position: position in `sql`.
    sql: text of the statement, set by the cursor.
    """

    default_code = ErrorCode.GENERIC
    is_refusal = False
    """Whether another engine refused to run the fragment that it was given."""

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        detail: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.detail = detail
        self.hint = hint
        self.position = position
        self.sql: str | None = None

    def __str__(self) -> str:
        return render(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message,), self.__dict__)


def may_succeed_here(error: Error) -> bool:
    """Whether a fragment failed on another engine for lack of memory, or was refused: Runnel's own
    operators may be able to run it."""
    return error.is_refusal or error.code is ErrorCode.OUT_OF_MEMORY


class InterfaceError(Error):
    """The DB-API was misused: a closed cursor, a fetch without a result, a wrong number of
    arguments."""

    default_code = ErrorCode.INTERFACE


class DatabaseError(Error):
    """Everything that fails in the statement, its data, or the engine."""


class DataError(DatabaseError):
    """Overflow, division by zero, a failing cast, a value that doesn't fit its column."""

    default_code = ErrorCode.DATA_EXCEPTION


class OperationalError(DatabaseError):
    """Input and output, timeouts, cancellation, lack of memory: not caused by the statement. An
    error with code GENERIC is permanent; a job does not restart after it."""

    default_code = ErrorCode.INPUT_OUTPUT


class FetchTimeoutError(OperationalError):
    """No row arrived within the timeout of a fetch. The query continues, and no row is lost: the
    next fetch returns the row that this one waited for."""

    default_code = ErrorCode.TIMEOUT


class IntegrityError(DatabaseError):
    """A key that exists already."""

    default_code = ErrorCode.DUPLICATE_KEY


class InternalError(DatabaseError):
    """A fault of Runnel itself; please report it."""

    default_code = ErrorCode.INTERNAL


class ProgrammingError(DatabaseError):
    """Wrong syntax, an unknown name, a type that doesn't fit."""

    default_code = ErrorCode.PARSING


class NotSupportedError(DatabaseError):
    """Valid SQL that Runnel does not support."""

    default_code = ErrorCode.NOT_SUPPORTED


def fail(error: BaseException, sql: str | None) -> NoReturn:
    """Raises the error as the user is to see it."""
    raise presentable(error, sql)


_debugging = {"on": os.environ.get("RUNNEL_DEBUG", "") not in ("", "0")}


def set_debug(on: bool) -> None:
    """Whether the traceback of an error shows the functions of Runnel and the exceptions inside it,
    and not only the user's code. It is also turned on by RUNNEL_DEBUG=1 in the environment."""
    _debugging["on"] = bool(on)


def shorten(error: BaseException) -> None:
    """Removes the inside of Runnel from the traceback of an error, unless debugging is on. Called
    where an error leaves a public function, which then executes a bare `raise`."""
    if not _debugging["on"]:
        # Loaded on first use: most statements do not fail.
        from runnel.base.tracebacks import shortened

        shortened(error)


def short_errors(function: _Function) -> _Function:
    """Decorates a public function: `shorten` for its errors."""
    if iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                shorten(error)
                raise

        return awaited  # type: ignore[return-value]

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            shorten(error)
            raise

    return called  # type: ignore[return-value]


def presentable(error: BaseException, sql: str | None) -> BaseException:
    """The error with the statement's text; an exception that is not a PEP 249 error becomes the
    cause of one."""
    if isinstance(error, Error):
        if error.sql is None:
            error.sql = sql
        return error
    if not isinstance(error, Exception):
        return error
    shown: Error
    if isinstance(error, MemoryError):
        shown = OperationalError("out of memory", detail=str(error) or None)
    elif isinstance(error, RecursionError):
        shown = OperationalError(
            "the statement is nested too deeply", hint="write it with fewer levels of nesting"
        )
    elif isinstance(error, UnicodeError):
        shown = DataError(
            "a text isn't valid Unicode",
            detail=str(error),
            hint="correct the text where it comes from",
        )
    else:
        shown = internal(f"unexpected {type(error).__name__}", detail=str(error) or None)
    shown.sql = sql
    shown.__cause__ = error
    return shown


def exception_text(error: BaseException) -> str:
    """The class and the text of an exception of user code, which may be unable to return a text."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def render(error: Error) -> str:
    """The whole text of an error: message, excerpt of the SQL, detail, hint. It can be printed
    whatever it quotes: lone surrogates are shown as escapes."""
    parts = [_shortened(error.message)]
    if error.position is not None and error.sql is not None:
        lines = error.sql.split("\n")
        if error.position.line <= len(lines):
            parts.extend(_excerpt(lines[error.position.line - 1], error.position))
    if error.detail:
        parts.append(f"DETAIL: {_shortened(error.detail)}")
    if error.hint:
        parts.append(f"HINT: {_shortened(error.hint)}")
    return "\n".join(parts).encode("utf-8", "backslashreplace").decode()


_LONGEST_TEXT = 1000
"""Maximum number of characters shown of a message, a detail or a hint, which may quote a value of
any length."""

_WIDEST_EXCERPT = 160
"""Maximum number of characters shown of a line of SQL, around the position."""

_BEFORE_POSITION = 60
"""Number of characters shown before a position that is far to the right."""


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} … {text[-half:]}"


def _excerpt(line: str, position: Position) -> tuple[str, str]:
    """The line with its number, and the line of marks below it."""
    line = "".join(
        character if character.isprintable() or "\ud800" <= character <= "\udfff" else " "
        for character in line
    )
    line = line.rstrip()
    label, start = f"LINE {position.line}: ", position.column - 1
    if len(line) > _WIDEST_EXCERPT:
        first = max(0, start - _BEFORE_POSITION)
        last = first + _WIDEST_EXCERPT
        opening, closing = "… " if first else "", " …" if last < len(line) else ""
        line = opening + line[first:last] + closing
        room = len(line) - len(closing) - (start := start - first + len(opening))
    else:
        room = len(line) - start
    marked = max(1, min(position.length, room))
    before, below = line[:start], line[start : start + marked]
    marks = "^" * max(1, marked + _extra_width(below))
    return f"{label}{line}", " " * (len(label) + start + _extra_width(before)) + marks


def _extra_width(text: str) -> int:
    """The number of columns that a text occupies on a terminal beyond its number of characters:
    one more for each wide character, one less for each that combines with the one before it."""
    if text.isascii():
        return 0
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(character) in "WF" for character in text)
    return wide - sum(combining(character) > 0 for character in text)


def suggest(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint with the known name nearest to `name`, or `otherwise` if none is near."""
    near = nearest(name, known)
    return f'did you mean "{near}"?' if near is not None else otherwise


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs from `name` by the fewest letters, ignoring case; None if it
    differs by more than a third of the longer name, and no name contains the second one."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    lower = name.lower()
    # Loaded on first use: only a hint needs it.
    from difflib import get_close_matches

    likely = get_close_matches(lower, by_lower, n=5, cutoff=0.6)
    distances = {word: _distance(lower, word) for word in likely}
    near = [
        word
        for word in likely
        if 3 * distances[word] <= max(len(lower), len(word), 3) or word in lower or lower in word
    ]
    return by_lower[min(near, key=distances.__getitem__)] if near else None


def _distance(first: str, second: str) -> int:
    """The number of letters to insert, delete, replace, or swap with the next one."""
    # Rows of the table of distances between prefixes, for "form" and "from":
    #   ""     [0, 1, 2, 3, 4]
    #   f      [1, 0, 1, 2, 3]
    #   fo     [2, 1, 1, 1, 2]
    #   for    [3, 2, 1, 1, 2], where "or" and "ro" are one swap
    #   form   [4, 3, 2, 2, 1]
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        following = [i]
        for j, other in enumerate(second, 1):
            cost = min(row[j] + 1, following[-1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return row[-1]


_RESERVED = frozenset(
    "all alter and any as between by case create cross current_date current_time "
    "current_timestamp current_user distinct drop else except false fetch for force from glob "
    "grant having ilike inner insert install intersect into join lateral like limit localtime "
    "localtimestamp map not notnull null offset on only or order outer positional qualify "
    "regexp returning revoke rlike rollback select session_user summarize table tablesample "
    "then true uncache union using when where window with xor".split()
)
"""The words that are no names of columns or tables without quotes, in lower case."""


def as_written(name: str) -> str:
    """A name as it is written in SQL: quoted if it is not an identifier, or a reserved word."""
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _RESERVED
        else '"' + name.replace('"', '""') + '"'
    )


HIDDEN = "****"
"""Replacement for a hidden value."""
_USER = re.compile(r"""(://[^/:@\s]*):[^\s'",;]+@""")
"""A password may contain characters that end an address, such as "/" and "@". Hiding too much is
preferred to hiding too little."""
_PARAMETER = re.compile(
    r"""(\b(?:password|passwd|pwd|secret|token|sig|(?:x-amz-)?(?:signature|credential|security-token)|accountkey|sharedaccesskey)=)"""
    r"""[^&;\s'"]+""",
    re.IGNORECASE,
)


def without_password(text: str) -> str:
    """A text for people, such as a URL, with passwords hidden."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1:{HIDDEN}@", text))


ERROR_MARK = "[data error] "
"""Prefix of the messages that generated SQL raises in another engine. It distinguishes them from
the engine's own errors when these are translated."""


def internal(message: str, detail: str | None = None) -> InternalError:
    """An error for a fault in Runnel, with the request to report it."""
    return InternalError(
        f"internal error: {message}",
        detail=detail,
        hint="please report this with the statement, and with the traceback that RUNNEL_DEBUG=1 "
        "in the environment shows",
    )


def position_expired(
    message: str, *, detail: str | None = None, hint: str | None = None
) -> OperationalError:
    """The error for an expired position: the source has deleted or overwritten the rows after it.
    `message` names the partition and the position, `detail` the rows that still exist."""
    return OperationalError(
        message,
        code=ErrorCode.POSITION_EXPIRED,
        detail=detail,
        hint=(
            f"{'' if hint is None else hint + '; or '}let the job continue with the rows that "
            "exist: ALTER JOB … OPTIONS ('expiredPosition'='earliest') RESUME; "
            "with 'latest', with rows that arrive from now on"
        ),
    )
