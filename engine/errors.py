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
from typing import Any, NoReturn, Self, TypeVar

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

    `sqlstate` of the class is the code of the SQL standard with five characters; None: it has none.
    """

    default_code = ErrorCode.GENERIC
    sqlstate: str | None = None
    is_refusal = False
    """Whether another engine refused to run the fragment that it was given."""

    def __new__(cls, *args: Any, code: ErrorCode | None = None, **options: Any) -> Self:
        kind: Any = cls if code is None else _OF_CODE.get((cls, code), cls)
        made: Self = super().__new__(kind, *args)
        return made

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
    sqlstate = "22000"


class OperationalError(DatabaseError):
    """Input and output, timeouts, cancellation, lack of memory: not caused by the statement. An
    error with code GENERIC is permanent; a job does not restart after it."""

    default_code = ErrorCode.INPUT_OUTPUT
    sqlstate = "58000"


class FetchTimeoutError(OperationalError):
    """No row arrived within the timeout of a fetch. The query continues, and no row is lost: the
    next fetch returns the row that this one waited for."""

    default_code = ErrorCode.TIMEOUT


class IntegrityError(DatabaseError):
    """A constraint that is violated, such as a key that exists already."""

    default_code = ErrorCode.DUPLICATE_KEY
    sqlstate = "23000"


class InternalError(DatabaseError):
    """A fault of Runnel itself; please report it."""

    default_code = ErrorCode.INTERNAL
    sqlstate = "XX000"


class ProgrammingError(DatabaseError):
    """Wrong syntax, an unknown name, a type that doesn't fit."""

    default_code = ErrorCode.PARSING
    sqlstate = "42000"

    def of_stage(self, kind: type[ProgrammingError]) -> None:
        """Sets the class of the stage that raised the error, unless it has one of its own."""
        if type(self) is ProgrammingError:
            self.__class__ = kind


class NotSupportedError(DatabaseError):
    """Valid SQL that Runnel does not support."""

    default_code = ErrorCode.NOT_SUPPORTED
    sqlstate = "0A000"


# Causes, by the names of DuckDB's exceptions, and below them by PostgreSQL's names for SQLSTATEs,
# as in psycopg.errors. Each is a class of PEP 249, too.


class ParserException(ProgrammingError):
    """The text of a statement has no valid syntax."""

    sqlstate = "42601"


class BinderException(ProgrammingError):
    """The names, types or clauses of a statement do not fit together."""


class UndefinedColumn(BinderException):
    """A column does not exist."""

    sqlstate = "42703"


class AmbiguousColumn(BinderException):
    """Several columns have the name."""

    sqlstate = "42702"


class GroupingError(BinderException):
    """A column that is neither grouped nor aggregated, or a misplaced aggregate."""

    sqlstate = "42803"


class CatalogException(ProgrammingError):
    """A table, function or other object does not exist, or exists already."""


class UndefinedObject(CatalogException):
    """An object that is no table, column or function does not exist."""

    default_code = ErrorCode.OBJECT_NOT_FOUND
    sqlstate = "42704"


class DependencyException(CatalogException):
    """Other objects use the object."""

    sqlstate = "2BP01"


class UndefinedTable(UndefinedObject):
    """A table, a view or another object with rows does not exist."""

    sqlstate = "42P01"


class UndefinedFunction(UndefinedObject):
    """A function does not exist."""

    sqlstate = "42883"


class InvalidSchemaName(UndefinedObject):
    """A schema does not exist."""

    sqlstate = "3F000"


class DuplicateObject(CatalogException):
    """An object exists already."""

    sqlstate = "42710"


class DuplicateTable(DuplicateObject):
    """A table, a view or another object with rows exists already."""

    sqlstate = "42P07"


class DuplicateSchema(DuplicateObject):
    """A schema exists already."""

    sqlstate = "42P06"


class DuplicateColumn(DuplicateObject):
    """A column exists already, or is listed twice."""

    sqlstate = "42701"


class PermissionException(ProgrammingError):
    """The caller may not do this."""

    default_code = ErrorCode.NOT_ALLOWED
    sqlstate = "42501"


class InvalidInputException(ProgrammingError):
    """Arguments that do not fit the statement."""


class ArgumentsError(InterfaceError, InvalidInputException):
    """A number or form of arguments that the statement does not have."""

    sqlstate = "07001"


class ConversionException(DataError):
    """A value can't be converted to a type."""

    sqlstate = "22018"


class InvalidTextRepresentation(ConversionException):
    """A text is no value of a type."""

    sqlstate = "22P02"


class OutOfRangeException(DataError):
    """A value is out of the range of its type."""

    sqlstate = "22003"


class CastOutOfRange(ConversionException, OutOfRangeException):
    """A number is out of the range of the type to which it is converted."""

    sqlstate = "22003"


class DivisionByZero(DataError):
    """A division by zero."""

    sqlstate = "22012"


class UniqueViolation(IntegrityError):
    """A row with the key exists already."""

    sqlstate = "23505"


class ForeignKeyViolation(IntegrityError):
    """A foreign key refers to no row, or rows refer to one that would be deleted."""

    sqlstate = "23503"


class NotNullViolation(IntegrityError):
    """A column that must not be NULL has no value."""

    sqlstate = "23502"


class CheckViolation(IntegrityError):
    """The condition of a CHECK is false."""

    sqlstate = "23514"


class IOException(OperationalError):
    """Reading or writing a file failed."""

    sqlstate = "58030"


class UndefinedFile(IOException):
    """A file, folder or table of another system does not exist."""

    default_code = ErrorCode.OBJECT_NOT_FOUND
    sqlstate = "58P01"


class ConnectionException(OperationalError):
    """Another process can't be reached, or owns the data."""

    default_code = ErrorCode.CONNECTION_PROBLEM
    sqlstate = "08000"


class OutOfMemoryException(OperationalError):
    """The memory does not suffice."""

    default_code = ErrorCode.OUT_OF_MEMORY
    sqlstate = "53200"


class QueryCanceled(OperationalError):
    """The statement was cancelled, or has timed out."""

    default_code = ErrorCode.TIMEOUT
    sqlstate = "57014"


class InterruptException(QueryCanceled):
    """The statement was cancelled."""

    default_code = ErrorCode.CANCELLED


class TransactionException(OperationalError):
    """A transaction can't continue: another one has changed the same rows, or it has failed."""

    sqlstate = "40001"


class TransactionState(ProgrammingError, TransactionException):
    """BEGIN in a transaction, or COMMIT and ROLLBACK without one."""

    default_code = ErrorCode.PARSING
    sqlstate = "25000"


_OF_CODE: dict[tuple[type[Error], ErrorCode], type[Error]] = {
    (ProgrammingError, ErrorCode.OBJECT_NOT_FOUND): UndefinedObject,
    (OperationalError, ErrorCode.OBJECT_NOT_FOUND): UndefinedFile,
    (OperationalError, ErrorCode.CONNECTION_PROBLEM): ConnectionException,
    (OperationalError, ErrorCode.OUT_OF_MEMORY): OutOfMemoryException,
    (OperationalError, ErrorCode.TIMEOUT): QueryCanceled,
    (OperationalError, ErrorCode.CANCELLED): InterruptException,
    (ProgrammingError, ErrorCode.NOT_ALLOWED): PermissionException,
}
"""The class of an error that is made by its PEP 249 class with a code."""

ConstraintException = IntegrityError
NotImplementedException = FeatureNotSupported = NotSupportedError
InternalException = InternalError
SyntaxException = SyntaxError = ParserException
NumericValueOutOfRange = OutOfRangeException
CannotCoerce = ConversionException
DependentObjectsStillExist = DependencyException
IoError = IOException
OutOfMemory = OutOfMemoryException
SerializationFailure = TransactionException
InsufficientPrivilege = PermissionException


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
    # Loaded on first use: most statements do not fail.
    from runnel.base.excerpts import excerpt, shortened_text

    parts = [shortened_text(error.message)]
    if error.position is not None and error.sql is not None:
        lines = error.sql.split("\n")
        if error.position.line <= len(lines):
            at = error.position
            parts.extend(excerpt(lines[at.line - 1], at.line, at.column, at.length))
    if error.detail:
        parts.append(f"DETAIL: {shortened_text(error.detail)}")
    if error.hint:
        parts.append(f"HINT: {shortened_text(error.hint)}")
    return "\n".join(parts).encode("utf-8", "backslashreplace").decode()


def suggest(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint with the known name nearest to `name`, or `otherwise` if none is near."""
    # Loaded on first use: only a hint needs it.
    from runnel.base.nearest import nearest

    near = nearest(name, known)
    return f'did you mean "{near}"?' if near is not None else otherwise


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
